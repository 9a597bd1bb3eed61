"""What a Kafka producer can ask for by the headers of a record, on topics that look at them."""

import pytest
from confluent_kafka import KafkaError
from tests.frontends.kafka.clients import producer, reader, receive
from tests.frontends.kafka.conftest import Server

Headers = list[tuple[str, str | bytes | None]]
FAR = 4_000_000_000_000  # In the year 2096.


@pytest.fixture
def orders(kafka: Server) -> Server:
    kafka.run(kafka.broker.create_topic("orders", partitions=1, kafka_headers=True, delay_max="40000d"))
    return kafka


def send(kafka: Server, *messages: tuple[bytes, Headers], idempotent: bool = True) -> list[KafkaError | None]:
    told: list[KafkaError | None] = []
    made = producer(kafka, {"linger.ms": 20, "enable.idempotence": idempotent})
    for value, headers in messages:
        made.produce("orders", value, headers=headers, on_delivery=lambda error, it: told.append(error))
    assert made.flush(10) == 0
    return told


def received(kafka: Server, count: int) -> list[bytes | None]:
    async def work() -> list[bytes | None]:
        async with await kafka.broker.consumer("orders", group="workers") as consumer:
            messages = await consumer.receive(count, wait="5s")
            await consumer.ack(messages)
            return [message.value for message in messages]

    return kafka.run(work())


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_delayed_message_waits_and_the_others_do_not(orders: Server, idempotent: bool) -> None:
    soon: Headers = [("x-delay-ms", b"1"), ("kept", b"1")]
    later: Headers = [("x-deliver-at", b"%d" % FAR)]

    told = send(orders, (b"soon", soon), (b"later", later), (b"plain", [("a", b"b")]), idempotent=idempotent)

    assert told == [None] * 3
    assert orders.run(orders.broker.scheduled_count("orders")) >= 1
    consumer = reader(orders)
    got = {it.value(): list(it.headers() or [])[:1] for it in receive(consumer, 2)}
    consumer.close()
    assert got == {b"soon": [("kept", b"1")], b"plain": [("a", b"b")]}


def test_the_highest_priority_comes_first(orders: Server) -> None:
    send(orders, (b"low", [("x-priority", b"low")]), (b"normal", []), (b"high", [("x-priority", b"1")]))

    assert [received(orders, 1) for _ in range(3)] == [[b"high"], [b"normal"], [b"low"]]


def test_a_dedup_id_is_written_once(orders: Server) -> None:
    send(orders, (b"first", [("x-dedup-id", b"7")]))
    send(orders, (b"again", [("x-dedup-id", b"7")]), (b"other", [("x-dedup-id", b"8")]))

    assert received(orders, 10) == [b"first", b"other"]


def test_a_message_that_has_expired_is_not_delivered(orders: Server) -> None:
    send(orders, (b"gone", [("x-ttl-ms", b"1")]), (b"there", [("x-ttl-ms", b"600000")]))

    assert received(orders, 10) == [b"there"]


@pytest.mark.parametrize(
    "header",
    [("x-delay-ms", b"soon"), ("x-priority", b"very"), ("x-ttl-ms", b"\xff"), ("x-delay-ms", b"9" * 30)],
)
def test_a_wish_that_cannot_be_read_is_refused(
    orders: Server, header: tuple[str, bytes | str | None]
) -> None:
    [error] = send(orders, (b"x", [header]))

    assert error is not None
    assert error.code() == KafkaError.INVALID_RECORD
    assert orders.run(orders.broker.describe_topic("orders")).messages == 0


def test_a_topic_that_does_not_look_at_them_keeps_them(kafka: Server) -> None:
    kafka.run(kafka.broker.create_topic("orders"))
    headers: Headers = [("x-delay-ms", b"60000"), ("x-dedup-id", b"1")]

    send(kafka, (b"x", headers))

    consumer = reader(kafka)
    [got] = receive(consumer, 1)
    consumer.close()
    assert got.headers() == headers
