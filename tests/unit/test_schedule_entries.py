"""The records of a schedule's log, there and back, and those of a later version."""

import pytest

from penstock.errors import DirectoryUnusable
from penstock.schedule import entries
from penstock.wire.records import BatchBuilder, Record, decode_batch


def only_record(builder: BatchBuilder) -> Record:
    [record] = decode_batch(bytes(builder.build(1_000, 1_000)))
    return record


def test_an_entry_comes_back_as_it_was() -> None:
    builder = BatchBuilder()
    entries.add_entry(
        builder, 1 << 44, b"k", b"v", [("a", b"1"), ("b", None)], 0x1300, "0 3 * * *", "Europe/Berlin"
    )
    record = only_record(builder)

    assert entries.kind_of(record, "log") == entries.ENTRY
    assert entries.entry_due_ms(record) == 1 << 44
    assert entries.read_entry(record) == entries.Due(
        0, 1 << 44, b"k", b"v", [("a", b"1"), ("b", None)], 0x1300, 1_000, "0 3 * * *", "Europe/Berlin"
    )


def test_a_plain_entry_has_no_recurrence() -> None:
    builder = BatchBuilder()
    entries.add_entry(builder, 5, None, None, [], 0, None, None)

    due = entries.read_entry(only_record(builder))

    assert (due.key, due.value, due.cron, due.timezone, due.size_bytes) == (None, None, None, None, 0)


@pytest.mark.parametrize("kind", sorted(entries.WIDTHS))
def test_a_decision_comes_back_as_it_was(kind: int) -> None:
    width = entries.WIDTHS[kind]
    numbers = [(1 << 62) - n for n in range(3 * width - 1)] + [-1]
    builder = BatchBuilder()
    entries.add_decision(builder, kind, numbers)
    record = only_record(builder)

    assert entries.kind_of(record, "log") == kind
    assert [n for group in entries.read_decision(record, kind) for n in group] == numbers
    assert {len(group) for group in entries.read_decision(record, kind)} == {width}


@pytest.mark.parametrize(
    "headers",
    [[], [("x-other", b"\1\1")], [("x-schedule", None)], [("x-schedule", b"\1")], [("x-schedule", b"\2\1")],
     [("x-schedule", b"\1\6")], [("x-schedule", b"\1\0")]],
)  # fmt: skip
def test_a_record_of_another_format_is_refused(headers: list[tuple[str, bytes | None]]) -> None:
    with pytest.raises(DirectoryUnusable):
        entries.kind_of(Record(7, 0, None, b"", headers, 0), "log")


@pytest.mark.parametrize(
    ("headers", "number"),
    [([("x-schedule-id", b"17")], 17), ([("a", b"1"), ("x-schedule-id", b"0")], 0), ([], -1),
     ([("x-schedule-id", None)], -1), ([("x-schedule-id", b"-3")], -1), ([("x-schedule-id", b"")], -1)],
)  # fmt: skip
def test_a_record_of_the_data_log_names_its_entry(
    headers: list[tuple[str, bytes | None]], number: int
) -> None:
    assert entries.schedule_number(Record(0, 0, None, b"", headers, 0)) == number
