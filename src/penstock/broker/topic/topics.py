"""Creates, grows and deletes topics in steps, so that thousands of partitions do not delay other operations.

    create    the partitions, in slices     ──> a temporary directory      ──> its name, by one rename
    grow      new partitions with the groups' journals, in slices          ──> topic.json
    delete    another name, by one rename   ──> the logs, in slices        ──> the directory's content

The change is atomic for callers: the rename, or the new topic.json, happens together with the change of the
state, under the lock.  A crash or a cancelled call before or after it leaves a complete topic or none, and at
most a directory that the next open, growth or maintenance removes.

Disk writes happen outside the lock (``Aside``), except for the one sync of topic.json when a topic grows.
A rename that is visible and not yet synced does no harm: the first sync of every log in it includes the
directories above.

Changes of one topic, each of which takes many steps, wait for each other (``Topic.changes``).  A deletion
does not: the change notices it with ``check_alive``, after each step.

The limits of ``BrokerConfig`` on topics and partitions are checked before the work and again at its end,
because other topics may have been created meanwhile.  Internal topics (dead letters, staging) are created
regardless.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from msgspec.structs import replace

from penstock.broker.state import Group, Partition, State, Topic, Unowned
from penstock.broker.steps import GiveWay, Steps, aside
from penstock.broker.storage.recovery import new_partition
from penstock.broker.topic.catalogue import Catalogue
from penstock.broker.topic.groups import SYNCED_SLICE, Groups, journal_durable
from penstock.broker.turns import Turn
from penstock.config.broker import GroupSettings, TopicOptions, TopicSettings, settings_with
from penstock.errors import Closed, InvalidValue, LimitReached, PenstockError, TopicExists
from penstock.log.files import Files
from penstock.log.log import Log
from penstock.types import TRANSACTIONS, check_name

T = TypeVar("T")

SLICE: Final = 100  # Partitions that are made or closed before others have a turn: some milliseconds.
SWEEP_MS: Final = 10  # Between two slices of a folder that is removed.
WRITTEN_SLICE: Final = 10  # The same where a journal is begun for each.


class Topics:
    """Creates, changes and deletes topics."""

    def __init__(self, state: State, catalogue: Catalogue) -> None:
        self._state = state
        self._catalogue = catalogue

    # Making.

    def create(self, name: str, options: TopicOptions) -> Steps[None]:
        """A new topic with the broker's default settings, except for ``options``."""
        self._state.check_open()
        settings = settings_with(self.defaults(), options)
        if self._state.in_memory and settings.durability != "memory":
            why = "this broker keeps all in memory"
            raise InvalidValue(name="durability", value=settings.durability, why=why)
        self._check(name, settings.partitions)
        yield from self._state.registry.create_topic(name, settings, limited=True)

    def defaults(self) -> TopicSettings:
        return self._possible(self._state.config.topic)

    def ensure(self, name: str, settings: TopicSettings) -> Steps[None]:
        """A topic of the broker itself, created if it is missing, regardless of limits."""
        while name not in self._state.topics:
            with suppress(TopicExists):  # Another caller was quicker.
                settings = self._possible(settings)
                yield from self._state.registry.create_topic(name, settings, limited=False)

    def _possible(self, settings: TopicSettings) -> TopicSettings:
        return replace(settings, durability="memory") if self._state.in_memory else settings

    def make(
        self, name: str, settings: TopicSettings, topic_id: bytes | None = None, *, limited: bool = True
    ) -> Steps[None]:
        """Create a topic; ``limited``: refuse it if the broker has as many as it may have."""
        self._check(name, settings.partitions if limited else 0)
        topic = self._catalogue.new(name, settings, topic_id)
        try:
            yield from self._install(topic, limited)
        except BaseException:  # Also if the caller gives up.
            self._state.gone.append(topic)  # So that its memory is freed.
            raise
        try:
            yield from self.aside(self._catalogue.sync)
        except PenstockError:
            self._take_back(topic)
            raise

    def _install(self, topic: Topic, limited: bool) -> Steps[None]:
        """Create the partitions and the directory, then make the topic visible."""
        count = topic.settings.partitions
        partitions: list[Partition | Unowned] = []
        for number in range(count):
            partitions.append(self._new_partition(topic, number))
            if number % SLICE == SLICE - 1:
                self._state.grow(SLICE)
                yield GiveWay()
        self._state.grow(count % SLICE)
        topic.partitions.extend(partitions)
        made = yield from self.aside(partial(self._catalogue.prepare, topic))
        try:
            self._check(topic.name, count if limited else 0)
            self._catalogue.install(topic, made)
        except PenstockError:
            self._catalogue.trash.append(made)
            raise
        self._state.topics[topic.name] = topic

    def _new_partition(self, topic: Topic, number: int) -> Partition | Unowned:
        owner = self._state.registry.owner(topic.name, number)
        return new_partition(self._state, topic, number) if owner is None else Unowned(number, *owner)

    def _check(self, name: str, partitions: int) -> None:
        self._state.check_open()
        if partitions or name != TRANSACTIONS:  # Which only the broker itself creates, without limits.
            check_name("topic", name)
        if name in self._state.topics:
            raise TopicExists(topic=name)
        self._state.check_online(name)
        if partitions:
            config = self._state.config
            if len(self._state.topics) >= config.topics_max:
                raise LimitReached(what="topics", limit=config.topics_max, setting="topics_max")
            self._check_partitions(partitions, partitions)

    def _check_partitions(self, of_topic: int, more: int) -> None:
        config = self._state.config
        if of_topic > config.topic_partitions_max:
            limit = config.topic_partitions_max
            raise LimitReached(what="partitions of a topic", limit=limit, setting="topic_partitions_max")
        if sum(len(topic.partitions) for topic in self._state.topics.values()) + more > config.partitions_max:
            raise LimitReached(what="partitions", limit=config.partitions_max, setting="partitions_max")

    def _take_back(self, topic: Topic) -> None:
        """Undo a creation that may not be on disk, so that it can be tried again.

        Unless others have written to the topic meanwhile: their syncs include its name, and a second try
        must not move acknowledged messages out of the way.
        """
        if self._state.topics.get(topic.name) is topic and not any(log.end for log in _logs(topic)):
            topic.deleted = True
            del self._state.topics[topic.name]
            self._state.gone.append(topic)
            self._catalogue.forget(topic)
            for log in _logs(topic):
                log.abandon()
            topic.wake()

    # Growing, and other changes.

    def alter(self, name: str, options: TopicOptions) -> Steps[None]:
        """Change settings; partitions may only become more, and new ones come with the groups there are."""
        topic = self._state.topic(name)
        with Turn(self._state, [topic.alterations]) as turn:
            yield from turn.wait()
            self._state.check_alive(topic)
            settings = settings_with(topic.settings, options)
            self._catalogue.check_change(topic, settings)
            yield from self._state.registry.alter_topic(name, settings)

    def change(self, name: str, settings: TopicSettings, groups: Groups) -> Steps[None]:
        """Give a topic these settings."""
        topic = self._state.any_topic(name)
        grown: list[Partition | Unowned] = []
        with Turn(self._state, [topic.changes]) as turn:
            yield from turn.wait()
            self._state.check_alive(topic)
            try:
                if settings.partitions > len(topic.partitions):
                    yield from self._grow(topic, grown, settings.partitions, groups)
                self._catalogue.alter(topic, settings)
            except BaseException:  # Also if the caller gives up.
                abandon_partitions(_here(grown))
                raise
            finally:
                topic.wake()  # Consumers look at what has changed.
        topic.partitions.extend(grown)
        topic.resized()
        topic.dedup.window_ms = settings.dedup_window_ms
        for partition in topic.partitions:
            partition.log.set_segment_bytes(settings.segment_bytes)

    def _grow(
        self, topic: Topic, grown: list[Partition | Unowned], count: int, groups: Groups
    ) -> Steps[None]:
        """Partitions that are not visible yet, with all groups in their journals."""
        first = len(topic.partitions)
        self._check_partitions(count, count - first)
        self._catalogue.clear_partitions(topic, first)
        for number in range(first, count):
            grown.append(self._new_partition(topic, number))
            if number % SLICE == SLICE - 1:
                self._state.grow(SLICE)
                yield GiveWay()
                self._state.check_alive(topic)
        here = _here(grown)
        written: dict[str, tuple[Group, GroupSettings]] = {}
        while (wanted := _groups_of(topic)) != written:  # They may change while others have their turns.
            for number, partition in enumerate(here):
                groups.write_all(partition, topic)
                if topic.groups and number % WRITTEN_SLICE == WRITTEN_SLICE - 1:
                    self._state.grow(WRITTEN_SLICE * len(topic.groups))
                    yield GiveWay()
                    self._state.check_alive(topic)
                if number % SYNCED_SLICE == SYNCED_SLICE - 1:
                    for begun in here[number + 1 - SYNCED_SLICE : number + 1]:
                        yield from journal_durable(begun)
                        self._state.check_alive(topic)
            written = wanted
        self._check_partitions(count, count - first)

    # Deleting.

    def delete(self, name: str) -> Steps[None]:
        """Remove a topic with all its messages and groups."""
        if name in self._state.offline and not self._state.closed:
            self._catalogue.delete_offline(name)
            self._state.problems.forget_topic(name)
        else:
            self._state.topic(name)  # Raises if there is none.
            yield from self._state.registry.delete_topic(name)
        yield from self.aside(self._catalogue.sync)
        yield from self.sweep()

    def remove(self, name: str) -> Steps[None]:
        """Make a topic invisible; ``sweep`` removes its files."""
        topic = self._state.any_topic(name)
        self._catalogue.take_away(topic)
        gone = Closed(what=f"topic {name}")
        for log in _logs(topic):  # All at once, or one of them would find that its file was deleted.
            log.give_up(gone)
        topic.deleted = True
        del self._state.topics[topic.name]
        self._state.gone.append(topic)
        self._state.problems.forget_topic(topic.name)
        for group in topic.groups.values():
            for consumer in group.consumers.values():
                consumer.closed = True
        topic.wake()
        rest = iter(enumerate(_logs(topic)))
        try:
            for number, log in rest:
                log.abandon()
                if number % SLICE == SLICE - 1:
                    yield GiveWay()
        finally:
            for _, log in rest:  # If the caller gives up.
                log.abandon()

    def sweep(self) -> Steps[None]:
        """Remove the directories of deleted topics, a part at a time."""
        trash = self._catalogue.trash
        if trash:
            folder = trash.pop()
            try:
                done = yield from self.aside(partial(self._catalogue.remove_some, folder, SLICE))
            except BaseException:
                trash.insert(0, folder)  # The next upkeep tries again.
                raise
            if not done:
                trash.append(folder)
            if trash:
                self._state.alarms.set(self._state.sweep, self._state.clock.steady_ms() + SWEEP_MS)

    def aside(self, function: Callable[[], T], files: Files | None = None) -> Steps[T]:
        """Run file operations without the lock; those in memory are fast and not thread-safe, so with it."""
        if self._state.in_memory or files is self._state.memory:
            return function()
        result = yield from aside(partial(_attempt, function))
        if isinstance(result, PenstockError):
            raise result
        return result


def partition_logs(partition: Partition) -> list[Log]:
    """All logs of a partition; the first one includes those of the topic itself."""
    logs = [partition.log]
    if partition.journal is not None:
        logs.append(partition.journal.log)
    if partition.schedule is not None:
        logs.append(partition.schedule.log)
    if partition.restoration is not None:
        logs.append(partition.restoration.staged)
    if partition.topic.intents is not None and partition.number == 0:
        logs.append(partition.topic.intents.log)
    return logs


def _attempt(function: Callable[[], T]) -> T | PenstockError:
    """Return an error as the result: an exception of an ``Aside`` would end the whole operation."""
    try:
        return function()
    except PenstockError as error:
        return error


def abandon_partitions(partitions: list[Partition]) -> None:
    """Close partitions that never became visible, as they are."""
    for partition in partitions:
        for log in partition_logs(partition):
            log.abandon()
        partition.groups.clear()  # They refer to the partition, which would not be freed.


def _here(slots: list[Partition | Unowned]) -> list[Partition]:
    return [slot for slot in slots if isinstance(slot, Partition)]


def _logs(topic: Topic) -> Iterator[Log]:
    for partition in topic.partitions:
        yield from partition_logs(partition)


def _groups_of(topic: Topic) -> dict[str, tuple[Group, GroupSettings]]:
    return {name: (group, group.settings) for name, group in topic.groups.items()}
