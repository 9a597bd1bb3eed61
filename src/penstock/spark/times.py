"""Publish times of a stream's records: where a batch may end, and how far the earlier ones got.

    partition 0   ──────▒▒▒▒▒▒▒▒▒▒▒▒▒▒│             a batch ends at one time in all partitions,
    partition 1   ──────▒▒│                           however many records each has until then
                          T

``planning.aligned`` decides; here the broker and the lake are asked.  A broker
stamps records in the order of their offsets, so all records before T are in the
batches that end at T.  Kafka's producers may bring times of their own, in any
order.  A record that is older than what earlier batches have read is then found
by the column ``horizon``: the latest publish time that earlier batches have read.

Each question about a time makes the broker decode a page of every partition,
so few are asked: the search begins with the times of the first and last records.
"""

from typing import TYPE_CHECKING, Final

from penstock.errors import OffsetOutOfRange
from penstock.spark.lake.reading import first_since
from penstock.spark.planning import TIME_MS_MAX, Reached, Span, aligned, distance, newest, spans
from penstock.spark.scan import Scan

if TYPE_CHECKING:
    from penstock.client.sync import RemoteBroker

SAMPLES: Final = 64  # Partitions whose records are looked at for a first guess.


class Times:
    """Publish times of the topics that a stream reads, as they are now."""

    def __init__(self, scan: Scan, broker: "RemoteBroker") -> None:
        self._scan = scan
        self._broker = broker
        self._starts: dict[str, dict[int, int]] = {}  # Of the logs.

    def limited(self, begin: Reached, end: Reached, records: float) -> Reached:
        """Where a batch of at most so many records ends."""
        if distance(begin, end) <= records:
            return end
        waiting = spans(begin, end)[:SAMPLES]
        first = [self._published(span.topic, span.partition, span.start) for span in waiting]
        last = [self._published(span.topic, span.partition, span.end - 1) for span in waiting]
        known = [each for each in (*first, *last) if each is not None]
        times = (min(known, default=0), max(known, default=TIME_MS_MAX - 1))
        return aligned(begin, end, records, times, lambda time_ms: self._at(begin, end, time_ms))

    def horizon(self, place: Reached) -> int | None:
        """The latest publish time of the records before a place; None if there are none."""
        there = set(self._scan.topics())
        current = {topic: offsets for topic, offsets in place.items() if topic in there}
        before = spans({}, current)
        if not before:
            return None
        known = [self._published(each.topic, each.partition, each.end - 1) for each in before[:SAMPLES]]
        lowest = max((each for each in known if each is not None), default=0)
        return newest(current, lowest, lambda time_ms: self._at({}, current, time_ms))

    def _at(self, begin: Reached, end: Reached, time_ms: int) -> Reached:
        """By partition, the first offset from ``begin`` on that is not older than a time."""
        found: Reached = {}
        for topic, limits in end.items():
            wanted = begin.get(topic, {})
            if wanted == limits:  # Nothing is new; the topic may even be gone.
                found[topic] = limits
                continue
            found[topic] = dict(self._broker.offsets(topic, time_ms / 1000))
            for number, start in self._log_starts(topic).items():
                below = Span(topic, number, wanted.get(number, 0), start)
                if topic in begin and below.start < below.end and found[topic].get(number, 0) <= start:
                    found[topic][number] = self._in_lake(below, time_ms)
        return found

    def _in_lake(self, span: Span, time_ms: int) -> int:
        """The first offset of a span below the log's start that is not older; its end if there is none."""
        files = [file for file in self._scan.history.files(span) if file.last_ms >= time_ms]
        offset = first_since(files, span.partition, span.start, span.end, time_ms)
        return span.end if offset is None else offset

    def _published(self, topic: str, partition: int, offset: int) -> int | None:
        """When a record was published; None if that is not known."""
        try:
            messages = self._broker.read(topic, partition=partition, offset=offset, limit=1)
        except OffsetOutOfRange:
            files = self._scan.history.files(Span(topic, partition, offset, offset + 1))
            return files[0].first_ms if files else None
        return messages[0].timestamp if messages and messages[0].offset == offset else None

    def _log_starts(self, topic: str) -> dict[int, int]:
        if topic not in self._starts:
            self._starts[topic] = self._broker.offsets(topic, "earliest")
        return self._starts[topic]
