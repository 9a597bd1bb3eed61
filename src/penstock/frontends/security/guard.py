"""Checks what one identity may do: the part of ``GuardedOperations`` that is written by hand.

    front end ──> GuardedOperations ── NEEDS[name]: may the identity do this, on this topic and group?
                    (guarded.py)         no ──> Forbidden; over the quota ──> QuotaExceeded
                        └──> LocalOperations

``guarded.py`` is generated from ``operations/spec.py`` and has a method for every
operation, which calls the methods of ``Guard`` that its entry asks for.  An
operation without an entry is no attribute of it, so front ends cannot call it.
Results are filtered where they would show other topics (``results.py``).

The check is made before anything is begun, and its result is remembered by topic
and group: asking again costs a lookup in a set.  Grants do not change under a
guard: after a change the identity gets a new one, and the connections that use
the old one are closed (``gateway.py``).
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, ParamSpec, TypeVar

from penstock.broker.frontend import DONE, Audit, LocalOperations, Steps
from penstock.clock import Clock
from penstock.config.broker import TopicOptions
from penstock.errors import Forbidden, PenstockError, TopicNotFound
from penstock.frontends.security.identity import Identity
from penstock.frontends.security.need import ROLES, Need, verb
from penstock.frontends.security.needs import NEEDS
from penstock.frontends.security.quotas import Spending
from penstock.groups.transactions import Claim, TransactionState
from penstock.model.access import ANY, Action
from penstock.model.message import Message
from penstock.model.schemas import NewSchema, subject_topic
from penstock.types import NAME_LENGTH_MAX
from penstock.wire.records import HEADER_BYTES, count_of

ALLOWED_MAX: Final = 10_000  # Answers that are remembered for an operation.
REFUSED_MAX: Final = 100  # Refusals of one identity in the audit log; or it could drown what admins did.

logger = logging.getLogger("penstock")

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")

Outputs = list[tuple[str, Message]]


class Guard:
    """The permissions, the quota and the audit log of one identity."""

    def __init__(self, identity: Identity, operations: LocalOperations, audit: Audit, clock: Clock) -> None:
        self.identity = identity
        self._operations = operations
        self._audit = audit
        self._spending = Spending(str(identity), identity.quota, clock)
        self._refused = 0  # Refusals in the audit log, so far.
        # What was allowed, by operation: a topic, or a topic and a group.
        self._allowed: defaultdict[str, set[Any]] = defaultdict(set)
        self._limited = self._spending.limited

    # Permissions.

    def may(self, action: Action, topic: str | None, group: str | None = None) -> bool:
        """Whether grants and ACLs allow the operation."""
        return self.identity.permissions.allows(action, topic, group)

    def permit(self, outputs: Outputs) -> None:
        """Refuse messages published with an ack or by a producer, unless their topics are allowed."""
        for topic, _ in outputs:
            if not self.may("publish", topic):
                raise self._refusal(NEEDS["publish"], topic, None)
        if self._limited:
            self._spending.spend(len(outputs), sum(_size(message) for _, message in outputs))

    def _check(self, name: str, topic: Any = None, group: Any = None) -> None:
        """Raise ``Forbidden`` unless the operation is allowed on this topic and group."""
        if (topic, group) not in self._allowed[name]:
            self._check_permissions(name, topic, group)
            _remember(self._allowed[name], (topic, group), topic, group)

    def _check_topic(self, name: str, topic: Any) -> None:
        """``_check`` for a topic that is not in the cache of allowed ones, where the caller has looked."""
        self._check_permissions(name, topic, None)
        _remember(self._allowed[name], topic, topic)

    def _check_permissions(self, name: str, topic: Any, group: Any) -> None:
        need = NEEDS[name]
        if self.identity.permissions.allows(need.action, topic, group, need.acl):
            return
        refusal = self._refusal(need, topic, group)
        if need.audited and self._refused < REFUSED_MAX:
            self._refused += 1
            self._note(name, refusal.on, refusal.code)
        raise refusal

    def _check_references(self, schema: NewSchema) -> None:
        """Check permissions on referenced schemas, whose contents appear in errors and differences."""
        for each in schema.references:
            self._check("schema", subject_topic(each.subject))

    def _check_dead_letter_topic(self, name: str, options: TopicOptions) -> None:
        """Check the permission on a dead-letter topic, which must be that on the topic itself."""
        target = options.get("dead_letter_topic")
        if target:
            self._check_permissions(name, target, None)

    def _refusal(self, need: Need, topic: Any, group: Any) -> Forbidden:
        resources = [
            f"{kind} {name}" for kind, name in (("topic", topic), ("group", group)) if name is not None
        ]
        on = ", ".join(resources) or "the broker"
        return Forbidden(who=str(self.identity), operation=verb(need), on=on, role=ROLES[need.action])

    # The audit log.

    @contextmanager
    def _auditing(self, name: str, *on: object) -> Iterator[None]:
        """Write the outcome of the block to the audit log."""
        subject = " ".join(str(each) for each in on if each is not None)
        try:
            yield
        except PenstockError as error:
            self._note(name, subject, error.code)
            raise
        self._note(name, subject, DONE)

    def _audited(
        self,
        name: str,
        on: tuple[object, ...],
        operation: Callable[P, Steps[T]],
        *args: P.args,
        **options: P.kwargs,
    ) -> Steps[T]:
        with self._auditing(name, *on):
            return (yield from operation(*args, **options))

    def _note(self, name: str, on: str, outcome: str) -> None:
        try:
            self._audit.note(str(self.identity), name, on, outcome)
        except PenstockError:  # It is done, or refused, nevertheless.
            words = f"{name} by {self.identity} on {on}: {outcome}"
            logger.exception("this is not in the audit log: %s", words)

    # Missing topics.

    def create_missing(self, outputs: Sequence[tuple[str, Any]]) -> Steps[None]:
        """Create the missing topics of these outputs; without permission, they do not exist."""
        for topic, _ in outputs:
            if self._operations.is_creatable(topic):
                need = NEEDS["auto_create_topic"]
                if not self.identity.permissions.allows(need.action, topic, None, need.acl):
                    raise TopicNotFound(topic=topic)
                create = self._operations.auto_create_topic
                yield from self._audited("auto_create_topic", (topic,), create, topic, {})

    def _after_creating(
        self, topic: str, operation: Callable[P, Steps[T]], *args: P.args, **options: P.kwargs
    ) -> Steps[T]:
        """Create the missing topic, then run the operation."""
        yield from self.create_missing([(topic, None)])
        return (yield from operation(*args, **options))

    # Transactional ids.

    @property
    def _who(self) -> str:
        return " ".join(self.identity.id)

    def _is_granted(self, name: str | None) -> bool:
        """Whether it may use a transactional id of another identity: an admin, or a grant names the id."""
        return self.may("admin", None) or any(
            ANY not in grant.groups and grant.allows("publish", None, name)
            for grant in self.identity.permissions.grants
        )

    def sees(self, state: TransactionState) -> bool:
        """Whether the caller may see a transactional id: its own, an unowned one, or one that it may use."""
        by_acl = self.identity.permissions.on_transactional_id(state.name, "describe")
        if by_acl is not None:
            return by_acl
        return state.known.owner in ("", self._who) or self._is_granted(state.name)

    def seen(self, names: list[str]) -> list[str]:
        """The transactional ids that the caller may see."""
        states = [self._operations.transaction(name) for name in names]
        return [state.name for state in states if state is not None and self.sees(state)]

    def _claim(self, name: str | None) -> Claim:
        """The claim of the caller on a transactional id: by a grant, by an ACL, or as an admin."""
        by_acl = None if name is None else self.identity.permissions.on_transactional_id(name, "write")
        if by_acl is False:
            on = f"transactional id {name}"
            raise Forbidden(who=str(self.identity), operation="use", on=on, role="producer")
        return Claim(self._who, by_acl is True or self._is_granted(name))

    # The quota.

    def _meter_message(self, message: Message) -> None:
        self._spending.spend(1, _size(message))

    def _meter_messages(self, messages: Any) -> None:
        self._spending.spend(len(messages), sum(map(_size, messages)))

    def _meter_batch(self, batch: bytes) -> None:
        self._spending.spend(*_of_batches([batch]))

    def _meter_batches(self, batches: list[tuple[int, bytes]]) -> None:
        self._spending.spend(*_of_batches([batch for _, batch in batches]))


def filtered(keep: Callable[[Guard, T], R], guard: Guard, steps: Steps[T]) -> Steps[R]:
    """The result of an operation, as the caller may see it."""
    return keep(guard, (yield from steps))


def topic_of(identity: Any) -> Any:
    """The topic in the id of a message or of a scheduled one, such as orders:0:17."""
    return identity.partition(":")[0] if isinstance(identity, str) else identity


def _remember(allowed: set[Any], key: Any, *names: str | None) -> None:
    if any(name is not None and len(name) > NAME_LENGTH_MAX for name in names):
        return  # Nothing can have such a name.
    if len(allowed) >= ALLOWED_MAX:
        allowed.clear()  # They are checked again, which is cheap.
    allowed.add(key)


def _size(message: Message | bytes) -> int:
    if isinstance(message, bytes):
        return len(message)
    headers = message.headers or {}
    return sum(map(len, (message.value or b"", message.key or b"", *headers, *headers.values())))


def _of_batches(batches: list[Any]) -> tuple[int, int]:
    """The number of messages in these record batches, and of bytes."""
    count = sum(count_of(batch) for batch in batches if len(batch) >= HEADER_BYTES)
    return max(count, 1), sum(map(len, batches))
