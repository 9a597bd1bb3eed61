"""Dead letters: messages that used up their attempts, were rejected, or expired.

A dead letter is an ordinary message in ``<topic>.dlq``: key, value and headers
as they were, plus headers with the reason.  Burying a message is one decision in the
journal of its partition (settled there, published to the dead-letter topic); the
publish is repeated after a crash and deduplicated if it had happened, so a message is
buried exactly once.

Redriving is the same in the other direction: one decision in the journal of
the dead-letter partition, kept by the internal group ``__redrive``.  A dead
letter that this group has settled was redriven and is no longer listed.  A redriven
message is delivered to the group it failed in; the other groups of the topic skip it.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Final

from penstock.broker.publish.letters import build_letter, letters_settings, letters_topic
from penstock.broker.publish.outbox import decide
from penstock.broker.publish.preparing import prepare
from penstock.broker.publish.publishing import Publishing
from penstock.broker.publish.values import Values
from penstock.broker.state import AttemptHistory, GroupCursor, Partition, State, Topic
from penstock.broker.steps import Arrival, GiveWay, Steps, fetched
from penstock.broker.storage.replay import finish
from penstock.broker.topic.groups import Groups
from penstock.broker.topic.topics import Topics
from penstock.config.broker import DEAD_LETTER_SUFFIX
from penstock.delivery import events
from penstock.errors import DeadLetterNotFound, InvalidValue, NotCached, PenstockError, SchemaMismatch
from penstock.model.info import DeadLetter, Redrive
from penstock.model.message import Message, RawHeaders, StoredMessage
from penstock.model.placing import Placed, stored_bytes
from penstock.types import whole_number
from penstock.wire.headers import (
    ATTEMPTS,
    DEAD_LETTER_HEADERS,
    DEATH_REASON,
    ERROR,
    ERROR_CLASS,
    ERROR_FINGERPRINT,
    ERROR_MESSAGE,
    FAILED_GROUP,
    FIRST_FAILED_AT,
    LAST_FAILED_AT,
    REDRIVE_GROUP,
    REDRIVEN_FROM,
    SOURCE,
    SOURCE_OFFSET,
    SOURCE_PARTITION,
)
from penstock.wire.records import LANE_MASK, REDRIVEN, Record

REDRIVE: Final = "__redrive"
RANGE_MAX: Final = 100  # Messages buried by one decision, which bounds the size of a journal batch.
RETRY_MS: Final = 1000  # Burying that failed (a full disk) is tried again after this.
SCAN_RECORDS: Final = 200  # Dead letters read at a time, in some milliseconds.

NUMBERS: Final = (
    SOURCE_PARTITION, SOURCE_OFFSET, ATTEMPTS, FIRST_FAILED_AT, LAST_FAILED_AT,
)  # fmt: skip


class DeadLetters:
    def __init__(
        self, state: State, topics: Topics, publishing: Publishing, groups: Groups, values: Values
    ) -> None:
        self._state = state
        self._topics = topics
        self._publishing = publishing
        self._groups = groups
        self._values = values

    # Burying.

    def bury_soon(self, cursor: GroupCursor) -> None:
        """Queue the burial of everything the cursor's engine has given up on."""
        self._state.jobs.append(self._bury(cursor))

    def _bury(self, cursor: GroupCursor) -> Steps[None]:
        engine = cursor.engine
        while not cursor.partition.closed:  # Else its next owner does it.
            target = yield from self._target(cursor)
            exhausted = engine.take_exhausted()
            if exhausted is None:
                break
            start, end, _ = exhausted
            while start < end:
                upto = min(end, start + RANGE_MAX)
                try:
                    self._bury_range(cursor, start, upto, target)
                except PenstockError:
                    engine.return_exhausted()
                    self._state.alarms.set(cursor, self._state.clock.steady_ms() + RETRY_MS)
                    raise
                start = upto
        partition = cursor.partition
        yield from self._publishing.drain_outbox(partition)
        if partition.topic.settings.depth_max is not None:
            partition.topic.wake()

    def _bury_range(self, cursor: GroupCursor, start: int, end: int, target: Topic | None) -> None:
        partition = cursor.partition
        settled: list[events.AnyEvent] = [events.Settled(cursor.number, -1, start, end, events.DEAD)]
        if target is not None:
            items = [self._letter(partition, cursor, target, record) for record in cursor.records(start, end)]
            decide(self._state, partition, cursor.number, settled, items, start, end, f"to {target.name}")
        else:
            decide(self._state, partition, cursor.number, settled, [], start, end, "")
        group = partition.topic.groups[cursor.group]
        group.maybe_sample(self._state.clock.steady_ms())
        group.dead_lettered += end - start
        for offset in range(start, end):
            failure = cursor.failures.get(offset)
            why = events.TIMED_OUT if failure is None else failure.why
            group.buried[why] = group.buried.get(why, 0) + 1
        cursor.engine.settle_free(start, end)
        finish(cursor, start, end)

    def _target(self, cursor: GroupCursor) -> Steps[Topic | None]:
        """The topic of the group's dead letters, created if it is missing; None if it has none."""
        topic = cursor.partition.topic
        if not cursor.settings.dead_letter or topic.name.endswith(DEAD_LETTER_SUFFIX):
            return None
        name = letters_topic(topic)
        if name not in self._state.topics and cursor.engine.exhausted:
            try:
                yield from self._topics.ensure(name, letters_settings(topic))
            except PenstockError:
                self._state.alarms.set(cursor, self._state.clock.steady_ms() + RETRY_MS)
                raise
            if topic.deleted or cursor.partition.groups.get(cursor.group) is not cursor:
                cursor.engine.exhausted.clear()  # No group is left that needs them.
        return self._state.topics.get(name)

    def _letter(
        self, partition: Partition, cursor: GroupCursor, target: Topic, record: Record
    ) -> tuple[Topic, Placed]:
        failure = cursor.failures.get(record.offset) or AttemptHistory(
            self._state.clock.wall_ms(), events.TIMED_OUT
        )
        error = ": ".join(part for part in (failure.error_class, failure.error_message) if part)
        reason = events.WHY[failure.why]
        facts = {
            ERROR: error or reason,
            ERROR_CLASS: failure.error_class,
            ERROR_MESSAGE: failure.error_message,
            ERROR_FINGERPRINT: failure.fingerprint or reason.replace(" ", "-"),
            DEATH_REASON: reason,
            FAILED_GROUP: cursor.group,
            ATTEMPTS: str(failure.attempts),
            FIRST_FAILED_AT: str(failure.first_ms),
            LAST_FAILED_AT: str(failure.last_ms),
        }
        return target, build_letter(partition.topic, partition.number, target, record, facts)

    # One decision: settle here, publish there.

    def send(
        self, partition: Partition, group: int, settled: list[events.AnyEvent],
        outputs: list[tuple[str, Message]], start: int, end: int,
    ) -> None:  # fmt: skip
        """Write settlements and the messages that follow from them as one decision; publish them by a job."""
        wall_ms = self._state.clock.wall_ms()
        items = []
        for output in outputs:
            name, message = _checked_output(output)
            if message.delay is not None or message.deliver_at is not None or message.dedup_id is not None:
                why = "an output that is published with an ack has no delay, deliver_at or dedup_id"
                raise InvalidValue(name="publish", value=message, why=why)
            topic = self._state.topic(name)
            item = prepare(topic, message, wall_ms)
            if topic.settings.validation != "off":
                self._values.check_now(topic, item)
            items.append((topic, item))
        targets = ", ".join(sorted({name for name, _ in outputs}))
        decide(self._state, partition, group, settled, items, start, end, f"to {targets}")
        self._state.jobs.append(self._publishing.drain_outbox(partition))

    # Looking and redriving.

    def find(self, name: str, position: tuple[str, int, int]) -> DeadLetter:
        """One dead letter of a topic, by its own topic, partition and offset; also one that was redriven."""
        topic = self._topic_of_letters(name)
        letters_of, number, offset = position
        if topic is not None and topic.name == letters_of and number < len(topic.partitions):
            partition = topic.partitions[number]
            within = partition.log.start <= offset < partition.log.high
            for record in partition.log.records(offset, offset + 1) if within else ():
                letter = dead_letter(topic, partition, record) if is_letter(record) else None
                if letter is not None and _source_topic(letter) == name:
                    return letter
        raise DeadLetterNotFound(topic=name, dead_letter=f"{letters_of}:{number}:{offset}")

    def _topic_of_letters(self, name: str) -> Topic | None:
        return self._state.topics.get(letters_topic(self._state.topic(name)))

    def list(self, name: str, limit: int) -> Iterator[DeadLetter]:
        """The dead letters of a topic that were not redriven, oldest first in each partition."""
        whole_number("limit", limit, 1)
        topic = self._topic_of_letters(name)
        if topic is not None:
            self._state.readable(topic.name)  # Raises if letters are being loaded.
        bytes_left = self._state.config.receive_bytes_max
        for letter in islice(chain.from_iterable(self._letters(name)), limit):
            if bytes_left <= 0:
                return
            record = letter.message.record
            bytes_left -= stored_bytes(record.key, record.value, record.headers)
            yield letter

    def _letters(self, name: str) -> Iterator[Sequence[DeadLetter]]:
        """All of them, some at a time."""
        topic = self._topic_of_letters(name)
        for partition in topic.partitions if topic is not None else ():
            for records in self.unredriven(partition):
                letters = [dead_letter(partition.topic, partition, record) for record in records]
                # A dead-letter topic may serve several topics.
                yield [letter for letter in letters if _source_topic(letter) == name]

    def unredriven(self, partition: Partition) -> Iterator[Sequence[Record]]:
        """The dead letters of a partition that were not redriven, some at a time."""
        cursor = partition.groups.get(REDRIVE)
        position = partition.log.start if cursor is None else max(cursor.engine.floor, partition.log.start)
        end = partition.log.high  # What dies meanwhile, perhaps again, is for the next time.
        while position < end:
            position = max(position, partition.log.start)  # Retention goes on meanwhile.
            fitting = max(self._state.config.receive_bytes_max // partition.log.average_bytes, 1)
            upto = min(position + min(SCAN_RECORDS, fitting), max(end, position))
            records = partition.log.records(position, upto)
            done = None if cursor is None else cursor.engine.done
            yield [
                record
                for record in records
                if is_letter(record) and (done is None or not done.contains(record.offset))
            ]
            position = upto

    def redrive(
        self,
        name: str,
        *,
        limit: int,
        per_second: float | None,
        dry_run: bool,
        error: str | None,
        group: str | None,
    ) -> Steps[Redrive]:
        """Publish dead letters to their topic again: all, or those of one error fingerprint or group."""
        whole_number("limit", limit, 1)
        _check_rate(per_second)
        source = self._state.topic(name)
        count = 0
        letters = self._matching(name, error, group)  # Read as it goes on: they may be a million.
        while True:
            try:
                letter = next(letters)
            except StopIteration:
                break
            except NotCached as missing:
                yield from fetched(self._state.files, self._state.clock.steady_ms(), missing)
                letters, count = self._matching(name, error, group), 0 if dry_run else count
                continue
            if letter is None:
                yield GiveWay()
                self._state.check_alive(source)
                continue
            if count == limit:
                break
            if dry_run:
                count += 1
                continue
            dead_topic = self._state.topic(letter.message.topic)
            if count == 0:
                yield from self._groups.ensure(dead_topic, REDRIVE, {"start": "earliest"}, internal=True)
            elif per_second is not None:
                yield from self._pause(source, 1000 / per_second)
            if self._redrive_one(source, dead_topic, letter):
                count += 1
                # Now, not with the jobs when all is done: a rate means that they come one by one.
                yield from self._publishing.drain_outbox(dead_topic.partitions[letter.message.partition])
        return Redrive(matched=count, redriven=0 if dry_run else count, dry_run=dry_run)

    def _matching(self, name: str, error: str | None, group: str | None) -> Iterator[DeadLetter | None]:
        """The letters that match; None now and then, so that other operations get a turn."""
        for letters in self._letters(name):
            for letter in letters:
                error_class = letter.message.headers.get(ERROR_CLASS)
                known = (None, letter.fingerprint, error_class, letter.source, letter.message.id)
                if error in known and group in (None, letter.group):
                    yield letter
            yield None

    def _pause(self, topic: Topic, pause_ms: float) -> Steps[None]:
        until_ms = self._state.clock.steady_ms() + max(round(pause_ms), 1)
        while self._state.clock.steady_ms() < until_ms:
            yield Arrival(topic, until_ms)
            self._state.check_alive(topic)

    def _redrive_one(self, source: Topic, dead_topic: Topic, letter: DeadLetter) -> bool:
        """Redrive one letter; False if another redrive was faster, or its value is still invalid."""
        message = letter.message
        partition = dead_topic.partitions[message.partition]
        cursor = partition.groups[REDRIVE]
        if cursor.engine.done.contains(message.offset):
            return False
        _, source_partition, source_offset = letter.source.rsplit(":", 2)
        home_number = int(source_partition) % len(source.partitions)
        home = source.partitions.get(home_number)
        item = Placed(home_number, message.key, None if message.is_tombstone else message.value)
        own = _without(message.raw_headers, DEAD_LETTER_HEADERS)
        # What an earlier redrive has added; letters that are older have the group, too.
        own = _without(_without(own, (REDRIVEN_FROM, REDRIVE_GROUP)), (REDRIVEN_FROM,))
        if source.settings.validation != "off" and not self._is_valid(source, item):
            return False
        item.headers = [*own, (REDRIVEN_FROM, letter.source.encode()), (REDRIVE_GROUP, letter.group.encode())]
        item.attributes = REDRIVEN | message.attributes & LANE_MASK
        offset = message.offset
        settled: list[events.AnyEvent] = [events.Settled(cursor.number, -1, offset, offset + 1, events.ACKED)]
        items = [(source, item)]
        decide(self._state, partition, cursor.number, settled, items, offset, offset + 1, f"to {source.name}")
        cursor.engine.settle_free(offset, offset + 1)
        self._state.jobs.append(self._publishing.drain_outbox(partition))
        if home is not None and home.journal is not None:
            failed = home.groups.get(letter.group)
            if failed is not None:
                now_ms = self._state.clock.steady_ms()
                home.journal.note(events.Redriven(failed.number, int(source_offset), source.name), now_ms)
        return True

    def _is_valid(self, topic: Topic, item: Placed) -> bool:
        try:
            self._values.check_now(topic, item)
        except SchemaMismatch:
            return False
        return True


def _source_topic(letter: DeadLetter) -> str:
    return letter.source.rsplit(":", 2)[0]


def _checked_output(output: object) -> tuple[str, Message]:
    match output:
        case (str() as name, Message() as message):
            return name, message
        case _:
            raise InvalidValue(name="publish", value=output, why="give pairs of a topic's name and a Message")


def _check_rate(per_second: float | None) -> None:
    if per_second is None:
        return
    number = isinstance(per_second, int | float) and not isinstance(per_second, bool)
    if not number or not 0 < per_second < math.inf:
        raise InvalidValue(name="rate", value=per_second, why="it is messages a second, more than 0")


def _without(headers: RawHeaders, added: tuple[str, ...]) -> RawHeaders:
    """The headers without ``added`` at their end; the message's own headers may have the same names."""
    cut = len(headers) - len(added)
    return headers[:cut] if tuple(name for name, _ in headers[cut:]) == added and cut >= 0 else headers


def is_letter(record: Record) -> bool:
    """Whether the broker has written it: programs may publish to a dead-letter topic, too."""
    if tuple(name for name, _ in record.headers[-len(DEAD_LETTER_HEADERS) :]) != DEAD_LETTER_HEADERS:
        return False
    values = dict(record.headers[-len(DEAD_LETTER_HEADERS) :])
    return all((values[name] or b"").isdigit() and len(values[name] or b"") < 19 for name in NUMBERS)


def dead_letter(topic: Topic, partition: Partition, record: Record) -> DeadLetter:
    """A record of a dead-letter topic with its headers read."""
    message = StoredMessage(topic.name, partition.number, record)
    headers = message.headers
    source = ":".join(headers.get(part, "0") for part in SOURCE)
    return DeadLetter(
        message=message,
        source=source,
        group=headers.get(FAILED_GROUP, ""),
        attempts=int(headers.get(ATTEMPTS, "0")),
        reason=headers.get(DEATH_REASON, ""),
        error=headers.get(ERROR, ""),
        fingerprint=headers.get(ERROR_FINGERPRINT, ""),
        first_failed_ms=int(headers.get(FIRST_FAILED_AT, "0")),
        last_failed_ms=int(headers.get(LAST_FAILED_AT, "0")),
    )
