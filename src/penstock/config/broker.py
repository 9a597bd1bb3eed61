"""Settings of brokers, topics and groups.

``TopicOptions`` and ``GroupOptions`` are the keyword arguments of a program (``retention="7d"``).
``settings_with`` converts them to ``TopicSettings`` and ``GroupSettings``, which the broker stores; these are
validated once, here, and have units in their names (``retention_ms``).

Settings are stored with the topic and in the group's journal, so a new field needs a default: older data
directories do not have it.
"""

from datetime import datetime
from typing import Any, Final, Literal, TypedDict, TypeVar

import msgspec

from penstock.errors import InvalidValue
from penstock.types import (
    Duration,
    Instant,
    check_name,
    duration_ms,
    duration_text,
    instant_ms,
    whole_number,
)

Durability = Literal["fsync", "os", "memory"]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Kind = Literal["queue", "stream"]
Isolation = Literal["read_committed", "read_uncommitted"]
Start = Literal["earliest", "latest"] | int | datetime

MEMORY = ":memory:"  # Used instead of a directory.
DAY_MS = 24 * 3600 * 1000
MESSAGE_BYTES_MAX = 64 * 1024 * 1024  # Upper limit of a topic's setting.
PARTITIONS_MAX = 10_000  # Of any topic.
STORED_MAX = 100  # Kafka settings that are only stored ...
STORED_LENGTH_MAX = 4096  # ... and characters of each.
SQS_LENGTH_MAX = 64 * 1024  # Of an attribute of an SQS queue; a policy is the longest.
DEAD_LETTER_SUFFIX = ".dlq"
DEAD_LETTER_RETENTION_MS = 14 * DAY_MS  # Longer than a topic's week: there must be time to look.
READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"
ISOLATIONS: Final = (READ_COMMITTED, READ_UNCOMMITTED)
ARCHIVE_GROUP = "archive"  # The stream group whose commits say how much of a topic is in the lake.

_CHOICES: dict[str, tuple[str, ...]] = {
    "durability": ("fsync", "os", "memory"),
    "compression": ("none", "gzip", "snappy", "lz4", "zstd"),
    "retention_applies": ("auto", "always", "never"),
    "depth_policy": ("reject", "wait"),
    "validation": ("off", "reject", "dead-letter"),
    "kind": ("queue", "stream"),
    "delivery": ("at-least-once", "at-most-once"),
    "lanes": ("strict", "weighted"),
    "isolation": ISOLATIONS,
}


# Names of other systems for a topic's durability; they are stored as ours.
DURABILITY_NAMES: Final[dict[str, Durability]] = {"disk": "fsync", "hybrid": "os"}
# Default for a topic created as a queue: there is no order and no priority across partitions.
QUEUE_PARTITIONS: Final = 1


class TopicOptions(TypedDict, total=False):
    """Keyword arguments of ``create_topic`` and ``alter_topic``."""

    partitions: int
    durability: Durability | Literal["disk", "hybrid"]
    compression: Compression
    retention: Duration | None
    retention_bytes: int | None
    retention_applies: Literal["auto", "always", "never"]
    retain_until_settled: bool
    retention_waits_for_archive: bool
    segment_bytes: int
    compact: bool
    tombstone_retention: Duration
    ttl: Duration | None
    dead_letter_expired: bool
    dead_letter_topic: str
    message_bytes_max: int
    depth_max: int | None
    depth_policy: Literal["reject", "wait"]
    depth_wait: Duration
    dedup_window: Duration
    delay_max: Duration
    scheduled_max: int
    kafka_headers: bool
    append_time: bool
    validation: Literal["off", "reject", "dead-letter"]
    kafka_configs: dict[str, str]
    sqs_attributes: dict[str, str]


class GroupOptions(TypedDict, total=False):
    """Keyword arguments of ``create_group``, and of the ``consumer`` that creates its group."""

    kind: Kind
    start: Start
    visibility_timeout: Duration
    max_attempts: int
    backoff: str | list[Duration]
    ordered: bool
    delivery: Literal["at-least-once", "at-most-once"]
    lanes: Literal["strict", "weighted"]
    isolation: Isolation
    dead_letter: bool
    session_timeout: Duration


class TopicSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """How one topic keeps its messages."""

    # Number of partitions; messages are ordered within a partition.
    partitions: int = 1
    # "fsync": on disk before the acknowledgement. "os": in the page cache, flushed every second. "memory": no
    # disk.
    durability: Durability = "fsync"
    # Compression of batches published through this broker.
    compression: Compression = "none"
    # Segments older than this are deleted; None keeps them forever.
    retention_ms: int | None = 7 * DAY_MS
    # Per partition: the oldest segments are deleted when the log is larger; None is no limit.
    retention_bytes: int | None = None
    # Whether retention deletes anything: "always", "never", or "auto": unless the topic is compacted.
    retention_applies: Literal["auto", "always", "never"] = "auto"
    # Retention waits for the slowest group.
    retain_until_settled: bool = False
    # Retention deletes only archived messages, below the committed offset of the stream group "archive".
    retention_waits_for_archive: bool = False
    # Size at which a new segment file is started.
    segment_bytes: int = 256 * 1024 * 1024
    # Keep only the last value of every key in sealed segments.
    compact: bool = False
    # How long compaction keeps a tombstone, so that slow consumers see the deletion.
    tombstone_retention_ms: int = DAY_MS
    # Messages older than this are settled instead of delivered; None: messages do not expire.
    ttl_ms: int | None = None
    # Expired messages become dead letters instead of just being settled.
    dead_letter_expired: bool = False
    # Topic for dead letters; empty means "<topic>.dlq".
    dead_letter_topic: str = ""
    # Largest message: key, value and headers together.
    message_bytes_max: int = 1024 * 1024
    # Most messages that the slowest group may have pending; None is no limit.
    depth_max: int | None = None
    # At depth_max a publish is rejected at once, or waits for up to depth_wait_ms.
    depth_policy: Literal["reject", "wait"] = "reject"
    depth_wait_ms: int = 30_000
    # How long a dedup id is remembered.
    dedup_window_ms: int = 5 * 60 * 1000
    # Longest delay of a message.
    delay_max_ms: int = 365 * DAY_MS
    # Most scheduled messages in one partition.
    scheduled_max: int = 10_000_000
    # Apply these headers of messages from Kafka clients: x-delay-ms, x-deliver-at, x-priority, x-ttl-ms and
    # x-dedup-id.
    kafka_headers: bool = False
    # Records of Kafka clients get the broker's timestamp, as all other messages do (LogAppendTime).
    append_time: bool = False
    # Values must match the schema of the subject "<topic>-value": "reject" refuses a publish with others,
    # "dead-letter" moves these to the topic's dead letters, "off" takes every value.
    validation: Literal["off", "reject", "dead-letter"] = "off"
    # Kafka settings that have no effect here, stored so that Kafka clients can read them back.
    kafka_configs: dict[str, str] = {}
    # Attributes and tags of an SQS queue, as its clients set them; they make the topic a queue.
    sqs_attributes: dict[str, str] = {}

    def __post_init__(self) -> None:
        _between("partitions", self.partitions, 1, PARTITIONS_MAX)
        _between("segment_bytes", self.segment_bytes, 4096, 2**31 - 1)
        _between("message_bytes_max", self.message_bytes_max, 1, MESSAGE_BYTES_MAX)
        _between("retention_ms", self.retention_ms, 1, None)
        _between("retention_bytes", self.retention_bytes, 1, None)
        _between("ttl_ms", self.ttl_ms, 1, None)
        _between("depth_max", self.depth_max, 1, None)
        _between("scheduled_max", self.scheduled_max, 1, None)
        _between("dedup_window_ms", self.dedup_window_ms, 0, 7 * DAY_MS)
        _one_of("durability", self.durability)
        _one_of("compression", self.compression)
        _one_of("retention_applies", self.retention_applies)
        _one_of("depth_policy", self.depth_policy)
        _one_of("validation", self.validation)
        _check_stored("kafka_configs", self.kafka_configs, STORED_LENGTH_MAX)
        _check_stored("sqs_attributes", self.sqs_attributes, SQS_LENGTH_MAX)
        if self.dead_letter_topic:
            check_name("dead letter topic", self.dead_letter_topic)

    @property
    def deletes(self) -> bool:
        """Whether time and size delete messages: a compacted topic keeps its keys unless it says "always"."""
        if self.retention_applies == "auto":
            return not self.compact
        return self.retention_applies == "always"

    @property
    def kept_ms(self) -> int | None:
        """Age at which messages are deleted; None is never."""
        return self.retention_ms if self.deletes else None

    @property
    def kept_bytes(self) -> int | None:
        """Size above which a partition's oldest messages are deleted; None is no limit."""
        return self.retention_bytes if self.deletes else None


class GroupSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one group consumes its topic."""

    # "queue": consumers lease single messages. "stream": consumers are assigned partitions and commit
    # offsets.
    kind: Kind = "queue"
    # Where a new group starts: "earliest", "latest", an offset, or milliseconds since 1970 as "@<ms>".
    start: str = "earliest"
    # How long a consumer may hold a message before it is delivered to another one.
    visibility_timeout_ms: int = 30_000
    # Total deliveries, including the first; after that the message becomes a dead letter.
    max_attempts: int = 4
    # Delays before retries: "exponential:<base ms>:<factor>:<cap ms>:<jitter>" or "fixed:<ms>,<ms>,...".
    backoff: str = "exponential:1000:2:60000:0.2"
    # Messages with the same key are never in flight at the same time.
    ordered: bool = False
    # "at-most-once" settles a message before it is delivered.
    delivery: Literal["at-least-once", "at-most-once"] = "at-least-once"
    # "strict": the highest lane always goes first. "weighted": lower lanes get a share.
    lanes: Literal["strict", "weighted"] = "strict"
    # Queue groups: "read_uncommitted" also delivers messages of transactions that are open or were aborted.
    isolation: Isolation = "read_committed"
    # False: a message that has reached max_attempts is settled and stays in its topic, without a dead letter.
    dead_letter: bool = True
    # A stream consumer that sends no heartbeat for this long loses its partitions.
    session_timeout_ms: int = 30_000

    def __post_init__(self) -> None:
        _between("visibility_timeout_ms", self.visibility_timeout_ms, 1, 12 * 3600 * 1000)
        _between("max_attempts", self.max_attempts, 1, 1000)
        _between("session_timeout_ms", self.session_timeout_ms, 1, DAY_MS)
        for name in ("kind", "delivery", "lanes", "isolation"):
            _one_of(name, getattr(self, name))
        if self.ordered and self.kind == "stream":
            raise InvalidValue(name="ordered", value=True, why="stream groups are always ordered")

    @property
    def uncommitted(self) -> bool:
        """Whether messages of open and aborted transactions are delivered; never to stream groups."""
        return self.kind == "queue" and self.isolation == READ_UNCOMMITTED


# Settings of a broker that are not numbers.
NOT_COUNTS: Final = ("metrics", "auto_create_topics", "lake", "consumers_elsewhere", "topic", "group")


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one broker, and defaults for new topics and groups."""

    # Topics; the broker's own topics (dead letters) do not count.
    topics_max: int = 10_000
    # Partitions in total, and per topic.
    partitions_max: int = 50_000
    topic_partitions_max: int = PARTITIONS_MAX
    # Groups in total; a group that consumes two topics counts twice.
    groups_max: int = 50_000
    # Consumers of one group, or members of one Kafka group.
    group_members_max: int = 10_000
    # Transactional ids of Kafka producers that the broker keeps.
    transactional_ids_max: int = 50_000
    # Log files open at the same time; others are opened on demand.  At most half of the process's limit of
    # open files is used, which leaves the rest for connections.
    open_files_max: int = 4096
    # Unsettled messages per consumer.
    in_flight_max: int = 10_000
    # Messages that one receive may return, and the bytes at which a receive, read, peek or list stops adding
    # messages.
    receive_messages_max: int = 10_000
    receive_bytes_max: int = 64 * 1024 * 1024
    # Messages that an ordered group may defer while their keys are in flight, per partition.
    deferred_max: int = 10_000
    # Dedup ids kept per topic; above this the oldest are dropped early.
    dedup_ids_max: int = 1_000_000
    # Topics, and groups, with their own metrics; beyond that, only a count is exported.
    metrics_names_max: int = 1000
    # Collect metrics; false: GET /metrics is the error METRICS_DISABLED.
    metrics: bool = True
    # How long collected metrics are served again; 0: they are collected for every request.
    metrics_interval_ms: int = 0
    # Interval of retention, compaction and journal snapshots.
    maintenance_ms: int = 60_000
    # How often the schedule checks the wall clock, which may jump, before its next entry is due.
    clock_check_ms: int = 1000
    # How long committed offsets of empty Kafka groups are kept; those of other groups are kept forever.
    offsets_retention_ms: int = 7 * DAY_MS
    # Journal size at which a snapshot is taken, so that reopening replays little.
    snapshot_bytes: int = 16 * 1024 * 1024
    # How long close() waits for running calls.
    close_timeout_ms: int = 10_000
    # Publishing to or consuming a missing topic creates it; False: it is an error.
    auto_create_topics: bool = True
    # Directory or URI of the lake; empty means "lake" in the data directory, or no lake for a broker in
    # memory.
    lake: str = ""
    # Consumers run in other processes, as those of a server do: they survive a killed broker, so messages
    # that they held are redelivered without counting the attempt.
    consumers_elsewhere: bool = False
    # Defaults for new topics.
    topic: TopicSettings = msgspec.field(default_factory=TopicSettings)
    # Defaults for new groups.
    group: GroupSettings = msgspec.field(default_factory=GroupSettings)

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if name not in NOT_COUNTS:
                whole_number(name, getattr(self, name), 0 if name == "metrics_interval_ms" else 1)


Settings = TypeVar("Settings", TopicSettings, GroupSettings)

_DURATIONS = {
    "retention", "tombstone_retention", "ttl", "depth_wait", "dedup_window", "delay_max",
    "visibility_timeout", "session_timeout",
}  # fmt: skip


def settings_with(settings: Settings, options: TopicOptions | GroupOptions) -> Settings:
    """``settings`` with what ``options`` changes; unknown names and wrong types are errors."""
    fields: dict[str, Any] = {}
    known = [field.removesuffix("_ms") for field in settings.__struct_fields__]
    for name, value in options.items():
        if name not in known:
            why = f"there is no such setting; the settings are {', '.join(known)}"
            raise InvalidValue(name="settings", value=name, why=why)
        if name in _DURATIONS:
            fields[f"{name}_ms"] = None if value is None else duration_ms(name, value)  # type: ignore[arg-type]
        elif name == "start":
            fields[name] = start_text(value)  # type: ignore[arg-type]
        elif name == "backoff":
            fields[name] = backoff_text(value)  # type: ignore[arg-type]
        elif name == "durability":
            fields[name] = durability_name(value)
        else:
            fields[name] = value
    for name, value in fields.items():
        _same_type(name, value, getattr(type(settings)(), name))
    return msgspec.structs.replace(settings, **fields)


def start_text(start: Start | str | Instant) -> str:
    """The stored form of a group's start position."""
    if isinstance(start, bool):
        raise InvalidValue(name="start", value=start, why="use 'earliest', 'latest', an offset or a time")
    if isinstance(start, int):
        if start < 0:
            raise InvalidValue(name="start", value=start, why="an offset is not negative")
        return str(start)
    if isinstance(start, str) and start in ("earliest", "latest"):
        return start
    return f"@{instant_ms('start', start)}"


def durability_name(value: Any) -> Any:
    """Our name for a durability; what is not another system's name is returned as it is."""
    return DURABILITY_NAMES.get(value, value) if isinstance(value, str) else value


def backoff_text(backoff: str | list[Duration]) -> str:
    """The stored form of a backoff: "exponential", its full form, or a list of delays."""
    if isinstance(backoff, list):
        if not backoff:
            raise InvalidValue(
                name="backoff", value=backoff, why="give at least one delay, such as ['1s', '10s']"
            )
        return "fixed:" + ",".join(str(duration_ms("backoff", wait)) for wait in backoff)
    if backoff == "exponential":
        return GroupSettings().backoff
    if isinstance(backoff, str) and backoff.partition(":")[0] in ("exponential", "fixed"):
        return backoff
    raise InvalidValue(
        name="backoff", value=backoff, why="use 'exponential' or a list of delays such as ['1s', '10s']"
    )


def _between(name: str, value: int | None, low: int, high: int | None) -> None:
    if value is not None and (value < low or (high is not None and value > high)):
        shown = duration_text if name.endswith("_ms") else str
        limit = f"at least {shown(low)}" if high is None else f"from {shown(low)} to {shown(high)}"
        raise InvalidValue(name=name, value=value, why=f"it must be {limit}")


def _check_stored(name: str, texts: dict[str, str], length_max: int) -> None:
    both = [*texts, *texts.values()]
    if len(texts) > STORED_MAX or not all(isinstance(text, str) for text in both):
        raise InvalidValue(name=name, value=len(texts), why=f"it must be up to {STORED_MAX} texts, by name")
    if any(len(text) > length_max for text in both):
        raise InvalidValue(name=name, value=len(texts), why=f"a text has {length_max} characters at most")


def _one_of(name: str, value: str) -> None:
    if value not in _CHOICES[name]:
        raise InvalidValue(name=name, value=value, why=f"use one of {', '.join(_CHOICES[name])}")


def _same_type(name: str, value: object, default: object) -> None:
    """Refuse a wrong type here, where the setting's name is known."""
    optional = name in ("retention_ms", "retention_bytes", "ttl_ms", "depth_max")
    if value is None and optional:
        return
    wanted = int if optional else type(default)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise InvalidValue(name=name, value=value, why=f"it must be {wanted.__name__}")
