"""One line for every topic and every group, for overview pages.

Computed on request, releasing the lock now and then, so that a thousand topics do
not delay other operations.  Topics and groups that are created or deleted meanwhile
may or may not be included.

Cost: some microseconds for each partition, and for each group the cost of
``progress.py``.
"""

from operator import add
from typing import Final

from penstock.broker.observability.progress import Progress
from penstock.broker.queue.dead_letters import REDRIVE
from penstock.broker.state import WAITED_MS, State, Topic
from penstock.broker.steps import GiveWay, Steps
from penstock.broker.topic.depth import group_lag, topic_depth
from penstock.clock import work_ns
from penstock.config.broker import DEAD_LETTER_SUFFIX
from penstock.errors import Closed
from penstock.model.histogram import Histogram
from penstock.model.info import GroupInfo, GroupState, Overview, TopicState

TOGETHER: Final = 10  # Lines between two turns of others: about a millisecond.


class Overviews:
    """Describes all topics and groups."""

    def __init__(self, state: State, progress: Progress) -> None:
        self._state = state
        self._progress = progress

    def overview(self) -> Steps[Overview]:
        """A line for each, the topics by name; the broker's own are left out."""
        began_ns, elapsed_ns = work_ns(), 0
        topics: list[TopicState] = []
        groups: list[GroupState] = []
        waited = [0] * (len(WAITED_MS) + 1)
        waited_sums = [0] * (len(WAITED_MS) + 1)
        for topic in sorted(self._state.topics.values(), key=lambda topic: topic.name):
            if topic.deleted or topic.name.startswith("__"):
                continue
            topics.append(self._topic(topic))
            for name in sorted(topic.groups):
                if not name.startswith("__") and name in topic.groups and not topic.deleted:
                    group = _group(self._progress.describe(topic.name, name), topic.groups[name].waited_ms)
                    groups.append(group)
                    waited = list(map(add, waited, group.waited))
                    waited_sums = list(map(add, waited_sums, group.waited_sums))
                if (len(topics) + len(groups)) % TOGETHER == 0:
                    elapsed_ns += work_ns() - began_ns
                    yield GiveWay()
                    began_ns = work_ns()
                    if self._state.closed:
                        raise Closed(what="broker")
        elapsed_ns += work_ns() - began_ns
        return Overview(
            topics=topics,
            groups=groups,
            waited=waited,
            waited_sums=waited_sums,
            waited_ms=list(WAITED_MS),
            cost_ms=elapsed_ns / 1e6,
        )

    def _topic(self, topic: Topic) -> TopicState:
        logs = [partition.log for partition in topic.partitions]
        schedules = [partition.schedule for partition in topic.partitions if partition.schedule is not None]
        return TopicState(
            topic=topic.name,
            partitions=len(logs),
            groups=sum(not name.startswith("__") for name in topic.groups),
            messages=sum(log.high - log.start for log in logs),
            bytes=sum(log.size_bytes for log in logs),
            depth=topic_depth(topic),
            scheduled=sum(schedule.count for schedule in schedules),
            dead_letters=self._dead_letters(topic),
            published=topic.published,
            rate=self._progress.published(topic),
        )

    def _dead_letters(self, topic: Topic) -> int:
        """The dead letters of a topic that were not redriven."""
        name = topic.settings.dead_letter_topic or topic.name + DEAD_LETTER_SUFFIX
        target = self._state.topics.get(name)
        count = 0
        for partition in target.partitions if target is not None else []:
            log = partition.log
            redriving = REDRIVE in partition.groups
            count += group_lag(partition.groups[REDRIVE]) if redriving else log.high - log.start
        return count


def _group(info: GroupInfo, waited: Histogram) -> GroupState:
    return GroupState(
        topic=info.topic,
        group=info.group,
        kind=info.kind,
        verdict=info.verdict,
        lag=info.lag,
        lag_seconds=info.lag_seconds,
        drain_seconds=info.drain_seconds,
        in_flight=info.in_flight,
        waiting_retry=info.waiting_retry,
        consumers=len(info.consumers),
        rates=info.rates,
        delivered=info.delivered,
        acked=info.acked,
        failed=info.nacked + info.timed_out,
        dead_lettered=info.dead_lettered,
        waited=list(waited.counts),
        waited_sums=list(waited.sums),
    )
