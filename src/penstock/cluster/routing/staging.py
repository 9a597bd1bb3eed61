"""Staged publishes over several nodes.

    client ── stage ───────────> owner of ``__staging``
       │                                 ▲ read_staged, release_staged
       └── publish_staged ──> owner of the topic's partition 0, which has the intents
                                         │ staging_rooms, place_staged
                                         ▼
                              owners of the topic's partitions

What each side does is in ``broker/publish/staging.py``.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from penstock.broker.registry.staging_peers import StagingRoom
from penstock.broker.steps import Steps
from penstock.cluster.routing import merging
from penstock.cluster.routing.transactions import TransactionRouter
from penstock.errors import NotOwner
from penstock.operations.call import IDEMPOTENT, READ_ONLY
from penstock.wire.staged import STAGING

Batches = dict[int, list[tuple[int, bytes]]]  # By partition, each with its first sequence number.


class StagingRouter(TransactionRouter):
    """See ``StagingPeers``."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._core.state.staging_peers = Handing(self)

    def stage(self, topic: str, batch: bytes) -> Steps[int]:
        yield from self.metadata(topic)
        yield from self._core.staging.prepare()
        return (yield from self.at_owner("stage", self._local.stage, STAGING, 0, (topic, batch)))


class Handing:
    """The requests that the owner of intents sends to other nodes."""

    def __init__(self, router: StagingRouter) -> None:
        self._router = router
        self._local = router.local

    def read(self, offset: int, end: int) -> Steps[bytes]:
        return self._at_staging("read_staged", self._local.read_staged, (offset, end))

    def release(self, ranges: Sequence[tuple[int, int]]) -> Steps[None]:
        return self._at_staging("release_staged", self._local.release_staged, (list(ranges),))

    def _at_staging(self, name: str, local: Any, arguments: tuple[Any, ...]) -> Steps[Any]:
        return self._router.at_owner(name, local, STAGING, 0, arguments)

    def rooms(self, topic: str) -> Steps[dict[int, StagingRoom]]:
        name, local = "staging_rooms", self._local.staging_rooms
        numbers = range(self._router.layout(topic).partitions)

        def attempt() -> Steps[dict[int, StagingRoom]]:
            found = yield from self._router.at_all(name, local, topic, (topic,), merging.by_partition)
            for number in numbers:
                if number not in found:  # It is moving.
                    raise NotOwner(topic=topic, partition=number, owner=-1, epoch=0)
            return found

        return self._router.routed(attempt, READ_ONLY)

    def place(self, topic: str, batches: Batches, producer_id: int, time_ms: int) -> Steps[None]:
        def attempt() -> Steps[None]:
            shares: dict[int, Batches] = defaultdict(dict)
            for number, some in batches.items():
                shares[self._router.owner(topic, number)][number] = some
            arguments = {node: (topic, share, producer_id, time_ms) for node, share in shares.items()}
            yield from self._router.at_each("place_staged", self._local.place_staged, arguments)

        return self._router.routed(attempt, IDEMPOTENT)
