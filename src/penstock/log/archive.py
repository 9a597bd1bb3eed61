"""Sealed segments that are elsewhere: what a log needs of who can get them again.

In a cluster the files of a log are a cache.  A sealed segment that the cluster's store has may be missing
here: its index and lanes are kept, and its batches are fetched when they are read.

    NotCached       raised by every read that needs a missing segment; the fetch has begun by then
    FetchedSegment  what one waits for before one tries again

A read is refused before it has any effect, and never waits: it may run on the event loop, which also
renews the node's lease.
"""

from typing import Any, Protocol

from penstock.errors import PenstockError


class FetchedSegment:
    """A segment that is being fetched; operations wait for it as for an event on a topic."""

    def __init__(self) -> None:
        self.waiters: dict[Any, None] = {}

    def wake(self) -> None:
        """The segment was fetched, or that has failed."""
        waiters, self.waiters = self.waiters, {}
        for waiter in waiters:
            waiter.wake()


class SegmentArchive(Protocol):
    """Has the bytes of sealed segments; they are known by the paths of their files."""

    def has(self, path: str) -> bool:
        """Can the file be fetched if it is missing?"""
        ...

    def is_cached(self, path: str) -> bool: ...

    def fetching(self, path: str) -> FetchedSegment | None:
        """What to wait for before the file can be read; None if it is local, or not in the archive."""
        ...

    def require(self, path: str) -> None:
        """Raise ``NotCached`` if the file is to be fetched first.  May be called by any thread."""
        ...

    def damaged(self, path: str) -> PenstockError | None:
        """A closed file is damaged: the error for its reader; None if the archive has the same bytes."""
        ...

    def lost(self, path: str) -> None:
        """A file has failed that is not in the archive."""
        ...

    def forget(self, path: str) -> None:
        """Forget a segment that was deleted or rewritten."""
        ...
