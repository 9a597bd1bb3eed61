"""Messages in and out, with confluent-kafka (librdkafka)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, KafkaError, KafkaException, TopicPartition
from tests.frontends.kafka.clients import producer, publish, reader, receive, values
from tests.frontends.kafka.conftest import Server, serving
from tests.server.process import until

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_produced_is_consumed(kafka: Server, codec: str) -> None:
    contents = [b"value %d" % number * 10 for number in range(200)]
    told = publish(kafka, contents, settings={"compression.type": codec})

    consumer = reader(kafka)
    got = receive(consumer, len(contents))
    consumer.close()

    assert values(got) == sorted(contents)
    places = {(it.partition(), it.offset()): it.key() for it in told}
    assert {(it.partition(), it.offset()): it.key() for it in got} == places


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement(kafka: Server, acks: str) -> None:
    publish(kafka, [b"a", b"b", b"c"], settings={"acks": acks})

    consumer = reader(kafka)
    assert values(receive(consumer, 3)) == [b"a", b"b", b"c"]
    consumer.close()


@pytest.fixture
def on_disk(tmp_path: Path) -> Iterator[Server]:
    yield from serving(str(tmp_path))


def test_what_nobody_waits_for_is_synced_all_the_same(on_disk: Server) -> None:
    """No other client does anything that would sync it in passing."""
    publish(on_disk, [b"a"], settings={"acks": "0"})

    until(lambda: [message.value for message in on_disk.run(on_disk.broker.read("orders"))] == [b"a"])


def test_a_message_of_a_megabyte(kafka: Server) -> None:
    value = bytes(1_000_000)
    publish(kafka, [value] * 3, settings={"message.max.bytes": 2_000_000})

    consumer = reader(kafka)
    assert [it.value() for it in receive(consumer, 3)] == [value] * 3
    consumer.close()


def test_a_message_that_is_too_large_is_refused_as_such(kafka: Server) -> None:
    told: list[KafkaError | None] = []
    made = producer(kafka, settings={"message.max.bytes": 4_000_000})

    made.produce("orders", bytes(3_000_000), on_delivery=lambda error, it: told.append(error))
    made.flush(20)

    assert [error and error.code() for error in told] == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_a_reader_that_waits_is_woken(kafka: Server) -> None:
    publish(kafka, [b"first"])
    consumer = reader(kafka, settings={"fetch.wait.max.ms": 20_000})
    receive(consumer, 1)

    made = producer(kafka)
    for number in range(20):
        made.produce("orders", b"%d" % number)
        made.flush(5)
        [got] = consumer.consume(1, timeout=10)
        assert got.value() == b"%d" % number

    consumer.close()


def test_a_topic_is_not_made_if_the_client_does_not_want_it(kafka: Server) -> None:
    consumer = reader(kafka, settings={"allow.auto.create.topics": False})

    with pytest.raises(KafkaException) as refusal:
        consumer.get_watermark_offsets(TopicPartition("nowhere", 0), timeout=3)
    consumer.close()

    assert refusal.value.args[0].code() in (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    )
    assert "nowhere" not in kafka.run(kafka.broker.topics())


def test_an_offset_that_is_not_there_is_out_of_range(kafka: Server) -> None:
    publish(kafka, [b"a"])
    consumer = reader(kafka, start=100, settings={"auto.offset.reset": "error"})

    got = consumer.poll(10)
    consumer.close()

    error = got and got.error()
    assert error
    assert error.code() == KafkaError._AUTO_OFFSET_RESET


def test_a_penstock_consumer_works_on_what_a_kafka_client_wrote(kafka: Server) -> None:
    publish(kafka, [b"job"])

    async def work() -> bytes | None:
        async with await kafka.broker.consumer("orders", group="workers") as consumer:
            [message] = await consumer.receive(1, wait="5s")
            await message.ack()
            return message.value

    assert kafka.run(work()) == b"job"


def test_a_kafka_client_reads_what_penstock_wrote(kafka: Server) -> None:
    async def write() -> None:
        await kafka.broker.create_topic("orders")
        await kafka.broker.publish("orders", b"hello", key="k", headers={"a": "b"})

    kafka.run(write())
    consumer = reader(kafka)
    [got] = receive(consumer, 1)
    consumer.close()

    assert (got.value(), got.key(), got.headers()) == (b"hello", b"k", [("a", b"b")])


def test_messages_keep_the_times_their_producer_gave_them(kafka: Server) -> None:
    made = producer(kafka)
    for timestamp in (1_700_000_000_000, 1_600_000_000_000):
        made.produce("orders", b"x", partition=0, timestamp=timestamp)
    made.flush(10)

    consumer = reader(kafka)
    got = receive(consumer, 2)
    consumer.close()

    assert [it.timestamp() for it in got] == [
        (TIMESTAMP_CREATE_TIME, 1_700_000_000_000),
        (TIMESTAMP_CREATE_TIME, 1_600_000_000_000),
    ]


def test_a_time_that_is_far_ahead_is_refused(kafka: Server) -> None:
    told: list[KafkaError | None] = []
    made = producer(kafka)

    made.produce(
        "orders", b"x", timestamp=4_000_000_000_000, on_delivery=lambda error, it: told.append(error)
    )
    made.flush(10)

    assert [error and error.code() for error in told] == [KafkaError.INVALID_TIMESTAMP]
