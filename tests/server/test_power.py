"""The power goes while clients wait for a server: what they were answered was on disk by then.

A killed process leaves everything it has written to the operating system; a
power cut does not.  The disk is in memory (``CrashDisk``), and loses at each cut
whatever part of the unsynced bytes a seeded random likes.
"""

from random import Random

import pytest
from tests.server.virtual import TroubledServer

import penstock

CUTS = 12


class Told:
    """What a client was answered."""

    def __init__(self, broker: penstock.Broker) -> None:
        self.broker = broker
        self.published: list[bytes] = []
        self.later: list[bytes] = []
        self.acked: set[bytes] = set()

    def publish(self, number: int) -> None:
        self.broker.publish("orders", b"%d" % number)
        self.published.append(b"%d" % number)

    def publish_batch(self, number: int) -> None:
        values = [b"%d-%d" % (number, index) for index in range(3)]
        self.broker.publish_batch("orders", values)
        self.published += values

    def publish_later(self, number: int) -> None:
        self.broker.publish("orders", b"later-%d" % number, delay="1h")
        self.later.append(b"later-%d" % number)

    def ack(self, number: int) -> None:
        with self.broker.consumer("orders", group="work") as consumer:
            for message in consumer.receive(2):
                message.ack()
                self.acked.add(message.value)

    def check(self) -> None:
        assert [message.value for message in self.broker.read("orders", limit=1000)] == self.published
        assert self.broker.scheduled_count("orders") == len(self.later)
        with self.broker.consumer("orders", group="work") as consumer:
            rest = {message.value for message in consumer.receive(1000)}
        assert rest == set(self.published) - self.acked


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_what_a_server_answered_was_on_disk_before(seed: int) -> None:
    random = Random(seed)
    with TroubledServer() as server, penstock.connect(server.url) as broker:
        broker.create_topic("orders", partitions=1)
        broker.create_group("orders", "work")
        told = Told(broker)
        for number in range(CUTS):
            work = [told.publish, told.publish_batch, told.publish_later, told.ack]
            random.shuffle(work)  # Each is the last before a cut at times: a later sync would cover it up.
            for do in work:
                do(number)

            server.cut_power(random)  # The client finds the server again by itself.

            told.check()
        server.advance("2h")
        stored = [message.value for message in broker.read("orders", limit=1000)]
        assert sorted(stored[len(told.published) :]) == sorted(told.later)
