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
batches for the same partition wait for it and keep their order (``append_order.py``).  Of typed topics the
values are validated as well (``values.py``), and invalid ones may become dead letters (``invalid.py``).

System headers, which the broker adds to the caller's own:
``x-expires-at`` and ``x-dedup-id`` (see ``docs/format/record-batch.md``).
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from penstock.broker.health.rates import SAMPLE_MS
from penstock.broker.publish.append_order import append_queues, forget_empty
from penstock.broker.publish.doubtful import is_doubtful, verified
from penstock.broker.publish.header_options import MessageWithHeaders, messages_with_options, part_id
from penstock.broker.publish.incoming import (
    Invalid,
    Look,
    check_bytes,
    check_repeat,
    check_small,
    key_missing,
    limits_of,
    look_closely,
)
from penstock.broker.publish.invalid import InvalidMessages
from penstock.broker.publish.preparing import any_partition, prepare, prepare_all
from penstock.broker.publish.values import Values
from penstock.broker.state import Partition, State, Topic
from penstock.broker.steps import Durable, GiveWay, Steps, Written, aside
from penstock.broker.storage.producer_snapshot import save_producer_snapshot
from penstock.broker.topic.delayed import accept_delayed, schedule_id
from penstock.broker.topic.missing import MissingTopics
from penstock.broker.topic.waiting import durable_waits, until_durable, wait_for_room, wait_for_room_for_all
from penstock.broker.turns import Turn
from penstock.delivery import dedup
from penstock.errors import (
    InvalidValue,
    MetadataStale,
    PenstockError,
    ProducerUnknown,
    SchemaMismatch,
)
from penstock.groups.transactions import check_write
from penstock.model.message import Message, Receipt, bare_values, receipts_from
from penstock.model.placing import CODECS, Placed, check_size
from penstock.schemas.values import ValueMismatch
from penstock.wire.headers import DEDUP_ID
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
    Record,
    check_batch,
    decode_batch,
    encode_values,
    read_header,
    seal_batch,
    stamp_batch,
)
from penstock.wire.rewriting import empty_batches
from penstock.wire.validation import Limits

# Attributes for headers that only the broker adds: cleared in batches from clients.
OURS: Final = SCHEDULED | EXPIRES | DEDUP | REDRIVEN
OUTBOX_RETRY_MS: Final = 1000
# Runs before batches are written, while later ones for the same partitions wait; it may refuse some.
After = Callable[[list[Look]], Steps[None]]
APPENDED_SLICE: Final = 50  # Batches that are appended before others have a turn; each may begin a file.


class Appended(Receipt):
    """What clients of another protocol learn about a batch."""

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
    def __init__(
        self, state: State, missing: MissingTopics, values: Values, invalid: InvalidMessages
    ) -> None:
        self._state = state
        self._missing = missing
        self._values = values
        self._invalid = invalid

    def publish(self, name: Any, message: Message) -> Steps[Receipt]:
        """Take one message; the receipt comes when it is as durable as the topic promises."""
        topic = self._state.find(name)
        if topic is None:
            topic = yield from self._missing.create(name, message.partition)
        if topic.settings.depth_max is not None:
            yield from wait_for_room(self._state, topic, 1, message.partition)
        now_ms = self._state.clock.wall_ms()
        prepared = prepare(topic, message, now_ms)
        if topic.settings.validation != "off":
            invalid = yield from self._bury_invalid(topic, [prepared])
            if invalid:
                yield from until_durable(topic, invalid[0])
                return invalid[0]
        if prepared.dedup_id is not None:
            duplicate = self._duplicate(topic, prepared.dedup_id, now_ms)
            if duplicate is not None:
                yield from until_durable(topic, duplicate)
                return duplicate
        if prepared.due_ms >= 0:
            receipt = accept_delayed(self._state, topic, prepared, now_ms)
        else:
            receipt = self._append_one(topic, prepared, now_ms)
        yield from until_durable(topic, receipt)
        return receipt

    def publish_batch(self, name: Any, messages: Iterable[Any]) -> Steps[list[Receipt]]:
        """Take many messages; one receipt each, in their order."""
        topic = self._state.find(name)
        if topic is None:
            topic = yield from self._missing.create(name)
        batch = list(messages)
        if topic.settings.depth_max is not None:
            yield from wait_for_room_for_all(self._state, topic, batch)
        now_ms = self._state.clock.wall_ms()
        values = bare_values(batch, topic.settings.message_bytes_max)
        if values and not topic.settings.compact and topic.settings.validation == "off":
            partition = topic.partitions[any_partition(topic)]
            receipts = self._append_values(topic, partition, values, now_ms)
            yield from durable_waits(partition)
            return receipts
        prepared = prepare_all(topic, batch, now_ms)
        invalid: dict[int, Receipt] = {}
        if topic.settings.validation != "off":
            invalid = yield from self._bury_invalid(topic, prepared)
        # Looked up before anything is written or waited for: one may be closed meanwhile, or not be here.
        partitions = [topic.partitions[number] for number in {item.partition: None for item in prepared}]
        valid = [item for index, item in enumerate(prepared) if index not in invalid] if invalid else prepared
        receipts = self._write(topic, valid, now_ms)
        if topic.settings.durability == "fsync":
            for partition in partitions:
                yield from durable_waits(partition)
        if invalid:
            rest = iter(receipts)
            receipts = [invalid.get(index) or next(rest) for index in range(len(prepared))]
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
        self, name: Any, batches: list[tuple[int, bytes]], wait: bool, after: After | None = None
    ) -> Steps[list[Appended | PenstockError]]:
        """The same for callers that do not know the topic's settings.

        The records keep their times, unless the topic gives them its own.  Nothing is written before
        ``after`` has run.
        """
        topic = self._state.topic(name)
        looks = [Look(topic, number, data) for number, data in batches]
        answers = yield from self._append_all(topic, looks, wait, True, after)
        return [_appended(topic, answer) if isinstance(answer, Receipt) else answer for answer in answers]

    def _can_append_now(self, topic: Topic, looks: list[Look]) -> bool:
        """Whether nothing has to be waited for before the batches are written."""
        if (
            topic.settings.depth_max is not None
            or topic.appends
            or topic.settings.validation != "off"
            or len(looks) > APPENDED_SLICE
        ):
            return False
        for look in looks:  # noqa: SIM110 - compiled, it is quicker than any() over a generator.
            if look.is_large:
                return False
        return True

    def _append_all(
        self, topic: Topic, looks: list[Look], wait: bool, own_times: bool, after: After | None
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
        """Sync although no caller waits for the disk: readers see only what is synced."""
        if topic.settings.durability == "fsync":
            self._state.sync_soon()

    def _append_in_turn(
        self, topic: Topic, looks: list[Look], own_times: bool, after: After | None
    ) -> Steps[list[Receipt | PenstockError]]:
        """Append batches that have to wait: for a transaction, a thread, their turn, or for room."""
        turn = Turn(self._state, append_queues(topic, [look.number for look in looks]))
        try:
            if after is not None:
                yield from after(looks)
            for look in looks:
                if look.is_large and look.refusal is None:
                    look.refusal = yield from self._refusal_of(topic, look.data, look.header)
            if topic.settings.validation != "off":
                yield from self._check_values(topic, looks)
            yield from turn.wait()
            self._state.check_alive(topic)
            for look in looks:
                if isinstance(look.refusal, SchemaMismatch) and _was_written(topic, look):
                    look.refusal = None  # The schema may have changed since then.
            return (yield from self._append_each(topic, looks, own_times))
        finally:
            turn.end()
            forget_empty(topic)

    def _check_values(self, topic: Topic, looks: list[Look]) -> Steps[None]:
        """Look at the values of all batches; the topic for the invalid ones is there afterwards."""
        yield from self._values.check_looks(topic, looks)
        with_invalid = [look for look in looks if look.invalid]
        if with_invalid:
            try:
                yield from self._invalid.ensure(topic)
            except PenstockError as refusal:
                for look in with_invalid:
                    look.refusal = refusal

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
                        yield from wait_for_room(self._state, topic, header.count, look.number)
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
                answers.append(self._append_checked(partition, header, look, own_times))
            except PenstockError as refusal:
                answers.append(refusal)
        return answers

    def check_staged(self, topic: Topic, data: bytes, header: Header) -> Steps[None]:
        """Look at all records of a staged batch, and at their values."""
        yield from self.check_batch(topic, data, header, limits_of(topic))
        if topic.settings.validation != "off":
            yield from self._values.check_staged(topic, data, header)

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

    def _append_checked(self, partition: Partition, header: Header, look: Look, own_times: bool) -> Receipt:
        """Append a batch, unless its producer has sent it before."""
        topic, data = partition.topic, look.data
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
        if look.invalid:
            data = look.kept
            self._bury(partition, look.invalid, header.base_offset, at_once=header.producer_id >= 0)
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
            item = prepare(topic, message, now_ms)
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
        if self._state.transaction_peers is not None:
            if partition.verified.get(header.producer_id) != header.producer_epoch:
                raise ProducerUnknown(producer_id=header.producer_id)  # The request had no transactional id.
            return
        ledger = self._state.ledger
        known = None if ledger is None else ledger.of_producer(header.producer_id)
        target = (partition.topic.name, partition.number)
        check_write(known, header.producer_id, header.producer_epoch, target)

    # Invalid values.

    def _bury(self, partition: Partition, found: list[Invalid], base_offset: int, *, at_once: bool) -> None:
        """Decide that records are dead letters, before the rest of their batch is appended."""
        shift = partition.log.end - base_offset
        for record, _ in found:
            record.offset += shift
        self._invalid.bury(partition, found, at_once=at_once)
        self._state.jobs.append(self.drain_outbox(partition))

    def _bury_invalid(self, topic: Topic, items: list[Placed]) -> Steps[dict[int, Receipt]]:
        """Let messages with invalid values be dead letters; their receipts by index.

        Their offsets stay empty.  A message that was to be delivered later is looked at now all the same.
        """
        found = yield from self._values.find_invalid(topic, items)
        if not found:
            self._state.check_alive(topic)
            return {}
        yield from self._invalid.ensure(topic)
        self._state.check_alive(topic)
        receipts: dict[int, Receipt] = {}
        by_partition: dict[int, list[ValueMismatch]] = {}
        for each in found:
            by_partition.setdefault(items[each.record].partition, []).append(each)
        for number, findings in by_partition.items():
            partition = topic.partitions[number]
            timestamp = max(self._state.clock.wall_ms(), partition.log.last_timestamp)
            first = partition.log.end
            records = [_record_of(items[each.record], index) for index, each in enumerate(findings)]
            invalid = [Invalid(*pair) for pair in zip(records, findings, strict=True)]
            self._bury(partition, invalid, 0, at_once=False)
            for batch in empty_batches(0, len(findings), timestamp):
                partition.log.append(batch)
            self.appended(partition, 0)
            for offset, each in enumerate(findings, first):
                receipts[each.record] = Receipt(topic.name, number, offset, timestamp)
        return receipts

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
                receipts[index] = accept_delayed(self._state, topic, item, now_ms)
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
            # At once: a wait would let the producer's next batch in between.
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
            self._state.unheard[partition] = None  # Readers hear of it when it is durable.
            return
        if topic.settings.durability == "os":
            self._state.alarms.set(self._state.flush, self._state.clock.steady_ms() + 1000)
        if topic.waiters:
            topic.wake()

    def _maybe_sample(self, topic: Topic, timestamp: int) -> None:
        """The count is about to change: note it, if it is time.

        The time is taken from the records' timestamps: reading the clock would cost more.
        """
        if timestamp >= topic.sample_ms:
            topic.sample_ms = timestamp + SAMPLE_MS
            topic.meter.sample(self._state.clock.steady_ms(), (topic.published,))

    # Dedup.

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
            yield from durable_waits(target)

    def append_output(self, name: str, number: int, batch: bytes) -> Steps[None]:
        """Take a batch from the outbox of a partition of another node, unless it is here; until durable."""
        target = self._state.topic(name).partition(number)
        self._append_output(target, batch)
        yield from durable_waits(target)

    def _append_output(self, target: Partition, batch: bytes) -> None:
        header = check_batch(batch)
        if (
            target.producers.check_internal(header.producer_id, header.base_sequence, header.count)
            == dedup.NEW
        ):
            stamped, now_ms = bytearray(batch), self._state.clock.wall_ms()
            stamp_batch(stamped, max(now_ms, target.log.last_timestamp))
            self._append_foreign(target, header, stamped, now_ms)


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
            waits += durable_waits(topic.partitions[answer.partition], transactional)
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


def _was_written(topic: Topic, look: Look) -> bool:
    """Whether a batch with invalid values is there already; if its numbers are wrong, it is not."""
    assert look.header is not None, "it was looked at"
    try:
        return _is_repeat(topic.partitions[look.number], look.header)
    except PenstockError:
        return False


def _record_of(item: Placed, offset: int) -> Record:
    """A message as the record that it would be."""
    return Record(offset, 0, item.key, item.value, item.headers, item.attributes)


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
