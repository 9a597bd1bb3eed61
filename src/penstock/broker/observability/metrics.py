"""All metrics of a broker: name, kind, meaning, and how the value is read.

    SECTIONS ──> Measuring: the broker, each topic, each group ──> /metrics
        └──> docs/metrics.md  (scripts/metrics_page.py)

The broker keeps nothing extra for metrics, except three histograms, to which a sync or
a delivery adds one value (``histogram.py``), and two counters.  Everything else is read
from the state on request (``measuring.py``).
"""

from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple, get_args

from penstock.broker.state import Group, State, Topic
from penstock.broker.topic.depth import topic_depth
from penstock.delivery import events
from penstock.model.histogram import Histogram
from penstock.model.info import GroupInfo, ProblemKind
from penstock.version import __version__, compiled

Kind = Literal["counter", "gauge", "histogram"]
Labelled = dict[tuple[str, ...], float]  # A value for each combination of the metric's own labels.
Read = Callable[[Any], float | Labelled | Histogram]

# Final reasons of dead letters.  All are exported from the start: a series that appears with 1 shows no
# increase.
DEADLY: Final = (
    events.NACKED, events.TIMED_OUT, events.RESTARTED, events.REJECTED, events.OUTLIVED, events.DISCONNECTED,
)  # fmt: skip


class Metric(NamedTuple):
    """One metric.  Names end in their unit, those of counters in ``_total``."""

    name: str
    kind: Kind
    meaning: str
    read: Read  # Takes the object of its section.
    labels: tuple[str, ...] = ()  # In addition to those of the section.
    scale: int = 1  # Histograms: recorded units per unit of the metric.


def counter(name: str, meaning: str, read: Read, labels: tuple[str, ...] = ()) -> Metric:
    return Metric(name, "counter", meaning, read, labels)


def gauge(name: str, meaning: str, read: Read, labels: tuple[str, ...] = ()) -> Metric:
    return Metric(name, "gauge", meaning, read, labels)


def histogram(name: str, meaning: str, read: Read, scale: int = 1) -> Metric:
    return Metric(name, "histogram", meaning, read, scale=scale)


class Section(NamedTuple):
    """Metrics of the same thing."""

    title: str
    labels: tuple[str, ...]
    metrics: tuple[Metric, ...]


class BrokerFacts(NamedTuple):
    """Source of the metrics of the broker."""

    state: State
    topics: list[Topic]  # Without the broker's own, as the groups.
    groups: list[Group]
    connections: int
    tasks: int
    left_out: Labelled


class GroupFacts(NamedTuple):
    """Source of the metrics of a group."""

    group: Group
    info: GroupInfo


class NodeFacts(NamedTuple):
    """Source of the metrics of a cluster's node."""

    nodes: int  # That are alive.
    ownerless: int
    owned: int
    open: int
    wal_entries: int
    takeovers: Labelled
    takeover_seconds: float
    peer_requests: Labelled


def _logs_failed(facts: BrokerFacts) -> int:
    partitions = [each for topic in facts.state.topics.values() for each in topic.partitions]
    logs = [partition.log for partition in partitions]
    logs += [partition.journal.log for partition in partitions if partition.journal is not None]
    logs += [partition.schedule.log for partition in partitions if partition.schedule is not None]
    return sum(log.failed is not None for log in logs)


def _problems(facts: BrokerFacts) -> Labelled:
    return {(kind,): facts.state.problems.count(kind) for kind in get_args(ProblemKind)}


def _damaged_offsets(facts: BrokerFacts) -> int:
    partitions = [each for topic in facts.state.topics.values() for each in topic.partitions]
    return sum(found.offsets for partition in partitions for found in partition.log.damage.ranges)


def _disk_free_bytes(facts: BrokerFacts) -> int:
    state = facts.state
    return -1 if state.in_memory else state.files.free_bytes(state.directory)


def _writes_refused(facts: BrokerFacts) -> Labelled:
    refused = dict.fromkeys(("DISK_FULL", "STORAGE_FAILED"), 0) | facts.state.problems.refused
    return {(code,): count for code, count in refused.items()}


def _build(_: BrokerFacts) -> Labelled:
    return {(__version__, str(compiled()).lower()): 1}


def _uptime(facts: BrokerFacts) -> float:
    return (facts.state.clock.steady_ms() - facts.state.opened_ms) / 1000


def _partitions(facts: BrokerFacts) -> int:
    return sum(len(topic.partitions) for topic in facts.topics)


def _consumers(facts: BrokerFacts) -> int:
    return sum(len(group.consumers) for group in facts.groups)


def _messages(topic: Topic) -> int:
    return sum(partition.log.high - partition.log.start for partition in topic.partitions)


def _open_transactions(topic: Topic) -> int:
    return sum(len(partition.log.transactions.open) for partition in topic.partitions)


def _bytes(topic: Topic) -> int:
    return sum(partition.log.size_bytes for partition in topic.partitions)


def _published_bytes(topic: Topic) -> int:
    return sum(partition.log.written for partition in topic.partitions)


def _scheduled(topic: Topic) -> int:
    return sum(partition.schedule.count for partition in topic.partitions if partition.schedule)


def _dead_lettered(facts: GroupFacts) -> Labelled:
    buried = dict.fromkeys(DEADLY, 0) | facts.group.buried
    return {(events.WHY[why],): count for why, count in buried.items()}


def _verdict(facts: GroupFacts) -> Labelled:
    return {(facts.info.verdict.word,): 1}


def _elsewhere(_: object) -> float:
    raise AssertionError("prometheus-client reads it")


OF_BROKER: Final = Section(
    "The broker",
    (),
    (
        gauge(
            "penstock_build_info",
            "Always 1; version and build.",
            _build,
            ("version", "compiled"),
        ),
        gauge("penstock_uptime_seconds", "Time since the broker was opened.", _uptime),
        gauge("penstock_topics", "Topics.", lambda of: len(of.topics)),
        gauge("penstock_partitions", "Partitions of all topics.", _partitions),
        gauge("penstock_groups", "Groups of all topics.", lambda of: len(of.groups)),
        gauge("penstock_consumers", "Consumers of all groups.", _consumers),
        gauge("penstock_connections", "Open connections of all listeners.", lambda of: of.connections),
        gauge("penstock_tasks", "Tasks on the event loop of the server.", lambda of: of.tasks),
        counter(
            "penstock_event_loop_stalls_total",
            "Stalls of the server's event loop of more than 50 ms, in which no client was served.",
            lambda of: of.state.lag.stalls,
        ),
        gauge(
            "penstock_event_loop_lag_max_seconds",
            "Longest delay of the server's event loop in the last one or two minutes.",
            lambda of: of.state.lag.longest_ms / 1000,
        ),
        gauge(
            "penstock_logs_failed",
            "Logs that accept no more writes because a write or sync failed.",
            _logs_failed,
        ),
        gauge(
            "penstock_problems",
            "Storage problems, by kind: damaged, cut, file_damaged, topic_offline, storage_failed, "
            "directory_gone, disk_full.",
            _problems,
            ("kind",),
        ),
        gauge(
            "penstock_damaged_offsets",
            "Offsets in damaged ranges found since the broker was opened.",
            _damaged_offsets,
        ),
        gauge(
            "penstock_disk_free_bytes",
            "Free space on the file system of the data directory; -1 for a broker in memory.",
            _disk_free_bytes,
        ),
        counter(
            "penstock_writes_refused_total",
            "Failed writes to logs, by error code: DISK_FULL or STORAGE_FAILED.",
            _writes_refused,
            ("code",),
        ),
        histogram(
            "penstock_fsync_seconds",
            "Duration of log syncs; on a node of a cluster, of commits to the store.",
            lambda of: of.state.commit.round.sync_us,
            scale=1_000_000,
        ),
        gauge(
            "penstock_fsync_max_seconds",
            "The longest sync since the broker was opened: a quantile of penstock_fsync_seconds above it is "
            "an artefact of its buckets.",
            lambda of: of.state.commit.round.sync_us.largest / 1_000_000,
        ),
        histogram(
            "penstock_commit_waiters",
            "Operations acknowledged by the same round of syncs (size of a commit group).",
            lambda of: of.state.commit.answered,
        ),
        gauge(
            "penstock_left_out",
            "Topics and groups without their own metrics, because there are too many "
            "(broker.metrics_names_max) or because they could not be read.",
            lambda of: of.left_out,
            ("what",),
        ),
    ),
)
OF_TOPIC: Final = Section(
    "Topics",
    ("topic",),
    (
        counter("penstock_topic_published_total", "Messages published.", lambda of: of.published),
        counter("penstock_topic_published_bytes_total", "Bytes published, as stored.", _published_bytes),
        counter(
            "penstock_topic_duplicates_total",
            "Duplicate messages that were not published again.",
            lambda of: of.duplicates,
        ),
        counter(
            "penstock_topic_invalid_total",
            "Messages that did not match the schemas of the topic: refused, or dead letters.",
            lambda of: of.invalid,
        ),
        gauge(
            "penstock_topic_open_transactions",
            "Open transactions, counted in each partition: readers of it wait for their ends.",
            _open_transactions,
        ),
        gauge("penstock_topic_messages", "Messages stored.", _messages),
        gauge("penstock_topic_bytes", "Bytes stored.", _bytes),
        gauge(
            "penstock_topic_depth",
            "Messages that the slowest group has not settled; all messages if there is no group.",
            topic_depth,
        ),
        gauge("penstock_topic_scheduled", "Scheduled messages that are not due yet.", _scheduled),
    ),
)
OF_GROUP: Final = Section(
    "Groups",
    ("topic", "group"),
    (
        counter("penstock_group_delivered_total", "Messages delivered.", lambda of: of.info.delivered),
        counter(
            "penstock_group_redelivered_total",
            "Messages delivered again after a first delivery.",
            lambda of: of.group.redelivered,
        ),
        counter(
            "penstock_group_acked_total",
            "Messages acked, or committed by a stream group.",
            lambda of: of.info.acked,
        ),
        counter("penstock_group_nacked_total", "Deliveries nacked.", lambda of: of.info.nacked),
        counter(
            "penstock_group_timed_out_total",
            "Deliveries not settled within the visibility timeout.",
            lambda of: of.info.timed_out,
        ),
        counter(
            "penstock_group_dead_lettered_total",
            "Dead-lettered messages, by reason.",
            _dead_lettered,
            ("reason",),
        ),
        counter(
            "penstock_group_expired_total",
            "Messages that expired before delivery.",
            lambda of: of.info.expired,
        ),
        counter(
            "penstock_group_lost_total",
            "Messages deleted by retention before the group settled them.",
            lambda of: of.info.lost,
        ),
        gauge("penstock_group_lag", "Unsettled messages.", lambda of: of.info.lag),
        gauge(
            "penstock_group_lag_seconds",
            "Age of the oldest unsettled message.",
            lambda of: of.info.lag_seconds,
        ),
        gauge("penstock_group_in_flight", "Messages leased to consumers.", lambda of: of.info.in_flight),
        gauge(
            "penstock_group_waiting_retry",
            "Messages waiting for a retry.",
            lambda of: of.info.waiting_retry,
        ),
        gauge("penstock_group_consumers", "Consumers.", lambda of: len(of.info.consumers)),
        gauge(
            "penstock_group_verdict",
            "Always 1; the label is the current verdict on the group.",
            _verdict,
            ("verdict",),
        ),
        histogram(
            "penstock_queue_latency_seconds",
            "Time from publish, or from the due time, to the first delivery. "
            "Messages delivered together count as the oldest of them.",
            lambda of: of.group.waited_ms,
            scale=1000,
        ),
        gauge(
            "penstock_queue_latency_max_seconds",
            "The longest such time since the broker was opened: a quantile of "
            "penstock_queue_latency_seconds above it is an artefact of its buckets.",
            lambda of: of.group.waited_ms.largest / 1000,
        ),
    ),
)
# The names that all programs with a Prometheus client have; on Linux.
OF_PROCESS: Final = Section(
    "The process",
    (),
    (
        gauge("process_resident_memory_bytes", "Resident memory size in bytes.", _elsewhere),
        gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", _elsewhere),
        counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", _elsewhere),
        gauge(
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            _elsewhere,
        ),
        gauge("process_open_fds", "Number of open file descriptors.", _elsewhere),
        gauge("process_max_fds", "Maximum number of open file descriptors.", _elsewhere),
    ),
)
OF_NODE: Final = Section(
    "Cluster",
    (),
    (
        gauge("penstock_cluster_nodes", "Nodes that are alive, as this node knows.", lambda of: of.nodes),
        gauge(
            "penstock_cluster_ownerless_partitions",
            "Partitions of the cluster that no node owns.",
            lambda of: of.ownerless,
        ),
        gauge("penstock_cluster_owned_partitions", "Partitions that this node owns.", lambda of: of.owned),
        gauge(
            "penstock_cluster_open_partitions",
            "Partitions that this node has loaded and serves.",
            lambda of: of.open,
        ),
        gauge(
            "penstock_cluster_wal_entries",
            "Commits of this node that are in no checkpoint yet: what others would have to read.",
            lambda of: of.wal_entries,
        ),
        counter(
            "penstock_cluster_takeovers_total",
            "How often this node took over partitions: moved (handed over by their owner) or failed.",
            lambda of: of.takeovers,
            ("reason",),
        ),
        gauge(
            "penstock_cluster_takeover_seconds",
            "Duration of the last takeover, from its metadata entry until all its partitions were open.",
            lambda of: of.takeover_seconds,
        ),
        counter(
            "penstock_cluster_peer_requests_total",
            "Requests that this node has sent to other nodes: forwarded ones of clients, and its own.",
            lambda of: of.peer_requests,
            ("operation",),
        ),
    ),
)
SECTIONS: Final = (OF_BROKER, OF_TOPIC, OF_GROUP, OF_NODE, OF_PROCESS)
