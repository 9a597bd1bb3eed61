"""Every adapter of the comparison does what it says, on a real server, if that is installed."""

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.peers.__main__ import Run
from benchmarks.peers.adapter import Adapter, Received
from benchmarks.peers.servers import Started
from benchmarks.peers.systems import SYSTEMS, System
from benchmarks.peers.workloads import TINY, WORKLOADS

NAMES = (
    "penstock", "penstock-async", "penstock-kafka", "penstock-share", "redis-everysec", "nats", "beanstalkd",
    "bare-loop", "kafka", "kafka-share", "rabbitmq-classic", "valkey-always",
)  # fmt: skip
DELAYING = ("penstock", "penstock-async", "penstock-kafka", "beanstalkd")
WAIT_S = 20.0

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def named(name: str) -> System:
    found = next(each for each in SYSTEMS if each.name == name)
    if missing := found.missing():
        pytest.skip(f"not installed: {missing}")
    return found


def received(client: Adapter, count: int) -> Received:
    found: Received = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        found += client.receive(count - len(found), 1.0)
    return found


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[System, Started]]:
    system = named(request.param)
    with system.started(tmp_path) as started:
        yield system, started


@pytest.mark.slow
@pytest.mark.parametrize("server", NAMES, indirect=True)
def test_what_is_confirmed_is_read_and_what_is_nacked_comes_again(server: tuple[System, Started]) -> None:
    system, started = server
    client = system.client(started.address)
    client.make("q", ["one"])
    client.publish("q", b"first")
    client.send("q", [b"second", b"third"])
    client.send("q", [b"fourth"])
    client.flush()
    client.subscribe("q", "one")
    found = received(client, 4)
    if "ack" in system.can:
        client.ack([token for _, token in found[1:]])
        client.nack([found[0][1]])
        [(again, token)] = received(client, 1)
        assert again == found[0][0]
        client.ack([token])
        client.flush()
    client.close()

    assert sorted(body for body, _ in found) == [b"first", b"fourth", b"second", b"third"]
    assert started.resident_mb() > 1
    assert started.cpu_s() >= 0


@pytest.mark.slow
@pytest.mark.parametrize("server", DELAYING, indirect=True)
def test_what_is_delayed_comes_when_it_is_due(server: tuple[System, Started]) -> None:
    system, started = server
    client = system.client(started.address)
    client.make("q", ["one"])
    client.subscribe("q", "one")
    before = time.monotonic()
    client.publish_later("q", [b"later"], [1])
    [(body, _)] = received(client, 1)
    client.close()

    assert body == b"later"
    assert time.monotonic() >= before + 0.9


@pytest.mark.slow
def test_a_workload_publishes_and_counts_what_it_read_back() -> None:
    workload = replace(WORKLOADS[0], sizes=(100,))
    run = Run([named("penstock-os")], [workload], TINY, rounds=1)
    run.all()

    assert run.notes == {}
    [made] = run.measured
    assert made.figures.messages > 0
    assert made.figures.lost == made.figures.twice == 0
