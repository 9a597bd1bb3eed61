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
    """Who owns a partition."""

    topic: str
    partition: int
    node: int  # -1: nobody.
    epoch: int
    preferred: int | None = None  # The node that an operator has chosen for it.


class ClusterInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster at a glance, as one of its nodes sees it."""

    name: str
    store: str
    node: int  # The node that answers.
    nodes: list[ClusterNode]
    partitions: list[PartitionOwner]
    takeovers: list[Takeover]  # Of all nodes, the newest first.


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """What became of partitions that were to move."""

    moved: int
    left: int  # Of these, not yet; they follow.
