"""Operator requests to a cluster: its state, and moves of partitions.

Any node accepts them.  Changes are entries of the metadata log: which nodes are drained, and which node an
operator has assigned to a partition.  The owners see these entries and hand over (rule 20); the node that
got the request waits for that, up to ``MOVE_MS_MAX``.

The state of other nodes is requested over their peer port on demand, with a timeout of ``REPORT_S``.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from penstock.broker.observability.metrics import NodeFacts
from penstock.clock import Clock
from penstock.cluster.commit import ClusterCommit
from penstock.cluster.core.metadata import Drain, Forget, Key, Prefer, Preference, State
from penstock.cluster.core.node import Node
from penstock.cluster.following import Spawn
from penstock.cluster.placement import balanced
from penstock.cluster.routing.listener import REPORT
from penstock.cluster.routing.owners import MetadataOwners, address_of
from penstock.cluster.routing.peers import Peers
from penstock.cluster.timeline import KEPT_MAX, Timeline
from penstock.errors import (
    InvalidValue,
    NodeNotFound,
    NodeRunning,
    NodeUnfit,
    PartitionMoved,
    PartitionNotFound,
    PenstockError,
    TopicNotFound,
)
from penstock.model.cluster import ClusterInfo, ClusterNode, Moved, NodeReport, NodeState, PartitionOwner
from penstock.operations.call import MOVE_MS_MAX
from penstock.types import TRANSACTIONS, check_name
from penstock.version import __version__
from penstock.wire import native
from penstock.wire.native_bodies import decode_body

REPORT_S: Final = 3.0  # Timeout for the response of a node.
LOOK_S: Final = 0.02  # Between two checks whether partitions have moved.


class Administration:
    def __init__(
        self,
        name: str,
        store: str,
        node: Node,
        owners: MetadataOwners,
        peers: Peers,
        commit: ClusterCommit,
        timeline: Timeline,
        clock: Clock,
        spawn: Spawn,
    ) -> None:
        self.spawn = spawn
        self._name = name
        self._store = store
        self._node = node
        self._owners = owners
        self._peers = peers
        self._commit = commit
        self._timeline = timeline
        self._clock = clock
        self._started_ms = clock.steady_ms()

    @property
    def _state(self) -> State:
        return self._node.state

    # Queries.

    def report(self) -> NodeReport:
        """What this node reports to the others about itself."""
        member = self._state.members.get(self._node.incarnation)
        median, high = self._commit.quantiles()
        return NodeReport(
            version=__version__,
            uptime_seconds=(self._clock.steady_ms() - self._started_ms) / 1000,
            open=len(self._node.opened),
            wal_entries=self._node.commits.confirmed - (0 if member is None else member.floor),
            commits=self._commit.count,
            commit_seconds_p50=median,
            commit_seconds_p99=high,
            takeovers=self._timeline.takeovers(),
        )

    def facts(self) -> NodeFacts:
        """The values of this node's cluster metrics."""
        report, owners = self.report(), [self._state.owner_of(key)[0] for key, _ in self._state.partitions()]
        return NodeFacts(
            nodes=len(self._state.alive()),
            ownerless=owners.count(-1),
            owned=owners.count(self._owners.node),
            open=report.open,
            wal_entries=report.wal_entries,
            takeovers={("moved",): self._timeline.counts[True], ("failed",): self._timeline.counts[False]},
            takeover_seconds=report.takeovers[0].duration_ms / 1000 if report.takeovers else 0.0,
            peer_requests={(name,): count for name, count in self._peers.requests.items()},
        )

    async def info(self) -> ClusterInfo:
        state = self._state
        alive = {state.members[name].node: name for name in state.alive()}
        asked = {node: self._reported(node) for node in alive if node != self._owners.node}
        reports = dict(zip(asked, await asyncio.gather(*asked.values()), strict=True))
        reports[self._owners.node] = self.report()
        partitions = [self._partition(key) for key, _ in state.partitions()]
        takeovers = [each for report in reports.values() if report is not None for each in report.takeovers]
        return ClusterInfo(
            name=self._name,
            store=self._store,
            node=self._owners.node,
            nodes=[self._described(node, reports.get(node), partitions) for node in state.nodes()],
            partitions=partitions,
            takeovers=sorted(takeovers, key=lambda each: -each.at_ms)[:KEPT_MAX],
        )

    def _described(
        self, node: int, report: NodeReport | None, partitions: list[PartitionOwner]
    ) -> ClusterNode:
        members = [each for each in self._state.members.values() if each.node == node]
        member = next((each for each in members if each.tombstone is None), members[-1])
        where = address_of(member.address)
        state: NodeState = "draining" if node in self._state.draining else "up"
        if report is None:
            state = "stopped" if member.tombstone is not None else "silent"
        return ClusterNode(
            node=node,
            state=state,
            host=where.host,
            native=where.native,
            kafka=where.kafka,
            peer=where.peer,
            partitions=sum(each.node == node for each in partitions),
            report=report,
        )

    def _partition(self, key: Key) -> PartitionOwner:
        found = self._state.partition(key)
        node, epoch = self._state.owner_of(key)
        preferred = None if found is None else found.preferred
        return PartitionOwner(topic=key[0], partition=key[1], node=node, epoch=epoch, preferred=preferred)

    async def _reported(self, node: int) -> NodeReport | None:
        """Another node's report about itself; None if it does not answer."""
        answered: asyncio.Future[NodeReport | None] = asyncio.get_running_loop().create_future()

        def then(body: bytes, error: PenstockError | None) -> None:
            if not answered.done():
                answered.set_result(None if error is not None else decode_body(body, NodeReport))

        address = self._owners.nodes().get(node)
        if address is None:
            return None
        peer = self._peers.peer(node, address)
        peer.request("report", lambda correlation: native.frame(REPORT, correlation), then)
        try:
            return await asyncio.wait_for(answered, REPORT_S)
        except TimeoutError:
            return None

    # Changes.

    async def drain(self, node: Any, undo: bool) -> Moved:
        self._check_node(node)
        owned = [key for key, _ in self._state.partitions() if self._state.owner_of(key)[0] == node]

        def make(state: State) -> Drain | None:
            self._check_node(node)
            if undo == (node not in state.draining):
                return None
            if not undo and not [each for each in self._fit(state) if each != node]:
                raise NodeUnfit(node=node, why="no other node is up that may own partitions")
            return Drain(node, not undo)

        await self._node.propose(make)
        if undo:
            return Moved(moved=0, left=0)

        def left(key: Key) -> bool:
            return bool(self._state.owner_of(key)[0] != node)

        return await self._moved([partial(left, key) for key in owned])

    async def remove(self, node: Any) -> None:
        def make(state: State) -> Forget:
            self._check_node(node)
            if state.nodes()[node]:
                raise NodeRunning(node=node)
            return Forget(node)

        await self._node.propose(make)

    async def move(self, topic: Any, partition: Any, node: Any) -> Moved:
        key = topic if topic == TRANSACTIONS else check_name("topic", topic), partition
        self._check_partition(key)
        before = self._state.owner_of(key)

        def make(state: State) -> Prefer | None:
            self._check_target(state, node)
            owner, epoch = state.owner_of(key)
            if (owner, epoch) != before:
                raise PartitionMoved(topic=topic, partition=partition, owner=owner)
            return Prefer([Preference(topic, partition, epoch, node)])

        await self._node.propose(make)
        if before[0] == node:
            return Moved(moved=0, left=0)
        moved = await self._wait_for({key: node})
        owner = self._state.owner_of(key)[0]
        if moved.moved and owner != node:
            raise PartitionMoved(topic=topic, partition=partition, owner=owner)
        return moved

    async def balance(self, dry_run: bool) -> Moved:
        wanted: dict[Key, int] = {}
        moving: set[Key] = set()

        def make(state: State) -> Prefer | None:
            before = {key: state.owner_of(key) for key, _ in state.partitions()}
            placed = balanced({key: owner for key, (owner, _) in before.items()}, self._fit(state))
            wanted.clear()
            wanted.update(placed)
            moving.clear()
            moving.update(key for key, node in placed.items() if node != before[key][0])
            preferences = [Preference(*key, before[key][1], node) for key, node in placed.items()]
            return None if dry_run or not preferences else Prefer(preferences)

        if dry_run:
            make(self._state)
            return Moved(moved=0, left=len(moving))
        await self._node.propose(make)
        # Also for partitions that need not move: a move that was decided before may be in progress.
        left = (await self._wait_for(wanted)).left
        return Moved(moved=max(len(moving) - left, 0), left=left)

    async def _wait_for(self, wanted: dict[Key, int]) -> Moved:
        """Wait, within a limit, until partitions have moved, or the metadata no longer ask for the move."""

        def done(key: Key, node: int) -> bool:
            favourite = self._state.favourite(key)
            elsewhere = favourite is None or self._state.members[favourite].node != node
            return elsewhere or self._state.owner_of(key)[0] == node

        return await self._moved([partial(done, key, node) for key, node in wanted.items()])

    async def _moved(self, conditions: list[Callable[[], bool]]) -> Moved:
        until_ms = self._clock.steady_ms() + MOVE_MS_MAX
        while True:
            moved = sum(condition() for condition in conditions)
            if moved == len(conditions) or self._clock.steady_ms() >= until_ms:
                return Moved(moved=moved, left=len(conditions) - moved)
            await asyncio.sleep(LOOK_S)

    # Checks.

    @staticmethod
    def _fit(state: State) -> list[int]:
        """Nodes that may own partitions."""
        return [node for node, alive in state.nodes().items() if alive and node not in state.draining]

    def _check_node(self, node: Any) -> None:
        if type(node) is not int:
            raise InvalidValue(name="node", value=node, why="it must be the number of a node")
        known = self._state.nodes()
        if node not in known:
            raise NodeNotFound(node=node, known=", ".join(map(str, known)))

    def _check_target(self, state: State, node: Any) -> None:
        self._check_node(node)
        if not state.nodes()[node]:
            raise NodeUnfit(node=node, why="it is stopped")
        if node in state.draining:
            raise NodeUnfit(node=node, why="it is being drained")

    def _check_partition(self, key: Any) -> None:
        topic, partition = key
        found = self._state.topics.get(topic)
        if found is None:
            raise TopicNotFound(topic=topic)
        if type(partition) is not int or not 0 <= partition < len(found.partitions):
            raise PartitionNotFound(topic=topic, partition=partition, last=len(found.partitions) - 1)
