"""Delivery states of a range of messages in a group: the state and the attempts of each.

    engine     state: settled or not, leased, waiting for a retry
    journal    detail: how it was settled, after how many attempts

The journal of a partition is kept as long as its messages, so the detail is
there; where it is not (the group began later, or was moved), a settled message
has no detail.  Neighbouring messages with equal states are returned as one range.

Cost: three bytes a message, and a scan of the journal from the first message's
time on, about a million events a second where compiled.  It releases the lock between
steps.  One large request is cheaper than many small ones.
"""

from array import array
from typing import Final

from penstock.broker.observability.tracing import CLOCK_STEP_MS
from penstock.broker.state import Group, GroupCursor, Partition, State
from penstock.broker.steps import GiveWay, Steps
from penstock.delivery import events
from penstock.errors import InvalidValue
from penstock.model.info import DeliveryState
from penstock.types import whole_number

OFFSETS_MAX: Final = 1_000_000  # Offsets in one question.
STEP_EVENTS: Final = 5000  # Looked at in one go: some milliseconds.
STEP_OFFSETS: Final = 20_000  # Likewise.

# The states by number; those from ACKED on are settled.
STATES: Final = (
    "waiting", "in flight", "retrying", "acked", "dead-lettered", "expired", "skipped", "settled",
)  # fmt: skip
WAITING: Final = 0
IN_FLIGHT: Final = 1
RETRYING: Final = 2
ACKED: Final = 3
SKIPPED: Final = 6
SETTLED: Final = 7
ALL: Final = range(256)
# How a slice of states changes where only some of them do.
IF_OPEN_SKIPPED: Final = bytes(SKIPPED if number < ACKED else number for number in ALL)
IF_OPEN_SETTLED: Final = bytes(SETTLED if number < ACKED else number for number in ALL)


class Deliveries:
    """Finds the delivery states of messages."""

    def __init__(self, state: State) -> None:
        self._state = state

    def states(
        self, name: str, group_name: str, number: int, start: int, end: int
    ) -> Steps[list[DeliveryState]]:
        """The delivery states of the offsets ``[start, end)`` that are in the log, as ranges."""
        topic = self._state.readable(name, number)
        group = topic.group(group_name)
        partition = topic.partition(number)
        whole_number("start", start, 0)
        whole_number("end", end, 0)
        if end - start > OFFSETS_MAX:
            raise InvalidValue(name="end", value=end, why=f"ask for at most {OFFSETS_MAX:,} offsets at once")
        cursor = partition.groups[group_name]
        start, end = max(start, partition.log.start), min(end, cursor.high)
        if start >= end:
            return []
        if group.settings.kind == "stream":
            return _of_stream(group, cursor, start, end)
        states = RangeStates(start, end)
        yield from self._tell(partition, cursor, states)
        states.check(cursor)
        return (yield from states.ranges())

    def _tell(self, partition: Partition, cursor: GroupCursor, states: "RangeStates") -> Steps[None]:
        """Add what the journal has about these offsets."""
        journal = partition.journal
        assert journal is not None, "there is a group"
        journal.flush()
        first = cursor.records(states.start, min(states.start + 1000, states.end))
        since_ms = first[0].timestamp - CLOCK_STEP_MS if first else 0
        if since_ms > self._state.clock.wall_ms():  # The wall clock was set back: look at everything.
            since_ms = 0
        for count, (_, _, event) in enumerate(journal.events(journal.log.offset_at(since_ms)), 1):
            if event.group == cursor.number:
                states.tell(event)
            if count % STEP_EVENTS == 0:
                yield GiveWay()


class RangeStates:
    """A range of offsets, with a state and the attempts so far for each."""

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.states = bytearray(end - start)
        self.attempts = array("H", bytes(2 * (end - start)))

    def tell(self, event: events.AnyEvent) -> None:
        """Apply a decision that may be about some of these offsets."""
        match event:
            case events.Leased():
                self._put(event.start, event.end, IN_FLIGHT, event.attempt)
            case events.GivenBack():
                # One that was given back unused does not count; one that was rejected skips the others.
                counted = event.attempt - 1
                attempts = min(counted, event.failed_attempt or counted)
                self._put(event.start, event.end, RETRYING if attempts else WAITING, attempts)
            case events.Settled():
                self._put(event.start, event.end, ACKED + event.how)
                if event.how == events.EXPIRED and event.lease >= 0:
                    self._take_back(event.start, event.end)
            case events.Sought():
                self._put(event.offset, self.end, WAITING, 0)
                self._change(self.start, event.offset, IF_OPEN_SKIPPED)
            case _:
                pass  # Of groups and leases as such; stream groups do without.

    def check(self, cursor: GroupCursor) -> None:
        """Correct the states by those of the engine."""
        engine = cursor.engine
        for start, end in engine.done.runs(self.start, self.end):
            self._change(start, end, IF_OPEN_SETTLED)
        for start, end in engine.done.gaps(self.start, self.end):
            self._put(start, end, WAITING)
        for start, end, _ in engine.waiting_ranges():
            self._put(start, end, RETRYING)
        for start, end, *_ in (*engine.prepared_ranges(), *engine.exhausted):
            self._put(start, end, RETRYING)
        for lease in engine.leases.values():
            for start, end in lease.unsettled():
                self._put(start, end, IN_FLIGHT, lease.attempt)

    def ranges(self) -> Steps[list[DeliveryState]]:
        """The states as ranges; equal neighbours are one range."""
        found: list[DeliveryState] = []
        states, attempts = self.states, self.attempts
        begin, state, count = 0, states[0], attempts[0]
        for at in range(1, len(states)):
            if states[at] != state or attempts[at] != count:
                found.append(self._range(begin, at))
                begin, state, count = at, states[at], attempts[at]
            if at % STEP_OFFSETS == 0:
                yield GiveWay()
        found.append(self._range(begin, len(states)))
        return found

    def _range(self, begin: int, end: int) -> DeliveryState:
        return DeliveryState(
            self.start + begin, self.start + end, STATES[self.states[begin]], self.attempts[begin]
        )

    def _put(self, start: int, end: int, state: int, attempts: int = -1) -> None:
        begin, stop = max(start, self.start) - self.start, min(end, self.end) - self.start
        if begin < stop:
            self.states[begin:stop] = bytes((state,)) * (stop - begin)
            if attempts >= 0:
                self.attempts[begin:stop] = array("H", (attempts,)) * (stop - begin)

    def _take_back(self, start: int, end: int) -> None:
        """A lease in which the messages were found expired was not a delivery."""
        for at in range(max(start, self.start) - self.start, min(end, self.end) - self.start):
            self.attempts[at] -= 1 if self.attempts[at] else 0

    def _change(self, start: int, end: int, table: bytes) -> None:
        begin, stop = max(start, self.start) - self.start, min(end, self.end) - self.start
        if begin < stop:
            self.states[begin:stop] = self.states[begin:stop].translate(table)


def _of_stream(group: Group, cursor: GroupCursor, start: int, end: int) -> list[DeliveryState]:
    """The ranges of a stream group: committed, read but not committed, not read."""
    number = cursor.partition.number
    read = max((each.positions.get(number, 0) for each in group.consumers.values()), default=0)
    found = []
    for upto, state, attempts in ((cursor.committed, ACKED, 1), (read, IN_FLIGHT, 1), (end, WAITING, 0)):
        stop = min(upto, end)
        if start < stop:
            found.append(DeliveryState(start, stop, STATES[state], attempts))
            start = stop
    return found
