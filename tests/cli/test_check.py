"""`penstock check` and `penstock repair` on directories of real files."""

import re
from pathlib import Path

import pytest
from tests.cli.conftest import Cli

import penstock
from penstock.errors import TopicDamaged


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with a topic of nine messages, and a group that has settled three."""
    directory = tmp_path / "data"
    with penstock.open(str(directory)) as broker:
        broker.create_topic("orders")
        for number in range(9):
            broker.publish("orders", b"order %d" % number)
        with broker.consumer("orders", group="work") as consumer:
            consumer.ack(consumer.receive(3))
    return directory


def segment_of(directory: Path) -> Path:
    return directory / "topics" / "orders" / "0" / f"{0:020d}.log"


def spoil(path: Path, text: bytes) -> int:
    """Change a byte in the middle of a text; where that is."""
    content = bytearray(path.read_bytes())
    place = content.index(text) + len(text) // 2
    content[place] ^= 1
    path.write_bytes(content)
    return place


def everything(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_directory_that_is_as_it_was_written(cli: Cli, data: Path) -> None:
    before = everything(data)

    done = cli("check", str(data))

    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("nothing is damaged\n")
    assert everything(data) == before


def test_a_check_says_what_is_damaged_and_where_and_changes_nothing(cli: Cli, data: Path) -> None:
    spoil(segment_of(data), b"order 4")
    spoil(data / "topics" / "orders" / "topic.json", b'"partitions":1')
    before = everything(data)

    done = cli("check", str(data))

    assert done.code == 1
    *lines, verdict = done.out.splitlines()
    assert lines[:2] == ["topics/orders/topic.json", "  its checksum does not match"]
    assert lines[2] == f"topics/orders/0/{0:020d}.log"
    assert re.fullmatch(r"  byte \d+, offset 4: the checksum does not match", lines[3])
    assert verdict.endswith("2 damaged places, 1 offset cannot be read")
    assert everything(data) == before
    [found] = [each for each in cli("check", str(data), "-o", "json").documents if each["end_position"]]
    assert (found["first_offset"], found["end_offset"], found["derived"]) == (4, 5, False)


def test_a_check_finds_batches_that_nobody_can_decode(cli: Cli, tmp_path: Path) -> None:
    from penstock.log.files import SystemFiles
    from penstock.log.log import Log, LogConfig
    from penstock.wire.records import encode_values, seal_batch

    directory = tmp_path / "data"
    with penstock.open(str(directory)) as broker:
        broker.create_topic("orders")
        broker.publish("orders", b"before")
    log = Log.open(SystemFiles(), str(segment_of(directory).parent), LogConfig())
    batch = encode_values([b"no gzip at all"], log.last_timestamp, 1)
    batch[-10:] = b"0123456789"
    seal_batch(batch)
    log.append(batch)
    log.close()

    done = cli("check", str(directory))

    assert done.code == 1
    assert "offset 1: its gzip data is damaged" in done.out


def test_neither_runs_while_a_broker_has_the_directory(cli: Cli, data: Path) -> None:
    with penstock.open(str(data)):
        for command in ("check", "repair"):
            done = cli(command, str(data))
            assert done.code == 1
            assert "DIRECTORY_IN_USE" in done.err


@pytest.mark.parametrize("command", ["check", "repair"])
def test_what_is_no_data_directory_is_refused(cli: Cli, tmp_path: Path, command: str) -> None:
    done = cli(command, str(tmp_path))

    assert done.code == 1
    assert "it is no data directory of Penstock [DIRECTORY_UNUSABLE]" in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_repair_keeps_the_damaged_bytes_and_everything_else_works(cli: Cli, data: Path) -> None:
    spoiled = segment_of(data)
    spoil(spoiled, b"order 4")

    done = cli("repair", str(data))

    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1] == "1 repair, 1 offset lost"
    [kept] = spoiled.parent.glob("*.damaged-*")
    assert b"orddr 4" in kept.read_bytes()
    assert cli("check", str(data)).code == 0
    with penstock.open(str(data)) as broker:
        assert broker.stats().problems == []
        values = [message.value for message in broker.read("orders")]
        assert values == [b"order %d" % number for number in range(9) if number != 4]
        with broker.consumer("orders", group="work") as consumer:
            assert [message.offset for message in consumer.receive(100)] == [3, 5, 6, 7, 8]
    assert cli("repair", str(data)).out == "nothing to repair\n"


def test_a_batch_whose_offset_is_wrong_gets_it_back(cli: Cli, data: Path) -> None:
    """No checksum covers it, and the chain says what it was: nothing is lost."""
    content = bytearray(segment_of(data).read_bytes())
    size = 12 + int.from_bytes(content[8:12], "big")
    content[size + 7] = 77
    segment_of(data).write_bytes(content)
    assert cli("check", str(data)).code == 1

    done = cli("repair", str(data))

    assert done.out.splitlines()[-1] == "1 repair, 0 offsets lost"
    with penstock.open(str(data)) as broker:
        assert len(broker.read("orders")) == 9


def test_a_topic_with_damaged_settings_is_back_after_a_repair(cli: Cli, data: Path) -> None:
    settings = data / "topics" / "orders" / "topic.json"
    spoil(settings, b'"retention_ms":')
    damaged = settings.read_bytes()
    with penstock.open(str(data)) as broker, pytest.raises(TopicDamaged):
        broker.read("orders")

    done = cli("repair", str(data))

    assert done.code == 0
    assert (settings.parent / "topic.json.damaged-0").read_bytes() == damaged
    with penstock.open(str(data)) as broker:
        assert len(broker.read("orders")) == 9
        assert broker.describe_topic("orders").settings.retention_ms is None
        assert broker.describe_group("orders", "work").lag == 6


def test_damaged_keys_are_moved_aside(cli: Cli, data: Path) -> None:
    with penstock.open(str(data)) as broker:
        broker.create_key("billing", [penstock.Grant(role="reader")])
    spoil(data / "access.json", b"billing")

    done = cli("repair", str(data))

    assert "all keys and users are gone" in done.out
    assert (data / "access.json.damaged-0").exists()
    with penstock.open(str(data)) as broker:
        assert broker.keys() == []
        broker.create_key("another", [penstock.Grant(role="reader")])
