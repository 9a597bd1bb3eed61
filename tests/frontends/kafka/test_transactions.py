"""Transactions, with confluent-kafka (librdkafka): commit, abort, fences, places of groups."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from tests.frontends.kafka.clients import reader, receive, values
from tests.frontends.kafka.conftest import PARTITIONS, Server, serving

TIMEOUT_S = 20


def transactional(kafka: Server, name: str = "t", timeout_ms: int = 60_000) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": kafka.address,
            "transactional.id": name,
            "transaction.timeout.ms": timeout_ms,
            "linger.ms": 1,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


def write(producer: Producer, *contents: bytes, topic: str = "orders") -> None:
    for number, value in enumerate(contents):
        producer.produce(topic, value, partition=number % PARTITIONS)
    producer.flush(TIMEOUT_S)


def committed_reader(kafka: Server) -> Consumer:
    return reader(kafka, settings={"isolation.level": "read_committed", "fetch.wait.max.ms": 100})


@pytest.fixture
def orders(kafka: Server) -> Server:
    kafka.run(kafka.broker.create_topic("orders", partitions=PARTITIONS))
    return kafka


@pytest.fixture
def consumer(orders: Server) -> Iterator[Consumer]:
    consumer = committed_reader(orders)
    yield consumer
    consumer.close()


def test_what_is_committed_is_read_and_what_is_aborted_is_not(orders: Server, consumer: Consumer) -> None:
    producer = transactional(orders)
    wanted: list[bytes] = []
    for number in range(6):
        producer.begin_transaction()
        some = [b"%d.%d" % (number, place) for place in range(8)]
        write(producer, *some)
        if number % 2:
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
            wanted += some

    assert values(receive(consumer, len(wanted))) == wanted
    assert consumer.consume(1, timeout=0.3) == []


def test_who_reads_what_is_not_committed_sees_all(orders: Server) -> None:
    producer = transactional(orders)
    producer.begin_transaction()
    write(producer, b"aborted")
    uncommitted = reader(orders, settings={"isolation.level": "read_uncommitted"})
    assert values(receive(uncommitted, 1)) == [b"aborted"]

    producer.abort_transaction(TIMEOUT_S)
    producer.begin_transaction()
    write(producer, b"committed")
    producer.commit_transaction(TIMEOUT_S)

    assert values(receive(uncommitted, 1)) == [b"committed"]
    uncommitted.close()


def test_a_reader_waits_for_what_is_open_and_is_woken_by_its_end(orders: Server, consumer: Consumer) -> None:
    producer = transactional(orders)
    producer.begin_transaction()
    write(producer, b"inside")
    plain = Producer({"bootstrap.servers": orders.address})
    plain.produce("orders", b"behind", partition=0)
    plain.flush(TIMEOUT_S)

    assert consumer.consume(1, timeout=0.3) == []
    producer.commit_transaction(TIMEOUT_S)

    assert [it.value() for it in receive(consumer, 2)] == [b"inside", b"behind"]


def test_watermarks_tell_how_far_readers_may_read(orders: Server, consumer: Consumer) -> None:
    producer = transactional(orders)
    producer.begin_transaction()
    write(producer, b"inside")
    uncommitted = reader(orders, settings={"isolation.level": "read_uncommitted"})
    place = TopicPartition("orders", 0)

    assert consumer.get_watermark_offsets(place, TIMEOUT_S) == (0, 0)
    assert uncommitted.get_watermark_offsets(place, TIMEOUT_S) == (0, 1)
    producer.commit_transaction(TIMEOUT_S)
    assert consumer.get_watermark_offsets(place, TIMEOUT_S) == (0, 2)
    uncommitted.close()


def test_the_second_producer_of_a_name_fences_the_first(orders: Server, consumer: Consumer) -> None:
    first = transactional(orders)
    first.begin_transaction()
    write(first, b"of the first")
    second = transactional(orders)

    with pytest.raises(KafkaException) as failure:
        first.commit_transaction(TIMEOUT_S)
    assert failure.value.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)
    assert failure.value.args[0].fatal()

    second.begin_transaction()
    write(second, b"of the second")
    second.commit_transaction(TIMEOUT_S)
    assert values(receive(consumer, 1)) == [b"of the second"]


def test_a_timeout_that_is_too_long_is_refused_as_such(orders: Server) -> None:
    with pytest.raises(KafkaException) as failure:
        transactional(orders, timeout_ms=20 * 60 * 1000)

    assert failure.value.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT


def test_a_transaction_that_takes_too_long_is_aborted(orders: Server, consumer: Consumer) -> None:
    producer = transactional(orders, timeout_ms=1000)
    producer.begin_transaction()
    write(producer, b"too late")
    plain = Producer({"bootstrap.servers": orders.address})
    plain.produce("orders", b"behind", partition=0)
    plain.flush(TIMEOUT_S)

    assert values(receive(consumer, 1)) == [b"behind"]
    with pytest.raises(KafkaException):
        producer.commit_transaction(TIMEOUT_S)


def test_read_work_write_moves_the_group_and_the_output_together(orders: Server, consumer: Consumer) -> None:
    orders.run(orders.broker.create_topic("input", partitions=1))
    plain = Producer({"bootstrap.servers": orders.address})
    for number in range(10):
        plain.produce("input", b"%d" % number)
    plain.flush(TIMEOUT_S)
    source = Consumer(
        {
            "bootstrap.servers": orders.address,
            "group.id": "workers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    source.subscribe(["input"])
    producer = transactional(orders)

    for commit in (False, True):
        producer.begin_transaction()
        got = receive(source, 10)
        write(producer, *[(it.value() or b"") + b"!" for it in got])
        producer.send_offsets_to_transaction(
            source.position(source.assignment()), source.consumer_group_metadata(), TIMEOUT_S
        )
        if commit:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)
            [place] = source.committed(source.assignment(), TIMEOUT_S)
            assert place.offset < 0, "nothing is committed"
            source.seek(TopicPartition("input", 0, 0))

    [place] = source.committed(source.assignment(), TIMEOUT_S)
    assert place.offset == 10
    assert values(receive(consumer, 10)) == [b"%d!" % number for number in range(10)]
    info = orders.run(orders.broker.describe_group("input", "workers"))
    assert (info.kind, info.lag) == ("stream", 0)
    source.close()


def test_our_own_consumers_see_only_what_is_committed(orders: Server) -> None:
    producer = transactional(orders)
    for commit in (False, True):
        producer.begin_transaction()
        write(producer, b"%d" % commit)
        producer.commit_transaction(TIMEOUT_S) if commit else producer.abort_transaction(TIMEOUT_S)

    async def work() -> list[bytes | None]:
        async with await orders.broker.consumer("orders", group="workers") as workers:
            messages = await workers.receive(10, wait="5s")
            await workers.ack(messages)
            return [message.value for message in messages]

    assert orders.run(work()) == [b"1"]
    assert orders.run(orders.broker.describe_group("orders", "workers")).lag == 0


def test_a_producer_goes_on_after_a_restart_of_the_broker(tmp_path: object) -> None:
    data = str(tmp_path)
    for number, last in ((0, False), (1, True)):
        for kafka in serving(data):
            if not last:
                kafka.run(kafka.broker.create_topic("orders", partitions=PARTITIONS))
            producer = transactional(kafka)
            producer.begin_transaction()
            write(producer, b"committed %d" % number)
            producer.commit_transaction(TIMEOUT_S)
            producer.begin_transaction()
            write(producer, b"left open %d" % number)
            if last:
                transactional(kafka)  # Aborts what is open.
                consumer = committed_reader(kafka)
                assert values(receive(consumer, 2)) == [b"committed 0", b"committed 1"]
                consumer.close()
