"""Stream groups: partitions are assigned to consumers, which read in order and commit.

The coordinator (``groups/``) assigns partitions; a consumer reports with every call
which partitions it works on, and stops working on those that are revoked.  A consumer's
position in a partition is kept in memory; the committed offset is in the journal, and
the next owner begins there.
"""

from typing import Any

from penstock.broker.state import Group, GroupConsumer, Partition, State
from penstock.broker.steps import Arrival, GiveWay, Steps
from penstock.broker.storage.recovery import open_journal
from penstock.broker.topic.groups import journal_durable
from penstock.delivery import events
from penstock.errors import GroupKindMismatch, MemberUnknown, NotAssigned, NotCached, OffsetOutOfRange
from penstock.groups.commits import Commit
from penstock.log.log import Log
from penstock.model.message import Delivered, Delivery, check_held
from penstock.types import whole_number
from penstock.wire.native import LeasedBatch
from penstock.wire.records import Record, max_timestamp_of
from penstock.wire.rewriting import encode_records

PARTITIONS_MAX = 100  # That one answer has messages of; each is a read of another file.
COMMITTED_SLICE = 50  # Partitions whose journals are written before others have a turn.
READ_RECORDS = 1000  # Looked at in one go, which bounds a step over gaps that compaction left.


class Streams:
    """Delivery to the consumers of stream groups."""

    def __init__(self, state: State) -> None:
        self._state = state

    def join(self, consumer: GroupConsumer) -> None:
        """Become a member; partitions come with the next receive."""
        group = consumer.group
        group.coordinator.join(consumer.identity, self._state.clock.steady_ms())
        self._set_alarm(group)
        group.topic.wake()

    def receive(self, consumer: GroupConsumer, messages_max: int, wait_ms: int) -> Steps[list[Any]]:
        """The next messages of the consumer's partitions, in the order of each."""
        whole_number("max_messages", messages_max, 1)
        limit = min(messages_max, self._state.config.receive_messages_max)
        deadline_ms = self._state.clock.steady_ms() + wait_ms
        while True:
            self._state.check_open()
            consumer.check_open()
            self.heartbeat(consumer)
            messages = self._read(consumer, limit)
            now_ms = self._state.clock.steady_ms()
            if messages or now_ms >= deadline_ms:
                return messages
            # Stay a member while waiting.
            yield Arrival(
                consumer.group.topic,
                min(deadline_ms, now_ms + consumer.group.settings.session_timeout_ms // 3),
            )

    def heartbeat(self, consumer: GroupConsumer) -> None:
        """Report the partitions of a consumer, and get its assignment; an evicted consumer joins again."""
        group = consumer.group
        now_ms = self._state.clock.steady_ms()
        group.maybe_sample(now_ms)
        before = frozenset(consumer.positions)
        assignment = group.coordinator.heartbeat(consumer.identity, before, now_ms)
        if assignment is None:
            consumer.positions.clear()
            group.coordinator.join(consumer.identity, now_ms)
            assignment = group.coordinator.heartbeat(consumer.identity, frozenset(), now_ms)
            assert assignment is not None, "it has just joined"
        revoked = consumer.positions.keys() - assignment.partitions
        for number in revoked:
            del consumer.positions[number]
        for number in assignment.partitions - consumer.positions.keys():
            consumer.positions[number] = self._committed(group, number)
        if revoked:
            group.coordinator.heartbeat(consumer.identity, frozenset(consumer.positions), now_ms)
            group.topic.wake()  # Another consumer may begin with them.
        if consumer.on_assignment is not None and before != consumer.positions.keys():
            consumer.on_assignment(sorted(consumer.positions))
        self._set_alarm(group)

    def _committed(self, group: Group, number: int) -> int:
        partition = group.topic.partitions[number]
        return max(partition.groups[group.name].committed, partition.log.start)

    def _read(self, consumer: GroupConsumer, limit: int) -> list[Any]:
        topic = consumer.group.topic
        messages: list[Any] = []
        if self._state.clock.steady_ms() >= self._state.lease.lease_ms:
            return messages  # Another node may own the partitions by now (rule 25).
        owned = sorted(consumer.positions)
        bytes_left = min(self._state.config.receive_bytes_max, consumer.bytes_max)
        left = PARTITIONS_MAX
        for step in range(len(owned)):
            if limit <= 0 or bytes_left <= 0 or left <= 0:
                consumer.turn += step - 1 if left <= 0 else 0
                break
            partition = topic.partitions[owned[(consumer.turn + step) % len(owned)]]
            position = consumer.positions[partition.number]
            fitting = min(
                max(bytes_left // partition.log.average_bytes, 1), partition.log.fitting(position, bytes_left)
            )
            some, count = self._read_partition(consumer, partition, min(limit, fitting))
            messages += some
            left -= 1 if some else 0
            limit -= count
            if consumer.takes_batches:
                bytes_left -= sum(len(batch.data) for batch in some)
            else:
                bytes_left -= count * partition.log.average_bytes
        consumer.turn += 1
        return messages

    def _read_partition(
        self, consumer: GroupConsumer, partition: Partition, limit: int
    ) -> tuple[list[Any], int]:
        """The next messages of one partition, in the form that the consumer takes, and their number.

        None if some of them have to be fetched from the store first: the topic wakes the consumer then.
        """
        try:
            return self._read_cached(consumer, partition, limit)
        except NotCached:
            return [], 0

    def _read_cached(
        self, consumer: GroupConsumer, partition: Partition, limit: int
    ) -> tuple[list[Any], int]:
        log = partition.log
        position = max(consumer.positions[partition.number], log.start)
        while position < log.high and log.fetching(position) is None:
            upto = min(position + min(limit, READ_RECORDS), log.high)
            data = self._batches(consumer, log, position, upto)
            if data:
                consumer.positions[partition.number] = upto
                self._count(consumer.group, upto - position, max_timestamp_of(data))
                return [LeasedBatch(partition.number, -1, 1, position, upto, data)], upto - position
            records = log.records(position, upto)
            position = consumer.positions[partition.number] = upto
            if records:
                self._count(consumer.group, len(records), records[0].timestamp)
                return self._wrapped(consumer, partition, records, upto), len(records)
        return [], 0

    def _count(self, group: Group, count: int, published_ms: int) -> None:
        group.handed_out(count, 1, self._state.clock.wall_ms() - published_ms)

    def _batches(self, consumer: GroupConsumer, log: Log, start: int, end: int) -> bytes:
        if not consumer.takes_batches:
            return b""
        return log.plain_batches(start, end, 0, (end - start) * log.average_bytes)

    def _wrapped(
        self, consumer: GroupConsumer, partition: Partition, records: list[Record], upto: int
    ) -> list[Any]:
        first = records[0].offset
        if consumer.takes_batches:
            return [LeasedBatch(partition.number, -1, 1, first, upto, encode_records(records))]
        delivery = Delivery(
            partition.topic.name, partition.number, consumer.group.name, -1, first, upto, 1, consumer.settler
        )
        return consumer.wrap(delivery, records)

    def commit(self, consumer: GroupConsumer, messages: list[Delivered] | None) -> Steps[None]:
        """Commit up to and including these messages, or everything received so far."""
        offsets: dict[int, int] = {} if messages else dict(consumer.positions)
        for message in messages or []:
            check_held(message, consumer.settler, "messages")
            offsets[message.partition] = max(offsets.get(message.partition, 0), message.offset + 1)
        yield from self._commit(consumer, offsets)
        for message in messages or []:
            message.mark_settled()

    def commit_offsets(self, consumer: GroupConsumer, offsets: dict[int, int]) -> Steps[None]:
        """Commit these offsets, by partition; each is the next offset to read."""
        for number, offset in offsets.items():
            log = consumer.group.topic.partition(number).log
            if not 0 <= offset <= log.high:
                raise OffsetOutOfRange(offset=offset, start=log.start, end=log.high)
        yield from self._commit(consumer, offsets)

    def _commit(self, consumer: GroupConsumer, offsets: dict[int, int]) -> Steps[None]:
        self._state.check_open()
        consumer.check_open()
        group = consumer.group
        if group.settings.kind != "stream":
            raise GroupKindMismatch(operation="commit", kind="queue", group=group.name)
        now_ms = self._state.clock.steady_ms()
        group.maybe_sample(now_ms)
        partitions = [group.topic.partitions[number] for number in offsets]  # Before one is closed meanwhile.
        written = 0
        for number, offset in offsets.items():
            if written == COMMITTED_SLICE:
                written = 0
                yield GiveWay()
                self._state.check_open()
                consumer.check_open()
            partition = group.topic.partitions[number]
            self._check_owner(consumer, number)
            cursor = partition.groups[group.name]
            if offset > cursor.committed:
                journal = open_journal(self._state, partition)
                journal.commit([events.Committed(cursor.number, offset, cursor.committed)], now_ms)
                self._state.commit.mark(journal.log)
                written += 1
                group.acked += offset - cursor.committed
                cursor.committed, cursor.commit = offset, Commit(offset)
            # It may have had more from a broker that is gone; that is done, and not sent again.
            if consumer.positions.get(number, offset) < offset:
                consumer.positions[number] = offset
        group.coordinator.heartbeat(consumer.identity, frozenset(consumer.positions), now_ms)
        for partition in partitions:
            yield from journal_durable(partition)

    def resume(self, consumer: GroupConsumer, positions: dict[int, int]) -> None:
        """A client has reconnected and has read up to these offsets; what else was sent is sent again.

        Of a partition that it does not name, it has seen nothing.
        """
        for number, position in consumer.positions.items():
            seen = positions.get(number, self._committed(consumer.group, number))
            consumer.positions[number] = min(max(seen, 0), position)

    def _check_owner(self, consumer: GroupConsumer, number: int) -> None:
        group = consumer.group
        owner = group.coordinator.owner(number)
        if owner == consumer.identity:
            return
        if not any(member.member == consumer.identity for member in group.coordinator.members()):
            raise MemberUnknown(group=group.name, member=consumer.identity)
        raise NotAssigned(group=group.name, member=consumer.identity, partition=number)

    def close_consumer(self, consumer: GroupConsumer) -> None:
        """Leave the group; the consumer's partitions are free at once."""
        if consumer.closed:
            return
        consumer.closed = True
        consumer.positions.clear()
        group = consumer.group
        group.consumers.pop(consumer.number, None)
        group.coordinator.leave(consumer.identity, self._state.clock.steady_ms())
        group.topic.wake()

    def look(self, group: Group) -> None:
        """The alarm of a group: members whose session has expired lose their partitions."""
        if group.coordinator.tick(self._state.clock.steady_ms()):
            group.topic.wake()
        self._set_alarm(group)

    def _set_alarm(self, group: Group) -> None:
        self._state.alarms.set(group, group.coordinator.next_deadline_ms())
