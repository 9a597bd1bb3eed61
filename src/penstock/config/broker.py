"""What a program or an operator may set: for the broker, for a topic, for a group.

Two shapes of each.  ``TopicOptions`` and ``GroupOptions`` are what people
write (``retention="7d"``); ``TopicSettings`` and ``GroupSettings`` are what
the broker keeps, checked once here and trusted after, with units in the names
(``retention_ms``).  ``settings_with`` turns the first into the second.

Settings are stored with the topic and with the group's journal, so a new
field needs a default: an older directory does not have it.
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

MEMORY = ":memory:"  # In the place of a directory.
DAY_MS = 24 * 3600 * 1000
MESSAGE_BYTES_MAX = 64 * 1024 * 1024  # The most that any topic may be set to take.
PARTITIONS_MAX = 10_000  # Of any topic.
STORED_MAX = 100  # Settings of Kafka's that are only stored ...
STORED_LENGTH_MAX = 4096  # ... and characters of each.
DEAD_LETTER_SUFFIX = ".dlq"
READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"
ISOLATIONS: Final = (READ_COMMITTED, READ_UNCOMMITTED)
ARCHIVE_GROUP = "archive"  # The stream group whose commits say how much of a topic is in the lake.

_CHOICES: dict[str, tuple[str, ...]] = {
    "durability": ("fsync", "os", "memory"),
    "compression": ("none", "gzip", "snappy", "lz4", "zstd"),
    "retention_applies": ("auto", "always", "never"),
    "depth_policy": ("reject", "wait"),
    "kind": ("queue", "stream"),
    "delivery": ("at-least-once", "at-most-once"),
    "lanes": ("strict", "weighted"),
    "isolation": ISOLATIONS,
}


# What is created as a queue has one partition, unless its maker says otherwise: there is no order, and no
# priority, across partitions.
QUEUE_PARTITIONS: Final = 1


class TopicOptions(TypedDict, total=False):
    """Keyword arguments of ``create_topic`` and ``alter_topic``."""

    partitions: int
    durability: Durability
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
    kafka_configs: dict[str, str]


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

    # Logs the topic is split into; order holds within one.
    partitions: int = 1
    # "fsync": acknowledged is on disk. "os": in the page cache, flushed every second. "memory": only there.
    durability: Durability = "fsync"
    # How batches published through this broker are packed.
    compression: Compression = "none"
    # Segments older than this are deleted; None keeps them for ever.
    retention_ms: int | None = 7 * DAY_MS
    # Per partition: oldest segments go when the log is larger; None is no limit.
    retention_bytes: int | None = None
    # Whether retention deletes anything: "always", "never", or "auto": unless the topic is compacted.
    retention_applies: Literal["auto", "always", "never"] = "auto"
    # Retention waits for the slowest group.
    retain_until_settled: bool = False
    # Retention deletes only what is in the lake: below the committed offset of the stream group "archive".
    retention_waits_for_archive: bool = False
    # Size at which a new segment file is begun.
    segment_bytes: int = 256 * 1024 * 1024
    # Keep only the last value of every key in sealed segments.
    compact: bool = False
    # How long compaction keeps a tombstone, so that slow readers see the deletion.
    tombstone_retention_ms: int = DAY_MS
    # Messages older than this are settled instead of delivered; None is never.
    ttl_ms: int | None = None
    # Expired messages go to the dead letters instead of just being settled.
    dead_letter_expired: bool = False
    # Where dead letters go; empty means "<topic>.dlq".
    dead_letter_topic: str = ""
    # Largest message: key, value and headers together.
    message_bytes_max: int = 1024 * 1024
    # Most messages that may wait for the slowest group; None is no limit.
    depth_max: int | None = None
    # At depth_max a publish is refused at once, or waits for room up to depth_wait_ms.
    depth_policy: Literal["reject", "wait"] = "reject"
    depth_wait_ms: int = 30_000
    # How long a dedup id is remembered.
    dedup_window_ms: int = 5 * 60 * 1000
    # Longest delay a publish may ask for.
    delay_max_ms: int = 365 * DAY_MS
    # Most messages that may wait in the schedule of one partition.
    scheduled_max: int = 10_000_000
    # Headers of Kafka's clients count: x-delay-ms, x-deliver-at, x-priority, x-ttl-ms and x-dedup-id.
    kafka_headers: bool = False
    # Records of Kafka's clients get the broker's time, as all others do (LogAppendTime).
    append_time: bool = False
    # Settings of Kafka's that are only stored for its clients, by their names.
    kafka_configs: dict[str, str] = {}

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
        _check_stored(self.kafka_configs)
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
    """How one group works through its topic."""

    # "queue": consumers share the messages by leases. "stream": partitions are assigned, offsets committed.
    kind: Kind = "queue"
    # Where a new group begins: "earliest", "latest", an offset, or milliseconds since 1970 as "@<ms>".
    start: str = "earliest"
    # How long a consumer may hold a message before it is offered to another.
    visibility_timeout_ms: int = 30_000
    # Deliveries in all, the first included; then the message is a dead letter.
    max_attempts: int = 4
    # Waits before each retry: "exponential:<base ms>:<factor>:<cap ms>:<jitter>" or "fixed:<ms>,<ms>,...".
    backoff: str = "exponential:1000:2:60000:0.2"
    # Messages with equal keys are never in flight together.
    ordered: bool = False
    # "at-most-once" settles a message before it is handed out.
    delivery: Literal["at-least-once", "at-most-once"] = "at-least-once"
    # "strict": the highest lane first, always. "weighted": low lanes get their share.
    lanes: Literal["strict", "weighted"] = "strict"
    # Queue groups: "read_uncommitted" also delivers messages of transactions that are open or were aborted.
    isolation: Isolation = "read_committed"
    # False: a message that used up its attempts is settled and left in its topic, with no dead letter.
    dead_letter: bool = True
    # A stream consumer that is silent for this long loses its partitions.
    session_timeout_ms: int = 30_000

    def __post_init__(self) -> None:
        _between("visibility_timeout_ms", self.visibility_timeout_ms, 1, 12 * 3600 * 1000)
        _between("max_attempts", self.max_attempts, 1, 1000)
        _between("session_timeout_ms", self.session_timeout_ms, 1, DAY_MS)
        for name in ("kind", "delivery", "lanes", "isolation"):
            _one_of(name, getattr(self, name))
        if self.ordered and self.kind == "stream":
            raise InvalidValue(name="ordered", value=True, why="a stream group is in order by itself")

    @property
    def uncommitted(self) -> bool:
        """Whether messages of open and aborted transactions are delivered; never to stream groups."""
        return self.kind == "queue" and self.isolation == READ_UNCOMMITTED


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one broker, and what new topics and groups are like."""

    # Topics; the broker's own (dead letters) are made beyond it.
    topics_max: int = 10_000
    # Partitions of all topics together, and of one topic.
    partitions_max: int = 50_000
    topic_partitions_max: int = PARTITIONS_MAX
    # Groups of all topics together; a group that reads two topics counts twice.
    groups_max: int = 50_000
    # Consumers of one group, or members of one Kafka group.
    group_members_max: int = 10_000
    # Transactional ids of Kafka's producers that are remembered.
    transactional_ids_max: int = 50_000
    # Files of logs that are open at a time; the others are opened when they are needed.  Never more than half
    # of what the system lets the process have open, so that connections have the rest.
    open_files_max: int = 4096
    # Messages one consumer may hold at a time.
    in_flight_max: int = 10_000
    # Messages one receive may return, and how many bytes it (or a look: read, peek, a list) gathers before it
    # stops looking for more.
    receive_messages_max: int = 10_000
    receive_bytes_max: int = 64 * 1024 * 1024
    # Messages an ordered group may set aside while their keys are busy, per partition.
    deferred_max: int = 10_000
    # Dedup ids remembered per topic; beyond it the oldest are forgotten early.
    dedup_ids_max: int = 1_000_000
    # Topics, and groups, that have metrics of their own; of more only their number is told.
    metrics_names_max: int = 1000
    # How often retention, compaction and journal snapshots are looked at.
    maintenance_ms: int = 60_000
    # How often the schedule looks at the wall clock, which may jump, before its next entry is due.
    clock_check_ms: int = 1000
    # How long the places of Kafka's groups are kept that nobody is in; those of others are kept for ever.
    offsets_retention_ms: int = 7 * DAY_MS
    # Journal bytes after which a snapshot is taken, so that reopening replays little.
    snapshot_bytes: int = 16 * 1024 * 1024
    # How long close() waits for calls that are still running.
    close_timeout_ms: int = 10_000
    # Publishing to a missing topic, or consuming it, creates the topic; False: it is an error.
    auto_create_topics: bool = True
    # Where the lake is, a directory or a URI; empty is "lake" beside the topics, or none in memory.
    lake: str = ""
    # The consumers are in other processes, as a server's are: they outlive a broker that is killed, and what
    # it had lent them comes again without counting the attempt.
    consumers_elsewhere: bool = False
    # What a new topic is like, where its maker does not say otherwise.
    topic: TopicSettings = msgspec.field(default_factory=TopicSettings)
    # What a new group is like, where its maker does not say otherwise.
    group: GroupSettings = msgspec.field(default_factory=GroupSettings)

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if name not in ("auto_create_topics", "lake", "consumers_elsewhere", "topic", "group"):
                whole_number(name, getattr(self, name), 1)


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
            why = f"there is no such setting; there are {', '.join(known)}"
            raise InvalidValue(name="settings", value=name, why=why)
        if name in _DURATIONS:
            fields[f"{name}_ms"] = None if value is None else duration_ms(name, value)  # type: ignore[arg-type]
        elif name == "start":
            fields[name] = start_text(value)  # type: ignore[arg-type]
        elif name == "backoff":
            fields[name] = backoff_text(value)  # type: ignore[arg-type]
        else:
            fields[name] = value
    for name, value in fields.items():
        _same_type(name, value, getattr(type(settings)(), name))
    return msgspec.structs.replace(settings, **fields)


def start_text(start: Start | str | Instant) -> str:
    """Where a group starts, as it is stored."""
    if isinstance(start, bool):
        raise InvalidValue(name="start", value=start, why="use 'earliest', 'latest', an offset or a time")
    if isinstance(start, int):
        if start < 0:
            raise InvalidValue(name="start", value=start, why="an offset is not negative")
        return str(start)
    if isinstance(start, str) and start in ("earliest", "latest"):
        return start
    return f"@{instant_ms('start', start)}"


def backoff_text(backoff: str | list[Duration]) -> str:
    """A backoff as it is stored: the word "exponential", its full form, or a list of waits."""
    if isinstance(backoff, list):
        if not backoff:
            raise InvalidValue(
                name="backoff", value=backoff, why="give at least one wait, such as ['1s', '10s']"
            )
        return "fixed:" + ",".join(str(duration_ms("backoff", wait)) for wait in backoff)
    if backoff == "exponential":
        return GroupSettings().backoff
    if isinstance(backoff, str) and backoff.partition(":")[0] in ("exponential", "fixed"):
        return backoff
    raise InvalidValue(
        name="backoff", value=backoff, why="use 'exponential' or a list of waits such as ['1s', '10s']"
    )


def _between(name: str, value: int | None, low: int, high: int | None) -> None:
    if value is not None and (value < low or (high is not None and value > high)):
        shown = duration_text if name.endswith("_ms") else str
        limit = f"at least {shown(low)}" if high is None else f"from {shown(low)} to {shown(high)}"
        raise InvalidValue(name=name, value=value, why=f"it must be {limit}")


def _check_stored(configs: dict[str, str]) -> None:
    texts = [*configs, *configs.values()]
    if len(configs) > STORED_MAX or not all(isinstance(text, str) for text in texts):
        why = f"it must be up to {STORED_MAX} texts, by name"
        raise InvalidValue(name="kafka_configs", value=len(configs), why=why)
    if any(len(text) > STORED_LENGTH_MAX for text in texts):
        raise InvalidValue(
            name="kafka_configs", value=len(configs), why=f"a text has {STORED_LENGTH_MAX} characters at most"
        )


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
