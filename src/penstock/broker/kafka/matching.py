"""Matches names against patterns of clients, many at a time: in a thread, one job after the other.

RE2 takes linear time (``groups/patterns.py``), but there may be thousands of names, and a large pattern takes
milliseconds for each.  Only one thread matches at any time, so that the threads needed for logins and other
work stay free.  A job that takes longer than ``MATCH_MS_MAX`` is cancelled.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

from penstock.broker.state import State
from penstock.broker.steps import Steps, aside
from penstock.broker.turns import Turn
from penstock.clock import Clock
from penstock.errors import Overloaded
from penstock.groups.patterns import Tried, try_all

MATCH_MS_MAX: Final = 5000  # A usual pattern matches a million names in that time.
WAITING_MAX: Final = 1000  # Pieces of work.
TOO_LONG: Final = f"matching the pattern takes longer than {MATCH_MS_MAX} ms; use a simpler one"


class Deadline:
    """Tells a thread to stop: the time is over, or the operation was cancelled."""

    def __init__(self, clock: Clock, until_ms: int) -> None:
        self._clock = clock
        self._until_ms = until_ms
        self.abandoned = False

    def is_over(self) -> bool:
        return self.abandoned or self._clock.steady_ms() >= self._until_ms


class Matching:
    def __init__(self, state: State) -> None:
        self._state = state
        self._queue: deque[Turn] = deque()

    def match(self, work: Mapping[str, Iterable[str]]) -> Steps[Tried | None]:
        """Match the names of each pattern; None if that takes too long."""
        if len(self._queue) >= WAITING_MAX:
            raise Overloaded(what="patterns that wait to be matched", limit=WAITING_MAX)
        with Turn(self._state, [self._queue]) as turn:
            yield from turn.wait()
            deadline = Deadline(self._state.clock, self._state.clock.steady_ms() + MATCH_MS_MAX)
            try:
                return (yield from aside(partial(try_all, work, deadline.is_over)))
            finally:
                deadline.abandoned = True
