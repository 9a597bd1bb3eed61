"""Testing code that speaks to Kafka, without a JVM or Docker: by the ``penstock_kafka`` fixture.

It is a real broker behind a Kafka port, in memory and in virtual time, and a new one for every test. The code
under test is not changed: it is given the address. ``penstock_kafka.advance("30s")`` lets leases time out.

Run it with ``pytest examples/test_kafka_orders.py``.
"""

from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer

from penstock.testing.kafka import KafkaServer


def place_orders(address: str, numbers: range) -> None:
    """The code under test: publish orders."""
    producer = Producer({"bootstrap.servers": address})
    for number in numbers:
        producer.produce("orders", b"order %d" % number, key=b"%d" % number)
    producer.flush()


def total(address: str, count: int) -> int:
    """The code under test: add up the orders, as a consumer of a group."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "sums", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    found = 0
    for message in consumer.consume(count, timeout=30):
        found += int((message.value() or b"").split()[1])
    consumer.close()
    return found


def bill(address: str) -> list[bytes]:
    """The code under test: bill orders, as one of many workers of a share group."""
    worker = ShareConsumer(
        {"bootstrap.servers": address, "group.id": "billing", "share.acknowledgement.mode": "explicit"}
    )
    worker.subscribe(["orders"])
    billed = []
    for message in worker.poll(30):
        value = message.value() or b""
        is_odd = value.endswith((b"1", b"3", b"5", b"7", b"9"))
        worker.acknowledge(message, AcknowledgeType.REJECT if is_odd else AcknowledgeType.ACCEPT)
        if not is_odd:
            billed.append(value)
    worker.commit_sync(30)
    worker.close()
    return billed


def test_orders_are_added_up(penstock_kafka: KafkaServer) -> None:
    place_orders(penstock_kafka.address, range(10))

    assert total(penstock_kafka.address, 10) == 45


def test_what_a_dead_worker_had_is_billed_after_its_lease_and_what_is_odd_is_a_dead_letter(
    penstock_kafka: KafkaServer,
) -> None:
    broker = penstock_kafka.broker

    async def lend_to_one_who_dies() -> int:
        await broker.create_topic("orders", partitions=1)
        await broker.create_group("orders", "billing", start="earliest")
        await broker.publish_batch("orders", [b"order 1", b"order 2"])
        consumer = await broker.consumer("orders", group="billing")
        return len(await consumer.receive(2))

    assert penstock_kafka.run(lend_to_one_who_dies()) == 2
    penstock_kafka.advance("30s")  # The visibility timeout.

    assert bill(penstock_kafka.address) == [b"order 2"]
    [letter] = penstock_kafka.run(broker.dead_letters("orders"))
    assert letter.message.value == b"order 1"
