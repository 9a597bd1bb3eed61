"""Delays logins after repeated failures.

    the first FREE_MAX      at once
    each one after          1 s, 2 s, 4 s ... up to a minute after the one before

Counted for each address and each name by itself, so neither many names from one
place nor one name from many places gets far.  An attempt counts when it begins
and is forgiven when it succeeds: a hundred at the same time are a hundred.
Nobody is locked out for good; after ``FORGET_MS`` without an attempt all is forgotten.
"""

from collections import OrderedDict
from typing import Final

from penstock.clock import Clock
from penstock.errors import QuotaExceeded

FREE_MAX: Final = 10
WAIT_MS_MAX: Final = 60_000
FORGET_MS: Final = 15 * 60_000
SUBJECTS_MAX: Final = 10_000  # Remembered; the oldest is forgotten for a new one.


class LoginThrottle:
    """The failed logins of a server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failed: OrderedDict[str, tuple[int, int]] = OrderedDict()  # How often, and when the last was.

    def begin(self, *subjects: str) -> None:
        """Somebody tries to log in; refused if that is too soon."""
        now_ms = self._clock.steady_ms()
        for subject in subjects:
            count, last_ms = self._known(subject, now_ms)
            wait_ms = last_ms + self.wait_ms(count) - now_ms
            if wait_ms > 0:
                raise QuotaExceeded(
                    who=subject, what="failed logins", limit=FREE_MAX, retry_after=-(-wait_ms // 1000)
                )
        for subject in subjects:
            count, _ = self._known(subject, now_ms)
            self._failed[subject] = count + 1, now_ms
            self._failed.move_to_end(subject)
            if len(self._failed) > SUBJECTS_MAX:
                self._failed.popitem(last=False)

    def forgive(self, *subjects: str) -> None:
        for subject in subjects:
            count, last_ms = self._failed.get(subject, (0, 0))
            if count > 1:
                self._failed[subject] = count - 1, last_ms
            else:
                self._failed.pop(subject, None)

    @staticmethod
    def wait_ms(count: int) -> int:
        """How long after ``count`` failures the next may come."""
        return 0 if count < FREE_MAX else min(1000 << min(count - FREE_MAX, 16), WAIT_MS_MAX)

    def _known(self, subject: str, now_ms: int) -> tuple[int, int]:
        count, last_ms = self._failed.get(subject, (0, now_ms))
        return (0, now_ms) if now_ms - last_ms > FORGET_MS else (count, last_ms)
