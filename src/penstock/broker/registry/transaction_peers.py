"""What transactions need of the other nodes of a cluster; ``cluster/routing/transactions.py`` has it."""

from collections.abc import Iterable
from typing import Protocol

from penstock.broker.steps import Steps
from penstock.groups.commits import Commit
from penstock.groups.transactions import AckedRun, Claim, Decision, Enlisted, Enlisting, TopicPartition

GroupOffsets = tuple[str, str, dict[int, Commit]]  # Group, topic, and offsets by partition.


class TransactionPeers(Protocol):
    def confirm(
        self,
        name: str,
        producer_id: int,
        epoch: int,
        partition: TopicPartition,
        enlisting: Enlisting,
        claim: Claim,
    ) -> Steps[Enlisted]:
        """Ask the coordinator whether a transaction has enlisted a partition, or to enlist it."""
        ...

    def hold(self, decision: Decision, acks: Iterable[AckedRun]) -> Steps[None]:
        """Have the owners of acked messages keep them for a commit (``Participants.hold``)."""
        ...

    def finish(
        self,
        decision: Decision,
        partitions: Iterable[TopicPartition],
        commits: Iterable[GroupOffsets],
        acks: Iterable[AckedRun],
    ) -> Steps[None]:
        """Have the owners of all partitions do what was decided (``Participants.finish``)."""
        ...

    def abort_transaction(
        self, transactional_id: str, producer_id: int, epoch: int, claim: Claim
    ) -> Steps[None]:
        """Have the coordinator abort a transaction."""
        ...
