"""Loading a partition that was assigned to this node: the checkpoint, then every range of its history.

A range is read up to its exact end.  A missing entry, or a tombstone below the end, means that a newer
checkpoint covers it and this node's metadata are outdated: it catches up and continues.  It never means the
end of the log (rule 18).  Before the partition is served, owner and epoch are compared once more (rule 17).

All partitions of a failed node are in the same WAL entries, so concurrent loads share their downloads
(``Entries``), ``PARALLEL_MAX`` at a time.  A failed attempt leaves its progress to the next one.

Cost: hundreds of partitions wait for the same entries, so a load waits once for ``PARALLEL_MAX`` of them, not
for each.

Memory: at most ``CACHE_BYTES`` of entries, twice that if all are parts of large rounds, plus those that are
being downloaded.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from penstock.cluster.core.agreement import MetadataLog
from penstock.cluster.core.host import Host, Incoming
from penstock.cluster.core.metadata import Assigned, Key, Piece, Range
from penstock.cluster.core.objects import UNKNOWN, Store, unwrap, wal_name
from penstock.cluster.core.wal import Entry, Joining, Slice, decode_entry
from penstock.errors import CorruptionError, NotCached, PenstockError

PARALLEL_MAX: Final = 16
CACHE_BYTES: Final = 64 << 20
RETRY_S: Final = 0.1


class Outdated(Exception):  # noqa: N818 - it is caught here, and not an error
    """An object that the metadata name is not in the store: this node's metadata are old (rule 18)."""


class Entries:
    """WAL entries of others, shared by the loads that run at the same time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._permits = asyncio.Semaphore(PARALLEL_MAX)
        self._known: dict[str, Entry] = {}  # The oldest first.
        self._coming: dict[str, asyncio.Future[None]] = {}  # One for all that a load gets at once.
        self._bytes = 0

    async def get(self, name: str) -> Entry:
        while name not in self._known:
            await self.fetch([name])
        return self._known[name]

    async def fetch(self, names: list[str]) -> None:
        """Have these in memory, as far as they fit; what another load is downloading is waited for.

        If that fails, they are missing afterwards, and ``get`` downloads them.
        """
        theirs = {self._coming[name] for name in names if name in self._coming}
        mine = [name for name in names if name not in self._known and name not in self._coming]
        if mine:
            done = asyncio.get_running_loop().create_future()
            self._coming.update(dict.fromkeys(mine, done))
            try:
                await asyncio.gather(*map(self._download, mine))
            finally:
                for name in mine:
                    del self._coming[name]
                done.set_result(None)
        if theirs:
            await asyncio.wait(theirs)

    async def _download(self, name: str) -> None:
        async with self._permits:
            data = await self._store.get(name)
        if data is None:
            raise Outdated
        entry = decode_entry(name, data)
        if entry.tombstone:
            raise Outdated
        if name in self._known:
            return  # Downloaded by another load, after one of this load's downloads had failed.
        self._known[name] = entry
        self._bytes += entry.bytes
        while self._bytes > CACHE_BYTES:
            self._bytes -= self._known.pop(next(iter(self._known))).bytes

    def clear(self) -> None:
        self._known.clear()
        self._bytes = 0


class _Load:
    """The progress of loading a partition."""

    def __init__(self, incoming: Incoming, assigned: Assigned) -> None:
        self.incoming = incoming
        self.epoch = assigned.epoch
        # Neither changes while this node owns the partition in this epoch and has not opened it.
        self.base: list[Piece] = assigned.base
        self.history = [each for each in assigned.history if each.end is not None]
        self.restored = 0  # Pieces of the checkpoint.
        self.read: dict[tuple[str, int], int] = {}  # (incarnation, epoch) -> the next sequence.


class Loading:
    def __init__(self, incarnation: str, store: Store, metadata: MetadataLog, host: Host) -> None:
        self.incarnation = incarnation
        self._store = store
        self._metadata = metadata
        self._host = host
        self._entries = Entries(store)
        self._running: dict[Key, int] = {}  # And the epoch.

    def begin(self, key: Key, epoch: int) -> bool:
        """Whether ``load`` is to be called: False if it is running already."""
        begun = self._running.get(key) == epoch
        self._running[key] = epoch
        return not begun

    def is_running(self, key: Key) -> bool:
        """Whether a partition may be opened at any moment."""
        return key in self._running

    async def load(self, key: Key, epoch: int, then: Callable[[], None]) -> None:
        """Load a partition and open it, unless it is reassigned first; then call ``then``."""
        load: _Load | None = None
        try:
            assigned = self._metadata.state.partition(key)
            if assigned is not None and assigned.epoch == epoch:
                load = _Load(await self._host.receive(key, epoch), assigned)
            while load is not None and self._metadata.state.owns(self.incarnation, key, epoch):
                # There is no await between the comparison of owner and epoch in there and ``open`` (rule 17).
                if await self._attempt(key, load):
                    incoming, load = load.incoming, None
                    await incoming.open()
                    then()
        except PenstockError:
            if self._metadata.state.owns(self.incarnation, key, epoch):
                raise
            # The topic was deleted, or the partition has another owner: nothing is missing here.
        finally:
            if load is not None:
                load.incoming.drop()
            if self._running.get(key) == epoch:
                del self._running[key]
            if not self._running:
                self._entries.clear()

    async def _attempt(self, key: Key, load: _Load) -> bool:
        """Load everything that is missing; False if it must be retried, perhaps with newer metadata."""
        try:
            await self._restore(load)
            for each in load.history:
                await self._replay(key, load, each)
        except Outdated:
            await self._catch_up()
            return False
        except (*UNKNOWN, NotCached):  # Or a segment whose index has to be made again, which is fetched then.
            await asyncio.sleep(RETRY_S)
            return False
        return self._metadata.state.owns(self.incarnation, key, load.epoch)

    async def _restore(self, load: _Load) -> None:
        for piece in load.base[load.restored :]:
            if not load.incoming.leaves(piece):
                data = b"".join([await self._read(name) for name in piece.names])
                load.incoming.restore(piece, data)
            load.restored += 1

    async def _read(self, name: str) -> bytes:
        data = await self._store.get(name)
        if data is None:
            raise Outdated
        return unwrap("base", name, data)

    async def _replay(self, key: Key, load: _Load, each: Range) -> None:
        assert each.end is not None
        place = each.incarnation, each.epoch
        start, joining = load.read.get(place, each.start), Joining()
        for at in range(start, each.end, PARALLEL_MAX):
            ahead = range(at, min(at + PARALLEL_MAX, each.end))
            names = [wal_name(each.incarnation, sequence) for sequence in ahead]
            await self._entries.fetch(names)
            for sequence, name in zip(ahead, names, strict=True):
                entry = joining.add(name, await self._entries.get(name))
                if entry is not None:  # Parts without the last one, at the end of a range, are ignored.
                    self._append(name, load, entry.slices(key, each.epoch))
                    load.read[place] = sequence + 1

    @staticmethod
    def _append(name: str, load: _Load, slices: list[tuple[Slice, memoryview]]) -> None:
        for part, data in slices:
            end = load.incoming.end(part.log)
            if part.first > end:
                why = f"{part.log} continues at {part.first}, but ended at {end}"
                raise CorruptionError(path=name, position=0, why=why)
            if part.first == end:  # Otherwise the checkpoint has it already: a range may begin before it.
                load.incoming.append(part.log, part.first, data)

    async def _catch_up(self) -> None:
        with suppress(*UNKNOWN):
            await self._metadata.catch_up()
        await asyncio.sleep(RETRY_S)
