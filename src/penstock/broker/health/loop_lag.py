"""Event-loop lag of a server: the longest delay of the last minutes, and how many exceeded the limit.

The owner of the loop measures it (``frontends/watchdog.py``); an embedded broker has no loop of its own.
"""

from typing import Final

STALL_MS: Final = 50  # Clients notice a server that does not answer for so long.
WINDOW_MS: Final = 60_000


class Lag:
    def __init__(self) -> None:
        self.stalls = 0  # Delays above STALL_MS.
        self._longest_ms = 0.0  # Of this window ...
        self._before_ms = 0.0  # ... and of the one before.
        self._window_ms = 0.0  # When this one began.

    def note(self, lag_ms: float, now_ms: float) -> None:
        """The loop was late by so much."""
        if now_ms - self._window_ms >= WINDOW_MS:
            fresh = now_ms - self._window_ms < 2 * WINDOW_MS
            self._before_ms = self._longest_ms if fresh else 0.0
            self._longest_ms, self._window_ms = 0.0, now_ms
        self._longest_ms = max(self._longest_ms, lag_ms)
        if lag_ms > STALL_MS:
            self.stalls += 1

    @property
    def longest_ms(self) -> float:
        """Of the last one or two minutes."""
        return max(self._longest_ms, self._before_ms)
