"""What members of a consumer group say and hear in a heartbeat: values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.groups.uniform import Place
from penstock.wire.kafka.codes import Code

JOIN: Final = 0  # In the place of an epoch: it is not in the group yet.
LEAVE: Final = -1  # It goes.
LEAVE_FOR_NOW: Final = -2  # It goes, and a process of the same name will come soon.

Topics = Mapping[str, tuple[bytes, int]]  # By name: the id of each topic there is, and its partitions.


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """What a member says; None where nothing has changed since it said it last."""

    member: str
    epoch: int
    instance: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] | None = None
    pattern: str | None = None  # Topics by a regular expression; empty: none by that.
    assignor: str | None = None
    owned: frozenset[Place] | None = None  # What it works on.


@dataclass(frozen=True, slots=True)
class Beaten:
    error: Code
    member: str
    epoch: int = 0
    interval_ms: int = 0  # When it is to be heard again.
    assignment: frozenset[Place] | None = None  # What it is to work on; None: as before.
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerState:
    """A member as an operator sees it."""

    member: str
    instance: str | None
    epoch: int
    client_id: str
    client_host: str
    topics: frozenset[str]
    pattern: str
    assigned: frozenset[Place]
    target: frozenset[Place]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumersState:
    """A group as an operator sees it."""

    group: str
    state: str
    epoch: int
    assignor: str
    members: tuple[ConsumerState, ...]
