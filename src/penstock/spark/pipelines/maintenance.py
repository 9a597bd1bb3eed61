"""Maintains the lake's tables while they grow: compacts small files, deletes unused ones.

    every minute   changed tables: compact files where it pays (``lake/compaction.py``)
    every hour     vacuum files that have been unused for long enough

The archive maintains the tables of topics on the executors (``LakeMaintenance``); other
pipelines maintain the table they write, on the driver (``ResultTableMaintenance``).

Errors (an unreadable file, a full disk) are reported and otherwise ignored, because
archiving is more important.  Maintenance may be skipped, killed or run concurrently: a
compaction that commits second is discarded.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from penstock.config.broker import DAY_MS
from penstock.errors import LakeDamaged, PenstockError
from penstock.spark.lake.compaction import FileGroup, join, plan, replace
from penstock.spark.lake.layout import LakeFile
from penstock.spark.lake.table import LakeTable
from penstock.spark.reports import table_maintenance
from penstock.spark.runtime.jobs import run_tasks

if TYPE_CHECKING:
    from penstock.spark.pipelines.run.context import Context

JOIN_MS: Final = 60_000
HOUR_MS: Final = 3_600_000


class LakeMaintenance:
    def __init__(self, context: "Context", file_bytes: int, vacuum_after_ms: int) -> None:
        self._context = context
        self._file_bytes = file_bytes
        self._unused_hours = -(-vacuum_after_ms // HOUR_MS)
        self._joined_ms = self._vacuumed_ms = context.clock.steady_ms()
        self._seen: dict[str, tuple[int, int]] = {}  # Of each table: version and day when nothing was left.

    def maybe_work(self, tables: Iterable[LakeTable]) -> None:
        """Work, if it is time."""
        now_ms = self._context.clock.steady_ms()
        if now_ms - self._joined_ms >= JOIN_MS:
            self.work(tables, vacuum=now_ms - self._vacuumed_ms >= HOUR_MS)

    def work(self, tables: Iterable[LakeTable], *, vacuum: bool = True) -> None:
        """Compact files where it pays, and delete unused ones."""
        for table in tables:
            try:
                self._join(table)
                if vacuum:
                    table.vacuum(self._unused_hours)
            except PenstockError as error:  # There may be no room; the archive itself may still find some.
                self._context.progress.note(str(error))
        self._joined_ms = self._context.clock.steady_ms()
        if vacuum:
            self._vacuumed_ms = self._joined_ms

    def _join(self, table: LakeTable) -> None:
        now_ms = self._context.clock.wall_ms()
        day = now_ms // DAY_MS  # Yesterday's few files are worth more today.
        if self._seen.get(table.path) == (table.version, day):
            return
        joints = plan(table, self._file_bytes, now_ms)
        outcomes = run_tasks(self._context.spark, join_or_report, joints)
        for joint, outcome in zip(joints, outcomes, strict=True):
            if isinstance(outcome, LakeDamaged):
                self._context.progress.note(str(outcome))
            else:
                replace(table, joint, outcome, now_ms)
        self._seen[table.path] = (table.version, day)


class ResultTableMaintenance:
    """Looks after the table of results that a pipeline writes, if it writes one."""

    def __init__(self, context: "Context", path: str | None) -> None:
        self._context = context
        self._path = path
        self._joined_ms = self._vacuumed_ms = context.clock.steady_ms()

    def maybe_work(self) -> None:
        """Work, if it is time."""
        now_ms = self._context.clock.steady_ms()
        if now_ms - self._joined_ms >= JOIN_MS:
            self.work(vacuum=now_ms - self._vacuumed_ms >= HOUR_MS)

    def work(self, *, vacuum: bool = True) -> None:
        """Compact small files, and delete unused ones."""
        if self._path is None:
            return
        try:
            table_maintenance.join_small_files(self._path, self._context.clock.wall_ms())
            if vacuum:
                table_maintenance.vacuum(self._path)
                self._vacuumed_ms = self._context.clock.steady_ms()
        except PenstockError as error:  # There may be no room; what the pipeline writes is more important.
            self._context.progress.note(str(error))
        self._joined_ms = self._context.clock.steady_ms()


def join_or_report(joint: FileGroup) -> LakeFile | LakeDamaged:
    """Runs on an executor; an unreadable file is a result, so that the others continue."""
    try:
        return join(joint)
    except LakeDamaged as damage:
        return damage
