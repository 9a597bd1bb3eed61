"""Lets publishes of different calls share a sync of the disk.

gRPC hands over few calls in each turn of the event loop, and a turn in which something was published ends
with a sync.  So a publish waits until as many others have arrived as were recently in progress at the same
time, but no longer than ``WAIT_S``.  A single one does not wait.
"""

from asyncio import Future, TimerHandle, get_running_loop
from typing import Final

WAIT_S: Final = 0.003  # A publish of one client waits this long once if others were in progress just before.


class Together:
    """A gate that opens when the expected number of publishes has arrived.

    Each publish calls ``enter``, awaits what that returns, if anything, and calls ``leave`` at its end.
    """

    def __init__(self) -> None:
        self._in_progress = 0
        self._expected = 1
        self._waiting: list[Future[None]] = []  # One for each, since a cancelled call cancels what it awaits.
        self._time_is_up: TimerHandle | None = None

    def enter(self) -> "Future[None] | None":
        """Enter; returns what to wait for, or None."""
        self._in_progress += 1
        self._expected = max(self._expected, self._in_progress)
        if self._expected == 1:
            return None
        loop = get_running_loop()
        opened: Future[None] = loop.create_future()
        self._waiting.append(opened)
        if len(self._waiting) >= self._expected:
            self._open()
        elif self._time_is_up is None:
            self._time_is_up = loop.call_later(WAIT_S, self._open_late)
        return opened

    def leave(self) -> None:
        """Leave: the publish has ended, or was cancelled."""
        self._in_progress -= 1

    def _open_late(self) -> None:
        self._expected = max(len(self._waiting), 1)
        self._open()

    def _open(self) -> None:
        if self._time_is_up is not None:
            self._time_is_up.cancel()
            self._time_is_up = None
        waiting, self._waiting = self._waiting, []
        for opened in waiting:
            if not opened.done():
                opened.set_result(None)
