"""The journey of one message, told from the log and the journal.

    published       the record itself: when, how large, which lane; and its schedule entry if it was delayed
    leased, ...     every journal event whose range holds the offset, for every group
    retained        until when retention keeps it

There is no sampling and nothing extra is recorded: the journal has every
decision anyway.  Cost: a scan of the partition's journal from the message's
timestamp on, about a million events a second where compiled.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from penstock.broker.schedules import scheduled_number
from penstock.broker.state import Partition, State
from penstock.delivery import events
from penstock.errors import InvalidValue, OffsetOutOfRange
from penstock.message import StoredMessage


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

    def __str__(self) -> str:
        lines = [f"{self.id}  key={self.key!r}"]
        for event in self.events:
            parts = [f"  {event.time:%Y-%m-%d %H:%M:%S}.{event.time_ms % 1000:03d}  {event.event:<14}"]
            if event.group:
                parts.append(event.group)
            if event.consumer:
                parts.append(f"-> {event.consumer}")
            if event.attempt:
                parts.append(f"attempt {event.attempt}")
            if event.detail:
                parts.append(f"({event.detail})")
            lines.append(" ".join(parts).rstrip())
        return "\n".join(lines)


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
            timeline.append(TraceEvent(time_ms=records[0].timestamp + retention_ms, event="retained until"))
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
        yield TraceEvent(time_ms=message.timestamp, event="published", detail=", ".join(facts))

    def _journey(self, partition: Partition, offset: int, since_ms: int) -> Iterator[TraceEvent]:
        journal = partition.journal
        if journal is None:
            return
        journal.flush()
        names = {member.number: member.group for member in partition.groups.values()}
        teller = _Teller(offset)
        # The journal's clock is steady and the log's is the wall's: allow for a step between them.
        for _, time_ms, event in journal.events(journal.log.offset_at(since_ms - 60_000)):
            if isinstance(event, events.GroupSet):
                names[event.group] = event.name
            told = teller.tell(event)
            if told is not None:
                yield msgspec.structs.replace(told, time_ms=time_ms, group=names.get(event.group, ""))


def parse_id(identity: str) -> tuple[str, int, int]:
    """Topic, partition and offset of a message id."""
    parts = identity.split(":") if isinstance(identity, str) else []
    if len(parts) != 3 or not parts[1].isdigit() or not parts[2].isdigit():
        raise InvalidValue(
            name="message", value=identity, why="name it as topic, partition, offset, or by id 'orders:0:7'"
        )
    return parts[0], int(parts[1]), int(parts[2])


class _Teller:
    """Turns journal events into what happened to one offset."""

    def __init__(self, offset: int) -> None:
        self._offset = offset
        self._leases: dict[tuple[int, int], events.Leased] = {}  # Leases that held the offset.

    def tell(self, event: events.AnyEvent) -> TraceEvent | None:
        """What the event means for the offset; None if nothing."""
        match event:
            case events.Extended():
                return self._extended(event)
            case events.Sought():
                return TraceEvent(time_ms=0, event="group moved", detail=f"to offset {event.offset}")
            case events.Committed() if event.offset == self._offset + 1:
                return TraceEvent(time_ms=0, event="committed", detail=f"up to {event.offset}")
            case events.Redriven() if event.offset == self._offset:
                return TraceEvent(time_ms=0, event="redriven", detail=f"to {event.target}")
            case events.Leased() | events.Settled() | events.GivenBack() | events.Outbox():
                return self._of_range(event) if event.start <= self._offset < event.end else None
            case _:
                return None

    def _of_range(
        self, event: events.Leased | events.Settled | events.GivenBack | events.Outbox
    ) -> TraceEvent | None:
        match event:
            case events.Leased():
                self._leases[event.group, event.lease] = event
                name = "delivered" if event.attempt == 1 else "redelivered"
                return TraceEvent(time_ms=0, event=name, consumer=event.consumer, attempt=event.attempt)
            case events.Settled():
                holder = self._holder(event.group, event.lease)
                return TraceEvent(time_ms=0, event=events.HOW[event.how], consumer=holder)
            case events.GivenBack():
                return self._given_back(event)
            case events.Outbox():
                return TraceEvent(time_ms=0, event="sent", detail=event.note)

    def _given_back(self, event: events.GivenBack) -> TraceEvent | None:
        holder = self._holder(event.group, event.lease)
        if event.why == events.DEFERRED:
            return TraceEvent(time_ms=0, event="set aside", consumer=holder, detail=events.WHY[event.why])
        error = ": ".join(part for part in (event.error_class, event.error_message) if part)
        return TraceEvent(time_ms=0, event=events.WHY[event.why], consumer=holder, detail=error)

    def _extended(self, event: events.Extended) -> TraceEvent | None:
        holder = self._holder(event.group, event.lease)
        return TraceEvent(time_ms=0, event="extended", consumer=holder) if holder else None

    def _holder(self, group: int, lease: int) -> str:
        held = self._leases.get((group, lease))
        return held.consumer if held is not None else ""
