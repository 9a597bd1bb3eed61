"""This server as a node of a cluster: opens the store and the broker, joins, and leaves.

    check the store, and that it belongs to this cluster       each mistake has its own error
    listen for peers
    join                   the metadata log then says which partitions are this node's
    route                  requests of clients go to the owners
      ...                  until the server stops, or other nodes seal this one
    leave                  hand partitions over, end the WAL

The data directory is a cache: it is emptied at every start, because its contents are not trusted.  A node
that others have sealed because they could not reach it has lost nothing, and must restart (``sealed``).
"""

import asyncio
import logging
import secrets
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any, Final

from penstock.broker.core import Core
from penstock.broker.drivers.loop import LoopDriver
from penstock.broker.frontend import EmbeddedAsyncBroker
from penstock.broker.topic.catalogue import LEAVING
from penstock.clock import Clock, SystemClock
from penstock.cluster.administration import Administration
from penstock.cluster.commit import ClusterCommit
from penstock.cluster.conversion.marker import check_left, read_marker
from penstock.cluster.core.metadata import Key
from penstock.cluster.core.node import Heartbeat, Node
from penstock.cluster.hosting import BrokerHost, IncomingPartition
from penstock.cluster.identity import Identity, found_or_join
from penstock.cluster.lease import ClusterLease
from penstock.cluster.reading import CachedOperations
from penstock.cluster.registry import ClusterRegistry
from penstock.cluster.routing.listener import PeerListener
from penstock.cluster.routing.operations import ClusterOperations
from penstock.cluster.routing.owners import MetadataOwners, address_of, address_text
from penstock.cluster.routing.peers import HEARTBEAT, Peer, Peers, Presence, presence
from penstock.cluster.store import ThreadedStore
from penstock.cluster.timeline import Timeline
from penstock.config.broker import BrokerConfig
from penstock.config.server import ServerConfig, address, shown
from penstock.errors import (
    ClockDifference,
    DirectoryUnusable,
    NodeInUse,
    PenstockError,
    StoreUnavailable,
)
from penstock.frontends.listener import Connections
from penstock.frontends.serve import Addresses, bound
from penstock.log.files import Lock, SystemFiles
from penstock.log.open_files import open_files_max
from penstock.model.owners import NodeAddress
from penstock.store.opening import open_store
from penstock.store.probe import require_safe
from penstock.wire.native_bodies import decode_body, encode_body

CACHE: Final = "cache"  # The folder in the data directory.
INCARNATION_BYTES: Final = 8
STORE_S: Final = 1.0  # Between two attempts to reach an unavailable store.
JOIN_S_MAX: Final = 60.0
LEAVE_S_MAX: Final = 10.0
CLOCKS_S_MAX: Final = 30
# After changes of this size, in bytes and in WAL entries, a checkpoint is written early (rule 26), to bound
# what a takeover reads.
CHECKPOINT_BYTES: Final = 64 << 20
CHECKPOINT_ENTRIES: Final = 4000
TEND_S: Final = 1.0  # Between two checks of the size of the cache.
PEER_CONNECTIONS_MAX: Final = 1000

logger = logging.getLogger("penstock")


class MemberHost(BrokerHost):
    """The broker of this node, which keeps the owner table of routing current."""

    owners: MetadataOwners
    timeline: Timeline
    forget: Callable[[int, NodeAddress], None]  # That node no longer answers.
    _alive: frozenset[str] | set[str] = frozenset()

    def follow_owners(self) -> None:
        """Also wake operations that wait for an owner, or for the response of a node that was sealed."""
        super().follow_owners()
        alive = set(self.state.alive())
        for name in self._alive - alive:
            member = self.state.members[name]
            self.forget(member.node, address_of(member.address))
        self._alive = alive
        self.owners.changed()

    async def receive(self, key: Key, epoch: int) -> IncomingPartition:
        self.timeline.begin(key, epoch, self.state)
        return await super().receive(key, epoch)

    def close(self, key: Key) -> None:
        super().close(key)
        self.timeline.end(key, opened=False)

    async def opened(self, key: Key, epoch: int) -> None:
        await super().opened(key, epoch)
        self.timeline.end(key, opened=True)


class ClusterMember:
    """One start of a node; ``frontends/serve.py`` opens and closes it."""

    def __init__(self, config: ServerConfig, *, patient: bool = False) -> None:
        self._patient = patient  # Wait for an unavailable store, instead of refusing to start.
        self.on_end: Callable[[], None] = lambda: None  # This incarnation is sealed: the process must end.
        self.sealed = False  # Other nodes have ended it.
        self.failed = False  # It could not continue; the reason is in the log.
        self._ended = asyncio.Event()
        self._config = config
        self._clock: Clock = SystemClock()
        self._random = Random(secrets.randbits(64))
        self._tasks: set[asyncio.Task[None]] = set()
        self._leaving = False
        self._cache_lost = False

    async def open(self, settings: BrokerConfig, addresses: Addresses) -> EmbeddedAsyncBroker:
        """Join the cluster; the broker that clients of this node use."""
        self._loop = asyncio.get_running_loop()  # For reports from threads.
        cluster = self._config.cluster
        inner, identity = await self._reach_store()
        self._store = ThreadedStore(inner, identity.prefix)
        secret = bytes.fromhex(identity.secret)
        self._peers = Peers(secret)
        self._lock_directory()
        endpoint = address("peer", cluster.peer)
        assert endpoint is not None
        peer_socket = bound("peer", *endpoint)
        mine = self._address(addresses, peer_socket)
        self.node, broker = self._build(settings, identity, mine)
        try:
            await self._broker_driver.open()
            await self._check_peers()
            self._running = self._spawn(self._run())
            self._spawn(self._tend())
            await self._joined()
            connections = Connections(PEER_CONNECTIONS_MAX)
            self._listener = PeerListener(
                broker,
                self._local,
                self._config.limits,
                connections,
                secret,
                self._heard,
                self._administration.report,
            )
            self._peer_server = await asyncio.get_running_loop().create_server(
                self._listener.connect, sock=peer_socket
            )
            await self._registry.start()
        except BaseException:
            peer_socket.close()
            await self._release(broker)
            raise
        operations = ClusterOperations(self._core, self._local, self._owners, self._peers, broker.start)
        operations.administration = self._administration
        broker.route(operations)
        return broker

    async def _release(self, broker: EmbeddedAsyncBroker) -> None:
        """This node does not join: release the store, the peers and the directory."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await broker.close()
        await self._peers.close()
        self._store.close()
        self._lock.release()

    async def _reach_store(self) -> tuple[Any, Identity]:
        while True:
            try:
                return await asyncio.to_thread(self._open_store)
            except StoreUnavailable as error:
                if not self._patient:
                    raise
                logger.warning("waiting for the store: %s", error)
            await asyncio.sleep(STORE_S)

    def _open_store(self) -> tuple[Any, Identity]:
        url = self._config.cluster.store
        require_safe(lambda: open_store(url, self._clock))
        store = open_store(url, self._clock)
        return store, found_or_join(store, self._config.cluster.name)

    def _lock_directory(self) -> None:
        data = self._config.server.data
        files = SystemFiles()
        files.make_directory(data)
        if read_marker(files, data) is not None:
            why = "penstock cluster convert was interrupted; run it again"
            raise DirectoryUnusable(directory=data, why=why)
        if files.exists(f"{data}/penstock.json"):
            why = (
                "it has the topics of a server without a cluster; convert it with penstock cluster convert, "
                "or use an empty directory for the cache"
            )
            raise DirectoryUnusable(directory=data, why=why)
        self._lock: Lock = files.lock(f"{data}/LOCK")
        files.remove_tree(f"{data}/{CACHE}")

    def _address(self, addresses: Addresses, peer: socket.socket) -> NodeAddress:
        ports = {name: port for name, (_, port) in addresses.items()}
        return NodeAddress(
            self._config.cluster.advertise,
            peer.getsockname()[1],
            ports.get("native", 0),
            ports.get("kafka", 0),
        )

    def _build(
        self, settings: BrokerConfig, identity: Identity, mine: NodeAddress
    ) -> tuple[Node, EmbeddedAsyncBroker]:
        files = SystemFiles(open_files_max(settings.open_files_max))
        files.cache = True
        core = self._core = Core(
            directory=f"{self._config.server.data}/{CACHE}",
            files=files,
            clock=self._clock,
            config=settings,
            random=self._random,
        )
        commit = core.state.commit = ClusterCommit(lambda: self.node.commit())
        self._broker_driver = LoopDriver(core)
        incarnation = secrets.token_hex(INCARNATION_BYTES)
        host = self._host = MemberHost(
            core, self._broker_driver, commit, self._spawn, incarnation, self._store, self._lost
        )
        host.forget = self._peers.forget
        host.timeline = Timeline(self._config.cluster.node, self._clock)
        node = Node(
            incarnation=incarnation,
            number=self._config.cluster.node,
            address=address_text(mine),
            store=self._store,
            clock=self._clock,
            random=self._random,
            host=host,
            broadcast=self._broadcast,
        )
        node.metadata.cluster = identity.name
        self._owners = host.owners = MetadataOwners(
            self._config.cluster.node, lambda: self.node.state, node.refresh
        )
        self._registry = core.state.registry = ClusterRegistry(
            node,
            self._owners,
            self._clock,
            self._random,
            host.following.is_current,
            host.has_stored,
            identity.cluster_id or identity.generation,
            self._spawn,
        )
        host.deliver_from_ms = node.deliver_from_ms
        host.following.on_carried_out = node.tell
        node.on_carried_out = self._owners.changed
        core.state.lease = ClusterLease(self._config.cluster.node, node.commits, self._clock)
        self._administration = Administration(
            identity.name,
            self._store.url,
            node,
            self._owners,
            self._peers,
            commit,
            host.timeline,
            self._clock,
            self._spawn,
        )
        core.state.node_facts = self._administration.facts
        broker = EmbeddedAsyncBroker(core, self._broker_driver)
        self._local = CachedOperations(core)
        return node, broker

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("a task of the cluster failed", exc_info=task.exception())

    # Life.

    async def _run(self) -> None:
        try:
            await self.node.run()
            self.sealed = not self._leaving
        except Exception:
            logger.exception("this node cannot go on as a member of the cluster")
            self.failed = True
        finally:
            self._ended.set()
            self.on_end()

    async def _tend(self) -> None:
        """Keep the cache within its limit."""
        while not self._ended.is_set():
            await asyncio.sleep(TEND_S)
            try:
                full = self._host.tend(self._config.cluster.cache_bytes)
            except PenstockError as error:  # Such as a full disk: it continues when there is room.
                logger.warning("the cache cannot be kept within its limit: %s", error)
                full = True
            committed = self._host.committed_bytes >= CHECKPOINT_BYTES
            if full or committed or self.node.uncovered >= CHECKPOINT_ENTRIES:
                self._host.committed_bytes = 0
                self.node.checkpoint_soon()

    def _lost(self, path: str) -> None:
        """A local file is damaged that the store cannot replace: restart with an empty cache."""
        if not self._cache_lost:
            self._cache_lost = True
            logger.error("%s is damaged or lost; this node starts again with an empty cache", path)
            self._loop.call_soon_threadsafe(lambda: self._spawn(self.node.leave()))

    async def _check_peers(self) -> None:
        """Refuse to join with the number of a running node, or with a clock far from the others'."""
        await self.node.metadata.start()
        check_left(self.node.state, self._config.cluster.name)
        SystemFiles().remove_tree(f"{self._config.server.data}/{LEAVING}")  # Of an abandoned leave.
        for name in self.node.state.alive():
            member = self.node.state.members[name]
            found = await presence(self._peers, member.node, address_of(member.address))
            if found is None or found.incarnation != name:
                continue
            if member.node == self._config.cluster.node:
                where = address_of(member.address)
                raise NodeInUse(node=member.node, address=shown(where.host, where.peer))
            seconds = abs(found.wall_ms - self._clock.wall_ms()) // 1000
            if seconds > CLOCKS_S_MAX:
                raise ClockDifference(node=member.node, seconds=seconds, most=CLOCKS_S_MAX)

    async def _joined(self) -> None:
        """Wait until this node is a member."""
        try:
            async with asyncio.timeout(JOIN_S_MAX):
                while self.node.incarnation not in self.node.state.members:
                    if self._ended.is_set():
                        raise StoreUnavailable(store=self._store.url, why="this node could not join")
                    await asyncio.sleep(0.01)
        except TimeoutError:
            why = f"this node could not join within {JOIN_S_MAX:g} s"
            raise StoreUnavailable(store=self._store.url, why=why) from None

    async def leave(self) -> None:
        """Hand over all partitions; those that are not handed over in time are taken over by others."""
        self._leaving = True
        if not self._ended.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_S_MAX):
                    await self.node.leave()
                    await self._ended.wait()

    async def close(self) -> None:
        """Leave the cluster; to be called when the broker is closed."""
        self._running.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.wait([self._running, *self._tasks])
        self._peer_server.close()
        self._listener.abort()
        await self._peers.close()
        self._store.close()
        self._lock.release()

    # Heartbeats.

    def _broadcast(self, beat: Heartbeat) -> None:
        """Send a heartbeat to all peers; an unreachable one is noted, and retried with the next heartbeat."""
        for name in self.node.state.alive():
            if name != self.node.incarnation:
                member = self.node.state.members[name]
                peer = self._peers.peer(member.node, address_of(member.address))

                def then(_: bytes, error: PenstockError | None, name: str = name, peer: Peer = peer) -> None:
                    if error is not None and peer.refused:
                        self.node.sealing.refused(name)

                peer.request("heartbeat", lambda each: encode_body(HEARTBEAT, each, beat), then)

    def _heard(self, body: bytes) -> Presence:
        beat = decode_body(body, Heartbeat | None)  # type: ignore[arg-type]
        if beat is not None:
            self.node.heard(beat)
        return Presence(self.node.incarnation, self._clock.wall_ms())
