"""``penstock produce``."""

import base64
import shlex
from pathlib import Path

import pytest
from tests.cli.conftest import Cli

from penstock.cli.data import produce
from penstock.cli.data.messages import Template
from penstock.testing import TestBroker


def values(broker: TestBroker, topic: str = "orders") -> list[bytes]:
    return [message.value for message in broker.read(topic)]


def test_a_value_is_published_and_its_id_printed(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders")

    done = cli("produce", "orders", "two books", "--key", "anna", "-H", "from=web", "--priority", "high")

    [message] = penstock.read("orders")
    assert (done.code, done.out, done.err) == (0, "orders:0:0\n", "")
    assert (message.value, message.key, message.headers, message.priority) == (
        b"two books", b"anna", {"from": "web"}, "high",
    )  # fmt: skip


def test_the_client_of_the_simple_queue(cli: Cli, penstock: TestBroker) -> None:
    """Two lines, as its users type them: the topic is made by its first message."""
    produced = cli("produce", "user-signups", "new user: alex", "--partition", "0")
    consumed = cli("consume", "user-signups", "--partition", "0")
    again = cli("consume", "user-signups", "--partition", "0")

    assert produced.code == 0
    assert produced.err == "created topic user-signups, 1 partition\n"
    assert consumed.out == again.out == "new user: alex\n"


def test_the_client_of_the_simple_queue_word_for_word(cli: Cli, penstock: TestBroker) -> None:
    """``produce <topic> <partition> <message>`` and ``consume <topic> <partition>``, as it documents them."""
    penstock.create_topic("user-signups", partitions=2)

    first = cli("produce", "user-signups", "0", "new user: alex")
    second = cli("produce", "user-signups", "1", "2")
    consumed = cli("consume", "user-signups", "0")

    assert (first.out, second.out) == ("user-signups:0:0\n", "user-signups:1:0\n")
    assert consumed.out == "new user: alex\n"
    assert cli("consume", "user-signups", "1").out == "2\n"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("produce t first x", "'first' is not a partition; they are numbered from 0"),
        ("produce t -p 0 0 x", "give TOPIC, a partition and one message"),
        ("produce t 0 two books", "give TOPIC, a partition and one message"),
        ("consume t first", "invalid value for '[PARTITION]': 'first' is not a partition"),
        ("consume t 0 -p 0", "give the partition once"),
    ],
)
def test_a_partition_is_given_once_and_is_a_number(
    line: str, sentence: str, cli: Cli, servers: list[str]
) -> None:
    done = cli(*shlex.split(line))

    assert (done.code, sentence in done.err, servers) == (2, True, [])


def test_a_topic_is_not_made_where_that_is_not_wanted(cli: Cli, penstock: TestBroker) -> None:
    done = cli("produce", "ordres", "x", "--no-create")

    assert done.code == 1
    assert done.err.startswith("penstock produce: there is no topic 'ordres'; ")
    assert penstock.topics() == []


def test_a_delayed_message_has_the_id_of_its_schedule(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders")

    later = cli("produce", "orders", "later", "--delay", "30m")
    then = cli("produce", "orders", "then", "--deliver-at", "2026-01-01T01:00:00")  # No zone: UTC.

    assert [later.out, then.out] == ["orders:0:s0\n", "orders:0:s1\n"]
    assert [message.due_ms for message in penstock.scheduled("orders")] == [
        1_767_225_600_000 + 30 * 60_000,
        1_767_225_600_000 + 60 * 60_000,
    ]


def test_a_second_message_with_the_same_id_is_not_stored(cli: Cli, penstock: TestBroker) -> None:
    cli("produce", "orders", "one", "--dedup-id", "order-1")
    done = cli("produce", "orders", "one", "--dedup-id", "order-1", "-o", "json")

    [receipt] = done.documents
    assert receipt["duplicate"] is True
    assert receipt["id"] == "orders:0:0"
    assert values(penstock) == [b"one"]


def test_stdin_is_a_message_a_line(cli: Cli, penstock: TestBroker) -> None:
    done = cli("produce", "orders", "--key", "k", stdin=b"one\r\ntwo\n\nfour \xff")

    assert (done.code, done.out) == (0, "")
    assert done.err == "created topic orders, 1 partition\npublished 4 messages\n"
    assert values(penstock) == [b"one", b"two", b"", b"four \xff"]
    assert {message.key for message in penstock.read("orders")} == {b"k"}


def test_a_file_is_a_message_a_line(cli: Cli, penstock: TestBroker, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"one\ntwo\n")

    done = cli("produce", "orders", "--file", str(tmp_path / "lines"), "-o", "json")

    assert [receipt["id"] for receipt in done.documents] == ["orders:0:0", "orders:0:1"]
    assert values(penstock) == [b"one", b"two"]


def test_a_whole_file_is_one_message(cli: Cli, penstock: TestBroker, tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"\x00\n\xff\n")

    done = cli("produce", "orders", "--file", str(tmp_path / "picture"), "--format", "raw")

    assert done.out == "orders:0:0\n"
    assert values(penstock) == [b"\x00\n\xff\n"]


def test_json_lines_bring_their_own_fields(cli: Cli, penstock: TestBroker) -> None:
    """What the command line says is for those that say nothing themselves."""
    penstock.create_topic("orders", partitions=2)
    lines = [
        b'{"value": "text", "key": "own", "headers": {"a": "b"}, "priority": "low", "partition": 1}',
        b'{"value": {"order": 1}}',
        b'{"value": 12}',
        b'{"value": null, "key": "gone"}',
        b'{"value_base64": "' + base64.b64encode(b"\xff\x00") + b'", "key_base64": "/w=="}',
    ]

    done = cli("produce", "orders", "--format", "json", "-p", "0", "--key", "given", stdin=b"\n".join(lines))

    text, *rest = penstock.read("orders", partition=1) + penstock.read("orders", partition=0)
    assert done.code == 0
    assert (text.value, text.key, text.headers, text.priority) == (b"text", b"own", {"a": "b"}, "low")
    assert [(message.key, message.value) for message in rest] == [
        (b"given", b'{"order":1}'), (b"given", b"12"), (b"gone", b""), (b"\xff", b"\xff\x00"),
    ]  # fmt: skip
    assert rest[2].is_tombstone


def test_a_topic_is_copied_by_a_pipe(cli: Cli, penstock: TestBroker) -> None:
    """What consume prints as JSON is what produce takes: keys, headers, lanes and bytes."""
    penstock.create_topic("orders")
    penstock.publish("orders", b"\xff\x00", key=b"\xfe", headers={"a": "b"}, priority="high")
    penstock.publish("orders", "grün".encode(), key="k")
    printed = cli("consume", "orders", "-o", "json", "--group", "copy")

    done = cli("produce", "copy", "--format", "json", stdin=printed.out.encode())

    def facts(topic: str) -> list[object]:
        return [(m.key, m.value, m.headers, m.priority) for m in penstock.read(topic)]

    assert done.code == 0
    assert facts("copy") == facts("orders")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"value": "a", "ky": "b"}', "Object contains unknown field `ky`"),
        (b'{"key": "b"}', "Object has neither `value` nor `value_base64`"),
        (b'{"value": "a", "partition": "0"}', "Expected `int | null`, got `str` - at `$.partition`"),
        (b"not json", "JSON is malformed"),
        (b"[1]", "Expected `object`, got `array`"),
    ],
)
def test_a_line_that_is_no_message_is_named_and_those_before_it_are_published(
    line: bytes, words: str, cli: Cli, penstock: TestBroker
) -> None:
    done = cli(
        "produce", "orders", "--format", "json", stdin=b'{"value": 1}\n{"value": 2}\n' + line + b"\n{}"
    )

    sentence = done.err.splitlines()[-1]
    assert done.code == 1
    assert sentence.startswith(f"penstock produce: line 3 is not a message: {words}")
    assert sentence.endswith("; 2 messages published before it")
    assert values(penstock) == [b"1", b"2"]


def test_a_refusal_in_a_stream_says_how_many_were_published(
    cli: Cli, penstock: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    penstock.create_topic("orders", message_bytes_max=100)
    monkeypatch.setattr(produce, "BATCH_BYTES", 8)  # One short line at a time.

    done = cli("produce", "orders", stdin=b"a short\na short\n" + b"x" * 200 + b"\nnever\n")

    assert done.code == 1
    assert done.err.startswith("penstock produce: the message has 2")
    assert done.err.endswith("; 2 messages published before it\n")
    assert values(penstock) == [b"a short", b"a short"]


def test_a_stream_is_published_in_batches_as_it_comes(
    cli: Cli, penstock: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []
    publish = penstock.publish_batch

    def counting(topic: str, messages: list[bytes]) -> object:
        batches.append(len(messages))
        return publish(topic, messages)

    monkeypatch.setattr(penstock, "publish_batch", counting)
    monkeypatch.setattr(produce, "BATCH_BYTES", 40)
    penstock.create_topic("orders")

    cli("produce", "orders", stdin=b"0123456\n" * 100)

    assert batches == [5] * 20
    assert len(values(penstock)) == 100


def test_a_line_without_an_end_is_not_read_for_ever(
    cli: Cli, penstock: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce, "LINE_BYTES_MAX", 1000)
    monkeypatch.setattr(produce, "BATCH_BYTES", 100)

    lines = cli("produce", "orders", stdin=b"x" * 5000)
    raw = cli("produce", "orders", "--format", "raw", stdin=b"x" * 5000)

    assert (lines.code, raw.code) == (1, 1)
    assert "a line is longer than 1,000 bytes" in lines.err
    assert "the input is larger than 1,000 bytes" in raw.err


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("value --format json", "use either VALUE, or a stream with --file and --format"),
        ("--dedup-id x", "--dedup-id needs VALUE: of a stream, only the first line would be stored"),
        ("value --delay 1m --deliver-at 2026-11-14T15:00Z", "use either --delay or --deliver-at"),
        ("value --delay soon", "invalid value for '--delay': 'soon': write it like '250ms', "),
        ("value --deliver-at noon", "invalid value for '--deliver-at': 'noon': write it like "),
        ("value --priority urgent", "invalid value for '--priority': there is no priority 'urgent'; "),
        ("value --header x", "invalid value for '--header': 'x' is not NAME=VALUE"),
        ("value --partition first", "invalid value for '--partition': 'first' is not a valid int"),
        ("--file /no/such/file", "invalid value for '--file': '/no/such/file': No such file or directory"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_one_sentence(line: str, sentence: str, cli: Cli, servers: list[str]) -> None:
    done = cli("produce", "orders", *shlex.split(line))

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"penstock produce: {sentence}")
    assert done.err.count("\n") == 1
    assert servers == []


def test_a_plain_line_costs_no_message_object() -> None:
    assert Template(key=None, headers=None).message(b"line") == b"line"
