"""The permission that an operation requires; ``needs.py``, which is generated, has one for each."""

from typing import Final, NamedTuple

from penstock.model.access import Action, Operation, Role

# The least role that has an action.
ROLES: Final[dict[Action, Role]] = {
    "describe": "reader",
    "read": "reader",
    "publish": "producer",
    "consume": "consumer",
    "admin": "admin",
}


VERBS: Final[dict[Action, str]] = {
    "describe": "look at",
    "read": "read",
    "publish": "publish to",
    "consume": "consume from",
    "admin": "administer",
}


class Need(NamedTuple):
    """The permission that an operation needs, and whether its calls are audited."""

    action: Action
    topic: str | None = None  # The argument that names the topic ...
    group: str | None = None  # ... and the one that names the group.
    acl: Operation | None = None  # For ACLs: this operation instead of what the action means.
    audited: bool = False


def verb(need: Need) -> str:
    """What the caller wanted to do, for an error message."""
    return need.acl if need.acl in ("create", "delete") else VERBS[need.action]
