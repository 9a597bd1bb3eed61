"""The power goes while clients wait for a server: what they were answered was on disk by then.

A killed process leaves everything it has written to the operating system; a
power cut does not.  The disk is in memory (``CrashDisk``), and loses at each cut
whatever part of the unsynced bytes a seeded random likes.
"""

from random import Random

import pytest
from tests.server.virtual import TroubledServer

import penstock

CUTS = 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_what_a_server_answered_was_on_disk_before(seed: int) -> None:
    random = Random(seed)
    with TroubledServer() as server, penstock.connect(server.url) as broker:
        broker.create_topic("orders", partitions=1)
        broker.create_group("orders", "work", kind="queue")
        published: list[bytes] = []
        acked: set[bytes] = set()
        for number in range(CUTS):
            values = [b"%d-%d" % (number, index) for index in range(3)]
            broker.publish("orders", values[0])
            broker.publish_batch("orders", values[1:])
            published += values
            broker.publish("orders", b"later-%d" % number, delay="1h")
            with broker.consumer("orders", group="work") as consumer:
                for message in consumer.receive(2):
                    message.ack()
                    acked.add(message.value)

            server.cut_power(random)  # The client finds the server again by itself.

            assert [message.value for message in broker.read("orders", limit=1000)] == published
            assert broker.scheduled_count("orders") == number + 1
            with broker.consumer("orders", group="work") as consumer:
                rest = {message.value for message in consumer.receive(1000)}
            assert rest == set(published) - acked
        server.advance("2h")
        later = [message.value for message in broker.read("orders", limit=1000)][len(published) :]
        assert sorted(later) == sorted(b"later-%d" % number for number in range(CUTS))
