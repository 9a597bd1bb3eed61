"""``penstock consume`` and ``penstock peek``."""

import shlex
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from tests.cli.conftest import Cli
from tests.spark.archived import archive

from penstock.spark.replay import snapshots
from penstock.testing import TestBroker


@pytest.fixture
def orders(penstock: TestBroker) -> TestBroker:
    """A topic of three partitions with nine messages, one every second, here and there."""
    penstock.create_topic("orders", partitions=3)
    for number in range(9):
        penstock.publish("orders", b"order %d" % number, partition=number * 2 % 3)
        penstock.advance("1s")
    return penstock


def all_of(*numbers: int) -> str:
    return "".join(f"order {number}\n" for number in numbers)


# Reading.


def test_reading_prints_all_partitions_by_time_and_takes_nothing(cli: Cli, orders: TestBroker) -> None:
    first = cli("consume", "orders")
    second = cli("consume", "orders", "--from-beginning")

    assert (first.code, first.err) == (0, "")
    assert first.out == second.out == all_of(*range(9))
    assert orders.groups("orders") == []


def test_reading_ends_when_nothing_new_has_come_for_a_while(cli: Cli, orders: TestBroker) -> None:
    start_ms = orders.clock.steady_ms()

    cli("consume", "orders", "--wait", "3s")

    assert 3000 <= orders.clock.steady_ms() - start_ms < 3200


def test_the_wait_begins_anew_with_every_message(cli: Cli, orders: TestBroker) -> None:
    orders.publish("orders", b"late", partition=0, delay="500ms")
    orders.publish("orders", b"later", partition=0, delay="1300ms")
    orders.publish("orders", b"too late", partition=0, delay="3s")

    done = cli("consume", "orders", "--from-offset", "3", "--partition", "0", "--wait", "1s")

    assert done.out == "late\nlater\n"


def test_following_goes_on_until_the_limit(cli: Cli, orders: TestBroker) -> None:
    orders.publish("orders", b"much later", delay="1m")

    done = cli("consume", "orders", "--follow", "--limit", "10")

    assert done.out == all_of(*range(9)) + "much later\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--partition", "2"], (1, 4, 7)),
        (["--partition", "2", "--from-offset", "1"], (4, 7)),
        (["--limit", "2"], (0, 1)),
        (["--from-time", "2026-01-01T00:00:07Z"], (7, 8)),
        (["--from-time", "2026-01-01T00:00:07"], (7, 8)),
        (["--from-time", "2s"], (7, 8)),
        (["--from-time", "2026-01-01T00:00:02Z", "--to-time", "2026-01-01T00:00:05Z"], (2, 3, 4)),
        (["--to-time", "2026-01-01T00:00:03Z", "--follow"], (0, 1, 2)),
    ],
)
def test_reading_a_part(
    arguments: list[str], expected: tuple[int, ...], cli: Cli, orders: TestBroker
) -> None:
    assert cli("consume", "orders", *arguments, "--wait", "0s").out == all_of(*expected)


def test_a_time_without_a_zone_is_utc_wherever_the_terminal_is(
    cli: Cli, orders: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        done = cli("consume", "orders", "--from-time", "2026-01-01T00:00:07", "--wait", "0s", "-o", "table")
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()

    assert [line.split()[2] for line in done.lines[1:]] == ["00:00:07", "00:00:08"]


def test_more_messages_than_one_request_brings_are_all_read(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=2)
    penstock.publish_batch("orders", [b"%d" % number for number in range(2500)])

    done = cli("consume", "orders", "--wait", "0s")

    assert sorted(map(int, done.out.split())) == list(range(2500))


def test_a_reader_goes_on_behind_what_retention_deleted(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders", retention="1h", segment_bytes=4096)
    for hour in range(4):
        for _ in range(50):
            penstock.publish("orders", b"%d" % hour * 100)
        penstock.advance("50m")
    penstock.advance("2m")

    done = cli("consume", "orders", "--partition", "0", "--from-offset", "0", "--wait", "0s")

    start = penstock.describe_topic("orders").partitions[0].start
    assert start > 0
    assert len(done.out.splitlines()) == 200 - start
    assert f"offsets 0 to {start - 1} were deleted by retention" in done.err


# Taking.


def test_a_group_takes_and_acks_and_goes_on_where_it_was(cli: Cli, orders: TestBroker) -> None:
    first = cli("consume", "orders", "--group", "shipping", "--limit", "4")
    second = cli("consume", "orders", "--group", "shipping")
    third = cli("consume", "orders", "--group", "shipping")

    printed = (first.out + second.out).splitlines(keepends=True)
    assert len(first.out.splitlines()) == 4
    assert sorted(printed) == all_of(*range(9)).splitlines(keepends=True)
    assert third.out == ""
    assert orders.describe_group("orders", "shipping").acked == 9


def test_a_group_of_a_topic_that_is_not_there_creates_it_and_says_so(cli: Cli, orders: TestBroker) -> None:
    done = cli("consume", "ordres", "--group", "g")

    assert (done.code, done.out, done.err) == (0, "", "created topic ordres, 1 partition\n")
    assert orders.groups("ordres") == ["g"]


def test_reading_a_topic_that_is_not_there_creates_nothing(cli: Cli, orders: TestBroker) -> None:
    done = cli("consume", "ordres")

    assert (done.code, orders.topics()) == (1, ["orders"])
    assert "there is no topic 'ordres'" in done.err


def test_without_acks_everything_goes_back(cli: Cli, orders: TestBroker) -> None:
    looked = cli("consume", "orders", "--group", "shipping", "--no-ack")
    taken = cli("consume", "orders", "--group", "shipping", "-o", "json")

    assert len(looked.out.splitlines()) == len(taken.documents) == 9
    assert {document["attempt"] for document in taken.documents} == {1}  # Giving back is not a failure.


def test_a_group_is_moved_before_it_takes(cli: Cli, orders: TestBroker) -> None:
    new = cli("consume", "orders", "--group", "audit", "--from-time", "2026-01-01T00:00:07Z")
    again = cli("consume", "orders", "--group", "audit", "--from-beginning")

    assert sorted(new.out.split("\n")) == sorted(all_of(7, 8).split("\n"))
    assert len(again.out.splitlines()) == 9


def test_a_group_takes_up_to_a_time_and_leaves_the_rest(cli: Cli, orders: TestBroker) -> None:
    done = cli("consume", "orders", "--group", "audit", "--to-time", "2026-01-01T00:00:05Z")
    rest = cli("consume", "orders", "--group", "audit")

    assert sorted(done.out.splitlines()) == all_of(0, 1, 2, 3, 4).splitlines()
    assert sorted(rest.out.splitlines()) == all_of(5, 6, 7, 8).splitlines()


def test_a_stream_group_commits(cli: Cli, orders: TestBroker) -> None:
    orders.create_group("orders", "stream", kind="stream")

    first = cli("consume", "orders", "--group", "stream")
    second = cli("consume", "orders", "--group", "stream")

    assert len(first.out.splitlines()) == 9
    assert second.out == ""


def test_what_was_not_written_is_not_acked(
    cli: Cli, orders: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader of the pipe has gone: its messages stay with the group."""

    def gone(data: bytes) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("penstock.cli.screen.write", gone)

    done = cli("consume", "orders", "--group", "shipping")

    info = orders.describe_group("orders", "shipping")
    assert done.code == 141
    assert (info.acked, info.in_flight, info.lag) == (0, 0, 9)


# Printing.


@pytest.mark.parametrize("command", ["consume", "peek"])
def test_documents_have_everything(command: str, cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"\x1b[2J\x9b\n", key=b"\xff", headers={"a": "b\u202e"}, priority="low")
    penstock.publish("orders", None, key="gone")

    done = cli(command, "orders", "-o", "json")

    assert done.documents == [
        {
            "id": "orders:0:0", "topic": "orders", "partition": 0, "offset": 0,
            "timestamp": "2026-01-01T00:00:00.000Z", "key_base64": "/w==", "value_base64": "G1sySpsK",
            "headers": {"a": "b\u202e"}, "priority": "low",
        },
        {
            "id": "orders:0:1", "topic": "orders", "partition": 0, "offset": 1,
            "timestamp": "2026-01-01T00:00:00.000Z", "key": "gone", "value": None, "headers": {},
            "priority": "normal",
        },
    ]  # fmt: skip
    assert "\u202e" not in done.out


def test_a_pipe_gets_the_bytes_as_they_are(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"\x1b[31mred \xff")

    value = cli("consume", "orders")
    raw = cli("consume", "orders", "--format", "raw")

    assert value.out == "\x1b[31mred \udcff\n"
    assert raw.out == "\x1b[31mred \udcff"


def test_a_terminal_obeys_nothing_that_is_in_a_message(
    cli: Cli, penstock: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", "\x1b]0;title\x07 \x9b2J\r\nsecond\u202e".encode() + b"\xff")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")

    value = cli("consume", "orders")
    table = cli("peek", "orders", "-o", "table")

    escaped = "\\x1b]0;title\\x07 \\x9b2J\\r\\nsecond\\u202e\\xff"
    assert value.out == escaped + "\n"
    assert escaped in table.out


def test_a_table_has_the_id_the_time_the_key_and_the_value(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"two books", key="anna")
    penstock.publish("orders", None, key="a-key-with-more-than-24-characters")

    done = cli("consume", "orders", "-o", "table")

    assert done.lines == [
        "id time (UTC) key value",
        "orders:0:0 2026-01-01 00:00:00 anna two books",
        "orders:0:1 2026-01-01 00:00:00 a-key-with-more-than-24… (tombstone)",
    ]


def test_a_value_that_is_too_long_for_its_table_ends_in_an_ellipsis(
    cli: Cli, penstock: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"word " * 30, key="k" * 20)

    fits = cli("peek", "orders")
    monkeypatch.setenv("COLUMNS", "20")
    narrow = cli("peek", "orders")
    monkeypatch.delenv("COLUMNS")
    whole = cli("peek", "orders")

    assert len(fits.out.splitlines()[1]) == 80
    assert fits.out.endswith("word word…\n")
    assert "orders:0:0  2026-01-01 00:00:00  kkkkkkkkkkkkkkkkkkkk  word word word word wor…\n" in narrow.out
    assert whole.out.endswith("word " * 29 + "word\n")


# Peeking.


def test_peek_looks_at_the_last_and_takes_nothing(cli: Cli, orders: TestBroker) -> None:
    done = cli("peek", "orders", "--count", "2", "-o", "value")
    part = cli("peek", "orders", "--partition", "0", "-n", "1", "-o", "value")

    assert done.out == all_of(7, 8)
    assert part.out == all_of(6)
    assert orders.groups("orders") == []


def test_peek_at_nothing_says_so(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders")

    done = cli("peek", "orders")

    assert (done.code, done.out, done.err) == (0, "", "orders has no messages\n")


# Wrong arguments.


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--from-beginning --from-time 1h", "use one of --from-beginning, --from-offset, --from-time and "),
        ("--group g --partition 1", "--partition works without --group: a group shares its partitions "),
        ("--group 'a b'", "invalid value for '--group': group name 'a b' is not allowed: "),
        ("--from-time yesterday", "invalid value for '--from-time': 'yesterday': write it like "),
        ("--limit 0", "invalid value for '--limit': 0 is not in the range x>=1"),
        ("--wait long", "invalid value for '--wait': 'long': write it like "),
        ("--format xml", "invalid value for '--format': 'xml' is not one of "),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_one_sentence(line: str, sentence: str, cli: Cli, servers: list[str]) -> None:
    done = cli("consume", "orders", *shlex.split(line))

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"penstock consume: {sentence}")
    assert done.err.count("\n") == 1
    assert servers == []


def test_an_offset_without_a_partition_is_one_sentence(cli: Cli, orders: TestBroker) -> None:
    done = cli("consume", "orders", "--from-offset", "3")

    assert done.code == 2
    assert done.err.startswith("penstock consume: --from-offset needs --partition: orders has 3 partitions")


# What only the lake has.


@pytest.fixture
def archived(penstock: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestBroker:
    """Nine messages, an hour apart and archived, of which the log has the last four."""
    stats = penstock.stats
    told = {"lake": str(tmp_path / "lake")}
    monkeypatch.setattr(penstock, "stats", lambda: msgspec.structs.replace(stats(), **told))
    penstock.create_topic("orders", retention="4h", segment_bytes=4096)
    for number in range(9):
        penstock.publish("orders", (b"order %d" % number).ljust(4000))
        penstock.advance("1h")
        archive(penstock, "orders", told["lake"])
    assert penstock.describe_topic("orders").partitions[0].start == 5
    return penstock


def numbers(printed: str) -> list[int]:
    return [int(line.split()[1]) for line in printed.splitlines()]


def test_a_group_gets_what_was_deleted_and_then_the_live_log(cli: Cli, archived: TestBroker) -> None:
    since = datetime.fromtimestamp(archived.clock.wall_ms() / 1000, UTC) - timedelta(hours=7)

    done = cli("consume", "orders", "--group", "audit", "--from-time", since.isoformat(), "--include-deleted")

    assert numbers(done.out) == list(range(2, 9))
    assert done.err == "3 messages restored from the lake\n"
    assert archived.describe_group("orders", "audit").lag == 0
    archived.publish("orders", b"order 9")
    assert numbers(cli("consume", "orders", "--group", "audit").out) == [9]


def test_without_a_start_it_is_everything_there_is(cli: Cli, archived: TestBroker) -> None:
    done = cli("consume", "orders", "--group", "audit", "--include-deleted", "--no-ack", "--limit", "3")

    assert numbers(done.out) == [0, 1, 2]
    assert archived.describe_group("orders", "audit").lag == 9


def test_what_is_not_even_in_the_lake_is_told(
    cli: Cli, penstock: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stats = penstock.stats()
    monkeypatch.setattr(penstock, "stats", lambda: msgspec.structs.replace(stats, lake=str(tmp_path)))
    penstock.create_topic("orders", retention="1h")
    penstock.publish_batch("orders", [b"order 0", b"order 1"])
    penstock.advance("2h")
    penstock.publish("orders", b"order 2")

    done = cli("consume", "orders", "--group", "audit", "--include-deleted")

    assert numbers(done.out) == [2]
    assert done.err == "orders:0: 2 messages before offset 2 are in neither the log nor the lake\n"


def test_a_snapshot_may_be_a_date_at_which_none_was_taken(cli: Cli, archived: TestBroker) -> None:
    """As in GoQueue's documentation: ``--from-snapshot "2025-01-01" --include-deleted``."""
    date = datetime.fromtimestamp(archived.clock.wall_ms() / 1000, UTC) - timedelta(days=30)

    done = cli(
        "consume", "orders", "--group", "audit", "--from-snapshot", f"{date:%Y-%m-%d}", "--include-deleted"
    )

    assert numbers(done.out) == list(range(9))


def test_a_group_begins_at_a_snapshot(cli: Cli, archived: TestBroker) -> None:
    snapshots.take(archived, "noon", archived.clock.wall_ms())
    for number in range(9, 18):
        archived.publish("orders", (b"order %d" % number).ljust(4000))
        archived.advance("1h")
        archive(archived, "orders", archived.stats().lake)

    done = cli("consume", "orders", "--group", "audit", "--from-snapshot", "noon")
    unknown = cli("consume", "orders", "--group", "audit", "--from-snapshot", "midnight")

    assert numbers(done.out) == list(range(9, 18))
    assert (unknown.code, "the snapshots are noon" in unknown.err) == (1, True)


@pytest.mark.parametrize(
    "options",
    ["--include-deleted", "--from-snapshot x", "--group g --include-deleted --from-offset 3",
     "--group g --from-snapshot x --from-beginning"],
)  # fmt: skip
def test_what_does_not_go_with_the_lake_is_refused(cli: Cli, orders: TestBroker, options: str) -> None:
    done = cli("consume", "orders", *options.split())

    assert done.code == 2
    assert done.err.startswith("penstock consume: ")
