"""What a person at a terminal gets: questions before something is lost, and completion after the Tab key."""

from typing import Any

import pytest
from tests.cli.conftest import Cli

from penstock.cli import connecting
from penstock.errors import ServerUnreachable
from penstock.testing import TestBroker


@pytest.mark.parametrize(
    ("command", "question"),
    [
        ("topic delete orders", "Delete orders with 1 message?"),
        ("group delete orders shipping", "Delete group shipping of orders, with 1 message unsettled?"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"n\n", 1), (b"\n", 1)])
def test_a_person_is_asked_before_something_is_deleted(
    command: str, question: str, answer: bytes, code: int, penstock: TestBroker, cli: Cli
) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    penstock.create_group("orders", "shipping")

    done = cli(*command.split(), keyboard=answer)

    left = "orders" in penstock.topics() and "shipping" in penstock.groups("orders")
    assert done.code == code
    assert left is (code == 1)
    assert question in done.err


def test_a_person_who_said_yes_is_not_asked(cli: Cli, penstock: TestBroker) -> None:
    penstock.create_topic("orders")

    done = cli("topic", "delete", "orders", "--yes", keyboard=b"")

    assert done.code == 0
    assert penstock.topics() == []


def test_a_person_is_told_how_a_stream_of_lines_ends(cli: Cli, penstock: TestBroker) -> None:
    done = cli("produce", "orders", keyboard=b"typed\n")

    assert done.err.startswith("one message per line; Ctrl-D ends the input\n")
    assert [message.value for message in penstock.read("orders")] == [b"typed"]


def completed(line: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a shell offers when the Tab key is pressed at the end of the line."""
    monkeypatch.setenv("_PENSTOCK_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - (0 if line.endswith(" ") else 1)))
    done = cli()
    assert done.err == ""
    return done.out.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("penstock sch", ["schema", "schedule"]),
        ("penstock topic de", ["describe", "delete"]),
        ("penstock consume o", ["orders", "others"]),
        ("penstock consume orders --group s", ["shipping"]),
        ("penstock group describe orders ", ["audit", "shipping"]),
        ("penstock group describe nothing ", []),
        ("penstock consume --group ", []),
        ("penstock consume orders --from-t", ["--from-time"]),
        ("penstock consume orders -o j", ["json"]),
    ],
)
def test_the_tab_key_offers_commands_options_topics_and_groups(
    line: str, offered: list[str], penstock: TestBroker, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for topic in ("orders", "others", "reports"):
        penstock.create_topic(topic)
    penstock.create_group("orders", "shipping")
    penstock.create_group("orders", "audit")

    assert completed(line, cli, monkeypatch) == offered


def test_a_server_that_is_not_there_offers_nothing_and_says_nothing(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(server: str, **_: bool) -> Any:
        raise ServerUnreachable(server=server, why="connection refused")

    monkeypatch.setattr(connecting, "connected", refuse)

    assert completed("penstock consume o", cli, monkeypatch) == []


def test_the_server_of_the_line_is_the_one_that_is_asked(
    cli: Cli, servers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    completed("penstock consume --server penstock://there:1 o", cli, monkeypatch)

    assert servers == ["penstock://there:1"]
