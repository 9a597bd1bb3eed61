"""Every error this package raises on purpose, and how each one reaches a client.

    PenstockError
    ├── RequestError              the caller must change something; never retry as is
    │   ├── InvalidName           NAME_INVALID             messages
    │   ├── InvalidValue          VALUE_INVALID
    │   ├── UnknownPriority       PRIORITY_UNKNOWN
    │   ├── DelayOutOfRange       DELAY_OUT_OF_RANGE
    │   ├── EmptyMessage          MESSAGE_EMPTY
    │   ├── MessageTooLarge       MESSAGE_TOO_LARGE
    │   ├── InvalidBatch          BATCH_INVALID
    │   ├── InvalidRecords        RECORDS_INVALID
    │   ├── KeyMissing            KEY_MISSING
    │   ├── TopicNotFound         TOPIC_NOT_FOUND          topics
    │   ├── TopicExists           TOPIC_EXISTS
    │   ├── LimitReached          LIMIT_REACHED
    │   ├── PartitionNotFound     PARTITION_NOT_FOUND
    │   ├── OffsetOutOfRange      OFFSET_OUT_OF_RANGE
    │   ├── RestoreRefused        RESTORE_REFUSED
    │   ├── StagedMissing         STAGED_MISSING
    │   ├── GroupNotFound         GROUP_NOT_FOUND          groups
    │   ├── DeadLetterNotFound    DEAD_LETTER_NOT_FOUND
    │   ├── GroupKindMismatch     GROUP_KIND_MISMATCH
    │   ├── MemberUnknown         MEMBER_UNKNOWN
    │   ├── NotAssigned           PARTITION_NOT_ASSIGNED
    │   ├── LeaseLost             LEASE_LOST
    │   ├── AlreadySettled        ALREADY_SETTLED
    │   ├── ReceiptUnknown        RECEIPT_UNKNOWN
    │   ├── ProducerFenced        PRODUCER_FENCED          producers
    │   ├── SequenceOutOfOrder    SEQUENCE_OUT_OF_ORDER
    │   ├── SequenceReused        SEQUENCE_REUSED
    │   ├── ProducerUnknown       PRODUCER_UNKNOWN
    │   ├── TransactionNotOpen    TRANSACTION_NOT_OPEN
    │   ├── DirectoryInUse        DIRECTORY_IN_USE         startup
    │   ├── DirectoryUnusable     DIRECTORY_UNUSABLE
    │   ├── InvalidConfiguration  CONFIGURATION_INVALID
    │   ├── AddressUnusable       ADDRESS_UNUSABLE
    │   ├── ExtraMissing          EXTRA_MISSING
    │   ├── Closed                CLOSED
    │   ├── FrameTooLarge         FRAME_TOO_LARGE          requests
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
    │   ├── HostNotAllowed        HOST_NOT_ALLOWED         access
    │   ├── OriginNotAllowed      ORIGIN_NOT_ALLOWED
    │   ├── Unauthenticated       UNAUTHENTICATED
    │   ├── Forbidden             FORBIDDEN
    │   ├── IdentityNotFound      IDENTITY_NOT_FOUND
    │   ├── LakeUnusable          LAKE_UNUSABLE            lake
    │   ├── NotArchived           NOT_ARCHIVED
    │   ├── OffsetsMissing        OFFSETS_MISSING
    │   ├── PipelineRunning       PIPELINE_RUNNING
    │   ├── PipelineFailed        PIPELINE_FAILED
    │   ├── QueryInvalid          QUERY_INVALID
    │   └── QueryFailed           QUERY_FAILED
    ├── UnavailableError          try again later; nothing was changed
    │   ├── QueueFull             QUEUE_FULL               unavailable
    │   ├── DiskFull              DISK_FULL
    │   ├── MetadataStale         METADATA_STALE
    │   ├── TransactionBusy       TRANSACTION_BUSY
    │   ├── Overloaded            OVERLOADED
    │   ├── QuotaExceeded         QUOTA_EXCEEDED
    │   ├── ShuttingDown          SHUTTING_DOWN
    │   ├── Unhealthy             UNHEALTHY
    │   └── ServerUnreachable     SERVER_UNREACHABLE
    ├── TopicDamaged              a topic is offline, because a file of it is damaged
    ├── LakeDamaged               a file of the lake cannot be read
    ├── OutcomeUnknown            the connection broke before the answer came; it may have been done
    ├── StorageFailed             a write or sync failed; the partition stops until it is reopened
    └── CorruptionError           stored bytes do not match their checksum

A front end never invents an error.  It maps ``code`` and ``retryable`` to its
own protocol in one table, and a test walks this package to see that no class
is missing from any table.  Bugs are not in this tree: they are ``assert``.

The last column is the module in which a family of them stands (of the last
five, TopicDamaged is in ``topics``, LakeDamaged in ``lake``, and the others in ``failures``); a program
imports all of them from here.

An error carries facts (``error.facts``); its sentence is a template over
them that says what happened and what to do about it.  The docstring of a
class (what it means, ``Cause:``, ``Do:``) is its section in docs/errors.md;
``make docs`` writes that page, and a test compares it.
"""

from penstock.errors.access import (
    Forbidden,
    HostNotAllowed,
    IdentityNotFound,
    OriginNotAllowed,
    Unauthenticated,
)
from penstock.errors.base import PenstockError, RequestError, UnavailableError
from penstock.errors.failures import CorruptionError, OutcomeUnknown, StorageFailed
from penstock.errors.groups import (
    AlreadySettled,
    DeadLetterNotFound,
    GroupKindMismatch,
    GroupNotFound,
    LeaseLost,
    MemberUnknown,
    NotAssigned,
    ReceiptUnknown,
)
from penstock.errors.lake import (
    LakeDamaged,
    LakeUnusable,
    NotArchived,
    OffsetsMissing,
    PipelineFailed,
    PipelineRunning,
    QueryFailed,
    QueryInvalid,
)
from penstock.errors.messages import (
    DelayOutOfRange,
    EmptyMessage,
    InvalidBatch,
    InvalidName,
    InvalidRecords,
    InvalidValue,
    KeyMissing,
    MessageTooLarge,
    UnknownPriority,
)
from penstock.errors.producers import (
    ProducerFenced,
    ProducerUnknown,
    SequenceOutOfOrder,
    SequenceReused,
    TransactionNotOpen,
)
from penstock.errors.requests import (
    FrameTooLarge,
    MediaTypeUnsupported,
    MethodNotAllowed,
    OperationUnknown,
    ProtocolViolation,
    RequestInvalid,
    RequestTimeout,
    RequestTooLarge,
    RouteNotFound,
    UpgradeRequired,
    VersionUnsupported,
)
from penstock.errors.startup import (
    AddressUnusable,
    Closed,
    DirectoryInUse,
    DirectoryUnusable,
    ExtraMissing,
    InvalidConfiguration,
)
from penstock.errors.topics import (
    LimitReached,
    OffsetOutOfRange,
    PartitionNotFound,
    RestoreRefused,
    StagedMissing,
    TopicDamaged,
    TopicExists,
    TopicNotFound,
)
from penstock.errors.unavailable import (
    DiskFull,
    MetadataStale,
    Overloaded,
    QueueFull,
    QuotaExceeded,
    ServerUnreachable,
    ShuttingDown,
    TransactionBusy,
    Unhealthy,
)

__all__ = [
    "AddressUnusable",
    "AlreadySettled",
    "Closed",
    "CorruptionError",
    "DeadLetterNotFound",
    "DelayOutOfRange",
    "DirectoryInUse",
    "DirectoryUnusable",
    "DiskFull",
    "EmptyMessage",
    "ExtraMissing",
    "Forbidden",
    "FrameTooLarge",
    "GroupKindMismatch",
    "GroupNotFound",
    "HostNotAllowed",
    "IdentityNotFound",
    "InvalidBatch",
    "InvalidConfiguration",
    "InvalidName",
    "InvalidRecords",
    "InvalidValue",
    "KeyMissing",
    "LakeDamaged",
    "LakeUnusable",
    "LeaseLost",
    "LimitReached",
    "MediaTypeUnsupported",
    "MemberUnknown",
    "MessageTooLarge",
    "MetadataStale",
    "MethodNotAllowed",
    "NotArchived",
    "NotAssigned",
    "OffsetOutOfRange",
    "OffsetsMissing",
    "OperationUnknown",
    "OriginNotAllowed",
    "OutcomeUnknown",
    "Overloaded",
    "PartitionNotFound",
    "PenstockError",
    "PipelineFailed",
    "PipelineRunning",
    "ProducerFenced",
    "ProducerUnknown",
    "ProtocolViolation",
    "QueryFailed",
    "QueryInvalid",
    "QueueFull",
    "QuotaExceeded",
    "ReceiptUnknown",
    "RequestError",
    "RequestInvalid",
    "RequestTimeout",
    "RequestTooLarge",
    "RestoreRefused",
    "RouteNotFound",
    "SequenceOutOfOrder",
    "SequenceReused",
    "ServerUnreachable",
    "ShuttingDown",
    "StagedMissing",
    "StorageFailed",
    "TopicDamaged",
    "TopicExists",
    "TopicNotFound",
    "TransactionBusy",
    "TransactionNotOpen",
    "Unauthenticated",
    "UnavailableError",
    "Unhealthy",
    "UnknownPriority",
    "UpgradeRequired",
    "VersionUnsupported",
]

for _name in __all__:
    globals()[_name].__module__ = __name__  # A traceback names an error as a program imports it.
