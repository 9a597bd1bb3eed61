"""What is shared by all nodes of a cluster: topics, documents, producer ids, generations.

A single broker keeps them in files (``topic/local_registry.py``).  In a cluster they are entries
of the metadata log: ``create_topic`` and the like write one, and return when this node has applied it, with
``Topics.make``, ``Topics.change``, ``Topics.remove`` and the ``load`` of the service that owns a document.
"""

from typing import Final, Protocol

from penstock.broker.steps import Steps
from penstock.config.broker import TopicSettings

ACCESS: Final = "access.json"  # Keys, users, quotas and ACLs.
GROUPS: Final = "groups.json"  # Settings of Kafka groups.
SCHEMAS: Final = "schemas.json"  # The schema registry.

GENERATION_BITS: Final = (
    20  # Of a Kafka group's generation: those of one epoch.  The others are for the epoch,
)
GENERATION_EPOCHS: Final = 1 << 11  # in turn: a generation is a signed number of 32 bits.


class Registry(Protocol):
    def owner(self, topic: str, number: int) -> tuple[int, int] | None:
        """Node and epoch of a partition that another node owns; None: it is to be opened or created here."""
        ...

    # Topics.  The request was checked; it may fail all the same if another node was quicker.

    def create_topic(self, name: str, settings: TopicSettings, *, limited: bool) -> Steps[None]:
        """``limited``: refuse it if the broker has as many topics as it may have."""
        ...

    def alter_topic(self, name: str, settings: TopicSettings) -> Steps[None]: ...

    def delete_topic(self, name: str) -> Steps[None]: ...

    def store_segments(self, topic: str, number: int, end: int) -> Steps[None]:
        """Wait until old segments, which begin below an offset, are as durable as what is appended.

        They were put into the log, and are on the disk of this node.
        """
        ...

    # Documents: ``ACCESS``, ``GROUPS`` and ``SCHEMAS``, each written as a whole.

    def read(self, name: str) -> bytes | None: ...

    def refresh_topic(self, name: str) -> Steps[None]:
        """Wait until this node has the topic, if another node has created it."""
        ...

    def write(self, name: str, data: bytes) -> Steps[None]:
        """Replace a document; after an error it is unchanged."""
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
        """Note that groups have reached this generation."""
        ...

    def group_epoch(self, group: str) -> int:
        """Since when this node coordinates a Kafka group; 0: there is no cluster."""
        ...

    def check_coordinator(self, group: str, epoch: int) -> None:
        """Refuse commits of a node that coordinates a group no longer (``NotOwner``)."""
        ...

    @property
    def cluster_id(self) -> str:
        """By which Kafka clients know the cluster."""
        ...


def first_generation(epoch: int) -> int:
    """A generation above all that groups have reached at their former coordinators."""
    return epoch % GENERATION_EPOCHS << GENERATION_BITS
