"""From options to tasks: which topics to read, between which offsets, in which slices.

This module asks the broker and the lake; ``planning.py`` decides from the answers.
"""

import os
import re
from collections.abc import Callable, Iterator
from math import ceil
from typing import TYPE_CHECKING, Final

from penstock.errors import InvalidValue
from penstock.model.ranges import OffsetRange
from penstock.spark.lake.history import LakeHistory, report_gap
from penstock.spark.records.planning import Reached, split, together, united
from penstock.spark.runtime.connections import LOCAL_CORES
from penstock.spark.source.filters import Bounds
from penstock.spark.source.options import ENDS, Place, SourceOptions
from penstock.spark.source.regions import EVERYWHERE
from penstock.spark.source.slices import ReadTask, SourceSlice

if TYPE_CHECKING:
    from penstock.client.sync import RemoteBroker

# Read in half a millisecond, where a task by itself takes some twenty.  No more of them: what a query does
# with a record may take long, and then many tasks are better.
TOGETHER_RECORDS: Final = 500


class TopicScan:
    """The topics that a reader reads, as they are now."""

    def __init__(self, options: SourceOptions, broker: "RemoteBroker") -> None:
        self.options = options
        self._broker = broker
        self.history = LakeHistory(broker, options.lake)
        self._readable: set[str] = set()  # Topics of the lake whose permission was checked.

    def topics(self) -> list[str]:
        """The topics that are named, even if they do not exist, or whose names match."""
        if self.options.pattern is None:
            return list(self.options.topics)
        return [name for name in self._broker.topics() if re.fullmatch(self.options.pattern, name)]

    def latest(self) -> Reached:
        """The ends of all logs."""
        return {topic: self._broker.offsets(topic, "latest") for topic in self.topics()}

    def starting(self, place: Place) -> Reached:
        """The start position, by the options."""
        if self.options.from_times is None:
            return {topic: self._placed("starting", place, topic) for topic in self.topics()}
        return {topic: self._from_times(topic) for topic in self.topics()}

    def ending(self) -> Reached:
        """The end position, by the options."""
        if self.options.to_times is None:
            return {topic: self._placed("ending", self.options.ending, topic) for topic in self.topics()}
        return {
            topic: self._at_times(topic, self._broker.offsets(topic, "latest"), self.options.to_ms)
            for topic in self.topics()
        }

    def _placed(self, name: str, place: Place, topic: str) -> dict[int, int]:
        """A position in one topic; partitions that it does not name are read completely."""
        if place == "latest":
            return self._broker.offsets(topic, "latest")
        if place == "earliest":
            return self._earliest(topic)
        wanted = place.get(topic) or place.get("") or {}
        known = self._earliest(topic) if name == "starting" else self._broker.offsets(topic, "latest")
        for partition in wanted:
            if partition not in known:
                why = f"{topic} has partitions 0 to {len(known) - 1}"
                raise InvalidValue(name=name, value=partition, why=why)
        ends = {at: self._placed(name, end, topic) for at, end in ENDS.items() if at in wanted.values()}
        return known | {
            partition: ends[offset][partition] if offset in ends else offset
            for partition, offset in wanted.items()
        }

    def _earliest(self, topic: str) -> dict[int, int]:
        """The first offset that the lake or the log has."""
        starts = self._broker.offsets(topic, "earliest")
        if not any(starts.values()):
            return starts
        first = self.history.first(topic)
        return {partition: min(start, first.get(partition, start)) for partition, start in starts.items()}

    def _from_times(self, topic: str) -> dict[int, int]:
        """Where times begin; where the log does not reach back that far, as far back as the lake does.

        Partitions without a time are read from the beginning.
        """
        starts = self._broker.offsets(topic, "earliest")
        begins = self._at_times(topic, starts, self.options.from_ms)
        earliest = self._earliest(topic) if any(begins[each] <= starts[each] for each in starts) else starts
        return {each: begins[each] if begins[each] > starts[each] else earliest[each] for each in starts}

    def _at_times(
        self, topic: str, otherwise: dict[int, int], time_of: Callable[[str, int], int | None]
    ) -> dict[int, int]:
        """By partition, the first offset that is not older than its time; without a time, ``otherwise``."""
        times = {partition: time_of(topic, partition) for partition in otherwise}
        known = {
            time_ms: self._broker.offsets(topic, time_ms / 1000)
            for time_ms in set(times.values())
            if time_ms is not None
        }
        return {
            partition: otherwise[partition] if time_ms is None else known[time_ms][partition]
            for partition, time_ms in times.items()
        }

    def needed(self, ranges: list[OffsetRange]) -> list[OffsetRange]:
        """What a query needs of some ranges, or a little more."""
        bounds = self.options.within
        if bounds == EVERYWHERE:
            return ranges
        starts = {topic: self._broker.offsets(topic, "earliest") for topic in {span.topic for span in ranges}}
        return [
            piece
            for span in ranges
            for piece in united(
                piece
                for each in bounds
                if each.has(span.topic, span.partition)
                for run in each.runs()
                for piece in self._within(
                    span.intersection(run.low, run.high + 1), starts[span.topic].get(span.partition, 0), each
                )
            )
        ]

    def _within(self, span: OffsetRange, log_start: int, bounds: Bounds) -> Iterator[OffsetRange]:
        """The parts of a span that may have records of the times of a condition, gaps included."""
        for where, part in self.history.locate(span, log_start):
            if where == "log":
                yield self._timed(part, bounds)
            elif where == "lake":
                for file in self.history.files(part, bounds.from_ms, bounds.to_ms):
                    yield part.intersection(file.start, file.end)
            elif self.history.about(part, bounds.from_ms, bounds.to_ms):
                yield part

    def tasks(self, ranges: list[OffsetRange], bounds: Bounds | None = None) -> list[ReadTask]:
        """The tasks that read the ranges; small slices share a task, because tasks are expensive.

        In a local session there are no more tasks than cores, if each has few records enough.
        """
        slices = self.slices(ranges, bounds)
        records = TOGETHER_RECORDS
        if cores := int(os.environ.get(LOCAL_CORES, "0")):
            records = max(records, ceil(sum(map(len, slices)) / cores))
        return [ReadTask(each) for each in together(slices, min(records, self.options.partition_records))]

    def slices(self, ranges: list[OffsetRange], bounds: Bounds | None = None) -> list[SourceSlice]:
        """Where the ranges are, in pieces for a task; of them what the bounds leave."""
        bounds = bounds or Bounds()
        starts = {topic: self._broker.offsets(topic, "earliest") for topic in {span.topic for span in ranges}}
        found: list[SourceSlice] = []
        for span in ranges:
            if bounds.has(span.topic, span.partition):
                for run in bounds.runs():
                    wanted = span.intersection(run.low, run.high + 1)
                    found += self._sliced(wanted, starts[span.topic].get(span.partition, 0), bounds)
        return found

    def _sliced(self, span: OffsetRange, log_start: int, bounds: Bounds) -> list[SourceSlice]:
        from_ms = _latest_of(self.options.from_ms(span.topic, span.partition), bounds.from_ms)
        to_ms = _earliest_of(self.options.to_ms(span.topic, span.partition), bounds.to_ms)
        found: list[SourceSlice] = []
        for where, part in self.history.locate(span, log_start):
            if where == "gap":
                if self.history.about(part, from_ms, to_ms):
                    report_gap(self._broker, part, self.options.on_gap, self.options.group)
            elif where == "lake":
                self._check_readable(span.topic)
                for piece in split(part, self.options.partition_records):
                    files = self.history.files(piece, from_ms, to_ms)
                    if files:
                        found.append(SourceSlice(piece, tuple(files), from_ms, to_ms))
            else:
                timed = self._timed(part, bounds)
                found += [SourceSlice(piece) for piece in split(timed, self.options.partition_records)]
        return found

    def _check_readable(self, topic: str) -> None:
        """Raise ``Forbidden`` unless the caller may read it: files of the lake know of no permissions."""
        if topic not in self._readable:
            self._broker.peek(topic, 1)
            self._readable.add(topic)

    def _timed(self, span: OffsetRange, bounds: Bounds) -> OffsetRange:
        """What of a span of the log is within the times of a condition; those of options are known before."""
        if bounds.from_ms is not None:
            begins = self._broker.offsets(span.topic, bounds.from_ms / 1000)
            span = span.intersection(begins.get(span.partition, 0), span.end)
        if bounds.to_ms is not None:
            ends = self._broker.offsets(span.topic, bounds.to_ms / 1000)
            span = span.intersection(span.start, ends.get(span.partition, 0))
        return span


def _latest_of(one: int | None, other: int | None) -> int | None:
    return max((each for each in (one, other) if each is not None), default=None)


def _earliest_of(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)
