"""Message move tasks of a listener: running ones, and results of earlier ones.

They are kept in memory.  A restart ends them; messages that were not moved stay in the dead-letter queue.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final

from penstock.frontends.security.guarded import BrokerOperations

KEPT_MAX: Final = 1000  # Tasks that are remembered, of all queues.
RUNNING_MAX: Final = 100  # At a time; the service has the same limit for an account.


class MoveTask:
    """A move of messages out of a dead-letter queue."""

    def __init__(
        self,
        handle: str,
        source: str,
        destination: str | None,
        targets: frozenset[str],
        rate: int | None,
        to_move: int,
        started_ms: int,
        operations: BrokerOperations,
    ) -> None:
        self.handle = handle
        self.source = source
        self.destination = destination  # None: each message returns to its original queue.
        self.targets = targets  # The queues to which messages may go.
        self.rate = rate
        self.to_move = to_move
        self.started_ms = started_ms
        self.operations = operations  # Of the key that started it.
        self.moved = 0
        self.status = "RUNNING"
        self.failure: str | None = None

    @property
    def active(self) -> bool:
        return self.status in ("RUNNING", "CANCELLING")

    def end(self) -> None:
        """Mark the task as completed or cancelled, unless it has failed."""
        if self.active:
            self.status = "COMPLETED" if self.status == "RUNNING" else "CANCELLED"

    def fail(self, why: str) -> None:
        self.status, self.failure = "FAILED", why


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
        """The tasks of a dead-letter queue, the newest first."""
        return [task for task in reversed(self._tasks) if task.source == source]

    def find(self, handle: str) -> MoveTask | None:
        return next((task for task in self._tasks if task.handle == handle), None)

    @property
    def full(self) -> bool:
        return len(self._running) >= RUNNING_MAX

    def forget(self, operations: BrokerOperations) -> None:
        """Stop the tasks of a key that was revoked or changed."""
        for task in self._tasks:
            if task.operations is operations and task.active:
                task.fail("the key that started the task was revoked or changed")

    def cancel_all(self) -> None:
        """Cancel the running tasks, because the server stops."""
        for running in list(self._running):
            running.cancel()

    async def wait(self) -> None:
        if self._running:
            await asyncio.wait(self._running)
