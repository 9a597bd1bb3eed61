"""Publishes staged batches: all of them, exactly once.

    tasks      stage(topic, batches): they go to the topic __staging   invisible to readers
    driver     publish_staged(topic, application, version, ranges)
                 1  every staged batch is checked: complete, valid, its partition exists
                 2  the staging log is synced
                 3  the intent is written and synced                   the commit point
                 4  the batches are appended under the application's producer id, and synced
                 5  the intent is finished

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

Published batches are no longer needed in staging: a segment is deleted as soon as
everything up to its end is published, and after a day in any case (the topic's
retention), but never while an intent still needs it.
"""

from typing import Any, Final

import msgspec

from penstock.broker.journal.intents import NUMBERS_MAX, Intent, Intents, Ranges
from penstock.broker.publish.incoming import limits_of
from penstock.broker.publish.publishing import Publishing
from penstock.broker.publish.staged import Checking, Placing, read_staged
from penstock.broker.state import State, Topic
from penstock.broker.steps import Arrival, Durable, GiveWay, Steps
from penstock.broker.topic.topics import Topics
from penstock.config.broker import DAY_MS, MESSAGE_BYTES_MAX, TopicSettings
from penstock.delivery.offsets import OffsetSet
from penstock.errors import CorruptionError, InvalidValue, NotInCluster, TopicDamaged
from penstock.log.log import Log
from penstock.model.info import StagedPublish
from penstock.types import whole_number
from penstock.wire.staged import STAGING

APPLICATION_LENGTH_MAX: Final = 200
VERSION_MAX: Final = (1 << 62) - 1  # What compiled code holds in a machine word.
TURN_BYTES: Final = 256 * 1024  # Looked at or appended before others have their turn: a millisecond.
RETRY_MS: Final = 1000  # An intent that could not be finished is tried again after this.
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
        self._released: OffsetSet | None = None  # Of the staging log: what nobody needs any more.

    def stage(self, name: Any, data: Any) -> Steps[int]:
        """Put batches aside for a topic (``wire/staged.py``); the offset of the first of them."""
        self._state.topic(name)
        yield from self._topics.ensure(STAGING, SETTINGS)
        receipt = yield from self._publishing.append(STAGING, 0, data)
        assert receipt.offset is not None
        return receipt.offset

    def version(self, name: Any, application: Any) -> int | None:
        """The last version of an application that was published, or is bound to be."""
        topic = self._state.topic(name)
        checked_application(application)
        _check_readable(topic)
        return None if topic.intents is None else topic.intents.version(application)

    def publish(self, name: Any, application: Any, version: Any, staged: Any) -> Steps[StagedPublish]:
        """Publish staged ranges, by token, as one version of an application."""
        topic = self._state.topic(name)
        checked_application(application)
        whole_number("version", version, 0, VERSION_MAX)
        wanted = checked_ranges(staged)
        intents = self._opened(topic)
        if (yield from self._is_repeat(topic, intents, application, version)):
            return StagedPublish(published=0, duplicate=True)
        yield from self._topics.ensure(
            STAGING, SETTINGS
        )  # A job without a row has staged nothing, and is published all the same.
        log = self._log(topic)
        count = yield from self._check(topic, log, wanted)
        yield Durable(log)
        self._state.check_alive(topic)
        # Somebody may have been quicker; from this look to the intent nothing waits any more.
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
                yield from self._finish(topic, intents, intent)
            self._state.check_alive(topic)
        last = intents.version(application)
        return last is not None and version <= last

    def _log(self, topic: Topic) -> Log:
        """The staging log, which must live as long as what it is needed for."""
        log = self._state.topic(STAGING).partitions[0].log
        if log.config.durability == "memory" and topic.settings.durability != "memory":
            why = f"it is in memory, and {topic.name!r} is not: delete it, and it is made anew"
            raise InvalidValue(name="topic", value=STAGING, why=why)
        return log

    def _check(self, topic: Topic, log: Log, staged: dict[str, Ranges]) -> Steps[int]:
        """How many records are staged; raises if any of them could not be published."""
        checking = Checking(topic, self._state.clock.wall_ms())
        bytes_left = TURN_BYTES
        for number, batch in read_staged(log, staged):
            header = checking.header_of(number, batch)
            yield from self._publishing.check_batch(topic, batch, header, limits_of(topic))
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
        if limit is not None:
            yield from self._publishing.wait_for_room(topic, min(count, limit))
        return count

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
        try:
            yield Durable(intents.log)
            self._state.check_alive(topic)
            resumed = application in intents.resumed
            intents.resumed.add(application)
            placing = Placing(self._state, self._publishing, intent, resumed=resumed)
            bytes_left = TURN_BYTES
            for number, batch in read_staged(self._log(topic), intent.staged):
                placing.put(topic.partitions[number], batch)
                bytes_left -= len(batch)
                if bytes_left <= 0:
                    yield GiveWay()
                    self._state.check_alive(topic)
                    bytes_left = TURN_BYTES
            for log in placing.logs:
                yield Durable(log)
            self._state.check_alive(topic)
            intents.finish(intent)
            self._state.commit.mark(intents.log)
            if intents.log.cached:  # What is released is not needed even if this node ends now.
                yield Durable(intents.log)
        finally:
            intents.running.discard(application)
            if application in intents.pending and not topic.deleted:
                self._state.alarms.set(intents, self._state.clock.steady_ms() + RETRY_MS)
            topic.wake()
        self._release(intent.staged)

    def resume(self, name: str) -> Steps[None]:
        """Finish what somebody began: the process before this one, or a caller that gave up."""
        topic = self._state.topics.get(name)
        if topic is None or topic.intents is None:
            return
        intents = topic.intents
        for application, intent in list(intents.pending.items()):
            if application not in intents.running and intents.pending.get(application) is intent:
                yield from self._finish(topic, intents, intent)

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
            if topic.files.cache:
                raise NotInCluster(what="the exactly-once sink of Spark")
            directory = _directory(topic)
            durability = "memory" if topic.settings.durability == "memory" else "fsync"
            topic.intents = Intents(topic.name, topic.files, directory, durability, self._state.clock)
            self._state.watch(topic.intents.log, "intents", topic.name)
        return topic.intents

    def needed_from(self, end: int) -> int:
        """The first offset of staging that an intent needs; ``end`` if none does."""
        if any(topic.intents_error is not None for topic in self._state.topics.values()):
            return 0  # Nobody knows.
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

    def _release(self, staged: dict[str, Ranges]) -> None:
        """These were published: delete the segments before which nobody needs anything."""
        staging = self._state.topics.get(STAGING)
        if staging is None:
            return
        log = staging.partitions[0].log
        if self._released is None:
            self._released = OffsetSet(log.start)
        self._released.raise_floor(log.start)
        for ranges in staged.values():
            for start, end in ranges:
                self._released.add(start, end)
        log.delete_before(self._released.floor)


def _check_readable(topic: Topic) -> None:
    if topic.intents_error is not None:
        raise topic.intents_error


def _directory(topic: Topic) -> str:
    return f"{topic.directory}/intents"


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
