"""Notices when the event loop stands still: while it does, no client of any protocol is served.

    work begins ── BEAT_S ──> beat ── BEAT_S ──────── late ────> beat ── idle ──> asleep until work begins

A beat is late for one of two reasons.  Either the machine does something else: that is counted
(``broker/health/loop_lag.py``), and is not a fault of the server.  Or the loop did one thing for too long,
which the processor time of its thread shows: work of more than ``BUSY_MS`` without a break is a fault, and is
logged, at most once per ``LOGGED_EVERY_MS``.

It costs a call in ``BEAT_S`` while there is work, and nothing for a request.  A server that has nothing to do
is not woken.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from penstock.broker.frontend import Lag
from penstock.clock import stopwatch_ns, work_ns

BEAT_S: Final = 0.05
BUSY_MS: Final = 250  # Five times what clients may notice: what is logged is worth to be looked into.
IDLE_MS: Final = 1  # With less work than this between two beats, the loop is idle.
LOGGED_EVERY_MS: Final = 10_000

logger = logging.getLogger("penstock")

Sleep = Callable[[Callable[[], None] | None], None]


class Watchdog:
    """Watches the loop that it is started on.

    ``sleep`` gets the function to call when work begins; without it the watchdog never sleeps.
    """

    def __init__(self, lag: Lag, sleep: Sleep | None = None) -> None:
        self._lag = lag
        self._sleep = sleep
        self.busy_ms = 0.0  # The longest work without a break.
        self._timer: asyncio.TimerHandle | None = None
        self._due_ns = 0
        self._worked_ns = 0  # By the loop's thread, at the last beat.
        self._logged_ms: float | None = None

    def start(self) -> None:
        """Begin to watch the running loop."""
        self._worked_ns = work_ns()
        self._due_ns = stopwatch_ns() + round(BEAT_S * 1e9)
        self._timer = asyncio.get_running_loop().call_later(BEAT_S, self._beat)

    def stop(self) -> None:
        if self._sleep is not None:
            self._sleep(None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _beat(self) -> None:
        now_ns = stopwatch_ns()
        now_ms = now_ns / 1e6
        self._lag.note(max(now_ns - self._due_ns, 0) / 1e6, now_ms)
        busy_ms = (work_ns() - self._worked_ns) / 1e6
        self.busy_ms = max(self.busy_ms, busy_ms)
        if busy_ms > BUSY_MS and (self._logged_ms is None or now_ms - self._logged_ms > LOGGED_EVERY_MS):
            self._logged_ms = now_ms
            logger.warning("the event loop was busy for %d ms without a break; no client was served", busy_ms)
        if self._sleep is not None and busy_ms < IDLE_MS:
            self._timer = None
            self._sleep(self.start)
        else:
            self.start()
