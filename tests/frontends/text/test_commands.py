"""Every command of the text protocol, and every mistake."""

import re
from pathlib import Path
from typing import Any

import pytest

from penstock.config.broker import BrokerConfig, TopicSettings
from penstock.frontends.text.commands import COMMANDS

PAGE = Path(__file__).parents[3] / "docs" / "protocols" / "text.md"


def session() -> list[tuple[str, list[str]]]:
    """What the page says is typed, each with what it says is answered."""
    [block] = re.findall(r"```session\n(.*?)```", PAGE.read_text(), re.DOTALL)
    talk: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("> "):
            talk.append((line[2:], []))
        else:
            assert line.startswith("< ")
            talk[-1][1].append(line[2:])
    return talk


async def test_the_session_on_the_page_is_what_happens_byte_for_byte(door: Any) -> None:
    client = await door.connect()

    for typed, expected in session():
        client.send(f"{typed}\n")
        answer = await client.reader.readexactly(sum(len(line) + 1 for line in expected))
        assert answer.decode() == "".join(f"{line}\n" for line in expected)
    assert await client.rest() == ""


def test_the_page_shows_every_command() -> None:
    assert {typed.split()[0].upper() for typed, _ in session()} >= set(COMMANDS)


@pytest.mark.parametrize("command", ["PING", "ping", "Ping", "  PING", "PING "])
async def test_a_command_may_be_written_in_any_case_and_with_spaces_around_it(
    door: Any, command: str
) -> None:
    client = await door.connect()

    assert await client.ask(command) == "OK PONG"


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("", "ERR Missing command"),
        ("   ", "ERR Missing command"),
        ("FLY", "ERR Unknown command"),
        ("\xff\xfe", "ERR Unknown command"),
        ("PUB", "ERR Usage: PUB <topic> <message>"),
        ("PUB orders", "ERR Usage: PUB <topic> <message>"),
        ("PUB orders hello", "ERR Topic not found. Try subscribing first."),
        ("SUB", "ERR Usage: SUB <topic> [<group>]"),
        ("SUB a b c", "ERR Usage: SUB <topic> [<group>]"),
        ("ACK", "ERR Usage: ACK <message_id>"),
        ("ACK orders:0:0", "ERR Message ID not found or already acknowledged."),
        ("PRODUCE orders 0", "ERR Usage: PRODUCE <topic> <partition> <message>"),
        ("PRODUCE orders", "ERR Usage: PRODUCE <topic> <partition> <message>"),
        ("CONSUME orders", "ERR Usage: CONSUME <topic> <partition>"),
        ("CONSUME orders 0", "ERR Topic not found. Try subscribing first."),
        ("PING now", "ERR Usage: PING"),
        ("QUIT now", "ERR Usage: QUIT"),
        ("PRODUCE orders x hi", "ERR partition cannot be 'x': it is a number from 0 on [VALUE_INVALID]"),
        ("PRODUCE orders -1 hi", "ERR partition cannot be '-1': it is a number from 0 on [VALUE_INVALID]"),
        ("PRODUCE orders 6 hi", "ERR topic 'orders' has partitions 0 to 5, not 6 [PARTITION_NOT_FOUND]"),
    ],
)
async def test_a_mistake_has_its_answer_and_changes_nothing(door: Any, line: str, answer: str) -> None:
    client = await door.connect()

    assert await client.ask(line) == answer
    assert await client.ask("PING") == "OK PONG"
    assert await door.broker.topics() == []


@pytest.mark.parametrize("line", ["PRODUCE ../up 0 hi", "SUB a/b", "SUB orders __x", "PRODUCE \xe9 0 hi"])
async def test_a_name_that_is_not_allowed_is_refused(door: Any, line: str) -> None:
    client = await door.connect()

    answer = await client.ask(line)

    assert answer.startswith("ERR ")
    assert answer.endswith("[NAME_INVALID]")


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        (b"new user: alex", b"new user: alex"),
        (b"  two  spaces  ", b"  two  spaces  "),
        (b"\ttab", b"\ttab"),
        (b"", b""),
        (b"\xff\x00\xfe", b"\xff\x00\xfe"),
        (b"back\\slash \\n", b"back\\slash \\n"),
    ],
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
async def test_a_message_is_kept_byte_for_byte(door: Any, typed: bytes, value: bytes, end: bytes) -> None:
    client = await door.connect()
    await client.ask("SUB orders")

    client.send(b"PRODUCE orders 0 " + typed + end)
    produced = await client.line()
    await client.reader.readline()  # The MSG of this one.
    client.send(b"PUB orders " + typed + end)
    published = await client.line()

    assert produced == "OK Published orders:0:0"
    for answer in (produced, published):
        _, partition, offset = answer.rsplit(" ", 1)[1].split(":")
        [stored] = await door.broker.read("orders", partition=int(partition), offset=int(offset), limit=1)
        assert stored.value == value


async def test_what_is_sent_is_what_was_published(door: Any) -> None:
    client = await door.connect()
    await door.broker.create_topic("orders", partitions=1)
    await door.broker.publish("orders", b"\xff\x00 \\n  bytes")
    await door.broker.publish("orders", b"two\nlines\r\n")
    await door.broker.publish("orders", None, key="a tombstone")

    client.send("CONSUME orders 0\n")
    answer = await client.reader.readuntil(b"OK END 3\n")

    assert answer == (
        b"MSG orders orders:0:0 \xff\x00 \\n  bytes\n"
        b"MSG orders orders:0:1 two\\nlines\\r\\n\n"
        b"MSG orders orders:0:2 \n"
        b"OK END 3\n"
    )


async def test_produce_makes_a_topic_as_the_server_makes_topics(opened: Any) -> None:
    config = BrokerConfig(topic=TopicSettings(partitions=3, retention_ms=5000))
    async with opened(config) as door:
        client = await door.connect()

        assert await client.ask("PRODUCE orders 2 hi") == "OK Published orders:2:0"

        made = (await door.broker.describe_topic("orders")).settings
        assert (made.partitions, made.retention_ms) == (3, 5000)
        assert "not 3" in await client.ask("PRODUCE orders 3 hi")


async def test_consume_takes_nothing_and_moves_no_group(door: Any) -> None:
    client = await door.connect()
    await client.ask("PRODUCE orders 0 hi")
    await door.broker.create_group("orders", "g")

    first = await client.ask("CONSUME orders 0", 2)
    second = await client.ask("CONSUME orders 0", 2)

    assert first == second == ["MSG orders orders:0:0 hi", "OK END 1"]
    assert (await door.broker.describe_group("orders", "g")).lag == 1


async def test_consume_of_an_empty_partition_is_only_the_marker(door: Any) -> None:
    client = await door.connect()
    await client.ask("PRODUCE orders 0 hi")

    assert await client.ask("CONSUME orders 1") == "OK END 0"
    assert "not 7" in await client.ask("CONSUME orders 7")


async def test_consume_sends_many_messages_in_order(door: Any) -> None:
    client = await door.connect()
    await door.broker.create_topic("orders", partitions=1)
    await door.broker.publish_batch("orders", [b"%d" % number for number in range(1000)])

    lines = await client.ask("CONSUME orders 0", 1001)

    assert lines == [f"MSG orders orders:0:{number} {number}" for number in range(1000)] + ["OK END 1000"]


async def test_a_full_queue_says_so(door: Any) -> None:
    client = await door.connect()
    await door.broker.create_topic("orders", partitions=1, depth_max=1)
    await client.ask("PUB orders one")

    assert await client.ask("PUB orders two") == "ERR Queue full, backpressure applied"


async def test_requests_may_be_sent_without_waiting_for_answers(door: Any) -> None:
    client = await door.connect()

    client.send("".join(f"PRODUCE orders 0 {number}\n" for number in range(50)) + "QUIT\n")

    expected = "".join(f"OK Published orders:0:{number}\n" for number in range(50)) + "OK Bye\n"
    assert await client.rest() == expected


async def test_quit_ends_the_connection_and_what_follows_is_not_done(door: Any) -> None:
    client = await door.connect()

    client.send("QUIT\nPRODUCE orders 0 too late\n")

    assert await client.rest() == "OK Bye\n"
    assert await door.broker.topics() == []


def test_help_fits_a_terminal() -> None:
    assert max(len(line) for _, answer in session() for line in answer) <= 100
