"""Restores records that retention has deleted, from the lake, for a group.  Needs no Spark and no Java.

    lake     │■■■■■■■■■■■■■■■■■■■■■■■■│
    log               start ──> │■■■■■■■■■■■■■■■■■■■■■■■│        records below the start of the log are
    wanted        goal ──> │─────────────────────────────>       read from the lake, encoded with their
    restored               │■■■■│                                original offsets, and put back

Afterwards the group is at the goal, and an ordinary consumer reads the restored
records and then the log.  Retention keeps them until then (``Broker.finish_restore``).

The goal of each partition is given as a time, a snapshot or offsets.  A time is looked
up in the lake first, then in the log.  Offsets that are in neither are an error, or
with ``on_gap="skip"`` are recorded and skipped.  If the goal is older than the oldest
record, the number of offsets below that record is reported (``Restored.missing``).

Partitions are restored one at a time, each completely or not at all; repeating a
restore is safe.  Cost: about 3 us per record, 0.5 us when compiled.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidValue, OffsetsMissing, OutcomeUnknown, RestoreRefused
from penstock.model.ranges import OffsetRange
from penstock.operations.call import HOLD
from penstock.spark.lake.history import LakeHistory, report_gap
from penstock.spark.lake.reading import read_range
from penstock.spark.records.arrow import within
from penstock.spark.records.planning import LocatedRange
from penstock.types import Duration, Instant, instant_ms
from penstock.wire.stored import StoredBatches

if TYPE_CHECKING:
    from penstock.api.broker import Broker

TRIES_MAX: Final = 3
CHUNK_BYTES: Final = 4 * 1024 * 1024  # Of one call: sent and synced in some ten milliseconds.

Advance = Callable[[int], None]


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What was done for one partition."""

    partition: int
    start: int  # Where the group is now.
    log_start: int  # Where the log began before: what lies between came from the lake.
    records: int
    missing: int  # The group begins with the oldest message that is left; so many were before it.


def restore(
    broker: "Broker",
    topic: str,
    group: str,
    *,
    from_time: Instant | None = None,
    offsets: Mapping[int, int] | None = None,
    lake: str | None = None,
    hold: Duration = HOLD,
    on_gap: str = "error",
    advance: Advance = lambda _: None,
) -> list[Restored]:
    """Move a group back to a time, to offsets, or to the oldest message there is, in the lake or the log.

    The group is created if it does not exist.  ``advance`` is called with the number of records restored.
    """
    if from_time is not None and offsets is not None:
        raise InvalidValue(name="offsets", value=offsets, why="set either offsets or from_time, not both")
    if on_gap not in ("error", "skip"):
        raise InvalidValue(name="on_gap", value=on_gap, why="it must be error or skip")
    from_ms = None if from_time is None else instant_ms("from_time", from_time)
    work = _Restoring(broker, topic, LakeHistory(broker, lake))
    goals = work.goals(from_ms, offsets)
    work.check(goals, on_gap)
    broker.create_group(topic, group)
    return [work.run(partition, goal, group, hold, on_gap, advance) for partition, goal in goals.items()]


def counts(
    broker: "Broker", topic: str, *, from_time: Instant | None = None, lake: str | None = None
) -> dict[int, tuple[int, int]]:
    """By partition, how many offsets ``restore`` would bring back, and how many follow in the log."""
    from_ms = None if from_time is None else instant_ms("from_time", from_time)
    work = _Restoring(broker, topic, LakeHistory(broker, lake))
    ends = broker.offsets(topic, "latest")
    return {
        partition: work.count(partition, goal, ends[partition])
        for partition, goal in work.goals(from_ms, None).items()
    }


class _Restoring:
    """The lake and the log of one topic."""

    def __init__(self, broker: "Broker", topic: str, history: LakeHistory) -> None:
        self._broker = broker
        self._topic = topic
        self._history = history
        self._starts = broker.offsets(topic, "earliest")

    # Where to.

    def goals(self, from_ms: int | None, offsets: Mapping[int, int] | None) -> dict[int, int]:
        """By partition: the offset that the group is to begin with."""
        if offsets is not None:
            ends = self._broker.offsets(self._topic, "latest")
            for partition, offset in offsets.items():
                if not 0 <= offset <= ends.get(partition, 0):
                    why = f"{self._topic}:{partition} ends at {ends.get(partition, 0)}"
                    raise InvalidValue(name="offsets", value=offset, why=why)
            return {partition: offsets.get(partition, 0) for partition in ends}
        if from_ms is None:
            return {partition: self._oldest(partition) for partition in self._starts}
        in_log = self._broker.offsets(self._topic, from_ms / 1000)
        return {partition: self._first_since(partition, from_ms, in_log[partition]) for partition in in_log}

    def _oldest(self, partition: int) -> int:
        """The first offset that is in the lake or the log."""
        start = self._starts[partition]
        return min(start, self._history.first(self._topic).get(partition, start)) if start else 0

    def _first_since(self, partition: int, from_ms: int, in_log: int) -> int:
        start = self._starts[partition]
        if in_log > start or not start:
            return in_log  # The log reaches back further than that.
        files = self._history.files(OffsetRange(self._topic, partition, 0, start), from_ms)
        for rows in read_range(files, partition, 0, start, ["offset", "timestamp"]):
            young = within(rows, from_ms, None)
            if young.num_rows:
                return int(young["offset"][0].as_py())
        return in_log

    # What is there.

    def check(self, goals: Mapping[int, int], on_gap: str) -> None:
        """Raise if offsets are in neither log nor lake, before anything is changed."""
        for partition, goal in goals.items():
            self._plan(partition, goal, self._starts.get(partition, 0), on_gap)

    def _plan(self, partition: int, goal: int, log_start: int, on_gap: str) -> list[LocatedRange]:
        """Plan what is read from the lake, and find what is in neither log nor lake."""
        span = OffsetRange(self._topic, partition, goal, max(goal, log_start))
        found = [part for part in self._history.locate(span, log_start) if part.where != "log"]
        for where, gap in found:
            if where == "gap" and on_gap == "error":
                raise OffsetsMissing(topic=self._topic, partition=partition, start=gap.start, end=gap.end)
        return found

    def count(self, partition: int, goal: int, end: int) -> tuple[int, int]:
        """How many offsets are below the log's start, and how many follow."""
        start = max(self._starts[partition], goal)
        return start - goal, end - start

    # Putting it back.

    def run(
        self, partition: int, goal: int, group: str, hold: Duration, on_gap: str, advance: Advance
    ) -> Restored:
        """Restore one partition; begins again if the connection to the server is lost."""
        for _ in range(TRIES_MAX - 1):
            with suppress(RestoreRefused, OutcomeUnknown):
                return self._run(partition, goal, group, hold, on_gap, advance)
        return self._run(partition, goal, group, hold, on_gap, advance)

    def _run(
        self, partition: int, goal: int, group: str, hold: Duration, on_gap: str, advance: Advance
    ) -> Restored:
        begun = self._broker.begin_restore(self._topic, partition, goal)
        records = 0
        for where, span in self._plan(partition, goal, begun.end, on_gap):
            if where == "gap":
                report_gap(self._broker, span, on_gap, group)
                continue
            for count, batches in _chunks(self._rows(span)):
                if batches:
                    self._broker.restore(self._topic, partition, begun.restore, batches)
                records += count
                advance(count)
        self._broker.finish_restore(self._topic, partition, begun.restore, group, hold=hold)
        oldest = min(self._oldest(partition), goal)
        missing = oldest if oldest == goal else 0
        return Restored(
            partition=partition, start=goal, log_start=begun.end, records=records, missing=missing
        )

    def _rows(self, span: OffsetRange) -> Iterator[pa.RecordBatch]:
        return read_range(self._history.files(span), span.partition, span.start, span.end)


def _chunks(rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
    """Record batches for one call at a time, and how many rows more were read for them."""
    stored = StoredBatches()
    pieces: list[bytes] = []
    size = count = 0
    for batch in rows:
        for some in _slices(batch):
            stored.add(**_columns(some))
            pieces.append(stored.take())
            size += len(pieces[-1])
            count += some.num_rows
            if size >= CHUNK_BYTES:
                yield count, b"".join(pieces)
                pieces, size, count = [], 0, 0
    pieces.append(stored.finish())
    yield count, b"".join(pieces)


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Parts of a batch that are no larger than a call should be."""
    rows = max(batch.num_rows * CHUNK_BYTES // max(batch.nbytes, 1), 1)
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _columns(rows: pa.RecordBatch) -> dict[str, Any]:
    """Rows of the lake as lists."""
    times = rows["timestamp"].cast(pa.int64())
    headers, lanes = rows["headers"], rows["lane"]
    bounds = headers.offsets
    return {
        "offsets": rows["offset"].to_pylist(),
        "times_ms": pc.divide(times, 1000).to_pylist(),
        "keys": _bytes(rows["key"]),
        "values": _bytes(rows["value"]),
        "headers": None if bounds[0] == bounds[-1] else [each or [] for each in headers.to_pylist()],
        "lanes": None if not pc.any(pc.not_equal(lanes, 0)).as_py() else lanes.to_pylist(),
    }


def _bytes(column: pa.Array) -> list[bytes | None] | None:
    return None if column.null_count == len(column) else column.to_pylist()
