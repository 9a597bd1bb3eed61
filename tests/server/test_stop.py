"""SIGTERM under load: the server ends in order, and nothing that was answered is lost.

A second SIGINT ends it at once: ``frontends/serve/test_process.py``.
"""

import signal
import time
from pathlib import Path

import pytest
from tests.server.crew import Crew
from tests.server.peer import Peer
from tests.server.process import Server

import penstock
from penstock.wire import native

STOPS = 4
STOP_S = 10.0  # The default of server.stop_timeout.

pytestmark = pytest.mark.slow


def test_a_server_that_is_stopped_under_load_loses_nothing_and_its_clients_come_back(tmp_path: Path) -> None:
    with Server(tmp_path) as server, Crew(server.url) as crew:
        crew.begin(("publish", 1), ("consume", 2), ("prefetch", 3))
        for number in range(STOPS):
            crew.hear(200)
            began = time.monotonic()
            server.signal(signal.SIGINT if number % 2 else signal.SIGTERM)
            assert server.wait() == 0
            assert time.monotonic() - began < STOP_S
            server.start()
        crew.hear(200)
        crew.end()
        assert server.log().count("stopped") == STOPS
        server.check_log()

        with penstock.connect(server.url) as broker:
            crew.ledger.check(broker)


def test_what_consumers_held_when_the_server_was_stopped_comes_again_as_if_it_had_not_gone_out(
    tmp_path: Path,
) -> None:
    with Server(tmp_path) as server:
        with Peer(server) as peer:
            peer.call("create_topic", name="orders", options={"partitions": 1})
            peer.publish("orders", b"one", b"two", b"three")
            consumer = peer.open("orders", options={"visibility_timeout": "10m"}).consumer
            [first] = peer.receive(consumer, 1)
            [held] = peer.receive(consumer)
            assert (held.attempt, held.start, held.end) == (1, 1, 3)
            peer.ack(consumer, first)  # Now it is also written that the others are lent.
            assert server.stop() == 0
        server.start()

        with Peer(server) as peer:
            [again] = peer.receive(peer.open("orders").consumer)
            assert (again.attempt, again.start, again.end) == (1, 1, 3)


def test_clients_that_do_not_read_or_do_not_finish_do_not_keep_a_server_from_stopping(tmp_path: Path) -> None:
    with Server(tmp_path) as server:
        with Peer(server) as writer, Peer(server) as deaf, Peer(server) as slow:
            writer.call("create_topic", name="orders", options={"partitions": 1})
            for _ in range(20):
                writer.publish("orders", *[bytes(100_000)] * 5)
            consumer = deaf.open("orders").consumer
            deaf.send(native.encode_credit(consumer, 1_000_000))  # And never reads what comes.
            slow.send(native.frame(native.PING, 7)[:-1])

            began = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - began < STOP_S + 5
    server.check_log()


def test_what_a_stop_has_no_time_to_flush_is_recovered(tmp_path: Path) -> None:
    with Server(tmp_path, settings={"PENSTOCK_SERVER__STOP_TIMEOUT": "1ms"}) as server:
        with penstock.connect(server.url) as broker:
            for durability in ("fsync", "os"):
                broker.create_topic(durability, partitions=100, durability=durability)
                messages = [penstock.Message(b"%d" % number, partition=number) for number in range(100)]
                broker.publish_batch(durability, messages)
                with broker.consumer(durability) as consumer:
                    acked = consumer.receive(30)
                    consumer.ack(acked)

        assert server.stop() == 0

        assert "could not be flushed to disk in time; the next start recovers them" in server.log()
        server.start()
        with penstock.connect(server.url) as broker:
            for durability in ("fsync", "os"):
                assert broker.describe_topic(durability).messages == 100
                with broker.consumer(durability) as consumer:
                    left = consumer.receive(200)
                assert {(message.attempt, len(left)) for message in left} == {(1, 70)}
