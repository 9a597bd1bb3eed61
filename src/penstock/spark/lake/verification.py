"""Verifies that log and lake together have every offset exactly once (``penstock lake check``).

    log                           start ████████████████████ end
    lake   first ■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■┤ next
                 └ no offset may be missing here   ┘

Every file is read completely, so that damage is found while there is still a copy.
Checks, for each partition:

    G1  the lake ends at the start of the log or above it: there is no gap between them
    G2  the files have as many rows as were archived (the table counts them, ``table.py``)
    G3  every offset that the log has below ``next`` is in a file
    D1  no offset is in two files, or twice in one
    D2  each file matches what the table's log says about it: rows, offsets, times, order
    S   the first and last records that both have are equal, so it is the same topic
        (``log_comparison.py``)

Not every offset has a record: compaction removes records, and transaction markers
are not archived as rows.  Such offsets are counted as ``absent``.  G2 and G3
distinguish them from gaps.

Ranges that retention deleted before they were archived, and that were skipped on
purpose, are recorded in the table (``lost``).  They are reported, but are not
problems; neither are records deleted before archiving began.

Cost: reads all bytes of the lake once, in one thread.  Memory: one row group and the
offset ranges of one partition.
"""

from collections.abc import Iterator
from typing import Final, Protocol

import msgspec
import pyarrow.compute as pc

from penstock.config.broker import DAY_MS
from penstock.errors import LakeDamaged
from penstock.model.ranges import OffsetRange
from penstock.spark.lake.layout import LakeFile, date_of, within_years
from penstock.spark.lake.offset_ranges import by_start, difference, merged, offsets_text, overlaps, runs_of
from penstock.spark.lake.reading import read_file
from penstock.spark.lake.table import LakeTable

ALL: Final = 1 << 62
LISTED_MAX: Final = 10  # Ranges that one finding lists.


class LogView(Protocol):
    """The log of a partition, as far as it is compared with the lake."""

    start: int
    end: int

    def present(self, wanted: OffsetRange) -> Iterator[OffsetRange]:
        """The offsets of a range that have a record in the log."""
        ...


class PartitionCheck(msgspec.Struct):
    """The result for one partition."""

    topic: str
    partition: int
    log_start: int
    log_end: int
    first: int  # Of the lake; both are the log's start if the lake has nothing.
    next: int
    files: int = 0
    rows: int = 0
    absent: int = 0  # Offsets that the log itself did not have.
    lost: list[tuple[int, int]] = []
    findings: list[str] = []  # The problems, a sentence each.


def check_partition(table: LakeTable, partition: int, log: LogView) -> PartitionCheck:
    """Read the files of a partition, and compare them with the table's log and with the broker's."""
    reached = table.next_offsets().get(partition)
    if reached is None:
        return PartitionCheck(table.topic, partition, log.start, log.end, log.start, log.start)
    first = table.first_offsets()[partition]
    check = PartitionCheck(table.topic, partition, log.start, log.end, first, reached)
    lost = [each for each in table.lost() if each.partition == partition]
    check.lost = [(each.start, each.end) for each in lost]
    stored, unread = _read(check, table.files(partition))
    _check_ends(check)
    _check_twice(check, stored)
    _check_missing(check, stored, [*unread, *lost], table.row_counts()[partition], log)
    return check


def _read(check: PartitionCheck, files: list[LakeFile]) -> tuple[list[OffsetRange], list[OffsetRange]]:
    """The offsets in all readable files, sorted, and the ranges of the unreadable ones."""
    stored: list[OffsetRange] = []
    unread: list[OffsetRange] = []
    for file in files:
        check.files += 1
        check.rows += file.rows
        try:
            stored += _read_file(file, check.topic)
        except LakeDamaged as damage:
            check.findings.append(f"{offsets_text(file.start, file.end)}: {damage}")
            unread.append(OffsetRange(check.topic, file.partition, file.start, file.end))
    return by_start(stored), unread


def _read_file(file: LakeFile, topic: str) -> list[OffsetRange]:
    """The offsets of a file; raises unless it matches what the table says about it (D2)."""
    rows, last = 0, -1
    stored: list[OffsetRange] = []
    times_ms: list[int] = []
    for batch in read_file(file, 0, ALL):
        found = runs_of(batch["offset"], topic, file.partition)
        _expect(file, found[0].start >= last and found == by_start(found), "its offsets are not in order")
        _expect(file, pc.all(pc.equal(batch["partition"], file.partition)).as_py(), "it has other partitions")
        rows += batch.num_rows
        last = found[-1].end - 1
        stored += found
        times = pc.min_max(batch["timestamp"].cast("int64"))
        times_ms += (within_years(times[end].as_py() // 1000) for end in ("min", "max"))
    _expect(file, rows == file.rows, f"it has {rows} rows, but the table says {file.rows}")
    _expect(file, (stored[0].start, last + 1) == (file.start, file.end), f"its offsets go up to {last}")
    ends_ms = (min(times_ms), max(times_ms))
    _expect(file, ends_ms == (file.first_ms, file.last_ms), "its timestamps differ from those in the table")
    _expect(file, {date_of(ms // DAY_MS) for ms in ends_ms} == {file.date}, "it has other dates")
    return list(merged(stored))


def _expect(file: LakeFile, right: bool, why: str) -> None:
    if not right:
        raise LakeDamaged(path=file.path, why=why)


def _check_ends(check: PartitionCheck) -> None:
    if check.next < check.log_start:
        gap = offsets_text(check.next, check.log_start)
        check.findings.append(f"{gap}: neither in the log nor in the lake")
    if check.next > check.log_end:
        ahead = offsets_text(check.log_end, check.next)
        check.findings.append(f"{ahead}: in the lake, but beyond the end of the log")


def _check_twice(check: PartitionCheck, stored: list[OffsetRange]) -> None:
    twice = list(merged(overlaps(stored)))
    if twice:
        check.findings.append(f"{_listed(twice)}: more than once in the lake")
    outside = [each for each in stored if each.start < check.first or each.end > check.next]
    if outside:
        claimed = f"{check.first} to {check.next - 1}"
        check.findings.append(f"{_listed(outside)}: in the lake, but its table says it has {claimed}")


def _check_missing(
    check: PartitionCheck, stored: list[OffsetRange], accounted: list[OffsetRange], counted: int, log: LogView
) -> None:
    """Check G2 and G3; ``accounted`` are ranges without readable rows whose absence is already explained."""
    archived = OffsetRange(check.topic, check.partition, check.first, check.next)
    holes = list(difference(archived, by_start([*stored, *accounted])))
    check.absent = sum(map(len, holes))
    in_log = list(merged(each for hole in holes for each in log.present(hole)))
    if in_log:
        check.findings.append(f"{_listed(in_log)}: in the log, but missing from the lake, which claims them")
    missing = counted - check.rows - sum(map(len, in_log))
    if missing > 0:
        older = [hole.intersection(0, log.start) for hole in holes if hole.start < log.start]
        check.findings.append(f"{missing} archived records are in no file; they are among {_listed(older)}")
    elif check.rows > counted:
        check.findings.append(f"the files have {check.rows} rows, but {counted} were archived")


def _listed(ranges: list[OffsetRange]) -> str:
    shown = ", ".join(offsets_text(each.start, each.end) for each in ranges[:LISTED_MAX])
    return shown if len(ranges) <= LISTED_MAX else f"{shown} and {len(ranges) - LISTED_MAX} more ranges"
