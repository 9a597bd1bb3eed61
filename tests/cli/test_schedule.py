"""``penstock schedule``."""

import shlex

import pytest
from tests.cli.conftest import Cli

from penstock.testing import TestBroker


def test_add_publishes_again_and_again(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("reports")

    done = cli(
        "schedule", "add", "reports", "weekly", "--cron", "0 9 * * mon", "--timezone", "Europe/Berlin",
        "--key", "k", "-H", "a=b",
    )  # fmt: skip
    penstock.advance("14d")

    assert (done.code, done.out) == (0, "reports:0:s0\n")
    assert [(m.value, m.key, m.headers["a"]) for m in penstock.read("reports")] == [
        (b"weekly", b"k", "b")
    ] * 2


def test_list_shows_what_is_due_next(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.create_topic("reports")
    penstock.publish("orders", b"\x1b later", delay="3h")
    penstock.schedule("reports", b"weekly", cron="0 1 * * *", timezone="UTC")

    everything = cli("schedule", "list")
    one = cli("schedule", "list", "orders", "-o", "json")

    assert everything.lines == [
        "id due (UTC) recurs value",
        "reports:0:s0 2026-01-01 01:00:00 0 1 * * * UTC weekly",
        "orders:0:s0 2026-01-01 03:00:00 \\x1b later",
    ]
    [document] = one.documents
    assert (document["id"], document["due"], document["value"]) == (
        "orders:0:s0", "2026-01-01T03:00:00.000Z", "\x1b later",
    )  # fmt: skip


def test_list_says_that_there_is_more(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    for _ in range(5):
        penstock.publish("orders", b"x", delay="1h")

    done = cli("schedule", "list", "orders", "--limit", "2")

    assert len(done.lines) == 3
    assert done.err == "and 3 more; --limit shows them\n"


def test_nothing_scheduled_is_said_on_stderr(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders")

    done = cli("schedule", "list", "orders")

    assert (done.code, done.out, done.err) == (0, "", "nothing is scheduled in orders\n")


def test_cancel_takes_a_message_back(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    early = penstock.publish("orders", b"early", delay="1s").id
    late = penstock.publish("orders", b"late", delay="1h").id
    penstock.advance("2s")

    cancelled = cli("schedule", "cancel", late)
    delivered = cli("schedule", "cancel", early)
    unknown = cli("schedule", "cancel", "orders:0:s99", "-o", "json")

    assert (cancelled.code, cancelled.out) == (0, "cancelled\n")
    assert (delivered.code, delivered.out, delivered.err) == (1, "", "too late: it was already delivered\n")
    assert (unknown.code, unknown.documents) == (1, [{"id": "orders:0:s99", "answer": "unknown"}])


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        ("add reports x", 2, "missing option '--cron'"),
        ("add reports --cron '0 9 * * *'", 2, "missing argument 'VALUE'"),
        ("add reports x --cron 'every day'", 1, "cron cannot be 'every day': "),
        ("add reports x --cron '0 9 * * *' --timezone Mars", 1, "timezone cannot be 'Mars': "),
        ("cancel", 2, "missing argument 'ID'"),
    ],
)
def test_a_wrong_argument_is_one_sentence(
    line: str, code: int, sentence: str, cli: Cli, penstock: TestBroker
) -> None:
    penstock.create_topic("reports")

    done = cli("schedule", *shlex.split(line))

    assert (done.code, done.out) == (code, "")
    assert done.err.startswith(f"penstock schedule {line.split()[0]}: {sentence}")
    assert done.err.count("\n") == 1
