"""Delayed, scheduled and recurring messages, seen from the broker.

Each partition has its own schedule (``schedule/``); this module moves due messages
into the log, and lists, cancels and reschedules entries by their id,
``topic:partition:s<number>``.
"""

from collections.abc import Iterator
from typing import Final

from penstock.broker.publish.preparing import prepare
from penstock.broker.publish.publishing import Publishing
from penstock.broker.publish.values import Values
from penstock.broker.state import Partition, State, Topic
from penstock.broker.steps import Durable, Steps
from penstock.broker.storage.recovery import open_schedule
from penstock.broker.topic.delayed import check_schedule_room, schedule_id, set_schedule_alarm
from penstock.broker.topic.missing import MissingTopics
from penstock.errors import InvalidValue, PenstockError
from penstock.model.info import Cancelled, ScheduledMessage
from penstock.model.message import Message, StoredMessage, last_header, own_headers
from penstock.model.placing import due_ms
from penstock.schedule import cron
from penstock.schedule.schedule import Due, Schedule
from penstock.types import LANE_NAMES, Duration, Instant, whole_number
from penstock.wire.headers import DEDUP_ID, SCHEDULE_ID
from penstock.wire.records import APPEND_TIME, DEDUP, SCHEDULED, BatchBuilder, lane_of

FIRE_MAX: Final = (
    1000  # Entries moved into the log in one go; the rest follows at once, after others had a turn.
)

NUMBER_LENGTH_MAX: Final = 18  # Digits: what fits the 64 bits of an offset.


class Schedules:
    """The schedules of all topics."""

    def __init__(self, state: State, missing: MissingTopics, publishing: Publishing, values: Values) -> None:
        self._state = state
        self._values = values
        self._missing = missing
        self._publishing = publishing

    def fire(self, partition: Partition) -> Steps[None]:
        """Move everything that is due into the log, in the order of its due times."""
        schedule = partition.schedule
        if schedule is None:
            return
        wall_ms = self._state.clock.wall_ms()
        due = schedule.take_due(wall_ms, FIRE_MAX)
        failure: PenstockError | None = None
        try:
            self._move(partition, schedule, due, wall_ms)
            set_schedule_alarm(self._state, partition)
        except PenstockError as error:  # Some may be in the log all the same; the rest is tried again.
            failure = error
        if due and schedule.log.config.durability == "fsync":
            yield Durable(partition.log)
        if failure is not None:
            raise failure

    def _move(self, partition: Partition, schedule: Schedule, due: list[Due], wall_ms: int) -> None:
        position = 0
        while position < len(due):
            # A batch has one lane, so it ends where the lane changes.
            upto = position + 1
            while upto < len(due) and lane_of(due[upto].attributes) == lane_of(due[position].attributes):
                upto += 1
            try:
                self._append(partition, schedule, due[position:upto], wall_ms)
            except BaseException:
                schedule.put_back(due[position:])
                raise
            position = upto

    def _append(self, partition: Partition, schedule: Schedule, due: list[Due], wall_ms: int) -> None:
        log = partition.log
        timestamp = max(wall_ms, log.last_timestamp)
        builder = BatchBuilder()
        attributes = SCHEDULED | APPEND_TIME if partition.topic.settings.append_time else SCHEDULED
        for entry in due:
            headers = [*entry.headers, (SCHEDULE_ID, str(entry.number).encode())]
            if entry.cron is not None:  # Its dedup id is the schedule's, not that of every message.
                headers = [header for header in headers if header[0] != DEDUP_ID]
            builder.add(entry.key, entry.value, headers)
            attributes |= entry.attributes if entry.cron is None else entry.attributes & ~DEDUP
        offset = log.append(builder.build(timestamp, timestamp, attributes))
        self._publishing.appended(partition, len(due))
        schedule.fired([(entry.number, offset + index) for index, entry in enumerate(due)], wall_ms)
        self._state.commit.mark(schedule.log)

    def add_recurring(self, name: str, message: Message, expression: str, timezone: str) -> Steps[str]:
        """Publish ``message`` at every time the cron expression names, until it is cancelled.

        A dedup id is the schedule's: one that was seen within the window is answered with what was made then.
        """
        topic = self._state.find(name)
        if topic is None:
            topic = yield from self._missing.create(name, message.partition)
        wall_ms = self._state.clock.wall_ms()
        if any(given is not None for given in (message.delay, message.deliver_at, message.ttl)):
            why = "a recurring message has no delay, deliver_at or ttl; the cron expression says when"
            raise InvalidValue(name="message", value=message, why=why)
        due = cron.next_ms(expression, timezone, wall_ms)
        prepared = prepare(topic, message, wall_ms)
        if topic.settings.validation != "off":
            yield from self._values.check_all(topic, [prepared])
            self._state.check_alive(topic)
        if prepared.dedup_id is not None:
            known = self._repeated(topic, prepared.dedup_id, wall_ms)
            if known is not None:
                yield from self._durable(known[0])
                return schedule_id(name, known[0].number, known[1])
        partition = topic.partitions[prepared.partition]
        schedule = open_schedule(self._state, partition)
        check_schedule_room(partition, schedule)
        number = schedule.add(
            due,
            prepared.key,
            prepared.value,
            prepared.headers,
            prepared.attributes,
            wall_ms,
            expression,
            timezone,
        )
        if prepared.dedup_id is not None:
            topic.dedup.add(
                prepared.dedup_id, partition.number, number, schedule.log.last_timestamp, scheduled=True
            )
        yield from self._written(partition, schedule)
        return schedule_id(name, partition.number, number)

    def _repeated(self, topic: Topic, dedup_id: str, wall_ms: int) -> tuple[Partition, int] | None:
        """The schedule that was made under this id, if one was."""
        seen = topic.dedup.seen(dedup_id, wall_ms)
        if seen is None:
            return None
        if not seen[2]:
            raise InvalidValue(name="dedup_id", value=dedup_id, why="a message was published under it")
        topic.duplicates += 1
        return topic.partitions[seen[0]], seen[1]

    def _written(self, partition: Partition, schedule: Schedule) -> Steps[None]:
        self._state.commit.mark(schedule.log)
        set_schedule_alarm(self._state, partition)
        yield from self._durable(partition)

    def _durable(self, partition: Partition) -> Steps[None]:
        schedule = partition.schedule
        if schedule is not None and schedule.log.config.durability == "fsync":
            yield Durable(schedule.log)

    def list(self, name: str, limit: int) -> Iterator[ScheduledMessage]:
        """What waits, in the order it was accepted."""
        whole_number("limit", limit, 1)
        count = 0
        bytes_left = self._state.config.receive_bytes_max
        for partition in self._state.readable(name).partitions:
            if partition.schedule is None:
                continue
            for entry in partition.schedule.entries():
                if count >= limit or bytes_left <= 0:
                    return
                count += 1
                bytes_left -= len(entry.key or b"") + len(entry.value or b"")
                yield self._described(partition, entry)

    def _described(self, partition: Partition, entry: Due) -> ScheduledMessage:
        own = own_headers(entry.headers, entry.attributes)
        headers = {name: (value or b"").decode("utf-8", "surrogateescape") for name, value in own}
        return ScheduledMessage(
            id=schedule_id(partition.topic.name, partition.number, entry.number),
            topic=partition.topic.name,
            partition=partition.number,
            due_ms=entry.due_ms,
            key=entry.key,
            value=entry.value,
            headers=headers,
            priority=LANE_NAMES[lane_of(entry.attributes)],
            cron=entry.cron,
            timezone=entry.timezone,
        )

    def count(self, name: str) -> int:
        """How many messages of a topic wait for their time."""
        partitions = self._state.readable(name).partitions
        return sum(each.schedule.count for each in partitions if each.schedule is not None)

    def cancel(self, identity: str) -> Steps[Cancelled]:
        """Take an entry back, if it is not delivered yet."""
        partition, number = self._find(identity)
        if partition.schedule is None:
            return "unknown"
        answer = partition.schedule.cancel(number, self._state.clock.wall_ms())
        if answer == "cancelled":
            yield from self._written(partition, partition.schedule)
        return answer

    def reschedule(self, identity: str, delay: Duration | None, deliver_at: Instant | None) -> Steps[bool]:
        """Give an entry another time; False if it is not waiting any more."""
        partition, number = self._find(identity)
        wall_ms = self._state.clock.wall_ms()
        due = due_ms(delay, deliver_at, wall_ms, partition.topic.settings.delay_max_ms)
        if partition.schedule is None or not partition.schedule.reschedule(number, due, wall_ms):
            return False
        yield from self._written(partition, partition.schedule)
        return True

    def _find(self, identity: str) -> tuple[Partition, int]:
        found = parse_schedule_id(identity)
        if found is None:
            raise InvalidValue(name="schedule_id", value=identity, why="it looks like 'orders:0:s17'")
        topic: Topic = self._state.topic(found[0])
        return topic.partition(found[1]), found[2]


def parse_schedule_id(identity: object) -> tuple[str, int, int] | None:
    """Topic, partition and number that a schedule id names; None if it is none."""
    parts = identity.split(":") if isinstance(identity, str) else []
    if len(parts) != 3 or not is_number(parts[1]) or parts[2][:1] != "s" or not is_number(parts[2][1:]):
        return None
    return parts[0], int(parts[1]), int(parts[2][1:])


def is_number(text: str) -> bool:
    """Can this be a partition or an offset?  Digits alone are not enough: "²" is one, and so are 5,000."""
    return text.isascii() and text.isdecimal() and len(text) <= NUMBER_LENGTH_MAX


def scheduled_number(message: StoredMessage) -> int:
    """The schedule number a delivered message came from; -1 if it was not delayed."""
    if not message.attributes & SCHEDULED:
        return -1
    return int(last_header(message.raw_headers, SCHEDULE_ID) or -1)
