"""Who may do what: roles, grants, quotas, and what is told of API keys and users.

    a key or a user
      grants   a role on topics and groups, each by its name or as "prefix*"
      quota    how much of it

    role        describe   read   publish   consume   admin
    reader         x        x
    producer       x                 x
    consumer       x        x                  x
    admin          x        x        x         x        x

Plain values.  The broker keeps them (``broker/access.py``), the front ends hold
everybody to them (``frontends/security``).
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

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
        """Whether this is enough; None stands for no topic, or no group, in particular.

        To administer what belongs to no topic, such as keys, one must be an admin of all topics.
        """
        if action not in ACTIONS[self.role]:
            return False
        of_topic = action != "admin" or ANY in self.topics if topic is None else matches(self.topics, topic)
        return of_topic and (group is None or matches(self.groups, group))


def matches(patterns: Sequence[str], name: str) -> bool:
    """Whether one of the patterns is the name, or the beginning of it with a * behind."""
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith(ANY) else name == pattern for pattern in patterns
    )


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """How much a key or a user may do, over all its connections; None is no limit."""

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
    """A key that was just made: the only time that its secret is told."""

    id: str
    name: str
    key: str  # pk_<id>_<secret>


class UserInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A user, without the password."""

    name: str
    grants: list[Grant]
    quota: Quota
    created_ms: int


def grants_of(given: Any) -> list[Grant]:
    """Grants as a program gave them, or as they travelled."""
    try:
        grants = msgspec.convert(given, list[Grant])
    except msgspec.ValidationError as error:
        raise InvalidValue(name="grants", value=given, why=str(error)) from None
    if not 0 < len(grants) <= GRANTS_MAX:
        raise InvalidValue(name="grants", value=len(grants), why=f"1 to {GRANTS_MAX} say what it may do")
    return grants


def quota_of(given: Any) -> Quota:
    """A quota as a program gave it, or as it travelled."""
    try:
        return Quota() if given is None else msgspec.convert(given, Quota)
    except msgspec.ValidationError as error:
        raise InvalidValue(name="quota", value=given, why=str(error)) from None
