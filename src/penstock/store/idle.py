"""Idle connections of a store, kept for the next call: one for each thread that was in a call at a time."""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    def close(self) -> None: ...


ConnectionT = TypeVar("ConnectionT", bound=Closable)


class IdleConnections(Generic[ConnectionT]):
    """A connection is taken for a call, and put back if the call succeeded; a failed one is not reused."""

    def __init__(self) -> None:
        self._idle: SimpleQueue[ConnectionT] = SimpleQueue()

    def take(self, connect: Callable[[], ConnectionT]) -> ConnectionT:
        """An idle connection, or else a new one."""
        try:
            return self._idle.get_nowait()
        except Empty:
            return connect()

    def put(self, connection: ConnectionT) -> None:
        self._idle.put(connection)

    def close(self) -> None:
        while True:
            try:
                self._idle.get_nowait().close()
            except Empty:
                return
