"""Fails a test whose event loop stood still: while a server works at one thing, it serves nobody.

Measured by the processor time of the loop's thread, so that a busy machine does not matter.  Where the test
itself is on the loop, its own work counts, too; hence the patience.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

from penstock.broker.health.loop_lag import Lag
from penstock.frontends.watchdog import Watchdog

IN_PROCESS_MS = 1500.0
LOGGED = "the event loop was busy"  # What a server in its own process says beyond ``watchdog.BUSY_MS``.


@contextmanager
def watched() -> Iterator[Watchdog]:
    """Watch the running loop; in its own thread.

    A garbage collection of the whole test process may take longer than a server may: it is not logged.
    """
    watchdog = Watchdog(Lag())
    watchdog._logged_ms = inf
    watchdog.start()
    try:
        yield watchdog
    finally:
        watchdog.stop()
    assert watchdog.busy_ms < IN_PROCESS_MS, f"the event loop was busy for {watchdog.busy_ms:.0f} ms"


def check_logged(log: str) -> None:
    """A server in a process of its own has not complained."""
    stalls = [line for line in log.splitlines() if LOGGED in line]
    assert not stalls, stalls
