"""Heartbeats of consumer groups (KIP-848): requests, results and the states that describe a group."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.groups.uniform import TopicIdPartition
from penstock.wire.kafka.codes import Code

JOIN: Final = 0  # Instead of an epoch: the member is not in the group yet.
LEAVE: Final = -1  # It goes.
LEAVE_FOR_NOW: Final = -2  # It goes, and a process of the same name will come soon.

Topics = Mapping[str, tuple[bytes, int]]  # By name: the id of each topic there is, and its partitions.


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberHeartbeat:
    """A heartbeat request; fields are None if they have not changed since the last one."""

    member: str
    epoch: int
    instance: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] | None = None
    pattern: str | None = None  # Topics by a regular expression; empty: none by that.
    assignor: str | None = None
    owned: frozenset[TopicIdPartition] | None = None  # What it works on.


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    error: Code
    member: str
    epoch: int = 0
    interval_ms: int = 0  # When it is to be heard again.
    assignment: frozenset[TopicIdPartition] | None = None  # What it is to work on; None: as before.
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMemberState:
    """A member as an operator sees it."""

    member: str
    instance: str | None
    epoch: int
    client_id: str
    client_host: str
    topics: frozenset[str]
    pattern: str
    assigned: frozenset[TopicIdPartition]
    target: frozenset[TopicIdPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupState:
    """A group as an operator sees it."""

    group: str
    state: str
    epoch: int
    assignor: str
    members: tuple[ConsumerMemberState, ...]
