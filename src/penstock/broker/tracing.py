"""The journey of one message, told from the log and the journal.

    published           the record itself: when, how large, which lane; its schedule entry if it was delayed
    delivered, ...      every journal event whose range holds the offset, for every group
    retained until      when retention may delete it

As text, a trace has one timeline for each group, because groups do not know
of each other; times are UTC, and counted from when the message was published:

    orders:0:7  key order-123

    2026-01-01, UTC
      10:30:00.000    +0.000 s  published    5 bytes, priority normal

    billing: acked 31.002 s after publish; 2 deliveries
      10:30:00.123    +0.123 s  delivered    worker-1, attempt 1
      10:30:30.123   +30.123 s  timed out    worker-1
      10:30:30.456   +30.456 s  redelivered  worker-2, attempt 2
      10:30:31.002   +31.002 s  acked        worker-2

    retained until 2026-01-08 10:30:00 UTC

There is no sampling and nothing extra is recorded: the journal has every
decision anyway.  Cost: a scan of the partition's journal from the message's
timestamp on, about a million events a second where compiled.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec

from penstock.broker.dead_letters import REDRIVE
from penstock.broker.schedules import is_number, scheduled_number
from penstock.broker.state import Partition, State
from penstock.delivery import events
from penstock.errors import InvalidValue, OffsetOutOfRange
from penstock.message import StoredMessage

SETTLED: Final = (*events.HOW, "committed")  # Events after which a group is done with a message.
DELIVERED: Final = ("delivered", "redelivered")
UNSETTLING: Final = (*DELIVERED, "group moved")
RETAINED: Final = "retained until"
# A delivery that ended without a settlement, in one word for each reason, and in more where it needs them.
GIVEN_BACK: Final = ("nacked", "timed out", "released", "released", "rejected", "expired", "set aside")
WHY_SO: Final = {why: events.WHY[why] for why in (events.RELEASED, events.RESTARTED, events.DEFERRED)}
SENT: Final = ("dead-lettered", "redriven")  # Settlements that say where the message went.
HOUR_MS: Final = 3_600_000
CLOCK_STEP_MS: Final = 60_000  # The wall clock may be set between a publish and what follows it.
SOURCE: Final = ("x-source-topic", "x-source-partition", "x-source-offset")  # Of a dead letter.


class TraceEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to a message."""

    time_ms: int
    event: str  # scheduled, published, delivered, redelivered, extended, nacked, acked, dead-lettered, ...
    group: str = ""
    consumer: str = ""
    attempt: int = 0
    detail: str = ""

    @property
    def time(self) -> datetime:
        """When, in UTC."""
        return datetime.fromtimestamp(self.time_ms / 1000, UTC)


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known of one message, oldest first."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    events: list[TraceEvent]

    @property
    def id(self) -> str:
        """The message's id."""
        return f"{self.topic}:{self.partition}:{self.offset}"

    @property
    def published_ms(self) -> int:
        """When the message entered the log; -1 if compaction has removed it."""
        return next((event.time_ms for event in self.events if event.event == "published"), -1)

    def settlement(self, group: str) -> TraceEvent | None:
        """The event by which this group was done with the message; None if it is not."""
        for event in reversed(self.events):
            if event.group == group and event.event in SETTLED:
                return event
            if event.group == group and event.event in UNSETTLING:
                return None
        return None

    def latency_ms(self, group: str) -> int | None:
        """From publish to the settlement by this group; None if it has not settled the message."""
        settled = self.settlement(group)
        return None if settled is None or self.published_ms < 0 else settled.time_ms - self.published_ms

    def __str__(self) -> str:
        return "\n".join(_lines(self))


class Tracing:
    """Answers where a message was."""

    def __init__(self, state: State) -> None:
        self._state = state

    def trace(self, name: str, number: int | None, offset: int | None) -> Trace:
        """The timeline of a message, named by topic, partition and offset, or by its id."""
        if number is None or offset is None:
            name, number, offset = parse_id(name)
        topic = self._state.topic(name)
        partition = topic.partition(number)
        log = partition.log
        check_offset(offset)
        if not log.start <= offset < log.end:
            raise OffsetOutOfRange(offset=offset, start=log.start, end=log.end)
        records = log.records(offset, offset + 1)
        timeline: list[TraceEvent] = []
        if records:
            message = StoredMessage(name, number, records[0])
            timeline += self._beginning(partition, message)
        timeline += self._journey(partition, offset, records[0].timestamp if records else 0)
        retention_ms = topic.settings.retention_ms
        if records and retention_ms is not None:
            timeline.append(TraceEvent(time_ms=records[0].timestamp + retention_ms, event=RETAINED))
        return Trace(
            topic=name,
            partition=number,
            offset=offset,
            key=records[0].key if records else None,
            events=timeline,
        )

    def _beginning(self, partition: Partition, message: StoredMessage) -> Iterator[TraceEvent]:
        scheduled = scheduled_number(message)
        if scheduled >= 0 and partition.schedule is not None:
            accepted_ms = partition.schedule.accepted_ms(scheduled)
            if accepted_ms >= 0:
                yield TraceEvent(time_ms=accepted_ms, event="scheduled", detail=f"as s{scheduled}")
        origin = message.headers.get("x-redriven-from")
        facts = [f"{len(message.value)} bytes", f"priority {message.priority}"]
        if origin:
            facts.append(f"redriven from {origin}")
        if SOURCE[0] in message.headers:
            facts.append("dead letter of " + ":".join(message.headers.get(part, "?") for part in SOURCE))
        yield TraceEvent(time_ms=message.timestamp, event="published", detail=", ".join(facts))

    def _journey(self, partition: Partition, offset: int, since_ms: int) -> list[TraceEvent]:
        journal = partition.journal
        if journal is None:
            return []
        journal.flush()
        names = {member.number: member.group for member in partition.groups.values()}
        teller = _Teller(offset)
        timeline: list[TraceEvent] = []
        # A record of the future is one that came after the wall clock was set back: look at everything.
        since_ms = since_ms - CLOCK_STEP_MS if since_ms <= self._state.clock.wall_ms() else 0
        for _, time_ms, event in journal.events(journal.log.offset_at(since_ms)):
            if isinstance(event, events.GroupSet):
                names[event.group] = event.name
            told = teller.tell(event)
            if told is None:
                continue
            told = msgspec.structs.replace(told, time_ms=time_ms, group=names.get(event.group, ""))
            if told.group == REDRIVE:  # Of a dead letter: settled means that it went back.
                told = msgspec.structs.replace(told, event="redriven", group="")
            if isinstance(event, events.Outbox) and timeline and timeline[-1].event in SENT:
                timeline.pop()  # The settlement this is the second half of.
                told = msgspec.structs.replace(told, event=SENT[0] if told.group else SENT[1])
            timeline.append(told)
        return timeline


def check_offset(offset: int) -> None:
    """Refuse what is no number; whether there is such an offset is for the log to say."""
    if not isinstance(offset, int) or isinstance(offset, bool):
        raise InvalidValue(name="offset", value=offset, why="it is a whole number")


def parse_id(identity: str) -> tuple[str, int, int]:
    """Topic, partition and offset of a message id."""
    parts = identity.split(":") if isinstance(identity, str) else []
    if len(parts) != 3 or not is_number(parts[1]) or not is_number(parts[2]):
        raise InvalidValue(
            name="message", value=identity, why="name it as topic, partition, offset, or by id 'orders:0:7'"
        )
    return parts[0], int(parts[1]), int(parts[2])


class _Teller:
    """Turns journal events into what happened to one offset."""

    def __init__(self, offset: int) -> None:
        self._offset = offset
        self._leases: dict[tuple[int, int], events.Leased] = {}  # Leases that held the offset.
        self._before: dict[int, str] = {}  # By group: why the last delivery was not the last.
        self._committed: set[int] = set()  # Stream groups that are past the offset.
        self._heard: set[int] = set()  # Groups that had to do with the offset.

    def tell(self, event: events.AnyEvent) -> TraceEvent | None:
        """What the event means for the offset; None if nothing."""
        told = self._told(event)
        if told is not None:
            self._heard.add(event.group)
        return told

    def _told(self, event: events.AnyEvent) -> TraceEvent | None:
        match event:
            case events.Extended():
                return self._extended(event)
            case events.Sought():
                return self._sought(event)
            case events.Committed() if event.offset > self._offset and event.group not in self._committed:
                self._committed.add(event.group)
                return TraceEvent(time_ms=0, event="committed", detail=f"up to offset {event.offset}")
            case events.Redriven() if event.offset == self._offset:
                return TraceEvent(time_ms=0, event="redriven", detail=f"to {event.target}")
            case events.Leased() | events.Settled() | events.GivenBack() | events.Outbox():
                return self._of_range(event) if event.start <= self._offset < event.end else None
            case _:
                return None

    def _sought(self, event: events.Sought) -> TraceEvent | None:
        """A move that passes the offset settles it; one to before it means that it comes (again)."""
        self._before.pop(event.group, None)
        self._committed.discard(event.group)
        moved = f"to offset {event.offset}"
        if event.offset > self._offset:
            return TraceEvent(time_ms=0, event="skipped", detail=f"group moved {moved}")
        known = event.group in self._heard
        return TraceEvent(time_ms=0, event="group moved", detail=moved) if known else None

    def _of_range(
        self, event: events.Leased | events.Settled | events.GivenBack | events.Outbox
    ) -> TraceEvent | None:
        match event:
            case events.Leased():
                return self._leased(event)
            case events.Settled():
                return self._by_holder(event, events.HOW[event.how])
            case events.GivenBack():
                self._before[event.group] = events.WHY[event.why]
                error = ": ".join(part for part in (event.error_class, event.error_message) if part)
                return self._by_holder(event, GIVEN_BACK[event.why], error or WHY_SO.get(event.why, ""))
            case events.Outbox():
                return TraceEvent(time_ms=0, event="sent", detail=event.note)

    def _leased(self, event: events.Leased) -> TraceEvent:
        self._leases[event.group, event.lease] = event
        why = self._before.get(event.group, "")
        return TraceEvent(
            time_ms=0,
            event="redelivered" if why or event.attempt > 1 else "delivered",
            consumer=event.consumer,
            attempt=event.attempt,
            detail=f"after {why}" if why else "",
        )

    def _extended(self, event: events.Extended) -> TraceEvent | None:
        return self._by_holder(event, "extended") if (event.group, event.lease) in self._leases else None

    def _by_holder(
        self, event: events.Settled | events.GivenBack | events.Extended, name: str, detail: str = ""
    ) -> TraceEvent:
        held = self._leases.get((event.group, event.lease))
        if held is None:
            return TraceEvent(time_ms=0, event=name, detail=detail)
        return TraceEvent(time_ms=0, event=name, consumer=held.consumer, attempt=held.attempt, detail=detail)


# As text.


def _lines(trace: Trace) -> Iterator[str]:
    key = "no key" if trace.key is None else f"key {trace.key.decode('utf-8', 'backslashreplace')}"
    yield f"{trace.id}  {key}"
    table = _Table(trace)
    for group in dict.fromkeys(event.group for event in trace.events):
        mine = [event for event in trace.events if event.group == group and event.event != RETAINED]
        if mine:
            yield ""
            yield f"{group}: {_outcome(trace, group, mine)}" if group else table.heading()
            yield from (table.line(event) for event in mine)
    for event in trace.events:
        if event.event == RETAINED:
            yield ""
            yield f"{RETAINED} {event.time:%Y-%m-%d %H:%M:%S} UTC"


def _outcome(trace: Trace, group: str, mine: list[TraceEvent]) -> str:
    deliveries = sum(event.event in DELIVERED for event in mine)
    counted = f"{deliveries} {'delivery' if deliveries == 1 else 'deliveries'}"
    settled = trace.settlement(group)
    if settled is None:
        return f"not settled; {counted}"
    latency_ms = trace.latency_ms(group)
    after = "" if latency_ms is None else f" {_elapsed(latency_ms)} after publish"
    return f"{settled.event}{after}; {counted}"


class _Table:
    """Lines with their columns aligned."""

    def __init__(self, trace: Trace) -> None:
        told = [event for event in trace.events if event.event != RETAINED]
        self._from_ms = trace.published_ms if trace.published_ms >= 0 else (told[0].time_ms if told else 0)
        self._one_day = len({event.time.date() for event in told}) <= 1
        self._wide = max((len(event.event) for event in told), default=0)

    def heading(self) -> str:
        """Over the message's own events: the day they happened, if it is one."""
        return f"{datetime.fromtimestamp(self._from_ms / 1000, UTC):%Y-%m-%d}, UTC"

    def line(self, event: TraceEvent) -> str:
        """One event; why it was redelivered is on the line before."""
        elapsed_ms = event.time_ms - self._from_ms
        elapsed = f"{'-' if elapsed_ms < 0 else '+'}{_elapsed(abs(elapsed_ms))}"
        clock = f"{event.time:%H:%M:%S}.{event.time_ms % 1000:03d}"
        day = "" if self._one_day else f"{event.time:%m-%d} "
        detail = f"attempt {event.attempt}" if event.event in DELIVERED else event.detail
        words = ", ".join(fact for fact in (event.consumer, detail) if fact)
        return f"  {day}{clock}  {elapsed:>10}  {event.event:<{self._wide}}  {words}".rstrip()


def _elapsed(elapsed_ms: int) -> str:
    """Milliseconds as a person would say them: 36.012 s, 3.4 h, 12.0 d."""
    if elapsed_ms < HOUR_MS:
        return f"{elapsed_ms / 1000:.3f} s"
    days = elapsed_ms >= 48 * HOUR_MS
    return f"{elapsed_ms / (24 * HOUR_MS):.1f} d" if days else f"{elapsed_ms / HOUR_MS:.1f} h"
