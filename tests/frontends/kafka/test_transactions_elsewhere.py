"""Transactions with the other clients of Python: aiokafka, and kafka-python."""

import asyncio
from collections.abc import Iterator
from typing import Any

import aiokafka
import aiokafka.errors
import kafka as kafka_python
import kafka.errors
import pytest
from tests.frontends.kafka.conftest import Server

TOPIC = "orders"
WAIT_S = 20


@pytest.fixture
def orders(kafka: Server) -> Server:
    kafka.run(kafka.broker.create_topic(TOPIC, partitions=1))
    kafka.run(kafka.broker.create_topic("input", partitions=1))
    kafka.run(kafka.broker.publish_batch("input", [b"in"] * 5))
    return kafka


# aiokafka.


def test_aiokafka_commits_and_aborts(orders: Server) -> None:
    async def story() -> list[bytes | None]:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=orders.address, transactional_id="t", enable_idempotence=True
        ) as producer:
            for number in range(6):
                await producer.begin_transaction()
                for place in range(3):
                    await producer.send_and_wait(TOPIC, b"%d.%d" % (number, place), partition=0)
                await (producer.abort_transaction() if number % 2 else producer.commit_transaction())
        return await received(orders, 9)

    wanted = [b"%d.%d" % (number, place) for number in (0, 2, 4) for place in range(3)]
    assert asyncio.run(story()) == wanted


async def received(kafka: Server, count: int) -> list[bytes | None]:
    consumer = aiokafka.AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=kafka.address,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    async with consumer, asyncio.timeout(WAIT_S):
        return [(await consumer.getone()).value for _ in range(count)]


def test_aiokafka_is_told_that_it_is_fenced(orders: Server) -> None:
    async def story() -> None:
        def made() -> Any:
            return aiokafka.AIOKafkaProducer(bootstrap_servers=orders.address, transactional_id="t")

        first, second = made(), made()
        await first.start()
        await first.begin_transaction()
        await first.send_and_wait(TOPIC, b"of the first")
        await second.start()
        with pytest.raises(aiokafka.errors.ProducerFenced):
            await first.commit_transaction()
        await first.stop()
        async with second.transaction():
            await second.send_and_wait(TOPIC, b"of the second")
        await second.stop()
        assert await received(orders, 1) == [b"of the second"]

    asyncio.run(story())


def test_aiokafka_commits_places_with_a_transaction(orders: Server) -> None:
    place = aiokafka.TopicPartition("input", 0)

    async def story() -> None:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=orders.address, transactional_id="t"
        ) as producer:
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({place: 2}, "workers")
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send(TOPIC, b"out")
                await producer.send_offsets_to_transaction({place: 4}, "workers")

    asyncio.run(story())

    assert orders.run(orders.broker.describe_group("input", "workers")).lag == 1


# kafka-python.


@pytest.fixture
def producer(orders: Server) -> Iterator[Any]:
    producer = kafka_python.KafkaProducer(bootstrap_servers=orders.address, transactional_id="t")
    producer.init_transactions()
    yield producer
    producer.close(timeout=WAIT_S)


def test_kafka_python_commits_and_aborts(orders: Server, producer: Any) -> None:
    for number in range(4):
        producer.begin_transaction()
        for place in range(3):
            producer.send(TOPIC, b"%d.%d" % (number, place)).get(timeout=WAIT_S)
        producer.abort_transaction() if number % 2 else producer.commit_transaction()

    consumer = kafka_python.KafkaConsumer(
        TOPIC,
        bootstrap_servers=orders.address,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        consumer_timeout_ms=WAIT_S * 1000,
    )
    got = [next(consumer).value for _ in range(6)]
    consumer.close()
    assert got == [b"%d.%d" % (number, place) for number in (0, 2) for place in range(3)]


def test_kafka_python_is_told_that_it_is_fenced(orders: Server, producer: Any) -> None:
    producer.begin_transaction()
    producer.send(TOPIC, b"of the first").get(timeout=WAIT_S)
    second = kafka_python.KafkaProducer(bootstrap_servers=orders.address, transactional_id="t")
    second.init_transactions()

    with pytest.raises(kafka.errors.KafkaError):
        producer.commit_transaction()
    second.close(timeout=WAIT_S)
    assert orders.run(orders.broker.read(TOPIC)) == []


def test_kafka_python_commits_places_with_a_transaction(orders: Server, producer: Any) -> None:
    place = kafka_python.TopicPartition("input", 0)
    producer.begin_transaction()
    producer.send(TOPIC, b"out")
    metadata = kafka_python.OffsetAndMetadata(3, "note", -1)
    producer.send_offsets_to_transaction({place: metadata}, "workers")
    producer.commit_transaction()

    assert orders.run(orders.broker.describe_group("input", "workers")).lag == 2
    assert len(orders.run(orders.broker.read(TOPIC))) == 1


def test_kafka_python_writes_once_without_a_transaction(orders: Server) -> None:
    producer = kafka_python.KafkaProducer(bootstrap_servers=orders.address, enable_idempotence=True)
    sent = [producer.send(TOPIC, b"%d" % number) for number in range(100)]
    producer.flush(timeout=WAIT_S)
    producer.close(timeout=WAIT_S)

    assert [it.get(timeout=WAIT_S).offset for it in sent] == list(range(100))
