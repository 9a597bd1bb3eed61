"""The form of an entry in ``spec.py``: everything about an operation except its code.

An operation for programs is declared as a method with its arguments, result and docstring.  One that only
front ends call is declared by its name: its arguments have types of the broker, which this layer must not
import, so they are taken from its method in ``broker/``.  Arguments are always referred to by name.
"""

from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar

import msgspec

from penstock.model.access import Action
from penstock.model.access import Operation as AclOperation
from penstock.operations.call import NOT_REPEATED, RetryClass

F = TypeVar("F", bound=Callable[..., Any])

Exposure = Literal[
    "call",  # Programs; clients call it by name.
    "program",  # Programs; clients have a separate request for it.
    "front ends",  # Only the front ends of a server.
]

Route = Literal[
    "local",  # This node: for state that all nodes have, or if the front end finds the owner itself.
    "partition",  # The owner of the argument ``partition`` of the topic ...
    "partition or topic",  # ... or, if that is None, every owner of the topic's partitions.
    "first partition",  # The owner of the topic's partition 0.
    "id",  # The owner of the partition in an id such as orders:0:17.
    "topic",  # Every owner of the topic's partitions, and a merge.
    "cluster",  # Every node, and a merge.
    "coordinator",  # The coordinator of the group: clients find it, and other nodes refuse.
    "transaction coordinator",  # The same for a transactional id.
    "written by hand",  # In cluster/routing/router.py.
]


class OperationEntry(msgspec.Struct, frozen=True):
    """One operation.  Called with a method, as a decorator, it declares the operation of that name."""

    action: Action  # The required permission; the fields below define on what.
    name: str = ""
    function: Callable[..., Any] | None = None  # Its declaration, if it is for programs.
    exposure: Exposure = "call"
    waits: bool = True  # False: a plain method, which returns its result at once, on any node of a cluster.
    facade: bool = True  # False: its method in api/aio.py is written by hand.
    client: bool = True  # False: its method in client/operations.py is written by hand.

    # Permission.
    topic: str | None = None  # The argument that names the topic ...
    group: str | None = None  # ... and the one that names the group.
    by_id: bool = False  # The topic is the first part of an id such as orders:0:17.
    by_subject: bool = False  # The topic is that of a schema's subject such as orders-value.
    acl: AclOperation | None = None  # For ACLs: this operation instead of that of the action.
    dead_letter_topic_in: str | None = None  # Topic options, whose dead letter topic is checked as well.
    transactional_id: str | None = None  # The operation acts for this transactional id.

    # Other tasks of the guard.
    audit: tuple[str, ...] = ()  # It is written to the audit log, with these arguments.
    metered: str | None = None  # The argument with the messages that count for the quota.
    creates_topic: bool = False  # The topic is created if it is missing and the caller may create it.
    result_filter: str | None = None  # In frontends/security/results.py: removes what the caller may not see.

    # A cluster.
    route: Route = "local"  # Which node executes it.
    merge: str = "nothing"  # In cluster/routing/merging.py: merges the results of several nodes.

    # The client.
    retry: RetryClass = NOT_REPEATED
    wait_ms: int = 0

    def __call__(self, function: F) -> F:
        name = function.__name__
        OPERATIONS[name] = msgspec.structs.replace(self, name=name, function=function)
        return function


OPERATIONS: Final[dict[str, OperationEntry]] = {}

operation: Final = OperationEntry


def server_operation(name: str, entry: OperationEntry) -> None:
    """Declare an operation whose signature is that of its method in ``broker/``."""
    exposure: Exposure = "program" if entry.exposure == "program" else "front ends"
    OPERATIONS[name] = msgspec.structs.replace(entry, name=name, exposure=exposure)
