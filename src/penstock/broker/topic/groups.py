"""Groups of a topic: create, change, seek, delete.

A group belongs to one topic and has a state on each of its partitions, which
the partition's journal keeps.  Creating a group writes it to every journal before
the group becomes visible.
"""

from contextlib import suppress
from typing import Final

import msgspec

from penstock.broker.state import Group, GroupConsumer, GroupCursor, Partition, State, Topic, Wrap
from penstock.broker.steps import Durable, GiveWay, Steps
from penstock.broker.storage.recovery import open_journal, rebuild_gate
from penstock.broker.storage.replay import change_settings, moved, new_engine
from penstock.broker.topic.missing import MissingTopics
from penstock.broker.topic.subscribers import reads
from penstock.broker.turns import Turn
from penstock.config.backoff import Backoff
from penstock.config.broker import GroupOptions, GroupSettings, Start, settings_with, start_text
from penstock.delivery import events
from penstock.errors import GroupKindMismatch, InvalidValue, LimitReached, PenstockError
from penstock.types import Instant, check_name, whole_number

SLICE: Final = 10  # Partitions whose journals are written before others have a turn: some milliseconds.
SYNCED_SLICE: Final = 50  # And so many before the disk has to follow: all who publish wait for these syncs.


class Groups:
    def __init__(self, state: State, missing: MissingTopics) -> None:
        self._state = state
        self._missing = missing

    def ensure(
        self, topic: Topic, name: str, options: GroupOptions, *, internal: bool = False
    ) -> Steps[Group]:
        """The group, created or changed as ``options`` ask."""
        if not internal:
            check_name("group", name)
        group = topic.groups.get(name)
        if group is None or self._wanted(group, options) != group.settings:
            with Turn(self._state, [topic.changes]) as turn:
                yield from turn.wait()
                self._state.check_alive(topic)
                try:
                    group = yield from self._change(topic, name, options, internal)
                finally:
                    topic.wake()  # Consumers look at what has changed.
        for partition in topic.partitions:
            yield from journal_durable(partition)
        return group

    def _wanted(self, group: Group, options: GroupOptions) -> GroupSettings:
        """The settings that a group will have; raises if it cannot have them."""
        settings = settings_with(group.settings, options)
        _check_backoff(settings)
        if settings.kind != group.settings.kind:
            raise GroupKindMismatch(
                operation=f"kind={settings.kind!r}", kind=group.settings.kind, group=group.name
            )
        if settings.ordered != group.settings.ordered:
            raise InvalidValue(
                name="ordered", value=settings.ordered, why="it is fixed when a group is created"
            )
        return settings

    def _change(self, topic: Topic, name: str, options: GroupOptions, internal: bool) -> Steps[Group]:
        """Create or change the group; the caller holds its turn."""
        group = topic.groups.get(name)
        if group is not None:
            settings = self._wanted(group, options)
            if settings != group.settings:
                group.settings = settings
                yield from self._write(topic, group)
            return group
        settings = settings_with(GroupSettings() if internal else self._state.config.group, options)
        _check_backoff(settings)
        if settings.kind == "queue" and self._is_read_by_kafka(topic, name):
            raise GroupKindMismatch(operation="kind='queue'", kind="stream", group=name)
        if not name.startswith("__"):
            self._check_limit()
        group = Group(topic, name, settings)
        try:
            yield from self._write(topic, group)
        except BaseException:  # Also if the caller gives up.
            self._take_back(topic, name)
            raise
        topic.groups[name] = group
        topic.resized()
        return group

    def _take_back(self, topic: Topic, name: str) -> None:
        """Remove a group that could not be created on all partitions."""
        if topic.deleted:
            return
        for partition in topic.partitions:
            if name in partition.groups:
                with suppress(PenstockError):  # Then it is there again, as if new, after a restart.
                    self._delete_on(partition, name)
                del partition.groups[name]

    def _check_limit(self) -> None:
        limit = self._state.config.groups_max
        if sum(len(topic.groups) for topic in self._state.topics.values()) >= limit:
            raise LimitReached(what="groups", limit=limit, setting="groups_max")

    def _write(self, topic: Topic, group: Group) -> Steps[None]:
        """Write the group to all partitions, with turns for other operations if there are many."""
        for number, partition in enumerate(topic.partitions, 1):
            self.write_on(partition, group, self._state.clock.steady_ms())
            if number % SYNCED_SLICE == 0:  # Or thousands of journals would be written and not synced.
                for written in topic.partitions.owned[number - SYNCED_SLICE : number]:
                    yield from journal_durable(written)
                    self._state.check_alive(topic)
            elif number % SLICE == 0:
                self._state.grow(SLICE)
                yield GiveWay()
                self._state.check_alive(topic)

    def write_all(self, partition: Partition, topic: Topic) -> None:
        """Write all groups of a topic, and no others, to a partition that is about to be added."""
        now_ms = self._state.clock.steady_ms()
        for name in [name for name in partition.groups if name not in topic.groups]:
            self._delete_on(partition, name)
            del partition.groups[name]
        for group in topic.groups.values():
            known = partition.groups.get(group.name)
            if known is None or known.settings != group.settings:
                self.write_on(partition, group, now_ms)

    def write_on(self, partition: Partition, group: Group, now_ms: int) -> None:
        """Add the group with its settings to one partition and its journal."""
        journal = open_journal(self._state, partition)
        cursor = partition.groups.get(group.name)
        floor = start_offset(partition, group, group.settings.start) if cursor is None else 0
        number = partition.group_numbers + 1 if cursor is None else cursor.number
        journal.commit(
            [events.GroupSet(number, group.name, msgspec.json.encode(group.settings), floor)], now_ms
        )
        self._state.commit.mark_later(journal.log)  # An operation that waits for it marks it again.
        if cursor is None:
            engine = new_engine(group.settings, floor, partition, self._state.clock.wall_ms())
            partition.group_numbers = number
            partition.groups[group.name] = GroupCursor(partition, group.name, number, group.settings, engine)
        else:
            change_settings(cursor, group.settings)

    def consumer(
        self,
        name: str,
        group_name: str,
        identity: str | None,
        in_flight_max: int | None,
        wrap: Wrap,
        options: GroupOptions,
    ) -> Steps[GroupConsumer]:
        """A new consumer of a group, which is created if it does not exist."""
        topic = self._state.find(name)
        if topic is None:
            topic = yield from self._missing.create(name)
        if identity is not None:
            check_name("consumer", identity)
        limit = self._state.config.in_flight_max
        if in_flight_max is not None:
            whole_number("max_in_flight", in_flight_max, 1, limit)
        # The visibility timeout is the consumer's own; it becomes the group's only when the group is made.
        if group_name in topic.groups and "visibility_timeout" in options:
            shared: GroupOptions = {**options}
            own = settings_with(GroupSettings(), {"visibility_timeout": shared.pop("visibility_timeout")})
            group = yield from self.ensure(topic, group_name, shared)
        else:
            group = yield from self.ensure(topic, group_name, options)
            own = group.settings
        if group.settings.kind == "stream" and any(
            known.identity == identity for known in group.consumers.values()
        ):
            why = "the group has a consumer of that name, and a partition has one owner"
            raise InvalidValue(name="consumer_id", value=identity, why=why)
        if group.settings.kind == "stream" and self._is_read_by_kafka(topic, group_name):
            why = "members of a Kafka group of that name read the topic; take another name, or stop them"
            raise InvalidValue(name="group", value=group_name, why=why)
        members_max = self._state.config.group_members_max
        if len(group.consumers) >= members_max:
            raise LimitReached(what="consumers of a group", limit=members_max, setting="group_members_max")
        self._state.consumer_numbers += 1
        number = self._state.consumer_numbers
        consumer = GroupConsumer(
            identity or f"consumer-{number}", number, group, own.visibility_timeout_ms, wrap
        )
        consumer.in_flight_max = in_flight_max or limit
        consumer.turn = number
        consumer.joined_ms = self._state.clock.steady_ms()
        group.consumers[number] = consumer
        return consumer

    def _is_read_by_kafka(self, topic: Topic, name: str) -> bool:
        """Whether members of a Kafka group of that name read the topic."""
        kafka = self._state.kafka_groups.get(name)
        return kafka is not None and reads(kafka, topic.name)

    def create(self, name: str, group_name: str, options: GroupOptions) -> Steps[None]:
        """Create or change a group, without consuming."""
        yield from self.ensure(self._state.topic(name), group_name, options)

    def seek(self, name: str, group_name: str, to: Start | str | Instant, number: int | None) -> Steps[None]:
        """Move a group; its leases end."""
        topic = self._state.topic(name)
        group = topic.group(group_name)
        start = start_text(to)
        if number is None:
            topic.partitions.check_loaded()  # Or one that is being loaded would be left out.
        partitions = topic.partitions.owned if number is None else [topic.partition(number)]
        now_ms = self._state.clock.steady_ms()
        try:
            for count, partition in enumerate(partitions, 1):
                topic.partition(partition.number)  # Raises if it has moved to another node meanwhile.
                self.move(partition, group, start_offset(partition, group, start), now_ms)
                if count % SLICE == 0:
                    yield GiveWay()
                    self._state.check_alive(topic)
                    topic.group(group_name)  # Raises if it was deleted meanwhile.
        finally:
            topic.wake()
        for partition in partitions:
            yield from journal_durable(partition)

    def move(
        self, partition: Partition, group: Group, offset: int, now_ms: int, held_until_ms: int = 0
    ) -> None:
        """Move a group on one partition; retention may wait until a time for it to catch up."""
        cursor = partition.groups[group.name]
        journal = open_journal(self._state, partition)
        decisions: list[events.AnyEvent] = [events.Sought(cursor.number, offset)]
        if held_until_ms:
            decisions.append(events.Held(cursor.number, partition.log.end, held_until_ms))
        journal.commit(decisions, now_ms)
        self._state.commit.mark_later(journal.log)
        if held_until_ms:
            cursor.held_end, cursor.held_until_ms = partition.log.end, held_until_ms
        for lease in cursor.engine.leases.values():
            consumer = group.consumers.get(lease.consumer)
            if consumer is not None:
                consumer.in_flight -= sum(end - start for start, end in lease.unsettled())
        cursor.engine.seek(offset)
        cursor.committed, cursor.commit = offset, moved(cursor.commit, offset)
        cursor.failures.clear()
        rebuild_gate(cursor)
        for consumer in group.consumers.values():
            if partition.number in consumer.positions:
                consumer.positions[partition.number] = offset

    def delete(self, name: str, group_name: str) -> Steps[None]:
        """Delete a group; its consumers are closed.

        An error on the first partition changes nothing.  One later on cannot
        be taken back: the group is gone, and may be there again, as if new,
        after a restart.
        """
        topic = self._state.topic(name)
        topic.group(group_name)  # Raises if there is none.
        topic.partitions.check_loaded()
        with Turn(self._state, [topic.changes]) as turn:
            yield from turn.wait()
            self._state.check_alive(topic)
            try:
                yield from self._forget(topic, group_name)
            finally:
                topic.wake()  # Consumers of the group learn that it is gone.
        for partition in topic.partitions:
            yield from journal_durable(partition)

    def _forget(self, topic: Topic, group_name: str) -> Steps[None]:
        group = topic.group(group_name)
        left = [
            (partition, partition.groups[group_name].number) for partition in reversed(topic.partitions.owned)
        ]
        if left:
            self._commit_deleted(*left.pop())  # An error here changes nothing.
        for partition in topic.partitions:
            partition.groups.pop(group_name, None)
        del topic.groups[group_name]
        for consumer in group.consumers.values():
            consumer.closed = True
        topic.wake()
        failure: PenstockError | None = None
        try:
            while left:
                failure = self._write_deleted(topic, left, SLICE) or failure
                yield GiveWay()
        finally:  # The rest, if the caller gives up.
            failure = self._write_deleted(topic, left, len(left)) or failure
        if failure is not None:
            raise failure

    def _write_deleted(
        self, topic: Topic, left: list[tuple[Partition, int]], count: int
    ) -> PenstockError | None:
        """Write the deletion of the group to the journals."""
        failure: PenstockError | None = None
        while left and count and not topic.deleted:
            partition, number = left.pop()
            count -= 1
            if topic.partitions.get(partition.number) is not partition:
                continue  # It has moved to another node, whose concern it is.
            try:
                self._commit_deleted(partition, number)
            except PenstockError as error:
                failure = error
        if topic.deleted:
            left.clear()
        return failure

    def _delete_on(self, partition: Partition, group_name: str) -> None:
        self._commit_deleted(partition, partition.groups[group_name].number)

    def _commit_deleted(self, partition: Partition, number: int) -> None:
        journal = open_journal(self._state, partition)
        journal.commit([events.GroupDeleted(number)], self._state.clock.steady_ms())
        self._state.commit.mark_later(journal.log)


def _check_backoff(settings: GroupSettings) -> None:
    """Check a backoff before it is written: a journal with an invalid one could not be replayed."""
    try:
        Backoff.decode(settings.backoff)
    except InvalidValue as error:
        raise InvalidValue(name="backoff", value=settings.backoff, why=str(error)) from None


def start_offset(partition: Partition, group: Group, start: str) -> int:
    """The offset that ``start`` means for a group on this partition."""
    log = partition.log
    if start == "earliest":
        return log.start
    if start == "latest":
        if group.settings.uncommitted:
            return log.end
        return min(log.end, log.unstable)  # What a transaction may yet commit is still to come.
    if start.startswith("@"):
        return log.offset_at(int(start[1:]))
    return min(max(int(start), log.start), log.end)


def journal_durable(partition: Partition) -> Steps[None]:
    """Wait until the partition's decisions are as durable as its topic promises."""
    journal = partition.journal
    if (
        journal is not None
        and journal.log.config.durability == "fsync"
        and journal.log.durable < journal.log.written
    ):
        yield Durable(journal.log)
