"""The proof that log and lake together have every offset exactly once.

    log                           start ████████████████████ end
    lake   first ■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■┤ next
                 └ from here on nothing is missing ┘

Every file is read whole, so that damage is found while there is still a copy.
What is looked at, for each partition:

    G1  the lake ends where the log begins, or behind it: nothing lies between them
    G2  the files have as many rows as were archived (the table counts them, ``table.py``)
    G3  what the log has below ``next``, the files have
    D1  no offset is in two files, or twice in one
    D2  a file is what the table's log says of it: rows, offsets, times, order
    S   the first and last records that both have are the same: it is the same topic

Not every offset has a record.  Compaction removes records, and markers are
none, so the lake has offsets without rows where the log had none when they were
archived.  Those are counted (``absent``), and told from gaps by G2 and G3: what
the log has must be there, and what it has no longer must have been counted.

What retention deleted before it was archived, and was skipped on purpose, is on
record (``lost``).  It is told of, and is no finding; nor is what was deleted before
the archive began.

Cost: all bytes of the lake once, in one thread; memory for one row group and the
spans of one partition.
"""

from collections.abc import Iterator
from typing import Final, Protocol

import msgspec
import pyarrow.compute as pc

from penstock.config.broker import DAY_MS
from penstock.errors import LakeDamaged
from penstock.spark.lake.layout import LakeFile, date_of, within_years
from penstock.spark.lake.offset_ranges import Span, joined, overlaps, spans_of, without
from penstock.spark.lake.reading import read_file
from penstock.spark.lake.table import LakeTable

ALL: Final = 1 << 62
NAMED_MAX: Final = 10  # Spans that one finding names.


class Log(Protocol):
    """What is asked of a log."""

    start: int
    end: int

    def spans(self, span: Span) -> Iterator[Span]:
        """The offsets of a span that the log has."""
        ...


class PartitionCheck(msgspec.Struct):
    """What was found out about one partition."""

    topic: str
    partition: int
    log_start: int
    log_end: int
    first: int  # Of the lake; both are the log's start if the lake has nothing.
    next: int
    files: int = 0
    rows: int = 0
    absent: int = 0  # Offsets that the log itself did not have.
    lost: list[Span] = []
    findings: list[str] = []  # A sentence each; none: all is well.


def check_partition(table: LakeTable, partition: int, log: Log) -> PartitionCheck:
    """Read the files of a partition, and compare them with the table's log and with the broker's."""
    reached = table.next_offsets().get(partition)
    if reached is None:
        return PartitionCheck(table.topic, partition, log.start, log.end, log.start, log.start)
    first = table.first_offsets()[partition]
    check = PartitionCheck(table.topic, partition, log.start, log.end, first, reached)
    check.lost = [Span(each.start, each.end) for each in table.lost() if each.partition == partition]
    spans, unread = _read(check, table.files(partition))
    _check_ends(check)
    _check_twice(check, spans)
    _check_missing(check, spans, unread, table.row_counts()[partition], log)
    return check


def _read(check: PartitionCheck, files: list[LakeFile]) -> tuple[list[Span], list[Span]]:
    """The offsets of all files, sorted, and where those that cannot be read would be."""
    spans: list[Span] = []
    unread: list[Span] = []
    for file in files:
        check.files += 1
        check.rows += file.rows
        try:
            spans += _read_file(file)
        except LakeDamaged as damage:
            check.findings.append(f"{Span(file.start, file.end)}: {damage}")
            unread.append(Span(file.start, file.end))
    return sorted(spans), sorted(unread)


def _read_file(file: LakeFile) -> list[Span]:
    """The offsets of a file that is what the table says of it (D2)."""
    rows, last = 0, -1
    spans: list[Span] = []
    times_ms: list[int] = []
    for batch in read_file(file, 0, ALL):
        found = spans_of(batch["offset"])
        _expect(file, found[0].start >= last and found == sorted(found), "its offsets are not in order")
        _expect(file, pc.all(pc.equal(batch["partition"], file.partition)).as_py(), "it has other partitions")
        rows += batch.num_rows
        last = found[-1].end - 1
        spans += found
        times = pc.min_max(batch["timestamp"].cast("int64"))
        times_ms += (within_years(times[end].as_py() // 1000) for end in ("min", "max"))
    _expect(file, rows == file.rows, f"it has {rows} rows, and the table says {file.rows}")
    _expect(file, (spans[0].start, last + 1) == (file.start, file.end), f"its offsets go up to {last}")
    ends_ms = (min(times_ms), max(times_ms))
    _expect(file, ends_ms == (file.first_ms, file.last_ms), "its times are not those that the table says")
    _expect(file, {date_of(ms // DAY_MS) for ms in ends_ms} == {file.date}, "its times are of another date")
    return list(joined(spans))


def _expect(file: LakeFile, right: bool, why: str) -> None:
    if not right:
        raise LakeDamaged(path=file.path, why=why)


def _check_ends(check: PartitionCheck) -> None:
    if check.next < check.log_start:
        gap = Span(check.next, check.log_start)
        check.findings.append(f"{gap}: neither in the log nor in the lake")
    if check.next > check.log_end:
        ahead = Span(check.log_end, check.next)
        check.findings.append(f"{ahead}: in the lake, and the log has not come to them yet")


def _check_twice(check: PartitionCheck, spans: list[Span]) -> None:
    twice = list(joined(overlaps(spans)))
    if twice:
        check.findings.append(f"{_named(twice)}: more than once in the lake")
    outside = [span for span in spans if span.start < check.first or span.end > check.next]
    if outside:
        says = f"{check.first} to {check.next - 1}"
        check.findings.append(f"{_named(outside)}: in the lake, which says it has {says}")


def _check_missing(
    check: PartitionCheck, spans: list[Span], unread: list[Span], counted: int, log: Log
) -> None:
    known = sorted([*spans, *unread, *check.lost])
    holes = list(without(Span(check.first, check.next), known))
    check.absent = sum(map(len, holes))
    in_log = list(joined(span for hole in holes for span in log.spans(hole)))
    if in_log:
        check.findings.append(f"{_named(in_log)}: in the log, and not in the lake, which says it has them")
    missing = counted - check.rows - sum(map(len, in_log))
    if missing > 0:
        older = [Span(hole.start, min(hole.end, log.start)) for hole in holes if hole.start < log.start]
        check.findings.append(f"{missing} records that were archived are in no file; among {_named(older)}")
    elif check.rows > counted:
        check.findings.append(f"the files have {check.rows} rows, and {counted} were archived")


def _named(spans: list[Span]) -> str:
    shown = ", ".join(map(str, spans[:NAMED_MAX]))
    return shown if len(spans) <= NAMED_MAX else f"{shown} and {len(spans) - NAMED_MAX} more spans"
