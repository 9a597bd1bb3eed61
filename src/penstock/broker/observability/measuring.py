"""Reads the metrics of the broker, each topic and each group, releasing the lock between steps.

    state, progress ──> metrics.py: what to read ──> families of samples

Topics and groups are labels, and every topic adds time series.  So only the first
``metrics_names_max`` topics, and as many groups, are exported, in the order of their
creation, so that no series comes and goes; ``penstock_left_out`` counts the others.
The broker's own topics and groups (``__name``) are not exported.

``metrics=False`` switches them off; with ``metrics_interval_ms`` the same families are returned again until
they are that old.

Cost: about 0.1 ms for each topic and each group of six partitions, and the reads
of ``progress.py``, one for each partition that has something left.
"""

from typing import Any, NamedTuple

from penstock.broker.observability.metrics import (
    OF_BROKER,
    OF_GROUP,
    OF_NODE,
    OF_PROCESS,
    OF_TOPIC,
    SECTIONS,
    BrokerFacts,
    GroupFacts,
    Labelled,
    Metric,
    Section,
)
from penstock.broker.observability.progress import Progress
from penstock.broker.state import Group, State
from penstock.broker.steps import GiveWay, Steps
from penstock.errors import Closed, MetricsDisabled, PenstockError
from penstock.model.histogram import Histogram


class Distribution(NamedTuple):
    """A histogram at one time: the number of values up to each bound, the last of which is infinite."""

    buckets: list[tuple[float, int]]
    sum: float


class Family(NamedTuple):
    """A metric and its samples: values of the labels, and the value."""

    metric: Metric
    labels: tuple[str, ...]
    samples: list[tuple[tuple[str, ...], Any]]  # A number; of a histogram, a ``Distribution``.


class Measuring:
    def __init__(self, state: State, progress: Progress) -> None:
        self._state = state
        self._progress = progress
        self._last: list[Family] = []
        self._last_ms = -1  # When they were collected; -1: never.

    def metrics(self, connections: int, tasks: int) -> Steps[list[Family]]:
        """All metrics, at most ``metrics_interval_ms`` old."""
        config = self._state.config
        if not config.metrics:
            raise MetricsDisabled(setting="broker.metrics")
        now_ms = self._state.clock.steady_ms()
        if self._last_ms < 0 or now_ms - self._last_ms >= config.metrics_interval_ms:
            self._last = yield from self.collect(connections, tasks)
            self._last_ms = now_ms
        return self._last

    def collect(self, connections: int, tasks: int) -> Steps[list[Family]]:
        """Read all metrics now, without those of the process, which prometheus-client adds."""
        facts = self._state.node_facts
        found = _Findings({OF_PROCESS} if facts is not None else {OF_PROCESS, OF_NODE})
        topics = [topic for topic in self._state.topics.values() if not topic.name.startswith("__")]
        groups = [
            group for topic in topics for name, group in topic.groups.items() if not name.startswith("__")
        ]
        limit = self._state.config.metrics_names_max
        left_out = [max(len(topics) - limit, 0), max(len(groups) - limit, 0)]
        for topic in topics[:limit]:
            self._check_open()
            if not topic.deleted:
                found.add(OF_TOPIC, (topic.name,), topic)
            yield GiveWay()
        for group in groups[:limit]:
            self._check_open()
            left_out[1] += not self._add_group(found, group)
            yield GiveWay()
        self._check_open()
        absent: Labelled = {("topics",): left_out[0], ("groups",): left_out[1]}
        found.add(OF_BROKER, (), BrokerFacts(self._state, topics, groups, connections, tasks, absent))
        if facts is not None:
            found.add(OF_NODE, (), facts())
        return found.families()

    def _add_group(self, found: "_Findings", group: Group) -> bool:
        """False: its messages cannot be read."""
        topic = group.topic
        if topic.deleted or topic.groups.get(group.name) is not group:
            return True
        try:
            info = self._progress.describe(topic.name, group.name)
        except PenstockError:
            return False
        found.add(OF_GROUP, (topic.name, group.name), GroupFacts(group, info))
        return True

    def _check_open(self) -> None:
        if self._state.closed:
            raise Closed(what="broker")


class _Findings:
    def __init__(self, without: set[Section]) -> None:
        self._families = {
            metric.name: Family(metric, section.labels + metric.labels, [])
            for section in SECTIONS
            if section not in without
            for metric in section.metrics
        }

    def add(self, section: Section, labels: tuple[str, ...], source: Any) -> None:
        for metric in section.metrics:
            samples = self._families[metric.name].samples
            value = metric.read(source)
            if isinstance(value, dict):
                samples += [(labels + more, each) for more, each in value.items()]
            elif isinstance(value, Histogram):
                samples.append((labels, _distribution(value, metric.scale)))
            else:
                samples.append((labels, value))

    def families(self) -> list[Family]:
        return list(self._families.values())


def _distribution(histogram: Histogram, scale: int) -> Distribution:
    count = 0
    buckets: list[tuple[float, int]] = []
    for bound, counted in zip((*histogram.bounds, float("inf")), list(histogram.counts), strict=True):
        count += counted
        buckets.append((bound / scale, count))
    return Distribution(buckets, sum(histogram.sums) / scale)
