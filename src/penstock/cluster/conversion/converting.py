"""A plain data directory becomes a cluster of one node: ``penstock cluster convert``.

    check       every file of the directory is read; the store is probed, and has no cluster
    close       a broker opens the directory, which recovers it, and closes it
    mark        conversion.json: from now on no server opens the directory
    upload      the files of each partition as a checkpoint (rule 26), the rest as metadata entries,
                all under a new generation, which nobody knows yet
    found       cluster.json, which names the generation: one conditional write is the commit point
    clear       move the old files to a separate folder, and remove the mark

A crash before ``found`` leaves the directory unchanged, and unreferenced objects, which the next attempt
deletes before it starts with another generation.  After ``found`` only ``clear`` remains.  So exactly one
of directory and cluster is authoritative at any time.

The metadata log begins with an incarnation that joins, creates the topics, writes their checkpoint and
ends.  The first node takes over from it, as from any other.

Cost: reads everything twice and uploads it once, ``UPLOADS_MAX`` partitions at a time with ``OBJECT_BYTES``
in memory each.  Of topics in memory only the settings are converted.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterator
from random import Random
from typing import Final, NamedTuple

import msgspec

from penstock.broker.checking import examine_directory, size_of
from penstock.broker.core import Core
from penstock.broker.registry.registry import ACCESS, GROUPS, SCHEMAS
from penstock.broker.steps import exhaust
from penstock.broker.storage.checked_json import decode_checked
from penstock.broker.storage.recovery import INTENTS, log_config
from penstock.broker.topic.catalogue import (
    CONVERSION,
    LEAVING,
    MANIFEST,
    Manifest,
    StoredTopic,
    settings_of,
    topic_id,
)
from penstock.clock import Clock
from penstock.cluster.conversion.marker import Conversion, read_marker, write_marker
from penstock.cluster.core.agreement import MetadataLog
from penstock.cluster.core.metadata import (
    FORMAT,
    Change,
    Checkpoint,
    Covered,
    Fence,
    Join,
    Key,
    Piece,
    PutDocument,
    PutTopic,
    TakeProducerIds,
)
from penstock.cluster.core.objects import HEADER_BYTES_MAX, base_name, decide, wal_name, wrap
from penstock.cluster.core.wal import encode_tombstone
from penstock.cluster.identity import Identity, created, found_in, new_identity
from penstock.cluster.pieces import DATA, KINDS, SMALL_FILES, log_folder, small_identity
from penstock.cluster.routing.owners import address_text
from penstock.cluster.store import ThreadedStore
from penstock.config.broker import BrokerConfig
from penstock.errors import ClusterExists, CorruptionError, DirectoryUnusable
from penstock.log.files import Files, SystemFiles
from penstock.log.log import Log
from penstock.log.segment import INDEX, LANES, LOG, segment_name
from penstock.model.owners import NodeAddress
from penstock.store.base import Store

OBJECT_BYTES: Final = 32 << 20  # Of a segment in one object; a store may take less.
UPLOADS_MAX: Final = 4
COVERED_MAX: Final = 100  # Partitions in one entry, so that it fits into an object of any store.
KEPT: Final = "before-cluster-"  # And the generation: the folder of the old files.

Advance = Callable[[int], None]


class Converted(NamedTuple):
    topics: int
    partitions: int
    bytes: int
    kept: str  # The folder with the old files.


def convert(
    directory: str,
    store: Store,
    name: str,
    node: int,
    clock: Clock,
    advance: Advance,
    files: Files | None = None,
) -> Converted:
    """Turn a plain data directory into the first node of the cluster ``name``."""
    files = SystemFiles() if files is None else files
    marker = read_marker(files, directory)
    if marker is not None and (marker.store, marker.cluster) != (store.url, name):
        why = (
            f"its conversion to the cluster {marker.cluster!r} in {marker.store} was interrupted; repeat that"
        )
        raise DirectoryUnusable(directory=directory, why=why)
    if marker is None:
        _check(files, directory, store, name)
        core = Core(directory=directory, files=files, clock=clock, config=CLOSED_BY_SERVER, random=Random())
        exhaust(core.open())
        unfinished = _unfinished(core)
        exhaust(core.close())
        if unfinished:
            why = f"the Kafka transaction of {unfinished!r} is open; let its producer or its timeout end it"
            raise DirectoryUnusable(directory=directory, why=why)
    lock = files.lock(f"{directory}/LOCK")
    try:
        conversion = _Conversion(files, directory, store, name, node, advance)
        found = conversion.run(marker)
    finally:
        lock.release()
    return found


# Leases of the last process are given back without counting as an attempt, as at the start of a node.
CLOSED_BY_SERVER: Final = BrokerConfig(consumers_elsewhere=True)


def _unfinished(core: Core) -> str | None:
    """A transactional id with an unfinished transaction, or None: only the directory has its coordinator."""
    ledger = core.state.ledger
    names = () if ledger is None else ledger.by_name.items()
    return next((name for name, known in names if not known.is_at_rest), None)


def _check(files: Files, directory: str, store: Store, name: str) -> None:
    if not files.exists(f"{directory}/{MANIFEST}"):
        raise DirectoryUnusable(directory=directory, why="it is not the data directory of a server")
    if files.exists(f"{directory}/{LEAVING}"):
        why = "it is leaving its cluster; run penstock cluster leave again first"
        raise DirectoryUnusable(directory=directory, why=why)
    if found_in(store, name) is not None:
        raise ClusterExists(cluster=name, store=store.url)
    for finding in examine_directory(files, directory):
        if not finding.note and not finding.derived:
            raise CorruptionError(path=finding.path, position=finding.position, why=finding.why)


def total_bytes(directory: str) -> int:
    """The total for the progress that ``convert`` reports."""
    return size_of(SystemFiles(), directory)


class _Conversion:
    def __init__(
        self, files: Files, directory: str, store: Store, name: str, node: int, advance: Advance
    ) -> None:
        self._files = files
        self._directory = directory
        self._inner = store
        self._name = name
        self._node = node
        self._advance = advance
        self.bytes = 0
        self._incarnation = secrets.token_hex(8)
        self._number = 0  # Of the next piece.

    def run(self, marker: Conversion | None) -> Converted:
        topics = self._topics()
        identity = None if marker is None else found_in(self._inner, self._name)
        if marker is None or identity is None or identity.generation != marker.generation:
            if identity is not None:
                self._files.remove(f"{self._directory}/{CONVERSION}")
                raise ClusterExists(cluster=self._name, store=self._inner.url)
            identity = self._found(topics, marker)
        kept = self._clear(identity)
        partitions = sum(topic.partitions for topic in topics.values())
        return Converted(len(topics), partitions, self.bytes, kept)

    def _topics(self) -> dict[str, StoredTopic]:
        """The topics that are still in the directory."""
        folder = f"{self._directory}/topics"
        names = [name for name in self._files.list(folder) if not name.startswith(".")]
        return {
            name: decode_checked(self._files.read_file(f"{folder}/{name}/topic.json"), StoredTopic)
            for name in names
        }

    def _found(self, topics: dict[str, StoredTopic], before: Conversion | None) -> Identity:
        """Upload everything, and make it the cluster of the store."""
        manifest = decode_checked(self._files.read_file(f"{self._directory}/{MANIFEST}"), Manifest)
        identity = new_identity(self._name, manifest.cluster_id)
        self._store = ThreadedStore(self._inner, identity.prefix)
        self._metadata = MetadataLog(self._store, Random(secrets.randbits(64)), lambda: None)
        self._metadata.check(self._entries(topics, manifest))
        marker = Conversion(store=self._inner.url, cluster=self._name, generation=identity.generation)
        write_marker(self._files, self._directory, marker)
        if before is not None:
            self._discard(before.generation)
        asyncio.run(self._upload(topics, manifest))
        if created(self._inner, identity) != identity:
            self._discard(identity.generation)
            self._files.remove(f"{self._directory}/{CONVERSION}")
            raise ClusterExists(cluster=self._name, store=self._inner.url)
        return identity

    def _discard(self, generation: str) -> None:
        """Remove the objects of an attempt that did not found a cluster."""
        for name in list(self._inner.list(f"{generation}/")):
            self._inner.delete(name)

    def _clear(self, identity: Identity) -> str:
        """Move the old files away: the cluster has their contents."""
        kept = f"{self._directory}/{KEPT}{identity.generation}"
        self._files.make_directory(kept)
        for name in self._files.list(self._directory):
            if name not in ("LOCK", CONVERSION) and not name.startswith(KEPT):
                self._files.rename(f"{self._directory}/{name}", f"{kept}/{name}")
        self._files.sync_directory(kept)
        self._files.sync_directory(self._directory)
        self._files.remove(f"{self._directory}/{CONVERSION}")
        self._files.sync_directory(self._directory)
        return kept

    # Uploading.

    async def _upload(self, topics: dict[str, StoredTopic], manifest: Manifest) -> None:
        try:
            await self._write(self._entries(topics, manifest))
            await self._write_checkpoints(topics)
            tombstone = encode_tombstone(f"{self._incarnation}-{secrets.token_hex(8)}")
            await decide(self._store, wal_name(self._incarnation, 0), tombstone)
            await self._write([Fence(self._incarnation, 0, clean=True)])
        finally:
            self._store.stop()

    async def _write(self, changes: "list[Change] | Iterator[Change]") -> None:
        for change in changes:
            await self._metadata.propose(lambda _, change=change: change)  # type: ignore[misc]

    def _entries(self, topics: dict[str, StoredTopic], manifest: Manifest) -> Iterator[Change]:
        address = address_text(NodeAddress("", 0, 0, 0))
        yield Join(self._incarnation, self._node, address, FORMAT)
        for name, stored in topics.items():
            settings = settings_of(stored)
            text = msgspec.json.encode(settings).decode()
            yield PutTopic(name, topic_id(name, stored).hex(), settings.partitions, text)
        for name in (ACCESS, GROUPS, SCHEMAS):
            path = f"{self._directory}/{name}"
            if self._files.exists(path):
                yield PutDocument(name, self._files.read_file(path).decode())
        yield TakeProducerIds(self._incarnation, manifest.next_producer_id)

    async def _write_checkpoints(self, topics: dict[str, StoredTopic]) -> None:
        keys = [(name, number) for name, topic in topics.items() for number in range(topic.partitions)]
        permits = asyncio.Semaphore(UPLOADS_MAX)

        async def covered(key: Key) -> Covered:
            async with permits:
                return await self._covered(key, topics[key[0]])

        for at in range(0, len(keys), COVERED_MAX):
            found = await asyncio.gather(*map(covered, keys[at : at + COVERED_MAX]))
            await self._write([Checkpoint(self._incarnation, 0, list(found))])

    async def _covered(self, key: Key, topic: StoredTopic) -> Covered:
        assigned = self._metadata.state.partition(key)
        assert assigned is not None
        directory = f"{self._directory}/topics/{key[0]}/{key[1]}"
        pieces = [
            await self._piece(
                name, small_identity(self._files.read_file(f"{directory}/{name}")), f"{directory}/{name}"
            )
            for name in SMALL_FILES
            if self._files.exists(f"{directory}/{name}")
        ]
        for kind in KINDS:
            folder = log_folder(directory, kind)
            if self._files.list(folder) and (kind != INTENTS or key[1] == 0):
                log = Log.open(self._files, folder, log_config(settings_of(topic)))
                try:
                    pieces += await self._log_pieces(kind, log, assigned.epoch)
                finally:
                    log.close()
        return Covered(*key, assigned.epoch, 0, pieces)

    async def _log_pieces(self, kind: str, log: Log, epoch: int) -> list[Piece]:
        if log.segments()[-1].bytes > OBJECT_BYTES:
            log.roll()  # A cluster would begin a new segment here, and upload this one as a whole.
        pieces: list[Piece] = []
        for number, segment in enumerate(log.segments() if log.end else []):
            base, path = segment.base_offset, f"{log.path}/{segment_name(segment.base_offset)}"
            if not segment.sealed:
                identity = f"0-{segment.bytes}"
                pieces.append(await self._piece(f"{kind}/{base}/0", identity, path + LOG, segment.bytes))
                continue
            identity = f"{segment.bytes}-{epoch}.{number}"
            endings = [end for end in (INDEX, LANES) if kind == DATA and self._files.exists(path + end)]
            pieces += [await self._piece(f"{kind}/{base}{end}", identity, path + end) for end in endings]
            pieces.append(await self._piece(f"{kind}/{base}", identity, path + LOG, segment.bytes))
        return pieces

    async def _piece(self, piece: str, identity: str, path: str, size: int | None = None) -> Piece:
        """Upload a file up to ``size``; behind that is room for more batches."""
        file = self._files.open(path, create=False)
        try:
            end = file.size if size is None else size
            step = min(self._store.object_bytes_max, OBJECT_BYTES) - HEADER_BYTES_MAX
            names = []
            for at in range(0, max(end, 1), step):
                data = file.read(at, min(step, end - at))
                names.append(base_name(self._incarnation, self._number))
                self._number += 1
                await decide(self._store, names[-1], wrap("base", data))
                self.bytes += len(data)
                self._advance(len(data))
        finally:
            file.close()
        return Piece(piece, identity, names[0], names[1:])
