"""Notices that the event loop stands still, because an async function blocks it.

Such a worker looks alive and does nothing: no other call continues, no lease is
extended, no watch can look.  So a thread looks: it asks the loop for a sign
every second, and if none comes for ``STILL`` looks it says so, with the place
where the loop is.  Looks are counted, not time: a machine that was asleep is
no alarm.
"""

import asyncio
import logging
import sys
import threading
import traceback
from types import TracebackType
from typing import Final, Self

from penstock.workers.stalls import LogThrottle

logger = logging.getLogger("penstock.workers")

LOOK_S: Final = 1.0
STILL: Final = 10  # Looks: a third of the usual visibility timeout, so that leases can still be saved.
STACK_LINES: Final = 5  # Calls of the loop's stack that are shown, innermost last.


class LoopWatchdog:
    """Watches the event loop it was made on, inside a ``with`` block."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._signs = 0
        self._seen = 0
        self._still = 0  # Looks without a sign.
        self._looks = 0
        self._throttle = LogThrottle(STILL)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="penstock-watchdog", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def look(self) -> str | None:
        """Check the loop once; returns the warning if it is blocked."""
        self._looks += 1
        if self._signs != self._seen:
            self._seen = self._signs
            self._still = 0
            self._throttle.reset()
        self._still += 1
        self._loop.call_soon_threadsafe(self._sign)
        if self._still <= STILL or not self._throttle.allows(self._looks):
            return None
        return (
            f"the event loop stands still for {self._still - 1} s: an async function blocks it, and all the "
            f"others with it; use a plain function or asyncio.to_thread for what blocks. It is here:\n"
            + self._stack()
        )

    def _sign(self) -> None:
        self._signs += 1

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - documented for this very use.
        return "".join(traceback.format_stack(frame)[-STACK_LINES:]).rstrip() if frame else "(it has ended)"

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_S):
            try:
                line = self.look()
            except RuntimeError:  # The loop is closed.
                return
            if line is not None:
                logger.warning("%s", line)
