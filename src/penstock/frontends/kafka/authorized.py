"""What whoever asks may do with something, as Kafka tells it: a bit for each operation.

Where nobody logs in, everybody may do everything."""

from collections.abc import Mapping
from typing import Any, Final

from penstock.access import Action
from penstock.frontends.kafka.call import Call

# Kafka's numbers of operations.
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS = range(3, 12)
IDEMPOTENT_WRITE: Final = 12

NOT_ASKED: Final = -(2**31)  # In place of the bits.

Operations = Mapping[Action, tuple[int, ...]]  # What each of our actions lets somebody do.

ON_TOPIC: Final[Operations] = {
    "describe": (DESCRIBE, DESCRIBE_CONFIGS),
    "read": (READ,),
    "publish": (WRITE,),
    "admin": (CREATE, DELETE, ALTER, ALTER_CONFIGS),
}
ON_GROUP: Final[Operations] = {
    "describe": (DESCRIBE, DESCRIBE_CONFIGS),
    "consume": (READ, DELETE),
    "admin": (ALTER_CONFIGS,),
}
ON_CLUSTER: Final[Operations] = {
    "describe": (DESCRIBE, DESCRIBE_CONFIGS),
    "publish": (IDEMPOTENT_WRITE,),
    "admin": (CREATE, ALTER, ALTER_CONFIGS, CLUSTER_ACTION),
}


def authorized(
    call: Call[Any], on: Operations, *, topic: str | None = None, group: str | None = None, asked: bool = True
) -> int:
    """The bits; ``NOT_ASKED`` if nobody wants to know."""
    if not asked:
        return NOT_ASKED
    grants = call.session.identity.grants
    bits = 0
    for action, operations in on.items():
        if not call.shared.doors.required or any(grant.allows(action, topic, group) for grant in grants):
            bits |= sum(1 << operation for operation in operations)
    return bits
