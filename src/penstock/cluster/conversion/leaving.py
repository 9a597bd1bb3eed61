"""A cluster whose nodes are stopped becomes a plain data directory: ``penstock cluster leave``.

    join        as the only node; it loads every partition from the store, into DIR/leaving
    leave       one metadata entry, valid only if no other node has joined: the commit point
    install     DIR/leaving becomes the contents of DIR

The directory is complete and synced before the entry is proposed.  A crash before the entry leaves the
cluster unchanged; the nodes can be started, or the command repeated.  After it no node can join, and a
repeated command continues with ``install``.  The objects stay in the store until an operator deletes them.

A node that does not answer and was not stopped properly is sealed as after any other failure.  A node that
answers is an error, because running nodes must keep their partitions.
"""

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any, Final, NamedTuple

import msgspec

from penstock.broker.checking import logs_of
from penstock.broker.core import Core
from penstock.broker.journal.ledger import Ledger
from penstock.broker.queue.transactional_acks import waits_for_decision
from penstock.broker.registry.registry import GENERATION_BITS, GENERATION_EPOCHS
from penstock.broker.steps import exhaust
from penstock.broker.storage.checked_json import encode_checked
from penstock.broker.storage.recovery import log_config
from penstock.broker.topic.catalogue import LEAVING, MANIFEST, Manifest, new_cluster_id, stored_topic
from penstock.clock import Clock
from penstock.cluster.conversion.converting import CLOSED_BY_SERVER
from penstock.cluster.core.host import Part
from penstock.cluster.core.metadata import Key, Leave, State
from penstock.cluster.core.node import Node
from penstock.cluster.identity import Identity, found_in
from penstock.cluster.pieces import PartitionFiles
from penstock.cluster.routing.owners import address_of, address_text
from penstock.cluster.routing.peers import Peers, presence
from penstock.cluster.store import ThreadedStore
from penstock.config.broker import TopicSettings
from penstock.errors import ClusterMissing, ClusterRunning, DirectoryUnusable, PenstockError
from penstock.log.files import Files, SystemFiles
from penstock.log.segment import INDEX, LANES, LOG
from penstock.model.owners import NodeAddress
from penstock.store.base import Store
from penstock.types import TRANSACTIONS

COMPLETE: Final = "complete"  # The file in ``LEAVING`` with the incarnation that has loaded all of it.
CACHE: Final = "cache"  # Of the node that this directory was.
LOOK_S: Final = 0.02
GENERATIONS_MAX: Final = (1 << 31) - (1 << 24)  # A generation is a signed number of 32 bits.


class Left(NamedTuple):
    topics: int
    partitions: int


class DirectoryHost:
    """A ``Host`` that only loads: it writes each received partition to files."""

    def __init__(self, files: Files, directory: str) -> None:
        self.state = State()
        self._files = files
        self._directory = directory

    def pack(self) -> None:
        return None

    def confirm(self, packed: Any) -> None: ...

    def reject(self) -> None: ...

    async def receive(self, key: Key, epoch: int) -> "_RestoredPartition":  # noqa: ARG002 - nothing is written in it.
        settings = msgspec.json.decode(self.state.topics[key[0]].settings, type=TopicSettings)
        directory = f"{self._directory}/topics/{key[0]}/{key[1]}"
        return _RestoredPartition(self._files, directory, log_config(settings))

    def close(self, key: Key) -> None: ...

    def stop(self, key: Key) -> None: ...

    def resume(self, key: Key, epoch: int) -> None: ...

    def serves(self, key: Key) -> bool:  # noqa: ARG002 - nothing is served.
        return False

    def drained(self, key: Key) -> bool:  # noqa: ARG002 - nothing is written.
        return True

    def cut(self, key: Key) -> list[Part] | None:  # noqa: ARG002 - the last checkpoint stays.
        return None

    @property
    def carried_out(self) -> int:
        return self.state.next

    def follow(self, state: State) -> None:
        self.state = state


class _RestoredPartition(PartitionFiles):
    async def open(self) -> None:
        self.close()

    def drop(self) -> None:
        self.abandon()


def leave(
    directory: str, store: Store, name: str, node: int, clock: Clock, files: Files | None = None
) -> Left:
    """Turn the cluster ``name``, whose nodes are stopped, into a plain data directory."""
    files = SystemFiles() if files is None else files
    if files.exists(f"{directory}/{MANIFEST}") and not files.exists(f"{directory}/{LEAVING}"):
        raise DirectoryUnusable(directory=directory, why="it is a data directory without a cluster already")
    identity = found_in(store, name)
    if identity is None:
        raise ClusterMissing(store=store.url)
    files.make_directory(directory)
    lock = files.lock(f"{directory}/LOCK")
    try:
        return asyncio.run(_Leaving(files, directory, store, identity, node, clock).run())
    finally:
        lock.release()


class _Leaving:
    def __init__(
        self, files: Files, directory: str, store: Store, identity: Identity, node: int, clock: Clock
    ) -> None:
        self._files = files
        self._directory = directory
        self._folder = f"{directory}/{LEAVING}"
        self._identity = identity
        self._clock = clock
        self._random = Random(secrets.randbits(64))
        self._store = ThreadedStore(store, identity.prefix)
        self._host = DirectoryHost(files, self._folder)
        self._node = Node(
            incarnation=secrets.token_hex(8),
            number=node,
            address=address_text(NodeAddress("", 0, 0, 0)),
            store=self._store,
            clock=clock,
            random=self._random,
            host=self._host,
            broadcast=lambda _: None,
            leaving=True,
        )
        self._node.metadata.cluster = identity.name

    async def run(self) -> Left:
        try:
            await self._node.metadata.start()
            state = self._node.state
            if not state.left or self._completed() != state.left:
                await self._leave()
                state = self._node.state
            self._install()
            return Left(len(state.topics), sum(1 for _ in state.partitions()))
        finally:
            self._store.stop()

    def _completed(self) -> str:
        path = f"{self._folder}/{COMPLETE}"
        return self._files.read_file(path).decode() if self._files.exists(path) else ""

    async def _leave(self) -> None:
        """Load everything, and end the cluster."""
        await self._check_stopped()
        self._files.remove_tree(self._folder)
        running = asyncio.get_running_loop().create_task(self._node.run())
        try:
            await self._until(running, self._alone, seal=True)
            await self._until(running, self._loaded)
            self._write_registry(self._node.state)
            await asyncio.to_thread(self._verify)
            if not await self._node.propose(self._entry) or self._node.state.left != self._node.incarnation:
                await self._check_stopped()
                raise ClusterRunning(node=self._other())
            await self._node.leave()
        except BaseException:
            if self._node.state.left != self._node.incarnation:
                self._files.remove_tree(self._folder)
                with suppress(asyncio.CancelledError):
                    await self._node.leave()
            raise
        finally:
            running.cancel()
            await asyncio.wait([running])

    async def _check_stopped(self) -> None:
        """Raise if a node answers."""
        peers = Peers(bytes.fromhex(self._identity.secret))
        try:
            for name in self._node.state.alive():
                member = self._node.state.members[name]
                found = await presence(peers, member.node, address_of(member.address))
                if found is not None and found.incarnation == name:
                    raise ClusterRunning(node=member.node)
        finally:
            await peers.close()

    async def _until(
        self, running: "asyncio.Task[None]", done: Callable[[], bool], *, seal: bool = False
    ) -> None:
        while not done():
            if running.done():
                try:
                    await running
                except* PenstockError as errors:
                    raise _first(errors) from None
                raise ClusterRunning(node=self._other())  # Other nodes have sealed this one.
            for name in self._node.state.alive() if seal else ():
                if name != self._node.incarnation and self._node.incarnation in self._node.state.members:
                    self._node.sealing.seal_soon(name)
            await asyncio.sleep(LOOK_S)

    def _alone(self) -> bool:
        return self._node.state.alive() == [self._node.incarnation]

    def _other(self) -> int:
        state = self._node.state
        others = [state.members[name].node for name in state.alive() if name != self._node.incarnation]
        return others[0] if others else 0

    def _loaded(self) -> bool:
        opened = self._node.opened
        return all(opened.get(key) == assigned.epoch for key, assigned in self._node.state.partitions())

    def _entry(self, state: State) -> Leave | None:
        alone = state.alive() == [self._node.incarnation]
        return Leave(self._node.incarnation) if alone and self._loaded() else None

    # The files beside the partitions.

    def _write_registry(self, state: State) -> None:
        for name, topic in state.topics.items():
            settings = msgspec.json.decode(topic.settings, type=TopicSettings)
            stored = stored_topic(settings, bytes.fromhex(topic.id))
            self._files.make_directory(f"{self._folder}/topics/{name}")
            self._files.write_file(f"{self._folder}/topics/{name}/topic.json", encode_checked(stored))
        self._files.make_directory(f"{self._folder}/topics")
        for name, document in state.documents.items():
            self._files.write_file(f"{self._folder}/{name}", document.text.encode())
        epoch = state.next % GENERATION_EPOCHS + 1  # No coordinator has a later one.
        manifest = Manifest(
            next_producer_id=state.producers + 1,
            generations=min(epoch << GENERATION_BITS, GENERATIONS_MAX),
            cluster_id=self._identity.cluster_id or new_cluster_id(self._random),
        )
        self._files.write_file(f"{self._folder}/{MANIFEST}", encode_checked(manifest))

    def _verify(self) -> None:
        """Open and close the directory with a broker, and sync everything, before it counts."""
        core = Core(
            directory=self._folder,
            files=self._files,
            clock=self._clock,
            config=CLOSED_BY_SERVER,
            random=self._random,
        )
        exhaust(core.open())
        damaged = list(core.state.offline.values())
        topics = core.state.topics.values()
        unfinished = [
            topic.name
            for topic in topics
            if any(each.log.transactions.open or waits_for_decision(each) for each in topic.partitions)
        ]
        decided = [] if damaged else self._decided(core)
        exhaust(core.close())
        if damaged:
            raise damaged[0]
        if unfinished:
            why = f"a transaction is open in {unfinished[0]!r}; start the nodes, and let it end"
            raise DirectoryUnusable(directory=self._directory, why=why)
        if decided:
            why = f"the Kafka transaction of {decided[0]!r} is decided but not finished; start the nodes"
            raise DirectoryUnusable(directory=self._directory, why=why)
        self._files.remove_tree(f"{self._folder}/topics/{TRANSACTIONS}")  # Idle ids start afresh.
        for folder in logs_of(self._files, self._folder):
            for name in self._files.list(folder):
                if name.endswith((LOG, INDEX, LANES)):
                    file = self._files.open(f"{folder}/{name}", create=False)
                    file.sync()
                    file.close()
            self._files.sync_directory(folder)
        self._files.write_file(f"{self._folder}/{COMPLETE}", self._node.incarnation.encode())

    def _decided(self, core: Core) -> list[str]:
        """The transactional ids whose last decision may not have reached all partitions and groups."""
        topic = core.state.topics.get(TRANSACTIONS)
        ledgers = [] if topic is None else [Ledger(each.log, self._clock) for each in topic.partitions]
        return [name for each in ledgers for name, known in each.by_name.items() if known.is_ending]

    def _install(self) -> None:
        """Move the files to where a server looks for them; ``penstock.json`` is the last one."""
        self._files.remove_tree(f"{self._directory}/{CACHE}")
        names = [name for name in self._files.list(self._folder) if name not in ("LOCK", COMPLETE, MANIFEST)]
        for name in [*names, *([MANIFEST] if self._files.exists(f"{self._folder}/{MANIFEST}") else [])]:
            self._files.rename(f"{self._folder}/{name}", f"{self._directory}/{name}")
            self._files.sync_directory(self._directory)
        self._files.remove_tree(self._folder)


def _first(errors: BaseExceptionGroup[PenstockError]) -> PenstockError:
    first: Any = errors
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    assert isinstance(first, PenstockError)
    return first
