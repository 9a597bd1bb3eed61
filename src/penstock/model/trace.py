"""The trace of one message, as a value and as text.
A trace has one timeline for each group, because groups do not know of each
other; times are UTC, and counted from when the message was published:

    orders:0:7  key order-123

    2026-01-01, UTC
      10:30:00.000    +0.000 s  published    5 bytes, priority normal

    billing: acked 31.002 s after publish; 2 deliveries
      10:30:00.123    +0.123 s  delivered    worker-1, attempt 1
      10:30:30.123   +30.123 s  timed out    worker-1
      10:30:30.456   +30.456 s  redelivered  worker-2, attempt 2
      10:30:31.002   +31.002 s  acked        worker-2

    retained until 2026-01-08 10:30:00 UTC
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec

# Events after which a group is done with a message: the words of delivery/events.py, and one more.
SETTLED: Final = ("acked", "dead-lettered", "expired", "skipped", "committed")
DELIVERED: Final = ("delivered", "redelivered")
UNSETTLING: Final = (*DELIVERED, "group moved")
RETAINED: Final = "retained until"
DUE: Final = "due"
AHEAD: Final = (DUE, RETAINED)  # Future events, listed last.
HOUR_MS: Final = 3_600_000


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
        return datetime.fromtimestamp(self.time_ms / 1000, UTC)


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known about one message, oldest first."""

    topic: str
    partition: int
    offset: int  # -1 if it is not in the log: not due yet, cancelled, or recurring.
    key: bytes | None
    events: list[TraceEvent]
    schedule: int = -1  # Then the number of its schedule entry.

    @property
    def id(self) -> str:
        """The message's id, or its schedule id."""
        number = self.offset if self.offset >= 0 else f"s{self.schedule}"
        return f"{self.topic}:{self.partition}:{number}"

    @property
    def published_ms(self) -> int:
        """When the message entered the log; -1 if compaction has removed it."""
        return next((event.time_ms for event in self.events if event.event == "published"), -1)

    def settlement(self, group: str) -> TraceEvent | None:
        """The event that settled the message for this group; None if it is not settled."""
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


# As text.


def _lines(trace: Trace) -> Iterator[str]:
    key = "no key" if trace.key is None else f"key {trace.key.decode('utf-8', 'backslashreplace')}"
    yield f"{trace.id}  {key}"
    table = _Table(trace)
    for group in dict.fromkeys(event.group for event in trace.events):
        mine = [event for event in trace.events if event.group == group and event.event not in AHEAD]
        if mine:
            yield ""
            yield f"{group}: {_outcome(trace, group, mine)}" if group else table.heading()
            yield from (table.line(event) for event in mine)
    for event in trace.events:
        if event.event in AHEAD:
            yield ""
            yield f"{event.event} {event.time:%Y-%m-%d %H:%M:%S} UTC"


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
        past = [event for event in trace.events if event.event not in AHEAD]
        self._from_ms = trace.published_ms if trace.published_ms >= 0 else (past[0].time_ms if past else 0)
        self._one_day = len({event.time.date() for event in past}) <= 1
        self._wide = max((len(event.event) for event in past), default=0)

    def heading(self) -> str:
        """Over the message's own events: the day they happened, if it is one."""
        return f"{datetime.fromtimestamp(self._from_ms / 1000, UTC):%Y-%m-%d}, UTC"

    def line(self, event: TraceEvent) -> str:
        """One event; the line before it has the reason of a redelivery."""
        elapsed_ms = event.time_ms - self._from_ms
        elapsed = f"{'-' if elapsed_ms < 0 else '+'}{_elapsed(abs(elapsed_ms))}"
        clock = f"{event.time:%H:%M:%S}.{event.time_ms % 1000:03d}"
        day = "" if self._one_day else f"{event.time:%m-%d} "
        detail = f"attempt {event.attempt}" if event.event in DELIVERED else event.detail
        words = ", ".join(fact for fact in (event.consumer, detail) if fact)
        return f"  {day}{clock}  {elapsed:>10}  {event.event:<{self._wide}}  {words}".rstrip()


def _elapsed(elapsed_ms: int) -> str:
    """Milliseconds in a readable form: 36.012 s, 3.4 h, 12.0 d."""
    if elapsed_ms < HOUR_MS:
        return f"{elapsed_ms / 1000:.3f} s"
    days = elapsed_ms >= 48 * HOUR_MS
    return f"{elapsed_ms / (24 * HOUR_MS):.1f} d" if days else f"{elapsed_ms / HOUR_MS:.1f} h"
