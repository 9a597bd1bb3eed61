"""``penstock lake info`` and ``check``: what they print, and what they answer."""

from pathlib import Path

import pytest
from tests.cli.conftest import Cli
from tests.spark.lake_rows import write_rows

from penstock.model.ranges import OffsetRange
from penstock.spark.lake.layout import ROWS
from penstock.spark.lake.table import ArchivedRange, LakeTable
from penstock.spark.records.arrow import decode_rows
from penstock.testing import TestBroker


@pytest.fixture
def table(penstock: TestBroker, tmp_path: Path) -> LakeTable:
    """The table of a topic, with ten of its twelve records."""
    penstock.create_topic("orders", partitions=2)
    for number in range(12):
        penstock.publish("orders", b"value-%d" % number, partition=0)
    table = LakeTable.open(str(tmp_path / "lake"), "orders")
    rows = decode_rows(penstock.fetch("orders", 0, 0).batches, OffsetRange("orders", 0, 0, 10), ROWS.names)
    files = write_rows(table.path, 0, rows)
    table.commit([ArchivedRange(0, 0, 10, 10)], files, penstock.clock.wall_ms())
    return table


def test_info_lists_the_tables(cli: Cli, table: LakeTable) -> None:
    done = cli("lake", "info", "--lake", table.lake)

    assert done.code == 0
    assert done.lines[0] == "topic records files bytes lag lost last batch"
    assert done.lines[1].startswith("orders 10 1 ")
    assert " kB 2 0 20" in done.lines[1]


def test_info_of_a_topic_shows_its_partitions(cli: Cli, table: LakeTable) -> None:
    done = cli("lake", "info", "orders", "--lake", table.lake)

    assert done.lines[0].startswith("table /")
    assert "has 10 records in 1 file" in done.lines
    assert done.lines[-2].startswith("0 0 10 10 1 ")
    assert done.lines[-1] == "1 0 0 0 0 0 B 0 0"


def test_info_for_programs(cli: Cli, table: LakeTable) -> None:
    [document] = cli("lake", "info", "-o", "json", "--lake", table.lake).documents

    assert document["topic"] == "orders"
    assert (document["records"], document["lag"], document["lost"]) == (10, 2, 0)
    assert document["last_batch"].endswith("Z")
    assert [each["next"] for each in document["partitions"]] == [10, 0]


def test_nothing_archived_is_said(cli: Cli, penstock: TestBroker, tmp_path: Path) -> None:
    penstock.create_topic("orders")

    assert cli("lake", "info", "--lake", str(tmp_path)).err.startswith("nothing is archived")
    assert "none" in cli("lake", "info", "orders", "--lake", str(tmp_path)).out
    assert cli("lake", "check", "orders", "--lake", str(tmp_path)).code == 0


def test_a_check_that_finds_nothing(cli: Cli, table: LakeTable) -> None:
    done = cli("lake", "check", "--lake", table.lake)

    assert done.code == 0
    assert done.lines == [
        "orders every offset exists once",
        "lake 10 records in 1 file",
        "log 2 offsets that are not archived yet",
    ]


def test_a_table_whose_topic_was_deleted_is_checked_by_itself(
    cli: Cli, penstock: TestBroker, table: LakeTable
) -> None:
    penstock.delete_topic("orders")

    done = cli("lake", "check", "--lake", table.lake)

    assert done.code == 0
    assert "log 0 offsets that are not archived yet" in done.lines
    assert cli("lake", "info", "--lake", table.lake).lines[1].startswith("orders 10 1 ")


def test_a_check_that_finds_something(cli: Cli, table: LakeTable) -> None:
    table.commit([ArchivedRange(0, 10, 12, 2)], [], 0)

    done = cli("lake", "check", "--lake", table.lake)

    assert done.code == 1
    assert done.lines[0] == "orders 1 problem"
    assert "problem partition 0: offsets 10 to 11: in the log, but missing from the lake" in " ".join(
        done.lines
    )


def test_what_is_on_record_as_lost_and_what_the_log_never_had_are_shown(cli: Cli, table: LakeTable) -> None:
    table.lose(OffsetRange("orders", 0, 10, 11))

    done = cli("lake", "check", "--lake", table.lake)

    assert done.code == 0
    assert "lost partition 0: offset 10: deleted before" in " ".join(done.lines)


def test_a_topic_that_is_not_there_and_a_broker_without_a_lake(cli: Cli, tmp_path: Path) -> None:
    assert "there is no topic 'nothing'" in cli("lake", "check", "nothing", "--lake", str(tmp_path)).err
    assert "lake.path" in cli("lake", "check").err
