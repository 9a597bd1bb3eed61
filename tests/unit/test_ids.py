"""Message ids as UUIDs."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.broker import PARTITIONS_MAX
from penstock.errors import InvalidValue
from penstock.model.ids import is_uuid, message_uuid, place_of
from penstock.testing import TestBroker

TOPICS = ["orders", "users", "a", "orders.dlq"]


@given(st.sampled_from(TOPICS), st.integers(0, PARTITIONS_MAX - 1), st.integers(0, 2**48 - 1))
def test_a_uuid_has_the_place_of_its_message(topic: str, partition: int, offset: int) -> None:
    made = message_uuid(topic, partition, offset)

    assert (uuid.UUID(made).version, uuid.UUID(made).variant) == (8, uuid.RFC_4122)
    assert is_uuid(made)
    assert place_of(made, TOPICS) == (topic, partition, offset)
    assert place_of(made, [name for name in TOPICS if name != topic]) is None


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
    with pytest.raises(InvalidValue, match="UUID of a message in a known topic"):
        penstock.trace(message_uuid("unknown", 2, 0))
