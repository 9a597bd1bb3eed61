"""Delays Ctrl-C until the current message is printed and acked.

    with Interrupts() as interrupts:
        while True:
            with interrupts.welcome():
                wait_for_something()      # Ctrl-C ends it here, at once
            print_it()
            ack_it()                      # Ctrl-C during these two takes effect at the next welcome

A second Ctrl-C takes effect at once.  Only the main thread receives signals; in other threads this does
nothing.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupts:
    """Controls when Ctrl-C may end the command."""

    def __init__(self) -> None:
        self._welcome = False
        self._asked = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    @contextmanager
    def welcome(self) -> Iterator[None]:
        """In this block an interrupt ends the command, even one that arrived earlier."""
        self._welcome = True
        try:
            if self._asked:
                raise KeyboardInterrupt
            yield
        finally:
            self._welcome = False

    def _interrupted(self, _number: int, _frame: FrameType | None) -> None:
        if self._welcome or self._asked:
            raise KeyboardInterrupt
        self._asked = True
