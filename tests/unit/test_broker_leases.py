"""Handing out: what nobody gets is passed over, however much of it there is."""

from penstock.broker import leases
from penstock.testing import TestBroker


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
