"""``rollup``: statistics per minute, topic and group, as a table of the lake.

    minute  topic   group     published  delivered  acked  ...  ack_p50_ms  ack_p99_ms  oldest_unacked_seconds
    10:30   orders  null      1200
    10:30   orders  shipping             1180       1175        12          340         2.5

    log      ──> publish times ────────────────────┐
                                                   ├──> complete minutes ──> <lake>/_tables/rollup
    journals ──> deliveries, acks, failures ───────┘

A pass appends the rows of all minutes completed since the last one, in one commit with
the last minute as version.  The table is the only state: after a kill the next run
continues with the first missing minute, and no minute is written twice.

A minute is complete ``GRACE_MS`` after its end, by this machine's clock, when the broker
has written its buffered journal entries.  ``per_minute.py`` defines the columns.

Cost: reads the journal since the first minute, and the timestamps of messages since the
oldest one settled in it.  Messages deleted by then have no latency.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it.

from penstock.errors import GroupNotFound, OffsetOutOfRange, PenstockError, TopicNotFound
from penstock.model.info import PartitionLag
from penstock.model.message import StoredMessage
from penstock.model.ranges import OffsetRange
from penstock.spark.pipelines.run.context import Context
from penstock.spark.queries.journal import journal, ranges_of
from penstock.spark.reports import driver_tables, result_tables
from penstock.spark.reports.per_minute import DONE, FLOORS, MESSAGES, SCHEMA, rolled_up, time_of
from penstock.types import check_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TABLE: Final = "rollup"
APPLICATION: Final = "penstock/rollup"
MINUTE_MS: Final = 60_000
GRACE_MS: Final = 5_000  # A broker writes every second what it noted.
MINUTES_MAX: Final = 24 * 60  # In one pass.
RETRIES: Final = 6  # In a row, an interval apart: a broker that restarts, a worker that was killed.


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    # The topics; empty: all of them, also those that come later.
    topic: list[str] = []
    # How long to wait before looking again whether a minute is over.
    interval_ms: int = 10_000

    def __post_init__(self) -> None:
        for name in self.topic:
            check_name("topic", name)


def run(settings: Settings, context: Context) -> None:
    """Roll up every minute that is over, and the next ones when they are; with ``once`` only the former."""
    rollup = Rollup(settings, context)
    failures = 0
    while not context.stopping.is_set():
        try:
            worked = rollup.pass_on()
            failures = 0
        except (PenstockError, PySparkException) as error:
            failures += 1
            if failures > RETRIES or (isinstance(error, PenstockError) and not error.retryable):
                raise
            context.progress.note("retrying")
            worked = False
        if not worked:
            if context.once and not failures:
                return
            context.stopping.wait(settings.interval_ms / 1000)


class Rollup:
    def __init__(self, settings: Settings, context: Context) -> None:
        self._settings = settings
        self._context = context
        self._broker = context.broker
        self._path = result_tables.path_of(context.lake, TABLE)

    def pass_on(self) -> bool:
        """Roll up some minutes; False: none is over."""
        topics = self._topics()
        end_ms = (self._context.clock.wall_ms() - GRACE_MS) // MINUTE_MS * MINUTE_MS
        begin_ms = self._begin_ms(topics, end_ms)
        end_ms = min(end_ms, begin_ms + MINUTES_MAX * MINUTE_MS)
        if begin_ms >= end_ms:
            return False
        rows = RollupPass(self._context, topics, begin_ms, end_ms).rows()
        driver_tables.append(self._path, rows, APPLICATION, end_ms // MINUTE_MS)
        lag_seconds = (self._context.clock.wall_ms() - end_ms) / 1000
        self._context.progress.advance(records=rows.num_rows, batches=1, files=1, lag_seconds=lag_seconds)
        return True

    def _topics(self) -> list[str]:
        known = self._broker.topics()
        return [name for name in self._settings.topic or known if name in known]

    def _begin_ms(self, topics: list[str], end_ms: int) -> int:
        """The first minute that is not in the table; at first that of the oldest message."""
        done = driver_tables.last_version(self._path, APPLICATION)
        if done is not None:
            return done * MINUTE_MS
        oldest_ms = [message.timestamp for topic in topics for message in self._broker.read(topic, limit=1)]
        return min([end_ms, *oldest_ms]) // MINUTE_MS * MINUTE_MS


class RollupPass:
    """The rows of some minutes."""

    def __init__(self, context: Context, topics: list[str], begin_ms: int, end_ms: int) -> None:
        self._context = context
        self._broker = context.broker
        self._topics = topics
        self._begin_ms = begin_ms
        self._end_ms = end_ms

    def rows(self) -> pa.Table:
        """All of them; few, so the driver takes them."""
        floors = self._floors()  # Before the journals: what is settled from now on is in those, too.
        parts = [part for topic in self._topics for part in self._journals(topic)]
        if not parts:
            return SCHEMA.empty_table()
        with self._kept(journal(self._context.spark, self._context.address, parts)) as happened:
            with self._kept(self._messages(happened)) as messages:
                found = rolled_up(happened, messages, floors, self._begin_ms, self._end_ms)
                return pa.Table.from_pylist([row.asDict() for row in found.collect()], schema=SCHEMA)

    @contextmanager
    def _kept(self, frame: "DataFrame") -> "Iterator[DataFrame]":
        """Cached, so that several queries read the broker once."""
        frame.persist()
        try:
            yield frame
        finally:
            frame.unpersist()

    # What the broker has.

    def _journals(self, topic: str) -> list[OffsetRange]:
        try:
            return ranges_of(self._broker, topic, time_of(self._begin_ms))
        except TopicNotFound:
            return []  # Deleted in this moment.

    def _floors(self) -> "DataFrame":
        """For each group, when the oldest message that is not settled now was published, by partition."""
        rows = [
            (topic, group, time_of(published_ms))
            for topic in self._topics
            for group, published_ms in self._oldest(topic)
        ]
        return self._context.spark.createDataFrame(rows, FLOORS)

    def _oldest(self, topic: str) -> "Iterator[tuple[str, int]]":
        try:
            for group in self._broker.groups(topic):
                for partition in self._broker.describe_group(topic, group).partitions:
                    if partition.floor < partition.end:
                        yield from ((group, each.timestamp) for each in self._first(topic, partition))
        except (TopicNotFound, GroupNotFound, OffsetOutOfRange):
            return  # Deleted in this moment.

    def _first(self, topic: str, partition: PartitionLag) -> list[StoredMessage]:
        return self._broker.read(topic, partition=partition.partition, offset=partition.floor, limit=1)

    def _messages(self, happened: "DataFrame") -> "DataFrame":
        """Of the log: what was published in these minutes, and before that what was settled in them."""
        settled = happened.where(f"start < end and event in {DONE}")
        oldest = settled.groupBy("topic", "partition").agg(F.min("start"))
        starting = {topic: self._broker.offsets(topic, time_of(self._begin_ms)) for topic in self._topics}
        for topic, partition, start in oldest.collect():
            starting[topic][partition] = min(starting[topic][partition], start)
        for topic, offsets in starting.items():
            for partition, kept in self._broker.offsets(topic, "earliest").items():
                offsets[partition] = max(offsets.get(partition, kept), kept)
        reader = self._context.spark.read.format("penstock").schema(MESSAGES)
        return reader.options(
            **self._context.address.options,
            topic=",".join(self._topics),
            starting=json.dumps(starting),
            on_gap="skip",  # Messages deleted meanwhile have no latency.
        ).load()
