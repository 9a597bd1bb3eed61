"""Logs refused connections: a few in full, the rest as a count.

A port that other machines reach is scanned all the time, and a fuzzer opens hundreds of connections in a
second.  One line for each would fill the disk and hide everything else in the log.  So each listener logs
``LINES_MAX`` of them in ``WINDOW_S`` seconds, and at the end of the window how many more there were.
"""

import asyncio
import logging
from typing import Final

from penstock.errors import PenstockError

WINDOW_S: Final = 60.0
LINES_MAX: Final = 10

logger = logging.getLogger("penstock")


class Refusals:
    """Logs the refused connections of one listener."""

    def __init__(self, listener: str) -> None:
        self._listener = listener
        self._logged = 0
        self._left_out = 0
        self._window: asyncio.TimerHandle | None = None

    def note(self, peer: str, error: PenstockError) -> None:
        if self._window is None:
            self._window = asyncio.get_running_loop().call_later(WINDOW_S, self.close)
        if self._logged < LINES_MAX:
            self._logged += 1
            logger.info("%s: connection of %s refused: %s", self._listener, peer, error)
        else:
            self._left_out += 1

    def close(self) -> None:
        """End the window: say how many were not logged."""
        if self._window is not None:
            self._window.cancel()
            self._window = None
        if self._left_out:
            logger.info("%s: %d more connections were refused", self._listener, self._left_out)
        self._logged = self._left_out = 0
