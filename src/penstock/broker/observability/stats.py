"""Statistics of a broker: its size, and the backlog of each topic.

Everything is computed from the state on request, so nothing is maintained that
nobody reads.  Cost: some microseconds for each partition.
"""

import resource
import sys
from pathlib import Path
from typing import Final

from penstock.broker.state import Partition, State
from penstock.broker.topic.depth import partition_depth
from penstock.config.broker import MEMORY
from penstock.model.info import BrokerInfo
from penstock.types import LANE_NAMES, NORMAL
from penstock.version import __version__, compiled

# What one unit of ru_maxrss is.
PEAK_UNIT: Final = 1 if sys.platform == "darwin" else 1024


class Facts:
    """Answers questions about the whole broker."""

    def __init__(self, state: State) -> None:
        self._state = state

    def stats(self, durability: str, connections: int) -> BrokerInfo:
        """The broker at a glance."""
        state = self._state
        topics = list(state.topics.values())
        partitions = [partition for topic in topics for partition in topic.partitions]
        groups = [group for topic in topics for name, group in topic.groups.items() if name[:2] != "__"]
        return BrokerInfo(
            version=__version__,
            compiled=compiled(),
            uptime_seconds=(state.clock.steady_ms() - state.opened_ms) / 1000,
            directory=state.directory,
            lake=lake_of(state.config.lake, state.directory),
            durability=durability,
            topics=sum(not topic.name.startswith("__") for topic in topics),
            partitions=len(partitions),
            groups=len(groups),
            consumers=sum(len(group.consumers) for group in groups),
            connections=connections,
            messages=sum(partition.log.high - partition.log.start for partition in partitions),
            scheduled=sum(partition.schedule.count for partition in partitions if partition.schedule),
            bytes=sum(_size_bytes(partition) for partition in partitions),
            published=sum(topic.published for topic in topics),
            delivered=sum(group.delivered for group in groups),
            acked=sum(group.acked for group in groups),
            problems=state.problems.all(),
            memory_bytes_peak=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * PEAK_UNIT,
        )

    def lanes(self, name: str) -> dict[str, int]:
        """Stored messages of a topic by lane, the most urgent first; empty lanes but normal are left out."""
        counts = dict.fromkeys(sorted(LANE_NAMES, reverse=True), 0)
        for partition in self._state.readable(name).partitions:
            log = partition.log
            counts[NORMAL] += log.high - log.start
            for start, end, lane in log.lanes.ranges(log.start, log.high):
                counts[lane] += end - start
                counts[NORMAL] -= end - start
        return {LANE_NAMES[lane]: count for lane, count in counts.items() if count or lane == NORMAL}

    def waiting(self) -> dict[tuple[str, int], int]:
        """By topic and partition: messages that wait for the slowest group, or all if there is no group."""
        return {
            (topic.name, partition.number): partition_depth(partition)
            for topic in self._state.topics.values()
            for partition in topic.partitions
        }


def lake_of(named: str, directory: str) -> str:
    """The location of the lake: as configured, or beside the topics."""
    if "://" in named or (not named and directory == MEMORY):
        return named
    return str(Path(named or f"{directory}/lake").absolute())


def _size_bytes(partition: Partition) -> int:
    size = partition.log.size_bytes
    if partition.journal is not None:
        size += partition.journal.log.size_bytes
    if partition.schedule is not None:
        size += partition.schedule.log.size_bytes
    return size
