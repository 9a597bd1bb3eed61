"""Detects a stalled worker: connected, messages waiting, and nothing moves.

    busy        every slot is taken, nothing has finished for a while, and messages wait
    starved     slots are free, messages wait, and none is delivered for a while

Everything else is fine: nothing waits, or something finishes now and then.  A
worker with work for hours is not reported as long as nothing waits behind it.

The decision is a plain one; time comes in as a value.  A line is repeated after
twice the time of the one before, so that a night makes ten lines and not ten
thousand.
"""

from dataclasses import dataclass
from typing import Final

REPEAT_MS_MAX: Final = 3_600_000  # Once an hour is often enough to be seen, and little enough to be read.


class LogThrottle:
    """Decides when a warning may be logged again: at once, then after ever longer waits."""

    def __init__(self, first_ms: int) -> None:
        self._first_ms = first_ms
        self.reset()

    def reset(self) -> None:
        """The problem is solved: the next warning is logged at once."""
        self._wait_ms = self._first_ms
        self._next_ms: int | None = None

    def allows(self, now_ms: int) -> bool:
        """True if the warning may be logged now; it counts as logged."""
        if self._next_ms is not None and now_ms < self._next_ms:
            return False
        self._next_ms = now_ms + self._wait_ms
        self._wait_ms = min(self._wait_ms * 2, REPEAT_MS_MAX)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProgress:
    taken: int  # Messages it was given, since its start.
    finished: int  # Calls that ended, well or not.
    running: int
    slots: int
    oldest_ms: int  # For how long the longest running call runs; 0 if none does.
    oldest_id: str  # Its message; empty if none does.


class StallDetector:
    def __init__(self, name: str, stall_warning_ms: int) -> None:
        self._name = name
        self._stall_warning_ms = stall_warning_ms
        self._seen: tuple[int, int] | None = None  # Taken and finished, when they last changed.
        self._quiet_since_ms = 0
        self._waiting_since_ms: int | None = None  # When messages were first seen to wait in this quiet.
        self._throttle = LogThrottle(stall_warning_ms)

    def is_quiet(self, now_ms: int, progress: CallProgress) -> bool:
        """True if it is worth asking the broker how many messages wait."""
        if (progress.taken, progress.finished) != self._seen:
            self._seen = (progress.taken, progress.finished)
            self._quiet_since_ms = now_ms
            self._waiting_since_ms = None
            self._throttle.reset()
        return now_ms - self._quiet_since_ms >= self._stall_warning_ms

    def look(self, now_ms: int, progress: CallProgress, waiting: int, verdict: str = "") -> str | None:
        """The warning about a worker while ``waiting`` messages could be delivered; None if there is none.

        ``verdict`` is the broker's, about the whole group, and may say why nothing is delivered.
        """
        if not self.is_quiet(now_ms, progress):
            return None
        if waiting <= 0:
            self._waiting_since_ms = None
            return None
        busy = progress.running >= progress.slots
        since_ms = self._quiet_since_ms
        if not busy:  # A worker that was idle for hours is not starved by the message that came just now.
            self._waiting_since_ms = since_ms = self._waiting_since_ms or now_ms
        quiet_ms = now_ms - since_ms
        if quiet_ms < self._stall_warning_ms or not self._throttle.allows(now_ms):
            return None
        waits = _count(waiting, "message is waiting", "messages are waiting")
        facts = _busy(progress, quiet_ms) if busy else _starved(progress, quiet_ms, verdict)
        return f"{self._name} is not making progress: {waits}, {facts}"


def _busy(progress: CallProgress, quiet_ms: int) -> str:
    return (
        f"{_count(progress.running, 'call is running', 'calls are running')} (concurrency={progress.slots}), "
        f"none has finished for {quiet_ms // 1000} s, and the longest has run for "
        f"{progress.oldest_ms // 1000} s, on {progress.oldest_id}; "
        "check for a hanging call, set timeout=, or raise concurrency="
    )


def _starved(progress: CallProgress, quiet_ms: int, verdict: str) -> str:
    return (
        f"{progress.slots - progress.running} of {progress.slots} slots are free, and nothing was delivered "
        f"for {quiet_ms // 1000} s; the group is {verdict}; check the server's log and "
        f"`penstock group describe`"
    )


def _count(number: int, one: str, many: str) -> str:
    return f"1 {one}" if number == 1 else f"{number:,} {many}"
