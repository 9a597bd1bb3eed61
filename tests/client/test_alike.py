"""A wrong call is refused with the same error, here and over a connection: class, facts and sentence."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest
from tests.client.served import VirtualServer

import penstock
from penstock.errors import PenstockError
from penstock.model.message import Message
from penstock.testing import ManualClock, TestBroker
from penstock.wire.records import encode_values

Broker = Any  # Wrong calls are not for a type checker.
NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001 - on purpose.
BATCH = bytes(encode_values([b"x"], 0))

WRONG: dict[str, Callable[[Broker], object]] = {
    "a topic that exists": lambda broker: broker.create_topic("orders"),
    "a bad topic name": lambda broker: broker.create_topic("../x"),
    "an unknown setting": lambda broker: broker.create_topic("x", colour="red"),
    "a setting of a wrong type": lambda broker: broker.create_topic("x", partitions="two"),
    "a setting out of range": lambda broker: broker.create_topic("x", partitions=0),
    "a bad duration": lambda broker: broker.alter_topic("orders", retention="soon"),
    "fewer partitions": lambda broker: broker.alter_topic("orders", partitions=1),
    "altering what is not there": lambda broker: broker.alter_topic("missing", partitions=1),
    "deleting what is not there": lambda broker: broker.delete_topic("missing"),
    "describing what is not there": lambda broker: broker.describe_topic("missing"),
    "a topic that is no name": lambda broker: broker.describe_topic(7),
    "publishing to what cannot be": lambda broker: broker.publish("a/b", b"x"),
    "publishing to what is no name": lambda broker: broker.publish(None, b"x"),
    "no value": lambda broker: broker.publish("orders", None),
    "a value of text": lambda broker: broker.publish("orders", "text"),
    "a key of a number": lambda broker: broker.publish("orders", b"x", key=7),
    "headers of a list": lambda broker: broker.publish("orders", b"x", headers=["a"]),
    "a header of a number": lambda broker: broker.publish("orders", b"x", headers={"a": 7}),
    "an unknown priority": lambda broker: broker.publish("orders", b"x", priority="urgent"),
    "a partition that is not there": lambda broker: broker.publish("orders", b"x", partition=9),
    "a partition of text": lambda broker: broker.publish("orders", b"x", partition="one"),
    "a message too large": lambda broker: broker.publish("orders", b"x" * 2000),
    "a batch with one too large": lambda broker: broker.publish_batch("orders", [b"x", b"x" * 2000]),
    "a batch with a number": lambda broker: broker.publish_batch("orders", [b"x", 7]),
    "an empty batch for what cannot be": lambda broker: broker.publish_batch("a/b", []),
    "a bad time to live": lambda broker: broker.publish("orders", b"x", ttl="soon"),
    "a negative delay": lambda broker: broker.publish("orders", b"x", delay=-1),
    "a delay too long": lambda broker: broker.publish("orders", b"x", delay="900d"),
    "a delay and a time": lambda broker: broker.publish("orders", b"x", delay=1, deliver_at=1.5),
    "a time without a zone": lambda broker: broker.publish("orders", b"x", deliver_at=NAIVE),
    "an empty dedup id": lambda broker: broker.publish("orders", b"x", dedup_id=""),
    "a dedup id of bytes": lambda broker: broker.publish("orders", b"x", dedup_id=b"x"),
    "appending what is no batch": lambda broker: broker.append("orders", 0, b"nothing"),
    "appending text": lambda broker: broker.append("orders", 0, "text"),
    "appending a damaged batch": lambda broker: broker.append("orders", 0, BATCH[:-1] + b"!"),
    "appending elsewhere": lambda broker: broker.append("orders", 9, BATCH),
    "a codec that does not exist": lambda broker: broker.producer(compression="zip"),
    "a producer's delayed message": lambda broker: broker.producer()._operations.publish(
        "orders", Message(b"x", delay=1)
    ),
    "a producer's message too large": lambda broker: broker.producer().publish("orders", b"x" * 2000),
    "consuming what cannot be": lambda broker: broker.consumer("a/b"),
    "a bad group name": lambda broker: broker.consumer("orders", group="a b"),
    "a bad consumer name": lambda broker: broker.consumer("orders", consumer_id="a b"),
    "an unknown option": lambda broker: broker.consumer("orders", colour="red"),
    "no attempts": lambda broker: broker.consumer("orders", max_attempts=0),
    "nothing in flight": lambda broker: broker.consumer("orders", max_in_flight=0),
    "a bad backoff": lambda broker: broker.consumer("orders", backoff="never"),
    "another kind": lambda broker: broker.consumer("orders", group="g", kind="stream"),
    "an ordered stream": lambda broker: broker.create_group("orders", "s", kind="stream", ordered=True),
    "receiving nothing": lambda broker: broker.consumer("orders").receive(0),
    "receiving a word": lambda broker: broker.consumer("orders").receive("all"),
    "waiting backwards": lambda broker: broker.consumer("orders").receive(wait=-1),
    "acking a stranger": lambda broker: broker.consumer("orders").ack("message"),
    "committing a queue": lambda broker: broker.consumer("orders").commit(),
    "deleting a group that is not there": lambda broker: broker.delete_group("orders", "nobody"),
    "describing a group that is not there": lambda broker: broker.describe_group("orders", "nobody"),
    "moving a group that is not there": lambda broker: broker.seek("orders", "nobody", "earliest"),
    "moving to nowhere": lambda broker: broker.seek("orders", "g", "yesterday"),
    "moving a partition that is not there": lambda broker: broker.seek("orders", "g", 0, partition=9),
    "reading nothing": lambda broker: broker.read("orders", limit=0),
    "reading from a bad time": lambda broker: broker.read("orders", from_time="soon"),
    "reading a partition that is not there": lambda broker: broker.read("orders", partition=9),
    "fetching what is not there": lambda broker: broker.fetch("missing", 0, 0),
    "fetching what is no name": lambda broker: broker.fetch(7, 0, 0),
    "fetching a partition that is not there": lambda broker: broker.fetch("orders", 9, 0),
    "fetching a partition of text": lambda broker: broker.fetch("orders", "one", 0),
    "fetching beyond the end": lambda broker: broker.fetch("orders", 0, 99),
    "fetching before the beginning": lambda broker: broker.fetch("orders", 0, -1),
    "fetching no bytes": lambda broker: broker.fetch("orders", 0, 0, max_bytes=0),
    "the offset of a bad time": lambda broker: broker.offsets("orders", "soon"),
    "committing beyond the end": lambda broker: broker.commit_offsets("orders", "s", {0: 99}),
    "committing to nowhere": lambda broker: broker.commit_offsets("orders", "s", {9: 0}),
    "committing to a queue": lambda broker: broker.commit_offsets("orders", "g", {0: 0}),
    "peeking at nothing": lambda broker: broker.peek("orders", 0),
    "tracing nothing": lambda broker: broker.trace("nothing"),
    "tracing beyond the end": lambda broker: broker.trace("orders", 0, 99),
    "a bad cron": lambda broker: broker.schedule("orders", b"x", cron="often"),
    "a time zone that does not exist": lambda broker: broker.schedule(
        "orders", b"x", cron="* * * * *", timezone="Mars/Base"
    ),
    "scheduling text": lambda broker: broker.schedule("orders", "text", cron="* * * * *"),
    "rescheduling to no time": lambda broker: broker.reschedule("orders:0:s0"),
    "redriving backwards": lambda broker: broker.redrive("orders", rate=-1.5),
    "redriving what is not there": lambda broker: broker.redrive("missing"),
    "dead letters of nobody": lambda broker: broker.dead_letters("missing"),
}


def prepare(broker: Broker) -> Broker:
    broker.create_topic("orders", partitions=2, message_bytes_max=1000)
    broker.create_group("orders", "g")
    return broker


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[Broker, Broker]]:
    """One in this process, one at the end of a connection."""
    with TestBroker.open(clock=ManualClock()) as here, VirtualServer() as server:
        with penstock.connect(server.url) as there:
            yield prepare(here), prepare(there)


def refusal(call: Callable[[Broker], object], broker: Broker) -> tuple[object, ...]:
    try:
        answer = call(broker)
    except PenstockError as error:
        return type(error), {name: repr(fact) for name, fact in error.facts.items()}, str(error)
    if hasattr(answer, "send"):  # Begun, and not run.
        return refusal(lambda _: broker._driver.run(answer), broker)
    return ("answered", answer)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_is_refused_alike(brokers: tuple[Broker, Broker], name: str) -> None:
    here, there = brokers

    expected = refusal(WRONG[name], here)

    assert expected[0] != "answered" or name == "tracing nothing"
    assert refusal(WRONG[name], there) == expected
