"""The sealed segments on a node's disk as a cache of what the store has (rules 17, 21 and 26).

    sealed ──> uploaded with a checkpoint ──> evicted when the disk has too much ──> fetched when it is read
                       │                                                                  │
                       └── found damaged, or its file is lost ────────────────────────────┘

``add`` is called for a segment when a checkpoint refers to its object.  From then on its file may be
missing: a read raises ``NotCached`` and begins the fetch.  Objects are verified when they are fetched; a
damaged file is fetched again unless it equals the object, so only damage in the store counts as damage.

A segment has an identity, which changes with its contents; a checkpoint uses it to find objects that were
already uploaded.

Everything happens on the event loop, except ``require`` and ``has``, which the opening of a log also calls
from a thread.

Memory: ``FETCHES_MAX`` segments on their way at a time, and about 300 bytes for each that is known.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeAlias

from crc32c import crc32c

from penstock.cluster.core.objects import UNKNOWN, Store, unwrap
from penstock.errors import CorruptionError, NotCached, PenstockError
from penstock.log.archive import FetchedSegment
from penstock.log.files import Files, replace_file

FETCHES_MAX: Final = 4  # At a time.
RETRY_S: Final = 0.2  # Pause after a request that the store did not answer.
FAILED_S: Final = 1.0  # Pause after a failed fetch: the disk is full, or the object is damaged.

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], Awaitable[None]]

logger = logging.getLogger("penstock")


class StoredSegment:
    """A segment that is in the store."""

    def __init__(self, names: list[str], bytes_: int, wake: Callable[[], None]) -> None:
        self.names = names  # Names of its objects; one, unless the store accepts only small ones.
        self.bytes = bytes_
        self.wake = wake  # Woken after the fetch: operations that wait for its messages.
        self.checksum: int | None = None  # As of the last fetch.
        self.error: PenstockError | None = (
            None  # The error of the last fetch: raised once, then the fetch is retried.
        )


class SegmentCache:
    """The archive of sealed segments whose files were removed here: fetches them from the store."""

    def __init__(self, files: Files, store: Store, spawn: Spawn, on_lost: Callable[[str], None]) -> None:
        self._files = files
        self._store = store
        self._spawn = spawn
        self._on_lost = on_lost
        self._loop: asyncio.AbstractEventLoop | None = None  # That of ``add``.
        self._stored: dict[str, StoredSegment] = {}
        self._coming: dict[str, FetchedSegment] = {}
        self._identities: dict[str, str] = {}
        self._counter = 0
        self._permits = asyncio.Semaphore(FETCHES_MAX)

    # For checkpoints.

    def identity(self, path: str, bytes_: int, epoch: int) -> str:
        """That of a sealed segment, as it is now."""
        if path not in self._identities:
            self._counter += 1
            self._identities[path] = f"{bytes_}-{epoch}.{self._counter}"
        return self._identities[path]

    def add(self, path: str, identity: str, names: list[str], wake: Callable[[], None]) -> None:
        """Register a segment that is in the store, so that it can be fetched if it is missing."""
        bytes_, _, unique = identity.partition("-")
        if "." not in unique:
            return  # Of an older version, which did not keep files as they are.
        self._identities[path] = identity
        self._loop = asyncio.get_running_loop()
        if path not in self._stored or self._stored[path].names != names:
            self._stored[path] = StoredSegment(names, int(bytes_), wake)

    def is_cached(self, path: str) -> bool:
        return self._files.exists(path)

    # For logs.

    def has(self, path: str) -> bool:
        return path in self._stored

    def fetching(self, path: str) -> FetchedSegment | None:
        if path not in self._stored or self._files.exists(path):
            return None
        if path not in self._coming:
            self._coming[path] = FetchedSegment()
            self._spawn(self._fetch(path, self._stored[path]))
        return self._coming[path]

    def require(self, path: str) -> None:
        stored = self._stored.get(path)
        if stored is None or self._files.exists(path):
            return
        error, stored.error = stored.error, None
        if error is not None:
            raise error
        self._fetch_soon(path)
        raise NotCached(path=path)

    def _fetch_soon(self, path: str) -> None:
        """Start a fetch from any thread: opening a log runs in a separate one."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self.fetching, path)

    def damaged(self, path: str) -> PenstockError | None:
        stored = self._stored.get(path)
        if stored is None:
            self._on_lost(path)
            return NotCached(path=path)  # Until the next owner has the partition.
        if self._files.exists(path):
            if stored.checksum is not None and crc32c(self._files.read_file(path)) == stored.checksum:
                return None
            self._files.remove(path)
        logger.warning("%s is damaged; it is fetched from the store again", path)
        self._fetch_soon(path)
        return NotCached(path=path)

    def lost(self, path: str) -> None:
        self._on_lost(path)

    def forget(self, path: str) -> None:
        self._stored.pop(path, None)
        self._identities.pop(path, None)

    def forget_below(self, directory: str) -> None:
        """Forget all segments of a partition that this node no longer has."""
        for path in [path for path in self._identities if path.startswith(f"{directory}/")]:
            self.forget(path)

    # Fetching.

    async def _fetch(self, path: str, stored: StoredSegment) -> None:
        try:
            while self._stored.get(path) is stored and not self._files.exists(path):
                try:
                    async with self._permits:
                        objects = await asyncio.gather(*map(self._store.get, stored.names))
                except UNKNOWN:
                    await asyncio.sleep(RETRY_S)
                    continue
                if self._stored.get(path) is stored:
                    self._install(path, stored, _checked(stored, objects))
                return
        except PenstockError as error:
            stored.error = error
            logger.warning("%s cannot be fetched: %s", path, error)
            await asyncio.sleep(FAILED_S)  # Waiting operations retry at once.
        finally:
            self._coming.pop(path).wake()
            stored.wake()

    def _install(self, path: str, stored: StoredSegment, data: bytes) -> None:
        replace_file(self._files, path, data, sync=False)
        stored.checksum = crc32c(data)


def _checked(stored: StoredSegment, objects: list[bytes | None]) -> bytes:
    parts = []
    for name, data in zip(stored.names, objects, strict=True):
        if data is None:
            raise CorruptionError(path=name, position=0, why="it is missing in the store")
        parts.append(unwrap("base", name, data))
    payload = b"".join(parts)
    if len(payload) != stored.bytes:
        why = f"the segment has {len(payload)} bytes instead of {stored.bytes}"
        raise CorruptionError(path=stored.names[0], position=0, why=why)
    return payload
