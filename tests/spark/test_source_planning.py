"""Planning without a broker: where offsets are, how they are split, how far a micro-batch goes."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as spark

from penstock.model.ranges import OffsetRange
from penstock.spark.records.planning import (
    Reached,
    admitted,
    aligned,
    archived,
    distance,
    locate,
    newest,
    ranges_between,
    records_for,
    split,
    together,
)
from penstock.spark.source.filters import Bounds, Interval, narrowed


def places(start: int, end: int, log_start: int, *lake: tuple[int, int]) -> list[tuple[str, int, int]]:
    found = locate(OffsetRange("orders", 0, start, end), log_start, lake)
    return [(where, span.start, span.end) for where, span in found]


def test_the_log_is_read_as_far_back_as_it_goes_and_the_lake_before() -> None:
    assert places(0, 100, 0) == [("log", 0, 100)]
    assert places(0, 100, 40, (0, 70)) == [("lake", 0, 40), ("log", 40, 100)]
    assert places(10, 30, 40, (0, 70)) == [("lake", 10, 30)]
    assert places(50, 60, 40, (0, 70)) == [("log", 50, 60)]


def test_what_is_in_neither_is_a_gap() -> None:
    assert places(0, 100, 40) == [("gap", 0, 40), ("log", 40, 100)]
    assert places(0, 100, 40, (10, 30)) == [
        ("gap", 0, 10),
        ("lake", 10, 30),
        ("gap", 30, 40),
        ("log", 40, 100),
    ]
    assert places(0, 30, 40, (5, 10), (20, 25)) == [
        ("gap", 0, 5),
        ("lake", 5, 10),
        ("gap", 10, 20),
        ("lake", 20, 25),
        ("gap", 25, 30),
    ]
    assert places(7, 7, 40) == []


offsets = st.integers(0, 60)


@given(offsets, offsets, offsets, st.lists(st.tuples(offsets, offsets), max_size=4))
def test_the_parts_are_the_span(start: int, size: int, log_start: int, lake: list[tuple[int, int]]) -> None:
    found = places(start, start + size, log_start, *lake)

    assert [offset for _, low, high in found for offset in range(low, high)] == list(
        range(start, start + size)
    )
    for where, low, high in found:
        for offset in range(low, high):
            in_lake = any(begin <= offset < end for begin, end in lake)
            assert where == ("log" if offset >= log_start else "lake" if in_lake else "gap")


def test_what_the_archive_lost_is_not_in_the_lake() -> None:
    assert archived(5, 100, []) == [(5, 100)]
    assert archived(5, 100, [(40, 50), (20, 30)]) == [(5, 20), (30, 40), (50, 100)]
    assert archived(5, 30, [(20, 30)]) == [(5, 20)]


@given(st.integers(0, 1000), st.integers(1, 300))
def test_pieces_are_equal_and_not_too_large(size: int, records: int) -> None:
    pieces = list(split(OffsetRange("orders", 0, 17, 17 + size), records))

    assert [offset for each in pieces for offset in range(each.start, each.end)] == list(range(17, 17 + size))
    assert all(1 <= len(each) <= records for each in pieces)
    assert max(map(len, pieces), default=0) - min(map(len, pieces), default=0) <= 1


@given(st.lists(st.integers(1, 20)), st.integers(1, 30))
def test_small_pieces_are_together_and_in_order(sizes: list[int], records: int) -> None:
    pieces = [OffsetRange("orders", number, 0, size) for number, size in enumerate(sizes)]

    groups = list(together(pieces, records))

    assert [each for group in groups for each in group] == pieces
    assert all(len(group) == 1 or sum(map(len, group)) <= records for group in groups)
    for group, following in pairwise(groups):
        assert sum(map(len, group)) + len(following[0]) > records, "it would have had room"


def test_every_partition_is_read_by_its_share_of_what_waits() -> None:
    start: Reached = {"a": {0: 100, 1: 0}}
    end: Reached = {"a": {0: 400, 1: 100}, "b": {0: 600}}

    assert admitted(start, end, 100) == {"a": {0: 130, 1: 10}, "b": {0: 60}}
    assert admitted(start, end, 1000) == end


reached = st.dictionaries(st.integers(0, 3), st.integers(0, 50), min_size=1)


@given(reached, reached, st.floats(0.1, 300))
def test_a_limit_is_kept_and_the_stream_gets_on(
    begin: dict[int, int], more: dict[int, int], records: float
) -> None:
    start = {"a": begin}
    end = {"a": {each: begin.get(each, 0) + more.get(each, 0) for each in begin | more}}

    found = admitted(start, end, records)
    read = sum(len(span) for span in ranges_between(start, found))
    waiting = sum(len(span) for span in ranges_between(start, end))

    assert found.keys() == end.keys()
    assert read == min(waiting, max(int(records), 1)) or (waiting <= records and read == waiting)


class Log:
    """Partitions with the publish times of their records."""

    def __init__(self, *partitions: list[int]) -> None:
        self.partitions = partitions
        self.end: Reached = {"a": {number: len(times) for number, times in enumerate(partitions)}}

    def at(self, time_ms: int) -> Reached:
        """By partition, the first offset that is not older."""
        found = {}
        for number, times in enumerate(self.partitions):
            newer = (offset for offset, time in enumerate(times) if time >= time_ms)
            found[number] = next(newer, len(times))
        return {"a": found}

    def batches(self, records: float, times: tuple[int, int]) -> list[Reached]:
        """The ends of all micro-batches."""
        ends = [{"a": dict.fromkeys(self.end["a"], 0)}]
        while ends[-1] != self.end:
            is_last = distance(ends[-1], self.end) <= records
            ends.append(self.end if is_last else aligned(ends[-1], self.end, records, times, self.at).place)
            assert distance(ends[-2], ends[-1]) > 0, "there is no progress"
        return ends

    def times(self, start: Reached, end: Reached) -> list[int]:
        """When the records between two places were published."""
        return [
            t
            for span in ranges_between(start, end)
            for t in self.partitions[span.partition][span.start : span.end]
        ]


def test_a_batch_ends_at_one_publish_time_however_many_records_each_partition_has_until_then() -> None:
    log = Log(list(range(1000, 1100)), list(range(1050, 1450, 10)))

    start, first, *_ = ends = log.batches(60, (1000, 1440))

    assert 57 <= distance(start, first) <= 60
    assert first == log.at(max(log.times(start, first)) + 1)
    assert admitted(start, log.end, 60) == {"a": {0: 43, 1: 17}}, "by count, one is read far ahead"
    assert len(ends) == 4


@given(
    st.lists(
        st.lists(st.integers(0, 2000).map(lambda t: t * 7), max_size=60).map(sorted), min_size=1, max_size=4
    ),
    st.integers(1, 40),
    st.tuples(st.integers(0, 20_000), st.integers(0, 20_000)),
)
def test_no_record_of_a_later_batch_was_published_before_one_of_an_earlier_batch(
    partitions: list[list[int]], records: int, guess: tuple[int, int]
) -> None:
    log = Log(*partitions)

    for start, end in pairwise(log.batches(records, guess)):
        assert distance(start, end) <= records
        assert max(log.times(start, end)) <= min(log.times(end, log.end), default=1 << 60)


@given(
    st.lists(st.lists(st.integers(0, 1 << 50), max_size=30), min_size=1, max_size=3),
    st.floats(0.1, 40),
    st.tuples(st.integers(0, 1 << 50), st.integers(0, 1 << 50)),
)
def test_a_stream_gets_on_whatever_times_its_records_have(
    partitions: list[list[int]], records: float, guess: tuple[int, int]
) -> None:
    for start, end in pairwise(Log(*partitions).batches(records, guess)):
        assert distance(start, end) <= max(records, 1)


def test_records_of_one_millisecond_are_read_by_count() -> None:
    log = Log([5] * 100, [5] * 50)

    assert [distance({}, end) for end in log.batches(40, (5, 5))] == [0, 40, 80, 120, 150]


def test_few_questions_are_asked_where_records_come_steadily() -> None:
    log = Log(list(range(0, 1_000_000, 10)), list(range(3, 1_000_000, 30)))
    asked: list[int] = []

    def at(time_ms: int) -> Reached:
        asked.append(time_ms)
        return log.at(time_ms)

    first = aligned({"a": {0: 0, 1: 0}}, log.end, 20_000, (0, 999_990), at)
    second = aligned(first.place, log.end, 20_000, (first.time_ms, 2 * first.time_ms), at)

    assert 19_000 <= first.records == distance({}, first.place) <= 20_000
    assert 19_000 <= second.records == distance(first.place, second.place) <= 20_000
    assert len(asked) <= 8


@given(st.lists(st.lists(st.integers(0, 1 << 40), max_size=20), min_size=1, max_size=3), st.data())
def test_the_newest_time_before_a_place_is_found_from_any_time_that_is_not_later(
    partitions: list[list[int]], data: st.DataObject
) -> None:
    log = Log(*partitions)
    place: Reached = {"a": {n: data.draw(st.integers(0, len(times))) for n, times in enumerate(partitions)}}
    before = log.times({}, place)

    if before:
        assert newest(place, data.draw(st.integers(0, max(before))), log.at) == max(before)


def test_a_partition_that_has_no_start_is_read_from_its_beginning() -> None:
    assert ranges_between({"a": {0: 5}}, {"a": {0: 5, 1: 3}, "b": {0: 2}}) == [
        OffsetRange("a", 1, 0, 3),
        OffsetRange("b", 0, 0, 2),
    ]


def test_bytes_are_as_many_records_as_they_are_on_average() -> None:
    assert records_for(1000, [(100, 10_000), (100, 30_000)]) == 5
    assert records_for(1000, []) == float("inf")


# Conditions.

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
NOON_MS = 1_794_830_400_000


def narrowed_by(*conditions: spark.Filter) -> Bounds:
    bounds = Bounds()
    for condition in conditions:
        found = narrowed(bounds, condition)
        assert found is not None
        bounds = found
    return bounds


def test_conditions_narrow_what_is_read() -> None:
    bounds = narrowed_by(
        spark.IsNotNull(("offset",)),
        spark.GreaterThan(("offset",), 10),
        spark.LessThanOrEqual(("offset",), 20),
        spark.GreaterThanOrEqual(("offset",), 5),
        spark.In(("partition",), (1, 2, 3)),
        spark.LessThan(("partition",), 3),
        spark.EqualTo(("topic",), "orders"),
    )

    assert bounds.offset == Interval(11, 20)
    assert [each for each in range(5) if bounds.has("orders", each)] == [1, 2]
    assert not bounds.has("refunds", 1)


def test_offsets_that_are_listed_are_the_only_ones_that_are_read() -> None:
    listed = narrowed_by(spark.In(("offset",), (9, 3, 4, 5, 100)))
    both = narrowed_by(
        spark.In(("offset",), (9, 3, 4, 5, 100)),
        spark.In(("offset",), (3, 4, 100)),
        spark.LessThan(("offset",), 100),
    )

    assert listed.runs() == [Interval(3, 5), Interval(9, 9), Interval(100, 100)]
    assert both.runs() == [Interval(3, 4)]
    assert Bounds().runs() == [Interval()]


@pytest.mark.parametrize(
    ("condition", "from_ms", "to_ms"),
    [
        (spark.EqualTo(("timestamp",), NOON), NOON_MS, NOON_MS + 1),
        (spark.GreaterThanOrEqual(("timestamp",), NOON), NOON_MS, None),
        (spark.GreaterThan(("timestamp",), NOON), NOON_MS + 1, None),
        (spark.GreaterThanOrEqual(("timestamp",), NOON.replace(microsecond=1)), NOON_MS + 1, None),
        (spark.LessThan(("timestamp",), NOON), None, NOON_MS),
        (spark.LessThan(("timestamp",), NOON.replace(microsecond=1)), None, NOON_MS + 1),
        (spark.LessThanOrEqual(("timestamp",), NOON), None, NOON_MS + 1),
    ],
)
def test_times_are_whole_milliseconds(
    condition: spark.Filter, from_ms: int | None, to_ms: int | None
) -> None:
    bounds = narrowed_by(condition)

    assert (bounds.from_ms, bounds.to_ms) == (from_ms, to_ms)


@pytest.mark.parametrize(
    "condition",
    [
        spark.EqualTo(("key",), b"k"),
        spark.EqualTo(("value", "partition"), 1),
        spark.Not(spark.EqualTo(("offset",), 1)),
        spark.IsNull(("offset",)),
        spark.In(("offset",), (1, None)),
        spark.In(("offset",), tuple(range(101))),
        spark.EqualNullSafe(("topic",), None),
        spark.GreaterThan(("timestamp",), datetime(2026, 1, 1)),  # noqa: DTZ001 - Of a column without time zone.
        spark.StringStartsWith(("topic",), "or"),
    ],
)
def test_other_conditions_are_left_to_spark(condition: spark.Filter) -> None:
    assert narrowed(Bounds(), condition) is None
