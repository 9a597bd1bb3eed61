"""The metadata log: follow it, append to it, and start from a snapshot of it.

Entry n is created only by a node that has applied n - 1, from its state at that time, with no await in
between.  If another node wins the number, its entry is applied and ours is computed again (rule 9).
Entries are never deleted (rule 12), so a node that was away for a week can catch up; ``snap/`` only saves
time.

Cost: an append is one create; each entry is read once by every other node.  An idle log is polled every
``POLL_S``; the heartbeats of peers announce new entries.
"""

import asyncio
from collections.abc import Callable, Iterable
from random import Random
from typing import Final

import msgspec

from penstock.cluster.core.metadata import FORMAT, Change, State
from penstock.cluster.core.objects import (
    UNKNOWN,
    Store,
    decide,
    meta_name,
    number_of,
    snap_name,
    unwrap,
    wrap,
)
from penstock.errors import ClusterTooNew, CorruptionError, StoreRefused

POLL_S: Final = 15.0
SNAPSHOT_ENTRIES: Final = 256  # Entries between two snapshots ...
SNAPSHOTS_MAX: Final = 3  # ... and the number of snapshots that are kept.
RETRY_S: Final = 0.1


class _Envelope(msgspec.Struct):
    nonce: str
    change: Change


def _snapshot(name: str, data: bytes) -> State | None:
    """A snapshot; None if an earlier release wrote it without a field that is derived now."""
    state = msgspec.json.decode(unwrap("snap", name, data), type=State)
    return state if state.coordinators or not state.members else None


class MetadataLog:
    """The metadata as this node knows it."""

    snapshot_entries = SNAPSHOT_ENTRIES
    format = FORMAT  # The newest one that this node understands.
    cluster = ""  # Its name, for errors.

    def __init__(self, store: Store, random: Random, on_change: Callable[[], None]) -> None:
        self.state = State()
        self.entry_bytes_max = store.object_bytes_max
        self._store = store
        self._random = random
        self._on_change = on_change  # Called after each entry.

    async def start(self) -> None:
        """Load the newest snapshot that LIST shows, and follow the log to its end."""
        while True:
            try:
                # A node that has read the metadata before it joined needs no snapshot.
                names = sorted(await self._store.list("snap/")) if self.state.next == 1 else []
                data = await self._store.get(names[-1]) if names else None
                found = None if data is None else _snapshot(names[-1], data)
                if found is not None:
                    self.state = found
                    self._check_format(self.state.format)
                    self._on_change()
                await self.catch_up()
            except UNKNOWN:
                await asyncio.sleep(RETRY_S)
            else:
                return

    async def catch_up(self) -> None:
        """Apply every entry that is there; one of ``UNKNOWN`` if the store does not answer."""
        number = self.state.next
        while (data := await self._store.get(meta_name(number))) is not None:
            self._learn(number, data)
            number = self.state.next

    async def propose(self, make: Callable[[State], Change | None]) -> bool:
        """Append the entry that ``make`` computes from the newest state; False if it returned None."""
        while True:
            try:
                await self.catch_up()
            except UNKNOWN:
                await asyncio.sleep(RETRY_S)
                continue
            change = make(self.state)
            if change is None:
                return False
            number = self.state.next
            data = self._encoded(change)
            if await decide(self._store, meta_name(number), data):
                self._learn(number, data)
                return True

    def _encoded(self, change: Change) -> bytes:
        """Encode an entry; one that is too large for an object is an error, since retrying would not help."""
        envelope = _Envelope(f"{self._random.getrandbits(64):016x}", change)
        data = wrap("meta", msgspec.json.encode(envelope))
        if len(data) > self.entry_bytes_max:
            why = f"an entry has {len(data)} bytes, and an object up to {self.entry_bytes_max}"
            raise StoreRefused(store="of the cluster", why=why)
        return data

    def check(self, changes: Iterable[Change]) -> None:
        """Refuse changes that cannot be proposed, before anything is done."""
        for change in changes:
            self._encoded(change)

    def _learn(self, number: int, data: bytes) -> None:
        if number != self.state.next:
            return  # Another task of this node was quicker.
        name = meta_name(number)
        try:
            change = msgspec.json.decode(unwrap("meta", name, data), type=_Envelope).change
        except msgspec.ValidationError:  # A newer release wrote it; skipping it would let two nodes disagree.
            self._check_format(max(self.state.format, self.format) + 1)
            raise
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CorruptionError(path=name, position=0, why=str(error)) from error
        self.state.apply(change)
        self._check_format(self.state.format)
        self._on_change()

    def _check_format(self, used: int) -> None:
        """Refuse a log whose format this release does not understand."""
        if used > self.format:
            raise ClusterTooNew(cluster=self.cluster, format=used, known=self.format)

    async def write_snapshot(self, written: int) -> int:
        """Write a snapshot if there are many entries since the one at ``written``; returns the newest one."""
        number = self.state.next
        if number - written < self.snapshot_entries:
            return written
        data = wrap("snap", msgspec.json.encode(self.state))
        if len(data) > self._store.object_bytes_max:
            return number  # It is too large for the store; a start reads all entries instead.
        await decide(self._store, snap_name(number), data)
        names = sorted(await self._store.list("snap/"), key=number_of)
        for name in names[:-SNAPSHOTS_MAX]:
            await self._store.delete(name)
        return number
