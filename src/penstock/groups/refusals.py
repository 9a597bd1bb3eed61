"""Why a member of a Kafka group is refused, in the numbers of Kafka's protocol.

To a member these are answers, not failures: most of them say what it is to do
next (join again, come with this id, stop), and clients act on the number.
"""

from enum import IntEnum


class Refusal(IntEnum):
    """Kafka's error codes, as far as its groups have a use for them."""

    NONE = 0
    ILLEGAL_GENERATION = 22  # It speaks of a round that is over: join again.
    INCONSISTENT_GROUP_PROTOCOL = 23  # No assignor that all members know, or another kind of group.
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25  # It was put out, or never was in: join again without an id.
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27  # Join again, and keep the id.
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    MEMBER_ID_REQUIRED = 79  # Here is an id: join again with it.
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82  # Another process has taken its place: stop for good.
    GROUP_SUBSCRIBED_TO_TOPIC = 86
