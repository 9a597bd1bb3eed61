"""The interpreter of operation steps, which all drivers share.

Every operation is a generator that runs under one lock and yields what it waits for (``steps.py``).
``Operation.advance`` runs it up to the next wait.  How it waits is a strategy, a subclass of ``Operation``:

    Blocking     threads.py   the thread that runs the operation blocks
    Running      loop.py      no task waits: a callback on the event loop continues the operation
    Awaited      loop.py      the task that runs the operation awaits a future

Virtual time (``testing/driver.py``) uses the same strategies; its drivers move a clock instead of waiting.

Work that must be finished whatever its caller does (burying a dead letter, publishing an outbox) is in
``state.jobs``.  It is run before the call that caused it returns; on a loop, by a task of the driver, so that
cancelling the caller does not stop it.
"""

from typing import Any

from penstock.broker.core import Core
from penstock.broker.steps import Durable, Step, Steps
from penstock.errors import Closed


class Operation:
    """One running operation: its steps, and in a subclass how it waits between them."""

    __slots__ = ("_steps", "ended", "error", "result")

    # Set by the subclass: a second constructor would be a call more for each request.
    _steps: Steps[Any]
    ended: bool
    error: BaseException | None
    result: Any

    def advance(self) -> None:
        """Run up to the next wait or the end; the caller holds the lock."""
        try:
            while True:
                wanted = next(self._steps)
                if not isinstance(wanted, Durable) or wanted.log.durable < wanted.written:
                    self.wait(wanted)
                    return
        except StopIteration as end:
            self.end(end.value, None)
        except Exception as error:  # noqa: BLE001 - it is the caller's.
            self.end(None, error)

    def wait(self, wanted: Step) -> None:
        """Arrange that the operation continues when this wait is over; still under the lock."""
        raise NotImplementedError

    def end(self, result: Any, error: BaseException | None) -> None:
        self.result = result
        self.error = error
        self.ended = True

    def raise_error(self) -> None:
        """Raise the error with which the operation has ended, if it has, and forget it."""
        error, self.error = self.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # Else the error would hold this frame, and the frame the error.

    def close(self) -> None:
        """Cancel the operation: it releases what it holds; what was written stays written."""
        self.ended = True
        self._steps.close()


class Driver:
    """What all drivers have: the broker, and the number of running operations."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._state = core.state
        self._active = 0
        self._closing = False

    def _check_open(self) -> None:
        if self._closing or self._state.closed:
            raise Closed(what="broker")
