"""Groups and their messages: who reads, who holds what, and what is settled already."""

from penstock.errors.base import RequestError


class GroupNotFound(RequestError):
    """The topic has no group of that name.

    Cause: a misspelt name, or no consumer of that group has ever come.
    Do: correct the name, or start a consumer: the first one creates its group.
    """

    code = "GROUP_NOT_FOUND"
    sentence = "topic {topic!r} has no group {group!r}; a group is created by its first consumer"
    topic: str
    group: str


class DeadLetterNotFound(RequestError):
    """The topic has no dead letter of that id.

    Cause: retention has deleted it, or the id is that of the message it was, or of another topic's.
    Do: list the dead letters of the topic; each has its id in ``message``.
    """

    code = "DEAD_LETTER_NOT_FOUND"
    sentence = "topic {topic!r} has no dead letter {dead_letter!r}; list those that it has for their ids"
    topic: str
    dead_letter: str


class GroupKindMismatch(RequestError):
    """A queue operation on a stream group, or the other way round.

    Cause: the group was created as the other kind: queue groups ack messages, stream groups commit
        offsets.
    Do: use the calls of its kind, or another group name for the other kind.
    """

    code = "GROUP_KIND_MISMATCH"
    sentence = "{operation} is not for {kind} groups, and {group!r} is one"
    operation: str
    kind: str
    group: str


class MemberUnknown(RequestError):
    """The member left, was evicted after missing heartbeats, or never joined.

    Cause: the member took longer than the session timeout between heartbeats, so its partitions went to
        others.
    Do: join again and take up the newly assigned partitions; do less work between polls, or lengthen
        the timeout.
    """

    code = "MEMBER_UNKNOWN"
    sentence = "{member!r} is not a member of group {group!r}; join again"
    group: str
    member: str


class NotAssigned(RequestError):
    """A member commits on a partition that is not (or no longer) its own.

    Cause: the partition moved to another member in a rebalance.
    Do: stop working on that partition; its new owner goes on from the last commit.
    """

    code = "PARTITION_NOT_ASSIGNED"
    sentence = "partition {partition} is not assigned to {member!r} in group {group!r}"
    group: str
    member: str
    partition: int


class LeaseLost(RequestError):
    """The lease expired, or was never held; someone else may hold the message now.

    Cause: the work took longer than the visibility timeout, or another consumer's delivery is being
        settled.
    Do: treat the message as not done by you; extend in time, or ask for a longer visibility timeout.
    """

    code = "LEASE_LOST"
    sentence = (
        "offset {offset} of {topic}:{partition} is not held by this consumer; the visibility timeout "
        "may have passed, so extend() in time or ask for a longer one"
    )
    topic: str
    partition: int
    offset: int


class AlreadySettled(RequestError):
    """The same delivery was acked, nacked or rejected before.

    Cause: the program acks in two places, or acks after an error path has nacked.
    Do: settle each delivery exactly once; a ``with message:`` block does so.
    """

    code = "ALREADY_SETTLED"
    sentence = "offset {offset} of {topic}:{partition} was settled before; settle each delivery once"
    topic: str
    partition: int
    offset: int


class ReceiptUnknown(RequestError):
    """A receipt is none that this server gave to whoever shows it, for that topic and group.

    Cause: it was cut or changed on the way, or belongs to another topic, group or key; or the server was
        restarted.
    Do: answer with the receipt as it was received; after a restart of the server, receive again.
    """

    code = "RECEIPT_UNKNOWN"
    sentence = "the receipt {receipt!r} is not known here; receive the message again for a new one"
    receipt: str
