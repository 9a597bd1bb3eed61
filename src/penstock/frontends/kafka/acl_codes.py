"""Kafka's numbers for what an ACL consists of; 1 stands for any of them in a filter."""

from typing import Final

from penstock.model.access import Operation, Resource

ANY: Final = 1

RESOURCE_CODES: Final[dict[Resource, int]] = {"topic": 2, "group": 3, "cluster": 4, "transactional_id": 5}
RESOURCES: Final = {code: resource for resource, code in RESOURCE_CODES.items()}

MATCH, LITERAL, PREFIXED = 2, 3, 4  # Patterns; MATCH is for filters only.

OPERATION_CODES: Final[dict[Operation, int]] = {
    "all": 2,
    "read": 3,
    "write": 4,
    "create": 5,
    "delete": 6,
    "alter": 7,
    "describe": 8,
    "cluster_action": 9,
    "describe_configs": 10,
    "alter_configs": 11,
    "idempotent_write": 12,
}
OPERATIONS: Final = {code: operation for operation, code in OPERATION_CODES.items()}

DENY, ALLOW = 2, 3

EVERYWHERE: Final = "*"  # In place of a host.
