"""Delays logins after repeated failures.

    the first FREE_MAX      at once
    each one after          1 s, 2 s, 4 s ... up to a minute after the one before

Counted separately for each address and each name, so neither many names from one
place nor one name from many places gets far.  A login in progress may fail, so no
more are in progress than may fail: a hundred at the same time are a hundred, and
those beyond wait for the outcome of the others.  One that succeeds leaves no trace:
programs that log in properly do not delay each other.
No client is locked out permanently; ``FORGET_MS`` after the last failure all is forgotten.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

from penstock.clock import Clock
from penstock.errors import QuotaExceeded

FREE_MAX: Final = 10
WAIT_MS_MAX: Final = 60_000
FORGET_MS: Final = 15 * 60_000
SUBJECTS_MAX: Final = 10_000  # Remembered; the oldest is forgotten for a new one.


class Attempts(NamedTuple):
    """Those of one subject."""

    failed: int
    last_ms: int  # Of the last failure.
    pending: int


class LoginThrottle:
    """The failed logins of a server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._attempts: OrderedDict[str, Attempts] = OrderedDict()

    def check(self, *subjects: str) -> None:
        """Begin a login; refused if it is too soon."""
        now_ms = self._clock.steady_ms()
        for subject in subjects:
            known = self._known(subject, now_ms)
            wait_ms = known.last_ms + self.wait_ms(known.failed) - now_ms
            if wait_ms > 0:
                raise QuotaExceeded(
                    who=subject, what="failed logins", limit=FREE_MAX, retry_after=-(-wait_ms // 1000)
                )

    def is_full(self, *subjects: str) -> bool:
        """Whether as many are in progress as may fail."""
        now_ms = self._clock.steady_ms()
        known = [self._known(subject, now_ms) for subject in subjects]
        return any(each.pending and each.failed + each.pending >= FREE_MAX for each in known)

    def begin(self, *subjects: str) -> None:
        self._change(subjects, pending=1)

    def end(self, *subjects: str) -> None:
        self._change(subjects, pending=-1)

    def fail(self, *subjects: str) -> None:
        self._change(subjects, failed=1)

    @staticmethod
    def wait_ms(count: int) -> int:
        """The wait before the next attempt after ``count`` failures."""
        return 0 if count < FREE_MAX else min(1000 << min(count - FREE_MAX, 16), WAIT_MS_MAX)

    def _change(self, subjects: tuple[str, ...], *, failed: int = 0, pending: int = 0) -> None:
        now_ms = self._clock.steady_ms()
        for subject in subjects:
            known = self._known(subject, now_ms)
            last_ms = now_ms if failed else known.last_ms
            changed = Attempts(known.failed + failed, last_ms, max(known.pending + pending, 0))
            self._attempts.pop(subject, None)
            if changed.failed or changed.pending:
                self._attempts[subject] = changed
            if len(self._attempts) > SUBJECTS_MAX:
                self._attempts.popitem(last=False)

    def _known(self, subject: str, now_ms: int) -> Attempts:
        known = self._attempts.get(subject, Attempts(0, now_ms, 0))
        return known if now_ms - known.last_ms <= FORGET_MS else Attempts(0, now_ms, known.pending)
