"""Summarises the tables of the lake: contents, lag behind the log, time of the last batch."""

from typing import TYPE_CHECKING, Final

import msgspec

from penstock.errors import TopicNotFound
from penstock.spark.lake.table import ARCHIVED, LakeTable

if TYPE_CHECKING:
    from penstock.api.broker import Broker
    from penstock.model.info import PartitionInfo

HISTORY: Final = 100  # Commits in which the last batch is looked for; others are joins and vacuums.


class ArchivedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition in the lake."""

    partition: int
    first: int  # Offsets from here ...
    next: int  # ... up to before here are archived.
    records: int
    files: int
    bytes: int
    lag: int  # Records of the log that are not archived; 0 if there is no such topic any more.
    lost: int  # Deleted before they were archived.


class ArchivedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """One table of the lake."""

    topic: str
    path: str
    version: int
    records: int
    files: int
    bytes: int
    lag: int
    lost: int
    last_batch_ms: int | None  # None: not in the last commits.
    partitions: list[ArchivedPartition]


def summary_of(table: LakeTable, broker: "Broker") -> ArchivedTopic:
    """The summary of a table."""
    log = _log_of(broker, table.topic)
    partitions = [_partition(table, number, log) for number in sorted(table.next_offsets().keys() | log)]
    return ArchivedTopic(
        topic=table.topic,
        path=table.path,
        version=table.version,
        records=sum(each.records for each in partitions),
        files=sum(each.files for each in partitions),
        bytes=sum(each.bytes for each in partitions),
        lag=sum(each.lag for each in partitions),
        lost=sum(each.lost for each in partitions),
        last_batch_ms=_last_batch_ms(table),
        partitions=partitions,
    )


def _log_of(broker: "Broker", topic: str) -> dict[int, "PartitionInfo"]:
    try:
        return {each.partition: each for each in broker.describe_topic(topic).partitions}
    except TopicNotFound:
        return {}


def _partition(table: LakeTable, number: int, log: dict[int, "PartitionInfo"]) -> ArchivedPartition:
    files = table.files(number)
    start = log[number].start if number in log else 0
    reached = table.next_offsets().get(number, start)
    return ArchivedPartition(
        partition=number,
        first=table.first_offsets().get(number, start),
        next=reached,
        records=sum(file.rows for file in files),
        files=len(files),
        bytes=sum(file.bytes for file in files),
        lag=max(log[number].end - max(reached, start), 0) if number in log else 0,
        lost=sum(len(each) for each in table.lost() if each.partition == number),
    )


def _last_batch_ms(table: LakeTable) -> int | None:
    commits = (commit for commit in table.history(HISTORY) if ARCHIVED in commit)
    return next((int(commit["timestamp"]) for commit in commits), None)
