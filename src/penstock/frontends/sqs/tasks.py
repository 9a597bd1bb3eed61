"""Message move tasks of a listener: what runs, and what became of those before.

They are kept in memory.  A restart ends them; what was not moved by then is still in the dead-letter queue.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final

KEPT_MAX: Final = 1000  # Tasks that are remembered, of all queues.
RUNNING_MAX: Final = 100  # At a time; the service has the same limit for an account.


class MoveTask:
    """One task."""

    def __init__(
        self,
        handle: str,
        source: str,
        destination: str | None,
        rate: int | None,
        to_move: int,
        started_ms: int,
    ) -> None:
        self.handle = handle
        self.source = source
        self.destination = destination  # None: each message to the queue that it was in.
        self.rate = rate
        self.to_move = to_move
        self.started_ms = started_ms
        self.moved = 0
        self.status = "RUNNING"
        self.failure: str | None = None

    @property
    def active(self) -> bool:
        return self.status in ("RUNNING", "CANCELLING")


class MoveTasks:
    """All tasks of a listener, the newest last."""

    def __init__(self) -> None:
        self._tasks: deque[MoveTask] = deque(maxlen=KEPT_MAX)
        self._running: set[asyncio.Task[None]] = set()

    def start(self, task: MoveTask, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(task)
        running = asyncio.get_running_loop().create_task(work)
        self._running.add(running)
        running.add_done_callback(self._running.discard)

    def of_source(self, source: str) -> list[MoveTask]:
        """Those of a dead-letter queue, the newest first."""
        return [task for task in reversed(self._tasks) if task.source == source]

    def find(self, handle: str) -> MoveTask | None:
        return next((task for task in self._tasks if task.handle == handle), None)

    @property
    def full(self) -> bool:
        return len(self._running) >= RUNNING_MAX

    def cancel_all(self) -> None:
        """The server is about to end."""
        for running in list(self._running):
            running.cancel()

    async def wait(self) -> None:
        if self._running:
            await asyncio.wait(self._running)
