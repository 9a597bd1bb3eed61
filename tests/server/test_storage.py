"""Something is wrong with a server's storage: what it refuses, and everywhere it says so.

Each problem is one line in the log when it begins (and one when it is over, if it passes), fails /readyz,
is counted by /metrics, and is listed for the overview page.
"""

import json
import shutil
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from tests.full_disk import publish_until_full
from tests.server.process import Server, until

import penstock
from penstock.errors import DiskFull, StorageFailed, TopicDamaged

LISTENERS = ("native", "http")


def get(server: Server, path: str) -> tuple[int, str]:
    """Status and body of an answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['http']}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode()


def problems(server: Server) -> list[dict[str, Any]]:
    """What the overview page is told."""
    status, body = get(server, "/v1/overview")
    assert status == 200
    listed: list[dict[str, Any]] = json.loads(body)["broker"]["problems"]
    return listed


def metric(server: Server, name: str) -> float:
    _, body = get(server, "/metrics")
    [line] = [line for line in body.splitlines() if line.startswith(f"{name} ")]
    return float(line.rpartition(" ")[2])


def lines(server: Server, text: str) -> list[str]:
    return [line for line in server.log().splitlines() if text in line]


@pytest.mark.slow
def test_a_full_disk_is_said_once_and_once_when_it_is_over(tmp_path: Path, tiny_disk: Path) -> None:
    ballast = tiny_disk / "ballast"
    ballast.write_bytes(bytes(400_000))
    with Server(tmp_path, data=tiny_disk / "data", listeners=LISTENERS) as server:
        with penstock.connect(server.url) as broker:
            broker.create_topic("orders", partitions=1, retention=None)
            assert get(server, "/readyz")[0] == 200
            publish_until_full(broker)
            for _ in range(20):
                with pytest.raises(DiskFull):
                    broker.publish("orders", bytes(100_000))

            status, body = get(server, "/readyz")
            assert (status, json.loads(body)["code"]) == (503, "UNHEALTHY")
            assert get(server, "/livez")[0] == 200
            assert [problem["kind"] for problem in problems(server)] == ["disk_full"]
            assert metric(server, 'penstock_problems{kind="disk_full"}') == 1
            assert metric(server, 'penstock_writes_refused_total{code="DISK_FULL"}') > 20
            assert 0 <= metric(server, "penstock_disk_free_bytes") < 200_000
            time.sleep(2.5)  # It looks again and again, and says no more.
            assert len(lines(server, "no room on the disk")) == 1

            ballast.unlink()
            until(lambda: get(server, "/readyz")[0] == 200)
            assert problems(server) == []
            assert len(lines(server, "there is room on the disk again")) == 1
            broker.publish("orders", b"more")
        assert len(lines(server, "no room on the disk")) == 1


def test_nothing_is_acknowledged_that_goes_to_deleted_files(tmp_path: Path) -> None:
    with Server(tmp_path, listeners=LISTENERS) as server, penstock.connect(server.url) as broker:
        for topic in ("orders", "others"):
            broker.create_topic(topic, partitions=1)
            broker.publish(topic, b"kept")
        shutil.rmtree(server.data / "topics" / "orders")

        for _ in range(3):
            with pytest.raises(StorageFailed):
                broker.publish("orders", b"lost")

        broker.publish("others", b"fine")
        assert get(server, "/readyz")[0] == 503
        [problem] = problems(server)
        assert (problem["kind"], problem["topic"]) == ("directory_gone", "orders")
        assert len(lines(server, "removed while they were in use")) == 1
        server.kill()


def test_a_partition_without_files_does_not_bring_a_removed_topic_back(tmp_path: Path) -> None:
    with Server(tmp_path, listeners=LISTENERS) as server, penstock.connect(server.url) as broker:
        broker.create_topic("orders", partitions=3)
        broker.publish("orders", b"kept", partition=0)
        folder = server.data / "topics" / "orders"
        shutil.rmtree(folder)

        for partition in range(3):
            for delay in (None, "1h"):
                with pytest.raises(StorageFailed) as refused:
                    broker.publish("orders", b"lost", partition=partition, delay=delay)
                assert refused.value.path.startswith("topics/orders/")  # No path of the machine.
        with pytest.raises(StorageFailed):
            broker.create_group("orders", "billing")
            broker.consumer("orders", group="billing").receive()

        assert not folder.exists()
        assert get(server, "/readyz")[0] == 503
        assert len(lines(server, "removed while they were in use")) == 1
        server.kill()


def test_a_data_directory_that_is_moved_away_is_noticed_though_nobody_writes(tmp_path: Path) -> None:
    with Server(tmp_path, listeners=LISTENERS) as server, penstock.connect(server.url) as broker:
        broker.create_topic("orders", partitions=1)
        broker.publish("orders", b"kept")
        server.data.rename(server.data.with_name("elsewhere"))

        until(lambda: get(server, "/readyz")[0] == 503)

        with pytest.raises(StorageFailed):
            broker.publish("orders", b"lost")
        assert [problem["kind"] for problem in problems(server)] == ["directory_gone"]
        assert metric(server, 'penstock_problems{kind="directory_gone"}') == 1
        time.sleep(1.5)
        assert len(lines(server, "the data directory was removed or replaced")) == 1
        server.kill()
        server.data.with_name("elsewhere").rename(server.data)
        server.start()
        assert [message.value for message in broker.read("orders")] == [b"kept"]


def test_damage_is_worked_around_and_said_once(tmp_path: Path) -> None:
    server = Server(tmp_path, listeners=LISTENERS)
    with server, penstock.connect(server.url) as broker:
        for topic in ("orders", "others"):
            broker.create_topic(topic, partitions=1)
            for number in range(10):
                broker.publish(topic, b"%s %d" % (topic.encode(), number))
        assert server.stop() == 0
        segment = server.data / "topics" / "orders" / "0" / f"{0:020d}.log"
        segment.write_bytes(segment.read_bytes().replace(b"orders 4", b"orders X"))
        settings = server.data / "topics" / "others" / "topic.json"
        intact = settings.read_bytes()
        settings.write_bytes(intact[:-3])

        server.start()  # In spite of it.

        expected = [b"orders %d" % number for number in range(10) if number != 4]
        with broker.consumer("orders", group="queue") as consumer:
            assert [message.value for message in consumer.receive(100)] == expected
        with broker.consumer("orders", group="stream", kind="stream") as consumer:
            assert [message.value for message in consumer.receive(100)] == expected
        assert [message.value for message in broker.read("orders")] == expected
        assert broker.describe_group("orders", "queue").lag
        status, body = get(server, "/v1/topics/orders/messages?limit=100")
        assert (status, body.count("orders:0:")) == (200, 9)
        with pytest.raises(TopicDamaged):
            broker.read("others")
        assert sorted(problem["kind"] for problem in problems(server)) == ["damaged", "topic_offline"]
        [damaged] = [problem for problem in problems(server) if problem["kind"] == "damaged"]
        assert (damaged["first_offset"], damaged["end_offset"]) == (4, 5)
        assert metric(server, "penstock_damaged_offsets") == 1
        assert get(server, "/readyz")[0] == 503
        assert len(lines(server, "offset 4 in the data of orders:0 cannot be read")) == 1
        assert len(lines(server, "topic 'others' is offline")) == 1
        settings.write_bytes(intact)
        server.kill()


def test_a_kafka_consumer_that_checks_checksums_gets_everything_around_damage(tmp_path: Path) -> None:
    server = Server(tmp_path, listeners=("native", "kafka"))
    with server, penstock.connect(server.url) as broker:
        broker.create_topic("orders", partitions=1)
        for number in range(300):
            broker.publish("orders", b"order %03d" % number)
        assert server.stop() == 0
        segment = server.data / "topics" / "orders" / "0" / f"{0:020d}.log"
        content = bytearray(segment.read_bytes())
        content[content.index(b"order 178")] ^= 1  # In a record, which only a checksum shows,
        size = content.index(b"order 101") - content.index(b"order 100")
        content[content.index(b"order 033") % size + 33 * size - 60] ^= 0x40  # and in a header.
        segment.write_bytes(content)
        server.start()
        consumer = Consumer(
            {
                "bootstrap.servers": f"127.0.0.1:{server.ports['kafka']}",
                "group.id": "reader",
                "auto.offset.reset": "earliest",
                "check.crcs": True,
            }
        )
        consumer.subscribe(["orders"])
        received: list[int | None] = []
        deadline = time.monotonic() + 60
        while len(received) < 298 and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                received.append(message.offset())
        consumer.close()

        assert received == [number for number in range(300) if number not in (33, 178)]
