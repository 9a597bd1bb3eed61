"""The registry of a node: topics, documents and counters are entries of the metadata log.

A change proposes an entry and returns when this node has applied it, so that its caller sees it.  A change
of topics also waits until the other nodes have carried it out, for up to ``PEERS_MS_MAX``; and a node reads
the log to its end before it reports a topic as unknown.  So a program may create a topic through one node
and use it through another.  ``following.py`` applies the entries to this node's broker.

Producer ids are reserved in blocks of ``PRODUCERS``, ahead of time: allocating one never waits for the store.
"""

from collections.abc import Callable
from random import Random
from typing import Final

import msgspec

from penstock.broker.steps import Arrival, Steps
from penstock.clock import Clock
from penstock.cluster.core.metadata import (
    GROUPS,
    Change,
    DropTopic,
    PutDocument,
    PutTopic,
    State,
    TakeProducerIds,
)
from penstock.cluster.core.node import Node
from penstock.cluster.core.objects import UNKNOWN
from penstock.cluster.following import Spawn
from penstock.cluster.routing.connection import Answer
from penstock.cluster.routing.owners import MetadataOwners
from penstock.config.broker import TopicSettings
from penstock.errors import (
    NotOwner,
    OutcomeUnknown,
    PenstockError,
    StoreUnavailable,
    TopicExists,
    TopicNotFound,
)

PROPOSE_MS_MAX: Final = 30_000
PEERS_MS_MAX: Final = 2000  # A node that has not carried out a change by then is slow, or has failed.
REFRESH_MS_MAX: Final = 15_000
STORED_MS_MAX: Final = 120_000  # For a checkpoint that contains restored segments.
STORED_LOOK_MS: Final = 200
APPLIED_MS: Final = 20  # Between two checks whether this node has carried out an entry.
PRODUCERS: Final = 1000
PRODUCERS_LOW: Final = 500  # Then the next block is reserved.
TOPIC_ID_BITS: Final = 128


class ClusterRegistry:
    """Topics and groups of the cluster, for the broker of this node."""

    generations = 0  # They begin with the epoch of the coordinator instead.

    def __init__(
        self,
        node: Node,
        owners: MetadataOwners,
        clock: Clock,
        random: Random,
        applied: Callable[[str, int], bool],
        stored: Callable[[str, int, int], bool],
        cluster_id: str,
        spawn: Spawn,
    ) -> None:
        self.cluster_id = cluster_id
        self._spawn = spawn
        self._node = node
        self._owners = owners
        self._clock = clock
        self._random = random
        self._applied = applied  # Whether this node has carried out a version of a topic or document.
        self._stored = (
            stored  # Whether a checkpoint has all segments of a partition that begin below an offset.
        )
        self._producers: list[range] = []
        self._reserving = False
        self._reads = 0  # Reads of the log to its end for ``refresh_topic``: started ...
        self._reads_done = 0  # ... and finished.
        self._reading = False

    async def start(self) -> None:
        await self._reserve()

    def owner(self, topic: str, number: int) -> tuple[int, int]:
        """The owner of a partition; the core loads those of this node before they are opened."""
        return self._owners.owner_of(topic, number)

    def group_epoch(self, group: str) -> int:
        return self._owners.coordinator_of(group)[1]

    def check_coordinator(self, group: str, epoch: int) -> None:
        """Refuse commits of an earlier coordinator; those of a later one wait until this node knows it.

        So the commits of a coordinator never follow those of its successor on any partition: an owner that
        has accepted one of the successor's has applied the entry that appointed it, and so has every
        later owner of the partition.
        """
        node, known = self._owners.coordinator_of(group)
        if epoch > known:
            self._node.refresh()
        if epoch != known:
            raise NotOwner(topic=GROUPS, partition=0, owner=node, epoch=known)

    def reserve_generations(self, latest: int) -> None:
        """Nothing to do: each coordinator has an epoch of its own."""

    # Topics.

    def create_topic(self, name: str, settings: TopicSettings, *, limited: bool) -> Steps[None]:  # noqa: ARG002 - checked
        made = PutTopic(
            name,
            f"{self._random.getrandbits(TOPIC_ID_BITS):032x}",
            settings.partitions,
            msgspec.json.encode(settings).decode(),
        )
        if not (yield from self._propose(lambda state: None if name in state.topics else made)):
            raise TopicExists(topic=name)
        yield from self._carried_out(name)

    def alter_topic(self, name: str, settings: TopicSettings) -> Steps[None]:
        text = msgspec.json.encode(settings).decode()

        def make(state: State) -> PutTopic | None:
            found = state.topics.get(name)
            if found is None:
                return None
            return PutTopic(name, found.id, settings.partitions, text, found.version)

        if not (yield from self._propose(make)):
            raise TopicNotFound(topic=name)
        yield from self._carried_out(name)

    def delete_topic(self, name: str) -> Steps[None]:
        def make(state: State) -> DropTopic | None:
            found = state.topics.get(name)
            return None if found is None else DropTopic(name, found.version)

        if not (yield from self._propose(make)):
            raise TopicNotFound(topic=name)
        yield from self._carried_out(name)

    def _version(self, name: str) -> int:
        found = self._node.state.topics.get(name)
        return 0 if found is None else found.version

    def _carried_out(self, name: str) -> Steps[None]:
        """Wait until all nodes have applied the newest entry of a topic."""
        yield from self._carried_out_here(name)
        number, until_ms = self._node.state.next, self._clock.steady_ms() + PEERS_MS_MAX
        while not self._node.is_carried_out(number) and self._clock.steady_ms() < until_ms:
            yield Arrival(self._owners, until_ms)

    def _carried_out_here(self, name: str) -> Steps[None]:
        while not self._applied(name, self._version(name)):
            yield Arrival(self._owners, self._clock.steady_ms() + APPLIED_MS)

    def refresh_topic(self, name: str) -> Steps[None]:
        """Refresh any number of topics with one request to the store at a time."""
        wanted, until_ms = self._reads + 1, self._clock.steady_ms() + REFRESH_MS_MAX
        while self._reads_done < wanted:
            if self._clock.steady_ms() >= until_ms:
                raise StoreUnavailable(store="of the cluster", why=f"it is unknown whether {name!r} exists")
            if not self._reading:
                self._reading = True
                self._spawn(self._read_log())
            yield Arrival(self._owners, self._clock.steady_ms() + APPLIED_MS)
        yield from self._carried_out_here(name)

    async def _read_log(self) -> None:
        self._reads += 1
        try:
            await self._node.metadata.catch_up()
            self._reads_done = self._reads
        except UNKNOWN:
            pass  # Waiters start again.
        finally:
            self._reading = False
            self._owners.changed()

    def store_segments(self, topic: str, number: int, end: int) -> Steps[None]:
        """Wait for the next checkpoint, which has them; an owner lost before has changed nothing."""
        until_ms = self._clock.steady_ms() + STORED_MS_MAX
        while not self._stored(topic, number, end):
            owner, epoch = self.owner(topic, number)
            if owner != self._owners.node:
                raise NotOwner(topic=topic, partition=number, owner=owner, epoch=epoch)
            now_ms = self._clock.steady_ms()
            if now_ms >= until_ms:
                raise StoreUnavailable(
                    store="of the cluster", why=f"no checkpoint of {topic}:{number} in time"
                )
            self._node.checkpoint_soon()
            yield Arrival(self._owners, now_ms + STORED_LOOK_MS)

    # Documents.

    def read(self, name: str) -> bytes | None:
        found = self._node.state.documents.get(name)
        return None if found is None else found.text.encode()

    def write(self, name: str, data: bytes) -> Steps[None]:
        before = self._node.state.documents.get(name)
        version = 0 if before is None else before.version
        text = data.decode()

        def make(state: State) -> PutDocument | None:
            found = state.documents.get(name)
            return PutDocument(name, text, version) if (found.version if found else 0) == version else None

        if not (yield from self._propose(make)):
            raise OutcomeUnknown(operation=f"the change of {name}", server="the cluster")

    # Producer ids.

    def new_producer_id(self) -> int:
        left = sum(len(block) for block in self._producers)
        if left <= PRODUCERS_LOW and not self._reserving:
            self._spawn(self._reserve())
        if not left:
            raise StoreUnavailable(store="of the cluster", why="no producer ids could be reserved")
        while not self._producers[0]:
            self._producers.pop(0)
        block = self._producers[0]
        self._producers[0] = block[1:]
        return block[0] + 1

    async def _reserve(self) -> None:
        self._reserving = True
        try:
            first = 0

            def make(state: State) -> TakeProducerIds:
                nonlocal first
                first = state.producers
                return TakeProducerIds(self._node.incarnation, PRODUCERS)

            await self._node.propose(make)
            self._producers.append(range(first, first + PRODUCERS))
        finally:
            self._reserving = False

    # Proposing.

    def _propose(self, make: Callable[[State], Change | None]) -> Steps[bool]:
        answer = Answer(OutcomeUnknown(operation="the change", server="the cluster"))

        async def propose() -> None:
            try:
                made = await self._node.propose(make)
            except PenstockError as error:
                answer(b"", error)
            else:
                answer(b"\1" if made else b"", None)

        self._spawn(propose())
        made = yield from answer.wait(self._clock, self._clock.steady_ms() + PROPOSE_MS_MAX)
        return bool(made)
