"""Backlog of a group, a partition or a topic.

Counted in offsets, which is O(groups).  Offsets without a record in a restored range (holes) are not
counted.  Transaction markers are excluded only where a few of them would be the whole backlog.
"""

from contextlib import suppress
from typing import Final

from penstock.broker.state import GroupCursor, Partition, Topic
from penstock.errors import PenstockError

MARKERS_MAX: Final = (
    100  # Markers at the end of a log that are skipped to find out whether a group has read everything.
)


def topic_depth(topic: Topic) -> int:
    """Messages that wait for the topic's slowest group, or all of them if it has none."""
    depth = 0
    for partition in topic.partitions:
        depth += partition_depth(partition)
    return depth


def partition_depth(partition: Partition) -> int:
    """Messages of a partition that wait for its slowest group, or all of them if it has none."""
    lags = [group_lag(cursor) for name, cursor in partition.groups.items() if not name.startswith("__")]
    return max(lags) if lags else partition.log.end - partition.log.start


def group_lag(cursor: GroupCursor) -> int:
    """Messages of the partition the group has not settled."""
    partition, high = cursor.partition, cursor.high
    log = partition.log
    if cursor.settings.kind != "stream":
        lag = cursor.engine.lag(high)
        for start, end in _holes(partition, cursor.engine.floor, high):
            for first, last in cursor.engine.done.gaps(start, end):
                lag -= last - first
        return lag
    first = max(cursor.committed, log.start)
    if first <= log.transactions.last and 0 < high - first <= MARKERS_MAX:
        with suppress(PenstockError):  # Reading there reports the damage.
            return len(log.records(first, high))
    return max(high - first, 0) - sum(end - start for start, end in _holes(partition, first, high))


def _holes(partition: Partition, first: int, high: int) -> list[tuple[int, int]]:
    """The parts of holes that lie between two offsets."""
    found = [(max(start, first), min(end, high)) for start, end in partition.holes]
    return [(start, end) for start, end in found if start < end]
