"""Aligns micro-batches with publish times, and finds the latest time that earlier batches have read.

    partition 0   ──────▒▒▒▒▒▒▒▒▒▒▒▒▒▒│             a batch ends at one time in all partitions,
    partition 1   ──────▒▒│                           however many records each has before it
                          T

``planning.aligned`` decides; this module asks the broker and the lake.  A broker stamps
records in offset order, so all records before T are in batches that end at or before T.
Kafka producers may set timestamps in any order; records older than those of earlier
batches are then recognised by the column ``horizon``.

A lookup by time costs the broker some work for every partition, so a search starts from
the previous result.  A new stream needs about eighty lookups.
"""

from typing import TYPE_CHECKING

from penstock.model.ranges import OffsetRange
from penstock.spark.lake.reading import first_since
from penstock.spark.records.planning import (
    TIME_MS_MAX,
    Reached,
    aligned,
    distance,
    highest,
    newest,
    ranges_between,
)
from penstock.spark.source.scan import TopicScan

if TYPE_CHECKING:
    from penstock.client.sync import RemoteBroker


class BatchTimes:
    """Publish times of the topics that a stream reads; lives as long as the stream."""

    def __init__(self) -> None:
        self._guess = (0, TIME_MS_MAX - 1)  # Between these the next batch may end.
        self._seen: tuple[Reached, int] = ({}, 0)  # The last place whose horizon was looked for, and that.

    def limited(self, asked: "TimeLookup", begin: Reached, end: Reached, records: float) -> Reached:
        """Where a batch of at most so many records ends."""
        if distance(begin, end) <= records:
            return end
        cut = aligned(begin, end, records, self._guess, lambda time_ms: asked.at(begin, end, time_ms))
        before_ms, _ = self._guess
        width_ms = cut.time_ms - before_ms if before_ms else 0  # If the next one takes as long as this one.
        self._guess = (cut.time_ms, cut.time_ms + width_ms)
        return cut.place

    def horizon(self, asked: "TimeLookup", place: Reached) -> int | None:
        """The latest publish time of the records before a place; None if there are none."""
        there = set(asked.scan.topics())
        current = {topic: offsets for topic, offsets in place.items() if topic in there}
        if not ranges_between({}, current):
            return None
        before, least_ms = self._seen
        if highest(before, current) != current:  # It is not further on, so it may be less.
            least_ms = 0
        found = newest(current, least_ms, lambda time_ms: asked.at({}, current, time_ms))
        self._seen = (current, found)
        return found


class TimeLookup:
    """The broker and the lake, which know the times."""

    def __init__(self, scan: TopicScan, broker: "RemoteBroker") -> None:
        self.scan = scan
        self._broker = broker
        self._starts: dict[str, dict[int, int]] = {}  # Of the logs.

    def at(self, begin: Reached, end: Reached, time_ms: int) -> Reached:
        """By partition, the first offset from ``begin`` on that is not older than a time."""
        found: Reached = {}
        for topic, limits in end.items():
            wanted = begin.get(topic, {})
            if wanted == limits:  # Nothing is new; the topic may even be gone.
                found[topic] = limits
                continue
            found[topic] = dict(self._broker.offsets(topic, time_ms / 1000))
            for number, start in self._log_starts(topic).items():
                below = OffsetRange(topic, number, wanted.get(number, 0), start)
                if topic in begin and below.start < below.end and found[topic].get(number, 0) <= start:
                    found[topic][number] = self._in_lake(below, time_ms)
        return found

    def _in_lake(self, span: OffsetRange, time_ms: int) -> int:
        """The first offset of a span below the log's start that is not older; its end if there is none."""
        files = [file for file in self.scan.history.files(span) if file.last_ms >= time_ms]
        offset = first_since(files, span.partition, span.start, span.end, time_ms)
        return span.end if offset is None else offset

    def _log_starts(self, topic: str) -> dict[int, int]:
        if topic not in self._starts:
            self._starts[topic] = self._broker.offsets(topic, "earliest")
        return self._starts[topic]
