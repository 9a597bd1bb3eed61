"""Deduplication of messages: by the caller's id, and by producer sequence numbers.

``DedupWindow`` remembers the ids of messages for a while, with the offset of the first
one.  ``ProducerTable`` checks the sequence numbers of idempotent producers, per
partition, by Kafka's rules:

      producer 7, epoch 0      last batches: 40-44 at offset 100, 45-49 at 117
                               next sequence: 50

      50, 5 records   -> NEW
      45, 5 records   -> DUPLICATE, at 117        (a retry after a lost response, if the records are the same)
      10, 5 records   -> SequenceReused           (older than the batches kept: no client retries that)
      52, 5 records   -> SequenceOutOfOrder       (50 and 51 are missing)
      epoch -1        -> ProducerFenced           (a newer epoch has written)

Both are rebuilt from the log after a restart, so they hold nothing that is
not written there; both take the time as an argument.

Invariants:

    D1  an id is seen exactly while its age is below the window, unless
        ``ids_max`` made it go early (counted in ``forgotten_early``)
    D2  a sequence number is accepted once per epoch

The caller, which has the bytes of both, verifies a duplicate (``broker/publish/repeats.py``): some clients
reuse the numbers of an aborted batch.

Cost: DedupWindow is O(1) a call, also in the worst case: forgetting is spread
over the calls.  An id costs its text (49 bytes + 1 for each ASCII character)
and about 90 more, in all some 180 bytes for a UUID.  ProducerTable is O(1) a
call (five batches are looked at); a producer costs about 730 bytes.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

from penstock.errors import ProducerFenced, SequenceOutOfOrder, SequenceReused
from penstock.wire.records import SEQUENCES

FORGET_STEP: Final = 4  # Ids forgotten a call at most: more than the one it adds, so the window drains.

PARTITION_BITS: Final = 20  # A place is packed into one int, which takes a third of a tuple.
OFFSET_BITS: Final = 64

NEW: Final = 0
DUPLICATE: Final = 1

BATCHES_KEPT: Final = 5  # As many as a Kafka producer may have under way.
PRODUCER_EXPIRY_MS: Final = 24 * 3600 * 1000  # Kafka's default: an idle producer is forgotten after a day.


class DedupWindow:
    """The ids of the last ``window_ms`` (0: none), at most ``ids_max``, and where each was stored."""

    def __init__(self, window_ms: int, ids_max: int) -> None:
        assert window_ms >= 0
        assert ids_max > 0
        self.window_ms = window_ms
        self.ids_max = ids_max
        self.forgotten_early = 0  # Ids dropped for want of room, not of age.
        self._packed: dict[str, int] = {}  # Time, partition, offset and scheduled, packed.
        self._order: deque[str] = deque()  # The same ids, oldest first.
        self._first_ms = 0  # Time of the first of them; means nothing if there is none.

    def __len__(self) -> int:
        return len(self._packed)

    def seen(self, dedup_id: str, now_ms: int) -> tuple[int, int, bool] | None:
        """Where the message with this id went: partition, offset, and whether that is of the schedule."""
        self._forget(now_ms, FORGET_STEP)
        packed = self._packed.get(dedup_id, -1)
        if packed < 0 or _time_ms(packed) + self.window_ms <= now_ms:
            return None
        scheduled = packed & 1 == 1
        offset = packed >> 1 & ((1 << OFFSET_BITS) - 1)
        return _partition(packed), offset, scheduled

    def add(
        self, dedup_id: str, partition: int, offset: int, timestamp_ms: int, scheduled: bool = False
    ) -> None:
        """Remember an id from ``timestamp_ms`` on; one that is known already gets the new place and time.

        Times should rise: an id that is added late in order is forgotten late
        in memory, though never seen too long.
        """
        self._forget(timestamp_ms, FORGET_STEP)
        packed = timestamp_ms << PARTITION_BITS | partition
        packed = packed << OFFSET_BITS | offset
        packed = packed << 1 | (1 if scheduled else 0)
        if dedup_id not in self._packed:
            if len(self._packed) >= self.ids_max:
                self._drop_first()  # Not for its age, or it would be gone by now.
                self.forgotten_early += 1
            self._order.append(dedup_id)
        self._packed[dedup_id] = packed
        if self._order[0] == dedup_id:
            self._first_ms = timestamp_ms

    def time_ms(self, dedup_id: str) -> int:
        """When the id was last added; -1 if it is not remembered."""
        packed = self._packed.get(dedup_id, -1)
        return _time_ms(packed) if packed >= 0 else -1

    def forget(self, now_ms: int) -> int:
        """Forget every id that is too old, at once; return how many."""
        return self._forget(now_ms, len(self._order))

    def forget_partition(self, partition: int) -> None:
        """Forget the ids of a partition that is not here any more."""
        kept = {known: packed for known, packed in self._packed.items() if _partition(packed) != partition}
        self._order = deque([known for known in self._order if known in kept])
        self._packed = kept
        if self._order:
            self._first_ms = _time_ms(kept[self._order[0]])

    def _forget(self, now_ms: int, limit: int) -> int:
        count = 0
        while count < limit and self._packed and self._first_ms + self.window_ms <= now_ms:
            self._drop_first()
            count += 1
        return count

    def _drop_first(self) -> None:
        order = self._order
        del self._packed[order.popleft()]
        if order:
            self._first_ms = _time_ms(self._packed[order[0]])


def _time_ms(packed: int) -> int:
    return packed >> (PARTITION_BITS + OFFSET_BITS + 1)


def _partition(packed: int) -> int:
    return packed >> (1 + OFFSET_BITS) & ((1 << PARTITION_BITS) - 1)


class KnownProducer:
    """What one producer last wrote to this partition."""

    __slots__ = ("batches", "epoch", "last_sequence", "timestamp_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.last_sequence = -1  # Of its last record; -1 before the first batch of the epoch.
        self.timestamp_ms = 0
        self.batches: list[
            tuple[int, int, int]
        ] = []  # Base sequence, last sequence, base offset; newest last.


class ProducerTable:
    """The idempotent producers of one partition."""

    def __init__(self, expiry_ms: int = PRODUCER_EXPIRY_MS) -> None:
        self.expiry_ms = expiry_ms
        self._producers: dict[int, KnownProducer] = {}
        self._oldest_ms = 0  # No producer is older; lets expire() do nothing most of the time.

    def __len__(self) -> int:
        return len(self._producers)

    def check(self, producer_id: int, epoch: int, base_sequence: int, count: int) -> tuple[int, int]:
        """(NEW, -1), or (DUPLICATE, base offset of the first one, -1 if none of it is in the log).

        A producer that is not known may start anywhere: its state may have
        expired, or been deleted with the log.  A new epoch starts at 0.
        """
        producer = self._producers.get(producer_id)
        if producer is None:
            return NEW, -1
        if epoch < producer.epoch:
            raise ProducerFenced(producer_id=producer_id, epoch=epoch, current=producer.epoch)
        if epoch > producer.epoch:
            expected = 0
        else:
            last = _last_of(base_sequence, count)
            for batch_base, batch_last, base_offset in reversed(producer.batches):
                # One that was written in parts is known by the last of them.
                if batch_last == last and (last - batch_base) % SEQUENCES < count:
                    return DUPLICATE, base_offset
            if _is_old(producer.last_sequence, last):
                why = "it is not one of the last batches"
                raise SequenceReused(producer_id=producer_id, sequence=base_sequence, why=why)
            expected = (producer.last_sequence + 1) % SEQUENCES
        if base_sequence != expected:
            raise SequenceOutOfOrder(producer_id=producer_id, sequence=base_sequence, expected=expected)
        return NEW, -1

    def next_sequence(self, producer_id: int, epoch: int) -> int:
        """The sequence number of the next record of a producer that the broker numbers itself."""
        producer = self._producers.get(producer_id)
        if producer is None or producer.epoch != epoch:
            return 0
        return (producer.last_sequence + 1) % SEQUENCES

    def check_internal(self, producer_id: int, base_sequence: int, count: int) -> int:
        """NEW or DUPLICATE for a producer that leaves gaps: whatever comes after the last one is new.

        For the broker's own outbox, which is redone as a whole after a crash.
        Its batches are redone as they were, so a part of one is never new.
        """
        producer = self._producers.get(producer_id)
        if producer is None or not _is_old(producer.last_sequence, _last_of(base_sequence, count)):
            return NEW
        return DUPLICATE

    def record(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        count: int,
        base_offset: int,
        timestamp_ms: int,
    ) -> None:
        """A batch was written.  Also the way to rebuild the table: replay the log's batches in order."""
        producer = self._producers.get(producer_id)
        if producer is None or producer.epoch != epoch:
            producer = KnownProducer(epoch)
        last = _last_of(base_sequence, count)
        producer.last_sequence = last
        producer.batches.append((base_sequence, last, base_offset))
        if len(producer.batches) > BATCHES_KEPT:
            producer.batches.pop(0)
        producer.timestamp_ms = timestamp_ms
        self._keep(producer_id, producer)

    def end_epoch(self, producer_id: int, epoch: int, timestamp_ms: int) -> None:
        """A transaction ended in this epoch; a newer epoch fences producers with an older one."""
        producer = self._producers.get(producer_id)
        if producer is None or producer.epoch != epoch:
            producer = KnownProducer(epoch)
        producer.timestamp_ms = timestamp_ms
        self._keep(producer_id, producer)

    def expire(self, now_ms: int) -> int:
        """Forget the producers that have been idle too long; return how many."""
        if not self._producers or now_ms - self._oldest_ms < self.expiry_ms:
            return 0
        kept: dict[int, KnownProducer] = {}
        oldest_ms = now_ms
        for producer_id, producer in self._producers.items():
            if now_ms - producer.timestamp_ms < self.expiry_ms:
                kept[producer_id] = producer
                oldest_ms = min(oldest_ms, producer.timestamp_ms)
        count = len(self._producers) - len(kept)
        self._producers = kept
        self._oldest_ms = oldest_ms
        return count

    def snapshot(self) -> list[tuple[Any, ...]]:
        """All producers as plain values, equal for equal tables."""
        return [
            (
                producer_id,
                producer.epoch,
                producer.last_sequence,
                producer.timestamp_ms,
                list(producer.batches),
            )
            for producer_id, producer in sorted(self._producers.items(), key=_first)
        ]

    def restore(self, snapshot: Iterable[Sequence[Any]]) -> None:
        """Restore the table from a snapshot; lists may stand for tuples, as in msgpack."""
        self._producers.clear()
        for producer_id, epoch, last_sequence, timestamp_ms, batches in snapshot:
            producer = KnownProducer(epoch)
            producer.last_sequence = last_sequence
            producer.timestamp_ms = timestamp_ms
            for base_sequence, last, base_offset in batches:
                producer.batches.append((base_sequence, last, base_offset))
            self._keep(producer_id, producer)

    def _keep(self, producer_id: int, producer: KnownProducer) -> None:
        self._producers[producer_id] = producer
        if len(self._producers) == 1 or producer.timestamp_ms < self._oldest_ms:
            self._oldest_ms = producer.timestamp_ms


def _last_of(base_sequence: int, count: int) -> int:
    return (base_sequence + count - 1) % SEQUENCES


def _is_old(last_sequence: int, sequence: int) -> bool:
    """Whether ``sequence`` is at or before the last one written; half the circle is before it."""
    return (last_sequence - sequence) % SEQUENCES < SEQUENCES // 2


def _first(item: tuple[int, KnownProducer]) -> int:
    return item[0]
