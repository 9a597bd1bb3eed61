"""The public API as a user writes it.  It is never run: mypy reads it, and that is the test."""

import asyncio
import concurrent.futures
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import assert_type

import penstock
import penstock.testing
from penstock import aio


def sync() -> None:
    config = penstock.BrokerConfig(in_flight_max=100)
    with penstock.open("data", config=config) as opened:
        broker: penstock.Broker = opened  # Embedded or connected, a program says Broker.
        broker.create_topic("orders", partitions=6, retention="7d", compression="zstd", depth_policy="wait")
        broker.alter_topic("orders", retention=None, ttl=timedelta(hours=1), compact=True)
        receipt = broker.publish(
            "orders",
            b"...",
            key="order-123",
            headers={"content-type": "application/json", "raw": b"\xff"},
            priority="high",
            ttl="1h",
            dedup_id="order-123-v1",
        )
        assert_type(receipt, penstock.Receipt)
        assert_type(receipt.offset, int | None)
        assert_type(receipt.schedule_id, str | None)
        assert_type(receipt.duplicate, bool)
        broker.publish("orders", b"later", delay="30m")
        broker.publish("orders", b"later", delay=30.5, priority=-1)
        broker.publish("orders", b"later", deliver_at=datetime.now(UTC))
        broker.publish("orders", None, key=b"tombstone", partition=3)
        receipts = broker.publish_batch(
            "orders", [penstock.Message(b"a"), penstock.Message(b"b", key="k"), b"c"]
        )
        assert_type(receipts, list[penstock.Receipt])
        with broker.consumer("orders", group="processors", visibility_timeout="30s") as consumer:
            assert_type(consumer, penstock.Consumer)
            for message in consumer:
                assert_type(message, penstock.ReceivedMessage)
                with message:
                    work(message.value)
            batch = consumer.receive(max_messages=100, wait="5s")
            assert_type(batch, list[penstock.ReceivedMessage])
            consumer.ack(batch, publish=[("invoices", penstock.Message(b"i"))])
            one = batch[0]
            one.nack(delay=timedelta(seconds=5), error=ValueError("no"))
            one.reject("never")
            one.extend("1m")
            assert_type(one.key, bytes | None)
            assert_type(one.headers, dict[str, str])
            assert_type(one.attempt, int)
            assert_type(one.priority, str)


@dataclass
class Order:
    id: int


def contents(broker: penstock.Broker, message: penstock.ReceivedMessage) -> None:
    broker.publish("orders", json=Order(1), key="k")
    broker.publish("orders", text="hello", delay="1m")
    broker.publish("orders", text=b"hello")  # type: ignore[arg-type]
    broker.publish("orders", json=Order(1), txt="hello")  # type: ignore[call-arg]
    broker.publish_batch("orders", [penstock.Message(json=Order(1)), penstock.Message(text="x", key="k")])
    broker.queue("jobs").publish(json=Order(1), key="k")
    broker.producer().publish("orders", text="x")
    broker.schedule("orders", json=Order(1), cron="0 9 * * *")
    with broker.transaction() as transaction:
        transaction.publish("orders", json=Order(1))
    assert_type(message.json(Order), Order)
    assert_type(message.json(list[Order]), list[Order])
    assert_type(message.text, str)
    assert_type(broker.read("orders")[0].json(Order), Order)
    assert_type(penstock.Message(json=Order(1)).json(Order), Order)
    plain: dict[str, int] = message.json()
    either: Order | None = message.json(Order | None)
    work(b"%d" % (plain["id"] + (either.id if either else 0)))


def administration() -> None:
    with penstock.open() as broker:
        with broker.consumer(
            "orders", kind="stream", start=datetime.now(UTC), consumer_id="c", max_in_flight=10
        ) as stream:
            stream.commit()
            assert_type(stream.assignment, list[int])
        broker.create_group(
            "orders", "g", backoff=["1s", 10, timedelta(minutes=1)], ordered=True, max_attempts=3
        )
        broker.seek("orders", "g", "earliest")
        broker.seek("orders", "g", 7, partition=0)
        broker.seek("orders", "g", datetime.now(UTC))
        group = broker.describe_group("orders", "g")
        assert_type(group.lag_seconds, float)
        assert_type(group.oldest_unacked, penstock.Unacked | None)
        assert_type(group.rates, penstock.GroupRates)
        assert_type(group.verdict, penstock.Verdict)
        assert_type(broker.stats(), penstock.BrokerInfo)
        assert_type(broker.topic_exists("orders"), bool)
        assert_type(broker.describe_topic("orders").settings, penstock.TopicSettings)
        assert_type(broker.read("orders", from_time="2026-01-01T00:00:00Z"), penstock.MessageList)
        assert_type(broker.trace("orders", partition=0, offset=7).events, list[penstock.TraceEvent])
        assert_type(broker.dead_letters("orders"), list[penstock.DeadLetter])
        assert_type(broker.dead_letter_errors(), list[penstock.DeadLetterErrors])
        assert_type(broker.redrive("orders", rate=10.5, dry_run=True), penstock.Redrive)
        schedule_id = broker.schedule("orders", b"tick", cron="0 9 * * *", timezone="Europe/Berlin")
        broker.reschedule(schedule_id, delay="1h")
        if broker.cancel(schedule_id) == "cancelled":
            assert_type(broker.scheduled("orders"), list[penstock.ScheduledMessage])
        assert_type(broker.producer(compression="lz4").publish("orders", b"x"), penstock.Receipt)
        queue = broker.queue("jobs", partitions=2)
        assert_type(queue, penstock.Queue)
        assert_type(queue.subscribe("worker", max_attempts=3), penstock.Consumer)
        topic = broker.topic("news")
        assert_type(topic.subscribe("reader"), penstock.Consumer)
        assert_type(topic.subscriber_count(), int)


async def asynchronous() -> None:
    async with aio.open("data") as broker:
        assert_type(broker, aio.AsyncBroker)
        await broker.create_topic("orders", partitions=6, retention="7d")
        assert_type(await broker.publish("orders", b"x", delay="1m"), penstock.Receipt)
        assert_type(await broker.publish("orders", json=Order(1)), penstock.Receipt)
        await (await broker.queue("jobs")).publish(text="x")
        async with await broker.consumer("orders", group="g") as consumer:
            async for message in consumer:
                assert_type(message, aio.AsyncReceivedMessage)
                async with message:
                    work(message.value)
                    assert_type(message.json(Order), Order)
                    assert_type(message.text, str)
            batch = await consumer.receive(100, wait=timedelta(seconds=5))
            await consumer.ack(batch, publish=[("invoices", penstock.Message(b"i"))])
            await batch[0].nack(error="no")
        await asyncio.gather(*(broker.publish("orders", b"%d" % number) for number in range(3)))
        assert_type(await (await broker.queue("jobs")).depth(), int)
    broker = await aio.open().start()
    await broker.close(timeout="5s")


def connected() -> None:
    with penstock.connect("penstock://127.0.0.1:7070", request_timeout="5s", linger=0.005) as remote:
        broker: penstock.Broker = remote  # A program that takes a Broker takes a connection.
        broker.create_topic("orders")
        assert_type(remote.publish("orders", b"x", acks="written"), penstock.Receipt)
        remote.publish("orders", json=Order(1), acks="written")
        future = remote.publish_nowait("orders", b"x", key="k", delay="1m")
        assert_type(remote.publish_nowait("orders", text="x"), concurrent.futures.Future[penstock.Receipt])
        assert_type(future, concurrent.futures.Future[penstock.Receipt])
        assert_type(remote.publish_batch("orders", [b"a"], acks="none"), list[penstock.Receipt])
        remote.flush()
        consumer = remote.consumer("orders", prefetch=100, heartbeat=False, max_attempts=3)
        assert_type(consumer, penstock.Consumer)


async def connected_asynchronously() -> None:
    async with aio.connect("penstock://127.0.0.1:7070", client_id="shop") as remote:
        broker: aio.AsyncBroker = remote
        await broker.create_topic("orders")
        assert_type(await remote.publish("orders", b"x", acks="none"), penstock.Receipt)
        assert_type(remote.publish_nowait("orders", b"x"), asyncio.Future[penstock.Receipt])
        assert_type(remote.publish_nowait("orders", json=Order(1)), asyncio.Future[penstock.Receipt])
        await remote.flush()
        consumer = await remote.consumer("orders", kind="stream", prefetch=10)
        assert_type(consumer, aio.AsyncConsumer)
    await (await aio.connect("penstock://127.0.0.1:7070").start()).close()


def virtual(penstock_fixture: penstock.testing.TestBroker) -> None:
    penstock_fixture.create_topic("reports")
    penstock_fixture.publish("reports", b"monthly", delay="3d")
    penstock_fixture.advance("3d")
    penstock_fixture.clock.step_wall("1h", back=True)
    with penstock.testing.open(seed=7) as broker:
        assert_type(broker, penstock.testing.TestBroker)


def errors() -> None:
    try:
        penstock.open("data").close()
    except penstock.PenstockError as error:
        assert_type(error.code, str)
        assert_type(error.retryable, bool)


def work(value: bytes) -> None:
    """What a user does."""
