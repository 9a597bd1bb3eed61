"""``penstock group``."""

import itertools
import shlex
from typing import get_args

import pytest
from tests.cli.conftest import Cli

from penstock.cli.data.group import VERDICTS
from penstock.config.broker import GroupSettings
from penstock.model.info import VerdictWord
from penstock.testing import TestBroker


@pytest.fixture
def shipping(penstock: TestBroker) -> TestBroker:
    """Ten messages; four acked, one failed twice, one in a worker's hands, four not delivered yet."""
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"x"] * 10)
    penstock.advance("90s")
    worker = penstock.consumer("orders", group="shipping", consumer_id="worker-1", backoff=["10s", "60s"])
    worker.ack(worker.receive(4))
    for _ in range(2):
        [message] = worker.receive()
        message.nack(error=ValueError("\x1b[2J van too small"))
        penstock.advance("11s")
    worker.receive()
    return penstock


def fact(shown: str, name: str) -> str:
    """What a description says of one thing, on one line or on several."""
    lines = shown.splitlines()
    [first] = [number for number, line in enumerate(lines) if line.startswith(name + "  ")]
    more = itertools.takewhile(lambda line: line.startswith("  "), lines[first + 1 :])
    return " ".join([lines[first].removeprefix(name), *more]).replace("  ", "").strip()


def test_describe_says_how_the_group_is_getting_on(cli: Cli, shipping: TestBroker) -> None:
    done = cli("group", "describe", "orders", "shipping")

    info = shipping.describe_group("orders", "shipping")
    assert done.code == 0
    assert fact(done.out, "group") == "shipping of orders (queue)"
    assert fact(done.out, "verdict") == str(info.verdict)
    assert fact(done.out, "lag").startswith("6 messages, the oldest ")
    assert fact(done.out, "in flight") == "1, and 1 waiting for a retry"
    assert fact(done.out, "oldest unacked").startswith("orders:0:4, ")
    assert fact(done.out, "oldest unacked").endswith(", failed with ValueError: \\x1b[2J van too small")
    assert fact(done.out, "consumers") == "worker-1"
    assert fact(done.out, "since start").startswith("7 delivered, 4 acked, 2 nacked")
    assert done.lines[-2:] == ["partition floor end lag in flight retrying", "0 4 10 6 1 1"]
    assert max(map(len, done.out.splitlines())) <= 80


def test_describe_of_a_group_that_has_nothing_to_do(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.create_group("orders", "shipping")

    done = cli("group", "describe", "orders", "shipping")

    assert fact(done.out, "lag") == "0 messages"
    assert fact(done.out, "drained in") == "nothing to drain"
    assert fact(done.out, "oldest unacked") == "none"


def test_describe_names_who_holds_a_message_and_what_waits_behind_it(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    for _ in range(3):
        penstock.publish("orders", b"x", key="anna")
    worker = penstock.consumer("orders", group="shipping", consumer_id="worker-1", ordered=True)
    worker.receive(3)

    done = cli("group", "describe", "orders", "shipping")

    assert fact(done.out, "oldest unacked") == (
        "orders:0:0, 0 ms old, after 1 attempt, held by worker-1 for 30 s more, "
        "2 messages of the same key behind it"
    )


def test_describe_says_what_retention_took(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders", retention="1h", segment_bytes=4096)
    penstock.create_group("orders", "shipping")
    for _ in range(4):
        penstock.publish_batch("orders", [b"x" * 500] * 20)
        penstock.advance("40m")

    done = cli("group", "describe", "orders", "shipping")

    lost = penstock.describe_group("orders", "shipping").lost
    assert lost > 0
    assert fact(done.out, "lost") == f"{lost:,} deleted by retention before they were settled"


def test_describe_as_json_has_every_fact(cli: Cli, shipping: TestBroker) -> None:
    [document] = cli("group", "describe", "orders", "shipping", "-o", "json").documents

    assert document["lag"] == 6
    assert document["verdict"]["word"] in VERDICTS
    assert document["oldest_unacked"]["id"] == "orders:0:4"
    assert document["partitions"] == [
        {
            "partition": 0,
            "journal_group": 1,
            "floor": 4,
            "end": 10,
            "lag": 6,
            "in_flight": 1,
            "waiting_retry": 1,
        }
    ]  # fmt: skip


def test_list_shows_all_groups_or_those_of_a_topic(cli: Cli, shipping: TestBroker) -> None:
    shipping.create_topic("empty")
    shipping.create_group("empty", "nobody")

    everything = cli("group", "list")
    one = cli("group", "list", "empty", "-o", "json")

    assert [line.split()[:3] for line in everything.lines[1:]] == [
        ["empty", "nobody", "0"],
        ["orders", "shipping", "6"],
    ]
    assert [document["group"] for document in one.documents] == ["nobody"]


def test_no_groups_is_said_on_stderr(cli: Cli, penstock: TestBroker) -> None:
    done = cli("group", "list")

    assert (done.code, done.out) == (0, "")
    assert "there are no groups" in done.err


def test_every_verdict_has_its_colour() -> None:
    assert set(VERDICTS) == set(get_args(VerdictWord))


@pytest.mark.parametrize(
    ("to", "lag"),
    [("earliest", 10), ("latest", 0), ("7", 3), ("2026-01-01T00:00:00Z", 10), ("2026-01-01", 10), ("30s", 0)],
)
def test_seek_moves_a_group(to: str, lag: int, cli: Cli, shipping: TestBroker) -> None:
    done = cli("group", "seek", "orders", "shipping", to)

    assert (done.code, done.out) == (0, "")
    assert shipping.describe_group("orders", "shipping").lag == lag


def test_seek_on_one_partition(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=2)
    for partition in (0, 1):
        for _ in range(3):
            penstock.publish("orders", b"x", partition=partition)
    penstock.create_group("orders", "shipping", start="latest")

    done = cli("group", "seek", "orders", "shipping", "1", "--partition", "1")

    assert done.err == "moved group shipping of orders; 2 messages to process\n"


@pytest.mark.parametrize("command", ["describe", "delete"])
def test_a_group_that_is_not_there_is_a_refusal(command: str, cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders")

    done = cli("group", command, "orders", "shiping")

    assert done.code == 1
    assert done.err == (
        f"penstock group {command}: topic 'orders' has no group 'shiping'; see: penstock group list orders "
        "[GROUP_NOT_FOUND]\n"
    )


def test_delete_forgets_a_group(cli: Cli, shipping: TestBroker) -> None:
    done = cli("group", "delete", "orders", "shipping")

    assert done.code == 0
    assert shipping.groups("orders") == []


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("seek orders shipping", "missing argument 'TO'"),
        ("seek orders shipping start", "invalid value for 'TO': 'start': write it like "),
        ("describe orders", "missing argument 'GROUP'"),
    ],
)
def test_a_wrong_argument_is_one_sentence(line: str, sentence: str, cli: Cli) -> None:
    done = cli("group", *shlex.split(line))

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"penstock group {line.split()[0]}: {sentence}")


def settings(broker: TestBroker, group: str) -> GroupSettings:
    return broker._core.state.topics["orders"].groups[group].settings


def test_create_makes_a_group_with_every_setting(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [b"x"] * 3)

    done = cli(
        "group", "create", "orders", "billing", "--kind", "queue", "--start", "1", "--ordered",
        "--max-attempts", "7", "--backoff", "1s, 10s", "--visibility-timeout", "2m", "--delivery",
        "at-most-once", "--lanes", "weighted", "--isolation", "read_uncommitted", "--no-dead-letter",
        "--session-timeout", "5s",
    )  # fmt: skip

    assert (done.code, done.err) == (0, "created queue group billing of orders; 2 messages to process\n")
    assert settings(penstock, "billing") == GroupSettings(
        kind="queue", start="1", ordered=True, max_attempts=7, backoff="fixed:1000,10000",
        visibility_timeout_ms=120_000, delivery="at-most-once", lanes="weighted",
        isolation="read_uncommitted", dead_letter=False, session_timeout_ms=5000,
    )  # fmt: skip


def test_create_of_a_group_that_exists_changes_what_is_given(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    cli("group", "create", "orders", "billing", "--max-attempts", "7", "--visibility-timeout", "2m")

    done = cli("group", "create", "orders", "billing", "--max-attempts", "9")

    assert (done.code, done.err) == (0, "changed queue group billing of orders; 0 messages to process\n")
    assert settings(penstock, "billing").max_attempts == 9
    assert settings(penstock, "billing").visibility_timeout_ms == 120_000


@pytest.mark.parametrize(
    "wrong",
    ["--kind ring", "--max-attempts 0", "--backoff soon", "--visibility-timeout soon", "--start soon"],
)
def test_create_refuses_what_no_group_can_have(cli: Cli, penstock: TestBroker, wrong: str) -> None:
    penstock.create_topic("orders")

    done = cli("group", "create", "orders", "billing", *wrong.split())

    assert done.code == 2
    assert penstock.groups("orders") == []


def test_create_of_a_group_needs_its_topic(cli: Cli) -> None:
    done = cli("group", "create", "nosuch", "billing")

    assert done.code == 1
    assert "TOPIC_NOT_FOUND" in done.err
