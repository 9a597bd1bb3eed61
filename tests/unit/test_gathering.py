"""Rows become batches for their partitions, lanes and kinds, in order."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import EmptyMessage, InvalidValue, MessageTooLarge, PartitionNotFound
from penstock.wire.gathering import BATCH_BYTES, Gathering, Rows, slices
from penstock.wire.murmur import partition_of
from penstock.wire.records import EXPIRES, SCHEDULED, Record, check_batch, decode_batch, lane_of
from penstock.wire.staged import decode_staged, encode_staged, relative


def rows(values: Sequence[bytes | None], **columns: Sequence[object]) -> Rows:
    made = Rows(len(values))
    made.values = list(values)
    for name, column in columns.items():
        setattr(made, name, list(column))
    return made


def gathering(partitions: int = 3, **options: int) -> Gathering:
    return Gathering(
        "orders", partitions, options.get("turn", 0), options.get("codec", 0), options.get("limit", 1 << 20)
    )


def taken(gathered: Gathering) -> dict[int, list[Record]]:
    """By partition."""
    found: dict[int, list[Record]] = {}
    for partition, batch in gathered.take():
        assert check_batch(batch).size == len(batch)
        found.setdefault(partition, []).extend(decode_batch(batch))
    return found


def test_values_alone_go_to_one_partition_until_they_are_taken() -> None:
    gathered = gathering(turn=4)
    gathered.add(rows([b"a", b"", b"c"]))
    gathered.add(rows([b"d"]))
    first = taken(gathered)
    gathered.add(rows([b"e"]))

    assert {partition: [record.value for record in batch] for partition, batch in first.items()} == {
        1: [b"a", b"", b"c", b"d"]
    }
    assert list(taken(gathered)) == [2]
    assert gathered.take() == []
    assert gathered.size == 0


def test_a_key_goes_to_its_partition_unless_the_row_says_another() -> None:
    gathered = gathering()
    keys: list[object] = [b"%d" % number for number in range(20)]
    wanted: list[object] = [None] * 19 + [(partition_of(b"19", 3) + 1) % 3]
    gathered.add(rows([b"v"] * 20, keys=keys, partitions=wanted))

    placed = {record.key: partition for partition, batch in taken(gathered).items() for record in batch}

    expected = {b"%d" % number: partition_of(b"%d" % number, 3) for number in range(19)}
    assert placed == {**expected, b"19": wanted[19]}


def test_lanes_delays_and_times_to_live_have_batches_of_their_own() -> None:
    gathered = gathering(1)
    gathered.add(
        rows(
            [b"plain", b"high", b"waits", b"lives", b"both"],
            lanes=[None, 2, 0, None, None],
            delays_ms=[None, None, 1000, None, 7],
            ttls_ms=[None, None, None, 500, 8],
            headers=[[("h", b"1")], [], [], [("h", b"2")], []],
        )
    )

    batches = gathered.take()

    marks = SCHEDULED | EXPIRES
    found = [(record.attributes & marks, lane_of(record.attributes), record.value, relative(record))
             for _, batch in batches for record in decode_batch(batch)]  # fmt: skip
    assert sorted(found, key=lambda each: each[2] or b"") == [
        (marks, 0, b"both", ([], 7, 8)),
        (0, 2, b"high", ([], -1, -1)),
        (EXPIRES, 0, b"lives", ([("h", b"2")], -1, 500)),
        (0, 0, b"plain", ([("h", b"1")], -1, -1)),
        (SCHEDULED, 0, b"waits", ([], 1000, -1)),
    ]


def test_times_do_not_go_back_within_a_batch() -> None:
    gathered = gathering(1)
    gathered.add(rows([b"a", b"b", b"c"], times_ms=[1000, 500, 2000]))

    [(_, batch)] = gathered.take()

    assert [record.timestamp for record in decode_batch(batch)] == [1000, 1000, 2000]
    assert (check_batch(batch).base_timestamp, check_batch(batch).max_timestamp) == (1000, 2000)


@pytest.mark.parametrize("keyed", [False, True])
def test_batches_stay_below_their_size(keyed: bool) -> None:
    gathered = gathering(1)
    values: list[bytes | None] = [bytes(90_000 + number) for number in range(40)]
    gathered.add(rows(values, **({"keys": [b"k"] * 40} if keyed else {})))
    assert gathered.size > sum(len(value or b"") for value in values)

    batches = gathered.take()

    assert [record.value for _, batch in batches for record in decode_batch(batch)] == values
    assert all(len(batch) <= BATCH_BYTES for _, batch in batches)
    assert len(batches) == 4


@pytest.mark.parametrize("codec", range(5))
def test_batches_are_packed_as_the_topic_is(codec: int) -> None:
    gathered = gathering(1, codec=codec)
    gathered.add(rows([b"x" * 1000] * 10))

    [(_, batch)] = gathered.take()

    assert check_batch(batch).codec == codec
    assert len(decode_batch(batch)) == 10


@pytest.mark.parametrize(
    ("made", "error"),
    [
        (rows([None]), EmptyMessage),
        (rows([b"x" * 101]), MessageTooLarge),
        (rows([b"x" * 100], keys=[b"k"]), MessageTooLarge),
        (rows([b"x"], partitions=[3]), PartitionNotFound),
        (rows([b"x"], partitions=[-1]), PartitionNotFound),
        (rows([b"x"], delays_ms=[-1]), InvalidValue),
    ],
)
def test_a_row_that_cannot_be_published_is_refused(made: Rows, error: type[Exception]) -> None:
    with pytest.raises(error):
        gathering(limit=100).add(made)


def test_a_tombstone_needs_a_key() -> None:
    gathered = gathering(1)
    gathered.add(rows([None], keys=[b"k"]))
    [record] = taken(gathered)[0]
    assert (record.key, record.value) == (b"k", None)


def test_what_is_staged_is_of_its_token() -> None:
    parts = [(3, b"batch three"), (12, b"batch twelve")]
    records = decode_batch(encode_staged("to:ken", parts))
    assert [decode_staged(record, "to:ken") for record in records] == parts


@given(st.lists(st.binary(max_size=20)))
def test_byte_strings_are_cut_where_they_end(strings: list[bytes]) -> None:
    bounds = [3]
    for string in strings:
        bounds.append(bounds[-1] + len(string))
    assert slices(b"..." + b"".join(strings) + b"...", bounds) == strings


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.binary(max_size=5)),
            st.binary(max_size=300),
            st.one_of(st.none(), st.integers(0, 2)),
            st.one_of(st.none(), st.integers(-2, 2)),
            st.one_of(st.none(), st.integers(0, 9)),
        ),
        max_size=50,
    ),
    st.integers(300, 2000),
)
def test_no_row_is_lost_or_doubled_and_a_slot_keeps_its_order(
    given_rows: list[tuple[bytes | None, bytes, int | None, int | None, int | None]], limit: int
) -> None:
    gathered = gathering(limit=limit)
    values = [b"%03d" % at + row[1] for at, row in enumerate(given_rows)]
    gathered.add(
        rows(
            values,
            keys=[row[0] for row in given_rows],
            partitions=[row[2] for row in given_rows],
            lanes=[row[3] for row in given_rows],
            delays_ms=[row[4] for row in given_rows],
        )
    )

    batches = gathered.take()

    slots: dict[tuple[int, int], list[bytes]] = {}
    for partition, batch in batches:
        header = check_batch(batch)
        assert header.size <= limit + 1024 * header.count, "the broker would refuse it"
        for record in decode_batch(batch):
            slots.setdefault((partition, record.attributes), []).append(record.value or b"")
    assert sorted(value for slot in slots.values() for value in slot) == values
    assert all(slot == sorted(slot) for slot in slots.values())
