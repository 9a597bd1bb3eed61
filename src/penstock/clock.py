"""The only module that reads the time from the machine.

Two readings, both in whole milliseconds since 1970:

    wall_ms      what a person's watch shows.  It may jump, either way.  Record
                 timestamps and due times of the schedule are wall time.
    steady_ms    starts as wall time and from then on only counts forward, by
                 the machine's boot clock, through steps of the wall clock and
                 through suspend.  Leases, retries and waits use it, so a clock
                 that is set back an hour does not hold a message for an hour.

Everything else receives a ``Clock``, or a value that came from one.
"""

import time
from typing import Protocol

# Counts suspend too, where the platform can (Linux).
_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """The source of time; ``penstock.testing.ManualClock`` is the other implementation."""

    def wall_ms(self) -> int: ...

    def steady_ms(self) -> int:
        """Time that never goes back and never jumps."""
        ...


class SystemClock:
    def __init__(self) -> None:
        self._anchor_ns = time.time_ns() - time.clock_gettime_ns(_BOOT)

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> int:
        """Time that never goes back and never jumps."""
        return (self._anchor_ns + time.clock_gettime_ns(_BOOT)) // 1_000_000


# Nanoseconds from an arbitrary moment: for measuring how long something takes, and nothing else.
stopwatch_ns = time.perf_counter_ns

# Nanoseconds that this thread has worked, without its waits: for measuring what something costs.
work_ns = time.thread_time_ns
