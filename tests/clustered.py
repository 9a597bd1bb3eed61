"""Real brokers in one process that are a cluster with a fixed table of owners, in virtual time.

    clients ──> node 1, which owns nothing ──> its router ──> peer listeners of the other nodes

What the metadata log will do, the tests do here: a topic that one node creates, alters or deletes is created,
altered or deleted on the others as well.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from tests.client.served import LOOK_S, VirtualServer

from penstock.broker.aio import EmbeddedAsyncBroker
from penstock.broker.operations import LocalOperations
from penstock.broker.steps import Steps, Waiter
from penstock.cluster.routing.connection import Answer
from penstock.cluster.routing.listener import PeerListener
from penstock.cluster.routing.operations import ClusterOperations
from penstock.cluster.routing.peers import Peers
from penstock.config.server import LimitSettings
from penstock.errors import Closed, NotOwner, TopicExists, TopicNotFound
from penstock.frontends.listener import Connections
from penstock.model.owners import NodeAddress
from penstock.testing import AsyncTestBroker
from penstock.types import Duration, duration_ms
from penstock.wire.murmur import partition_of

FIRST_EPOCH = 1
SECRET = b"only the nodes of this cluster know it"

Place = Callable[[str, int], int]  # The owner of a partition.


class FixedTable:
    """Owners that change only when a test says so."""

    def __init__(self, node: int, place: Place, addresses: dict[int, NodeAddress]) -> None:
        self.node = node
        self.place = place
        self.addresses = addresses
        self.waiters: dict[Waiter, None] = {}
        self.refreshed = 0
        self.epochs: dict[tuple[str, int], int] = {}  # Those that are not the first.
        self.topics: Mapping[str, Any] = {}  # Those of the node's broker.

    def owner_of(self, topic: str, partition: int) -> tuple[int, int]:
        if topic not in self.topics:
            return -1, 0
        return self.place(topic, partition), self.epochs.get((topic, partition), FIRST_EPOCH)

    def preferred_of(self, topic: str, partition: int) -> int:
        return self.place(topic, partition)

    def coordinator_of(self, name: str) -> tuple[int, int]:
        return self.place(name, partition_of(name.encode(), 50)), 1

    def nodes(self) -> Mapping[int, NodeAddress]:
        return self.addresses

    def refresh(self) -> None:
        self.refreshed += 1

    def change(self, place: Place) -> None:
        self.place = place
        for waiter in list(self.waiters):
            waiter.wake()


class Node:
    """A broker, its own operations, its peer listener and its router."""

    def __init__(self, number: int, broker: Any, table: FixedTable) -> None:
        self.number = number
        self.broker = broker
        self.table = table
        self.local: LocalOperations = broker.operations
        table.topics = broker._core.state.topics
        self.peers = Peers(SECRET)
        self.listener = PeerListener(broker, self.local, LimitSettings(), Connections(1000), SECRET)
        broker.route(ClusterOperations(broker._core, self.local, table, self.peers, broker.start))

    async def listen(self) -> None:
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(self.listener.connect, "127.0.0.1", 0)
        port = self.server.sockets[0].getsockname()[1]
        self.table.addresses[self.number] = NodeAddress("127.0.0.1", port)

    async def stop(self) -> None:
        await self.peers.close()
        self.server.close()
        self.listener.abort()


async def open_nodes(
    count: int, place: Place, open_broker: Callable[[int], Awaitable[EmbeddedAsyncBroker]]
) -> list[Node]:
    """Nodes that know each other, and all topics."""
    addresses: dict[int, NodeAddress] = {}
    nodes = [
        Node(number, await open_broker(number), FixedTable(number, place, addresses))
        for number in range(1, count + 1)
    ]
    for node in nodes:
        await node.listen()
    for node in nodes:
        for topic in list(node.broker._core.state.topics):
            await node.broker.run(give_up(node, topic))
            for partition in node.broker._core.state.topics[topic].partitions.owned:
                partition.epoch = FIRST_EPOCH
        node.broker._core.state.registry = SharedRegistry(node, nodes)
    return nodes


def give_up(node: Node, name: str) -> Steps[None]:
    """Close the partitions of a topic that other nodes own."""
    core = node.broker._core
    for partition in core.state.topic(name).partitions.owned:
        owner = node.table.place(name, partition.number)
        if owner != node.number:
            yield from core.close_partition(name, partition.number, owner, 1)


class SharedRegistry:
    """What a node changes about topics happens on all nodes; the rest is in its own files."""

    def __init__(self, node: Node, nodes: list[Node]) -> None:
        self._node = node
        self._nodes = nodes
        self._local = node.broker._core.state.registry

    def __getattr__(self, name: str) -> Any:
        return getattr(self._local, name)

    def owner(self, topic: str, number: int) -> tuple[int, int] | None:
        owner = self._node.table.place(topic, number)
        return None if owner == self._node.number else (owner, FIRST_EPOCH)

    def group_epoch(self, group: str) -> int:
        return self._node.table.coordinator_of(group)[1]

    def check_coordinator(self, group: str, epoch: int) -> None:
        owner, known = self._node.table.coordinator_of(group)
        if epoch != known:
            raise NotOwner(topic=group, partition=0, owner=owner, epoch=known)

    def new_producer_id(self) -> int:
        """Of the last node, which all tests keep."""
        local = self._nodes[-1].broker._core.state.registry._local
        return int(local.new_producer_id())

    def create_topic(self, name: str, settings: Any, *, limited: bool) -> Steps[None]:
        own = self._node.broker._core
        yield from own.topics.make(name, settings, limited=limited)
        topic_id = own.state.topics[name].id
        yield from self._elsewhere(lambda core: core.topics.make(name, settings, topic_id, limited=False))
        self._begin_epochs(name)

    def _begin_epochs(self, name: str) -> None:
        """Of partitions that were made now."""
        for node in self._nodes:
            for partition in node.broker._core.state.topics[name].partitions.owned:
                partition.epoch = partition.epoch or FIRST_EPOCH

    def alter_topic(self, name: str, settings: Any) -> Steps[None]:
        yield from self._local.alter_topic(name, settings)
        yield from self._elsewhere(lambda core: core.topics.change(name, settings, core.groups))
        self._begin_epochs(name)

    def delete_topic(self, name: str) -> Steps[None]:
        yield from self._local.delete_topic(name)
        yield from self._elsewhere(lambda core: core.state.registry._local.delete_topic(name))

    def _elsewhere(self, work: Callable[[Any], Steps[None]]) -> Steps[None]:
        for other in self._nodes:
            if other is not self._node:
                done = Answer(Closed(what="broker"))
                other.broker.start(work(other.broker._core), partial(_ended, done))
                with suppress(TopicExists, TopicNotFound):
                    yield from done.wait(self._node.broker._core.state.clock, 1 << 62)


def _ended(done: Answer, _: Any, error: Any) -> None:
    done(b"", error)


class ClusterServer(VirtualServer):
    """A node that owns nothing, and what it needs behind it."""

    node_count = 2

    def place(self, _: str, __: int) -> int:
        return 2

    async def open_broker(self) -> AsyncTestBroker:
        self.nodes = await open_nodes(self.node_count, self.place, self._open)
        opened: AsyncTestBroker = self.nodes[0].broker
        return opened

    async def _open(self, number: int) -> AsyncTestBroker:
        """The last node has the directory itself."""
        directory = self._directory
        if directory is not None and number < self.node_count:
            directory = f"{directory}-node-{number}"
        return await AsyncTestBroker.open(directory, clock=self.clock)

    async def stop(self) -> None:
        await super().stop()
        for node in self.nodes:
            await node.stop()
            await node.broker.close()

    def advance(self, duration: Duration) -> None:
        self.run(self.pass_time(duration_ms("duration", duration)))

    async def pass_time(self, duration_ms: int) -> None:
        """Move the clock of all nodes, from one thing that is due to the next."""
        until_ms = self.clock.steady_ms() + duration_ms
        while True:
            for node in self.nodes:
                await node.broker._virtual.advance(0)
            await asyncio.sleep(LOOK_S)  # What they tell each other has to arrive.
            now_ms = self.clock.steady_ms()
            if now_ms >= until_ms:
                return
            due = [
                due_ms
                for node in self.nodes
                for due_ms in (
                    node.broker._core.state.alarms.next_ms(),
                    *(each.due_ms for each in node.broker._virtual._sleepers),
                )
                if due_ms > now_ms
            ]
            self.clock.move_to(min([until_ms, *due]))

    async def let_pass(self, done: Any, wait_ms: int) -> None:
        until_ms = self.clock.steady_ms() + wait_ms
        while not done.is_set():
            left_ms = until_ms - self.clock.steady_ms()
            if left_ms >= 0 and any(node.broker._virtual._sleepers for node in self.nodes[1:]):
                dues = [
                    node.broker._core.state.alarms.next_ms() - self.clock.steady_ms() for node in self.nodes
                ]
                await self.pass_time(min([left_ms, *(due for due in dues if due > 0)]))
            await asyncio.sleep(LOOK_S)
