"""From options to tasks: which topics to read, between which offsets, in which slices.

This module asks the broker and the lake; ``planning.py`` decides from the answers.
"""

import re
from typing import TYPE_CHECKING, Final

from penstock.errors import InvalidValue
from penstock.model.ranges import OffsetRange
from penstock.spark.lake.history import LakeHistory, report_gap
from penstock.spark.records.planning import Reached, split, together
from penstock.spark.source.filters import Bounds
from penstock.spark.source.options import Place, SourceOptions
from penstock.spark.source.slices import ReadTask, Slice

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

    def topics(self) -> list[str]:
        """Those that are named, whether they exist or not; or those whose names match."""
        if self.options.pattern is None:
            return list(self.options.topics)
        return [name for name in self._broker.topics() if re.fullmatch(self.options.pattern, name)]

    def latest(self) -> Reached:
        """The ends of all logs."""
        return {topic: self._broker.offsets(topic, "latest") for topic in self.topics()}

    def starting(self, place: Place) -> Reached:
        """Where to begin, by the options."""
        if self.options.from_ms is None:
            return {topic: self._placed("starting", place, topic) for topic in self.topics()}
        return {topic: self._from_time(topic, self.options.from_ms) for topic in self.topics()}

    def ending(self) -> Reached:
        """Where to end, by the options."""
        if self.options.to_ms is None:
            return {topic: self._placed("ending", self.options.ending, topic) for topic in self.topics()}
        return {topic: self._broker.offsets(topic, self.options.to_ms / 1000) for topic in self.topics()}

    def _placed(self, name: str, place: Place, topic: str) -> dict[int, int]:
        """A place in one topic; partitions that it does not name are read from the first to the last."""
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
        return known | wanted

    def _earliest(self, topic: str) -> dict[int, int]:
        """The first offset that the lake or the log has."""
        starts = self._broker.offsets(topic, "earliest")
        if not any(starts.values()):
            return starts
        first = self.history.first(topic)
        return {partition: min(start, first.get(partition, start)) for partition, start in starts.items()}

    def _from_time(self, topic: str, from_ms: int) -> dict[int, int]:
        """Where a time begins; where the log does not reach back that far, as far back as the lake does."""
        starts = self._broker.offsets(topic, "earliest")
        begins = self._broker.offsets(topic, from_ms / 1000)
        earliest = self._earliest(topic) if any(begins[each] <= starts[each] for each in starts) else starts
        return {each: begins[each] if begins[each] > starts[each] else earliest[each] for each in starts}

    def tasks(self, ranges: list[OffsetRange], bounds: Bounds | None = None) -> list[ReadTask]:
        """The tasks that read the ranges; small slices share a task, because tasks are expensive."""
        records = min(self.options.partition_records, TOGETHER_RECORDS)
        return [ReadTask(each) for each in together(self.slices(ranges, bounds), records)]

    def slices(self, ranges: list[OffsetRange], bounds: Bounds | None = None) -> list[Slice]:
        """Where the ranges are, in pieces for a task; of them what the bounds leave."""
        bounds = bounds or Bounds()
        starts = {topic: self._broker.offsets(topic, "earliest") for topic in {span.topic for span in ranges}}
        found: list[Slice] = []
        for span in ranges:
            if bounds.has(span.topic, span.partition):
                wanted = span.intersection(bounds.offset.low, bounds.offset.high + 1)
                found += self._sliced(wanted, starts[span.topic].get(span.partition, 0), bounds)
        return found

    def _sliced(self, span: OffsetRange, log_start: int, bounds: Bounds) -> list[Slice]:
        from_ms = _latest_of(self.options.from_ms, bounds.from_ms)
        to_ms = _earliest_of(self.options.to_ms, bounds.to_ms)
        found: list[Slice] = []
        for where, part in self.history.locate(span, log_start):
            if where == "gap":
                if self.history.about(part, from_ms, to_ms):
                    report_gap(self._broker, part, self.options.on_gap, self.options.group)
            elif where == "lake":
                for piece in split(part, self.options.partition_records):
                    files = self.history.files(piece, from_ms, to_ms)
                    if files:
                        found.append(Slice(piece, tuple(files), from_ms, to_ms))
            else:
                timed = self._timed(part, bounds)
                found += [Slice(piece) for piece in split(timed, self.options.partition_records)]
        return found

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
