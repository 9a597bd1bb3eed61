"""No client waits for the long work of another: the event loop works for at most 50 ms without a break.

The server runs under ``watched.py``, which logs longer work by the processor time of the loop's thread.
Beside each piece of work one client publishes and another one sends pings, as other users would.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.server.process import PATIENCE_S, Server, until
from tests.stalls import check_logged

import penstock
from penstock import Message
from penstock.client.sync import RemoteBroker

pytestmark = pytest.mark.slow

WATCHED = str(Path(__file__).with_name("watched.py"))
PARTITIONS = 1500
KEPT = 500  # Each is opened and closed: half a second of work.
MOST = 10_000  # Partitions of a topic; a soak keeps as many over a stop and a kill.
STOP_S = 10.0  # server.stop_timeout.
ENDING_S = 5.0  # For the process to end behind it: 0.2 s of work, on a machine that does much else.
START_S = 600.0  # What the systemd unit and the Helm chart allow; on a busy disk, recovery takes minutes.
BATCH = 500
MIB = 1 << 20
SETTINGS = {
    "PENSTOCK_BROKER__MAINTENANCE": "200ms",
    "PENSTOCK_BROKER__SNAPSHOT_BYTES": "16KiB",
    "PENSTOCK_TOPIC__DURABILITY": "os",  # What is measured is work, not the disk.
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("stalls")
    with Server(folder, settings=SETTINGS, program=(WATCHED,)) as running:
        with penstock.connect(running.url) as broker:
            broker.create_topic("calm", partitions=1)
        yield running


@pytest.fixture
def broker(server: Server) -> Iterator[RemoteBroker]:
    with penstock.connect(server.url, request_timeout="10m") as connected:
        yield connected


@contextmanager
def without_stalls(server: Server) -> Iterator[None]:
    """Others are served meanwhile, and nothing that the server did took too long."""
    begun = len(server.log())
    ended = threading.Event()
    served = {"publish": 0, "ping": 0}
    failures: list[BaseException] = []

    def publish() -> None:
        with penstock.connect(server.url) as other:
            while not ended.is_set():
                other.publish("calm", b"x")
                served["publish"] += 1
                time.sleep(0.005)

    def ping() -> None:
        with server.connect("text") as other:
            while not ended.is_set():
                other.sendall(b"PING\n")
                assert b"PONG" in other.recv(100)
                served["ping"] += 1
                time.sleep(0.005)

    def noting(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - the test must hear of it
            failures.append(error)

    threads = [threading.Thread(target=noting, args=(function,)) for function in (publish, ping)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: all(served.values()) or bool(failures))
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(PATIENCE_S)
    assert failures == []
    check_stalls(server, begun)


def check_stalls(server: Server, begun: int) -> None:
    """Nothing was logged from there on; if so, the stacks are."""
    log = server.log()[begun:]
    try:
        check_logged(log)
    except AssertionError:
        raise AssertionError(log[-6000:]) from None


def publish_everywhere(broker: RemoteBroker, topic: str, partitions: int) -> None:
    for first in range(0, partitions, BATCH):
        broker.publish_batch(topic, [Message(b"x", partition=first + each) for each in range(BATCH)])


def test_thousands_of_partitions_come_are_used_and_go(server: Server, broker: RemoteBroker) -> None:
    with without_stalls(server):
        broker.create_topic("many", partitions=PARTITIONS - 100)
        broker.create_group("many", "workers")
        broker.alter_topic("many", partitions=PARTITIONS)
        publish_everywhere(broker, "many", PARTITIONS)
        with broker.consumer("many", group="workers") as consumer:
            left = PARTITIONS
            while left:
                some = consumer.receive(1000, wait="10s")
                assert some
                consumer.ack(some)
                left -= len(some)
        with broker.consumer("many", group="readers", kind="stream") as reader:
            left = PARTITIONS
            while left:
                left -= len(reader.receive(1000, wait="10s"))
            reader.commit()
        broker.seek("many", "workers", "earliest")
        assert broker.describe_topic("many").messages == PARTITIONS
        broker.delete_group("many", "workers")
        broker.delete_topic("many")
        until(lambda: not any("many" in each.name for each in (server.data / "topics").iterdir()))
        time.sleep(0.5)  # The next maintenance frees its memory.


def test_a_topic_with_as_many_partitions_as_there_can_be_comes_and_goes(
    server: Server, broker: RemoteBroker
) -> None:
    with without_stalls(server):
        broker.create_topic("most", partitions=MOST)
        publish_everywhere(broker, "most", BATCH)
        broker.delete_topic("most")
        until(lambda: not any("most" in each.name for each in (server.data / "topics").iterdir()))


HELD = pytest.mark.parametrize("partitions", [KEPT, pytest.param(MOST, marks=pytest.mark.soak)])


@HELD
def test_a_server_with_thousands_of_partitions_stops_and_starts_within_its_deadlines(
    server: Server, broker: RemoteBroker, partitions: int
) -> None:
    broker.create_topic("kept", partitions=partitions)
    broker.create_group("kept", "workers")
    publish_everywhere(broker, "kept", partitions)
    begun = len(server.log())

    began = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - began < STOP_S + ENDING_S
    server.start(START_S)

    check_stalls(server, begun)
    with penstock.connect(server.url, request_timeout="10m") as again, without_stalls(server):
        assert again.describe_topic("kept").messages == partitions
        again.delete_topic("kept")


@HELD
def test_a_server_with_thousands_of_partitions_is_killed_and_starts_within_its_deadline(
    server: Server, broker: RemoteBroker, partitions: int
) -> None:
    broker.create_topic("killed", partitions=partitions)
    broker.create_group("killed", "workers")
    publish_everywhere(broker, "killed", partitions)
    begun = len(server.log())

    server.kill()
    server.start(START_S)

    check_stalls(server, begun)
    with penstock.connect(server.url, request_timeout="10m") as again:
        assert again.describe_topic("killed").messages == partitions
        again.delete_topic("killed")


def test_a_topic_with_many_segments_leases_and_delayed_messages_is_deleted(
    server: Server, broker: RemoteBroker
) -> None:
    broker.create_topic("large", partitions=4, segment_bytes=65_536)
    broker.create_group("large", "workers", start="earliest")
    for _ in range(100):
        broker.publish_batch("large", [bytes(1000)] * 200)
    for _ in range(20):
        broker.publish_batch("large", [Message(b"later", delay="1h")] * 250)
    with broker.consumer("large", group="workers") as consumer:
        left = 10_000  # They are in flight when the topic goes.
        while left:
            some = consumer.receive(min(left, 1000), wait="10s")
            assert some
            left -= len(some)

        with without_stalls(server):
            broker.delete_topic("large")
            until(lambda: not any("large" in each.name for each in (server.data / "topics").iterdir()))
            time.sleep(0.5)  # The next maintenance frees its memory.


def test_retention_deletes_hundreds_of_segments(server: Server, broker: RemoteBroker) -> None:
    broker.create_topic("short", partitions=1, segment_bytes=65_536)
    with without_stalls(server):
        for _ in range(200):
            broker.publish_batch("short", [bytes(1000)] * 100)
        broker.alter_topic("short", retention_bytes=100_000)
        until(lambda: broker.describe_topic("short").bytes < 200_000)


def test_a_snapshot_of_many_failures_is_taken(server: Server, broker: RemoteBroker) -> None:
    broker.create_topic("failing", partitions=1)
    broker.create_group("failing", "workers", start="earliest", backoff="fixed:60000")
    with without_stalls(server), broker.consumer("failing", group="workers") as consumer:
        broker.publish_batch("failing", [b"%d" % number for number in range(5000)])
        left = 5000
        while left:
            some = consumer.receive(1000, wait="10s")
            left -= len(some)
            for message in some:
                consumer.nack(message, error="not now")
        snapshot = next((server.data / "topics" / "failing").glob("0/journal")) / "snapshot"
        until(snapshot.exists)


def test_a_large_compacted_topic_is_compacted(server: Server, broker: RemoteBroker) -> None:
    broker.create_topic("states", partitions=1, compact=True, segment_bytes=4 * MIB)
    with without_stalls(server):
        for _ in range(20):
            broker.publish_batch("states", [Message(bytes(500), key=b"%d" % key) for key in range(2000)])
        broker.publish_batch("states", [Message(bytes(MIB - 5000), key=b"%d" % key) for key in range(3)])
        until(lambda: broker.describe_topic("states").bytes < 10 * MIB)


def test_large_messages_and_large_receives(server: Server, broker: RemoteBroker) -> None:
    with without_stalls(server):
        broker.create_topic("films", partitions=1)
        broker.create_group("films", "viewers", start="earliest")
        for _ in range(60):
            broker.publish("films", bytes(MIB - 1024))
        broker.publish_batch("films", [bytes(1000)] * 20_000)
        left = 20_060
        with broker.consumer("films", group="viewers") as consumer:
            while left:
                some = consumer.receive(10_000, wait="10s")
                assert some
                consumer.ack(some)
                left -= len(some)
        broker.delete_topic("films")
