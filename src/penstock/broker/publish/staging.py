"""Publishes staged batches: all of them, exactly once.

    tasks      stage(topic, batches): they go to the topic __staging   invisible to readers
    driver     publish_staged(topic, application, version, ranges)
                 1  every staged batch is checked: complete, valid, its partition exists
                 2  the staging log is synced
                 3  the intent is written and synced                   the commit point
                 4  the batches are appended under the application's producer id, and synced
                 5  the intent is finished
            for a topic of durability "os" the caller does not wait for the sync of 4, and for 5

A crash before 3 publishes nothing.  After it, the next broker that opens the directory
continues with 4, and the partitions recognise by sequence numbers what they already
have.  A version that is not above the application's last one is a repeat and has no
effect.  So a job that publishes under its own version does so exactly once, however
often it is retried.

From 3 to 5 readers see a part of it; within a partition they see it in the order of
the given ranges.

``__staging`` is an internal topic, one for all topics, created on first use.  The
permission to publish to a topic includes staging for it.

A caller may give up at any time.  The intent stays, and the next call for that
application, or an alarm, continues it.

In a cluster the owner of partition 0 has the intents of a topic and publishes.  The staging log and the other
partitions may have other owners (``registry/staging_peers.py``), so steps 1 and 4 go over them: batches are
handed to the owner of their partition with the same sequence numbers, and the owner recognises a repeat.

Published batches are no longer needed in staging: a segment is deleted as soon as
everything up to its end is published, and after a day in any case (the topic's
retention), but never while an intent still needs it.
"""

import logging
from typing import Any, Final

import msgspec

from penstock.broker.journal.intents import NUMBERS_MAX, Intent, Intents, Ranges
from penstock.broker.publish.publishing import Publishing
from penstock.broker.publish.staged import Checking, Placing, Read, StagedReader, read_log
from penstock.broker.registry.staging_peers import StagingRoom
from penstock.broker.state import State, Topic
from penstock.broker.steps import Arrival, Durable, GiveWay, Steps
from penstock.broker.storage.recovery import INTENTS
from penstock.broker.topic.depth import partition_depth
from penstock.broker.topic.topics import Topics
from penstock.broker.topic.waiting import wait_for_room
from penstock.config.broker import DAY_MS, MESSAGE_BYTES_MAX, TopicSettings
from penstock.delivery.offsets import OffsetSet
from penstock.errors import CorruptionError, InvalidValue, NotOwner, PenstockError, QueueFull, TopicDamaged
from penstock.log.log import Log
from penstock.model.info import StagedPublish
from penstock.types import whole_number
from penstock.wire.records import check_batch, read_header
from penstock.wire.staged import STAGING

logger = logging.getLogger("penstock")

APPLICATION_LENGTH_MAX: Final = 200
VERSION_MAX: Final = (1 << 62) - 1  # What compiled code holds in a machine word.
TURN_BYTES: Final = 256 * 1024  # Looked at or appended before others have their turn: a millisecond.
RETRY_MS: Final = 1000  # An intent that could not be finished is tried again after this.
PLACED_BYTES: Final = 4 << 20  # Handed to the owners of partitions at a time; they commit it in one round.
SYNC_BYTES: Final = 16 << 20  # Staged before it is synced: what others sync meanwhile waits for no more.
ROOM_MS: Final = 100  # In a cluster, how often it is looked whether there is room now.
# In a cluster: for so long after a node took staging over, nothing is too old.  Intents of other nodes that
# need it, which may have waited as long as the cluster was down, are finished within seconds.
KEPT_MS: Final = 3600 * 1000
SETTINGS: Final = TopicSettings(
    partitions=1,
    retention_ms=DAY_MS,
    segment_bytes=64 << 20,  # Small, because what is published is deleted by whole segments.
    message_bytes_max=MESSAGE_BYTES_MAX,  # A batch is a message there.
    durability="os",  # It is synced before it is published.
)


class Staging:
    """The way in for jobs of many tasks."""

    def __init__(self, state: State, topics: Topics, publishing: Publishing) -> None:
        self._state = state
        self._topics = topics
        self._publishing = publishing
        self._released: OffsetSet | None = None  # Of the staging log: offsets that are no longer needed.
        self._taken_over = (-1, 0)  # In a cluster: the epoch of the staging log, and since when it is here.

    def prepare(self) -> Steps[None]:
        """Create the topic in which batches are staged, if that has not been done."""
        yield from self._topics.ensure(STAGING, SETTINGS)

    def stage(self, name: Any, data: Any) -> Steps[int]:
        """Put batches aside for a topic (``wire/staged.py``); the offset of the first of them."""
        self._state.topic(name)
        yield from self.prepare()
        receipt = yield from self._publishing.append(STAGING, 0, data)
        assert receipt.offset is not None
        self._sync_soon(self._state.topic(STAGING).partitions[0].log)
        return receipt.offset

    def _sync_soon(self, log: Log) -> None:
        """Have the disk write what is staged while the job works, so that the publish waits for little."""
        commit = self._state.commit
        if commit.round.local and log.written - log.durable >= SYNC_BYTES:
            commit.mark_later(log)
            commit.kick()

    def version(self, name: Any, application: Any) -> int | None:
        """The last version of an application that was published, or is bound to be."""
        topic = self._state.readable(name, 0)
        topic.partition(0)  # Raises if another node owns it, and with it the intents.
        checked_application(application)
        _check_readable(topic)
        return None if topic.intents is None else topic.intents.version(application)

    def publish(self, name: Any, application: Any, version: Any, staged: Any) -> Steps[StagedPublish]:
        """Publish staged ranges, by token, as one version of an application."""
        topic = self._state.topic(name)
        checked_application(application)
        whole_number("version", version, 0, VERSION_MAX)
        wanted = checked_ranges(staged)
        topic.partition(0)  # Raises if another node owns it, and with it the intents.
        intents = self._opened(topic)
        if (yield from self._is_repeat(topic, intents, application, version)):
            return StagedPublish(published=0, duplicate=True)
        yield from self.prepare()  # A job without a row has staged nothing, and is published all the same.
        count = yield from self._check(topic, wanted)
        if self._state.staging_peers is None:
            yield Durable(self._log(topic))
        _check_mine(self._state, topic, intents)
        # Another call may have been quicker; between this check and the intent nothing waits.
        if (yield from self._is_repeat(topic, intents, application, version)):
            return StagedPublish(published=0, duplicate=True)
        intent = self._begun(intents, application, version, count, wanted)
        yield from self._finish(topic, intents, intent)
        return StagedPublish(published=count, duplicate=False)

    # Before the commit point.

    def _is_repeat(self, topic: Topic, intents: Intents, application: str, version: int) -> Steps[bool]:
        """Whether the version was published before; what the application has under way is finished first."""
        while (intent := intents.pending.get(application)) is not None:
            if application in intents.running:
                yield Arrival(topic, self._state.clock.steady_ms() + RETRY_MS)
            else:
                yield from self._continue(topic, intents, intent)
            _check_mine(self._state, topic, intents)
        last = intents.version(application)
        return last is not None and version <= last

    def _log(self, topic: Topic) -> Log:
        """The staging log, which must live as long as what it is needed for."""
        log = self._state.topic(STAGING).partitions[0].log
        if log.config.durability == "memory" and topic.settings.durability != "memory":
            why = f"it is in memory, and {topic.name!r} is not: delete it, and it is made anew"
            raise InvalidValue(name="topic", value=STAGING, why=why)
        return log

    def _reader(self, topic: Topic) -> Read:
        peers = self._state.staging_peers
        if peers is not None:
            return peers.read
        log = self._log(topic)
        return lambda offset, end: read_log(log, offset, end)

    def _check(self, topic: Topic, staged: dict[str, Ranges]) -> Steps[int]:
        """How many records are staged; raises if any of them could not be published."""
        peers = self._state.staging_peers
        rooms = self.rooms(topic.name) if peers is None else (yield from peers.rooms(topic.name))
        checking = Checking(topic, rooms, self._state.clock.wall_ms())
        reader = StagedReader(self._reader(topic), staged)
        bytes_left = TURN_BYTES
        while found := (yield from reader.more()):
            for number, batch in found:
                header = checking.header_of(number, batch)
                yield from self._publishing.check_staged(topic, batch, header)
                self._state.check_alive(topic)
                checking.check(number, batch, header)
                bytes_left -= len(batch)
                if bytes_left <= 0:
                    yield GiveWay()
                    self._state.check_alive(topic)
                    bytes_left = TURN_BYTES
        count = checking.count
        whole_number("the count of staged records", count, 0, NUMBERS_MAX)
        limit = topic.settings.depth_max
        if limit is not None and peers is None:
            yield from wait_for_room(self._state, topic, min(count, limit))
        elif limit is not None:
            yield from self._wait_at_owners(topic, checking.counts, rooms, limit)
        return count

    def rooms(self, name: str) -> dict[int, StagingRoom]:
        """Of the partitions of this node."""
        topic = self._state.readable(name)
        depths = topic.settings.depth_max is not None
        return {
            partition.number: StagingRoom(
                partition.log.last_timestamp,
                0 if partition.schedule is None else partition.schedule.count,
                partition_depth(partition) if depths else 0,
            )
            for partition in topic.partitions
        }

    def _wait_at_owners(
        self, topic: Topic, counts: dict[int, int], rooms: dict[int, StagingRoom], limit: int
    ) -> Steps[None]:
        """Refuse, or wait, while a partition has too much; each has an equal share of the limit."""
        peers, settings = self._state.staging_peers, topic.settings
        assert peers is not None, "only in a cluster"
        share = max(limit // len(topic.partitions), 1)
        deadline_ms = self._state.clock.steady_ms() + settings.depth_wait_ms
        while any(rooms[number].depth + min(count, share) > share for number, count in counts.items()):
            now_ms = self._state.clock.steady_ms()
            if settings.depth_policy == "reject" or now_ms >= deadline_ms:
                raise QueueFull(what=f"topic {topic.name!r}", limit=limit)
            yield Arrival(topic, min(now_ms + ROOM_MS, deadline_ms))
            self._state.check_alive(topic)
            rooms = yield from peers.rooms(topic.name)

    def _begun(
        self, intents: Intents, application: str, version: int, count: int, staged: dict[str, Ranges]
    ) -> Intent:
        producer_id, sequence = intents.numbers(application, count)
        if producer_id < 0:
            producer_id = self._state.registry.new_producer_id()
        time_ms = self._state.clock.wall_ms()
        intent = Intent(application, version, producer_id, sequence, count, time_ms, staged)
        intents.begin(intent)
        return intent

    # From the commit point on.

    def _finish(self, topic: Topic, intents: Intents, intent: Intent) -> Steps[None]:
        """Do what an intent says, as far as it is not done."""
        application = intent.application
        intents.running.add(application)
        logs: list[Log] = []
        try:
            yield Durable(intents.log)
            self._state.check_alive(topic)
            resumed = application in intents.resumed
            intents.resumed.add(application)
            if self._state.staging_peers is not None:
                yield from self._place_at_owners(topic, intent)
            else:
                logs = yield from self._place(topic, intent, resumed)
        except BaseException:
            self._leave(topic, intents, application)
            raise
        if topic.settings.durability == "os" and self._state.staging_peers is None:
            # Readers have it, and after a crash it is done again.  An alarm sees to the rest, at once.
            intents.placed[application] = logs
            self._leave(topic, intents, application, self._state.clock.steady_ms())
        else:
            yield from self._end(topic, intents, intent, logs)

    def _continue(self, topic: Topic, intents: Intents, intent: Intent) -> Steps[None]:
        """Go on with an intent that nobody works on."""
        logs = intents.placed.get(intent.application)
        if logs is None:
            yield from self._finish(topic, intents, intent)
        else:
            intents.running.add(intent.application)
            yield from self._end(topic, intents, intent, logs)

    def _end(self, topic: Topic, intents: Intents, intent: Intent, logs: list[Log]) -> Steps[None]:
        """Forget an intent when its batches are durable where they belong."""
        try:
            for log in logs:
                yield Durable(log)
            _check_mine(self._state, topic, intents)
            intents.finish(intent)
            intents.placed.pop(intent.application, None)
            self._state.commit.mark(intents.log)
            if intents.log.cached:  # What is released is not needed even if this node ends now.
                yield Durable(intents.log)
        finally:
            self._leave(topic, intents, intent.application)
        released = [each for ranges in intent.staged.values() for each in ranges]
        peers = self._state.staging_peers
        if peers is None:
            self.release(released)
            return
        try:
            yield from peers.release(released)
        except PenstockError as error:  # Retention deletes it.
            logger.info("what was published is still staged: %s", error)

    def _leave(self, topic: Topic, intents: Intents, application: str, at_ms: int | None = None) -> None:
        """Nobody works on the intent of an application any more; if it is not done, an alarm goes on."""
        intents.running.discard(application)
        if application in intents.pending and not topic.deleted:
            self._state.alarms.set(intents, at_ms or self._state.clock.steady_ms() + RETRY_MS)
        topic.wake()

    def _place(self, topic: Topic, intent: Intent, resumed: bool) -> Steps[list[Log]]:
        """Append what is not in its log yet; returns the logs that must be durable then."""
        placing = Placing(self._state, self._publishing, intent.producer_id, intent.time_ms, resumed=resumed)
        reader = StagedReader(self._reader(topic), intent.staged)
        sequence, bytes_left = intent.sequence, TURN_BYTES
        while found := (yield from reader.more()):
            for number, batch in found:
                sequence += placing.put(topic.partitions[number], sequence, batch)
                bytes_left -= len(batch)
                if bytes_left <= 0:
                    yield GiveWay()
                    self._state.check_alive(topic)
                    bytes_left = TURN_BYTES
        return list(placing.logs)

    def _place_at_owners(self, topic: Topic, intent: Intent) -> Steps[None]:
        peers = self._state.staging_peers
        assert peers is not None, "only in a cluster"
        reader, sequence = StagedReader(peers.read, intent.staged), intent.sequence
        batches: dict[int, list[tuple[int, bytes]]] = {}
        size = 0
        while found := (yield from reader.more()):
            for number, batch in found:
                batches.setdefault(number, []).append((sequence, batch))
                sequence += read_header(batch).count
                size += len(batch)
            if size >= PLACED_BYTES:
                yield from peers.place(topic.name, batches, intent.producer_id, intent.time_ms)
                batches, size = {}, 0
        if batches:
            yield from peers.place(topic.name, batches, intent.producer_id, intent.time_ms)

    def place(
        self, name: str, batches: dict[int, list[tuple[int, bytes]]], producer_id: int, time_ms: int
    ) -> Steps[None]:
        """Append batches of another node's intent to partitions of this one, those that are not there yet."""
        topic = self._state.topic(name)
        partitions = {number: topic.partition(number) for number in batches}
        placing = Placing(self._state, self._publishing, producer_id, time_ms, resumed=True)
        for number, partition in partitions.items():
            for sequence, batch in batches[number]:
                check_batch(batch)
                placing.put(partition, sequence, batch)
        for log in placing.logs:
            yield Durable(log)

    def read(self, offset: int, end: int) -> Steps[bytes]:
        """Durable record batches of the staging log, which this node owns."""
        log = self._state.readable(STAGING, 0).partition(0).log
        yield Durable(log)
        return (yield from read_log(log, offset, end))

    def resume(self, name: str) -> Steps[None]:
        """Finish an intent that the previous process or a cancelled caller has begun."""
        topic = self._state.topics.get(name)
        if topic is None or topic.intents is None:
            return
        intents = topic.intents
        for application, intent in list(intents.pending.items()):
            if application not in intents.running and intents.pending.get(application) is intent:
                yield from self._continue(topic, intents, intent)

    # Files.

    def revive(self, topic: Topic) -> None:
        """A topic was opened: so are its intents, and a job finishes what is under way."""
        if not topic.files.exists(_directory(topic)):
            return
        try:
            if self._opened(topic).pending:
                self._state.jobs.append(self.resume(topic.name))
        except CorruptionError as error:
            topic.intents_error = TopicDamaged(topic=topic.name, why=f"its intents: {error.why}")
            message = (
                f"what jobs have published to {topic.name} cannot be read: at byte "
                f"{error.position}, {error.why}; it takes no staged publish until it is "
                "repaired"
            )
            self._state.problems.report(
                ("intents", topic.name),
                "file_damaged",
                message,
                topic=topic.name,
                path=error.path,
            )

    def _opened(self, topic: Topic) -> Intents:
        _check_readable(topic)
        if topic.intents is None:
            directory = _directory(topic)
            durability = "memory" if topic.settings.durability == "memory" else "fsync"
            topic.intents = Intents(topic.name, topic.files, directory, durability, self._state.clock)
            self._state.watch(topic.intents.log, "intents", topic.name)
        return topic.intents

    def needed_from(self, end: int) -> int:
        """The first offset of staging that an intent needs; ``end`` if none does."""
        if any(topic.intents_error is not None for topic in self._state.topics.values()):
            return 0  # Unknown.
        if self._state.staging_peers is not None and self._is_new_here():
            return 0
        return min(
            (
                start
                for topic in self._state.topics.values()
                if topic.intents is not None
                for intent in topic.intents.pending.values()
                for ranges in intent.staged.values()
                for start, _ in ranges
            ),
            default=end,
        )

    def _is_new_here(self) -> bool:
        now_ms, epoch = self._state.clock.steady_ms(), self._state.topic(STAGING).partition(0).epoch
        if self._taken_over[0] != epoch:
            self._taken_over = epoch, now_ms
        return now_ms < self._taken_over[1] + KEPT_MS

    def release(self, ranges: Ranges) -> None:
        """These offsets were published: delete the segments that are no longer needed."""
        staging = self._state.topics.get(STAGING)
        if staging is None:
            return
        log = staging.partitions[0].log
        if self._released is None or self._released.floor > log.end:
            self._released = OffsetSet(log.start)
        self._released.raise_floor(log.start)
        for start, end in ranges:
            self._released.add(start, end)
        log.delete_before(self._released.floor)


def _check_mine(state: State, topic: Topic, intents: Intents) -> None:
    """After a wait: the intents must still be those of the topic, and of this node."""
    state.check_alive(topic)
    if topic.intents is not intents:
        raise NotOwner(topic=topic.name, partition=0, owner=-1, epoch=0)


def _check_readable(topic: Topic) -> None:
    if topic.intents_error is not None:
        raise topic.intents_error


def _directory(topic: Topic) -> str:
    return f"{topic.directory}/{INTENTS}"


def checked_application(application: Any) -> str:
    """The name of an application, if it may be one."""
    if isinstance(application, str) and 0 < len(application) <= APPLICATION_LENGTH_MAX:
        return application
    why = f"it is text of 1 to {APPLICATION_LENGTH_MAX} characters"
    raise InvalidValue(name="application", value=application, why=why)


def checked_ranges(staged: Any) -> dict[str, Ranges]:
    """Ranges of the staging log, by token."""
    try:
        wanted = msgspec.convert(staged, dict[str, Ranges])
    except msgspec.ValidationError as problem:
        raise InvalidValue(name="staged", value=staged, why=str(problem)) from None
    for ranges in wanted.values():
        for start, end in ranges:
            if not 0 <= start < end:
                raise InvalidValue(name="staged", value=(start, end), why="a range is not empty")
    return wanted
