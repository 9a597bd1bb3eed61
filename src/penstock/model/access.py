"""Permissions: roles, grants, ACLs and quotas, and the public facts of API keys and users.

    a key or a user
      grants   a role on topics and groups, each by its name or as "prefix*"
      ACLs     single operations that Kafka's admin clients allow or deny
      quota    limits on rates and connections

    role        describe   read   publish   consume   admin
    reader         x        x
    producer       x                 x
    consumer       x        x                  x
    admin          x        x        x         x        x

``Permissions`` decides by both.  A request is allowed if one grant covers all of it,
or if ACLs allow an operation on each resource that it touches (``requirements``), and
if no ACL denies it.  An admin of all topics is what Kafka calls a super user: ACLs do
not apply to it, so the last admin cannot be locked out.

Plain values and pure functions.  The broker stores them (``broker/access/access.py``), the
front ends enforce them (``frontends/security``).
"""

import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from penstock.errors import InvalidValue
from penstock.types import whole_number

Role = Literal["admin", "producer", "consumer", "reader"]
Action = Literal["describe", "read", "publish", "consume", "admin"]

ANY: Final = "*"
PATTERNS_MAX: Final = 1000  # Of one grant.
GRANTS_MAX: Final = 1000  # Of one key or user.

ACTIONS: Final[Mapping[str, frozenset[Action]]] = {
    "reader": frozenset({"describe", "read"}),
    "producer": frozenset({"describe", "publish"}),
    "consumer": frozenset({"describe", "read", "consume"}),
    "admin": frozenset({"describe", "read", "publish", "consume", "admin"}),
}

_PATTERN: Final = re.compile(r"[A-Za-z0-9._-]{1,200}\*?|\*")


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A role on some topics; for consumers, also on some groups."""

    role: Role
    topics: Sequence[str] = (ANY,)
    groups: Sequence[str] = (ANY,)

    def __post_init__(self) -> None:
        if self.role not in ACTIONS:
            raise InvalidValue(name="role", value=self.role, why=f"use one of {', '.join(ACTIONS)}")
        for name, patterns in (("topics", self.topics), ("groups", self.groups)):
            if isinstance(patterns, str) or not 0 < len(patterns) <= PATTERNS_MAX:
                raise InvalidValue(name=name, value=patterns, why=f"name 1 to {PATTERNS_MAX} of them")
            for pattern in patterns:
                if not isinstance(pattern, str) or not _PATTERN.fullmatch(pattern):
                    why = "write a name, the beginning of names with * behind it, or * for all"
                    raise InvalidValue(name=name, value=pattern, why=why)
            msgspec.structs.force_setattr(self, name, tuple(patterns))  # So that equal grants are equal.

    def allows(self, action: Action, topic: str | None, group: str | None = None) -> bool:
        """Whether the grant is enough; None stands for no particular topic or group.

        To administer what belongs to no topic, such as keys, one must be an admin of all topics.
        """
        if action not in ACTIONS[self.role]:
            return False
        of_topic = action != "admin" or ANY in self.topics if topic is None else matches(self.topics, topic)
        return of_topic and (group is None or matches(self.groups, group))


def is_super_user(grants: Iterable[Grant]) -> bool:
    """Whether one of the grants is that of an admin of all topics, who may do everything."""
    return any(grant.allows("admin", None) for grant in grants)


def matches(patterns: Sequence[str], name: str) -> bool:
    """Whether one of the patterns is the name, or the beginning of it with a * behind."""
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith(ANY) else name == pattern for pattern in patterns
    )


Resource = Literal["topic", "group", "cluster", "transactional_id"]
Operation = Literal[
    "all", "read", "write", "create", "delete", "alter", "describe",
    "cluster_action", "describe_configs", "alter_configs", "idempotent_write",
]  # fmt: skip

THE_CLUSTER: Final = "kafka-cluster"  # The only name that the resource "cluster" has.
EVERY_USER: Final = "User:*"
ACLS_MAX: Final = 10_000  # All of them are in one file, which is written as a whole.
PRINCIPAL_LENGTH_MAX: Final = 300
ACL_NAME_LENGTH_MAX: Final = 249  # Kafka's limit for topics; ours is lower.
CLUSTER_NAMES: Final = ((THE_CLUSTER, False), (ANY, False))

OPERATIONS: Final[Mapping[Resource, frozenset[Operation]]] = {
    "topic": frozenset(
        {"all", "read", "write", "create", "delete", "alter", "describe", "describe_configs", "alter_configs"}
    ),
    "group": frozenset({"all", "read", "delete", "describe", "describe_configs", "alter_configs"}),
    "cluster": frozenset(
        {
            "all", "create", "alter", "describe", "cluster_action", "describe_configs", "alter_configs",
            "idempotent_write",
        }
    ),
    "transactional_id": frozenset({"all", "write", "describe"}),
}  # fmt: skip
# To allow one of these also allows to look.
IMPLIED: Final[Mapping[Operation, frozenset[Operation]]] = {
    "describe": frozenset({"read", "write", "delete", "alter"}),
    "describe_configs": frozenset({"alter_configs"}),
}


class Acl(msgspec.Struct, frozen=True):
    """One of Kafka's access control entries: principal, resource and operation."""

    principal: str  # User:<name>, Key:<id>, or User:* for everybody who logs in.
    resource: Resource
    name: str
    prefixed: bool  # On all resources whose name begins like this; otherwise "*" stands for all.
    operation: Operation
    allow: bool = True

    def __post_init__(self) -> None:
        kind, colon, who = self.principal.partition(":")
        if not colon or not who or kind not in ("User", "Key") or len(self.principal) > PRINCIPAL_LENGTH_MAX:
            why = "write User:<name>, User:* or Key:<id>"
            raise InvalidValue(name="principal", value=self.principal, why=why)
        if self.operation not in OPERATIONS[self.resource]:
            known = ", ".join(sorted(OPERATIONS[self.resource]))
            why = f"operations on a {self.resource} are {known}"
            raise InvalidValue(name="operation", value=self.operation, why=why)
        if not 0 < len(self.name) <= ACL_NAME_LENGTH_MAX or (self.prefixed and self.name == ANY):
            why = f"it is a name or a prefix of 1 to {ACL_NAME_LENGTH_MAX} characters, or a literal * for all"
            raise InvalidValue(name="resource name", value=self.name, why=why)
        if self.resource == "cluster" and (self.name, self.prefixed) not in CLUSTER_NAMES:
            raise InvalidValue(name="resource name", value=self.name, why=f"the cluster is {THE_CLUSTER}")

    def names(self, resource: Resource, name: str) -> bool:
        """Whether the entry is on that resource."""
        if self.resource != resource:
            return False
        return name.startswith(self.name) if self.prefixed else self.name in (ANY, name)

    def covers(self, operation: Operation) -> bool:
        """Whether the operation that the entry allows or denies includes this one."""
        if self.operation in ("all", operation):
            return True
        return self.allow and self.operation in IMPLIED.get(operation, ())


# What a role gives on topics, and on groups.
ROLE_OPERATIONS: Final[Mapping[str, tuple[Operation, Operation]]] = {
    "reader": ("read", "describe"),
    "producer": ("write", "describe"),
    "consumer": ("read", "read"),
    "admin": ("all", "all"),
}


def acls_of(principal: str, grants: Iterable[Grant]) -> list[Acl]:
    """The ACLs that are equivalent to grants.

    A grant is on its topics *and* its groups, which ACLs cannot express: ``consumer:orders:billing`` and
    ``consumer:bills:audit`` give the same four ACLs as two grants with the groups exchanged.
    """
    found: dict[Acl, None] = {}
    for grant in grants:
        on_topics, on_groups = ROLE_OPERATIONS[grant.role]
        scopes: tuple[tuple[Resource, Sequence[str], Operation], ...] = (
            ("topic", grant.topics, on_topics),
            ("group", grant.groups, on_groups),
        )
        for resource, patterns, operation in scopes:
            for pattern in patterns:
                prefixed = pattern != ANY and pattern.endswith(ANY)
                name = pattern[:-1] if prefixed else pattern
                found[Acl(principal, resource, name, prefixed, operation)] = None
        if is_super_user([grant]):
            found[Acl(principal, "cluster", THE_CLUSTER, False, "all")] = None
    # An operation on what the same principal may do everything with is not listed beside that.
    everything = {acl for acl in found if acl.operation == "all"}
    return [
        acl
        for acl in found
        if acl in everything or msgspec.structs.replace(acl, operation="all") not in everything
    ]


class Requirement(NamedTuple):
    """A resource, and the operations of which any one is enough."""

    resource: Resource
    name: str
    operations: tuple[Operation, ...]


ON_TOPIC: Final[Mapping[Action, tuple[Operation, ...]]] = {
    "describe": ("describe",),
    "read": ("read",),
    "publish": ("write",),
    "consume": ("read",),
    "admin": ("alter", "alter_configs"),
}
ON_GROUP: Final[Mapping[Action, tuple[Operation, ...]]] = {
    "describe": ("describe",),
    "read": ("read",),
    "publish": ("read",),
    "consume": ("read",),
    "admin": ("alter_configs",),
}


def requirements(
    action: Action, topic: str | None, group: str | None, operation: Operation | None
) -> Iterator[Requirement]:
    """What ACLs must allow; ``operation`` replaces the default one on the most specific resource.

    Nothing, for an action other than ``admin`` that is about no topic and no group in particular.
    """
    special = None if operation is None else (operation,)
    if topic is not None:
        usual = ON_TOPIC[action]
        yield Requirement("topic", topic, usual if special is None or group is not None else special)
    if group is not None:
        yield Requirement("group", group, special or ON_GROUP[action])
    if topic is None and group is None and (special or action == "admin"):
        yield Requirement("cluster", THE_CLUSTER, special or ("alter",))


class Permissions:
    """The permissions of one identity, by its grants and its ACLs."""

    def __init__(self, grants: Iterable[Grant] = (), acls: Iterable[Acl] = ()) -> None:
        self.grants = tuple(grants)
        self.super_user = is_super_user(self.grants)
        listed = () if self.super_user else tuple(acls)
        self._allowing = [acl for acl in listed if acl.allow]
        self._denying = [acl for acl in listed if not acl.allow]

    def allows(
        self,
        action: Action,
        topic: str | None,
        group: str | None = None,
        operation: Operation | None = None,
    ) -> bool:
        """Whether the identity may do this; None stands for no particular topic or group."""
        granted = any(grant.allows(action, topic, group) for grant in self.grants)
        if not (self._allowing or self._denying):
            return granted
        needed = list(requirements(action, topic, group, operation))
        if any(self._denied(one) for one in needed):
            return False
        if granted:
            return True
        return all(map(self._allowed, needed)) if needed else self._allows_some(action)

    def on_transactional_id(self, name: str, operation: Operation) -> bool | None:
        """What ACLs say about a transactional id: allowed, denied, or nothing (None)."""
        wanted = Requirement("transactional_id", name, (operation,))
        if self._denied(wanted):
            return False
        return True if self._allowed(wanted) else None

    def _allowed(self, wanted: Requirement) -> bool:
        if wanted.resource == "topic" and "create" in wanted.operations:
            on_cluster = Requirement("cluster", THE_CLUSTER, ("create",))
            by_cluster = _is_covered(self._allowing, on_cluster) and not self._denied(on_cluster)
            return by_cluster or _is_covered(self._allowing, wanted)
        return _is_covered(self._allowing, wanted)

    def _denied(self, wanted: Requirement) -> bool:
        return bool(self._denying) and all(
            _is_covered(self._denying, wanted._replace(operations=(one,))) for one in wanted.operations
        )

    def _allows_some(self, action: Action) -> bool:
        """Whether it may do this with any resource, as Kafka requires of idempotent producers."""
        if action == "describe":
            return bool(self._allowing)
        return any(
            (acl.resource == "topic" and acl.covers(ON_TOPIC[action][0]))
            or (action == "publish" and acl.resource == "cluster" and acl.covers("idempotent_write"))
            for acl in self._allowing
        )


def _is_covered(acls: Iterable[Acl], wanted: Requirement) -> bool:
    return any(
        acl.names(wanted.resource, wanted.name) and any(map(acl.covers, wanted.operations)) for acl in acls
    )


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a key or user, over all its connections; None is no limit."""

    bytes_per_second: int | None = None  # Published.
    messages_per_second: int | None = None  # Published.
    connections: int | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None:
                whole_number(name, value, 1)


class KeyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An API key, without its secret, which only its owner has."""

    id: str
    name: str  # What it is for.
    grants: list[Grant]
    quota: Quota
    created_ms: int


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """A new key; its secret is shown only this once."""

    id: str
    name: str
    key: str  # pk_<id>_<secret>


def signing_secret(secret: str) -> str:
    """The secret access key of an API key (AWS Signature Version 4); it does not reveal the key's secret."""
    derived = hmac.digest(secret.encode("utf-8", "surrogatepass"), b"penstock sigv4", "sha256")
    return urlsafe_b64encode(derived).decode().rstrip("=")


class UserInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A user, without the password."""

    name: str
    grants: list[Grant]
    quota: Quota
    created_ms: int


def grants_of(given: Any) -> list[Grant]:
    """Grants as a program passes them, or as they are decoded."""
    try:
        grants = msgspec.convert(given, list[Grant])
    except msgspec.ValidationError as error:
        raise InvalidValue(name="grants", value=given, why=str(error)) from None
    if not 0 < len(grants) <= GRANTS_MAX:
        raise InvalidValue(name="grants", value=len(grants), why=f"1 to {GRANTS_MAX} say what it may do")
    return grants


def quota_of(given: Any) -> Quota:
    """A quota as a program passes it, or as it is decoded."""
    try:
        return Quota() if given is None else msgspec.convert(given, Quota)
    except msgspec.ValidationError as error:
        raise InvalidValue(name="quota", value=given, why=str(error)) from None
