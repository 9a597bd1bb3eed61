"""Bad input: each has its own error, whose sentence names what to do, and changes nothing."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.refused import BAD_DURATIONS, refuse, with_orders

from penstock import BrokerConfig, Message
from penstock.errors import (
    AlreadySettled,
    Closed,
    DelayOutOfRange,
    EmptyMessage,
    GroupNotFound,
    InvalidBatch,
    InvalidName,
    InvalidValue,
    LeaseLost,
    MessageTooLarge,
    OffsetOutOfRange,
    PartitionNotFound,
    PenstockError,
    TopicNotFound,
    UnknownPriority,
)
from penstock.log.files import MemoryFiles
from penstock.testing import TestBroker
from penstock.wire.records import encode_values

Call = Callable[[Any], object]

BAD_NAMES = [
    "", ".", "..", "../x", "a/b", "/etc", "a\\b", "a\x00b", "a b", "a\nb", "a\n", ".hidden", "__internal",
    "käse", "名前", "a" * 201, "a:b", "a*", "~", "%2e%2e", "a\u202eb", "①",
]  # fmt: skip
GOOD_NAMES = ["a", "A-1", "a.b", "a_b", "_a", "-", "0", "a" * 200, "orders.dlq", "a..b"]


@pytest.fixture
def broker(penstock: TestBroker) -> TestBroker:
    return with_orders(penstock)


# Names.


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name_of_a_topic_is_refused_and_nothing_is_made(name: str) -> None:
    files = MemoryFiles()
    with TestBroker.open("data", files=files) as broker:
        before = sorted(files._contents)
        refuse(InvalidName, lambda: broker.create_topic(name), "topic", "use 1 to 200 letters")
        refuse(InvalidName, lambda: broker.queue(name))
        refuse(InvalidName, lambda: broker.topic(name))
        assert sorted(files._contents) == before


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name_of_a_group_a_consumer_or_a_dead_letter_topic_is_refused(
    broker: TestBroker, name: str
) -> None:
    refuse(InvalidName, lambda: broker.create_group("orders", name), "group")
    refuse(InvalidName, lambda: broker.consumer("orders", group=name), "group")
    refuse(InvalidName, lambda: broker.consumer("orders", consumer_id=name), "consumer")
    if name:  # Empty means "<topic>.dlq".
        refuse(InvalidName, lambda: broker.create_topic("x", dead_letter_topic=name), "dead letter topic")
    assert broker.groups("orders") == ["g"]
    assert broker.topics() == ["orders"]


@pytest.mark.parametrize("name", [None, 7, b"orders", True, ["orders"]])
def test_a_name_that_is_not_text_is_refused(broker: TestBroker, name: Any) -> None:
    refuse(InvalidName, lambda: broker.create_topic(name), "not text")
    refuse(InvalidName, lambda: broker.create_group("orders", name), "not text")


@pytest.mark.parametrize("name", GOOD_NAMES)
def test_a_good_name_is_a_good_name_everywhere(broker: TestBroker, name: str) -> None:
    broker.create_topic(name)
    broker.consumer(name, group=name, consumer_id=name).receive()

    assert broker.groups(name) == [name]


# What is not there.


BATCH = bytes(encode_values([b"x"], 0, 0))
USES: list[Call] = [  # They create their topic, unless topics are created on purpose only.
    lambda b: b.publish("missing", b"x"),
    lambda b: b.publish("missing", b"x", delay="1h"),
    lambda b: b.publish_batch("missing", [b"x"]),
    lambda b: b.append("missing", 0, BATCH),
    lambda b: b.producer().publish("missing", b"x"),
    lambda b: b.consumer("missing"),
    lambda b: b.schedule("missing", b"x", cron="* * * * *"),
]
TOPIC_CALLS: list[Call] = [
    lambda b: b.create_group("missing", "g"),
    lambda b: b.delete_group("missing", "g"),
    lambda b: b.groups("missing"),
    lambda b: b.describe_topic("missing"),
    lambda b: b.describe_group("missing", "g"),
    lambda b: b.alter_topic("missing", ttl="1h"),
    lambda b: b.delete_topic("missing"),
    lambda b: b.seek("missing", "g", "earliest"),
    lambda b: b.purge("missing", "g"),
    lambda b: b.depth("missing"),
    lambda b: b.depth("missing", "g"),
    lambda b: b.read("missing"),
    lambda b: b.peek("missing"),
    lambda b: b.trace("missing", 0, 0),
    lambda b: b.trace("missing:0:0"),
    lambda b: b.scheduled("missing"),
    lambda b: b.scheduled_count("missing"),
    lambda b: b.cancel("missing:0:s0"),
    lambda b: b.reschedule("missing:0:s0", delay="1h"),
    lambda b: b.dead_letters("missing"),
    lambda b: b.redrive("missing"),
]


@pytest.mark.parametrize("number", range(len(TOPIC_CALLS)))
def test_an_unknown_topic_is_named_everywhere(broker: TestBroker, number: int) -> None:
    refuse(TopicNotFound, lambda: TOPIC_CALLS[number](broker), "'missing'", "create it first")
    assert broker.topics() == ["orders"], "asking does not make it"


@pytest.mark.parametrize("number", range(len(USES)))
def test_an_unknown_topic_is_created_by_whoever_uses_it(broker: TestBroker, number: int) -> None:
    USES[number](broker)

    assert broker.topics() == ["missing", "orders"]


@pytest.mark.parametrize("number", range(len(USES)))
def test_an_unknown_topic_is_refused_where_topics_are_created_on_purpose_only(number: int) -> None:
    with TestBroker.open(config=BrokerConfig(auto_create_topics=False)) as broker:
        refuse(TopicNotFound, lambda: USES[number](broker), "'missing'", "create it first")
        assert broker.topics() == []

        broker.create_topic("missing")
        USES[number](broker)


def test_an_output_to_an_unknown_topic_is_refused_where_topics_are_created_on_purpose_only() -> None:
    with TestBroker.open(config=BrokerConfig(auto_create_topics=False)) as broker:
        broker.create_topic("orders")
        broker.publish("orders", b"x")
        consumer = broker.consumer("orders")
        [message] = consumer.receive()

        refuse(TopicNotFound, lambda: consumer.ack(message, publish=[("missing", Message(b"y"))]))
        message.ack()


def test_a_partition_that_an_unknown_topic_would_not_have_does_not_create_it(broker: TestBroker) -> None:
    refuse(PartitionNotFound, lambda: broker.publish("missing", b"x", partition=9))
    refuse(PartitionNotFound, lambda: broker.append("missing", 9, BATCH))

    assert broker.topics() == ["orders"]


def test_an_internal_topic_is_not_created_by_its_use(broker: TestBroker) -> None:
    refuse(TopicNotFound, lambda: broker.publish("__pipelines", b"x"))


@pytest.mark.parametrize("name", ["../orders", "", None, 7, ["orders"]])
def test_a_name_no_topic_can_have_is_an_unknown_topic(broker: TestBroker, name: Any) -> None:
    refuse(InvalidName, lambda: broker.publish(name, b"x"))
    refuse(TopicNotFound if isinstance(name, str) else InvalidName, lambda: broker.read(name))


GROUP_CALLS: list[Call] = [
    lambda b: b.describe_group("orders", "missing"),
    lambda b: b.depth("orders", "missing"),
    lambda b: b.seek("orders", "missing", "earliest"),
    lambda b: b.purge("orders", "missing"),
    lambda b: b.delete_group("orders", "missing"),
    lambda b: b.topic("orders").unsubscribe("missing"),
]


@pytest.mark.parametrize("number", range(len(GROUP_CALLS)))
def test_an_unknown_group_is_named_everywhere(broker: TestBroker, number: int) -> None:
    refuse(GroupNotFound, lambda: GROUP_CALLS[number](broker), "'orders'", "'missing'", "first consumer")


@pytest.mark.parametrize("partition", [2, 99, -1, True, False, "0", 0.0, 1 << 70])
def test_a_wrong_partition_is_refused_everywhere(broker: TestBroker, partition: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: broker.publish("orders", b"x", partition=partition),
        lambda: broker.publish("orders", b"x", partition=partition, delay="1h"),
        lambda: broker.publish_batch("orders", [Message(b"x", partition=partition)]),
        lambda: broker.append("orders", partition, b""),
        lambda: broker.producer().publish("orders", b"x", partition=partition),
        lambda: broker.schedule("orders", b"x", cron="* * * * *", partition=partition),
        lambda: broker.seek("orders", "g", "earliest", partition=partition),
        lambda: broker.read("orders", partition=partition),
        lambda: broker.peek("orders", partition=partition),
        lambda: broker.trace("orders", partition, 0),
    ]
    for call in calls:
        refuse(PartitionNotFound, call, "partitions 0 to 1")


@pytest.mark.parametrize("offset", [4, 99, -1, 1 << 70])
def test_an_offset_outside_the_log_is_refused(broker: TestBroker, offset: int) -> None:
    refuse(OffsetOutOfRange, lambda: broker.read("orders", partition=0, offset=offset), "0 up to 3")
    refuse(OffsetOutOfRange, lambda: broker.trace("orders", 0, offset), "0 up to 3")


@pytest.mark.parametrize("offset", ["0", 0.5, True])
def test_an_offset_of_the_wrong_type_is_refused(broker: TestBroker, offset: Any) -> None:
    refuse(InvalidValue, lambda: broker.read("orders", partition=0, offset=offset), "offset")
    refuse(InvalidValue, lambda: broker.trace("orders", 0, offset), "offset")


def test_an_offset_without_a_partition_is_refused_where_there_are_several(broker: TestBroker) -> None:
    refuse(InvalidValue, lambda: broker.read("orders", offset=0), "name the partition too")


@pytest.mark.parametrize(
    "identity",
    [
        "", "orders", "orders:0:0", "orders:0:s", "orders:x:s0", "a:b:c:s1", None, 7,
        "orders:0:s²", "orders:0:s" + "9" * 5000, "orders:-1:s0",
    ],
)  # fmt: skip
def test_a_bad_schedule_id_is_refused(broker: TestBroker, identity: Any) -> None:
    refuse(InvalidValue, lambda: broker.cancel(identity), "schedule_id", "orders:0:s17")
    refuse(InvalidValue, lambda: broker.reschedule(identity, delay="1h"), "schedule_id", "orders:0:s17")


def test_a_schedule_id_of_a_partition_that_is_not_there_is_refused(broker: TestBroker) -> None:
    refuse(PartitionNotFound, lambda: broker.cancel("orders:7:s0"))


# Messages.


@pytest.mark.parametrize("value", ["text", 7, 1.5, ["x"], {"a": 1}, object(), True])
def test_a_value_that_is_not_bytes_is_refused(broker: TestBroker, value: Any) -> None:
    refuse(InvalidValue, lambda: broker.publish("orders", value), "value", "encode")
    refuse(InvalidValue, lambda: broker.publish_batch("orders", [value]), "value")
    refuse(InvalidValue, lambda: broker.publish_batch("orders", [Message(value)]), "value")
    refuse(InvalidValue, lambda: broker.producer().publish("orders", value), "value")


def test_a_batch_that_is_one_value_is_refused(broker: TestBroker) -> None:
    refuse(InvalidValue, lambda: broker.publish_batch("orders", b"abc"), "value")  # type: ignore[arg-type]
    refuse(InvalidValue, lambda: broker.publish_batch("orders", "abc"), "value")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [bytearray(b"x"), memoryview(b"x")])
def test_bytes_of_another_kind_are_taken(broker: TestBroker, value: Any) -> None:
    receipt = broker.publish("orders", value, partition=1)

    assert broker.read("orders", partition=1)[0].value == b"x"
    assert receipt.offset == 0


def test_no_value_and_no_key_is_refused(broker: TestBroker) -> None:
    refuse(EmptyMessage, lambda: broker.publish("orders", None), "pass bytes", "tombstone")
    refuse(EmptyMessage, lambda: broker.publish_batch("orders", [Message(None)]))
    refuse(EmptyMessage, lambda: broker.schedule("orders", None, cron="* * * * *"))


@pytest.mark.parametrize("key", [7, 1.5, ["k"], True, "\ud800"])
def test_a_key_that_is_neither_text_nor_bytes_is_refused(broker: TestBroker, key: Any) -> None:
    refuse(InvalidValue, lambda: broker.publish("orders", b"x", key=key), "key")
    refuse(InvalidValue, lambda: broker.publish_batch("orders", [Message(b"x", key=key)]), "key")


@pytest.mark.parametrize(
    "headers",
    [{"a": 1}, {"a": None}, {1: "a"}, {b"a": "a"}, {"a": ["b"]}, [("a", "b")], "a=b", 7, {"\ud800": "x"}],
)
def test_headers_of_the_wrong_type_are_refused(broker: TestBroker, headers: Any) -> None:
    refuse(InvalidValue, lambda: broker.publish("orders", b"x", headers=headers), "headers", "text")


def test_a_message_over_the_limit_is_refused_and_one_at_the_limit_is_not(broker: TestBroker) -> None:
    broker.publish("orders", b"x" * 1000)
    broker.publish("orders", b"x" * 990, key=b"k" * 5, headers={"ab": "cde"})

    too_large: list[Callable[[], object]] = [
        lambda: broker.publish("orders", b"x" * 1001),
        lambda: broker.publish("orders", b"x" * 990, key=b"k" * 5, headers={"ab": "cdef"}),
        lambda: broker.publish("orders", b"x" * 1001, delay="1h"),
        lambda: broker.publish_batch("orders", [Message(b"x" * 1001)]),
        lambda: broker.producer().publish("orders", b"x" * 1001),
        lambda: broker.schedule("orders", b"x" * 1001, cron="* * * * *"),
    ]
    for call in too_large:
        refuse(MessageTooLarge, call, "1001 bytes", "limit is 1000", "message_bytes_max")


@pytest.mark.parametrize("priority", ["urgent", "HIGH", "", 1.5, True, None, b"high"])
def test_an_unknown_priority_is_refused(broker: TestBroker, priority: Any) -> None:
    refuse(UnknownPriority, lambda: broker.publish("orders", b"x", priority=priority), "critical (2)")
    refuse(UnknownPriority, lambda: broker.schedule("orders", b"x", cron="* * * * *", priority=priority))


@pytest.mark.parametrize("dedup_id", ["", "x" * 201, 7, b"x", True, "\ud800"])
def test_a_bad_dedup_id_is_refused(broker: TestBroker, dedup_id: Any) -> None:
    refuse(InvalidValue, lambda: broker.publish("orders", b"x", dedup_id=dedup_id), "dedup_id", "1 to 200")


@pytest.mark.parametrize("batch", [b"", b"x" * 10, b"\x00" * 61, b"\xff" * 200])
def test_bytes_that_are_no_batch_are_refused(broker: TestBroker, batch: bytes) -> None:
    refuse(InvalidBatch, lambda: broker.append("orders", 0, batch), "not a valid record batch")


@pytest.mark.parametrize("batch", ["text", None, 7, [b"x"]])
def test_a_batch_that_is_not_bytes_is_refused(broker: TestBroker, batch: Any) -> None:
    refuse(InvalidValue, lambda: broker.append("orders", 0, batch), "batch", "bytes")


# Times.


@pytest.mark.parametrize(
    "delay",
    [-1, -0.001, timedelta(seconds=-1), timedelta(days=366), "366d", "999999w", 1e300, float("inf"), -1e300],
)
def test_a_negative_or_absurd_delay_is_refused(broker: TestBroker, delay: Any) -> None:
    receipt = broker.publish("orders", b"x", delay="1h")

    refuse(DelayOutOfRange, lambda: broker.publish("orders", b"x", delay=delay), "delay_max")
    refuse(DelayOutOfRange, lambda: broker.publish_batch("orders", [Message(b"x", delay=delay)]))
    refuse(DelayOutOfRange, lambda: broker.reschedule(receipt.id, delay=delay))
    assert broker.scheduled_count("orders") == 1


@pytest.mark.parametrize("delay", [delay for delay in BAD_DURATIONS if delay is not None])
def test_a_delay_that_is_no_duration_is_refused(broker: TestBroker, delay: Any) -> None:
    refuse(InvalidValue, lambda: broker.publish("orders", b"x", delay=delay), "delay")


def test_a_time_without_a_zone_says_what_is_missing(broker: TestBroker) -> None:
    naive = datetime(2026, 1, 2)  # noqa: DTZ001

    refuse(InvalidValue, lambda: broker.publish("orders", b"x", deliver_at=naive), "time zone")
    refuse(
        InvalidValue, lambda: broker.publish("orders", b"x", deliver_at="2026-01-02T00:00:00"), "time zone"
    )


def test_a_time_beyond_the_longest_delay_is_refused(broker: TestBroker) -> None:
    refuse(DelayOutOfRange, lambda: broker.publish("orders", b"x", deliver_at="2028-01-01T00:00:00Z"))
    refuse(DelayOutOfRange, lambda: broker.publish("orders", b"x", deliver_at=1e300))


def test_a_delay_and_a_time_at_once_are_refused(broker: TestBroker) -> None:
    at = "2026-01-02T00:00:00Z"

    refuse(InvalidValue, lambda: broker.publish("orders", b"x", delay="1h", deliver_at=at), "not both")
    refuse(InvalidValue, lambda: broker.reschedule("orders:0:s0", delay="1h", deliver_at=at), "not both")
    refuse(InvalidValue, lambda: broker.reschedule("orders:0:s0"), "delay or deliver_at")


@pytest.mark.parametrize(
    "cron", ["", "* * * *", "60 * * * *", "* * * * * * *", "every day", "* * 31 2 *", "a" * 300, None, 7]
)
def test_a_bad_cron_expression_is_refused(broker: TestBroker, cron: Any) -> None:
    refuse(InvalidValue, lambda: broker.schedule("orders", b"x", cron=cron), "cron")
    assert broker.scheduled_count("orders") == 0


@pytest.mark.parametrize(
    "zone",
    [
        "",
        "Mars/Olympus",
        "../../etc/passwd",
        "/etc/localtime",
        "Europe",
        "x" * 500,
        None,
        7,
        "Europe/Berlin\x00",
    ],
)
def test_a_bad_time_zone_is_refused(broker: TestBroker, zone: Any) -> None:
    refuse(
        InvalidValue,
        lambda: broker.schedule("orders", b"x", cron="0 * * * *", timezone=zone),
        "timezone",
        "Europe/Berlin",
    )


# Consuming.


@pytest.mark.parametrize("count", [0, -1, "7", 1.5, True, None])
def test_a_bad_number_of_messages_is_refused(broker: TestBroker, count: Any) -> None:
    for consumer in (broker.consumer("orders"), broker.consumer("orders", group="s", kind="stream")):
        refuse(InvalidValue, lambda consumer=consumer: consumer.receive(count), "max_messages")  # type: ignore[misc]
    refuse(InvalidValue, lambda: broker.read("orders", limit=count), "limit")
    refuse(InvalidValue, lambda: broker.peek("orders", count), "count")
    refuse(InvalidValue, lambda: broker.redrive("orders", limit=count), "limit")
    refuse(InvalidValue, lambda: broker.scheduled("orders", limit=count), "limit")
    refuse(InvalidValue, lambda: broker.dead_letters("orders", limit=count), "limit")


@pytest.mark.parametrize("rate", [0, -1, "7", True, float("nan"), float("inf")])
def test_a_bad_rate_is_refused(broker: TestBroker, rate: Any) -> None:
    refuse(InvalidValue, lambda: broker.redrive("orders", rate=rate), "rate")


ANSWERS: dict[str, Callable[[Any], object]] = {
    "ack": lambda message: message.ack(),
    "nack": lambda message: message.nack(),
    "reject": lambda message: message.reject("no"),
    "extend": lambda message: message.extend("1m"),
}


@pytest.mark.parametrize("second", ANSWERS)
@pytest.mark.parametrize("first", ["ack", "nack", "reject"])
def test_a_second_answer_is_refused(broker: TestBroker, first: str, second: str) -> None:
    [message] = broker.consumer("orders").receive()
    ANSWERS[first](message)

    refuse(AlreadySettled, lambda: ANSWERS[second](message), "settle each delivery once")


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_to_what_is_not_held_any_more_is_refused(broker: TestBroker, answer: str) -> None:
    [message] = broker.consumer("orders").receive()
    broker.advance("30s")

    refuse(LeaseLost, lambda: ANSWERS[answer](message), "not held by this consumer", "extend()")


def test_a_consumer_answers_only_for_its_own(broker: TestBroker) -> None:
    broker.create_topic("other", partitions=2)
    broker.publish("other", b"x", partition=0)
    mine = broker.consumer("orders")
    foreign = [
        broker.consumer("other").receive()[0],
        broker.consumer("orders").receive()[0],
        broker.consumer("orders", group="g").receive()[0],
        broker.consumer("orders", group="s", kind="stream").receive()[0],
    ]
    mine.receive(1)

    for message in foreign:
        for call in (
            lambda: mine.ack(message),  # noqa: B023 - called at once
            lambda: mine.ack([message]),  # noqa: B023
            lambda: mine.ack(message, publish=[("other", Message(b"y"))]),  # noqa: B023
            lambda: mine.nack(message),  # noqa: B023
            lambda: mine.reject(message, "no"),  # noqa: B023
            lambda: mine.extend(message, "1m"),  # noqa: B023
        ):
            refuse(LeaseLost, call, "not held by this consumer")
        message.ack()
    assert broker.depth("orders", "default") == 2
    assert len(broker.read("other")) == 1


def test_a_stream_consumer_commits_only_its_own(broker: TestBroker) -> None:
    broker.create_topic("other", partitions=2)
    broker.publish("other", b"x", partition=0)
    stream = broker.consumer("orders", group="s", kind="stream")
    stream.receive()
    foreign = [
        broker.consumer("other", group="s", kind="stream").receive()[0],
        broker.consumer("orders").receive()[0],
        broker.consumer("orders", group="t", kind="stream").receive()[0],
    ]

    for message in foreign:
        refuse(LeaseLost, lambda: stream.ack(message), "not held by this consumer")  # noqa: B023
        message.ack()
    assert broker.depth("orders", "s") == 3


@pytest.mark.parametrize("thing", [None, "message", 7, b"x", ["m"], [None]])
def test_an_ack_of_what_is_no_message_is_refused(broker: TestBroker, thing: Any) -> None:
    consumer = broker.consumer("orders")

    refuse(InvalidValue, lambda: consumer.ack(thing), "messages")
    refuse(InvalidValue, lambda: consumer.nack(thing), "message")
    refuse(InvalidValue, lambda: consumer.reject(thing, "no"), "message")
    refuse(InvalidValue, lambda: consumer.extend(thing, "1m"), "message")
    stream = broker.consumer("orders", group="s", kind="stream")
    refuse(InvalidValue, lambda: stream.ack(thing), "messages")


@pytest.mark.parametrize(
    ("outputs", "error"),
    [
        ([("../missing", Message(b"x"))], InvalidName),
        ([("orders", Message(None))], EmptyMessage),
        ([("orders", Message(b"x" * 2000))], MessageTooLarge),
        ([("orders", Message(b"x", partition=9))], PartitionNotFound),
        ([("orders", Message(b"x", delay="1h"))], InvalidValue),
        ([("orders", Message(b"x", dedup_id="a"))], InvalidValue),
        ([("orders", b"x")], InvalidValue),
        (["orders"], InvalidValue),
        ([7], InvalidValue),
    ],
)
def test_outputs_that_cannot_be_published_leave_the_ack_undone(
    broker: TestBroker, outputs: Any, error: type[PenstockError]
) -> None:
    consumer = broker.consumer("orders")
    [message] = consumer.receive()

    refuse(error, lambda: consumer.ack(message, publish=outputs))
    refuse(error, lambda: consumer.ack(message, publish=[("orders", Message(b"fine")), *outputs]))

    assert len(broker.read("orders")) == 3
    message.ack()


def test_outputs_belong_to_inputs_of_one_partition(broker: TestBroker) -> None:
    broker.publish("orders", b"x", partition=1)
    consumer = broker.consumer("orders")
    messages = consumer.receive(10)

    refuse(InvalidValue, lambda: consumer.ack(messages, publish=[("orders", Message(b"y"))]), "one partition")
    consumer.ack(messages)


@pytest.mark.parametrize("error", [7, ["no"], {"a": 1}])
def test_an_error_of_any_kind_is_written_as_text(broker: TestBroker, error: Any) -> None:
    # A nack with a strange error is better than none: the message comes again, and the words are there.
    broker.consumer("orders", max_attempts=1).receive()[0].nack(error=error)

    assert [letter.error for letter in broker.dead_letters("orders")] == [str(error)]


def test_an_error_that_cannot_be_written_as_it_is_does_no_harm(broker: TestBroker) -> None:
    class RudeError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("I have no words")

    consumer = broker.consumer("orders", max_attempts=1)
    lone, rude, long = consumer.receive(3)
    lone.nack(error="\ud800 lone")
    rude.nack(error=RudeError())
    long.nack(error="x" * 100_000)

    letters = broker.dead_letters("orders")
    assert len(letters) == 3
    assert len(letters[2].error) <= 2000


def test_everything_of_a_closed_consumer_is_refused(broker: TestBroker) -> None:
    consumer = broker.consumer("orders")
    [message] = consumer.receive()
    consumer.close()

    calls: list[Callable[[], object]] = [
        lambda: consumer.receive(),
        lambda: consumer.ack(message),
        lambda: consumer.nack(message),
        lambda: consumer.reject(message, "no"),
        lambda: consumer.extend(message, "1m"),
        lambda: consumer.commit(),
    ]
    for call in calls:
        refuse(Closed, call, "consumer is closed", "open a new one")


def test_nothing_of_all_this_has_changed_anything(broker: TestBroker) -> None:
    broker.create_topic("other")
    for call in [*TOPIC_CALLS, *GROUP_CALLS]:
        with pytest.raises(PenstockError):
            call(broker)

    assert [message.value for message in broker.read("orders")] == [b"0", b"1", b"2"]
    assert broker.depth("orders", "g") == 3


def test_a_reason_is_text(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"a")
    [message] = penstock.consumer("orders").receive()

    with pytest.raises(InvalidValue, match="say in text"):
        message.reject(None)  # type: ignore[arg-type]

    message.ack()
