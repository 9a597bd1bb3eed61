"""Every error this package raises on purpose, and how each one reaches a client.

    PenstockError
    ├── RequestError              the caller must change something; never retry as is
    │   ├── InvalidName           NAME_INVALID
    │   ├── InvalidValue          VALUE_INVALID
    │   ├── UnknownPriority       PRIORITY_UNKNOWN
    │   ├── DelayOutOfRange       DELAY_OUT_OF_RANGE
    │   ├── EmptyMessage          MESSAGE_EMPTY
    │   ├── MessageTooLarge       MESSAGE_TOO_LARGE
    │   ├── InvalidBatch          BATCH_INVALID
    │   ├── TopicNotFound         TOPIC_NOT_FOUND
    │   ├── TopicExists           TOPIC_EXISTS
    │   ├── PartitionNotFound     PARTITION_NOT_FOUND
    │   ├── OffsetOutOfRange      OFFSET_OUT_OF_RANGE
    │   ├── GroupNotFound         GROUP_NOT_FOUND
    │   ├── GroupKindMismatch     GROUP_KIND_MISMATCH
    │   ├── MemberUnknown         MEMBER_UNKNOWN
    │   ├── NotAssigned           PARTITION_NOT_ASSIGNED
    │   ├── LeaseLost             LEASE_LOST
    │   ├── AlreadySettled        ALREADY_SETTLED
    │   ├── ProducerFenced        PRODUCER_FENCED
    │   ├── SequenceOutOfOrder    SEQUENCE_OUT_OF_ORDER
    │   ├── DirectoryInUse        DIRECTORY_IN_USE
    │   ├── DirectoryUnusable     DIRECTORY_UNUSABLE
    │   └── Closed                CLOSED
    ├── UnavailableError          try again later; nothing was changed
    │   ├── QueueFull             QUEUE_FULL
    │   └── DiskFull              DISK_FULL
    ├── StorageFailed             a write or sync failed; the partition stops until it is reopened
    └── CorruptionError           stored bytes do not match their checksum

A front end never invents an error.  It maps ``code`` and ``retryable`` to its
own protocol in one table, and a test walks this module to see that no class
is missing from any table.  Bugs are not in this tree: they are ``assert``.

An error carries facts (``error.facts``); its sentence is a template over
them that says what happened and what to do about it.
"""

from typing import Any, ClassVar


class PenstockError(Exception):
    """Base of the tree; catch this to catch everything below and nothing else."""

    code: ClassVar[str] = "INTERNAL"
    retryable: ClassVar[bool] = False
    sentence: ClassVar[str] = "{reason}"

    def __init__(self, **facts: Any) -> None:
        super().__init__(facts)
        self.facts = facts

    def __str__(self) -> str:
        return f"{self.sentence.format(**self.facts)} [{self.code}]"

    def __reduce__(self) -> Any:
        # Spark ships exceptions between processes; keyword-only constructors
        # do not survive the default pickling.
        return _rebuild, (type(self), self.facts)


def _rebuild(kind: type[PenstockError], facts: dict[str, Any]) -> PenstockError:
    return kind(**facts)


class RequestError(PenstockError):
    """The request is wrong as it stands."""

    code = "BAD_REQUEST"


class InvalidName(RequestError):
    """A topic, group or consumer name breaks the grammar of names."""

    code = "NAME_INVALID"
    sentence = (
        "{kind} name {name!r} is not allowed: {why}; "
        "use 1 to 200 letters, digits, '.', '_' or '-', not starting with '.' or '__'"
    )

    def __init__(self, *, kind: str, name: str, why: str) -> None:
        super().__init__(kind=kind, name=name, why=why)


class InvalidValue(RequestError):
    """An argument or setting has a value that makes no sense."""

    code = "VALUE_INVALID"
    sentence = "{name} cannot be {value!r}: {why}"

    def __init__(self, *, name: str, value: object, why: str) -> None:
        super().__init__(name=name, value=value, why=why)


class UnknownPriority(RequestError):
    """The priority is not the name or number of a lane."""

    code = "PRIORITY_UNKNOWN"
    sentence = "there is no priority {priority!r}; use one of {known}"

    def __init__(self, *, priority: object, known: str) -> None:
        super().__init__(priority=priority, known=known)


class DelayOutOfRange(RequestError):
    """The delay is negative or beyond the topic's ``delay_max``."""

    code = "DELAY_OUT_OF_RANGE"
    sentence = "a delay of {delay_ms} ms is outside 0 to {limit_ms} ms; raise the topic's delay_max to go further"

    def __init__(self, *, delay_ms: int, limit_ms: int) -> None:
        super().__init__(delay_ms=delay_ms, limit_ms=limit_ms)


class EmptyMessage(RequestError):
    """A message without a value; only a key makes that a tombstone."""

    code = "MESSAGE_EMPTY"
    sentence = "a message for {topic!r} has no value; give bytes, or a key to publish a tombstone"

    def __init__(self, *, topic: str) -> None:
        super().__init__(topic=topic)


class MessageTooLarge(RequestError):
    """Key, value and headers together exceed the topic's ``message_bytes_max``."""

    code = "MESSAGE_TOO_LARGE"
    sentence = "the message has {size_bytes} bytes and the limit is {limit_bytes}; raise message_bytes_max or split it"

    def __init__(self, *, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(size_bytes=size_bytes, limit_bytes=limit_bytes)


class InvalidBatch(RequestError):
    """Bytes that should be a record batch are not one."""

    code = "BATCH_INVALID"
    sentence = "not a valid record batch: {why}"

    def __init__(self, *, why: str) -> None:
        super().__init__(why=why)


class TopicNotFound(RequestError):
    """The topic does not exist."""

    code = "TOPIC_NOT_FOUND"
    sentence = "there is no topic {topic!r}; create it first with create_topic({topic!r})"

    def __init__(self, *, topic: str) -> None:
        super().__init__(topic=topic)


class TopicExists(RequestError):
    """A topic of that name exists already."""

    code = "TOPIC_EXISTS"
    sentence = "topic {topic!r} exists already; use alter_topic to change its settings"

    def __init__(self, *, topic: str) -> None:
        super().__init__(topic=topic)


class PartitionNotFound(RequestError):
    """The topic has fewer partitions than that."""

    code = "PARTITION_NOT_FOUND"
    sentence = "topic {topic!r} has partitions 0 to {last}, not {partition}"

    def __init__(self, *, topic: str, partition: int, last: int) -> None:
        super().__init__(topic=topic, partition=partition, last=last)


class OffsetOutOfRange(RequestError):
    """The offset is below the log's start or above its end."""

    code = "OFFSET_OUT_OF_RANGE"
    sentence = "offset {offset} is outside the log, which holds {start} up to {end}"

    def __init__(self, *, offset: int, start: int, end: int) -> None:
        super().__init__(offset=offset, start=start, end=end)


class GroupNotFound(RequestError):
    """The topic has no group of that name."""

    code = "GROUP_NOT_FOUND"
    sentence = "topic {topic!r} has no group {group!r}; a group is created by its first consumer"

    def __init__(self, *, topic: str, group: str) -> None:
        super().__init__(topic=topic, group=group)


class GroupKindMismatch(RequestError):
    """A queue operation on a stream group, or the other way round."""

    code = "GROUP_KIND_MISMATCH"
    sentence = "{operation} is not for {kind} groups, and {group!r} is one"

    def __init__(self, *, operation: str, kind: str, group: str) -> None:
        super().__init__(operation=operation, kind=kind, group=group)


class MemberUnknown(RequestError):
    """The member left, was evicted after missing heartbeats, or never joined."""

    code = "MEMBER_UNKNOWN"
    sentence = "{member!r} is not a member of group {group!r}; join again"

    def __init__(self, *, group: str, member: str) -> None:
        super().__init__(group=group, member=member)


class NotAssigned(RequestError):
    """A member commits on a partition that is not (or no longer) its own."""

    code = "PARTITION_NOT_ASSIGNED"
    sentence = "partition {partition} is not assigned to {member!r} in group {group!r}"

    def __init__(self, *, group: str, member: str, partition: int) -> None:
        super().__init__(group=group, member=member, partition=partition)


class LeaseLost(RequestError):
    """The lease expired, or was never held; someone else may hold the message now."""

    code = "LEASE_LOST"
    sentence = (
        "offset {offset} of {topic}:{partition} is not held by this consumer; the visibility timeout "
        "may have passed, so extend() in time or ask for a longer one"
    )

    def __init__(self, *, topic: str, partition: int, offset: int) -> None:
        super().__init__(topic=topic, partition=partition, offset=offset)


class AlreadySettled(RequestError):
    """The same delivery was acked, nacked or rejected before."""

    code = "ALREADY_SETTLED"
    sentence = "offset {offset} of {topic}:{partition} was settled before; settle each delivery once"

    def __init__(self, *, topic: str, partition: int, offset: int) -> None:
        super().__init__(topic=topic, partition=partition, offset=offset)


class ProducerFenced(RequestError):
    """A newer epoch of the same producer id has written."""

    code = "PRODUCER_FENCED"
    sentence = "producer {producer_id} epoch {epoch} is fenced by epoch {current}; start a new producer"

    def __init__(self, *, producer_id: int, epoch: int, current: int) -> None:
        super().__init__(producer_id=producer_id, epoch=epoch, current=current)


class SequenceOutOfOrder(RequestError):
    """An idempotent producer skipped a sequence number: something was lost on the way."""

    code = "SEQUENCE_OUT_OF_ORDER"
    sentence = "producer {producer_id} sent sequence {sequence}, and {expected} was next; resend what is missing"

    def __init__(self, *, producer_id: int, sequence: int, expected: int) -> None:
        super().__init__(producer_id=producer_id, sequence=sequence, expected=expected)


class DirectoryInUse(RequestError):
    """Another process (or another broker of this one) has the data directory open."""

    code = "DIRECTORY_IN_USE"
    sentence = "data directory {directory!r} is open in another broker (pid {pid}); close it, or use another directory"

    def __init__(self, *, directory: str, pid: str) -> None:
        super().__init__(directory=directory, pid=pid)


class DirectoryUnusable(RequestError):
    """The data directory cannot be created or written, or its format is newer than this program."""

    code = "DIRECTORY_UNUSABLE"
    sentence = "data directory {directory!r} cannot be used: {why}"

    def __init__(self, *, directory: str, why: str) -> None:
        super().__init__(directory=directory, why=why)


class Closed(RequestError):
    """The broker or the consumer was closed."""

    code = "CLOSED"
    sentence = "the {what} is closed; open a new one"

    def __init__(self, *, what: str) -> None:
        super().__init__(what=what)


class UnavailableError(PenstockError):
    """The request is fine; the broker cannot serve it now."""

    code = "UNAVAILABLE"
    retryable = True


class QueueFull(UnavailableError):
    """A bounded buffer is full; the caller should slow down."""

    code = "QUEUE_FULL"
    sentence = "{what} is full: {limit} is the limit; slow down and try again"

    def __init__(self, *, what: str, limit: int) -> None:
        super().__init__(what=what, limit=limit)


class DiskFull(UnavailableError):
    """The disk has no room; nothing was written, and what was there stays readable."""

    code = "DISK_FULL"
    sentence = "no room on the disk for {path!r}; nothing was written: free some space and try again"

    def __init__(self, *, path: str) -> None:
        super().__init__(path=path)


class StorageFailed(PenstockError):
    """A write or a sync failed, so what is on disk is not known; the partition takes no more writes."""

    code = "STORAGE_FAILED"
    sentence = "{path!r} failed: {why}; it takes no more writes until the broker is reopened and has recovered it"

    def __init__(self, *, path: str, why: str) -> None:
        super().__init__(path=path, why=why)


class CorruptionError(PenstockError):
    """Bytes on disk do not match their checksum."""

    code = "CORRUPTION"
    sentence = "{path!r} is damaged at byte {position}: {why}; restore the file from a copy, or skip with a seek"

    def __init__(self, *, path: str, position: int, why: str) -> None:
        super().__init__(path=path, position=position, why=why)
