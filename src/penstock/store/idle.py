"""Idle connections of a store, kept for the next calls: as many as there were concurrent calls."""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    def close(self) -> None: ...


ConnectionT = TypeVar("ConnectionT", bound=Closable)


class IdleConnections(Generic[ConnectionT]):
    """A call takes a connection, and puts it back if it succeeded; a failed connection is not reused."""

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
