"""Bad settings and durations: each is named in its error, and changes nothing."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.refused import BAD_DURATIONS, refuse, with_orders

from penstock import BrokerConfig
from penstock import open as open_broker
from penstock.errors import GroupKindMismatch, InvalidValue, MessageExpired, PenstockError
from penstock.log.files import MemoryFiles
from penstock.testing import TestBroker


@pytest.fixture
def broker(penstock: TestBroker) -> TestBroker:
    return with_orders(penstock)


@pytest.mark.parametrize("duration", [*BAD_DURATIONS, -1, 1e300, float("inf"), timedelta(days=-1)])
def test_a_bad_duration_is_refused_by_the_name_of_its_argument(broker: TestBroker, duration: Any) -> None:
    consumer = broker.consumer("orders")
    [message] = consumer.receive()

    refuse(InvalidValue, lambda: broker.create_topic("x", dedup_window=duration), "dedup_window")
    refuse(InvalidValue, lambda: broker.consumer("orders", visibility_timeout=duration), "visibility_timeout")
    refuse(InvalidValue, lambda: broker.create_group("orders", "n", backoff=[duration]), "backoff")
    refuse(InvalidValue, lambda: message.extend(duration), "duration")
    refuse(InvalidValue, lambda: broker.advance(duration), "duration")
    if duration is not None:  # None is no time to live, the group's own backoff, for ever.
        over = duration in (-1, timedelta(days=-1))  # Nothing is left of its time to live.
        expected = MessageExpired if over else InvalidValue
        refuse(expected, lambda: broker.publish("orders", b"x", ttl=duration), "ttl")
        refuse(InvalidValue, lambda: message.nack(delay=duration), "delay")
        refuse(InvalidValue, lambda: broker.create_topic("x", retention=duration), "retention")
        refuse(InvalidValue, lambda: broker.close(timeout=duration), "timeout")
    if duration not in (None, "", []):
        refuse(InvalidValue, lambda: consumer.receive(wait=duration), "wait")
    message.ack()


@pytest.mark.parametrize(
    "deliver_at",
    ["tomorrow", "", "2026-13-01T00:00:00Z", datetime(2026, 1, 2), True, [], float("nan"), float("inf")],  # noqa: DTZ001
)
def test_a_bad_time_is_refused_by_the_name_of_its_argument(broker: TestBroker, deliver_at: Any) -> None:
    refuse(InvalidValue, lambda: broker.publish("orders", b"x", deliver_at=deliver_at), "deliver_at")
    refuse(InvalidValue, lambda: broker.read("orders", from_time=deliver_at), "from_time")
    refuse(InvalidValue, lambda: broker.read("orders", to_time=deliver_at), "to_time")
    refuse(InvalidValue, lambda: broker.seek("orders", "g", deliver_at), "start")
    refuse(InvalidValue, lambda: broker.consumer("orders", group="n", start=deliver_at), "start")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("partitions", 0), ("partitions", -1), ("partitions", 10_001), ("partitions", "3"),
        ("partitions", 1.5),
        ("partitions", True), ("partitions", None), ("durability", "sometimes"), ("durability", None),
        ("compression", "rar"), ("retention", 0), ("retention_bytes", 0), ("retention_bytes", "1MB"),
        ("retain_until_settled", "yes"), ("retain_until_settled", 1), ("segment_bytes", 10),
        ("segment_bytes", 1 << 40), ("compact", None), ("tombstone_retention", "never"), ("ttl", 0),
        ("dead_letter_expired", 0), ("dead_letter_topic", 7), ("message_bytes_max", 0),
        ("message_bytes_max", 1 << 40), ("depth_max", 0), ("depth_max", -5), ("depth_max", True),
        ("depth_policy", "hope"), ("depth_wait", None), ("dedup_window", "8d"), ("delay_max", "long"),
        ("colour", "red"), ("retention_ms", 5),
    ],
)  # fmt: skip
def test_a_bad_setting_of_a_topic_is_named(broker: TestBroker, name: str, value: Any) -> None:
    options: Any = {name: value}

    refuse(InvalidValue, lambda: broker.create_topic("new", **options), name)
    refuse(InvalidValue, lambda: broker.alter_topic("orders", **options), name)
    refuse(InvalidValue, lambda: broker.queue("new", **options), name)
    assert broker.topics() == ["orders"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kind", "pile"), ("kind", None), ("start", "middle"), ("start", -1), ("start", True),
        ("start", None),
        ("visibility_timeout", 0), ("visibility_timeout", "13h"), ("max_attempts", 0), ("max_attempts", 1001),
        ("max_attempts", "4"), ("max_attempts", True), ("backoff", []), ("backoff", "linear"), ("backoff", 5),
        ("backoff", "exponential:x:2:3:0"), ("backoff", "exponential:1000:0.5:2000:0"),
        ("backoff", "fixed:"), ("backoff", "fixed:-1"), ("backoff", ["1s", "soon"]), ("ordered", "yes"),
        ("delivery", "exactly-once"), ("lanes", "fast"), ("dead_letter", "no"), ("session_timeout", 0),
        ("session_timeout", "2d"), ("colour", "red"),
    ],
)  # fmt: skip
def test_a_bad_setting_of_a_group_is_named_and_makes_no_group(
    broker: TestBroker, name: str, value: Any
) -> None:
    options: Any = {name: value}

    refuse(InvalidValue, lambda: broker.create_group("orders", "new", **options), name)
    refuse(InvalidValue, lambda: broker.consumer("orders", group="new", **options), name)
    refuse(InvalidValue, lambda: broker.create_group("orders", "g", **options), name)
    assert broker.groups("orders") == ["g"]


@pytest.mark.parametrize("limit", [0, -1, 10_001, 1.5, "7", True])
def test_a_bad_max_in_flight_is_refused(broker: TestBroker, limit: Any) -> None:
    refuse(InvalidValue, lambda: broker.consumer("orders", max_in_flight=limit), "max_in_flight")


def test_what_is_fixed_when_a_group_is_made_cannot_be_changed(broker: TestBroker) -> None:
    refuse(InvalidValue, lambda: broker.consumer("orders", group="g", ordered=True), "fixed when a group")
    refuse(GroupKindMismatch, lambda: broker.consumer("orders", group="g", kind="stream"))
    broker.create_group("orders", "s", kind="stream")
    refuse(GroupKindMismatch, lambda: broker.consumer("orders", group="s", kind="queue"))
    refuse(InvalidValue, lambda: broker.consumer("orders", group="s", ordered=True))


@pytest.mark.parametrize(
    "field", ["in_flight_max", "receive_messages_max", "maintenance_ms", "close_timeout_ms"]
)
@pytest.mark.parametrize("value", [0, -1, "7", None, 1.5, True])
def test_a_bad_limit_of_the_broker_is_named(field: str, value: Any) -> None:
    refuse(InvalidValue, lambda: BrokerConfig(**{field: value}), field)


def test_a_refused_backoff_is_not_in_the_way_of_a_restart() -> None:
    files = MemoryFiles()
    with TestBroker.open("data", files=files) as broker:
        broker.create_topic("orders")
        refuse(InvalidValue, lambda: broker.consumer("orders", backoff="exponential:x"), "backoff")

    with TestBroker.open("data", files=files) as broker:
        assert broker.groups("orders") == []


@pytest.mark.parametrize("compression", ["rar", "", None, 7])
def test_an_unknown_compression_of_a_producer_is_refused(broker: TestBroker, compression: Any) -> None:
    refuse(InvalidValue, lambda: broker.producer(compression=compression), "compression", "zstd")


@pytest.mark.parametrize("directory", ["", "a\x00b", 7, b"data"])
def test_a_directory_that_cannot_be_one_is_refused(directory: Any) -> None:
    with pytest.raises(PenstockError):
        open_broker(directory)
