"""Deletes objects that will not be read again (rules 21-23).

    WAL entries    below the floor that follows from the applied metadata, or above a tombstone
    pieces         of checkpoints that no partition refers to, if they are older than the checkpoint that is
                   being written, or their incarnation is sealed, so that no entry can refer to them any more

Tombstones are never deleted, and names are never used again (rule 22): a deleted name could be created by a
late request, which would then be acknowledged.  An outdated view of the metadata is safe: floors only rise,
and an unreferenced piece is never referenced again.

An owner deletes its own entries by name.  One of the nodes that are alive lists and cleans up after the
sealed ones.
"""

from typing import Final

from penstock.cluster.core.metadata import State
from penstock.cluster.core.objects import Store, number_of, wal_name

INTERVAL_S: Final = 60.0
AT_ONCE_MAX: Final = 1000  # Deletions per call.


class Collecting:
    def __init__(self, incarnation: str, store: Store) -> None:
        self.incarnation = incarnation
        self._store = store
        self._deleted = 0  # Own entries below are deleted.

    async def collect(self, state: State, uploading: int) -> None:
        """Delete what is garbage; one of ``UNKNOWN`` if the store does not answer."""
        # All decisions follow from one state, which may change during the first await.
        floor = state.members[self.incarnation].floor
        pieces = [piece for _, assigned in state.partitions() for piece in assigned.base]
        used = {name for piece in pieces for name in piece.names}
        cleans = state.alive()[:1] == [self.incarnation]
        sealed = {
            name: (member.floor, member.tombstone)
            for name, member in state.members.items()
            if member.tombstone is not None
        }
        for _ in range(min(floor - self._deleted, AT_ONCE_MAX)):
            await self._store.delete(wal_name(self.incarnation, self._deleted))
            self._deleted += 1
        for name in list(await self._store.list(f"base/{self.incarnation}/")):
            if name not in used and number_of(name) < uploading:
                await self._store.delete(name)
        if cleans:
            await self._collect_sealed(sealed, used)

    async def _collect_sealed(self, sealed: dict[str, tuple[int, int]], used: set[str]) -> None:
        for name in list(await self._store.list("wal/")):
            floor, tombstone = sealed.get(name.split("/")[1], (0, None))
            if is_garbage(number_of(name), floor, tombstone):
                await self._store.delete(name)
        for name in list(await self._store.list("base/")):
            if name.split("/")[1] in sealed and name not in used:
                await self._store.delete(name)


def is_garbage(sequence: int, floor: int, tombstone: int | None) -> bool:
    """Whether a WAL entry may be deleted.  A tombstone never (rule 22), and the floor never passes it."""
    return sequence < floor or (tombstone is not None and sequence > tombstone)
