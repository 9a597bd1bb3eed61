"""Offsets that are in neither the log nor the lake: an error, or on record.

    on_gap=error    ``OffsetsMissing``, which names them
    on_gap=skip     a line of JSON in the topic ``__gaps``, and the reader goes on behind them

A gap that is met again (a task that is repeated, a query that is planned twice)
is written down once within the topic's dedup window.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.errors import OffsetsMissing, TopicExists, TopicNotFound
from penstock.spark.records.planning import Span

if TYPE_CHECKING:
    from penstock.api.broker import Broker

TOPIC: Final = "__gaps"


class Gap(msgspec.Struct, frozen=True):
    """What is written down; the time is the message's own."""

    topic: str
    partition: int
    start: int
    end: int
    reader: str  # The group that a stream reads as; empty if it has none.


def tell_gap(broker: "Broker", span: Span, on_gap: str, reader: str | None) -> None:
    """Raise, or write it down."""
    if on_gap == "error":
        raise OffsetsMissing(topic=span.topic, partition=span.partition, start=span.start, end=span.end)
    gap = Gap(span.topic, span.partition, span.start, span.end, reader or "")
    value = msgspec.json.encode(gap)
    try:
        broker.publish(TOPIC, value, key=span.topic, dedup_id=value.decode())
    except TopicNotFound:
        with suppress(TopicExists):  # Another task was quicker.
            broker.create_topic(TOPIC)
        broker.publish(TOPIC, value, key=span.topic, dedup_id=value.decode())
