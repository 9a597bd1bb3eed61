"""A cluster as its operators see it: nodes, owners, and how long takeovers took."""

from typing import Literal

import msgspec

NodeState = Literal[
    "up",
    "draining",  # Up, and an operator keeps partitions away from it.
    "silent",  # A member that does not answer; others take over its partitions soon.
    "stopped",  # It has left, or others have replaced it.
]


class Takeover(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions that a node has loaded because of one entry of the metadata log."""

    at_ms: int  # When it began, in wall time.
    node: int  # The new owner.
    previous: int  # The owner before; 0 if there was none.
    clean: bool  # The previous owner had handed them over; otherwise it had failed.
    partitions: int
    duration_ms: int  # Until the last of them was open.


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says about itself."""

    version: str
    uptime_seconds: float
    open: int  # Partitions that it serves.
    wal_entries: int  # That a node which takes over its partitions has to read.
    commits: int  # Since it started.
    commit_seconds_p50: float  # How long the last 1,000 of them took.
    commit_seconds_p99: float
    takeovers: list[Takeover] = []  # The last ones, the newest first.


class ClusterNode(msgspec.Struct, frozen=True, kw_only=True):
    """One node of a cluster."""

    node: int
    state: NodeState
    host: str
    native: int  # Its ports; 0: it does not listen.
    kafka: int
    peer: int
    partitions: int  # That it owns.
    report: NodeReport | None = None  # None if it does not answer.


class PartitionOwner(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    node: int  # -1: no node.
    epoch: int
    preferred: int | None = None  # The node that an operator has chosen for it.


class TopicOwners(msgspec.Struct, frozen=True, kw_only=True):
    """The owners of a topic's partitions; without a cluster both are empty: the server owns all."""

    owners: list[tuple[int, int]] = []  # By partition: the owner (-1: none), and since which epoch.
    nodes: dict[int, tuple[str, int]] = {}  # By number: host and native port, as the node advertises them.

    def address(self, partition: int) -> tuple[str, int] | None:
        """Where clients find the owner of a partition; None: connect to any node, which forwards."""
        return self.nodes.get(self.owners[partition][0]) if 0 <= partition < len(self.owners) else None


class ClusterInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster at a glance, as one of its nodes sees it."""

    name: str
    store: str
    node: int  # The node that answers.
    nodes: list[ClusterNode]
    partitions: list[PartitionOwner]
    takeovers: list[Takeover]  # Of all nodes, the newest first.


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a move of partitions."""

    moved: int
    left: int  # Of these, not yet; they follow.
