"""The real broker as a member of the simulated cluster: its core, its event loop driver and its storage.

Only its files are in memory, because nothing on a node's disk outlives the process as far as the cluster is
concerned, and its clock is the virtual one.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any

from tests.cluster.core.model import Rejected
from tests.cluster.core.virtual import Process, Violation

from penstock.broker.batches import BatchConsumer
from penstock.broker.core import Core
from penstock.broker.drivers.loop import LoopDriver
from penstock.broker.protocols import ProtocolOperations
from penstock.broker.steps import Arrival, Steps, Waiter
from penstock.cluster.commit import ClusterCommit
from penstock.cluster.core.metadata import Key
from penstock.cluster.core.node import Node
from penstock.cluster.core.objects import Store
from penstock.cluster.hosting import BrokerHost
from penstock.cluster.lease import ClusterLease
from penstock.config.broker import BrokerConfig, GroupOptions
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
from penstock.log.files import MemoryFiles
from penstock.log.segment import LOG, segment_name
from penstock.model.message import Message
from penstock.wire.records import encode_values, number_batch, seal_batch

CONFIG = BrokerConfig(  # Snapshots all the time.
    clock_check_ms=365 * 24 * 3600 * 1000, maintenance_ms=2000, snapshot_bytes=500
)
GROUP = "workers"
OPTIONS: GroupOptions = {"visibility_timeout": "1500ms", "max_attempts": 1000, "start": "earliest"}
REFUSALS = (AlreadySettled, NotOwner, LeaseLost, Closed, TopicNotFound, GroupNotFound)


RESULTS = "results"  # Where outputs go.
RESULT_PARTITIONS = 2


class _Place:
    def __init__(self) -> None:
        self.waiters: dict[Waiter, None] = {}


class SimulatedRegistry:
    """Nothing is opened before the core says so; the rest is not used by these clients."""

    cluster_id = "sim"
    generations = 0

    def __init__(self, owner: Callable[[str, int], tuple[int, int]], random: Random) -> None:
        self.owner = owner
        self._producer_id = random.getrandbits(30) + 1 << 20  # Of a block that no other node has.

    def read(self, name: str) -> bytes | None:
        return None

    def new_producer_id(self) -> int:
        self._producer_id += 1
        return self._producer_id

    def group_epoch(self, group: str) -> int:
        return 1

    def reserve_generations(self, latest: int) -> None: ...


class CommittingHost(BrokerHost):
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
        send: Callable[[Key, bytes], Coroutine[Any, Any, None]],
        store: Store,
    ) -> None:
        files = self._files = MemoryFiles()
        files.cache = True
        registry: Any = SimulatedRegistry(
            lambda topic, number: self.host.state.owner_of((topic, number)), random
        )
        self.core = Core(
            directory="data", files=files, clock=process, config=CONFIG, random=random, registry=registry
        )
        self._commit = ClusterCommit(on_append)
        self.core.state.commit = self._commit
        self.core.state.forward = self._forward
        self._send = send
        self._driver = LoopDriver(self.core)
        self._process = process
        self.host = CommittingHost(
            self.core, self._driver, self._commit, process.spawn, process.name, store, self._lost
        )
        self.host.on_commit = on_commit
        self._consumer: BatchConsumer | None = None

    def join(self, number: int, node: Node) -> None:
        """As ``ClusterMember`` does."""
        self.host.deliver_from_ms = node.deliver_from_ms
        self.core.state.lease = ClusterLease(number, node.commits, self._process)

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
        if self._consumer is None or self._consumer._state.closed:
            operations = ProtocolOperations(self.core)
            self._consumer = await self._run(operations.batch_consumer(key[0], GROUP, None, 1000, OPTIONS))
        assert self._consumer is not None
        self._consumer.want_records()
        self._consumer.want(frozenset({key[1]}), 1, True)
        batches = await self._run(self._consumer.receive(1, 0))
        if not batches:
            return None
        each = batches[0]
        receipt = (each.partition, each.lease, each.start, each.end)
        return receipt, each.start, int(each.records[0].value)

    async def settle(self, key: Key, receipt: tuple[int, int, int, int], message: int) -> int:
        """Settle a message, and publish another one in the same step."""
        if self._consumer is None:
            raise Rejected
        output = Message(b"%d" % message, partition=message % RESULT_PARTITIONS)
        await self._run(self._consumer.ack_and_publish([receipt], [(RESULTS, output)]))
        return receipt[2]

    def _forward(self, topic: str, number: int, batch: bytes) -> Steps[None]:
        """Have the owner of a partition take an output."""
        place, outcome = _Place(), list[bool]()

        async def send() -> None:
            try:
                await self._send((topic, number), batch)
                outcome.append(True)
            except (Rejected, TimeoutError):
                outcome.append(False)
            for waiter in list(place.waiters):
                waiter.wake()

        self._process.spawn(send())
        while not outcome:
            yield Arrival(place, self._process.steady_ms() + 1000)
        if not outcome[0]:
            raise NotOwner(topic=topic, partition=number, owner=-1, epoch=0)

    async def take_output(self, key: Key, batch: bytes) -> None:
        await self._run(self.core.publishing.append_output(*key, batch))

    def owes(self, key: Key) -> bool:
        """Are there outputs that are not published yet?"""
        partition = self.core.state.topic(key[0]).partitions.get(key[1])
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
        log = self.core.state.topic(key[0]).partition(key[1]).log
        log._forget()  # What is still in memory says nothing of the files.
        try:
            log.records(0, log.high)
        except NotCached:
            return False
        cache = self.host.cache  # Files that are open may be lost all the same.
        paths = [f"{log.path}/{segment_name(each.base_offset)}{LOG}" for each in log.segments()]
        return all(cache.fetching(path) is None for path in paths)

    def messages(self, key: Key) -> list[int]:
        log = self.core.state.topic(key[0]).partition(key[1]).log
        return [int(record.value or b"") for record in log.records(0, log.high)]

    def settled(self, key: Key) -> set[int]:
        partition = self.core.state.topic(key[0]).partition(key[1])
        cursor = partition.groups.get(GROUP)
        if cursor is None:
            return set()
        return {offset for offset in range(partition.log.high) if cursor.engine.done.contains(offset)}


def _some(end: int, random: Random) -> list[int]:
    """Offsets to read: any, and the last."""
    return [random.randrange(end), end - 1] if end else []
