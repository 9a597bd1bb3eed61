"""``penstock trace``."""

import re
import sys

import pytest
from tests.cli.conftest import Cli

from penstock.testing import TestBroker

ESCAPE = re.compile(r"\x1b\[\d+m")


@pytest.fixture
def traced(penstock: TestBroker) -> str:
    """A message that failed once, with an error that would clear the screen, and was acked."""
    penstock.create_topic("orders")
    penstock.publish("orders", b"two books", key="anna\x1b[2J")
    with penstock.consumer("orders", group="shipping", consumer_id="worker-1", backoff=["1s"]) as worker:
        worker.receive()[0].nack(error=ValueError("\x1b[2J no van"))
        worker.receive(wait="2s")[0].ack()
    return "orders:0:0"


def test_a_trace_is_printed_as_a_timeline(cli: Cli, penstock: TestBroker, traced: str) -> None:
    done = cli("trace", traced)

    assert done.code == 0
    assert done.out == str(penstock.trace(traced)).replace("\x1b", "\\x1b") + "\n"


def test_colour_changes_nothing_but_the_colour(
    cli: Cli, traced: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = cli("trace", traced)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")

    coloured = cli("trace", traced)

    assert len(ESCAPE.findall(coloured.out)) > 10
    assert ESCAPE.sub("", coloured.out) == plain.out


def test_a_trace_as_json(cli: Cli, traced: str) -> None:
    [document] = cli("trace", traced, "-o", "json").documents

    assert document["id"] == traced
    assert document["key"] == "anna\x1b[2J"
    assert [event["event"] for event in document["events"]] == [
        "published", "delivered", "nacked", "redelivered", "acked", "retained until",
    ]  # fmt: skip
    assert document["events"][0]["time"] == "2026-01-01T00:00:00.000Z"
    assert document["latency_ms"] == {"shipping": 1000}


@pytest.mark.parametrize("text", ["orders", "orders:0", "orders:a:0", ":0:0", "orders:0:x1"])
def test_what_is_no_id_is_one_sentence(text: str, cli: Cli, servers: list[str]) -> None:
    done = cli("trace", text)

    assert done.code == 2
    assert done.err == (
        f"penstock trace: invalid value for 'TOPIC:PARTITION:OFFSET': {text!r} is not an id such as "
        "orders:0:7, orders:0:s3 of a schedule, orders-0@7 of a Kafka client, or the UUID of a client of SQS "
        "or KQueue; see --help\n"
    )
    assert servers == []


def test_a_message_that_is_not_due_is_traced_by_its_schedule(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"later", delay="1h")

    done = cli("trace", "orders:0:s0")
    [document] = cli("trace", "orders:0:s0", "-o", "json").documents

    assert done.lines[0] == "orders:0:s0 no key"
    assert done.lines[-1] == "due 2026-01-01 01:00:00 UTC"
    assert (document["id"], document["offset"]) == ("orders:0:s0", None)


def test_a_message_that_is_not_there_is_a_refusal(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders")

    done = cli("trace", "orders:0:7")

    assert done.code == 1
    assert done.err.startswith("penstock trace: offset 7 is outside the log")
