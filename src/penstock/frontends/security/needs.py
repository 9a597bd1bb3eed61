"""What each operation of a broker needs of whoever calls it: the one table of permissions.

    name of the operation ──> action, and which of its arguments are the topic and the group

An operation that is not here cannot be called by any front end (``guard.py``).
``act`` marks what is written into the audit log: what changes something and needs
an admin, except the parts of a restore, whose beginning and end are enough.
"""

from typing import Any, Final, NamedTuple

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
    """What an operation needs; its arguments are named by their places."""

    action: Action
    topic: int | None = 0
    group: int | None = None
    by_id: bool = False  # The topic is the first part of an id such as orders:0:17.
    act: bool = False  # It is written into the audit log.
    # For ACLs, on the group, else on the topic, else on the cluster, instead of what the action needs there.
    operation: Operation | None = None


def verb(need: Need) -> str:
    """What whoever asks wants to do, as an error says it: in the words of a user."""
    return need.operation if need.operation in ("create", "delete") else VERBS[need.action]


NEEDS: Final = {
    "create_topic": Need("admin", act=True, operation="create"),
    "auto_create_topic": Need("admin", act=True, operation="create"),
    "alter_topic": Need("admin", act=True),
    "delete_topic": Need("admin", act=True, operation="delete"),
    "topics": Need("describe", None),
    "describe_topic": Need("describe"),
    "metadata": Need("publish"),
    "publish": Need("publish"),
    "publish_batch": Need("publish"),
    "append": Need("publish"),
    "append_batches": Need("publish"),
    "append_records": Need("publish"),
    "producer": Need("publish", None),
    "new_producer_id": Need("publish", None),
    "init_producer": Need("publish", None),
    "enlist": Need("publish"),
    "append_in_transaction": Need("publish"),
    "enlist_group": Need("publish", None),
    "enlist_commits": Need("consume", group=1),
    "end_transaction": Need("publish", None),
    "end_epoch": Need("publish", None),
    "transaction": Need("describe", None),
    "transactional_ids": Need("describe", None),
    "active_producers": Need("read"),
    "stage": Need("publish"),
    "publish_staged": Need("publish"),
    "published_version": Need("describe"),
    "consumer": Need("consume", group=1),
    "batch_consumer": Need("consume", group=1),
    "create_group": Need("consume", group=1),
    "delete_group": Need("consume", group=1, operation="delete"),
    "describe_group": Need("describe", group=1),
    "delivery_states": Need("describe", group=1),
    "seek": Need("consume", group=1),
    "commit_offsets": Need("consume", group=1),
    "join_group": Need("consume", None, group=0),
    "sync_group": Need("consume", None, group=0),
    "heartbeat_group": Need("consume", None, group=0),
    "leave_group": Need("consume", None, group=0),
    "beat_group": Need("consume", None, group=0),
    "consumer_group": Need("describe", None, group=0),
    "check_reader": Need("describe", None, group=0),
    "commit_places": Need("consume", group=1),
    "places": Need("describe", group=1),
    "unsettled_places": Need("describe", group=1),
    "placed_topics": Need("describe", None, group=0),
    "queued_topics": Need("describe", None, group=0),
    "check_share_group": Need("consume", None, group=0),
    "forget_places": Need("consume", group=1, operation="delete"),
    "member_groups": Need("describe", None),
    "member_group": Need("describe", None, group=0),
    "group_config": Need("describe", None, group=0),
    "alter_group_config": Need("admin", None, group=0, act=True),
    "configured_groups": Need("describe", None),
    "check_delete_group": Need("consume", None, group=0, operation="delete"),
    "begin_restore": Need("admin", act=True),
    "restore": Need("admin"),
    "finish_restore": Need("admin", group=3, act=True),
    "fetch": Need("read"),
    "offsets": Need("describe"),
    "topic_names": Need("describe", None),
    "cluster_id": Need("describe", None),
    "layout": Need("describe"),
    "read_records": Need("read"),
    "delete_records": Need("admin", act=True, operation="delete"),
    "arrival": Need("read"),
    "position": Need("describe"),
    "read": Need("read"),
    "peek": Need("read"),
    "trace": Need("read", by_id=True),
    "schedule": Need("publish"),
    "scheduled": Need("read"),
    "scheduled_count": Need("describe"),
    "cancel": Need("publish", by_id=True),
    "reschedule": Need("publish", by_id=True),
    "dead_letters": Need("read"),
    "dead_letter": Need("read"),
    "dead_letter_errors": Need("read"),
    "redrive": Need("admin", group=5, act=True),
    "create_key": Need("admin", None, act=True),
    "keys": Need("admin", None, operation="describe"),
    "revoke_key": Need("admin", None, act=True),
    "set_user": Need("admin", None, act=True),
    "alter_user": Need("admin", None, act=True),
    "acls": Need("admin", None, operation="describe"),
    "create_acls": Need("admin", None, act=True),
    "delete_acls": Need("admin", None, act=True),
    "set_scram": Need("admin", None, act=True),
    "drop_scram": Need("admin", None, act=True),
    "scrams": Need("admin", None, operation="describe"),
    "users": Need("admin", None, operation="describe"),
    "delete_user": Need("admin", None, act=True),
    "stats": Need("describe", None),
    "waiting": Need("describe", None),
    "overview": Need("describe", None),
    "lanes": Need("describe"),
    "metrics": Need("describe", None),
}


def place_of(need: Need, arguments: tuple[Any, ...]) -> tuple[str | None, str | None]:
    """The topic and the group that a call is about."""
    topic = None if need.topic is None else arguments[need.topic]
    if need.by_id and isinstance(topic, str):
        topic = topic.partition(":")[0]
    return topic, None if need.group is None else arguments[need.group]
