"""The interface of the broker to the core.

All calls come from the event loop, and plain methods are called between two steps of the broker, so that
what they see is consistent over all logs (rule 5): a driver whose broker runs in threads holds the
broker's lock.
"""

from collections.abc import Callable
from typing import Any, Protocol

from penstock.cluster.core.metadata import Key, Piece, State
from penstock.cluster.core.wal import Slice


class Packed(Protocol):
    """New bytes of all logs, and what the host needs to confirm them."""

    parts: list[tuple[Slice, bytes]]


class Part:
    """One piece of a checkpoint that is being made."""

    def __init__(self, file: str, identity: str, read: Callable[[], bytes | None]) -> None:
        self.file = file
        self.identity = identity  # Equal for equal contents.
        self.read = read  # Called only if the store has no such piece; None: it has changed since.


class Incoming(Protocol):
    """A partition that is being loaded; nobody else sees it before ``open``."""

    def leaves(self, piece: Piece) -> bool:
        """Is a piece of the checkpoint left in the store, to be fetched when somebody reads it?"""
        ...

    def restore(self, piece: Piece, data: bytes) -> None: ...

    def end(self, log: str) -> int:
        """The offset at which the next batch of a log begins."""
        ...

    def append(self, log: str, first: int, batches: memoryview) -> None: ...

    async def open(self) -> None:
        """Recover the partition and serve it."""
        ...

    def drop(self) -> None:
        """Forget the partition: this node does not own it any more."""
        ...


class Host(Protocol):
    """The broker of this node."""

    def pack(self) -> Packed | None:
        """All that was appended and is in no round yet; None if nothing is."""
        ...

    def confirm(self, packed: Any) -> None:
        """The round is committed: acknowledge it and show it to readers."""
        ...

    def reject(self) -> None:
        """Nothing that is not confirmed was or will be written; accept nothing more (rule 7)."""
        ...

    async def receive(self, key: Key, epoch: int) -> Incoming:
        """Begin to load a partition, when it is closed if it was open before."""
        ...

    def close(self, key: Key) -> None:
        """This node does not own the partition any more: stop serving it, and settle nothing."""
        ...

    def stop(self, key: Key) -> None:
        """Accept no new requests for a partition: it is about to move."""
        ...

    def resume(self, key: Key, epoch: int) -> None:
        """Resume a partition that is not moved after all."""
        ...

    def serves(self, key: Key) -> bool:
        """Is the partition open, and neither stopped nor closed?"""
        ...

    def drained(self, key: Key) -> bool:
        """Whether everything that was accepted for a partition is confirmed."""
        ...

    def cut(self, key: Key) -> list[Part] | None:
        """All of a partition that has been packed, and nothing else (rule 26); None: not possible now."""
        ...

    @property
    def carried_out(self) -> int:
        """Topics, settings and documents are as the metadata entries below this number say."""
        ...

    def follow(self, state: State) -> None:
        """The metadata changed: topics, settings and documents are as in ``state``."""
        ...
