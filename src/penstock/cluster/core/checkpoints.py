"""Checkpoints: objects from which a partition can be loaded without its whole WAL (rule 26).

A checkpoint is cut between two rounds: it contains exactly what the entries below the cut contain.  It is
proposed when all of these are confirmed, so a checkpoint never contains uncommitted data.  The entry is
invalid unless this incarnation still owns the partitions in the same epoch, so a late checkpoint of a
fenced owner does nothing.

A piece that is already in the store (equal file and identity) is not uploaded again.  A new piece gets a
new name, so a late delete of an old one cannot hit it (rule 22).  One that is too large for the store becomes
several objects.

Partitions without changes are in the entry, too: otherwise their range would hold the floor back.  The
entry has about 100 bytes for each piece of each partition.  If that is too large for one object of the
store, there are several entries: each is valid by itself, and the floor rises with the last.  A partition
that does not fit alone (on etcd, with some 10,000 segments) is left out, and its WAL is kept.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from penstock.cluster.core.agreement import MetadataLog
from penstock.cluster.core.commit import Commits
from penstock.cluster.core.host import Host, Part
from penstock.cluster.core.metadata import Checkpoint, Covered, Key, Piece, State
from penstock.cluster.core.objects import HEADER_BYTES_MAX, Store, base_name, decide, wrap

INTERVAL_S: Final = 30.0
ENTRY_BYTES: Final = HEADER_BYTES_MAX + 512  # Of an entry, besides its partitions.
COVERED_BYTES: Final = 64  # Of a partition, besides its name and pieces: numbers.


class Checkpoints:
    def __init__(self, store: Store, metadata: MetadataLog, commits: Commits, host: Host) -> None:
        self.uploading = 0  # Numbers of pieces from here on may not be referred to yet.
        self._store = store
        self._metadata = metadata
        self._commits = commits
        self._host = host
        self._number = 0
        self.cut = 0  # The last one.

    async def write(self, partitions: dict[Key, int], sealed: bool = False) -> None:
        """Write a checkpoint of partitions, given with their epochs, that are open here.

        ``sealed``: there are segments to be uploaded, even if nothing was committed since the last one.
        """
        cut = self._commits.next
        if cut == self.cut and not sealed and not self._has_history(partitions):
            return
        cuts = {key: self._host.cut(key) for key in partitions}  # No await since ``cut``.
        parts = {key: found for key, found in cuts.items() if found is not None}
        if not await self._commits.reached(cut):
            return
        self.uploading = self._number
        bases: dict[Key, list[Piece]] = {}
        for key, found in parts.items():
            pieces = await self._upload(key, found)
            if pieces is not None:  # Otherwise it has changed, and the next checkpoint covers it.
                bases[key] = pieces
        for some in self._divided(bases):
            await self._propose(cut, partitions, some)
        self.cut = cut
        self.uploading = self._number

    async def _propose(self, cut: int, partitions: dict[Key, int], bases: dict[Key, list[Piece]]) -> None:
        await self._metadata.propose(lambda state: self._entry(state, cut, partitions, bases))

    def _divided(self, bases: dict[Key, list[Piece]]) -> Iterator[dict[Key, list[Piece]]]:
        """The checkpoint in as many entries as the store needs: usually one, even if it is empty."""
        room = self._metadata.entry_bytes_max - ENTRY_BYTES
        some: dict[Key, list[Piece]] = {}
        taken = 0
        for key, base in bases.items():
            size = len(msgspec.json.encode((key, base))) + COVERED_BYTES
            if size > room:
                continue
            if taken + size > room:
                yield some
                some, taken = {}, 0
            some[key] = base
            taken += size
        yield some

    def _entry(
        self, state: State, cut: int, partitions: dict[Key, int], bases: dict[Key, list[Piece]]
    ) -> Checkpoint | None:
        """The entry for the partitions that are still ours."""
        incarnation = self._commits.incarnation
        covered = [
            Covered(*key, partitions[key], cut, base)
            for key, base in bases.items()
            if state.owns(incarnation, key, partitions[key])
        ]
        return Checkpoint(incarnation, cut, covered) if state.is_alive(incarnation) else None

    def _has_history(self, partitions: dict[Key, int]) -> bool:
        """Whether a partition was taken over and has no checkpoint of this incarnation yet."""
        found = [self._metadata.state.partition(key) for key in partitions]
        return any(each is not None and len(each.history) > 1 for each in found)

    async def _upload(self, key: Key, parts: list[Part]) -> list[Piece] | None:
        assigned = self._metadata.state.partition(key)
        known = {(piece.file, piece.identity): piece for piece in assigned.base} if assigned else {}
        pieces = []
        for part in parts:
            piece = known.get((part.file, part.identity))
            if piece is None:
                data = part.read()
                if data is None:
                    return None
                name, *more = [await self._create(each) for each in self._chunks(data)]
                piece = Piece(part.file, part.identity, name, more)
            pieces.append(piece)
        return pieces

    async def _create(self, data: bytes) -> str:
        name = base_name(self._commits.incarnation, self._number)
        self._number += 1
        await decide(self._store, name, wrap("base", data))
        return name

    def _chunks(self, data: bytes) -> list[bytes]:
        size = self._store.object_bytes_max - HEADER_BYTES_MAX
        return [data[at : at + size] for at in range(0, max(len(data), 1), size)]
