"""Requests and results of a rebalance in a classic group, some of which complete later."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from penstock.wire.kafka.codes import Code

T = TypeVar("T")


class PendingResult(Generic[T]):
    """A result that depends on other members; its waiters are woken when it is there."""

    __slots__ = ("answer", "waiters")

    def __init__(self) -> None:
        self.answer: T | None = None
        self.waiters: dict[Any, None] = {}  # Each has a ``wake``.

    def give(self, answer: T) -> None:
        """Set the result; only the first one counts."""
        if self.answer is None:
            self.answer = answer
            self.wake()

    def wake(self) -> None:
        waiters, self.waiters = self.waiters, {}
        for waiter in waiters:
            waiter.wake()


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """A request to join the next generation."""

    member: str  # Its id; empty if it has none.
    new_member: str  # The id it gets in that case.  It comes with the request, as time does.
    instance: str | None = None  # Of a static member: the name under which it comes back after a restart.
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str = "consumer"
    protocols: tuple[tuple[str, bytes], ...]  # Assignors it knows, the dearest first, each with its metadata.
    id_first: bool = (
        True  # It can join again with an id that it is given, so that a lost response is harmless.
    )
    can_skip: bool = False  # As leader it accepts that the assignment stays the same.
    gather_ms: int = 0  # If the group is empty: how long its first rebalance waits for more members.


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """A member as it is described to the leader."""

    member: str
    instance: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinResult:
    """The generation that the member has joined."""

    error: Code
    member: str
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    roster: tuple[MemberMetadata, ...] = ()  # For the leader only, who assigns.
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """A request for a member's assignment; that of the leader has the assignments of all."""

    member: str
    instance: str | None = None
    generation: int
    protocol_type: str | None = None  # None: it does not say.
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class SyncResult:
    error: Code
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committer:
    """Who commits: a member of a generation; or, by default, a client without membership."""

    member: str = ""
    instance: str | None = None
    generation: int = -1
    transactional: bool = False


@dataclass(frozen=True, slots=True)
class KafkaMemberState:
    """A member as an operator sees it."""

    member: str
    instance: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class KafkaGroupState:
    """A group as an operator sees it."""

    group: str
    kind: str  # As Kafka calls it: classic, consumer or share.
    state: str
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[KafkaMemberState, ...] = ()
