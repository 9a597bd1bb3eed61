"""Operator requests as steps; ``Administration`` executes them on the node that gets the request."""

from collections.abc import Coroutine
from typing import Any, Final, Protocol

from penstock.broker.operations import LocalOperations
from penstock.broker.steps import Steps
from penstock.cluster.routing.connection import Answer
from penstock.errors import NotACluster, OutcomeUnknown, PenstockError
from penstock.model.cluster import ClusterInfo, Moved
from penstock.operations.call import MOVE_MS_MAX

PROPOSE_MS_MAX: Final = 20_000  # For the entry in the metadata log, beside the moves.


class Administrating(Protocol):
    """Operator requests that are sent to other nodes (``cluster/administration.py``)."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> object: ...

    async def info(self) -> ClusterInfo: ...

    async def drain(self, node: Any, undo: bool) -> Moved: ...

    async def remove(self, node: Any) -> None: ...

    async def move(self, topic: Any, partition: Any, node: Any) -> Moved: ...

    async def balance(self, dry_run: bool) -> Moved: ...


class AdministrationSteps(LocalOperations):
    administration: Administrating | None = None  # None: this node has a fixed table of owners.

    def cluster_info(self) -> Steps[ClusterInfo]:
        return self._administer("cluster_info", lambda to: to.info())

    def drain_node(self, node: int, undo: bool) -> Steps[Moved]:
        return self._administer("drain_node", lambda to: to.drain(node, undo))

    def remove_node(self, node: int) -> Steps[None]:
        return self._administer("remove_node", lambda to: to.remove(node))

    def move_partition(self, topic: str, partition: int, node: int) -> Steps[Moved]:
        return self._administer("move_partition", lambda to: to.move(topic, partition, node))

    def balance_partitions(self, dry_run: bool) -> Steps[Moved]:
        return self._administer("balance_partitions", lambda to: to.balance(dry_run))

    def _administer(self, name: str, begin: Any) -> Steps[Any]:
        if self.administration is None:
            raise NotACluster(operation=name)
        answer = Answer(OutcomeUnknown(operation=name, server="the cluster"))
        results: list[Any] = []

        async def run(work: Coroutine[Any, Any, Any]) -> None:
            try:
                results.append(await work)
            except PenstockError as error:
                answer(b"", error)
            else:
                answer(b"", None)

        self.administration.spawn(run(begin(self.administration)))
        clock = self._core.state.clock
        yield from answer.wait(clock, clock.steady_ms() + MOVE_MS_MAX + PROPOSE_MS_MAX)
        return results[0]
