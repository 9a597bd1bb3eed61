"""A server whose disk is full: a clear error, reading goes on, and so does publishing when there is room."""

from pathlib import Path

import pytest
from tests.full_disk import publish_until_full
from tests.server.process import Server
from tests.server.virtual import TroubledServer

import penstock
from penstock.errors import DiskFull


def test_clients_of_a_server_without_room_are_told_so_and_go_on_reading() -> None:
    with TroubledServer() as server, penstock.connect(server.url) as broker:
        broker.create_topic("orders")
        broker.publish_batch("orders", [b"%d" % number for number in range(5)])
        with broker.consumer("orders") as consumer:
            server.fill()

            for delay in (None, 1):
                with pytest.raises(DiskFull) as caught:
                    broker.publish("orders", b"no", delay=delay)
                assert caught.value.retryable
            assert [message.value for message in broker.read("orders")] == [b"0", b"1", b"2", b"3", b"4"]
            received = consumer.receive(5)
            with pytest.raises(DiskFull):
                consumer.ack(received)

            server.files.heal()
            consumer.ack(received)  # The same call works when there is room.
            last = broker.publish("orders", b"5")

        assert last.offset == 5
        assert broker.depth("orders") == 1
        assert [message.value for message in broker.read("orders")][-1] == b"5"


@pytest.mark.slow
def test_a_server_on_a_disk_that_is_really_full_serves_until_there_is_room(
    tmp_path: Path, tiny_disk: Path
) -> None:
    ballast = tiny_disk / "ballast"
    ballast.write_bytes(bytes(500_000))
    server = Server(tmp_path, data=tiny_disk / "data")
    with server, penstock.connect(server.url) as broker:
        broker.create_topic("orders", partitions=1, retention=None)
        with broker.consumer("orders") as consumer:
            accepted = publish_until_full(broker)
            assert len(accepted) > 10
            received = consumer.receive(5)
            assert [message.value for message in received] == accepted[:5]
            with pytest.raises(DiskFull):
                broker.publish("orders", bytes(10_000))

            ballast.unlink()
            consumer.ack(received)
            accepted += publish_until_full(broker)

        server.check_log()
        server.kill()
        server.start()
        assert [message.value for message in broker.read("orders", limit=1000)] == accepted
        assert broker.depth("orders") == len(accepted) - 5
