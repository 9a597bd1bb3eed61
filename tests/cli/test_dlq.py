"""``penstock dlq``."""

import pytest
from tests.cli.conftest import Cli

from penstock.testing import TestBroker


@pytest.fixture
def failed(penstock: TestBroker) -> TestBroker:
    """Three messages that failed by one bug, and one that was rejected."""
    penstock.create_topic("orders")
    for number in range(4):
        penstock.publish("orders", b"order %d" % number, key=f"key-{number}")
    with penstock.consumer("orders", group="shipping", max_attempts=1, visibility_timeout="1h") as worker:
        for message in worker.receive(4):
            if message.offset == 3:
                message.reject("not an order")
            else:
                message.nack(error=ValueError("van too small"))
            penstock.advance("1m")
    return penstock


def test_list_counts_by_error_with_when_it_was_seen(cli: Cli, failed: TestBroker) -> None:
    done = cli("dlq", "list", "orders")

    bug, other = failed.dead_letter_errors("orders")
    assert done.code == 0
    assert done.lines == [
        "3 x ValueError: van too small",
        f"fingerprint {bug.fingerprint} ({bug.reason})",
        "topic orders, group shipping",
        "seen 2026-01-01 00:00:00 to 2026-01-01 00:02:00 UTC",
        f"newest {bug.dead_letter}, originally orders:0:2",
        "",
        "1 x not an order",
        f"fingerprint {other.fingerprint} (rejected)",
        "topic orders, group shipping",
        "seen 2026-01-01 00:03:00 to 2026-01-01 00:03:00 UTC",
        f"newest {other.dead_letter}, originally orders:0:3",
    ]
    assert max(map(len, done.out.splitlines())) <= 80


def test_list_of_all_topics_as_json(cli: Cli, failed: TestBroker) -> None:
    done = cli("dlq", "list", "-o", "json")

    assert [(document["topic"], document["count"]) for document in done.documents] == [
        ("orders", 3),
        ("orders", 1),
    ]
    assert done.documents[0]["first_seen"] == "2026-01-01T00:00:00.000Z"


def test_no_dead_letters_is_said_on_stderr(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders")

    done = cli("dlq", "list", "orders")

    assert (done.code, done.out, done.err) == (0, "", "there are no dead letters of orders\n")


def test_show_has_each_letter_with_its_story(cli: Cli, failed: TestBroker) -> None:
    done = cli("dlq", "show", "orders", "--limit", "1")

    assert done.lines[:3] == [
        "dead letter orders.dlq:0:0",
        "message orders:0:0, in group shipping, 1 attempt",
        "error ValueError: van too small",
    ]
    assert done.lines[-2:] == ["key key-0", "value order 0"]


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ([], ["order 0", "order 1", "order 2", "order 3"]),
        (["--error", "ValueError"], ["order 0", "order 1", "order 2"]),
        (["--error", "ValueError", "-n", "1"], ["order 0"]),
        (["--error", "FINGERPRINT"], ["order 3"]),
        (["--error", "FINGERPRINT", "-n", "1"], ["order 3"]),
        (["--group", "billing"], []),
    ],
)
def test_show_picks_by_error_and_group(
    arguments: list[str], values: list[str], cli: Cli, failed: TestBroker
) -> None:
    rejected = failed.dead_letter_errors("orders")[1].fingerprint

    done = cli(
        "dlq", "show", "orders", "-o", "json", *(word.replace("FINGERPRINT", rejected) for word in arguments)
    )

    assert [document["value"] for document in done.documents] == values
    assert all(document["source"].startswith("orders:0:") for document in done.documents)


def test_a_dry_run_only_counts(cli: Cli, failed: TestBroker) -> None:
    done = cli("dlq", "redrive", "orders", "--dry-run", "--limit", "2")

    assert done.out == "would redrive 2 dead letters\n"
    assert len(failed.dead_letters("orders")) == 4


def test_redrive_sends_back_what_is_asked_for(cli: Cli, failed: TestBroker) -> None:
    some = cli("dlq", "redrive", "orders", "--error", "ValueError", "--limit", "2")
    none = cli("dlq", "redrive", "orders", "--group", "billing", "-o", "json")
    rest = cli("dlq", "redrive", "orders", "--rate", "10")

    assert some.out == "redrove 2 dead letters\n"
    assert none.documents == [{"matched": 0, "redriven": 0, "dry_run": False}]
    assert rest.out == "redrove 2 dead letters\n"
    assert failed.describe_group("orders", "shipping").lag == 4


def test_a_wrong_argument_is_one_sentence(cli: Cli) -> None:
    done = cli("dlq", "redrive", "orders", "--rate", "0")

    assert done.code == 2
    assert done.err.startswith("penstock dlq redrive: invalid value for '--rate': 0.0 is not in the range")
