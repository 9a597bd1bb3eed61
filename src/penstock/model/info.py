"""Results of operations that describe a broker: topics, groups, schedules, dead letters.

Plain values, the same from an embedded broker and over a connection, so they do not
depend on the broker.  The history of one message is in ``trace.py``.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from penstock.config.broker import TopicSettings
from penstock.model.message import StoredMessage
from penstock.model.tables import html

Cancelled = Literal["cancelled", "delivered", "unknown"]
OTHER_ERRORS: Final = "others"  # Stands for all fingerprints beyond those that are counted separately.


def _numbers(
    names: Sequence[str], partitions: Sequence[msgspec.Struct]
) -> tuple[Sequence[str], list[list[str]], int]:
    """The arguments of a table of partitions, with the first of many."""
    shown = [[f"{getattr(each, name):,}" for name in names] for each in partitions[: html.SHOWN_MAX]]
    return names, shown, len(partitions) - len(shown)


class PartitionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One partition at a glance."""

    partition: int
    start: int
    end: int
    bytes: int
    scheduled: int
    cut_bytes: int  # What recovery had to cut off the end when the log was opened, unused room included.


class TopicInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A topic at a glance; the counts are since the broker was opened."""

    topic: str
    settings: TopicSettings
    messages: int
    bytes: int
    depth: int
    scheduled: int
    published: int
    duplicates: int
    groups: list[str]
    partitions: list[PartitionInfo]

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        title = (
            f"{self.topic}: {self.messages:,} messages, {self.bytes:,} bytes, {self.scheduled:,} scheduled"
        )
        names = ("partition", "start", "end", "bytes", "scheduled")
        groups = f"; groups {', '.join(self.groups)}" if self.groups else ""
        return html.titled(title + groups, html.table(*_numbers(names, self.partitions)))


class PartitionLag(msgspec.Struct, frozen=True, kw_only=True):
    """A group on one partition."""

    partition: int
    journal_group: int  # Its number in the journal of the partition.
    floor: int  # Everything below is settled (queue) or committed (stream).
    end: int
    lag: int
    in_flight: int
    waiting_retry: int


class Unacked(msgspec.Struct, frozen=True, kw_only=True):
    """A delivered message that is not settled: leased, or waiting to be redelivered."""

    id: str
    age_seconds: float  # Since it was published.
    attempts: int  # Deliveries so far; one that the consumer gave back unused does not count.
    failures: int  # How many of them ended without success.
    error: str  # What the last failure said; empty if there was none.
    consumer: str | None  # The consumer that holds it, if any.
    due_seconds: float | None  # Until its lease ends or it is redelivered; None in a stream group.
    behind: int  # In an ordered group: messages with its key, which wait for it.


class GroupRates(msgspec.Struct, frozen=True, kw_only=True):
    """Messages per second, over the last ten seconds or since the broker was opened."""

    published: float  # Into the topic.
    delivered: float
    acked: float
    failed: float  # Nacked, or out of time.
    dead_lettered: float


VerdictWord = Literal[
    "idle", "keeping up", "draining", "falling behind", "working", "failing", "blocked", "stalled",
    "no consumers",
]  # fmt: skip


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a group: a stable word for programs, and a sentence for people."""

    word: VerdictWord
    text: str
    message: str | None = None  # Blocked: the id of the message that is in the way.

    def __str__(self) -> str:
        return f"{self.word}: {self.text}"


class GroupInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A group at a glance."""

    topic: str
    group: str
    kind: str
    verdict: Verdict
    lag: int  # Messages not settled.
    lag_seconds: float  # Age of the oldest of them.
    drain_seconds: float | None  # Until none are left at the current rates; None: never.
    in_flight: int
    waiting_retry: int
    oldest_unacked: Unacked | None  # None: all that was delivered is settled.
    rates: GroupRates
    consumers: list[str]
    lost: int  # Deleted by retention before the group settled them.
    delivered: int  # These five count since the broker was opened.
    acked: int
    nacked: int
    timed_out: int
    dead_lettered: int
    expired: int
    partitions: list[PartitionLag]

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        age = f", the oldest {self.lag_seconds:,.0f} s old" if self.lag else ""
        title = f"{self.group} on {self.topic}: {self.verdict}, lag {self.lag:,}{age}"
        names = ("partition", "floor", "end", "lag", "in_flight", "waiting_retry")
        return html.titled(title, html.table(*_numbers(names, self.partitions)))


class Restore(msgspec.Struct, frozen=True, kw_only=True):
    """Deleted messages of a partition that are about to be put back."""

    restore: int  # Its number, for the calls that follow.
    start: int  # What is wanted: from here ...
    end: int  # ... up to where the log begins.  If they are equal, nothing is missing.


class ScheduledMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that waits for its time."""

    id: str
    topic: str
    partition: int
    due_ms: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, str]
    priority: str
    cron: str | None
    timezone: str | None


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """One dead letter, and how it became one."""

    message: StoredMessage
    source: str  # Id of the message it was.
    group: str
    attempts: int
    reason: str
    error: str
    fingerprint: str
    first_failed_ms: int
    last_failed_ms: int


class DeadLetterErrors(msgspec.Struct, frozen=True, kw_only=True):
    """The dead letters of one topic that have the same error, those not yet redriven."""

    topic: str
    fingerprint: str  # What ``redrive(error=)`` takes; OTHER_ERRORS for what was too much to tell apart.
    error_class: str  # Empty if there was only a text, as for a reject.
    error: str  # Class and message as the newest of them has it.
    reason: str  # nacked, rejected, visibility timeout, ...
    groups: list[str]  # In which it failed, sorted.
    count: int
    first_seen_ms: int  # The first failure of any of them, and the last.
    last_seen_ms: int
    dead_letter: str  # Id of the newest of them, in the dead-letter topic.
    source: str  # Id of the message it was.


class DeliveryState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The delivery state of the messages from ``start`` up to ``end`` in a group."""

    start: int
    end: int
    state: str  # waiting, in flight, retrying, acked, dead-lettered, expired, skipped, settled (otherwise).
    attempts: int  # Deliveries so far; one that the consumer gave back unused does not count.


class Fetched(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Record batches of one partition, as they are stored."""

    start: int  # The first offset that the log keeps ...
    end: int  # ... and the one after the last that readers may see.
    next_offset: int  # Where to fetch on; what was asked for, if there is nothing.
    batches: bytes  # RecordBatch v2, whole; the first may begin before the offset that was asked for.


class OpenTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that was begun; late requests of an earlier one have another epoch."""

    transactional_id: str
    producer_id: int
    epoch: int


class StagedPublish(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a staged publish."""

    published: int  # Messages; 0 if they are there already.
    duplicate: bool  # The application published this version, or a later one, before.


ProblemKind = Literal[
    "damaged", "cut", "file_damaged", "topic_offline", "storage_failed", "directory_gone", "disk_full"
]


class StorageProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem with the storage of a broker."""

    kind: ProblemKind
    message: str
    since_ms: int
    warning: bool = False  # The broker is ready nevertheless.
    topic: str | None = None
    partition: int | None = None
    first_offset: int | None = None  # Damaged: from here ...
    end_offset: int | None = None  # ... up to here.
    path: str = ""  # Where on the server's disk; empty unless the caller is an admin.


class BrokerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A broker at a glance; the counts are since it was opened."""

    version: str
    compiled: bool  # Its hot modules.
    uptime_seconds: float
    directory: str  # ":memory:" if all is in memory; empty unless the caller is an admin.
    lake: str  # Where archived messages are, a path or a URI; empty if nowhere, and for who may not read.
    durability: str  # Of topics that do not say theirs.
    topics: int
    partitions: int
    groups: int
    consumers: int
    connections: int  # 0 for a broker without a server.
    messages: int  # Stored now.
    scheduled: int  # Accepted and not yet due.
    bytes: int  # Of logs, journals and schedules.
    published: int
    delivered: int
    acked: int
    memory_bytes_peak: int  # Of the whole process.
    problems: list[StorageProblem] = []  # With its storage; those of topics that you may see.


class TopicState(msgspec.Struct, frozen=True, kw_only=True):
    """A topic in one line."""

    topic: str
    partitions: int
    groups: int
    messages: int  # Stored now.
    bytes: int
    depth: int  # Messages that wait for the slowest group, or all if there is none.
    scheduled: int
    dead_letters: int  # In its dead-letter topic, which it may share, and not redriven.
    published: int  # Since the broker was opened.
    rate: float  # Messages a second, over the last ten seconds.


class GroupState(msgspec.Struct, frozen=True, kw_only=True):
    """A group in one line."""

    topic: str
    group: str
    kind: str
    verdict: Verdict
    lag: int
    lag_seconds: float
    drain_seconds: float | None
    in_flight: int
    waiting_retry: int
    consumers: int
    rates: GroupRates
    delivered: int  # These four count since the broker was opened.
    acked: int
    failed: int
    dead_lettered: int
    waited: list[int]  # First deliveries by how long the message had waited: see ``Overview`` ...
    waited_sums: list[int]  # ... and the sum of these times, in milliseconds, for each range.


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """Every topic and every group of a broker, each in one line."""

    topics: list[TopicState]
    groups: list[GroupState]
    waited: list[int]  # First deliveries since the broker was opened, by how long the message had waited:
    waited_sums: list[int]  # (with the sum of these times for each range, in milliseconds)
    waited_ms: list[int]  # up to so long each, and the last ones longer.
    cost_ms: float  # How long the broker has worked for it.


PipelineState = Literal["starting", "running", "stopping", "stopped", "done", "failed"]


PIPELINES_TOPIC: Final = "__pipelines"  # Where runs report their state.
PIPELINE_SILENT_MS: Final = 30_000  # Six reports that did not come.
PIPELINE_LIVE: Final = frozenset({"starting", "running", "stopping"})
PIPELINE_LOST: Final = "lost"  # Shown for a run that is live by its own account, and silent.


class PipelineRun(msgspec.Struct, frozen=True, kw_only=True):
    """The last run of a pipeline, as reported every few seconds."""

    name: str
    pipeline: str  # Which of them; a name is given where one is run in several ways.
    run: str  # Another one each time.
    state: PipelineState
    host: str
    pid: int
    master: str  # Where its Spark is.
    started_ms: int
    updated_ms: int  # When it reported this.
    progressed_ms: int = 0  # When it last did something; 0: not yet.
    records: int = 0
    rows_per_second: float = 0.0
    lag_seconds: float | None = None  # Age of the oldest record that waits; None: it is not known.
    batches: int = 0
    files: int = 0
    late: int = 0  # Records that came too late for their window or join, and were set aside.
    total: int | None = None  # Records there are to do; None: it is not known, or it never ends.
    note: str = ""  # What else there is to say.
    error: str = ""  # Why it failed.
    sql_socket: str = ""  # Where it answers queries of the same user on its host; empty: it does not.


class Redrive(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a redrive, or of a dry run."""

    matched: int
    redriven: int
    dry_run: bool
