"""Consumer groups: membership, leases and dead letters."""

from penstock.errors.base import RequestError


class GroupNotFound(RequestError):
    """The topic has no group of that name.

    Cause: the name is misspelt, or no consumer of the group has connected yet.
    Do: correct the name, or start a consumer; the first consumer creates its group.
    """

    code = "GROUP_NOT_FOUND"
    sentence = "topic {topic!r} has no group {group!r}; the first consumer of a group creates it"
    topic: str
    group: str


class DeadLetterNotFound(RequestError):
    """The topic has no dead letter with that id.

    Cause: retention has deleted it, or the id is that of the original message or of another topic.
    Do: list the dead letters of the topic; the id is in ``message``.
    """

    code = "DEAD_LETTER_NOT_FOUND"
    sentence = "topic {topic!r} has no dead letter {dead_letter!r}; list its dead letters to see their ids"
    topic: str
    dead_letter: str


class GroupKindMismatch(RequestError):
    """A queue operation was called on a stream group, or a stream operation on a queue group.

    Cause: the group was created as the other kind; queue groups ack messages, stream groups commit offsets.
    Do: use the operations of its kind, or another group name.
    """

    code = "GROUP_KIND_MISMATCH"
    sentence = "{operation} does not work on {kind} groups, and {group!r} is one"
    operation: str
    kind: str
    group: str


class MemberUnknown(RequestError):
    """The member left the group, was evicted after missed heartbeats, or never joined.

    Cause: the time between two heartbeats exceeded the session timeout, so the partitions were reassigned.
    Do: join again and use the newly assigned partitions; do less work between polls, or raise the timeout.
    """

    code = "MEMBER_UNKNOWN"
    sentence = "{member!r} is not a member of group {group!r}; join again"
    group: str
    member: str


class NotAssigned(RequestError):
    """A member commits an offset of a partition that is not assigned to it.

    Cause: a rebalance moved the partition to another member.
    Do: stop processing the partition; its new owner continues from the last committed offset.
    """

    code = "PARTITION_NOT_ASSIGNED"
    sentence = "partition {partition} is not assigned to {member!r} in group {group!r}"
    group: str
    member: str
    partition: int


class LeaseLost(RequestError):
    """The consumer does not hold the lease of the message; another consumer may hold it now.

    Cause: processing took longer than the visibility timeout, or the delivery belongs to another consumer.
    Do: treat the message as not processed; call ``extend()`` in time, or use a longer visibility timeout.
    """

    code = "LEASE_LOST"
    sentence = (
        "offset {offset} of {topic}:{partition} is not held by this consumer; the visibility timeout "
        "may have passed, so extend() in time or use a longer one"
    )
    topic: str
    partition: int
    offset: int


class AlreadySettled(RequestError):
    """This delivery was already acked, nacked or rejected.

    Cause: the program acks in two places, or acks after its error handler has nacked.
    Do: settle each delivery exactly once; a ``with message:`` block does so.
    """

    code = "ALREADY_SETTLED"
    sentence = "offset {offset} of {topic}:{partition} was already settled; settle each delivery once"
    topic: str
    partition: int
    offset: int


class ReceiptUnknown(RequestError):
    """The receipt was not issued by this server to this client for that topic and group.

    Cause: the receipt was truncated or changed, belongs to another topic, group or key, or the server was
        restarted.
    Do: send the receipt exactly as received; after a restart of the server, receive the message again.
    """

    code = "RECEIPT_UNKNOWN"
    sentence = "the receipt {receipt!r} is unknown; receive the message again to get a new one"
    receipt: str
