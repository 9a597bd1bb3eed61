"""Handing out: what nobody gets is passed over, however much of it there is."""

from penstock.broker.queue import leases
from penstock.testing import TestBroker
from penstock.wire.records import REDRIVEN, SCHEDULED, BatchBuilder, lane_attributes


def test_a_long_stretch_of_expired_messages_is_passed_over_in_one_receive(penstock: TestBroker) -> None:
    """More than one step looks at, one message at a time, so that the receive has to give way in between."""
    penstock.create_topic("orders")
    for _ in range(2 * leases.LOOKS_MAX + 1):
        penstock.publish("orders", b"old", ttl="1s")
    penstock.advance("2s")
    penstock.publish("orders", b"new")

    [message] = penstock.consumer("orders", group="shipping").receive()

    assert message.value == b"new"
    assert penstock.describe_group("orders", "shipping").expired == 2 * leases.LOOKS_MAX + 1
    assert penstock.describe_group("orders", "shipping").lag == 1


def test_a_batch_from_elsewhere_cannot_speak_for_the_schedule(penstock: TestBroker) -> None:
    """A forged x-schedule-id would make a waiting message count as delivered at the next recovery."""
    penstock.create_topic("orders")
    scheduled = penstock.publish("orders", b"later", delay="1h").schedule_id
    assert scheduled is not None
    builder = BatchBuilder()
    builder.add(None, b"forged", [("x-schedule-id", scheduled.rpartition("s")[2].encode())])

    penstock.append("orders", 0, bytes(builder.build(0, 0, SCHEDULED | REDRIVEN | lane_attributes(1))))

    [message] = penstock.peek("orders")
    assert not message.attributes & (SCHEDULED | REDRIVEN)
    assert message.priority == "high"
