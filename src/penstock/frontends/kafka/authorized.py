"""What a client may do with a resource, as Kafka reports it: a bit for each operation.

On a server without logins everybody may do everything."""

from collections.abc import Mapping
from typing import Any, Final

from penstock.frontends.kafka.acl_codes import OPERATION_CODES
from penstock.frontends.kafka.call import KafkaCall
from penstock.model.access import Action, Operation

NOT_ASKED: Final = -(2**31)  # In place of the bits.

Operations = Mapping[Action, tuple[Operation, ...]]  # What each of our actions is for Kafka.

ON_TOPIC: Final[Operations] = {
    "describe": ("describe", "describe_configs"),
    "read": ("read",),
    "publish": ("write",),
    "admin": ("create", "delete", "alter", "alter_configs"),
}
ON_GROUP: Final[Operations] = {
    "describe": ("describe", "describe_configs"),
    "consume": ("read", "delete"),
    "admin": ("alter_configs",),
}
ON_CLUSTER: Final[Operations] = {
    "describe": ("describe", "describe_configs"),
    "publish": ("idempotent_write",),
    "admin": ("create", "alter", "alter_configs", "cluster_action"),
}


def authorized(
    call: KafkaCall[Any],
    on: Operations,
    *,
    topic: str | None = None,
    group: str | None = None,
    asked: bool = True,
) -> int:
    if not asked:
        return NOT_ASKED
    permissions = call.session.identity.permissions
    return sum(
        1 << OPERATION_CODES[operation]
        for action, operations in on.items()
        for operation in operations
        if not call.shared.gateway.required or permissions.allows(action, topic, group, operation)
    )
