"""The operations of a broker, for somebody who may not do all of them.

    front end ──> GuardedOperations ── NEEDS[name]: which action, on which topic and group?
                        │                 may it?   no ──> Forbidden
                        │                 how much? ────> QuotaExceeded
                        └──> LocalOperations

An operation is found through the table ``NEEDS`` only.  One without an entry
cannot be called by any front end, so that a new one cannot be forgotten; a test
walks the broker's operations and the table.  What an operation returns is
guarded too where it leads further: consumers may publish with an ack,
producers publish to any topic, and lists tell of topics.

A check is made before anything is begun, and its answer is remembered by topic
and group: what is asked again costs a look into a set (under 0.2 us).  Grants do not
change under a guard: whoever's grants are changed gets a new guard, and loses
the connections that use the old one (``gateway.py``).
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from penstock.api.operations import Work
from penstock.broker.access.audit import DONE, Audit
from penstock.broker.drivers.at_once import now
from penstock.broker.observability.measuring import Family
from penstock.broker.operations import LocalOperations
from penstock.clock import Clock
from penstock.errors import Forbidden, PenstockError, TopicNotFound
from penstock.frontends.security.identity import Identity
from penstock.frontends.security.needs import NEEDS as NEEDS
from penstock.frontends.security.needs import ROLES, Need, place_of, verb
from penstock.frontends.security.quotas import Spending
from penstock.groups.rebalance import KafkaGroupState
from penstock.groups.transactions import Claim, TransactionState
from penstock.model.access import ANY, Action
from penstock.model.info import BrokerInfo, Overview, StorageProblem
from penstock.model.message import Message, Receipt
from penstock.types import NAME_LENGTH_MAX
from penstock.wire.records import HEADER_BYTES, count_of

ALLOWED_MAX: Final = 10_000  # Answers that are remembered for an operation.
REFUSED_MAX: Final = 100  # Acts of one identity that are noted; or it could drown what admins did in its own.
LEADING: Final = frozenset({"create_topic", "alter_topic"})  # Their options may name another topic.
# Operations that create a missing topic, their first argument (broker/topic/missing.py).
CREATING: Final = frozenset(
    {
        "metadata", "publish", "publish_batch", "append", "append_batches", "schedule", "consumer",
        "batch_consumer",
    }
)  # fmt: skip

logger = logging.getLogger("penstock")

Outputs = list[tuple[str, Message]]


class GuardedOperations:
    """What one identity may ask of a broker; has every operation of ``LocalOperations``."""

    def __init__(self, identity: Identity, operations: LocalOperations, audit: Audit, clock: Clock) -> None:
        self.identity = identity
        self._operations = operations
        self._audit = audit
        self._spending = Spending(str(identity), identity.quota, clock)
        self._refused = 0  # Acts, so far.

    def __getattr__(self, name: str) -> Any:
        need = NEEDS.get(name)
        if need is None:
            raise AttributeError(f"{name} is not in NEEDS, so no front end may call it")
        guarded = self._guarded(name, need, getattr(self._operations, name))
        setattr(self, name, guarded)  # The next time it is found without this.
        return guarded

    def may(self, action: Action, topic: str | None, group: str | None = None) -> bool:
        """Whether grants and ACLs allow it."""
        return self.identity.permissions.allows(action, topic, group)

    def permit(self, outputs: Outputs) -> None:
        """Refuse messages that go out with an ack, or through a producer, if they may not."""
        for topic, _ in outputs:
            if not self.may("publish", topic):
                raise self._refusal(NEEDS["publish"], topic, None)
        if self._spending.limited:
            self._spending.spend(len(outputs), sum(_size(message) for _, message in outputs))

    def _wrapped(self, name: str, need: Need, operation: Callable[..., Any]) -> Callable[..., Any]:
        """The operation with what is done beside it."""
        if need.act:
            operation = self._noted(name, need, operation)
        if name in CREATING:
            operation = self._creating(operation)
        if name in LEADING:
            operation = self._led(name, need, operation)
        tend = TENDED.get(name)
        if tend is not None:
            operation = self._tended(tend, operation)
        if name in CLAIMED:
            operation = self._claiming(CLAIMED[name], operation)
        if name in COUNTED and self._spending.limited:
            operation = self._spent(COUNTED[name], operation)
        return operation

    def _guarded(self, name: str, need: Need, operation: Callable[..., Any]) -> Callable[..., Any]:
        operation = self._wrapped(name, need, operation)
        allowed: set[Any] = set()

        def of_topic(*arguments: Any) -> Any:
            topic = arguments[0]
            if topic not in allowed:
                self._check(name, need, topic, None)
                _remember(allowed, topic)
            return operation(*arguments)

        def of_place(*arguments: Any) -> Any:
            place = place_of(need, arguments)
            if place not in allowed:
                self._check(name, need, *place)
                _remember(allowed, *place)
            return operation(*arguments)

        return of_topic if need.topic == 0 and need.group is None and not need.by_id else of_place

    def _check(self, name: str, need: Need, topic: Any, group: Any) -> None:
        if self.identity.permissions.allows(need.action, topic, group, need.operation):
            return
        refusal = self._refusal(need, topic, group)
        if need.act and self._refused < REFUSED_MAX:
            self._refused += 1
            self._note(name, refusal.on, refusal.code)
        raise refusal

    def _refusal(self, need: Need, topic: Any, group: Any) -> Forbidden:
        places = [f"{kind} {name}" for kind, name in (("topic", topic), ("group", group)) if name is not None]
        on = ", ".join(places) or "the broker"
        return Forbidden(who=str(self.identity), operation=verb(need), on=on, role=ROLES[need.action])

    # What is done beside the operation itself.

    def _noted(self, name: str, need: Need, operation: Callable[..., Work[Any]]) -> Callable[..., Work[Any]]:
        def noted(*arguments: Any) -> Work[Any]:
            topic, group = place_of(need, arguments)
            on = str(arguments[0]) if topic is None else topic if group is None else f"{topic} {group}"
            try:
                result = yield from operation(*arguments)
            except PenstockError as error:
                self._note(name, on, error.code)
                raise
            self._note(name, on, DONE)
            return result

        return noted

    def _note(self, name: str, on: str, outcome: str) -> None:
        try:
            self._audit.note(str(self.identity), name, on, outcome)
        except PenstockError:  # The act is done, or refused, all the same.
            words = f"{name} by {self.identity} on {on}: {outcome}"
            logger.exception("this is not in the audit log: %s", words)

    def _led(self, name: str, need: Need, operation: Callable[..., Any]) -> Callable[..., Any]:
        """Whoever says where the dead letters of a topic go must be allowed to there, too."""

        def led(*arguments: Any) -> Any:
            target = arguments[1].get("dead_letter_topic")
            if target:
                self._check(name, need, target, None)
            return operation(*arguments)

        return led

    def _creating(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        """A topic that is missing is created by who may administer it; for all others it is not there."""

        def creating(*arguments: Any) -> Any:
            if self._operations.is_creatable(arguments[0]):
                return self._create_first(operation, arguments)
            return operation(*arguments)

        return creating

    def _create_first(self, operation: Callable[..., Work[Any]], arguments: tuple[Any, ...]) -> Work[Any]:
        yield from self.create_missing([(arguments[0], None)])
        return (yield from operation(*arguments))

    def create_missing(self, outputs: Sequence[tuple[str, Any]]) -> Work[None]:
        """Create the topics of these outputs that are missing."""
        need = NEEDS["auto_create_topic"]
        for topic, _ in outputs:
            if self._operations.is_creatable(topic):
                if not self.identity.permissions.allows(need.action, topic, None, need.operation):
                    raise TopicNotFound(topic=topic)
                yield from self.auto_create_topic(topic, {})

    @property
    def _who(self) -> str:
        return " ".join(self.identity.id)

    def _is_granted(self, name: str | None) -> bool:
        """Whether it may use a transactional id that is another's: an admin, or a grant names the id."""
        return self.may("admin", None) or any(
            ANY not in grant.groups and grant.allows("publish", None, name)
            for grant in self.identity.permissions.grants
        )

    def sees(self, state: TransactionState) -> bool:
        """Whether it may know of a transactional id: its own, nobody's, or one that it may use."""
        by_acl = self.identity.permissions.on_transactional_id(state.name, "describe")
        if by_acl is not None:
            return by_acl
        return state.known.owner in ("", self._who) or self._is_granted(state.name)

    def seen(self, names: list[str]) -> list[str]:
        """Of these transactional ids, those it may know of."""
        states = [now(self._operations.transaction(name)) for name in names]
        return [state.name for state in states if state is not None and self.sees(state)]

    def _claiming(self, at: int, operation: Callable[..., Any]) -> Callable[..., Any]:
        """Say who uses a transactional id, and whether a grant or an ACL names it, or it is an admin."""
        permissions = self.identity.permissions

        def claiming(*arguments: Any) -> Any:
            name = arguments[at]
            by_acl = None if name is None else permissions.on_transactional_id(name, "write")
            if by_acl is False:
                on = f"transactional id {name}"
                raise Forbidden(who=str(self.identity), operation="use", on=on, role="producer")
            return operation(*arguments, Claim(self._who, by_acl is True or self._is_granted(name)))

        return claiming

    def _tended(
        self, tend: Callable[["GuardedOperations", Any], Any], operation: Callable[..., Work[Any]]
    ) -> Callable[..., Work[Any]]:
        def tended(*arguments: Any) -> Work[Any]:
            return tend(self, (yield from operation(*arguments)))

        return tended

    def _spent(
        self, count: Callable[[tuple[Any, ...]], tuple[int, int]], operation: Callable[..., Any]
    ) -> Callable[..., Any]:
        def spent(*arguments: Any) -> Any:
            self._spending.spend(*count(arguments))
            return operation(*arguments)

        return spent


class GuardedProducer:
    """An idempotent producer, which may publish to some topics only."""

    def __init__(self, guard: GuardedOperations, inner: Any) -> None:
        self._guard = guard
        self._inner = inner
        self.producer_id: int = inner.producer_id

    def publish(self, topic: str, message: Message) -> Work[Receipt]:
        """Publish one message under the next number of its partition."""
        self._guard.permit([(topic, message)])
        return self._publish(topic, message)

    def _publish(self, topic: str, message: Message) -> Work[Receipt]:
        yield from self._guard.create_missing([(topic, message)])
        receipt: Receipt = yield from self._inner.publish(topic, message)
        return receipt


def _remember(allowed: set[Any], *place: str | None) -> None:
    if any(name is not None and len(name) > NAME_LENGTH_MAX for name in place):
        return  # It names nothing.
    if len(allowed) >= ALLOWED_MAX:
        allowed.clear()  # Whoever has so many topics can be asked again.
    allowed.add(place if len(place) > 1 else place[0])


# What an operation returns, as its caller may have it.


def _visible_names(guard: GuardedOperations, names: list[str]) -> list[str]:
    return [name for name in names if guard.may("describe", name)]


def _visible_counts(
    guard: GuardedOperations, counts: dict[tuple[str, int], int]
) -> dict[tuple[str, int], int]:
    return {place: count for place, count in counts.items() if guard.may("describe", place[0])}


def _visible_families(guard: GuardedOperations, families: list[Family]) -> list[Family]:
    """The broker's own, and those of topics and groups that may be described."""
    return [
        family._replace(
            samples=[(of, value) for of, value in family.samples if guard.may("describe", *of[:places])]
        )
        if (places := len([label for label in family.labels if label in ("topic", "group")]))
        else family
        for family in families
    ]


def _visible_lines(guard: GuardedOperations, overview: Overview) -> Overview:
    return Overview(
        topics=[line for line in overview.topics if guard.may("describe", line.topic)],
        groups=[line for line in overview.groups if guard.may("describe", line.topic, line.group)],
        waited=overview.waited,
        waited_sums=overview.waited_sums,
        waited_ms=overview.waited_ms,
        cost_ms=overview.cost_ms,
    )


def _visible_places(guard: GuardedOperations, info: BrokerInfo) -> BrokerInfo:
    """Where things are on the server's disk: for admins; where archived messages are, for who may read."""
    return msgspec.structs.replace(
        info,
        problems=_visible_problems(guard, info.problems),
        directory=info.directory if guard.may("admin", None) else "",
        lake=info.lake if guard.may("read", None) else "",
    )


def _visible_problems(guard: GuardedOperations, problems: list[StorageProblem]) -> list[StorageProblem]:
    """All for admins; for others those of topics that may be described, and not where they are on disk."""
    if guard.may("admin", None):
        return problems
    return [
        msgspec.structs.replace(problem, path="")
        for problem in problems
        if problem.topic is not None and guard.may("describe", problem.topic)
    ]


def _visible_errors(guard: GuardedOperations, errors: list[Any]) -> list[Any]:
    return [error for error in errors if guard.may("read", error.topic)]


def _visible_group_names(guard: GuardedOperations, names: list[str]) -> list[str]:
    return [name for name in names if guard.may("describe", None, name)]


def _visible_groups(guard: GuardedOperations, groups: list[KafkaGroupState]) -> list[KafkaGroupState]:
    return [state for state in groups if guard.may("describe", None, state.group)]


def _visible_state(guard: GuardedOperations, state: TransactionState | None) -> TransactionState | None:
    return state if state is not None and guard.sees(state) else None


def _permitting(guard: GuardedOperations, consumer: Any) -> Any:
    consumer.permit = guard.permit
    consumer.create_missing = guard.create_missing
    return consumer


TENDED: Final[dict[str, Callable[[GuardedOperations, Any], Any]]] = {
    "topics": _visible_names,
    "placed_topics": _visible_names,
    "queued_topics": _visible_names,
    "member_groups": _visible_groups,
    "configured_groups": _visible_group_names,
    "waiting": _visible_counts,
    "overview": _visible_lines,
    "stats": _visible_places,
    "metrics": _visible_families,
    "dead_letter_errors": _visible_errors,
    "transaction": _visible_state,
    "transactional_ids": GuardedOperations.seen,
    "consumer": _permitting,
    "batch_consumer": _permitting,
    "producer": GuardedProducer,
}


# Operations that are a transactional id's, and which of their arguments it is.
CLAIMED: Final = {
    "init_producer": 0,
    "enlist": 2,
    "append_in_transaction": 3,
    "enlist_group": 0,
    "enlist_commits": 3,
    "end_transaction": 0,
    "end_epoch": 0,
}


# How many messages a call publishes, and how many bytes.


def _size(message: Message | bytes) -> int:
    if isinstance(message, bytes):
        return len(message)
    headers = message.headers or {}
    return sum(map(len, (message.value or b"", message.key or b"", *headers, *headers.values())))


def _of_batches(batches: list[Any]) -> tuple[int, int]:
    count = sum(count_of(batch) for batch in batches if len(batch) >= HEADER_BYTES)
    return max(count, 1), sum(map(len, batches))


COUNTED: Final[dict[str, Callable[[tuple[Any, ...]], tuple[int, int]]]] = {
    "publish": lambda arguments: (1, _size(arguments[1])),
    "publish_batch": lambda arguments: (len(arguments[1]), sum(map(_size, arguments[1]))),
    "schedule": lambda arguments: (1, _size(arguments[1])),
    "stage": lambda arguments: _of_batches([arguments[1]]),
    "append": lambda arguments: _of_batches([arguments[2]]),
    "append_batches": lambda arguments: _of_batches([batch for _, batch in arguments[2]]),
    "append_records": lambda arguments: _of_batches([batch for _, batch in arguments[1]]),
    "append_in_transaction": lambda arguments: _of_batches([batch for _, batch in arguments[1]]),
}
