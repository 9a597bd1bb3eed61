"""Nodes in real processes whose disks hold less than they own."""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.cluster.nodes import LISTENERS, PATIENCE_S, Nodes, settings
from tests.server.process import Server, until

import penstock

TOPIC = "photos"
PARTITIONS = 2
CACHE_BYTES = 16 << 20
SEGMENT_BYTES = 2 << 20
VALUE_BYTES = 100_000
COUNT = 480  # Three times the cache.
# Growing segments and what was published since the last look are on the disk, too.
DISK_BYTES_MAX = CACHE_BYTES + 4 * SEGMENT_BYTES


def small_node(home: Path, store: str, number: int) -> Server:
    limit = {"PENSTOCK_CLUSTER__CACHE_BYTES": str(CACHE_BYTES)}
    return Server(home, settings={**settings(store, number), **limit}, listeners=LISTENERS)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with Nodes(tmp_path, f"file://{tmp_path}/store", count=2, make=small_node) as nodes:
        yield nodes


def value(number: int) -> bytes:
    return sha256(b"%d" % number).digest() * (VALUE_BYTES // 32)


def segments(server: Server) -> list[Path]:
    return sorted((server.data / "cache" / "topics").glob(f"{TOPIC}/*/*.log"))


def disk_bytes(server: Server) -> int:
    sizes = []
    for path in (server.data / "cache").rglob("*"):
        try:
            sizes.append(path.stat().st_size if path.is_file() else 0)
        except FileNotFoundError:  # Evicted just now.
            continue
    return sum(sizes)


def read_all(broker: penstock.Broker, partition: int) -> list[bytes]:
    found: list[bytes] = []
    while messages := broker.read(TOPIC, partition=partition, offset=len(found), limit=50):
        found += [message.value for message in messages]
    return found


def kafka_values(server: Server, partition: int, count: int) -> list[bytes]:
    address = f"127.0.0.1:{server.ports['kafka']}"
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, partition, 0)])
    try:
        found: list[bytes] = []
        while len(found) < count:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            assert message.error() is None, message.error()
            found.append(message.value() or b"")
        return found
    finally:
        consumer.close()


def consumed(broker: penstock.Broker, count: int) -> set[tuple[int, int]]:
    """What a queue group gets from the beginning on."""
    found: set[tuple[int, int]] = set()
    with broker.consumer(TOPIC, group="workers", start="earliest") as consumer:
        while len(found) < count:
            messages = consumer.receive(20, wait="30s")
            assert messages
            for message in messages:
                assert message.value == value(PARTITIONS * message.offset + message.partition)
            consumer.ack(messages)
            found |= {(message.partition, message.offset) for message in messages}
    return found


def damage(server: Server) -> None:
    """Delete one half of the files of old segments, and change the other half, under the running node."""
    by_folder: dict[Path, list[Path]] = {}
    for path in segments(server):
        by_folder.setdefault(path.parent, []).append(path)
    for paths in by_folder.values():
        for number, path in enumerate(paths[:-1]):  # The last one is still growing.
            if number % 2:
                path.unlink(missing_ok=True)
            else:
                with suppress(FileNotFoundError), path.open("r+b") as file:  # It may be evicted just now.
                    file.seek(SEGMENT_BYTES // 2)
                    file.write(b"damage")


@pytest.mark.slow
def test_a_small_cache_holds_a_large_topic_through_damage_and_a_kill(nodes: Nodes) -> None:
    with nodes.connect(1) as broker, nodes.connect(2) as other_broker:
        broker.create_topic(TOPIC, partitions=PARTITIONS, segment_bytes=SEGMENT_BYTES)
        until(lambda: other_broker.topic_exists(TOPIC))
        for number in range(COUNT):
            broker.publish(TOPIC, value(number), partition=number % PARTITIONS)
    expected = [[value(number) for number in range(each, COUNT, PARTITIONS)] for each in range(PARTITIONS)]

    until(lambda: max(map(disk_bytes, nodes.servers)) < DISK_BYTES_MAX)
    with nodes.connect(2) as broker:
        assert [read_all(broker, each) for each in range(PARTITIONS)] == expected
        assert broker.read(TOPIC, partition=0, from_time=0, limit=1)[0].offset == 0
        for server in nodes.servers:
            damage(server)
        assert [read_all(broker, each) for each in range(PARTITIONS)] == expected
    owner = max(nodes.servers, key=lambda server: len(segments(server)))
    other = next(server for server in nodes.servers if server is not owner)
    owner.kill()
    shutil.rmtree(owner.data)

    with penstock.connect(other.url) as broker:
        assert kafka_values(other, 1, COUNT // PARTITIONS) == expected[1]
        assert len(consumed(broker, COUNT)) == COUNT
        until(lambda: disk_bytes(other) < DISK_BYTES_MAX)
    owner.start()
