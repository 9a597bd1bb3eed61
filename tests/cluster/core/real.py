"""The real broker as a member of the simulated cluster: its core, event loop driver, storage and routing.

Only its files are in memory, because nothing on a node's disk outlives the process as far as the cluster is
concerned, and its clock is the virtual one.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any, Final, TypeVar

from tests.cluster.core.connections import Network
from tests.cluster.core.model import Rejected
from tests.cluster.core.virtual import Process, Violation

from penstock.broker.batches import BatchConsumer
from penstock.broker.core import Core
from penstock.broker.drivers.loop import LoopDriver
from penstock.broker.frontend import EmbeddedAsyncBroker
from penstock.broker.protocols import ProtocolOperations
from penstock.broker.queue.transactional_acks import waits_for_decision
from penstock.broker.steps import Steps
from penstock.cluster.commit import ClusterCommit
from penstock.cluster.core.metadata import Key
from penstock.cluster.core.node import Node
from penstock.cluster.core.objects import Store
from penstock.cluster.lease import ClusterLease
from penstock.cluster.member import MemberHost
from penstock.cluster.reading import CachedOperations
from penstock.cluster.registry import ClusterRegistry
from penstock.cluster.routing.listener import PeerListener
from penstock.cluster.routing.operations import ClusterOperations
from penstock.cluster.routing.owners import MetadataOwners
from penstock.cluster.routing.peers import Peers
from penstock.cluster.timeline import Timeline
from penstock.config.broker import BrokerConfig
from penstock.config.server import LimitSettings
from penstock.errors import (
    AlreadySettled,
    Closed,
    GroupNotFound,
    LeaseLost,
    NotCached,
    NotOwner,
    PenstockError,
    TopicNotFound,
)
from penstock.frontends.listener import Connections
from penstock.groups.commits import Commit
from penstock.log.files import MemoryFiles
from penstock.log.segment import LOG, segment_name
from penstock.model.message import Message
from penstock.operations.consumers import ConsumerOptions
from penstock.wire.records import encode_values, number_batch, seal_batch

SECRET: Final = b"of the simulated cluster"
CONNECTIONS_MAX: Final = 100
CONFIG = BrokerConfig(  # Snapshots all the time.
    clock_check_ms=365 * 24 * 3600 * 1000, maintenance_ms=2000, snapshot_bytes=500
)
GROUP = "workers"
OPTIONS = ConsumerOptions(
    max_in_flight=1000,
    group={"visibility_timeout": "1500ms", "max_attempts": 1000, "start": "earliest"},
)
REFUSALS = (AlreadySettled, NotOwner, LeaseLost, Closed, TopicNotFound, GroupNotFound)


RESULTS = "results"  # Where outputs go.
RESULT_PARTITIONS = 2

T = TypeVar("T")


class SimulatedRegistry(ClusterRegistry):
    """The registry of a node, whose producer ids are ready at once."""

    _producer_id = 0

    def new_producer_id(self) -> int:
        if not self._producer_id:
            self._producer_id = self._random.getrandbits(30) + 1 << 20  # Of a block that no other node has.
        self._producer_id += 1
        return self._producer_id


class CommittingHost(MemberHost):
    """Tells the history who commits in which epoch."""

    on_commit: Callable[[Key, int], None]

    def confirm(self, packed: Any) -> None:
        for each, _ in packed.parts:
            self.on_commit(each.key, each.epoch)
        super().confirm(packed)


class RealBroker:
    def __init__(
        self,
        process: Process,
        random: Random,
        on_append: Callable[[], None],
        on_commit: Callable[[Key, int], None],
        store: Store,
    ) -> None:
        files = self._files = MemoryFiles()
        files.cache = True
        self._random = random
        self.core = Core(directory="data", files=files, clock=process, config=CONFIG, random=random)
        self._commit = ClusterCommit(on_append)
        self.core.state.commit = self._commit
        self._driver = LoopDriver(self.core)
        self._process = process
        self.host = CommittingHost(
            self.core, self._driver, self._commit, process.spawn, process.name, store, self._lost
        )
        self.host.on_commit = on_commit
        self._consumers: dict[str, BatchConsumer] = {}  # By topic.

    def join(self, number: int, node: Node, network: Network, port: int) -> None:
        """As ``ClusterMember`` does."""
        self.host.deliver_from_ms = node.deliver_from_ms
        self.host.following.on_carried_out = node.tell
        self.owners = self.host.owners = MetadataOwners(number, lambda: node.state, node.refresh)
        node.on_carried_out = self.owners.changed
        self.host.timeline = Timeline(number, self._process)
        self.core.state.registry = SimulatedRegistry(
            node,
            self.owners,
            self._process,
            self._random,
            self.host.following.is_current,
            self.host.has_stored,
            "sim",
            self._process.spawn,
        )
        self.core.state.lease = ClusterLease(number, node.commits, self._process)
        broker, local, peers = (
            EmbeddedAsyncBroker(self.core, self._driver),
            CachedOperations(self.core),
            Peers(SECRET),
        )
        self.host.forget = peers.forget
        self.operations = ClusterOperations(self.core, local, self.owners, peers, broker.start)
        broker.route(self.operations)
        listener = PeerListener(broker, local, LimitSettings(), Connections(CONNECTIONS_MAX), SECRET)
        network.listen(self._process, port, listener.connect)

    async def open(self) -> None:
        await self._driver.open()

    async def publish(self, key: Key, message: int, producer_id: int, sequence: int) -> int:
        batch = encode_values([b"%-250d" % message], self._process.wall_ms())  # Enough to fill segments.
        number_batch(batch, producer_id, sequence)
        seal_batch(batch)
        while True:
            appending = self.core.publishing.append_records(key[0], [(key[1], bytes(batch))], True)
            [answer] = await self._run(appending)
            if not isinstance(answer, NotCached):
                break
            await asyncio.sleep(0.1)  # It may be a repeat of what is being fetched.
        if isinstance(answer, REFUSALS):
            raise Rejected from answer
        if isinstance(answer, PenstockError):
            raise answer
        offset: int = answer.offset
        return offset

    async def _run(self, steps: Any) -> Any:
        try:
            return await self._driver.run(steps)
        except REFUSALS as error:
            raise Rejected from error

    async def deliver(self, key: Key) -> tuple[Any, int, int] | None:
        """The next message of a partition: receipt, offset, message."""
        consumer = self._consumers.get(key[0])
        if consumer is None or consumer._state.closed:
            opening = ProtocolOperations(self.core).own_consumer(key[0], GROUP, OPTIONS)
            consumer = self._consumers[key[0]] = await self._run(opening)
        consumer.want_records()
        consumer.want(frozenset({key[1]}), 1, True)
        batches = await self._run(consumer.receive(1, 0))
        if not batches:
            return None
        each = batches[0]
        receipt = (each.partition, each.lease, each.start, each.end)
        return receipt, each.start, int(each.records[0].value)

    async def settle(self, key: Key, receipt: tuple[int, int, int, int], message: int) -> int:
        """Settle a message, and publish another one in the same step."""
        if key[0] not in self._consumers:
            raise Rejected
        output = Message(b"%d" % message, partition=message % RESULT_PARTITIONS)
        await self._run(self._consumers[key[0]].ack_and_publish([receipt], [(RESULTS, output)]))
        return receipt[2]

    async def operate(self, operation: Callable[[ClusterOperations], Steps[T]]) -> T:
        """What a client asks of this node, whoever owns the partitions."""
        return await self._driver.run(operation(self.operations))

    def coordinates(self, group: str) -> int | None:
        """Since which epoch this node coordinates a Kafka group, as far as it knows."""
        node, epoch = self.owners.coordinator_of(group)
        return epoch if node == self.owners.node else None

    async def store_offset(self, key: Key, group: str, number: int, epoch: int) -> int:
        """For the coordinator of a Kafka group; the number of the commit that is stored afterwards."""
        commits = {key[1]: Commit(0, metadata=str(number))}
        await self._run(ProtocolOperations(self.core).store_offsets(key[0], group, commits, epoch))
        try:
            return self.stored_commit(key, group)
        except REFUSALS as error:  # The partition was closed meanwhile.
            raise Rejected from error

    def stored_commit(self, key: Key, group: str) -> int:
        cursor = self.core.state.any_topic(key[0]).partition(key[1]).groups.get(group)
        return -1 if cursor is None or cursor.commit is None else int(cursor.commit.metadata)

    def committed(self, key: Key, group: str) -> int:
        """The committed offset of a Kafka group; 0 if there is none."""
        cursor = self.core.state.any_topic(key[0]).partition(key[1]).groups.get(group)
        return 0 if cursor is None or cursor.commit is None else cursor.commit.offset

    def owes(self, key: Key) -> bool:
        """Are there outputs that are not published yet?"""
        partition = self.core.state.any_topic(key[0]).partitions.get(key[1])
        return partition is None or bool(partition.outbox)

    def read(self, key: Key, random: Random) -> tuple[int, list[tuple[int, int]]]:
        """Where the log ends for a reader, and some of what it sees: offsets and messages."""
        found: list[tuple[int, int]] = []
        try:
            end = self.core.fetching.position(*key, "latest", True).offset
            with suppress(NotCached):
                found = [(each, self._message(key, each)) for each in _some(end, random)]
        except REFUSALS as error:
            raise Rejected from error
        return end, found

    def _message(self, key: Key, offset: int) -> int:
        [found] = self.core.browsing.read(*key, offset, None, None, 1)
        return int(found.value)

    def evict(self, faults: Counter[str]) -> None:
        """Remove everything from the cache that is in the store."""
        before = self._cached()
        self.host.tend(1)
        faults["evicted segments"] += len(before) - len(self._cached())

    def damage(self, random: Random, faults: Counter[str]) -> None:
        """Change a byte of a segment that is in the store, or lose its file."""
        self.host.tend(0)
        path = random.choice([path for path in self._cached() if self.host.cache.has(path)] or [""])
        if path and random.random() < 0.5:
            data = self._files._contents[path]
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        elif path:
            self._files.remove(path)
        faults["damaged segments"] += bool(path)

    def _cached(self) -> list[str]:
        return [path for path in self._files._contents if path.endswith(LOG)]

    def _lost(self, path: str) -> None:
        raise Violation(f"{path} is lost, and only what the store has was damaged")

    def is_cached(self, key: Key) -> bool:
        """Whether all of a partition can be read now; if not, it is being fetched."""
        log = self.core.state.any_topic(key[0]).partition(key[1]).log
        log._forget()  # What is still in memory says nothing of the files.
        try:
            log.records(0, log.high)
        except NotCached:
            return False
        cache = self.host.cache  # Files that are open may be lost all the same.
        paths = [f"{log.path}/{segment_name(each.base_offset)}{LOG}" for each in log.segments()]
        return all(cache.fetching(path) is None for path in paths)

    def messages(self, key: Key) -> list[int]:
        log = self.core.state.any_topic(key[0]).partition(key[1]).log
        return [int(record.value or b"") for record in log.records(0, log.high)]

    def placed(self, topic: str, number: int) -> list[tuple[int, int]]:
        """What readers see: offsets and messages."""
        log = self.core.state.topic(topic).partition(number).log
        return [(record.offset, int(record.value or b"")) for record in log.records(log.start, log.high)]

    def times(self, key: Key) -> list[tuple[int, int]]:
        """When messages were written."""
        log = self.core.state.any_topic(key[0]).partition(key[1]).log
        return [(int(record.value or b""), record.timestamp) for record in log.records(0, log.high)]

    def waiting(self, key: Key) -> list[int]:
        """Messages whose time has not come."""
        schedule = self.core.state.any_topic(key[0]).partition(key[1]).schedule
        return [] if schedule is None else [int(each.value or b"") for each in schedule.entries()]

    def is_undecided(self, key: Key) -> bool:
        """Whether something waits for its commit, or for the end of a transaction."""
        partition = self.core.state.any_topic(key[0]).partition(key[1])
        return partition.log.high < partition.log.end or waits_for_decision(partition)

    def is_ending(self) -> bool:
        """Whether something that was decided here is not carried out yet."""
        ledgers = self.core.transactions._ledgers
        ending = any(known.is_ending for ledger in ledgers for known in ledger.by_name.values())
        topics = self.core.state.topics.values()
        return ending or any(topic.intents is not None and topic.intents.pending for topic in topics)

    def settled(self, key: Key) -> set[int]:
        partition = self.core.state.any_topic(key[0]).partition(key[1])
        cursor = partition.groups.get(GROUP)
        if cursor is None:
            return set()
        return {offset for offset in range(partition.log.high) if cursor.engine.done.contains(offset)}


def _some(end: int, random: Random) -> list[int]:
    """Offsets to read: any, and the last."""
    return [random.randrange(end), end - 1] if end else []
