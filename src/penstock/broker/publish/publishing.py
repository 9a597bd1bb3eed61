"""Publishing: validate, choose the partition, append, wait until durable, answer.

    publish        one message
    publish_batch  many; those for the same partition and lane become one record batch
    append         a record batch encoded by a client (a producer, a front end)
    drain_outbox   batches that the journal says must be published: dead letters, redrives, outputs of an ack

A message that is not due goes to the partition's schedule instead of its log.
A message whose dedup id was seen within the window is not written; the answer is the
offset of the first one.  Nothing of a batch is written unless all of it is valid; a
disk that fills up in the middle may leave the partitions that were already written.

A producer's batch whose headers set options is written in parts: to the schedule, and a
batch for each lane.  The last part has the producer's sequence numbers, so they are in the log only if all
parts are; and the parts have dedup ids, so parts that survived a crash are not written again.

A batch encoded by a client is appended unchanged after all its records are validated
(``wire/validation.py``): small batches at once, large ones in a thread while other operations run.  Later
batches for the same partition wait for it and keep their order (``append_order.py``).

System headers, which the broker adds to the caller's own:
``x-expires-at`` and ``x-dedup-id`` (see ``docs/format/record-batch.md``).
"""

from collections.abc import Iterable
from typing import Any, Final, cast

from penstock.broker.health.rates import SAMPLE_MS
from penstock.broker.publish.append_order import append_queues, forget_empty
from penstock.broker.publish.doubtful import is_doubtful, verified
from penstock.broker.publish.header_options import MessageWithHeaders, messages_with_options, part_id
from penstock.broker.publish.incoming import (
    Look,
    any_large,
    check_bytes,
    check_repeat,
    check_small,
    key_missing,
    limits_of,
    look_closely,
)
from penstock.broker.state import Partition, State, Topic
from penstock.broker.steps import Arrival, Durable, GiveWay, Steps, Written, aside
from penstock.broker.storage.producer_snapshot import save_producer_snapshot
from penstock.broker.storage.recovery import open_schedule
from penstock.broker.topic.depth import topic_depth
from penstock.broker.topic.missing import MissingTopics
from penstock.broker.turns import Turn
from penstock.delivery import dedup
from penstock.errors import (
    InvalidValue,
    KeyMissing,
    MetadataStale,
    PenstockError,
    QueueFull,
)
from penstock.groups.transactions import check_write
from penstock.log.log import Log
from penstock.model.message import Message, Receipt, bare_values, receipts_from
from penstock.model.placing import ANYWHERE, CODECS, Placed, check_size, dedup_bytes, due_ms, placed
from penstock.schedule.schedule import Schedule
from penstock.types import ttl_ms
from penstock.wire.headers import DEDUP_ID, EXPIRES_AT
from penstock.wire.records import (
    APPEND_TIME,
    DEDUP,
    EXPIRES,
    REDRIVEN,
    SCHEDULED,
    SEQUENCES,
    TRANSACTIONAL,
    BatchBuilder,
    Header,
    check_batch,
    decode_batch,
    encode_values,
    read_header,
    seal_batch,
    stamp_batch,
)
from penstock.wire.validation import Limits

# What a batch says about headers that only the broker adds: nobody else may say it.
OURS: Final = SCHEDULED | EXPIRES | DEDUP | REDRIVEN
OUTBOX_RETRY_MS: Final = 1000
APPENDED_SLICE: Final = 50  # Batches that are appended before others have a turn; each may begin a file.


class Appended(Receipt):
    """What clients of another protocol are told of a batch."""

    def __init__(self, receipt: Receipt, log_start: int, append_ms: int) -> None:
        super().__init__(
            receipt.topic,
            receipt.partition,
            receipt.offset,
            receipt.timestamp,
            receipt.schedule_id,
            receipt.duplicate,
        )
        self.log_start = log_start  # The first offset that the partition has.
        self.append_ms = append_ms  # The time that all its records got from the log; -1: they have their own.


class Publishing:
    def __init__(self, state: State, missing: MissingTopics) -> None:
        self._state = state
        self._missing = missing

    def publish(self, name: Any, message: Message) -> Steps[Receipt]:
        """Take one message; the receipt comes when it is as durable as the topic promises."""
        topic = self._state.find(name)
        if topic is None:
            topic = yield from self._missing.create(name, message.partition)
        if topic.settings.depth_max is not None:
            yield from self.wait_for_room(topic, 1)
        now_ms = self._state.clock.wall_ms()
        prepared = self.prepare(topic, message, now_ms)
        if prepared.dedup_id is not None:
            duplicate = self._duplicate(topic, prepared.dedup_id, now_ms)
            if duplicate is not None:
                yield from self._until_durable(topic, duplicate)
                return duplicate
        if prepared.due_ms >= 0:
            receipt = self._schedule(topic, prepared, now_ms)
        else:
            receipt = self._append_one(topic, prepared, now_ms)
        yield from self._until_durable(topic, receipt)
        return receipt

    def publish_batch(self, name: Any, messages: Iterable[Any]) -> Steps[list[Receipt]]:
        """Take many messages; one receipt each, in their order."""
        topic = self._state.find(name)
        if topic is None:
            topic = yield from self._missing.create(name)
        batch = list(messages)
        if topic.settings.depth_max is not None:
            yield from self.wait_for_room(topic, len(batch))
        now_ms = self._state.clock.wall_ms()
        anywhere = self._any_partition(topic)
        values = bare_values(batch, topic.settings.message_bytes_max)
        if values and not topic.settings.compact:
            partition = topic.partitions[anywhere]
            receipts = self._append_values(topic, partition, values, now_ms)
            yield from _durable(partition)
            return receipts
        prepared = [
            self._prepare(
                topic, message if isinstance(message, Message) else Message(message), now_ms, anywhere
            )
            for message in batch
        ]
        # Looked up before anything is written or waited for: one may be closed meanwhile, or not be here.
        partitions = [topic.partitions[number] for number in {item.partition: None for item in prepared}]
        receipts = self._write(topic, prepared, now_ms)
        if topic.settings.durability == "fsync":
            for partition in partitions:
                yield from _durable(partition)
        return receipts

    def append(self, name: Any, number: Any, data: Any) -> Steps[Receipt]:
        """Take a record batch as it is; a producer's repeat is answered with the first one's place."""
        topic = self._state.find(name)
        if topic is None:
            topic = yield from self._missing.create(name, number)
        topic.partition(number)
        check_bytes(data)
        [answer] = yield from self._append_all(topic, [Look(topic, number, data)], True, False, None)
        if not isinstance(answer, Receipt):
            raise answer
        return answer

    def append_batches(
        self, name: Any, version: int, batches: list[tuple[int, bytes]], wait: bool
    ) -> Steps[list[Receipt | PenstockError]]:
        """Take batches that were encoded for one version of the topic's settings, each for a partition.

        One answer each; a batch that is refused does not keep the others out.
        With ``wait`` they come when what was written is as durable as the topic promises.

        What need not wait before it is written is written by this call itself, not by the first step.
        """
        topic = self._state.find(name)
        if topic is None:  # Deleted since the client asked for its settings.
            return self._append_to_missing(name, version)
        if topic.version != version:
            raise MetadataStale(topic=topic.name, version=version)
        looks = [Look(topic, number, data) for number, data in batches]
        if not self._can_append_now(topic, looks):
            return self._append_all(topic, looks, wait, False, None)
        answers = self._append_now(topic, looks, False)
        if not wait:
            self._sync_soon(topic)
        waits = _answers_durable(topic, looks, answers) if wait else []
        if is_doubtful(self._state, answers):
            return verified(self._state, topic, looks, answers, waits)
        written = Written(answers, waits)
        return cast("Steps[list[Receipt | PenstockError]]", written)

    def _append_to_missing(self, name: Any, version: int) -> Steps[list[Receipt | PenstockError]]:
        """Create the topic, if that is allowed: the client has to ask for its settings again."""
        topic = yield from self._missing.create(name)
        raise MetadataStale(topic=topic.name, version=version)

    def append_records(
        self, name: Any, batches: list[tuple[int, bytes]], wait: bool, after: Log | None = None
    ) -> Steps[list[Appended | PenstockError]]:
        """The same for callers that do not know the topic's settings.

        The records keep their times, unless the topic gives them its own.  Nothing is written before
        ``after`` is durable.
        """
        topic = self._state.topic(name)
        looks = [Look(topic, number, data) for number, data in batches]
        answers = yield from self._append_all(topic, looks, wait, True, after)
        return [_appended(topic, answer) if isinstance(answer, Receipt) else answer for answer in answers]

    def _can_append_now(self, topic: Topic, looks: list[Look]) -> bool:
        """Whether nothing has to be waited for before the batches are written."""
        return (
            topic.settings.depth_max is None
            and not topic.appends
            and len(looks) <= APPENDED_SLICE
            and not any_large(looks)
        )

    def _append_all(
        self, topic: Topic, looks: list[Look], wait: bool, own_times: bool, after: Log | None
    ) -> Steps[list[Receipt | PenstockError]]:
        if after is None and self._can_append_now(topic, looks):
            answers = self._append_now(topic, looks, own_times)
        else:
            answers = yield from self._append_in_turn(topic, looks, own_times, after)
        if not wait:
            self._sync_soon(topic)
        waits = _answers_durable(topic, looks, answers) if wait else []
        if is_doubtful(self._state, answers):
            return (yield from verified(self._state, topic, looks, answers, waits))
        yield from waits
        return answers

    def _sync_soon(self, topic: Topic) -> None:
        """Nobody waits for the disk, but readers see only what a sync has covered."""
        if topic.settings.durability == "fsync":
            self._state.commit.kick()

    def _append_in_turn(
        self, topic: Topic, looks: list[Look], own_times: bool, after: Log | None
    ) -> Steps[list[Receipt | PenstockError]]:
        """Append batches that have to wait: for another log, for a thread, for their turn, or for room."""
        turn = Turn(self._state, append_queues(topic, [look.number for look in looks]))
        try:
            if after is not None:
                yield Durable(after)
            for look in looks:
                if look.is_large:
                    look.refusal = yield from self._refusal_of(topic, look.data, look.header)
            yield from turn.wait()
            self._state.check_alive(topic)
            return (yield from self._append_each(topic, looks, own_times))
        finally:
            turn.end()
            forget_empty(topic)

    def _append_each(
        self, topic: Topic, looks: list[Look], own_times: bool
    ) -> Steps[list[Receipt | PenstockError]]:
        """Append one batch after the other, each when there is room for it."""
        answers: list[Receipt | PenstockError] = []
        for look in looks:
            header = look.header
            if topic.settings.depth_max is not None and header is not None and look.refusal is None:
                try:
                    if not _is_repeat(topic.partitions[look.number], header):
                        yield from self.wait_for_room(topic, header.count)
                except PenstockError as refusal:
                    look.refusal = refusal
            answers += self._append_now(topic, [look], own_times)
            answer = answers[-1]
            if len(looks) > APPENDED_SLICE and isinstance(answer, Receipt):
                # The caller waits for one after the other; or a small publish would wait for all of them.
                self._state.commit.defer(topic.partitions[answer.partition].log)
            if len(answers) % APPENDED_SLICE == 0:
                yield GiveWay()
                self._state.check_alive(topic)
        return answers

    def _append_now(self, topic: Topic, looks: list[Look], own_times: bool) -> list[Receipt | PenstockError]:
        answers: list[Receipt | PenstockError] = []
        for look in looks:
            header = look.header
            if look.refusal is not None:
                answers.append(look.refusal)
                continue
            assert header is not None, "it was looked at"
            try:
                partition = topic.partitions[look.number]
                answers.append(self._append_checked(partition, header, look.data, own_times))
            except PenstockError as refusal:
                answers.append(refusal)
        return answers

    def check_batch(self, topic: Topic, data: bytes, header: Header, limits: Limits) -> Steps[None]:
        """Look at all records of a batch from outside: here, or in a thread if that would take too long."""
        if not check_small(topic, data, header, limits):
            yield from self._check_large(topic, data, header, limits)

    def _check_large(self, topic: Topic, data: bytes, header: Header, limits: Limits) -> Steps[None]:
        """In a thread, one batch at a time: each may unpack to a lot."""
        with Turn(self._state, [self._state.unpacking]) as turn:
            yield from turn.wait()
            found = yield from aside(lambda: look_closely(data, header, limits))
        if isinstance(found, PenstockError):
            raise found
        if found:
            raise key_missing(topic, found)

    def _refusal_of(self, topic: Topic, data: bytes, header: Header | None) -> Steps[PenstockError | None]:
        assert header is not None, "it was looked at"
        try:
            yield from self._check_large(topic, data, header, limits_of(topic))
        except PenstockError as error:
            return error
        return None

    def _append_checked(
        self, partition: Partition, header: Header, data: bytes, own_times: bool = False
    ) -> Receipt:
        """Append a batch, unless its producer has sent it before."""
        topic = partition.topic
        if header.producer_id >= 0:
            verdict, first = partition.producers.check(
                header.producer_id, header.producer_epoch, header.base_sequence, header.count
            )
            if verdict == dedup.DUPLICATE:
                check_repeat(partition, header, first, data)
                topic.duplicates += 1
                first_ms = _stored_ms(partition, first) if first >= 0 else -1
                if first_ms < 0:
                    first_ms = header.max_timestamp
                return Receipt(topic.name, partition.number, first, first_ms, None, True)
            if header.attributes & TRANSACTIONAL:
                self._check_transaction(partition, header)
        if own_times and topic.settings.kafka_headers:
            messages = messages_with_options(decode_batch(data), partition.number)
            if messages is not None:
                return self._append_messages(partition, header, messages)
        batch = bytearray(data)
        own_times = own_times and not topic.settings.append_time
        now_ms = self._state.clock.wall_ms()
        log = partition.log
        if not own_times or header.max_timestamp < 0 or header.attributes & OURS:
            stamp_batch(batch, max(now_ms, log.last_timestamp), OURS)
        offset = self._append_foreign(partition, header, batch, now_ms)
        return Receipt(topic.name, partition.number, offset, log.last_timestamp)

    def _append_messages(
        self, partition: Partition, header: Header, messages: list[MessageWithHeaders]
    ) -> Receipt:
        """Write the records of a batch as the messages that their headers describe; answers with one."""
        if header.attributes & TRANSACTIONAL:
            why = "messages of a transaction are not delayed, sorted or dropped"
            raise InvalidValue(name="headers", value="x-...", why=why)
        topic, now_ms = partition.topic, self._state.clock.wall_ms()
        prepared: list[Placed] = []
        for message, own in messages:
            item = self.prepare(topic, message, now_ms)
            item.headers = [*own, *item.headers]
            check_size(item.key, item.value, item.headers, topic.settings.message_bytes_max)
            prepared.append(item)
        if header.producer_id >= 0:
            _name_parts(prepared, header)
        receipts = self._write(topic, prepared, now_ms, header if header.producer_id >= 0 else None)
        offsets = [receipt.offset for receipt in receipts if receipt.offset is not None]
        first = min(offsets, default=-1)
        return Receipt(topic.name, partition.number, first, now_ms)

    def _check_transaction(self, partition: Partition, header: Header) -> None:
        """Only what belongs to an open transaction is written as part of one."""
        ledger = self._state.ledger
        known = None if ledger is None else ledger.of_producer(header.producer_id)
        place = (partition.topic.name, partition.number)
        check_write(known, header.producer_id, header.producer_epoch, place)

    # Preparing.

    def prepare(self, topic: Topic, message: Message, now_ms: int) -> Placed:
        """Check and place one message without writing it."""
        return self._prepare(topic, message, now_ms, self._any_partition(topic))

    def _any_partition(self, topic: Topic) -> int:
        """Where messages without a key of this call go; the next call goes to the next one."""
        topic.turn += 1
        owned = topic.partitions.owned
        return owned[topic.turn % len(owned)].number if owned else 0

    def _prepare(self, topic: Topic, message: Message, now_ms: int, anywhere: int) -> Placed:
        item = placed(topic.name, message, len(topic.partitions))
        if item.key is None and topic.settings.compact:
            raise KeyMissing(topic=topic.name)
        if item.partition == ANYWHERE:
            item.partition = anywhere
        if message.delay is not None or message.deliver_at is not None:
            item.due_ms = due_ms(message.delay, message.deliver_at, now_ms, topic.settings.delay_max_ms)
        if message.ttl is not None or message.dedup_id is not None:
            self._add_system_headers(item, message, max(now_ms, item.due_ms))
        check_size(item.key, item.value, item.headers, topic.settings.message_bytes_max)
        return item

    def _add_system_headers(self, item: Placed, message: Message, visible_ms: int) -> None:
        headers = list(item.headers)
        if message.ttl is not None:
            # The time to live begins when the message can be seen.
            expires_ms = visible_ms + ttl_ms(message.ttl)
            headers.append((EXPIRES_AT, str(expires_ms).encode()))
            item.attributes |= EXPIRES
        if message.dedup_id is not None:
            headers.append((DEDUP_ID, dedup_bytes(message.dedup_id)))
            item.attributes |= DEDUP
            item.dedup_id = message.dedup_id
        item.headers = headers

    # Writing.

    def _write(
        self, topic: Topic, prepared: list[Placed], now_ms: int, producer_header: Header | None = None
    ) -> list[Receipt]:
        """Write what is new, one record batch for each partition and lane; answer in the given order.

        ``producer_header``: of the batch in which a producer sent it; the last batch written carries it.
        """
        receipts: list[Receipt | None] = [None] * len(prepared)
        batches: dict[tuple[int, int], list[int]] = {}
        first: dict[str, int] = {}  # Dedup ids that repeat within the call.
        for index, item in enumerate(prepared):
            if item.dedup_id is not None:
                receipts[index] = self._duplicate(topic, item.dedup_id, now_ms)
                if receipts[index] is not None or first.setdefault(item.dedup_id, index) != index:
                    continue
            if item.due_ms >= 0:
                receipts[index] = self._schedule(topic, item, now_ms)
            else:
                batches.setdefault((item.partition, item.attributes & ~(EXPIRES | DEDUP)), []).append(index)
        if producer_header is not None:
            self._before_the_last(topic, prepared, producer_header, batches, now_ms)
        left = len(batches)
        for (number, _), indexes in batches.items():
            partition = topic.partitions[number]
            left -= 1
            items = [prepared[index] for index in indexes]
            offset, timestamp = self._append_many(partition, items, now_ms, None if left else producer_header)
            for index in indexes:
                receipts[index] = Receipt(topic.name, number, offset, timestamp)
                offset += 1
        return [
            receipt if receipt is not None else self._repeat(topic, receipts[first[item.dedup_id or ""]])
            for item, receipt in zip(prepared, receipts, strict=True)
        ]

    def _before_the_last(
        self, topic: Topic, prepared: list[Placed], producer_header: Header,
        batches: dict[tuple[int, int], list[int]], now_ms: int,
    ) -> None:  # fmt: skip
        """The numbers come to the disk after the schedule; without records, if none goes to the log."""
        partition = topic.partitions[prepared[0].partition]
        delayed = any(item.due_ms >= 0 for item in prepared)
        if delayed and partition.schedule is not None and partition.topic.settings.durability == "fsync":
            # At once: who waits for it would let the producer's next batch in between.
            partition.schedule.log.sync()
        if not batches:
            timestamp = max(now_ms, partition.log.last_timestamp)
            partition.log.append(
                BatchBuilder().build(timestamp, timestamp, 0, *_numbers(producer_header, 1), 0)
            )
            _record(partition, producer_header, -1, now_ms)
            self.appended(partition, 0)

    def _repeat(self, topic: Topic, twin: Receipt | None) -> Receipt:
        """The answer for a dedup id that came twice in one call."""
        assert twin is not None, "it was written just now"
        topic.duplicates += 1
        return Receipt(twin.topic, twin.partition, twin.offset, twin.timestamp, twin.schedule_id, True)

    def _append_one(self, topic: Topic, item: Placed, now_ms: int) -> Receipt:
        partition = topic.partitions[item.partition]
        log = partition.log
        timestamp = max(log.last_timestamp, now_ms)
        builder = BatchBuilder()
        builder.add(item.key, item.value, item.headers)
        offset = log.append(builder.build(timestamp, timestamp, item.attributes | batch_attributes(topic)))
        if item.dedup_id is not None:
            partition.dedup_last = offset
            topic.dedup.add(item.dedup_id, partition.number, offset, timestamp, False)
        self.appended(partition, 1)
        return Receipt(topic.name, partition.number, offset, timestamp)

    def _append_values(
        self, topic: Topic, partition: Partition, values: list[bytes], now_ms: int
    ) -> list[Receipt]:
        """Values that want nothing special: most of what is published in batches, and the quick way."""
        timestamp = max(now_ms, partition.log.last_timestamp)
        attributes = batch_attributes(topic)
        offset = partition.log.append(encode_values(values, timestamp, attributes))
        self.appended(partition, len(values))
        return receipts_from(topic.name, partition.number, offset, timestamp, len(values))

    def _append_many(
        self, partition: Partition, items: list[Placed], now_ms: int, producer_header: Header | None = None
    ) -> tuple[int, int]:
        topic, log = partition.topic, partition.log
        timestamp = max(now_ms, log.last_timestamp)
        builder = BatchBuilder()
        attributes = batch_attributes(topic)
        for item in items:
            builder.add(item.key, item.value, item.headers)
            attributes |= item.attributes
        if producer_header is None:
            offset = log.append(builder.build(timestamp, timestamp, attributes))
        else:
            offset = log.append(
                builder.build(timestamp, timestamp, attributes, *_numbers(producer_header, len(items)))
            )
            _record(partition, producer_header, offset, now_ms)
        if attributes & DEDUP:
            partition.dedup_last = offset + len(items) - 1
            for index, item in enumerate(items):
                if item.dedup_id is not None:
                    topic.dedup.add(item.dedup_id, partition.number, offset + index, timestamp, False)
        self.appended(partition, len(items))
        return offset, timestamp

    def _append_foreign(self, partition: Partition, header: Header, batch: bytearray, now_ms: int) -> int:
        """Append a batch that was encoded elsewhere and has the time it is to have; returns its offset."""
        offset = partition.log.append(batch)
        if header.producer_id >= 0:
            _record(partition, header, offset, now_ms)
        self.appended(partition, header.count)
        return offset

    def append_staged(self, partition: Partition, batch: bytearray, own_times: bool) -> None:
        """Append a batch that was numbered by its intent, under the times it has or the log's."""
        now_ms = self._state.clock.wall_ms()
        if own_times and not partition.topic.settings.append_time:
            seal_batch(batch)
        else:
            stamp_batch(batch, max(now_ms, partition.log.last_timestamp))
        self._append_foreign(partition, read_header(batch), batch, now_ms)

    def appended(self, partition: Partition, count: int) -> None:
        """The partition's log has grown: see that it becomes durable, and that readers hear of it."""
        topic = partition.topic
        self._maybe_sample(topic, partition.log.last_timestamp)
        topic.published += count
        if partition.log.segment_count != partition.snapshot_segments:
            save_producer_snapshot(partition)
        if topic.settings.durability == "fsync":
            self._state.commit.mark(partition.log)
            self._state.unheard.add(topic)  # Readers hear of it when it is durable.
            return
        if topic.settings.durability == "os":
            self._state.alarms.set(self._state.flush, self._state.clock.steady_ms() + 1000)
        if topic.waiters:
            topic.wake()

    def _maybe_sample(self, topic: Topic, timestamp: int) -> None:
        """The count is about to change: note it, if it is time.

        That is told by the records' timestamps, which are at hand; asking the clock would cost more.
        """
        if timestamp >= topic.sample_ms:
            topic.sample_ms = timestamp + SAMPLE_MS
            topic.meter.sample(self._state.clock.steady_ms(), (topic.published,))

    def _schedule(self, topic: Topic, item: Placed, now_ms: int) -> Receipt:
        partition = topic.partitions[item.partition]
        schedule = open_schedule(self._state, partition)
        check_schedule_room(partition, schedule)
        number = schedule.add(item.due_ms, item.key, item.value, item.headers, item.attributes, now_ms)
        self._state.commit.mark(schedule.log)
        set_schedule_alarm(self._state, partition)
        if item.dedup_id is not None:
            topic.dedup.add(item.dedup_id, partition.number, number, schedule.log.last_timestamp, True)
        return Receipt(
            topic.name, partition.number, None, now_ms, schedule_id(topic.name, partition.number, number)
        )

    # Dedup, depth, durability.

    def _duplicate(self, topic: Topic, dedup_id: str, now_ms: int) -> Receipt | None:
        seen = topic.dedup.seen(dedup_id, now_ms)
        if seen is None:
            return None
        topic.duplicates += 1
        number, offset, scheduled = seen
        first_ms = topic.dedup.time_ms(dedup_id)
        if scheduled:
            return Receipt(topic.name, number, None, first_ms, schedule_id(topic.name, number, offset), True)
        return Receipt(topic.name, number, offset, first_ms, None, True)

    def wait_for_room(self, topic: Topic, count: int) -> Steps[None]:
        """Refuse, or wait, while the slowest group has too much before it."""
        settings = topic.settings
        assert settings.depth_max is not None
        deadline_ms = self._state.clock.steady_ms() + settings.depth_wait_ms
        while topic_depth(topic) + count > settings.depth_max:
            if settings.depth_policy == "reject" or self._state.clock.steady_ms() >= deadline_ms:
                raise QueueFull(what=f"topic {topic.name!r}", limit=settings.depth_max)
            yield Arrival(topic, deadline_ms)
            self._state.check_alive(topic)

    def _until_durable(self, topic: Topic, receipt: Receipt) -> Steps[None]:
        partition = topic.partitions[receipt.partition]
        log = partition.log
        if receipt.schedule_id is not None and partition.schedule is not None:
            log = partition.schedule.log
        if log.config.durability == "fsync" and log.durable < log.written:
            yield Durable(log)

    # The outbox.

    def drain_outbox(self, partition: Partition) -> Steps[None]:
        """Publish what the journal promised; repeats after a crash are recognised and dropped."""
        assert partition.journal is not None
        promised = {id(output): output for output in partition.outbox}  # By a journal that is durable soon.
        if partition.journal.log.config.durability == "fsync":
            yield Durable(partition.journal.log)
        targets: dict[int, Partition] = {}
        while partition.outbox and not partition.closed:  # Else its next owner goes on.
            output = partition.outbox[0]
            if id(output) not in promised:
                break  # It came later, and so did the job that waits for its journal.
            topic = self._state.topics.get(output.topic)
            if topic is None and output.topic in self._state.offline:
                self._state.alarms.set(partition, self._state.clock.steady_ms() + OUTBOX_RETRY_MS)
                raise self._state.offline[output.topic]
            if topic is not None and output.partition < len(topic.partitions):
                try:
                    target = topic.partitions.get(output.partition)
                    if target is None:
                        yield from self._state.forward(output.topic, output.partition, output.batch)
                    else:
                        self._append_output(target, output.batch)
                        targets[id(target)] = target
                except PenstockError:
                    self._state.alarms.set(partition, self._state.clock.steady_ms() + OUTBOX_RETRY_MS)
                    raise
            if partition.outbox and partition.outbox[0] is output:  # Else another job was quicker.
                partition.outbox.popleft()
        for target in targets.values():
            yield from _durable(target)

    def append_output(self, name: str, number: int, batch: bytes) -> Steps[None]:
        """Take a batch from the outbox of a partition of another node, unless it is here; until durable."""
        target = self._state.topic(name).partition(number)
        self._append_output(target, batch)
        yield from _durable(target)

    def _append_output(self, target: Partition, batch: bytes) -> None:
        header = check_batch(batch)
        if (
            target.producers.check_internal(header.producer_id, header.base_sequence, header.count)
            == dedup.NEW
        ):
            stamped, now_ms = bytearray(batch), self._state.clock.wall_ms()
            stamp_batch(stamped, max(now_ms, target.log.last_timestamp))
            self._append_foreign(target, header, stamped, now_ms)


def _durable(partition: Partition, transactional: bool = False) -> list[Durable]:
    """What to wait for until what was written is as durable as the topic promises.

    What is of a transaction is synced in any case, unless it is in memory: else a power cut could take
    it, and its producer, which was answered, commits the rest.
    """
    waits: list[Durable] = []
    for log in (partition.log, partition.schedule.log if partition.schedule else None):
        if log is None or log.durable >= log.written:
            continue
        if log.config.durability == "fsync" or (transactional and log.config.durability == "os"):
            waits.append(Durable(log))
    return waits


def _answers_durable(
    topic: Topic, looks: list[Look], answers: list[Receipt | PenstockError]
) -> list[Durable]:
    """What to wait for until everything that was written is as durable as promised."""
    waits: list[Durable] = []
    synced = topic.settings.durability == "fsync"
    for index, answer in enumerate(answers):
        header = looks[index].header
        transactional = header is not None and header.attributes & TRANSACTIONAL != 0
        if isinstance(answer, Receipt) and (synced or transactional):
            waits += _durable(topic.partitions[answer.partition], transactional)
    return waits


def _record(partition: Partition, producer_header: Header, offset: int, now_ms: int) -> None:
    """The producer's batch is written.  Before ``appended``, whose snapshot covers it."""
    partition.producers.record(
        producer_header.producer_id,
        producer_header.producer_epoch,
        producer_header.base_sequence,
        producer_header.count,
        offset,
        now_ms,  # Not the records' time, which may be long past.
    )


def batch_attributes(topic: Topic) -> int:
    """What a batch says that is made here for a topic: its codec, and whose time its records have."""
    codec = CODECS[topic.settings.compression]
    return codec | APPEND_TIME if topic.settings.append_time else codec


def _appended(topic: Topic, receipt: Receipt) -> Appended:
    append_ms = -1
    partition = topic.partitions.get(receipt.partition)
    if partition is None:  # It was closed while this waited.
        return Appended(receipt, -1, -1)
    if partition.topic.settings.append_time and receipt.offset is not None:
        append_ms = _stored_ms(partition, receipt.offset) if receipt.duplicate else receipt.timestamp
    return Appended(receipt, partition.log.start, append_ms)


def _stored_ms(partition: Partition, offset: int) -> int:
    """The time of a batch that was written before; -1 if it cannot be read any more."""
    try:
        stored, _ = partition.log.fetch_all(offset, 1, partition.log.end)
        return read_header(stored).max_timestamp
    except PenstockError:
        return -1


def _is_repeat(partition: Partition, header: Header) -> bool:
    """Whether a batch is there already: then it needs no room, and a full topic is no answer."""
    if header.producer_id < 0:
        return False
    verdict, _ = partition.producers.check(
        header.producer_id, header.producer_epoch, header.base_sequence, header.count
    )
    return verdict == dedup.DUPLICATE


def _numbers(producer_header: Header, span: int) -> tuple[int, int, int]:
    """Producer, epoch, and the number with which a batch of that length ends like the producer's own."""
    return (
        producer_header.producer_id,
        producer_header.producer_epoch,
        (producer_header.base_sequence + producer_header.count - span) % SEQUENCES,
    )


def _name_parts(prepared: list[Placed], producer_header: Header) -> None:
    """Give the messages of a batch that is written in parts ids, if they have none."""
    lanes = {item.attributes & ~(EXPIRES | DEDUP) for item in prepared}
    if len(lanes) == 1 and all(item.due_ms < 0 for item in prepared):
        return  # It is one batch, with its numbers: there whole, or not at all.
    for index, item in enumerate(prepared):
        if item.dedup_id is None:
            item.dedup_id = part_id(producer_header, item.partition, index)
            item.headers = [*item.headers, (DEDUP_ID, item.dedup_id.encode())]
            item.attributes |= DEDUP


def schedule_id(topic: str, partition: int, number: int) -> str:
    """The name of a schedule entry: like a message id, with an ``s`` before the number."""
    return f"{topic}:{partition}:s{number}"


def check_schedule_room(partition: Partition, schedule: Schedule) -> None:
    """Refuse an entry more than the topic allows."""
    limit = partition.topic.settings.scheduled_max
    if schedule.count >= limit:
        raise QueueFull(what=f"the schedule of {partition.topic.name!r}", limit=limit)


def set_schedule_alarm(state: State, partition: Partition) -> None:
    """Look at the partition's schedule when its next entry is due, and every now and then before.

    Due times are wall time, and the wall clock may jump; the look in between
    is what notices.
    """
    assert partition.schedule is not None
    due = partition.schedule.next_due_ms()
    if due >= 0:
        wait_ms = min(max(due - state.clock.wall_ms(), 0), state.config.clock_check_ms)
        state.alarms.set(partition, state.clock.steady_ms() + wait_ms)
