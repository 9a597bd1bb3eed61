"""``penstock ping`` and ``penstock bench``, against a broker with threads and a real clock."""

from collections.abc import Iterator
from contextlib import nullcontext

import pytest
from tests.cli.conftest import Cli

import penstock
from penstock.cli import connecting
from penstock.errors import ServerUnreachable
from penstock.version import __version__


@pytest.fixture
def broker(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Iterator[penstock.Broker]:
    """What commands are connected to instead of the broker in virtual time."""
    with penstock.open() as broker:
        monkeypatch.setattr(connecting, "connected", lambda server, **_: nullcontext(broker))
        yield broker


def test_ping_says_which_broker_and_how_far(cli: Cli, broker: penstock.Broker) -> None:
    done = cli("ping", "--count", "3")

    first, second = done.lines
    assert done.code == 0
    assert first.startswith(f"penstock {__version__} (")
    assert " at penstock://127.0.0.1:7070, up for " in first
    assert second.startswith("round trip ")
    assert second.endswith(" of 3")


def test_ping_as_json(cli: Cli, broker: penstock.Broker) -> None:
    [document] = cli("ping", "-o", "json", "--server", "penstock://elsewhere:1").documents

    assert document["server"] == "penstock://elsewhere:1"
    assert document["version"] == __version__
    assert document["round_trip_ms"] > 0


def test_a_server_that_is_not_there_is_one_sentence(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(server: str, **_: bool) -> None:
        raise ServerUnreachable(server=server, why="connection refused")

    monkeypatch.setattr(connecting, "connected", refuse)

    done = cli("ping")

    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(
        "penstock ping: penstock://127.0.0.1:7070 cannot be reached: connection refused; "
    )
    assert done.err.count("\n") == 1


def test_bench_measures_and_leaves_nothing_behind(cli: Cli, broker: penstock.Broker) -> None:
    done = cli("bench", "--messages", "2500", "--samples", "5", "--partitions", "2", "-o", "json")

    published, consumed, latency = done.documents
    assert done.code == 0
    assert (published["messages"], consumed["messages"], latency["messages"]) == (2500, 2500, 5)
    assert published["messages_per_second"] > 0
    assert 0 < latency["p50_ms"] <= latency["p99_ms"]
    assert broker.topics() == []


def test_bench_as_a_table_says_what_was_measured(cli: Cli, broker: penstock.Broker) -> None:
    done = cli("bench", "-n", "100", "--batch", "10", "--samples", "1")

    assert done.lines[0] == "test messages messages/s bytes/s p50 p99"
    assert [line.split()[0] for line in done.lines[1:]] == ["publish", "consume", "latency"]
    assert done.err == "100 bytes each, batches of 10, durability memory; p50 and p99 of a call\n"


def test_bench_removes_its_topic_when_it_fails(
    cli: Cli, broker: penstock.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.cli.server.bench.RECEIVE_WAIT", "1ms")
    monkeypatch.setattr(broker, "publish_batch", lambda topic, messages: [])

    done = cli("bench", "-n", "10")

    assert done.code == 1
    assert done.err.startswith("penstock bench: 10 messages did not arrive within 1ms")
    assert broker.topics() == []
