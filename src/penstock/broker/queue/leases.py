"""Leases messages of queue groups to consumers, and takes ranges back.

    partitions ──> lease a range ──> read its records ──> filter ──> messages
                        │                                    │
                        │ ordered groups: one message        └── compacted, expired, or redriven for
                        │ whose key is free                      another group: settled here
                        └── buffered in the journal

A lease is only buffered in the journal: losing it in a crash costs an attempt count.
Filtered messages are settled immediately, so a group never waits for them.  A range that
cannot be read is offered again later, and the messages around it are delivered.

Cost: one lease and one journal record for each range, whatever its length.  A step
examines at most ``LOOKS_MAX`` ranges that had nothing for the consumer, so that a long
run of expired messages does not delay others.
"""

from typing import Any, Final

from penstock.broker.journal.journal import Journal
from penstock.broker.queue.dead_letters import DeadLetters
from penstock.broker.state import GroupConsumer, GroupCursor, Partition, State, Topic
from penstock.broker.storage.replay import finish, remember_failure
from penstock.delivery import events
from penstock.delivery.engine import Lease
from penstock.delivery.retries import PARKED_MS
from penstock.errors import NotCached, PenstockError
from penstock.log.reader import BATCH_RECORDS_MIN, PLAIN_BYTES_MIN
from penstock.model.failure import NO_FAILURE, Failure
from penstock.model.message import LOOK_INSIDE, Delivery, all_plain, last_header
from penstock.wire.headers import EXPIRES_AT, REDRIVE_GROUP
from penstock.wire.native import LeasedBatch
from penstock.wire.records import EXPIRES, REDRIVEN, Record, max_timestamp_of
from penstock.wire.rewriting import encode_records

READ_RETRY_MS: Final = 1000  # A range that cannot be read is offered again after this.
LOOKS_MAX: Final = 1000  # Some milliseconds of work.
PARTITIONS_MAX: Final = 100  # That one answer has messages of; each is a read of another file.


def leased_batch(
    partition: int, lease: Lease, data: bytes, records: list[Record] | None = None
) -> LeasedBatch:
    """The batch that a lease hands out."""
    batch = LeasedBatch(partition, lease.number, lease.attempt, lease.start, lease.end, data)
    if records is not None:
        batch.records = records
    return batch


class ReceiveBuffer:
    """What one receive of a consumer has so far, and the room that is left."""

    __slots__ = ("bytes_left", "full", "messages", "published_ms", "room")

    def __init__(self, limit: int, bytes_max: int) -> None:
        self.messages: list[Any] = []
        self.published_ms = 0  # The oldest of what was added last.
        self.room = limit  # In messages.
        self.bytes_left = bytes_max
        self.full = False  # What comes next would not fit.


class Leases:
    """The leases of all queue groups."""

    def __init__(self, state: State, dead_letters: DeadLetters) -> None:
        self._state = state
        self._dead_letters = dead_letters
        self.looks_left = 0  # Of the current step; 0 after it: there may be more to find.

    def take(self, topic: Topic, consumer: GroupConsumer, limit: int) -> list[Any]:
        """Lease messages of the partitions, beginning with another partition each time."""
        now_ms = self._state.clock.steady_ms()
        consumer.group.maybe_sample(now_ms)
        buffer = ReceiveBuffer(limit, min(self._state.config.receive_bytes_max, consumer.bytes_max))
        partitions = self._partitions(topic, consumer)
        count = len(partitions)
        self.looks_left = LOOKS_MAX
        if consumer.key_batches:
            consumer.key_batches.clear()
        left, taken = PARTITIONS_MAX, 0
        for step in range(count):
            cursor = partitions[(consumer.turn + step) % count].groups[consumer.group.name]
            try:
                self._take_from(cursor, consumer, buffer, now_ms)
            except NotCached:
                continue  # It is being fetched, and offered again by then.
            except PenstockError:
                if not buffer.messages:
                    raise
                break  # What was taken before is handed over; the damage is there at the next call.
            if buffer.full or buffer.room <= 0 or buffer.bytes_left <= 0:
                break
            if len(buffer.messages) > taken:
                taken = len(buffer.messages)
                left -= 1
                if left == 0:
                    consumer.turn += step
                    break
        consumer.turn += 1
        return buffer.messages

    def _partitions(self, topic: Topic, consumer: GroupConsumer) -> list[Partition]:
        """The partitions that the consumer wants; ``NotOwner`` if all of them are elsewhere."""
        if consumer.wanted is None:
            return topic.partitions.owned
        here = [partition for partition in topic.partitions.owned if partition.number in consumer.wanted]
        if not here:
            for number in consumer.wanted:
                topic.partition(number)
        return here

    def _take_from(
        self, cursor: GroupCursor, consumer: GroupConsumer, buffer: "ReceiveBuffer", now_ms: int
    ) -> None:
        """Add messages of one partition; none while the next ones are being fetched from the store."""
        if cursor.partition.log.fetching(cursor.engine.end()) is not None:
            return
        journal_of(cursor).make_room()
        consumer.followers.clear()
        average_bytes = cursor.partition.log.average_bytes if buffer.room > 1 else 1
        while buffer.room > 0 and buffer.bytes_left > 0 and self.looks_left > 0 and not buffer.full:
            room = min(buffer.room, buffer.bytes_left // average_bytes + 1)
            if consumer.leases_singly:
                room = 1
            if room > 1:
                room = min(room, cursor.partition.log.fitting(cursor.engine.end(), buffer.bytes_left))
            if consumer.locks_max:
                room = min(room, consumer.locks_max - cursor.engine.in_flight)
                if room <= 0:
                    cursor.full = True
                    break
            lease = self._lease(cursor, consumer, room, now_ms)
            if lease is None:
                break
            count = self._hand_over(cursor, consumer, lease, buffer, now_ms)
            if count == 0:
                self.looks_left -= 1
                continue  # All of it had expired, or is not for this group.
            buffer.room -= count
            exact = consumer.takes_batches and not consumer.takes_records
            buffer.bytes_left -= len(buffer.messages[-1].data) if exact else average_bytes * count
            consumer.in_flight += count
            waited_ms = self._state.clock.wall_ms() - buffer.published_ms
            consumer.group.handed_out(count, lease.attempt, waited_ms)

    def _hand_over(
        self, cursor: GroupCursor, consumer: GroupConsumer, lease: Lease, buffer: "ReceiveBuffer", now_ms: int
    ) -> int:
        """Add what the lease holds for the consumer; return how many messages that are."""
        partition = cursor.partition
        plain_topic = partition.topic.settings.ttl_ms is None and cursor.gate is None
        if consumer.takes_batches and not consumer.takes_records and plain_topic:
            data = self._batches(partition, lease)
            if data and (not consumer.bytes_exact or len(data) <= buffer.bytes_left):
                buffer.messages.append(leased_batch(partition.number, lease, data))
                buffer.published_ms = max_timestamp_of(data)
                return lease.end - lease.start
        records = self._read(cursor, lease, now_ms)
        if not records:
            return 0
        buffer.published_ms = records[0].timestamp
        if consumer.takes_records:
            buffer.messages.append(leased_batch(partition.number, lease, b"", records))
        elif consumer.bytes_exact:
            return self._hand_over_fitting(cursor, consumer, lease, records, buffer, now_ms)
        elif consumer.takes_batches:
            buffer.messages.append(leased_batch(partition.number, lease, encode_records(records)))
        else:
            delivery = Delivery(
                partition.topic.name, partition.number, cursor.group, lease.number, lease.start, lease.end,
                lease.attempt, consumer.settler,
            )  # fmt: skip
            buffer.messages += consumer.wrap(delivery, records)
        return len(records)

    def _hand_over_fitting(
        self, cursor: GroupCursor, consumer: GroupConsumer, lease: Lease, records: list[Record],
        buffer: "ReceiveBuffer", now_ms: int,
    ) -> int:  # fmt: skip
        """Add the first records that fit, and give back the others; return how many were added.

        The attempt of what is given back does not count, and it is the next to go out.
        """
        least = 1 if consumer.one_at_least and not buffer.messages else 0
        count = len(records)
        data = encode_records(records)
        while len(data) > buffer.bytes_left and count > least:
            count = max(min(count - 1, count * buffer.bytes_left // len(data)), least)
            data = encode_records(records[:count]) if count > 0 else b""
        if count == len(records):
            buffer.messages.append(leased_batch(cursor.partition.number, lease, data))
            return count
        cut = records[count].offset
        for start, end in lease.unsettled():
            if end > cut:
                self.take_back(
                    cursor, lease, max(start, cut), end, lease.attempt, now_ms, events.RELEASED, now_ms
                )
        if count > 0:
            batch = leased_batch(cursor.partition.number, lease, data)
            batch.end = cut
            buffer.messages.append(batch)
        buffer.full = True
        cursor.partition.topic.wake()  # Others may have room for it.
        return count

    def _batches(self, partition: Partition, lease: Lease) -> bytes:
        """The lease's batches as they are stored; empty if its records have to be decoded."""
        log = partition.log
        count = lease.end - lease.start
        if count < BATCH_RECORDS_MIN and log.average_bytes < PLAIN_BYTES_MIN:
            return b""
        try:
            return log.plain_batches(lease.start, lease.end, LOOK_INSIDE, count * log.average_bytes)
        except PenstockError:
            return b""

    def _lease(self, cursor: GroupCursor, consumer: GroupConsumer, limit: int, now_ms: int) -> Lease | None:
        if now_ms >= self._state.lease.lease_ms or now_ms < cursor.partition.deliver_from_ms:
            return None  # Another node may own the partition by now, or may still deliver (rule 25).
        while True:
            high = cursor.high
            if cursor.gate is not None:
                lease = self._lease_ordered(cursor, consumer, now_ms)
            else:
                lease = cursor.engine.lease(limit, high, now_ms, consumer.visibility_ms, consumer.number)
            if lease is None:
                return None
            self._note(cursor, lease, consumer, now_ms)
            if lease.end <= high:
                return lease
            self._postpone(cursor, lease, high, now_ms)

    def _note(self, cursor: GroupCursor, lease: Lease, consumer: GroupConsumer, now_ms: int) -> None:
        event = events.Leased(
            cursor.number, lease.number, lease.start, lease.end, lease.attempt, lease.deadline_ms,
            consumer.identity,
        )  # fmt: skip
        journal_of(cursor).note(event, now_ms)
        if not 0 <= cursor.alarm_ms <= lease.deadline_ms:
            self._state.alarms.set(cursor, cursor.engine.next_due_ms(now_ms))
        if self._state.flush.alarm_ms < 0:
            self._state.alarms.set(self._state.flush, now_ms + 1000)

    def _lease_ordered(self, cursor: GroupCursor, consumer: GroupConsumer, now_ms: int) -> Lease | None:
        """Lease one message whose key is free; those whose key is busy wait in its line."""
        gate, engine = cursor.gate, cursor.engine
        assert gate is not None
        deadline_ms = now_ms + consumer.visibility_ms
        lease = self._lease_follower(cursor, consumer, deadline_ms)
        if lease is not None:
            return lease
        while cursor.unparked:
            offset = cursor.unparked.popleft()
            attempt = engine.waiting_attempt(offset)
            if attempt > 0:  # Else it was settled or skipped while it stood in line.
                _begin_key(cursor, consumer, offset)
                return engine.restore_lease(
                    engine.next_number, offset, offset + 1, attempt, deadline_ms, consumer.number
                )
        while True:
            high = cursor.high if gate.waiting < self._state.config.deferred_max else 0
            lease = engine.lease(1, high, now_ms, consumer.visibility_ms, consumer.number)
            if lease is None:
                return None
            try:
                records = cursor.records(lease.start, lease.end)
            except PenstockError:
                self._note(cursor, lease, consumer, now_ms)
                again_ms = now_ms + READ_RETRY_MS
                self.take_back(
                    cursor, lease, lease.start, lease.end, lease.attempt, again_ms, events.RELEASED, now_ms
                )
                raise
            key = records[0].key if records else None
            if key is None:
                return lease
            if gate.holds(lease.start) or gate.admit(lease.start, key):
                _begin_key(cursor, consumer, lease.start)
                return lease
            if consumer.key_batches and key in consumer.key_batches:
                return lease  # It is next in line behind what this receive has got.
            self._note(cursor, lease, consumer, now_ms)
            self.take_back(
                cursor, lease, lease.start, lease.end, lease.attempt, PARKED_MS, events.DEFERRED, now_ms
            )

    def _lease_follower(self, cursor: GroupCursor, consumer: GroupConsumer, deadline_ms: int) -> Lease | None:
        """Lease the next message in the line of the key that this receive got last."""
        engine, gate = cursor.engine, cursor.gate
        if not consumer.followers or gate is None or consumer.key_batches is None:
            return None
        offset = consumer.followers.popleft()
        attempt = engine.waiting_attempt(offset)
        if attempt <= 0:
            consumer.followers.clear()
            key = gate.key_of(offset)
            if key is not None:
                consumer.key_batches.discard(key)  # Nothing of it may overtake that one.
            return None
        return engine.restore_lease(
            engine.next_number, offset, offset + 1, attempt, deadline_ms, consumer.number
        )

    def take_back(
        self, cursor: GroupCursor, lease: Lease, start: int, end: int, attempt: int, due_ms: int, why: int,
        now_ms: int, failure: Failure = NO_FAILURE,
    ) -> None:  # fmt: skip
        """Journal and apply: these offsets of the lease are delivered again as ``attempt``."""
        event = events.GivenBack(
            cursor.number, lease.number, start, end, attempt, due_ms, why,
            failure.error_class, failure.message, failure.fingerprint, lease.attempt,
        )  # fmt: skip
        journal_of(cursor).note(event, now_ms)
        cursor.engine.give_back(lease.number, start, end, attempt, due_ms)
        remember_failure(cursor, event, self._state.clock.wall_ms())

    def _postpone(self, cursor: GroupCursor, lease: Lease, high: int, now_ms: int) -> None:
        """Give back a lease that has messages of an open transaction, and offer these again later.

        They were delivered before the group was changed to read committed messages only.
        """
        later_ms = now_ms + READ_RETRY_MS
        for start, end in lease.unsettled():
            for first, last, due_ms in (
                (start, min(end, high), now_ms), (max(start, high), end, later_ms),
            ):  # fmt: skip
                if first < last:
                    self.take_back(cursor, lease, first, last, lease.attempt, due_ms, events.RELEASED, now_ms)
        self._state.alarms.set(cursor, cursor.engine.next_due_ms(now_ms))

    # What a lease holds.

    def _read(self, cursor: GroupCursor, lease: Lease, now_ms: int) -> list[Record]:
        """The records of a lease that this group should get; the others are settled here."""
        partition = cursor.partition
        try:
            records = cursor.records(lease.start, lease.end)
        except NotCached:
            again_ms = now_ms + READ_RETRY_MS
            for start, end in lease.unsettled():
                self.take_back(cursor, lease, start, end, lease.attempt, again_ms, events.RELEASED, now_ms)
            self._state.alarms.set(cursor, cursor.engine.next_due_ms(now_ms))
            raise
        except PenstockError:
            return self._read_around(cursor, lease, now_ms)
        if partition.topic.settings.ttl_ms is None and all_plain(records, lease.end - lease.start):
            return records
        return self._fitting(cursor, lease, records, now_ms)

    def _read_around(self, cursor: GroupCursor, lease: Lease, now_ms: int) -> list[Record]:
        """Read a lease of which a part is damaged: give that part back for later, and return the rest."""
        good: list[Record] = []
        failure: PenstockError | None = None
        for offset in range(lease.start, lease.end):
            try:
                records = cursor.records(offset, offset + 1)
                if not records:
                    self._skip(cursor, lease, offset, offset + 1, events.SKIPPED, now_ms)
                good += [record for record in records if self._fits(cursor, lease, record, now_ms)]
            except PenstockError as error:
                failure = error
                again_ms = now_ms + READ_RETRY_MS
                self.take_back(
                    cursor, lease, offset, offset + 1, lease.attempt, again_ms, events.RELEASED, now_ms
                )
        self._state.alarms.set(cursor, cursor.engine.next_due_ms(now_ms))
        if failure is not None and not good:
            raise failure
        return good

    def _fitting(self, cursor: GroupCursor, lease: Lease, records: list[Record], now_ms: int) -> list[Record]:
        fitting: list[Record] = []
        position = lease.start
        for record in records:
            self._skip(cursor, lease, position, record.offset, events.SKIPPED, now_ms)
            position = record.offset + 1
            if self._fits(cursor, lease, record, now_ms):
                fitting.append(record)
        self._skip(cursor, lease, position, lease.end, events.SKIPPED, now_ms)
        return fitting

    def _fits(self, cursor: GroupCursor, lease: Lease, record: Record, now_ms: int) -> bool:
        """Whether the group should get the record; if not, it is settled here."""
        offset = record.offset
        if record.attributes & REDRIVEN:
            wanted = last_header(record.headers, REDRIVE_GROUP)
            if wanted not in (b"", cursor.group.encode()):
                self._skip(cursor, lease, offset, offset + 1, events.SKIPPED, now_ms)
                return False
        if _expired(record, cursor.partition.topic.settings.ttl_ms, self._state.clock.wall_ms()):
            self._expire(cursor, lease, offset, now_ms)
            return False
        return True

    def _skip(self, cursor: GroupCursor, lease: Lease, start: int, end: int, how: int, now_ms: int) -> None:
        """Settle what is not delivered: compacted, expired or redriven for another group."""
        if start < end:
            event = events.Settled(cursor.number, lease.number, start, end, how)
            journal_of(cursor).note(event, now_ms)
            cursor.engine.settle(lease.number, start, end)
            finish(cursor, start, end)

    def _expire(self, cursor: GroupCursor, lease: Lease, offset: int, now_ms: int) -> None:
        topic = cursor.partition.topic
        topic.groups[cursor.group].expired += 1
        if not topic.settings.dead_letter_expired:
            self._skip(cursor, lease, offset, offset + 1, events.EXPIRED, now_ms)
            return
        last = cursor.settings.max_attempts + 1
        self.take_back(cursor, lease, offset, offset + 1, last, now_ms, events.OUTLIVED, now_ms)
        self._dead_letters.bury_soon(cursor)


def _begin_key(cursor: GroupCursor, consumer: GroupConsumer, offset: int) -> None:
    """A receive that may have several messages of a key has got the first."""
    gate = cursor.gate
    if consumer.key_batches is not None and gate is not None:
        key = gate.key_of(offset)
        if key is not None:
            consumer.key_batches.add(key)
            consumer.followers.extend(gate.line(offset))


def journal_of(cursor: GroupCursor) -> Journal:
    """The journal of the group's partition; it exists since the first group."""
    journal = cursor.partition.journal
    assert journal is not None
    return journal


def _expired(record: Record, ttl_ms: int | None, wall_ms: int) -> bool:
    if ttl_ms is not None and record.timestamp + ttl_ms <= wall_ms:
        return True
    if not record.attributes & EXPIRES:
        return False
    expires_at = last_header(record.headers, EXPIRES_AT)
    return expires_at.isdigit() and int(expires_at) <= wall_ms
