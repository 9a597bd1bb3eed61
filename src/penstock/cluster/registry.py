"""The registry of a node: topics, documents and counters are entries of the metadata log.

A change proposes an entry and returns when this node has applied it, so that whoever made it sees it.  Other
nodes apply it a moment later.  ``following.py`` carries out on this node what the entries say.

Producer ids are reserved in blocks of ``PRODUCERS``, ahead of time: giving one out never waits for the store.
"""

from collections.abc import Callable
from random import Random
from typing import Final

import msgspec

from penstock.broker.steps import Arrival, Steps
from penstock.clock import Clock
from penstock.cluster.core.metadata import Change, DropTopic, PutDocument, PutTopic, State, TakeProducerIds
from penstock.cluster.core.node import Node
from penstock.cluster.following import Spawn
from penstock.cluster.routing.connection import Answer
from penstock.cluster.routing.owners import MetadataOwners
from penstock.config.broker import TopicSettings
from penstock.errors import OutcomeUnknown, PenstockError, StoreUnavailable, TopicExists, TopicNotFound

PROPOSE_MS_MAX: Final = 30_000
APPLIED_MS: Final = 20  # How often to look whether this node has carried out an entry.
PRODUCERS: Final = 1000
PRODUCERS_LOW: Final = 500  # Then the next block is reserved.
TOPIC_ID_BITS: Final = 128


class ClusterRegistry:
    """See ``Registry``."""

    generations = 0  # They begin with the epoch of the coordinator instead.

    def __init__(
        self,
        node: Node,
        owners: MetadataOwners,
        clock: Clock,
        random: Random,
        applied: Callable[[str, int], bool],
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
        self._producers: list[range] = []
        self._reserving = False

    async def start(self) -> None:
        await self._reserve()

    def owner(self, topic: str, number: int) -> tuple[int, int]:
        """Nothing is opened before the core has loaded it."""
        return self._owners.owner_of(topic, number)

    def group_epoch(self, group: str) -> int:
        return self._owners.coordinator_of(group)[1]

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
        """Wait until this node has done what the newest entry of a topic says."""
        while not self._applied(name, self._version(name)):
            yield Arrival(self._owners, self._clock.steady_ms() + APPLIED_MS)

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
