"""Lets calls that arrive shortly after each other go on in the same turn of the event loop.

gRPC hands over few calls in each turn, and a turn in which something was published
ends with a sync of the disk.  So a publish waits for ``TURNS`` turns if other calls are in progress; they are
short if nothing arrives.  One sync then serves all publishes of these turns.

With 64 calls at a time, on a busy machine, a durable publish took about 400 us of CPU time instead of 480.
"""

from asyncio import Future, get_running_loop
from typing import Final

TURNS: Final = 10


class Together:
    """A gate that opens now and then."""

    def __init__(self) -> None:
        self._waiting: list[Future[None]] = []  # One for each, since a cancelled call cancels what it awaits.
        self._turns_left = 0

    def wait(self) -> "Future[None]":
        """Until the gate opens, for all who have come before."""
        loop = get_running_loop()
        if not self._waiting:
            self._turns_left = TURNS
            loop.call_soon(self._turn)
        opened: Future[None] = loop.create_future()
        self._waiting.append(opened)
        return opened

    def _turn(self) -> None:
        self._turns_left -= 1
        if self._turns_left:
            get_running_loop().call_soon(self._turn)
            return
        waiting, self._waiting = self._waiting, []
        for opened in waiting:
            if not opened.done():
                opened.set_result(None)
