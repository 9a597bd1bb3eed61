"""Message ids as UUIDs."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.broker import PARTITIONS_MAX
from penstock.errors import InvalidValue, OffsetOutOfRange
from penstock.model.ids import (
    is_sent_uuid,
    is_uuid,
    kafka_position,
    message_uuid,
    position_of,
    sent_position,
    sent_uuid,
)
from penstock.testing import TestBroker

TOPICS = ["orders", "users", "a", "orders.dlq"]


@given(st.sampled_from(TOPICS), st.integers(0, PARTITIONS_MAX - 1), st.integers(0, 2**48 - 1))
def test_a_uuid_has_the_place_of_its_message(topic: str, partition: int, offset: int) -> None:
    made = message_uuid(topic, partition, offset)

    assert (uuid.UUID(made).version, uuid.UUID(made).variant) == (8, uuid.RFC_4122)
    assert is_uuid(made)
    assert position_of(made, TOPICS) == (topic, partition, offset)
    assert position_of(made, [name for name in TOPICS if name != topic]) is None


@pytest.mark.parametrize(
    "other", ["", "orders:0:7", "6ae5a83c-7d8d-4e40-b4c2-9dfb4080a60d", "x" * 36, 7, None]
)
def test_other_ids_are_not_taken_for_uuids_of_messages(other: object) -> None:
    assert not is_uuid(other)


def test_a_message_is_traced_by_its_uuid_and_one_of_no_topic_is_refused(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=3)
    penstock.publish("orders", b"a", partition=2, headers={"x-producer": "order-service"})

    trace = penstock.trace(message_uuid("orders", 2, 0))

    assert trace.id == "orders:2:0"
    assert trace.events[0].detail == "1 bytes, priority normal, by order-service"
    with pytest.raises(InvalidValue, match="in a known topic"):
        penstock.trace(message_uuid("unknown", 2, 0))


@given(st.sampled_from(TOPICS), st.integers(0, 2**48 - 1), st.integers(0, 2**40))
def test_a_uuid_of_a_message_that_is_sent_has_its_topic_and_time(
    topic: str, sent_ms: int, number: int
) -> None:
    made = sent_uuid(topic, sent_ms, number)

    assert (uuid.UUID(made).version, uuid.UUID(made).variant) == (7, uuid.RFC_4122)
    assert (str(uuid.UUID(made)), is_sent_uuid(made), is_uuid(made)) == (made, True, False)
    assert sent_position(made, TOPICS) == (topic, sent_ms)
    assert sent_position(made, [name for name in TOPICS if name != topic]) is None


def test_uuids_of_messages_that_are_sent_at_the_same_time_differ() -> None:
    assert len({sent_uuid("orders", 1, number) for number in range(2**34 - 500, 2**34 + 500)}) == 1000


def test_ids_of_kafkas_clients_are_read() -> None:
    assert kafka_position("my-orders-3@17") == ("my-orders", 3, 17)
    assert [kafka_position(each) for each in ("orders", "orders-0", "orders@1", "orders-x@1", None)] == [
        None
    ] * 5


def test_a_message_is_traced_by_the_id_that_kafkas_clients_show(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=3)
    penstock.publish("orders", b"a", partition=2)

    assert penstock.trace("orders-2@0").id == "orders:2:0"
    with pytest.raises(OffsetOutOfRange):
        penstock.trace("orders-2@1")
