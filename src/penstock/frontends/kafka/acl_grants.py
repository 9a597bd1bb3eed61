"""ACLs and grants: the same thing in Kafka's words and in ours.

    grant of a user                              ACLs
    reader   on topics T                         READ on each topic
    producer on topics T                         WRITE on each topic
    consumer on topics T and groups G            READ on each topic, READ on each group
    admin    on topics T and groups G            ALL on each topic, ALL on each group
    admin    on all topics                       and ALL on the cluster
    reader, producer on groups G                 DESCRIBE on each group

A grant is on its topics *and* its groups, while Kafka's ACLs know nothing of each other: whoever may READ a
topic and READ a group may consume that topic in that group.  So ACLs that were made by Kafka's clients become
grants of their own, with all topics and all groups of a user in one: three at most, which have ``MARK`` among
their names and can be taken apart again.  Other grants are shown as ACLs, and changed by other means.

What Kafka has and a grant has not (DENY, addresses, operations one by one) is refused."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from penstock.access import ANY as ALL_NAMES
from penstock.access import Grant, Role
from penstock.errors import InvalidValue

# Kafka's numbers: of resources, ...
ANY: Final = 1
TOPIC, GROUP, CLUSTER = 2, 3, 4
# ... of patterns, ...
MATCH, LITERAL, PREFIXED = 2, 3, 4
# ... of operations, ...
ALL, READ, WRITE, DESCRIBE, DESCRIBE_CONFIGS = 2, 3, 4, 8, 10
# ... and of what they are for.
ALLOW: Final = 3

LOOKING: Final = (DESCRIBE, DESCRIBE_CONFIGS)

EVERYWHERE: Final = "*"  # In place of a host.
THE_CLUSTER: Final = "kafka-cluster"
MARK: Final = "__acl"  # No topic and no group has this name.
ROLES: Final = {  # What a role gives on topics, and on groups.
    "reader": (READ, DESCRIBE),
    "producer": (WRITE, DESCRIBE),
    "consumer": (READ, READ),
    "admin": (ALL, ALL),
}
MADE: Final = frozenset({(TOPIC, READ), (TOPIC, WRITE), (TOPIC, ALL), (GROUP, READ), (GROUP, ALL)})


class Acl(NamedTuple):
    """One of Kafka's, which allows something from anywhere."""

    kind: int
    name: str
    pattern: int
    operation: int

    @classmethod
    def of(cls, kind: int, pattern: str, operation: int) -> "Acl":
        """For a name of a grant."""
        if pattern != ALL_NAMES and pattern.endswith(ALL_NAMES):
            return cls(kind, pattern[:-1], PREFIXED, operation)
        return cls(kind, pattern, LITERAL, operation)

    @property
    def names(self) -> str:
        """The name, as a grant has it."""
        return f"{self.name}{ALL_NAMES}" if self.pattern == PREFIXED else self.name


def is_made(grant: Grant) -> bool:
    """Whether it is one of ours."""
    return MARK in grant.topics


def acls_of(grants: Iterable[Grant]) -> list[Acl]:
    """What grants give."""
    found: dict[Acl, None] = {}
    for grant in grants:
        on_topics, on_groups = ROLES[grant.role]
        for kind, names, operation in ((TOPIC, grant.topics, on_topics), (GROUP, grant.groups, on_groups)):
            found |= dict.fromkeys(Acl.of(kind, name, operation) for name in names if name != MARK)
        if grant.allows("admin", None):
            found[Acl(CLUSTER, THE_CLUSTER, LITERAL, ALL)] = None
    # What is there as a part of ALL is not told for itself.
    return [acl for acl in found if acl.operation == ALL or acl._replace(operation=ALL) not in found]


def grants_with(grants: Iterable[Grant], acls: Iterable[Acl]) -> list[Grant]:
    """The grants that were given otherwise, and those that these ACLs are."""
    of: dict[tuple[int, int], list[str]] = {}
    for acl in acls:
        of.setdefault((acl.kind, acl.operation), []).append(acl.names)
    all_topics, all_groups = of.get((TOPIC, ALL), []), of.get((GROUP, ALL), [])
    read, consumed = of.get((TOPIC, READ), []), of.get((GROUP, READ), [])
    made = [grant for grant in grants if not is_made(grant)]
    if all_topics or all_groups:
        made.append(Grant(role="admin", topics=[MARK, *all_topics], groups=[MARK, *all_groups]))
    if (TOPIC, WRITE) in of:
        made.append(Grant(role="producer", topics=[MARK, *of[TOPIC, WRITE]], groups=[MARK]))
    if read or consumed:
        groups = [*consumed, *all_groups]
        role: Role = "consumer" if groups else "reader"
        made.append(Grant(role=role, topics=[MARK, *read, *all_topics], groups=[MARK, *groups]))
    return made


def is_implied(acl: Acl, acls: Iterable[Acl]) -> bool:
    """Whether it is one to look at something, by somebody who may do more with the same."""
    return acl.operation in LOOKING and any(
        other[:3] == acl[:3] and other.operation in (READ, WRITE, ALL) for other in acls
    )


def check(acl: Acl) -> None:
    """Refuse what no grant can be."""
    if (acl.kind, acl.operation) not in MADE:
        why = "there are READ, WRITE and ALL on topics, READ and ALL on groups, and DESCRIBE beside these"
        raise InvalidValue(name="acl", value=(acl.kind, acl.operation), why=why)
    star = ALL_NAMES in acl.name and (acl.name, acl.pattern) != (ALL_NAMES, LITERAL)  # It is part of no name.
    if acl.pattern not in (LITERAL, PREFIXED) or acl.name in ("", MARK) or star:
        raise InvalidValue(name="acl", value=acl.name, why="it is on a name, or on all that begin with one")
    Grant(role="reader", topics=[acl.names])  # Refuses what is no name.
