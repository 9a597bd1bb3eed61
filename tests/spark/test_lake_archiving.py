"""What is to do is cut into ranges, ranges become files, and what failed does not hold up the rest."""

from pathlib import Path
from typing import Any

import pytest

from penstock.errors import InvalidBatch, OffsetOutOfRange, UnavailableError
from penstock.model.info import Fetched
from penstock.model.ranges import OffsetRange
from penstock.spark.lake import archiving
from penstock.spark.lake.archiving import (
    ArchiveTask,
    ArchiveWriter,
    Backlog,
    FailedRange,
    WrittenRange,
    joined,
    planned,
    write_range,
)
from penstock.spark.lake.table import ArchivedRange
from penstock.spark.runtime.connections import Address
from penstock.testing import TestBroker


def backlog(partition: int, start: int, end: int) -> Backlog:
    return Backlog(OffsetRange("orders", partition, start, end), "/lake/orders", record_bytes=100)


def offsets(start: int, end: int, partition: int = 0) -> OffsetRange:
    return OffsetRange("orders", partition, start, end)


def task(start: int, end: int, partition: int = 0) -> ArchiveTask:
    return ArchiveTask(offsets(start, end, partition), "/lake/orders")


def test_what_is_to_do_is_cut_into_ranges_up_to_the_size_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "RANGE_BYTES", 1000)

    ranges, complete = planned([backlog(0, 5, 20), backlog(1, 0, 0), backlog(2, 0, 30)], batch_bytes=3000)

    assert ranges == [task(5, 15), task(15, 20), task(0, 10, 2), task(10, 20, 2)]
    assert not complete
    assert planned([backlog(0, 5, 20)], batch_bytes=3000) == ([task(5, 15), task(15, 20)], True)
    assert planned([], batch_bytes=3000) == ([], True)


def test_a_record_that_is_larger_than_a_range_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "RANGE_BYTES", 10)

    ranges, complete = planned([backlog(0, 0, 2)], batch_bytes=1)

    assert (ranges, complete) == ([task(0, 1)], False)


def test_a_partition_is_committed_up_to_the_range_that_failed() -> None:
    error = InvalidBatch(why="its checksum is wrong")

    batch = joined(
        [
            WrittenRange(offsets(20, 30), 10, []),
            FailedRange(offsets(10, 20), error),
            WrittenRange(offsets(0, 10), 9, []),
            WrittenRange(offsets(0, 5, 1), 5, []),
        ]
    )

    assert batch.ranges == [ArchivedRange(0, 0, 10, 9), ArchivedRange(1, 0, 5, 5)]
    assert batch.error is error


def test_a_range_that_retention_cuts_meanwhile_is_tried_again(penstock: TestBroker, tmp_path: Path) -> None:
    penstock.create_topic("orders", partitions=1, retention="1h")
    penstock.publish_batch("orders", [b"1", b"2"])
    penstock.advance("3h")
    assert penstock.offsets("orders", "earliest") == {0: 2}

    with pytest.raises(UnavailableError, match="was truncated meanwhile"):
        write_range(penstock, ArchiveTask(OffsetRange("orders", 0, 0, 2), str(tmp_path)))
    with pytest.raises(UnavailableError, match="now ends at 2"):
        write_range(penstock, ArchiveTask(OffsetRange("orders", 0, 2, 4), str(tmp_path)))


def test_a_batch_with_a_wrong_checksum_is_not_archived(penstock: TestBroker, tmp_path: Path) -> None:
    penstock.create_topic("orders", partitions=1)
    penstock.publish_batch("orders", [b"1", b"2"])
    whole = penstock.fetch("orders", 0, 0)

    class Rotten:
        """A broker whose disk returns something else."""

        def fetch(self, *_: object, **__: object) -> Fetched:
            batches = bytearray(whole.batches)
            batches[-1] ^= 0xFF
            return Fetched(start=0, end=2, next_offset=2, batches=bytes(batches))

    with pytest.raises(InvalidBatch, match="checksum"):
        write_range(Rotten(), ArchiveTask(OffsetRange("orders", 0, 0, 2), str(tmp_path)))  # type: ignore[arg-type]
    assert list(tmp_path.rglob("*.parquet")) == []


def test_what_no_retry_changes_is_an_outcome_and_the_rest_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raised: list[Exception] = [InvalidBatch(why="no"), UnavailableError(reason="away")]

    def connect(_address: Address) -> Any:
        raise raised.pop(0)

    monkeypatch.setattr(Address, "connect", connect)
    failed = ArchiveWriter(Address("127.0.0.1:1"))(task(0, 10))

    assert isinstance(failed, FailedRange)
    assert isinstance(failed.error, InvalidBatch)
    with pytest.raises(UnavailableError):
        ArchiveWriter(Address("127.0.0.1:1"))(task(0, 10))
    assert not OffsetOutOfRange.retryable  # So ``write_range`` has to say that it may pass.
