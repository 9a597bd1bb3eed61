"""Transactions in a log: what is open, what readers see, what is hidden for good."""

import pytest
from tests.logs import compacted

from penstock.errors import OffsetOutOfRange
from penstock.log.files import MemoryFiles
from penstock.log.log import Log, LogConfig
from penstock.log.transactions import LogTransactions
from penstock.wire.records import TRANSACTIONAL, BatchBuilder, decode_batch, read_header


def opened(durability: str = "memory", segment_bytes: int = 1 << 20) -> Log:
    config = LogConfig(durability=durability, segment_bytes=segment_bytes)  # type: ignore[arg-type]
    return Log.open(MemoryFiles(), "log", config)


def write(log: Log, value: bytes, producer: int = -1, count: int = 1, key: bytes | None = None) -> int:
    """A batch: of a transaction if it has a producer."""
    builder = BatchBuilder()
    for _ in range(count):
        builder.add(key, value, [])
    attributes = TRANSACTIONAL if producer >= 0 else 0
    return log.append(builder.build(log.last_timestamp, log.last_timestamp, attributes, producer, 0, 0))


def end(log: Log, producer: int, committed: bool) -> int:
    return log.end_transaction(producer, 0, committed, 0)


def seen(log: Log) -> list[bytes | None]:
    return [record.value for record in log.records(log.start, log.high)]


def fetched(log: Log) -> list[bytes | None]:
    data, following = log.fetch(log.start, 1 << 20)
    assert following == log.high
    values: list[bytes | None] = []
    at = 0
    while at < len(data):
        values += [record.value for record in decode_batch(data, at)]
        at += read_header(data, at).size
    return values


def test_readers_stop_where_a_transaction_is_open() -> None:
    log = opened()
    write(log, b"before")
    write(log, b"inside", producer=7)
    write(log, b"behind")

    assert (log.high, log.safe, log.end) == (1, 3, 3)
    assert seen(log) == fetched(log) == [b"before"]


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_lets_readers_on_and_an_abort_is_absent(committed: bool) -> None:
    log = opened()
    write(log, b"before")
    write(log, b"inside", producer=7, count=2)
    write(log, b"behind")

    assert end(log, 7, committed) == 4

    assert log.high == log.end == 5
    assert seen(log) == fetched(log) == [b"before", *[b"inside"] * 2 * committed, b"behind"]


def test_the_first_of_several_transactions_holds_the_others_up() -> None:
    log = opened()
    write(log, b"a", producer=1)
    write(log, b"b", producer=2)
    end(log, 2, True)
    write(log, b"c", producer=3)

    assert log.high == 0
    end(log, 1, False)
    assert log.high == 3
    assert seen(log) == [b"b"]
    end(log, 3, True)
    assert seen(log) == fetched(log) == [b"b", b"c"]


def test_what_was_read_ahead_is_hidden_when_it_is_aborted() -> None:
    log = opened()
    write(log, b"before")
    write(log, b"inside", producer=7)
    assert seen(log) == [b"before"]
    assert len(log.records(0, 2)) == 2, "a window now holds what is not decided"

    end(log, 7, False)

    assert seen(log) == [b"before"]


def test_an_abort_hides_nothing_of_the_same_producer_before_and_after() -> None:
    log = opened()
    for value, committed in [(b"a", True), (b"b", False), (b"c", True), (b"d", False)]:
        write(log, value, producer=7)
        end(log, 7, committed)

    assert seen(log) == fetched(log) == [b"a", b"c"]
    assert log.transactions.aborted(0, log.end) == [(7, 2), (7, 6)]
    assert log.transactions.aborted(3, 5) == [(7, 2)], "the marker at 3 is the end of it"
    assert log.transactions.aborted(4, 6) == []


def test_an_abort_that_reaches_far_is_found_from_everywhere() -> None:
    log = opened()
    write(log, b"long", producer=1)
    for _ in range(50):
        write(log, b"short", producer=2)
        end(log, 2, False)
    write(log, b"long", producer=1)
    end(log, 1, False)
    write(log, b"seen")

    assert seen(log) == fetched(log) == [b"seen"]
    assert (1, 0) in log.transactions.aborted(40, 41)


def test_whoever_asks_for_all_gets_it_as_it_is() -> None:
    log = opened()
    write(log, b"aborted", producer=1)
    end(log, 1, False)
    write(log, b"open", producer=2)

    data, following = log.fetch_all(0, 1 << 20, log.safe)

    assert following == 3
    assert decode_batch(data)[0].value == b"aborted"
    with pytest.raises(OffsetOutOfRange):
        log.fetch_all(3, 1 << 20, log.high)


def test_batches_are_passed_on_as_they_are_only_if_all_of_them_may_be_seen() -> None:
    log = opened()
    write(log, b"committed", producer=1, count=8)
    end(log, 1, True)
    first = log.end
    write(log, b"aborted", producer=1, count=8)
    end(log, 1, False)

    assert log.plain_batches(0, 8, 0, 1 << 20)
    assert not log.plain_batches(first, first + 8, 0, 1 << 20)
    assert not log.plain_batches(0, 9, 0, 1 << 20), "a marker is for nobody"


def test_what_is_written_and_not_synced_is_not_seen_when_its_transaction_ends() -> None:
    log = opened("fsync")
    write(log, b"inside", producer=7)
    log.sync()
    write(log, b"more", producer=7)
    end(log, 7, True)

    assert (log.high, log.safe) == (1, 1)
    log.sync()
    assert log.high == log.end == 3


def test_deleted_segments_take_their_aborts_along() -> None:
    log = opened(segment_bytes=200)
    for _ in range(10):
        write(log, b"x" * 60, producer=7)
        end(log, 7, False)
    write(log, b"open", producer=8)
    log.roll()

    log.delete_before(10)

    assert log.start == 10
    assert [first for _, first in log.transactions.aborted(0, log.end)] == [10, 12, 14, 16, 18]
    assert log.high == 20


def test_a_start_that_passes_an_open_transaction_takes_readers_along() -> None:
    log = opened(segment_bytes=100)
    write(log, b"x" * 90, producer=7)
    write(log, b"y" * 90)
    log.roll()

    log.delete_before(log.end)

    assert log.start == log.high == log.end


@pytest.mark.parametrize("committed", [True, False])
def test_a_log_may_begin_in_the_middle_of_a_transaction(committed: bool) -> None:
    log = opened()
    write(log, b"inside", producer=7, count=4)
    write(log, b"behind")

    log.begin_at(2)

    assert (log.start, log.high) == (2, 2)
    end(log, 7, committed)
    assert seen(log) == [*[b"inside"] * 2 * committed, b"behind"]


def test_an_append_that_is_taken_back_leaves_no_transaction() -> None:
    transactions = LogTransactions()
    transactions.begin(1, 0)
    transactions.begin(2, 5)

    transactions.drop_from(5)

    assert transactions.open == {1: 0}


def test_a_snapshot_is_all_of_it() -> None:
    transactions = LogTransactions()
    for producer, first in [(1, 0), (2, 1), (3, 2)]:
        transactions.begin(producer, first)
    transactions.end(2, 3, committed=False)
    transactions.end(1, 4, committed=True)

    copy = LogTransactions()
    copy.restore(transactions.snapshot())

    assert copy.snapshot() == transactions.snapshot()
    assert (copy.open, copy.last, copy.aborted(0, 9)) == ({3: 2}, 4, [(2, 1)])


def test_compaction_is_not_led_astray_by_what_was_or_may_be_aborted() -> None:
    log = opened(segment_bytes=1 << 20)
    write(log, b"kept", key=b"k")
    write(log, b"aborted", producer=1, key=b"k")
    end(log, 1, False)
    write(log, b"open", producer=2, key=b"k")

    compacted(log, 10**9, 1000)
    end(log, 2, False)
    log.cleaned = type(log.cleaned)()
    compacted(log, 10**9, 1000)

    assert seen(log) == [b"kept"]


def test_a_committed_value_supersedes_an_older_one() -> None:
    log = opened()
    write(log, b"old", key=b"k")
    write(log, b"new", producer=1, key=b"k")
    end(log, 1, True)

    compacted(log, 10**9, 1000)

    assert seen(log) == [b"new"]
    assert log.end == 3, "the marker keeps its place"


def all_values(log: Log, start: int, end: int) -> list[bytes | None]:
    return [record.value for record in log.all_records(start, end)]


@pytest.mark.parametrize("segment_bytes", [1 << 20, 200])
def test_whoever_reads_all_records_gets_what_is_open_or_was_aborted_but_no_markers(
    segment_bytes: int,
) -> None:
    log = opened(segment_bytes=segment_bytes)
    write(log, b"before")
    write(log, b"aborted", producer=7, count=3)
    write(log, b"committed", producer=8)
    end(log, 7, committed=False)
    end(log, 8, committed=True)
    write(log, b"open", producer=9)

    wanted = [b"before", *[b"aborted"] * 3, b"committed", b"open"]
    assert all_values(log, log.start, log.safe) == wanted
    assert [value for offset in range(log.safe) for value in all_values(log, offset, offset + 1)] == wanted
    assert seen(log) == [b"before", b"committed"]
    with pytest.raises(OffsetOutOfRange):
        log.all_records(0, log.end + 1)
