"""Optional columns that are not stored in the record.

    id          orders:3:1200, as ``trace`` takes it
    attempts    how often the group (option ``group``) was given the message
    state       its state in the group: waiting, in flight, retrying, acked, dead-lettered ...
    horizon     the latest publish time that earlier micro-batches have read; null in the first

The broker returns attempts and states as ranges of offsets, so a million messages in
one state cost as much as one.  They are read when the task runs, so two tasks see the
states of two moments.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.info import DeliveryState
from penstock.model.ranges import OffsetRange
from penstock.spark.records.arrow import time_column
from penstock.spark.runtime.connections import broker_at
from penstock.spark.source.options import SourceOptions


class MetadataColumns:
    """The columns of the rows of one partition."""

    def __init__(self, options: SourceOptions, span: OffsetRange, horizon_ms: int | None = None) -> None:
        self._options = options
        self._span = span
        self._horizon_ms = horizon_ms
        self._asked = (0, 0)  # Of these offsets ...
        self._states: list[DeliveryState] = []  # ... this is known.

    def column(self, name: str, offsets: pa.Array) -> pa.Array:
        """One column for rows of these offsets, which rise."""
        if name == "id":
            place = f"{self._span.topic}:{self._span.partition}:"
            return pc.binary_join_element_wise(place, offsets.cast(pa.string()), "")
        if name == "horizon":
            return time_column(self._horizon_ms, len(offsets))
        if name == "attempts":
            return expanded(offsets, self._known(offsets), lambda state: state.attempts, pa.int32())
        return expanded(offsets, self._known(offsets), lambda state: state.state, pa.string())

    def _known(self, offsets: pa.Array) -> list[DeliveryState]:
        span = (offsets[0].as_py(), offsets[-1].as_py() + 1)
        if span != self._asked:
            group = self._options.group
            assert group is not None, "options are checked"
            broker = broker_at(self._options.address)
            self._states = broker.delivery_states(self._span.topic, group, self._span.partition, *span)
            self._asked = span
        return self._states


def expanded(
    offsets: pa.Array, states: list[DeliveryState], fact: Callable[[DeliveryState], Any], kind: pa.DataType
) -> pa.Array:
    """What is known of ranges, for each of some offsets; null where nothing is known."""
    rows = offsets.to_pylist()
    pieces: list[pa.Array] = []
    reached = 0
    for state in states:
        begin, end = bisect_left(rows, state.start, reached), bisect_left(rows, state.end, reached)
        pieces.append(pa.nulls(begin - reached, kind))
        pieces.append(pa.repeat(pa.scalar(fact(state), kind), end - begin))
        reached = end
    pieces.append(pa.nulls(len(rows) - reached, kind))
    return pa.concat_arrays(pieces)
