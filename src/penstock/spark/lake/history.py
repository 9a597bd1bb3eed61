"""Locates offsets below the start of a log: in the lake, or nowhere (a gap).

    on_gap=error    ``OffsetsMissing``, which names the offsets
    on_gap=skip     a JSON message in the topic ``__gaps``; reading continues after the gap

A gap that is found again (a repeated task, a query planned twice) is recorded once
within the topic's dedup window.

Opening a table takes some milliseconds, so it happens only if offsets below the log's
start are wanted, and once per topic.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.errors import OffsetsMissing, TopicExists, TopicNotFound
from penstock.model.ranges import OffsetRange
from penstock.spark.lake.table import LakeTable
from penstock.spark.records.planning import LocatedRange, archived, locate

if TYPE_CHECKING:
    from penstock.api.broker import Broker
    from penstock.spark.lake.layout import LakeFile

GAPS_TOPIC: Final = "__gaps"


class RecordedGap(msgspec.Struct, frozen=True):
    """A message of the topic ``__gaps``; the time is the message's own."""

    topic: str
    partition: int
    start: int
    end: int
    reader: str  # The group of the stream; empty if it has none.


class LakeHistory:
    """The lake of one broker; tables are opened when they are first needed."""

    def __init__(self, broker: "Broker", lake: str | None) -> None:
        self._broker = broker
        self._lake = lake  # None: where the broker says.
        self._tables: dict[str, LakeTable | None] = {}

    def first(self, topic: str) -> dict[int, int]:
        """By partition, the first offset that the lake has."""
        table = self._table(topic)
        return {} if table is None else table.first_offsets()

    def locate(self, span: OffsetRange, log_start: int) -> list[LocatedRange]:
        """Where the offsets of a span are."""
        if span.start >= log_start:
            return locate(span, log_start, [])
        return locate(span, log_start, self._archived(span.topic, span.partition))

    def files(
        self, span: OffsetRange, from_ms: int | None = None, to_ms: int | None = None
    ) -> list["LakeFile"]:
        """The files that may have records of a span and of a time."""
        table = self._table(span.topic)
        return [] if table is None else table.files(span.partition, span.start, span.end, from_ms, to_ms)

    def about(self, gap: OffsetRange, from_ms: int | None, to_ms: int | None) -> bool:
        """Whether a gap may contain records of a time range, judging by the files before and after it."""
        before = self.files(OffsetRange(gap.topic, gap.partition, 0, gap.start)) if to_ms is not None else []
        behind = (
            self.files(OffsetRange(gap.topic, gap.partition, gap.end, 1 << 62)) if from_ms is not None else []
        )
        too_late = any(to_ms is not None and file.last_ms >= to_ms for file in before)
        too_early = any(from_ms is not None and file.first_ms < from_ms for file in behind)
        return not too_late and not too_early

    def _archived(self, topic: str, partition: int) -> list[tuple[int, int]]:
        table = self._table(topic)
        if table is None or partition not in table.next_offsets():
            return []
        lost = [(each.start, each.end) for each in table.lost() if each.partition == partition]
        return archived(table.first_offsets()[partition], table.next_offsets()[partition], lost)

    def _table(self, topic: str) -> LakeTable | None:
        if topic not in self._tables:
            lake = self._broker.stats().lake if self._lake is None else self._lake
            table = LakeTable.open(lake, topic) if lake else None
            self._tables[topic] = table if table is not None and table.exists else None
        return self._tables[topic]


def report_gap(broker: "Broker", gap: OffsetRange, on_gap: str, reader: str | None) -> None:
    """Raise ``OffsetsMissing``, or with ``on_gap=skip`` record the gap in the topic ``__gaps``."""
    if on_gap == "error":
        raise OffsetsMissing(topic=gap.topic, partition=gap.partition, start=gap.start, end=gap.end)
    value = msgspec.json.encode(RecordedGap(gap.topic, gap.partition, gap.start, gap.end, reader or ""))
    try:
        broker.publish(GAPS_TOPIC, value, key=gap.topic, dedup_id=value.decode())
    except TopicNotFound:
        with suppress(TopicExists):  # Another task was faster.
            broker.create_topic(GAPS_TOPIC)
        broker.publish(GAPS_TOPIC, value, key=gap.topic, dedup_id=value.decode())
