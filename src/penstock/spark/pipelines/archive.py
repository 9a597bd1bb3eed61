"""``archive``: copies topics to the lake and maintains its tables.

    log      ░░░░░░████████████████████│          ░ deleted by retention   █ kept   │ end
    lake     ■■■■■■■■■■■■■■┤
                           └ next: archiving continues here

A pass compares each topic's table with its log, splits the missing offsets into tasks,
and lets executors fetch them from the broker and write Parquet files.  The driver commits
the files of each topic in one step that moves ``next`` (``lake/table.py``), and commits
the offsets to the broker as the group ``archive``, so its lag is visible and retention can
wait for it.  The table is the only state: after a kill the next run continues at ``next``;
uncommitted files are vacuumed.

Several archivers may run at once: one that commits second discards its files.

A pass takes up to ``batch_bytes`` of all topics together.  Temporary failures (broker
restart, killed worker, full disk) are retried ``RETRIES`` times in a row.  A permanent
error suspends its topic, which is retried every ``ASIDE_MS`` while the others continue.
The run fails with that error when no topic is left, or with ``once`` when the others are
done.

Between passes small files are compacted and unused ones deleted (``maintenance.py``).  With
``sql_socket`` the same Spark session also answers ``penstock sql`` (``sql.py``).
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Final, Literal

import msgspec

from penstock.config.broker import ARCHIVE_GROUP
from penstock.errors import InvalidValue, LakeUnusable, NotArchived, PenstockError
from penstock.model.info import PartitionInfo
from penstock.model.ranges import OffsetRange
from penstock.spark.lake import storage
from penstock.spark.lake.archiving import ArchiveWriter, Backlog, FailedRange, WrittenRange, joined, planned
from penstock.spark.lake.log_comparison import BrokerLog, differing
from penstock.spark.lake.table import LakeTable
from penstock.spark.pipelines.maintenance import LakeMaintenance
from penstock.spark.pipelines.run.context import Context
from penstock.spark.pipelines.sql import answering
from penstock.spark.runtime.jobs import run_tasks
from penstock.types import check_name

ASIDE_MS: Final = 60_000
RETRIES: Final = 6
RETRY_S: Final = 1.0  # Before the first retry; twice as long before each further one.
HOUR_MS: Final = 3600 * 1000


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    # The topics; empty, and no pattern: all of them, also those that come later.
    topic: list[str] = []
    # All topics whose whole name matches a regular expression.
    topic_pattern: str = ""
    # How long to wait after everything was archived, before looking again.
    interval_ms: int = 5000
    # How much of the log is archived with one commit, of all topics together.
    batch_bytes: int = 512 * 1024 * 1024
    # Target size of files after compaction.
    file_bytes: int = 128 * 1024 * 1024
    # How long a replaced file is kept for readers.
    vacuum_after_ms: int = 24 * HOUR_MS
    # What to do about records that retention has deleted first: error, or skip and put it on record.
    on_gap: Literal["error", "skip"] = "error"
    # Also answer queries of `penstock sql` on this socket; empty: do not.
    sql_socket: str = ""

    def __post_init__(self) -> None:
        for name in self.topic:
            check_name("topic", name)
        if self.topic and self.topic_pattern:
            why = "set either topic or topic_pattern, not both"
            raise InvalidValue(name="topic_pattern", value=self.topic_pattern, why=why)
        try:
            re.compile(self.topic_pattern)
        except re.error as error:
            why = f"it is not a valid regular expression ({error})"
            raise InvalidValue(name="topic_pattern", value=self.topic_pattern, why=why) from None
        if self.vacuum_after_ms < HOUR_MS:
            why = "it must be at least an hour, because files exist for a while before they are committed"
            raise InvalidValue(name="vacuum_after", value=f"{self.vacuum_after_ms} ms", why=why)


def run(settings: Settings, context: Context) -> None:
    """Archive until stopped; with ``once`` until everything that is there now is archived."""
    with answering(settings.sql_socket, context) if settings.sql_socket else nullcontext():
        _archive(settings, context)


def _archive(settings: Settings, context: Context) -> None:
    archive = Archive(settings, context)
    upkeep = LakeMaintenance(context, settings.file_bytes, settings.vacuum_after_ms)
    failures = 0
    while not context.stopping.is_set():
        try:
            caught_up = archive.pass_on()
            if failures:
                context.progress.note("")
            failures = 0
        except PenstockError as error:
            failures += 1
            if not error.retryable or failures > RETRIES:
                raise
            context.progress.note(f"retrying: {error}")
            context.stopping.wait(RETRY_S * 2 ** (failures - 1))
            continue
        if caught_up and context.once:
            upkeep.work(archive.tables)
            archive.raise_troubles()
            return
        upkeep.maybe_work(archive.tables)
        if caught_up:
            context.stopping.wait(settings.interval_ms / 1000)


class Archive:
    def __init__(self, settings: Settings, context: Context) -> None:
        self._settings = settings
        self._context = context
        self._broker = context.broker
        self._lake = storage.located(context.lake)
        self._tables: dict[str, LakeTable] = {}
        self._committed: dict[str, dict[int, int]] = {}  # What the broker knows of our progress.
        self._ends: dict[tuple[str, int], int] | None = None  # With ``once``: where to stop.
        self._troubles: dict[str, PenstockError] = {}  # Topics that are set aside.
        self._troubles_ms = 0  # When they were looked at.

    @property
    def tables(self) -> list[LakeTable]:
        """The tables of the topics, as last read."""
        return list(self._tables.values())

    def pass_on(self) -> bool:
        """One batch; True: nothing is left to do."""
        tasks, complete = planned(self._backlog(), self._settings.batch_bytes)
        outcomes = run_tasks(self._context.spark, ArchiveWriter(self._context.address), tasks)
        for topic in sorted({each.range.topic for each in outcomes}):
            complete &= self._commit(topic, [each for each in outcomes if each.range.topic == topic])
        self._commit_progress(complete)
        return complete

    def raise_troubles(self) -> None:
        """Raise the error of a topic that is set aside, if there is one."""
        for error in self._troubles.values():
            raise error

    # Planning.

    def _topics(self) -> list[str]:
        if self._settings.topic:
            return self._settings.topic
        pattern = self._settings.topic_pattern
        return [name for name in self._broker.topics() if not pattern or re.fullmatch(pattern, name)]

    def _backlog(self) -> list[Backlog]:
        """What is in the log and not in the lake."""
        topics = self._topics()
        self._look_again()
        self._tables = {topic: table for topic, table in self._tables.items() if topic in topics}
        backlog: list[Backlog] = []
        for topic in topics:
            if topic not in self._troubles:
                with self._setting_aside(topic):
                    backlog += self._backlog_of(topic)
        if topics and self._troubles.keys() >= set(topics):
            self.raise_troubles()
        return self._until_the_end(backlog) if self._context.once else backlog

    def _until_the_end(self, backlog: list[Backlog]) -> list[Backlog]:
        """Limit the backlog to what was there at the start."""
        if self._ends is None:
            self._ends = {(each.range.topic, each.range.partition): each.range.end for each in backlog}
            self._context.progress.expect(sum(len(each.range) for each in backlog))
        ends = self._ends
        return [
            replace(
                each, range=each.range.intersection(0, ends.get((each.range.topic, each.range.partition), 0))
            )
            for each in backlog
        ]

    def _look_again(self) -> None:
        now_ms = self._context.clock.steady_ms()
        if now_ms - self._troubles_ms >= ASIDE_MS and not self._context.once:
            self._troubles.clear()
            self._troubles_ms = now_ms

    @contextmanager
    def _setting_aside(self, topic: str) -> Iterator[None]:
        try:
            yield
        except PenstockError as error:
            if error.retryable:
                raise
            self._troubles[topic] = error
            self._context.progress.note(str(error))

    def _backlog_of(self, topic: str) -> list[Backlog]:
        partitions = self._broker.describe_topic(topic).partitions
        table = self._tables.get(topic)
        if table is None:
            table = LakeTable.open(self._lake, topic)
            self._check_same(table, partitions)
            self._tables[topic] = table
        elif any(table.next_offsets().get(each.partition, each.start) != each.end for each in partitions):
            table.refresh()  # Somebody else may have been here.
        backlog = []
        for each in partitions:
            start = self._start(table, each.partition, each.start, each.end)
            record_bytes = max(each.bytes // max(each.end - each.start, 1), 1)
            missing = OffsetRange(topic, each.partition, start, each.end)
            backlog.append(Backlog(missing, table.path, record_bytes))
        return backlog

    def _check_same(self, table: LakeTable, partitions: list[PartitionInfo]) -> None:
        """Refuse a table of another topic, such as one that was deleted and had the same name."""
        for each in partitions:
            logged = BrokerLog(self._broker, table.topic, each.partition, each.start, each.end)
            offset = differing(table, each.partition, logged)
            if offset is not None:
                raise _of_another(
                    table, f"the log has a different record at offset {offset} of partition {each.partition}"
                )

    def _start(self, table: LakeTable, partition: int, start: int, end: int) -> int:
        """Where to continue a partition whose log has the offsets from ``start`` up to before ``end``."""
        reached = table.next_offsets().get(partition)
        if reached is None:
            return start
        if reached > end:
            has = f"it has partition {partition} up to offset {reached}, but the log ends at {end}"
            raise _of_another(table, has)
        if reached >= start:
            return reached
        if self._settings.on_gap == "error":
            raise NotArchived(topic=table.topic, partition=partition, start=reached, end=start)
        if table.lose(OffsetRange(table.topic, partition, reached, start)):
            self._context.progress.note(
                f"{table.topic}:{partition} lost {start - reached} records to retention"
            )
        return table.next_offsets()[partition]

    # Committing.

    def _commit(self, topic: str, outcomes: list[WrittenRange | FailedRange]) -> bool:
        """Add what was written to the table; False: another archiver was faster."""
        with self._setting_aside(topic):
            batch = joined(outcomes)
            if batch.ranges:
                if not self._tables[topic].commit(batch.ranges, batch.files, self._context.clock.wall_ms()):
                    for file in batch.files:
                        storage.remove(file.path)
                    return False
                rows = sum(each.rows for each in batch.ranges)
                self._context.progress.advance(records=rows, batches=1, files=len(batch.files))
            if batch.error is not None:
                raise batch.error
        return True

    def _commit_progress(self, complete: bool) -> None:
        """Commit the progress of the tables to the broker, where it has changed."""
        lag_seconds = 0.0
        for topic, table in self._tables.items():
            reached = table.next_offsets()
            if reached and self._committed.get(topic) != reached and topic not in self._troubles:
                self._broker.commit_offsets(topic, ARCHIVE_GROUP, reached)
                self._committed[topic] = reached
            if reached and not complete:
                lag_seconds = max(lag_seconds, self._broker.describe_group(topic, ARCHIVE_GROUP).lag_seconds)
        self._context.progress.advance(lag_seconds=lag_seconds)


def _of_another(table: LakeTable, evidence: str) -> LakeUnusable:
    why = f"{evidence}, so the topic was recreated; move the table away to start a new one"
    return LakeUnusable(lake=table.path, why=why)
