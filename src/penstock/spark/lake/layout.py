"""The layout of a lake table: columns, files, and the statistics of each file.

    <lake>/orders/                                  one Delta table per topic
        _delta_log/                                 the table's current files, and what it has archived
        date=2026-11-16/                            UTC date of the records' timestamps
            0-00000000000000012000-5f0c...parquet   partition 0, offsets from 12000 on

A file holds records of one partition and one date, in offset order, compressed with
zstd.  File names are unique: a repeated write never touches an earlier file.

``LakeFile`` is the table's entry for a file, so readers choose files without opening
them.  Files of one partition and different dates may interleave in their offsets; files
of one partition and the same date never do.
"""

import datetime
import json
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa

from penstock.spark.records.schema import ROW, row_columns

# What a file holds: the date is in its path, the topic is the table's.
ROWS: Final = row_columns(*(name for name in ROW.names if name != "topic"))
COLUMNS: Final = pa.schema([pa.field("date", pa.date32()), *ROWS])  # What the table has.

_TIME_MS_MIN: Final = -62_135_596_800_000
_TIME_MS_MAX: Final = 253_402_300_799_999
_EPOCH: Final = datetime.date(1970, 1, 1)
_MOMENT: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class LakeFile:
    """One file of a table, as described by the table's log."""

    path: str  # Whole: a path of this machine, or a URI.
    date: datetime.date
    partition: int
    start: int  # The first offset in it ...
    end: int  # ... and the one behind its last.  Between them may be offsets that it does not have.
    rows: int
    bytes: int
    first_ms: int  # The earliest timestamp in it, of the years 1 to 9999 ...
    last_ms: int  # ... and the latest.

    def overlaps(self, start: int | None, end: int | None) -> bool:
        """Does it have offsets of a range?"""
        return (end is None or self.start < end) and (start is None or self.end > start)

    def within(self, from_ms: int | None, to_ms: int | None) -> bool:
        """Does it have timestamps from one time on and before another?"""
        return (to_ms is None or self.first_ms < to_ms) and (from_ms is None or self.last_ms >= from_ms)


def new_path(table: str, date: datetime.date, partition: int, start: int) -> str:
    """A unique path for a new file."""
    return f"{table}/date={date.isoformat()}/{partition}-{start:020}-{uuid4().hex}.parquet"


def within_years(time_ms: int) -> int:
    """A time, or the nearest one of the years 1 to 9999: others have no date that all readers know."""
    return min(max(time_ms, _TIME_MS_MIN), _TIME_MS_MAX)


def date_of(day: int) -> datetime.date:
    """The date of a day, counted from 1970."""
    return _EPOCH + datetime.timedelta(days=day)


def statistics_of(file: LakeFile) -> str:
    """A file's statistics in Delta's format, by which readers skip files."""
    low = {"partition": file.partition, "offset": file.start, "timestamp": _iso(file.first_ms)}
    high = {"partition": file.partition, "offset": file.end - 1, "timestamp": _iso(file.last_ms)}
    nulls = dict.fromkeys(("partition", "offset", "timestamp"), 0)
    return json.dumps({"numRecords": file.rows, "minValues": low, "maxValues": high, "nullCount": nulls})


def file_of(table: str, action: dict[str, Any]) -> LakeFile:
    """The file of an add action, as ``get_add_actions(flatten=True)`` gives it."""
    return LakeFile(
        path=f"{table}/{action['path']}",
        date=action["partition.date"],
        partition=action["min.partition"],
        start=action["min.offset"],
        end=action["max.offset"] + 1,
        rows=action["num_records"],
        bytes=action["size_bytes"],
        first_ms=_milliseconds(action["min.timestamp"]),
        last_ms=_milliseconds(action["max.timestamp"]),
    )


def _iso(time_ms: int) -> str:
    moment = _MOMENT + datetime.timedelta(milliseconds=time_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _milliseconds(moment: datetime.datetime) -> int:
    return (moment - _MOMENT) // _MILLISECOND
