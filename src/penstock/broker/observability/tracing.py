"""The history of one message, from the log and the journal.

    published           the record itself: when, how large, which lane; its schedule entry if it was delayed
    replicated          in a cluster: it is in the store, committed in the epoch that its batch has
    delivered, ...      every journal event whose range holds the offset, for every group
    retained until      when retention may delete it

A message that is not in the log because it is not due, was cancelled or is
recurring is identified by its schedule id, and its history comes from the schedule.

There is no sampling and nothing extra is recorded: the journal contains every
decision.  Cost: a scan of the partition's journal from the message's
timestamp on, about a million events a second where compiled.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec

from penstock.broker.publish.schedules import is_number, parse_schedule_id, scheduled_number
from penstock.broker.queue.dead_letters import REDRIVE
from penstock.broker.state import Partition, State
from penstock.broker.topic.delayed import schedule_id
from penstock.delivery import events
from penstock.errors import InvalidValue, OffsetOutOfRange
from penstock.model.message import StoredMessage
from penstock.model.trace import DELIVERED, DUE, RETAINED, Trace, TraceEvent
from penstock.schedule import entries
from penstock.schedule.history import Happening
from penstock.wire.headers import PRODUCER, REDRIVEN_FROM, SOURCE

# Why a delivery ended without a settlement, where one word is not enough.
WHY_SO: Final = {why: events.WHY[why] for why in (events.RELEASED, events.RESTARTED, events.DEFERRED)}
SENT: Final = ("dead-lettered", "redriven")  # Settlements that say where the message went.
CLOCK_STEP_MS: Final = 60_000  # The wall clock may be set between a publish and what follows it.


class Tracing:
    """Builds the trace of a message."""

    def __init__(self, state: State) -> None:
        self._state = state

    def trace(self, name: str, number: int | None, offset: int | None) -> Trace:
        """The timeline of a message, named by topic, partition and offset, by its id or its schedule id."""
        if number is None or offset is None:
            entry = parse_schedule_id(name)
            if entry is not None:
                return self._scheduled(*entry)
            name, number, offset = parse_id(name)
        topic = self._state.readable(name, number)
        partition = topic.partition(number)
        log = partition.log
        check_offset(offset)
        end = min(log.end, log.unstable)
        if not log.start <= offset < end:
            raise OffsetOutOfRange(offset=offset, start=log.start, end=end)
        records = log.records(offset, offset + 1)
        timeline: list[TraceEvent] = []
        if records:
            message = StoredMessage(name, number, records[0])
            timeline += self._beginning(partition, message)
        timeline += self._history(partition, offset, records[0].timestamp if records else 0)
        kept_ms = topic.settings.kept_ms
        if records and kept_ms is not None:
            timeline.append(TraceEvent(time_ms=records[0].timestamp + kept_ms, event=RETAINED))
        return Trace(
            topic=name,
            partition=number,
            offset=offset,
            key=records[0].key if records else None,
            events=timeline,
        )

    def _scheduled(self, name: str, number: int, entry: int) -> Trace:
        """The timeline of a schedule entry; once it has become its last message, that of the message."""
        partition = self._state.readable(name, number).partition(number)
        known = partition.schedule.known(entry) if partition.schedule is not None else None
        if partition.schedule is None or known is None:
            why = "nothing is scheduled under that id, or it was settled long ago and is forgotten"
            raise InvalidValue(name="message", value=schedule_id(name, number, entry), why=why)
        story = partition.schedule.history(entry)
        fired = [one.value for one in story if one.kind == entries.FIRED]
        if known.cron is None and fired and fired[-1] >= partition.log.start:
            return self.trace(name, number, fired[-1])
        when = f"by cron {known.cron}, {known.timezone}" if known.cron else f"for {_utc(known.due_ms)}"
        timeline = [TraceEvent(time_ms=known.accepted_ms, event="scheduled", detail=when)]
        timeline += [_happened(one, f"{name}:{number}") for one in story]
        waiting = partition.schedule.get(entry)
        if waiting is not None:
            timeline.append(TraceEvent(time_ms=waiting.due_ms, event=DUE))
        return Trace(topic=name, partition=number, offset=-1, key=known.key, events=timeline, schedule=entry)

    def _beginning(self, partition: Partition, message: StoredMessage) -> Iterator[TraceEvent]:
        scheduled = scheduled_number(message)
        if scheduled >= 0 and partition.schedule is not None:
            entry = partition.schedule.known(scheduled)
            if entry is not None:
                yield TraceEvent(time_ms=entry.accepted_ms, event="scheduled", detail=f"as s{scheduled}")
        origin = message.headers.get(REDRIVEN_FROM)
        facts = [f"{len(message.value)} bytes", f"priority {message.priority}"]
        if PRODUCER in message.headers:
            facts.append(f"by {message.headers.get(PRODUCER)}")
        if origin:
            facts.append(f"redriven from {origin}")
        if SOURCE[0] in message.headers:
            facts.append("dead letter of " + ":".join(message.headers.get(part, "?") for part in SOURCE))
        yield TraceEvent(time_ms=message.timestamp, event="published", detail=", ".join(facts))
        header = next(partition.log.headers(message.offset), None)
        if header is not None and header.leader_epoch > 0 and message.offset < partition.log.high:
            detail = f"in the store, committed in epoch {header.leader_epoch}"
            yield TraceEvent(time_ms=message.timestamp, event="replicated", detail=detail)

    def _history(self, partition: Partition, offset: int, since_ms: int) -> list[TraceEvent]:
        journal = partition.journal
        if journal is None:
            return []
        journal.flush()
        names = {cursor.number: cursor.group for cursor in partition.groups.values()}
        tracer = _EventTracer(offset)
        timeline: list[TraceEvent] = []
        # A record of the future is one that came after the wall clock was set back: look at everything.
        since_ms = since_ms - CLOCK_STEP_MS if since_ms <= self._state.clock.wall_ms() else 0
        for _, time_ms, event in journal.events(journal.log.offset_at(since_ms)):
            if isinstance(event, events.GroupSet):
                names[event.group] = event.name
            traced = tracer.trace_event(event)
            if traced is None:
                continue
            traced = msgspec.structs.replace(traced, time_ms=time_ms, group=names.get(event.group, ""))
            if _unseen(event):
                _take_back_delivery(timeline, traced.group)
            if traced.group == REDRIVE:  # Of a dead letter: settled means that it went back.
                traced = msgspec.structs.replace(traced, event="redriven", group="")
            if isinstance(event, events.Outbox) and timeline and timeline[-1].event in SENT:
                timeline.pop()  # The settlement this is the second half of.
                traced = msgspec.structs.replace(traced, event=SENT[0] if traced.group else SENT[1])
            timeline.append(traced)
        return timeline


def _unseen(event: events.AnyEvent) -> bool:
    """Whether the event ends a lease whose message the consumer never received."""
    match event:
        case events.Settled():
            return event.lease >= 0 and event.how in (events.EXPIRED, events.SKIPPED)
        case events.GivenBack():
            return event.why in (events.OUTLIVED, events.DEFERRED)
        case _:
            return False


def _take_back_delivery(timeline: list[TraceEvent], group: str) -> None:
    """Remove the group's last delivery, which did not take place."""
    for at in range(len(timeline) - 1, -1, -1):
        if timeline[at].group == group:
            if timeline[at].event in DELIVERED:
                del timeline[at]
            return


def _happened(one: Happening, partition_name: str) -> TraceEvent:
    match one.kind:
        case entries.MOVED:
            return TraceEvent(time_ms=one.time_ms, event="rescheduled", detail=f"for {_utc(one.value)}")
        case entries.CANCELLED:
            return TraceEvent(time_ms=one.time_ms, event="cancelled")
        case _:
            return TraceEvent(
                time_ms=one.time_ms, event="published", detail=f"as {partition_name}:{one.value}"
            )


def _utc(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def check_offset(offset: int) -> None:
    """Refuse values that are not whole numbers; the log checks whether there is such an offset."""
    if not isinstance(offset, int) or isinstance(offset, bool):
        raise InvalidValue(name="offset", value=offset, why="it is a whole number")


def parse_id(identity: str) -> tuple[str, int, int]:
    """Topic, partition and offset of a message id."""
    parts = identity.split(":") if isinstance(identity, str) else []
    if len(parts) != 3 or not is_number(parts[1]) or not is_number(parts[2]):
        why = (
            "name it as topic, partition, offset, or by id 'orders:0:7', schedule id 'orders:0:s5', "
            "'orders-0@7' of a Kafka client, or the UUID of a message of SQS or KQueue in a known topic"
        )
        raise InvalidValue(name="message", value=identity, why=why)
    return parts[0], int(parts[1]), int(parts[2])


class _EventTracer:
    """Turns journal events into what happened to one offset."""

    def __init__(self, offset: int) -> None:
        self._offset = offset
        self._leases: dict[tuple[int, int], events.Leased] = {}  # Leases that held the offset.
        self._before: dict[int, str] = {}  # By group: why the last delivery was not the last.
        self._committed: set[int] = set()  # Stream groups that are past the offset.
        self._heard: set[int] = set()  # Groups that had to do with the offset.

    def trace_event(self, event: events.AnyEvent) -> TraceEvent | None:
        """The trace event for the offset; None if the journal event is not about it."""
        traced = self._traced(event)
        if traced is not None:
            self._heard.add(event.group)
        return traced

    def _traced(self, event: events.AnyEvent) -> TraceEvent | None:
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
        """A seek beyond the offset settles it; one to or before it makes it deliverable again."""
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
            case events.Settled() if _unseen(event):
                return TraceEvent(time_ms=0, event=events.HOW[event.how])
            case events.Settled():
                return self._by_holder(event, events.HOW[event.how])
            case events.GivenBack() if _unseen(event):
                return TraceEvent(
                    time_ms=0, event=events.GIVEN_BACK[event.why], detail=WHY_SO.get(event.why, "")
                )
            case events.GivenBack():
                self._before[event.group] = events.WHY[event.why]
                error = ": ".join(part for part in (event.error_class, event.error_message) if part)
                if event.why == events.DISCONNECTED:
                    error = ""  # The event's name says it.
                return self._by_holder(
                    event, events.GIVEN_BACK[event.why], error or WHY_SO.get(event.why, "")
                )
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
