"""What is shared by all nodes of a cluster: topics, documents, producer ids, generations.

A single broker keeps them in files (``topic/local_registry.py``).  In a cluster they are entries
of the metadata log: ``create_topic`` and the like write one, and return when this node has applied it, with
``Topics.make``, ``Topics.change``, ``Topics.remove``, ``Access.load`` and ``GroupConfigs.load``.
"""

from typing import Final, Protocol

from penstock.broker.steps import Steps
from penstock.config.broker import TopicSettings

ACCESS: Final = "access.json"  # Keys, users, quotas and ACLs.
GROUPS: Final = "groups.json"  # Settings of Kafka groups.

GENERATION_BITS: Final = (
    20  # Of a Kafka group's generation: those of one epoch.  The others are for the epoch,
)
GENERATION_EPOCHS: Final = 1 << 11  # in turn: a generation is a signed number of 32 bits.


class Registry(Protocol):
    def owner(self, topic: str, number: int) -> tuple[int, int] | None:
        """Node and epoch of a partition that another node has; None: it is to be opened or made here."""
        ...

    # Topics.  The request was checked; it may fail all the same if another node was quicker.

    def create_topic(self, name: str, settings: TopicSettings, *, limited: bool) -> Steps[None]:
        """``limited``: only if there may be another one."""
        ...

    def alter_topic(self, name: str, settings: TopicSettings) -> Steps[None]: ...

    def delete_topic(self, name: str) -> Steps[None]: ...

    # Documents: ``ACCESS`` and ``GROUPS``, each written as a whole.

    def read(self, name: str) -> bytes | None: ...

    def write(self, name: str, data: bytes) -> Steps[None]:
        """Replace a document; an error means that it is as it was."""
        ...

    # Numbers.

    def new_producer_id(self) -> int:
        """An id that no producer had before.  A cluster reserves blocks of them ahead of time."""
        ...

    @property
    def generations(self) -> int:
        """No Kafka group had a later generation, in any life of this broker."""
        ...

    def reserve_generations(self, latest: int) -> None:
        """Groups have come to this generation."""
        ...

    def group_epoch(self, group: str) -> int:
        """Since when this node coordinates a Kafka group; 0: there is no cluster."""
        ...

    @property
    def cluster_id(self) -> str:
        """By which Kafka clients know the cluster."""
        ...


def first_generation(epoch: int) -> int:
    """Beyond the generations that groups have come to at the nodes which coordinated them before."""
    return epoch % GENERATION_EPOCHS << GENERATION_BITS
