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
    │   ├── RestoreRefused        RESTORE_REFUSED
    │   ├── StagedMissing         STAGED_MISSING
    │   ├── OffsetsMissing        OFFSETS_MISSING
    │   ├── GroupNotFound         GROUP_NOT_FOUND
    │   ├── DeadLetterNotFound    DEAD_LETTER_NOT_FOUND
    │   ├── GroupKindMismatch     GROUP_KIND_MISMATCH
    │   ├── MemberUnknown         MEMBER_UNKNOWN
    │   ├── NotAssigned           PARTITION_NOT_ASSIGNED
    │   ├── LeaseLost             LEASE_LOST
    │   ├── AlreadySettled        ALREADY_SETTLED
    │   ├── ProducerFenced        PRODUCER_FENCED
    │   ├── SequenceOutOfOrder    SEQUENCE_OUT_OF_ORDER
    │   ├── ProducerUnknown       PRODUCER_UNKNOWN
    │   ├── TransactionNotOpen    TRANSACTION_NOT_OPEN
    │   ├── DirectoryInUse        DIRECTORY_IN_USE
    │   ├── DirectoryUnusable     DIRECTORY_UNUSABLE
    │   ├── InvalidConfiguration  CONFIGURATION_INVALID
    │   ├── AddressUnusable       ADDRESS_UNUSABLE
    │   ├── ExtraMissing          EXTRA_MISSING
    │   ├── LakeUnusable          LAKE_UNUSABLE
    │   ├── NotArchived           NOT_ARCHIVED
    │   ├── FrameTooLarge         FRAME_TOO_LARGE
    │   ├── ProtocolViolation     PROTOCOL_VIOLATION
    │   ├── VersionUnsupported    VERSION_UNSUPPORTED
    │   ├── OperationUnknown      OPERATION_UNKNOWN
    │   ├── RequestInvalid        REQUEST_INVALID
    │   ├── RequestTooLarge       REQUEST_TOO_LARGE
    │   ├── RequestTimeout        REQUEST_TIMEOUT
    │   ├── RouteNotFound         ROUTE_NOT_FOUND
    │   ├── MethodNotAllowed      METHOD_NOT_ALLOWED
    │   ├── MediaTypeUnsupported  MEDIA_TYPE_UNSUPPORTED
    │   ├── UpgradeRequired       UPGRADE_REQUIRED
    │   ├── HostNotAllowed        HOST_NOT_ALLOWED
    │   ├── OriginNotAllowed      ORIGIN_NOT_ALLOWED
    │   ├── ReceiptUnknown        RECEIPT_UNKNOWN
    │   ├── Unauthenticated       UNAUTHENTICATED
    │   ├── Forbidden             FORBIDDEN
    │   ├── IdentityNotFound      IDENTITY_NOT_FOUND
    │   ├── PipelineRunning       PIPELINE_RUNNING
    │   ├── PipelineFailed        PIPELINE_FAILED
    │   ├── QueryInvalid          QUERY_INVALID
    │   ├── QueryFailed           QUERY_FAILED
    │   └── Closed                CLOSED
    ├── UnavailableError          try again later; nothing was changed
    │   ├── QueueFull             QUEUE_FULL
    │   ├── DiskFull              DISK_FULL
    │   ├── MetadataStale         METADATA_STALE
    │   ├── TransactionBusy       TRANSACTION_BUSY
    │   ├── Overloaded            OVERLOADED
    │   ├── QuotaExceeded         QUOTA_EXCEEDED
    │   ├── ShuttingDown          SHUTTING_DOWN
    │   └── ServerUnreachable     SERVER_UNREACHABLE
    ├── OutcomeUnknown            the connection broke before the answer came; it may have been done
    ├── StorageFailed             a write or sync failed; the partition stops until it is reopened
    ├── LakeDamaged               a file of the lake cannot be read
    └── CorruptionError           stored bytes do not match their checksum

A front end never invents an error.  It maps ``code`` and ``retryable`` to its
own protocol in one table, and a test walks this module to see that no class
is missing from any table.  Bugs are not in this tree: they are ``assert``.

An error carries facts (``error.facts``); its sentence is a template over
them that says what happened and what to do about it.  The docstring of a
class (what it means, ``Cause:``, ``Do:``) is its section in docs/errors.md;
``make docs`` writes that page, and a test compares it.
"""

from typing import Any, ClassVar


class PenstockError(Exception):
    """Base of the tree; catch this to catch everything below and nothing else.

    Cause: never raised as such; a class below it is.
    Do: catch it where any refusal of the broker is handled alike.
    """

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
        # do not survive the default pickling.  The state is there for a code of
        # its own, which an error from a newer server has.
        return _rebuild, (type(self), self.facts), vars(self)


def _rebuild(kind: type[PenstockError], facts: dict[str, Any]) -> PenstockError:
    return kind(**facts)


class RequestError(PenstockError):
    """The request is wrong as it stands.

    Cause: never raised as such, except for a refusal that has no class of its own yet.
    Do: read the sentence and change the call; the same call fails the same way.
    """

    code = "BAD_REQUEST"


class InvalidName(RequestError):
    """A topic, group or consumer name breaks the grammar of names.

    Cause: the name is empty, too long, or has a character that is not safe in the name of a folder.
    Do: choose a name of 1 to 200 letters, digits, '.', '_' or '-', not starting with '.' or '__'.
    """

    code = "NAME_INVALID"
    sentence = (
        "{kind} name {name!r} is not allowed: {why}; "
        "use 1 to 200 letters, digits, '.', '_' or '-', not starting with '.' or '__'"
    )

    def __init__(self, *, kind: str, name: str, why: str) -> None:
        super().__init__(kind=kind, name=name, why=why)


class InvalidValue(RequestError):
    """An argument or setting has a value that makes no sense.

    Cause: a duration, a time, a count or an option is of the wrong type or outside its range.
    Do: read the sentence, which names the argument and what it accepts, and correct the call or the
        setting.
    """

    code = "VALUE_INVALID"
    sentence = "{name} cannot be {value!r}: {why}"

    def __init__(self, *, name: str, value: object, why: str) -> None:
        super().__init__(name=name, value=value, why=why)


class UnknownPriority(RequestError):
    """The priority is not the name or number of a lane.

    Cause: a misspelt name, or a number that no lane has.
    Do: use critical, high, normal, low or background, or a number from 2 down to -2.
    """

    code = "PRIORITY_UNKNOWN"
    sentence = "there is no priority {priority!r}; use one of {known}"

    def __init__(self, *, priority: object, known: str) -> None:
        super().__init__(priority=priority, known=known)


class DelayOutOfRange(RequestError):
    """The delay is negative or beyond the topic's ``delay_max``.

    Cause: a negative delay, or a due time further off than the topic allows.
    Do: correct the delay, or raise the topic's ``delay_max``.
    """

    code = "DELAY_OUT_OF_RANGE"
    sentence = (
        "a delay of {delay_ms} ms is outside 0 to {limit_ms} ms; raise the topic's delay_max to go further"
    )

    def __init__(self, *, delay_ms: int, limit_ms: int) -> None:
        super().__init__(delay_ms=delay_ms, limit_ms=limit_ms)


class EmptyMessage(RequestError):
    """A message without a value; only a key makes that a tombstone.

    Cause: ``value`` is None and there is no key.
    Do: publish bytes (``b""`` is fine), or add the key whose older values the tombstone shall remove.
    """

    code = "MESSAGE_EMPTY"
    sentence = "a message for {topic!r} has no value; give bytes, or a key to publish a tombstone"

    def __init__(self, *, topic: str) -> None:
        super().__init__(topic=topic)


class MessageTooLarge(RequestError):
    """Key, value and headers together exceed the topic's ``message_bytes_max``.

    Cause: the message is larger than the topic accepts.
    Do: keep large bodies elsewhere and publish a reference, split the message, or raise
        ``message_bytes_max``.
    """

    code = "MESSAGE_TOO_LARGE"
    sentence = (
        "the message has {size_bytes} bytes and the limit is {limit_bytes}; "
        "raise message_bytes_max or split it"
    )

    def __init__(self, *, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(size_bytes=size_bytes, limit_bytes=limit_bytes)


class InvalidBatch(RequestError):
    """Bytes that should be a record batch are not one.

    Cause: a client built the batch wrongly, the bytes were cut short, or they were changed on the way.
    Do: encode it again; if the bytes came over a network, look for a proxy or a client library that
        alters them.
    """

    code = "BATCH_INVALID"
    sentence = "not a valid record batch: {why}"

    def __init__(self, *, why: str) -> None:
        super().__init__(why=why)


class TopicNotFound(RequestError):
    """The topic does not exist.

    Cause: a misspelt name, or the topic was deleted or never created.
    Do: create it with ``create_topic``, or correct the name.
    """

    code = "TOPIC_NOT_FOUND"
    sentence = "there is no topic {topic!r}; create it first with create_topic({topic!r})"

    def __init__(self, *, topic: str) -> None:
        super().__init__(topic=topic)


class TopicExists(RequestError):
    """A topic of that name exists already.

    Cause: two programs create the same topic, or one does so at each start.
    Do: use the topic as it is, or change its settings with ``alter_topic``.
    """

    code = "TOPIC_EXISTS"
    sentence = "topic {topic!r} exists already; use alter_topic to change its settings"

    def __init__(self, *, topic: str) -> None:
        super().__init__(topic=topic)


class PartitionNotFound(RequestError):
    """The topic has fewer partitions than that.

    Cause: the partition number is not below the topic's partition count.
    Do: ask the topic for its partitions; leave the partition out to let the key choose.
    """

    code = "PARTITION_NOT_FOUND"
    sentence = "topic {topic!r} has partitions 0 to {last}, not {partition}"

    def __init__(self, *, topic: str, partition: int, last: int) -> None:
        super().__init__(topic=topic, partition=partition, last=last)


class OffsetOutOfRange(RequestError):
    """The offset is below the log's start or above its end.

    Cause: retention has deleted the offset since it was noted, or it was never written.
    Do: seek to earliest, to latest or to a time; lengthen the retention if readers fall behind.
    """

    code = "OFFSET_OUT_OF_RANGE"
    sentence = "offset {offset} is outside the log, which holds {start} up to {end}"

    def __init__(self, *, offset: int, start: int, end: int) -> None:
        super().__init__(offset=offset, start=start, end=end)


class RestoreRefused(RequestError):
    """Deleted offsets cannot be put back below the log's start.

    Cause: they do not reach up to where the log begins, somebody else has begun to restore the same
        partition, or the topic is compacted.
    Do: read where the log begins and restore everything up to there, in one go; replay what is in a
        compacted topic's past to another topic.
    """

    code = "RESTORE_REFUSED"
    sentence = "offsets {start} up to {end} cannot be put back: {why}"

    def __init__(self, *, start: int, end: int, why: str) -> None:
        super().__init__(start=start, end=end, why=why)


class StagedMissing(RequestError):
    """What a job staged is not there any more, so it cannot be published; nothing was.

    Cause: more than a day passed between staging and publishing; the power went before it was synced; or the
        topic ``__staging`` was deleted.
    Do: run the job again; it stages anew.
    """

    code = "STAGED_MISSING"
    sentence = (
        "what {token!r} staged at offsets {start} to {end} cannot be published: {why}; run the job again"
    )

    def __init__(self, *, token: str, start: int, end: int, why: str) -> None:
        super().__init__(token=token, start=start, end=end, why=why)


class OffsetsMissing(RequestError):
    """A query reads offsets that are in neither the log nor the lake.

    Cause: retention has deleted them, and they were not archived before.
    Do: read from behind them on; or let the query skip them, with ``on_gap=skip``, which writes them down
        in the topic ``__gaps``; ``retention_waits_for_archive`` keeps it from happening again.
    """

    code = "OFFSETS_MISSING"
    sentence = (
        "offsets {start} up to {end} of {topic}:{partition} are in neither the log nor the lake; "
        "read from {end} on, or set on_gap=skip to go on without them"
    )

    def __init__(self, *, topic: str, partition: int, start: int, end: int) -> None:
        super().__init__(topic=topic, partition=partition, start=start, end=end)


class GroupNotFound(RequestError):
    """The topic has no group of that name.

    Cause: a misspelt name, or no consumer of that group has ever come.
    Do: correct the name, or start a consumer: the first one creates its group.
    """

    code = "GROUP_NOT_FOUND"
    sentence = "topic {topic!r} has no group {group!r}; a group is created by its first consumer"

    def __init__(self, *, topic: str, group: str) -> None:
        super().__init__(topic=topic, group=group)


class DeadLetterNotFound(RequestError):
    """The topic has no dead letter of that id.

    Cause: retention has deleted it, or the id is that of the message it was, or of another topic's.
    Do: list the dead letters of the topic; each has its id in ``message``.
    """

    code = "DEAD_LETTER_NOT_FOUND"
    sentence = "topic {topic!r} has no dead letter {dead_letter!r}; list those that it has for their ids"

    def __init__(self, *, topic: str, dead_letter: str) -> None:
        super().__init__(topic=topic, dead_letter=dead_letter)


class GroupKindMismatch(RequestError):
    """A queue operation on a stream group, or the other way round.

    Cause: the group was created as the other kind: queue groups ack messages, stream groups commit
        offsets.
    Do: use the calls of its kind, or another group name for the other kind.
    """

    code = "GROUP_KIND_MISMATCH"
    sentence = "{operation} is not for {kind} groups, and {group!r} is one"

    def __init__(self, *, operation: str, kind: str, group: str) -> None:
        super().__init__(operation=operation, kind=kind, group=group)


class MemberUnknown(RequestError):
    """The member left, was evicted after missing heartbeats, or never joined.

    Cause: the member took longer than the session timeout between heartbeats, so its partitions went to
        others.
    Do: join again and take up the newly assigned partitions; do less work between polls, or lengthen
        the timeout.
    """

    code = "MEMBER_UNKNOWN"
    sentence = "{member!r} is not a member of group {group!r}; join again"

    def __init__(self, *, group: str, member: str) -> None:
        super().__init__(group=group, member=member)


class NotAssigned(RequestError):
    """A member commits on a partition that is not (or no longer) its own.

    Cause: the partition moved to another member in a rebalance.
    Do: stop working on that partition; its new owner goes on from the last commit.
    """

    code = "PARTITION_NOT_ASSIGNED"
    sentence = "partition {partition} is not assigned to {member!r} in group {group!r}"

    def __init__(self, *, group: str, member: str, partition: int) -> None:
        super().__init__(group=group, member=member, partition=partition)


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

    def __init__(self, *, topic: str, partition: int, offset: int) -> None:
        super().__init__(topic=topic, partition=partition, offset=offset)


class AlreadySettled(RequestError):
    """The same delivery was acked, nacked or rejected before.

    Cause: the program acks in two places, or acks after an error path has nacked.
    Do: settle each delivery exactly once; a ``with message:`` block does so.
    """

    code = "ALREADY_SETTLED"
    sentence = "offset {offset} of {topic}:{partition} was settled before; settle each delivery once"

    def __init__(self, *, topic: str, partition: int, offset: int) -> None:
        super().__init__(topic=topic, partition=partition, offset=offset)


class ProducerFenced(RequestError):
    """A newer epoch of the same producer id has written.

    Cause: a second instance was started with the same producer id, and this one is the older.
    Do: stop this instance, or start a new producer, which gets a new epoch.
    """

    code = "PRODUCER_FENCED"
    sentence = "producer {producer_id} epoch {epoch} is fenced by epoch {current}; start a new producer"

    def __init__(self, *, producer_id: int, epoch: int, current: int) -> None:
        super().__init__(producer_id=producer_id, epoch=epoch, current=current)


class SequenceOutOfOrder(RequestError):
    """An idempotent producer skipped a sequence number: something was lost on the way.

    Cause: a batch before this one was not accepted and not sent again.
    Do: send what is missing, in order; if it is gone, start a new producer.
    """

    code = "SEQUENCE_OUT_OF_ORDER"
    sentence = (
        "producer {producer_id} sent sequence {sequence}, and {expected} was next; resend what is missing"
    )

    def __init__(self, *, producer_id: int, sequence: int, expected: int) -> None:
        super().__init__(producer_id=producer_id, sequence=sequence, expected=expected)


class ProducerUnknown(RequestError):
    """A producer speaks of a transaction, and no transactional id has that producer id.

    Cause: the id was not used for a week and is forgotten, or the broker's data was replaced.
    Do: start a new producer under the same transactional id.
    """

    code = "PRODUCER_UNKNOWN"
    sentence = "producer {producer_id} has no transactional id here; start a new producer"

    def __init__(self, *, producer_id: int) -> None:
        super().__init__(producer_id=producer_id)


class TransactionNotOpen(RequestError):
    """Something that belongs into a transaction came outside of one.

    Cause: the transaction had ended, or the partition or group was not added to it before.
    Do: begin a transaction and add the partition or group to it first; clients of Kafka do so by themselves.
    """

    code = "TRANSACTION_NOT_OPEN"
    sentence = "{what} does not belong to an open transaction: the producer's is {state}; begin a new one"

    def __init__(self, *, what: str, state: str) -> None:
        super().__init__(what=what, state=state)


class DirectoryInUse(RequestError):
    """Another process (or another broker of this one) has the data directory open.

    Cause: a broker is running on this directory, or one of this process was not closed.
    Do: close the other broker, connect to it instead, or open another directory.
    """

    code = "DIRECTORY_IN_USE"
    sentence = (
        "data directory {directory!r} is open in another broker (pid {pid}); "
        "close it, or use another directory"
    )

    def __init__(self, *, directory: str, pid: str) -> None:
        super().__init__(directory=directory, pid=pid)


class DirectoryUnusable(RequestError):
    """The data directory cannot be created or written, or its format is newer than this program.

    Cause: missing rights, a file in the place of the directory, or data written by a newer version.
    Do: correct the rights or the path, or run the version that wrote the data, or a newer one.
    """

    code = "DIRECTORY_UNUSABLE"
    sentence = "data directory {directory!r} cannot be used: {why}"

    def __init__(self, *, directory: str, why: str) -> None:
        super().__init__(directory=directory, why=why)


class InvalidConfiguration(RequestError):
    """The configuration of a server has problems; all of them are named, each with its place.

    Cause: a setting that does not exist, or a value that it may not have, in the file, in a variable of
        the environment or in a flag.
    Do: correct what is named, and start again; ``penstock config show`` says where each value comes from.
    """

    code = "CONFIGURATION_INVALID"
    sentence = "the configuration cannot be used:\n{problems}"

    def __init__(self, *, problems: str) -> None:
        super().__init__(problems=problems)


class AddressUnusable(RequestError):
    """A server cannot listen where it was told to.

    Cause: another program has the port, the host is not one of this machine, or ports below 1024 are
        not for this user.
    Do: stop the other program, or choose another address with the setting or flag that is named; port 0
        takes a free one, and ``off`` does without the listener.
    """

    code = "ADDRESS_UNUSABLE"
    sentence = (
        "cannot listen on {address}: {why}; change listen.{listener} (--{listener} HOST:PORT), "
        "or turn it off (--{listener} off)"
    )

    def __init__(self, *, listener: str, address: str, why: str) -> None:
        super().__init__(listener=listener, address=address, why=why)


class ExtraMissing(RequestError):
    """Something that only a part of Penstock needs is not installed.

    Cause: the Spark pipeline, say, is used, and Penstock was installed without it.
    Do: install the extra that the sentence names.
    """

    code = "EXTRA_MISSING"
    sentence = "{what} is not installed; run: pip install 'penstock[{extra}]'"

    def __init__(self, *, what: str, extra: str) -> None:
        super().__init__(what=what, extra=extra)


class LakeUnusable(RequestError):
    """The lake, or a table in it, cannot be opened or written; what it held before is untouched.

    Cause: missing rights, a wrong path or URI, no credentials for it, or a broker that has no lake.
    Do: correct the path with the option or setting ``lake``, or the rights; then start again: nothing is
        lost, and nothing is there twice.
    """

    code = "LAKE_UNUSABLE"
    sentence = "the lake {lake!r} cannot be used: {why}"

    def __init__(self, *, lake: str, why: str) -> None:
        super().__init__(lake=lake, why=why)


class NotArchived(RequestError):
    """Retention has deleted records that were not archived yet; the lake would have a gap.

    Cause: the archive did not run for longer than the topic keeps its records.
    Do: run it with ``on_gap = "skip"``, which puts the gap on record and goes on behind it; for the future
        set ``retention_waits_for_archive`` on the topic.
    """

    code = "NOT_ARCHIVED"
    sentence = (
        "offsets {start} to {end} (before it) of {topic}:{partition} were deleted before they were archived; "
        'go on behind them with on_gap = "skip", and set retention_waits_for_archive on the topic'
    )

    def __init__(self, *, topic: str, partition: int, start: int, end: int) -> None:
        super().__init__(topic=topic, partition=partition, start=start, end=end)


class FrameTooLarge(RequestError):
    """A frame on a connection is longer than its receiver accepts.

    Cause: one request with very large messages, or bytes that are not this protocol at all.
    Do: send less in one request, or raise ``frame_bytes_max`` of the server.
    """

    code = "FRAME_TOO_LARGE"
    sentence = (
        "a frame of {size_bytes} bytes was announced and the limit is {limit_bytes}; "
        "send less at a time, or raise frame_bytes_max"
    )

    def __init__(self, *, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(size_bytes=size_bytes, limit_bytes=limit_bytes)


class ProtocolViolation(RequestError):
    """The other side of a connection sent bytes that the protocol does not allow.

    Cause: another program is on that port, a client library has a fault, or bytes were changed on the way.
    Do: check that address and port are those of a Penstock server, then the client library.
    """

    code = "PROTOCOL_VIOLATION"
    sentence = "this is not Penstock's protocol: {why}"

    def __init__(self, *, why: str) -> None:
        super().__init__(why=why)


class VersionUnsupported(RequestError):
    """Client and server have no version of the native protocol in common.

    Cause: one of the two is much older than the other.
    Do: install a version of the client that the server understands.
    """

    code = "VERSION_UNSUPPORTED"
    sentence = "the client speaks versions {offered} of the protocol and the server {supported}; update one"

    def __init__(self, *, offered: str, supported: str) -> None:
        super().__init__(offered=offered, supported=supported)


class OperationUnknown(RequestError):
    """The server has no operation of that name or number.

    Cause: the client is newer than the server, or its library has a fault.
    Do: update the server, or do without the operation.
    """

    code = "OPERATION_UNKNOWN"
    sentence = "this server knows no operation {operation!r}; a newer one may"

    def __init__(self, *, operation: str) -> None:
        super().__init__(operation=operation)


class RequestInvalid(RequestError):
    """A request over HTTP has a body, a query or a header that cannot be understood.

    Cause: JSON that is none, a field that does not exist or has another type, base64 that is none.
    Do: read the sentence, which names the field, and compare with the server's ``/openapi.json``.
    """

    code = "REQUEST_INVALID"
    sentence = "the {part} of the request cannot be understood: {why}; /openapi.json says what it may be"

    def __init__(self, *, part: str, why: str) -> None:
        super().__init__(part=part, why=why)


class RequestTooLarge(RequestError):
    """The head or the body of a request over HTTP is longer than the server accepts.

    Cause: very many or very large messages in one request, or very long headers.
    Do: send less in one request, or raise the limit that the sentence names.
    """

    code = "REQUEST_TOO_LARGE"
    sentence = (
        "the {part} of the request is longer than {limit_bytes} bytes; "
        "send less at a time, or raise http_{part}_bytes_max"
    )

    def __init__(self, *, part: str, limit_bytes: int) -> None:
        super().__init__(part=part, limit_bytes=limit_bytes)


class RequestTimeout(RequestError):
    """A request over HTTP was begun and did not arrive.

    Cause: the client stopped in the middle, or the network between did.
    Do: send the request again; a publish with a dedup id cannot happen twice.
    """

    code = "REQUEST_TIMEOUT"
    sentence = "nothing of the request has arrived for {seconds} seconds; send it again"

    def __init__(self, *, seconds: int) -> None:
        super().__init__(seconds=seconds)


class RouteNotFound(RequestError):
    """There is nothing at that path of the HTTP API.

    Cause: the path is misspelt, or the server is older than the client.
    Do: look for the path in the server's ``/openapi.json``.
    """

    code = "ROUTE_NOT_FOUND"
    sentence = "there is nothing at {path!r}; /openapi.json lists what there is"

    def __init__(self, *, path: str) -> None:
        super().__init__(path=path)


class MethodNotAllowed(RequestError):
    """The HTTP API has that path, and another method for it.

    Cause: a GET where a POST is meant, or the other way round.
    Do: use one of the methods that the sentence names, which the header ``Allow`` has, too.
    """

    code = "METHOD_NOT_ALLOWED"
    sentence = "{path!r} does not know {method}; use {allowed}"

    def __init__(self, *, path: str, method: str, allowed: str) -> None:
        super().__init__(path=path, method=method, allowed=allowed)


class MediaTypeUnsupported(RequestError):
    """A body over HTTP says that it is of a type which is not understood there.

    Cause: the header ``Content-Type`` is missing or another one, such as that of a form.
    Do: send one of the types that the sentence names, and say so in ``Content-Type``.
    """

    code = "MEDIA_TYPE_UNSUPPORTED"
    sentence = "a body of type {given!r} is not understood here; send {accepted}"

    def __init__(self, *, given: str, accepted: str) -> None:
        super().__init__(given=given, accepted=accepted)


class UpgradeRequired(RequestError):
    """At that path of the HTTP API there is a WebSocket, and the request does not ask for one.

    Cause: a plain ``GET``, or something between client and server that takes the header ``Upgrade`` away.
    Do: use a WebSocket client (``ws://``, ``wss://``) of version 13; or ``.../stream``, or ``.../receive``.
    """

    code = "UPGRADE_REQUIRED"
    sentence = "{path} is a WebSocket; connect to it with ws:// or wss://"

    def __init__(self, *, path: str) -> None:
        super().__init__(path=path)


class HostNotAllowed(RequestError):
    """The HTTP API was called by a name that it does not go by, on a server that asks nobody who they are.

    Cause: a web page whose name was made to lead here; or the server has a name that it was not told.
    Do: call it by its address or as localhost, or put the name into ``http.hosts``; or turn on
        ``security.authentication``, and then every name is fine.
    """

    code = "HOST_NOT_ALLOWED"
    sentence = "{host!r} is no name of this server; call it by its address, or put the name into http.hosts"

    def __init__(self, *, host: str) -> None:
        super().__init__(host=host)


class OriginNotAllowed(RequestError):
    """A browser has sent a request to the HTTP API for a page that may not use it.

    Cause: a page of another origin; or something between browser and server changes the header ``Host``.
    Do: if the page is one of yours, put its origin into ``http.cors_origins``.
    """

    code = "ORIGIN_NOT_ALLOWED"
    sentence = "pages of {origin} may not use this server; if they may, put it into http.cors_origins"

    def __init__(self, *, origin: str) -> None:
        super().__init__(origin=origin)


class ReceiptUnknown(RequestError):
    """A receipt is none that this server gave to whoever shows it, for that topic and group.

    Cause: it was cut or changed on the way, or belongs to another topic, group or key; or the server was
        restarted.
    Do: answer with the receipt as it was received; after a restart of the server, receive again.
    """

    code = "RECEIPT_UNKNOWN"
    sentence = "the receipt {receipt!r} is not known here; receive the message again for a new one"

    def __init__(self, *, receipt: str) -> None:
        super().__init__(receipt=receipt)


class Unauthenticated(RequestError):
    """The server wants to know who comes, and was not told, or not in a way that it could believe.

    Cause: no API key and no user was given, or the key was revoked, or the password is another one.
    Do: give a key: ``penstock.connect(url, key=...)``, or the variable ``PENSTOCK_KEY``. An admin makes one
        with ``penstock key create``.
    """

    code = "UNAUTHENTICATED"
    sentence = "{why}; give a key that is valid here: key=..., or PENSTOCK_KEY in the environment"

    def __init__(self, *, why: str) -> None:
        super().__init__(why=why)


class Forbidden(RequestError):
    """Whoever asks is known, and may not do this.

    Cause: none of the grants of the key or the user has the role that it needs, on that topic and group.
    Do: use another key, or have an admin grant the role that the sentence names (``penstock key create``,
        ``penstock user set``).
    """

    code = "FORBIDDEN"
    sentence = "{who} may not do {operation} on {on}: it needs the role {role} there; ask an admin for it"

    def __init__(self, *, who: str, operation: str, on: str, role: str) -> None:
        super().__init__(who=who, operation=operation, on=on, role=role)


class IdentityNotFound(RequestError):
    """There is no API key, or no user, of that name.

    Cause: it was revoked or deleted, or the name is misspelt; a key is named by its id.
    Do: look at what there is: ``penstock key list``, ``penstock user list``.
    """

    code = "IDENTITY_NOT_FOUND"
    sentence = "there is no {kind} {name!r}; see: penstock {kind} list"

    def __init__(self, *, kind: str, name: str) -> None:
        super().__init__(kind=kind, name=name)


class PipelineRunning(RequestError):
    """Somebody runs a pipeline of this name already.

    Cause: two runs of one name would do the same work twice, so the second is refused.
    Do: stop the first one, or give this one a name of its own; a run that was killed frees its name at
        once on its own machine, and after 30 seconds on others.
    """

    code = "PIPELINE_RUNNING"
    sentence = (
        "pipeline {name!r} runs already, on {host} (process {pid}); stop it with: penstock pipeline stop "
        "{name}, or run this one with --name"
    )

    def __init__(self, *, name: str, host: str, pid: int) -> None:
        super().__init__(name=name, host=host, pid=pid)


class PipelineFailed(RequestError):
    """A pipeline has ended with an error.

    Cause: what it worked on, its settings, your own function or Spark; the sentence has the first line of it.
    Do: correct what it names, and run the pipeline again: it goes on where it was.
    """

    code = "PIPELINE_FAILED"
    sentence = "pipeline {name!r} has failed: {why}"

    def __init__(self, *, name: str, why: str) -> None:
        super().__init__(name=name, why=why)


class QueryInvalid(RequestError):
    """A query over topics cannot be run as it is written.

    Cause: a topic, a column or a function that is not there, or words that are not SQL.
    Do: correct what the sentence names; ``\\d`` in the shell of ``penstock sql`` lists topics and columns.
    """

    code = "QUERY_INVALID"
    sentence = "this query cannot be run: {why}"

    def __init__(self, *, why: str) -> None:
        super().__init__(why=why)


class QueryFailed(RequestError):
    """A query over topics was begun, and could not be finished.

    Cause: a value that the query cannot work on, a broker or a file of the lake that cannot be read, or
        a result that is larger than what fits; the sentence says which.
    Do: correct what it names, and ask again: a query changes nothing.
    """

    code = "QUERY_FAILED"
    sentence = "the query has failed: {why}"

    def __init__(self, *, why: str) -> None:
        super().__init__(why=why)


class Closed(RequestError):
    """The broker or the consumer was closed.

    Cause: a call after ``close()`` or after the ``with`` block has ended.
    Do: open a new broker or consumer; end the threads that use one before closing it.
    """

    code = "CLOSED"
    sentence = "the {what} is closed; open a new one"

    def __init__(self, *, what: str) -> None:
        super().__init__(what=what)


class UnavailableError(PenstockError):
    """The request is fine; the broker cannot serve it now.

    Cause: never raised as such, except for a passing state that has no class of its own yet.
    Do: wait a little, longer each time, and call again.
    """

    code = "UNAVAILABLE"
    retryable = True


class QueueFull(UnavailableError):
    """A bounded buffer is full; the caller should slow down.

    Cause: publishers are faster than consumers, and the topic's depth or a buffer is bounded.
    Do: slow down and try again, add consumers, raise the limit, or choose the policy ``wait``.
    """

    code = "QUEUE_FULL"
    sentence = "{what} is full: {limit} is the limit; slow down and try again"

    def __init__(self, *, what: str, limit: int) -> None:
        super().__init__(what=what, limit=limit)


class DiskFull(UnavailableError):
    """The disk has no room; nothing was written, and what was there stays readable.

    Cause: the file system has no room, or the quota is used up.
    Do: free some space or shorten the retention; consumers go on meanwhile, and publishing works again
        by itself.
    """

    code = "DISK_FULL"
    sentence = "no room on the disk for {path!r}; nothing was written: free some space and try again"

    def __init__(self, *, path: str) -> None:
        super().__init__(path=path)


class MetadataStale(UnavailableError):
    """A batch was encoded for settings that its topic no longer has.

    Cause: the topic was altered or made anew since the client asked for its settings.
    Do: ask for the topic's settings again and encode the batch anew; Penstock's client does so by itself.
    """

    code = "METADATA_STALE"
    sentence = "topic {topic!r} has changed since version {version} of its settings; ask for them again"

    def __init__(self, *, topic: str, version: int) -> None:
        super().__init__(topic=topic, version=version)


class TransactionBusy(UnavailableError):
    """The producer's last transaction is decided and not finished: its markers are being written.

    Cause: the answer to its end was not awaited, or a disk is slow or full.
    Do: try again after a moment.
    """

    code = "TRANSACTION_BUSY"
    sentence = "the last transaction is still {state}; try again"

    def __init__(self, *, state: str) -> None:
        super().__init__(state=state)


class Overloaded(UnavailableError):
    """The server has as much in hand as it is allowed to have.

    Cause: clients send faster than the disk takes it, or there are more connections than the limit.
    Do: wait a little, longer each time, and try again; raise the limit if the machine can bear it.
    """

    code = "OVERLOADED"
    sentence = "the server has too much in hand: {limit} {what} is the limit; wait and try again"

    def __init__(self, *, what: str, limit: int) -> None:
        super().__init__(what=what, limit=limit)


class QuotaExceeded(UnavailableError):
    """A key or a user does more than its quota allows; or logs in too often with a wrong secret.

    Cause: it publishes faster than its quota, or has as many connections as it may have; or logins have
        failed, and the next one has to wait.
    Do: wait for ``retry_after`` seconds and try again; an admin can raise the quota.
    """

    code = "QUOTA_EXCEEDED"
    sentence = "{who} has used up its quota: {limit} {what}; try again in {retry_after} seconds"

    def __init__(self, *, who: str, what: str, limit: int, retry_after: int) -> None:
        super().__init__(who=who, what=what, limit=limit, retry_after=retry_after)


class ShuttingDown(UnavailableError):
    """The server is about to end and takes no new work.

    Cause: it was told to stop, for an update or for good.
    Do: connect again in a moment, or to another server.
    """

    code = "SHUTTING_DOWN"
    sentence = "the {what} is shutting down; connect again in a moment"

    def __init__(self, *, what: str) -> None:
        super().__init__(what=what)


class ServerUnreachable(UnavailableError):
    """A client cannot reach its server; the call was not sent, or changes nothing.

    Cause: no server listens there, it is being restarted, or the network between is down.
    Do: check the address and that ``penstock serve`` is running; call again later. The client goes on trying
        to connect by itself.
    """

    code = "SERVER_UNREACHABLE"
    sentence = "{server} cannot be reached: {why}; check the address, and that penstock serve is running"

    def __init__(self, *, server: str, why: str) -> None:
        super().__init__(server=server, why=why)


class OutcomeUnknown(PenstockError):
    """The connection to the server broke after the call was sent and before its answer came.

    Cause: the server or the network failed at that moment, and the call is not one that the client may
        repeat without doing it twice, or its time ran out before the server came back.
    Do: look whether it was done (``topics``, ``scheduled``, ``read``), and call again if it was not.
    """

    code = "OUTCOME_UNKNOWN"
    sentence = "{operation} was sent to {server} and not answered; look whether it was done, then call again"

    def __init__(self, *, operation: str, server: str) -> None:
        super().__init__(operation=operation, server=server)


class StorageFailed(PenstockError):
    """A write or a sync failed, so what is on disk is not known; the partition takes no more writes.

    Cause: the disk or the file system reported an error.
    Do: look at the system log and the disk, then reopen the broker: recovery keeps everything that was
        acknowledged.
    """

    code = "STORAGE_FAILED"
    sentence = (
        "{path!r} failed: {why}; it takes no more writes until the broker is reopened and has recovered it"
    )

    def __init__(self, *, path: str, why: str) -> None:
        super().__init__(path=path, why=why)


class LakeDamaged(PenstockError):
    """A file that a table of the lake names is damaged or missing.

    Cause: the disk returned other bytes than were written, or somebody changed or removed the file.
    Do: put the file back from a copy; ``penstock lake check`` names every such file and the offsets in it.
        All other files stay readable, and the archive goes on.
    """

    code = "LAKE_DAMAGED"
    sentence = "the file {path!r} of the lake cannot be read: {why}; put it back from a copy"

    def __init__(self, *, path: str, why: str) -> None:
        super().__init__(path=path, why=why)


class CorruptionError(PenstockError):
    """Bytes on disk do not match their checksum.

    Cause: the disk returned other bytes than were written, or something else changed the file.
    Do: restore the file from a copy or a replica, or seek past the damage; then check the disk.
    """

    code = "CORRUPTION"
    sentence = (
        "{path!r} is damaged at byte {position}: {why}; restore the file from a copy, or skip with a seek"
    )

    def __init__(self, *, path: str, position: int, why: str) -> None:
        super().__init__(path=path, position=position, why=why)
