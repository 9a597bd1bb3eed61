"""The interface of the broker to the core.

All calls come from the event loop, and plain methods are called between two steps of the broker, so that
they see a consistent state of all logs (rule 5): a driver that runs the broker in threads holds the
broker's lock.
"""

from collections.abc import Callable
from typing import Any, Protocol

from penstock.cluster.core.metadata import Key, Piece, State
from penstock.cluster.core.wal import Slice


class Packed(Protocol):
    """New bytes of all logs, and the host's data for confirming them."""

    parts: list[tuple[Slice, bytes]]


class Part:
    """One piece of a checkpoint in preparation."""

    def __init__(self, file: str, identity: str, read: Callable[[], bytes | None]) -> None:
        self.file = file
        self.identity = identity  # Equal for equal contents.
        self.read = read  # Called only if the store has no such piece; None: it has changed since.


class Incoming(Protocol):
    """A partition that is being loaded; invisible to others before ``open``."""

    def leaves(self, piece: Piece) -> bool:
        """Whether a piece of the checkpoint stays in the store, to be fetched when it is read."""
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
        """All appended bytes that are in no round yet; None if there are none."""
        ...

    def confirm(self, packed: Any) -> None:
        """The round is committed: acknowledge it and make it visible to readers."""
        ...

    def reject(self) -> None:
        """Unconfirmed data was not and will not be written; accept nothing more (rule 7)."""
        ...

    async def receive(self, key: Key, epoch: int) -> Incoming:
        """Begin to load a partition, after closing it if it was open."""
        ...

    def close(self, key: Key) -> None:
        """This node no longer owns the partition: stop serving it, without settling anything."""
        ...

    def stop(self, key: Key) -> None:
        """Accept no new requests for a partition: it is about to move."""
        ...

    def resume(self, key: Key, epoch: int) -> None:
        """Resume a partition that is not moved after all."""
        ...

    def serves(self, key: Key) -> bool:
        """Whether the partition is open, and neither stopped nor closed."""
        ...

    def drained(self, key: Key) -> bool:
        """Whether all data that was accepted for a partition is confirmed."""
        ...

    def cut(self, key: Key) -> list[Part] | None:
        """Exactly the packed data of a partition (rule 26); None: not possible now."""
        ...

    @property
    def carried_out(self) -> int:
        """Topics, settings and documents are as the metadata entries below this number say."""
        ...

    def follow(self, state: State) -> None:
        """The metadata changed: topics, settings and documents are as in ``state``."""
        ...
