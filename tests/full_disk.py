"""Publishing to a disk until there is no room; the fixture ``tiny_disk`` has little."""

import os

import penstock
from penstock.errors import DiskFull


def publish_until_full(broker: penstock.Broker) -> list[bytes]:
    """Returns what was accepted until then."""
    accepted: list[bytes] = []
    while True:
        value = os.urandom(10_000)
        try:
            broker.publish("orders", value)
        except DiskFull:
            return accepted
        accepted.append(value)
