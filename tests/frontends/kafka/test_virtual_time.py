"""penstock.testing behind a Kafka port: unmodified clients, and time that a test moves."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.frontends.kafka.clients import receive, values
from tests.frontends.kafka.raw import Raw

from penstock.testing.kafka import KafkaServer
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.groups.share import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


def member(kafka: KafkaServer) -> Consumer:
    consumer = Consumer(
        {"bootstrap.servers": kafka.address, "group.id": "billing", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    return consumer


def publish(kafka: KafkaServer, value: bytes, delay_ms: int = 0) -> None:
    producer = Producer({"bootstrap.servers": kafka.address})
    producer.produce("orders", value, headers={"x-delay-ms": str(delay_ms)} if delay_ms else None)
    assert producer.flush(20) == 0


def test_a_delay_of_three_days_is_over_at_once(penstock_kafka: KafkaServer) -> None:
    kafka = penstock_kafka
    kafka.run(kafka.broker.create_topic("orders", partitions=1, kafka_headers=True))
    publish(kafka, b"later", delay_ms=3 * 24 * 3600 * 1000)
    publish(kafka, b"now")
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": "nobody's"})
    consumer.assign([TopicPartition("orders", 0, 0)])
    assert values(receive(consumer, 1)) == [b"now"]

    kafka.advance("3d")

    assert values(receive(consumer, 1)) == [b"later"]
    consumer.close()


@pytest.mark.slow
def test_a_member_goes_on_from_its_commit_after_a_long_time(penstock_kafka: KafkaServer) -> None:
    publish(penstock_kafka, b"x")
    consumer = member(penstock_kafka)
    receive(consumer, 1)
    consumer.commit(asynchronous=False)

    penstock_kafka.advance("1h")
    publish(penstock_kafka, b"y")

    assert values(receive(consumer, 1)) == [b"y"]
    consumer.close()


@pytest.mark.slow
def test_a_fetch_does_not_wait_for_a_clock_that_stands(penstock_kafka: KafkaServer) -> None:
    publish(penstock_kafka, b"x")
    consumer = member(penstock_kafka)
    receive(consumer, 1)

    asked = penstock_kafka.broker.clock.steady_ms()
    assert consumer.poll(0.5) is None
    publish(penstock_kafka, b"y")

    assert values(receive(consumer, 1)) == [b"y"]
    assert penstock_kafka.broker.clock.steady_ms() == asked
    consumer.close()


def test_a_loop_of_its_own_is_served_too(penstock_kafka: KafkaServer) -> None:
    async def send_and_read() -> bytes | None:
        async with AIOKafkaProducer(bootstrap_servers=penstock_kafka.address) as producer:
            await producer.send_and_wait("orders", b"x")
        async with AIOKafkaConsumer(
            "orders", bootstrap_servers=penstock_kafka.address, auto_offset_reset="earliest"
        ) as consumer:
            message = await asyncio.wait_for(consumer.getone(), 20)
        value: bytes | None = message.value
        return value

    assert asyncio.run(send_and_read()) == b"x"


def test_servers_do_not_know_each_other_and_end(penstock_kafka: KafkaServer) -> None:
    publish(penstock_kafka, b"x")
    with KafkaServer() as other:
        assert other.address != penstock_kafka.address
        assert other.run(other.broker.topics()) == []
    other.close()

    assert penstock_kafka.run(penstock_kafka.broker.topics()) == ["orders"]


def test_a_member_of_a_share_group_that_is_silent_is_removed_when_its_time_is_over(
    penstock_kafka: KafkaServer,
) -> None:
    penstock_kafka.run(penstock_kafka.broker.create_topic("orders", partitions=1))

    def beat(raw: Raw, epoch: int) -> int:
        asked = ShareGroupHeartbeatRequest("billing", "one", epoch, None, None if epoch else ["orders"])
        return raw.ask(asked, ShareGroupHeartbeatResponse, 1).error_code

    with Raw(penstock_kafka) as raw:
        assert beat(raw, 0) == Code.NONE
        penstock_kafka.advance("44s")
        assert beat(raw, 1) == Code.NONE
        penstock_kafka.advance("44s")
        assert beat(raw, 1) == Code.NONE, "a heartbeat gives it time"
        penstock_kafka.advance("45s")
        assert beat(raw, 1) == Code.UNKNOWN_MEMBER_ID
