"""The same with Kafka's other clients: kafka-python, aiokafka, and kcat, which is an older librdkafka."""

import asyncio
import os
import shutil
import subprocess
from typing import Any

import aiokafka
import aiokafka.admin
import kafka as kafka_python
import pytest
from kafka import admin as python_admin
from tests.frontends.kafka.conftest import Server

WAIT_S = 20
CODECS = [None, "gzip", "snappy", "lz4", "zstd"]

kcat_is_here = pytest.mark.skipif(
    shutil.which("kcat") is None and "CI" not in os.environ, reason="there is no kcat here"
)


# kafka-python.


def python_consumer(server: Server, **settings: Any) -> Any:
    return kafka_python.KafkaConsumer(
        bootstrap_servers=server.address,
        auto_offset_reset="earliest",
        consumer_timeout_ms=WAIT_S * 1000,
        **settings,
    )


def first(consumer: Any, count: int) -> list[Any]:
    return [next(consumer) for _ in range(count)]


@pytest.mark.parametrize("codec", ["gzip", None])
def test_kafka_python_produces_and_consumes(kafka: Server, codec: str | None) -> None:
    producer = kafka_python.KafkaProducer(bootstrap_servers=kafka.address, compression_type=codec)
    sent = [
        producer.send("orders", b"%d" % number, key=b"k%d" % number, headers=[("a", b"b")])
        for number in range(50)
    ]
    places = {(it.get(WAIT_S).partition, it.get(WAIT_S).offset) for it in sent}
    producer.close()

    consumer = python_consumer(kafka, group_id="billing")
    consumer.subscribe(["orders"])
    got = first(consumer, 50)
    consumer.close()

    assert {(it.partition, it.offset) for it in got} == places
    assert sorted(int(it.value) for it in got) == list(range(50))
    assert {tuple(it.headers) for it in got} == {(("a", b"b"),)}


def test_kafka_python_finds_offsets_by_time(kafka: Server) -> None:
    producer = kafka_python.KafkaProducer(bootstrap_servers=kafka.address)
    for second in (10, 20, 30):
        producer.send("orders", b"x", partition=0, timestamp_ms=1_700_000_000_000 + second).get(WAIT_S)
    producer.close()

    consumer = python_consumer(kafka)
    place = kafka_python.TopicPartition("orders", 0)
    found = consumer.offsets_for_times({place: 1_700_000_000_011})[place]
    ends = consumer.beginning_offsets([place])[place], consumer.end_offsets([place])[place]
    consumer.close()

    assert (found.offset, found.timestamp) == (1, 1_700_000_000_020)
    assert ends == (0, 3)


def test_kafka_python_administers(kafka: Server) -> None:
    admin = python_admin.KafkaAdminClient(bootstrap_servers=kafka.address)
    admin.create_topics([python_admin.NewTopic("jobs", 3, 1, topic_configs={"retention.ms": "1234"})])

    [told] = admin.describe_topics(["jobs"])
    resource = python_admin.ConfigResource(python_admin.ConfigResourceType.TOPIC, "jobs")
    settings = admin.describe_configs([resource])
    admin.delete_topics(["jobs"])
    admin.close()

    assert len(told["partitions"]) == 3
    assert list(settings["topic"]["jobs"]) == ["retention.ms"]  # It tells what is not as by default.
    assert kafka.run(kafka.broker.topics()) == []


def test_kafka_python_finds_a_cluster_of_one_broker(kafka: Server) -> None:
    kafka.run(kafka.broker.create_topic("orders", partitions=2))
    kafka.run(kafka.broker.publish("orders", bytes(1000), key="k"))
    place = kafka_python.TopicPartition("orders", 0)
    admin = python_admin.KafkaAdminClient(bootstrap_servers=kafka.address)

    [told] = admin.describe_log_dirs()
    moving = admin.list_partition_reassignments()
    moved = admin.alter_partition_reassignments({place: [0]})
    elected = admin.elect_leaders(0, {"orders": [0, 1]})
    admin.close()

    [directory] = told["log_dirs"]
    [topic] = directory["topics"]
    assert sum(each["partition_size"] for each in topic["partitions"]) > 1000
    assert (moving, moved) == ({}, {place: None})
    assert [code for _, code, *_ in elected.replica_election_results[0][1]] == [84, 84]


# aiokafka.


@pytest.mark.parametrize("codec", CODECS)
def test_aiokafka_produces_and_consumes(kafka: Server, codec: str | None) -> None:
    async def story() -> list[bytes | None]:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=kafka.address, compression_type=codec
        ) as producer:
            for number in range(50):
                await producer.send("orders", b"%d" % number * 20, key=b"k")
        consumer = aiokafka.AIOKafkaConsumer(
            "orders", bootstrap_servers=kafka.address, group_id="billing", auto_offset_reset="earliest"
        )
        async with consumer, asyncio.timeout(WAIT_S):
            return [(await consumer.getone()).value for _ in range(50)]

    assert asyncio.run(story()) == [b"%d" % number * 20 for number in range(50)]


def test_aiokafka_administers(kafka: Server) -> None:
    async def story() -> Any:
        admin = aiokafka.admin.AIOKafkaAdminClient(bootstrap_servers=kafka.address)
        await admin.start()
        await admin.create_topics([aiokafka.admin.NewTopic("jobs", 3, 1)])
        await admin.create_partitions({"jobs": aiokafka.admin.NewPartitions(5)})
        told = await admin.describe_topics(["jobs"])
        await admin.delete_topics(["jobs"])
        await admin.close()
        return told

    [told] = asyncio.run(story())

    assert len(told["partitions"]) == 5


# kcat.


def kcat(server: Server, *words: str, stdin: str = "") -> str:
    ran = subprocess.run(
        ["kcat", "-b", server.address, *words],
        input=stdin, capture_output=True, text=True, timeout=WAIT_S, check=True,
    )  # fmt: skip
    return ran.stdout


@kcat_is_here
@pytest.mark.slow
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kcat_produces_and_consumes(kafka: Server, codec: str) -> None:
    kcat(kafka, "-P", "-t", "orders", "-K:", "-z", codec, stdin="a:1\nb:2\nc:3\n")

    lines = kcat(kafka, "-C", "-t", "orders", "-o", "beginning", "-e", "-q", "-f", "%k=%s\n").split()

    assert sorted(lines) == ["a=1", "b=2", "c=3"]


@kcat_is_here
@pytest.mark.slow
def test_kcat_in_a_group_and_kcat_looks(kafka: Server) -> None:
    kcat(kafka, "-P", "-t", "orders", stdin="1\n2\n3\n")

    group = kcat(kafka, "-G", "billing", "-X", "auto.offset.reset=earliest", "-c", "3", "-q", "orders")
    listed = kcat(kafka, "-L", "-t", "orders")
    asked = kcat(kafka, "-Q", "-t", "orders:0:-1")

    assert sorted(group.split()) == ["1", "2", "3"]
    assert 'topic "orders" with 4 partitions' in listed
    assert "orders [0] offset" in asked
