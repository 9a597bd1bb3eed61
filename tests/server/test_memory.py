"""Memory of a server is bounded by its settings, not by what clients do or leave undone."""

import threading
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Literal

import pytest
from tests.server.bystander import Bystander
from tests.server.conversations import announced
from tests.server.ledger import all_of
from tests.server.peer import Peer
from tests.server.process import PATIENCE_S, Server

import penstock
from penstock.errors import Overloaded
from penstock.operations.codec import arguments_of
from penstock.wire import native
from penstock.wire.native_bodies import decode_error_frame, encode_call
from penstock.wire.records import encode_values

MIB = 1 << 20

pytestmark = pytest.mark.slow


def test_a_consumer_with_credit_that_reads_nothing_costs_its_buffer_and_no_more(tmp_path: Path) -> None:
    """Eighty megabytes are published for ten clients that may be sent everything, and read nothing."""
    with Server(tmp_path) as server, Bystander(server) as bystander, Peer(server) as publisher:
        publisher.call("create_topic", name="orders", options={"partitions": 1, "durability": "os"})
        deaf = [Peer(server) for _ in range(10)]
        for number, peer in enumerate(deaf):
            consumer = peer.open("orders", f"group-{number}").consumer
            peer.send(native.encode_credit(consumer, native.UINT32_MAX))
        publisher.publish("orders", *[bytes(1000)] * 1000)
        before = server.rss_bytes()

        for _ in range(80):
            publisher.publish("orders", *[bytes(1000)] * 1000)
            bystander.check()

        # One write buffer each (1 MiB), what is read from the log for the next write, and what Python keeps.
        assert server.rss_bytes() - before < 48 * MIB
        for peer in deaf:
            peer.socket.close()
        bystander.check()
        server.check_log()


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("kind", ["queue", "stream"])
def test_large_messages_come_a_few_at_a_time_however_many_are_asked_for(
    tmp_path: Path, kind: Literal["queue", "stream"], partitions: int
) -> None:
    with Server(tmp_path) as server, penstock.connect(server.url) as broker:
        broker.create_topic("films", partitions=partitions, durability="os")
        with broker.consumer("films", group="viewers", kind=kind) as consumer:
            for number in range(60):
                broker.publish("films", number.to_bytes(1) + bytes(MIB - 1024))
            before = server.rss_bytes()
            seen: dict[int, list[int]] = {}
            left = 60
            while left:
                some = consumer.receive(100, wait="10s")
                assert 0 < len(some) <= 6
                left -= len(some)
                for message in some:
                    seen.setdefault(message.partition, []).append(message.value[0])
                if kind == "queue":
                    consumer.ack(some)
                else:
                    consumer.commit()
            assert sorted(chain.from_iterable(seen.values())) == list(range(60))
            assert [sorted(numbers) for numbers in seen.values()] == list(seen.values())
            # The answer in pieces, joined, and what of it is not sent yet.
            assert server.rss_bytes() - before < 32 * MIB


def test_a_client_that_asks_and_does_not_read_is_not_read_either(tmp_path: Path) -> None:
    with Server(tmp_path) as server, Bystander(server) as bystander, Peer(server) as deaf:
        deaf.call("create_topic", name="orders", options={"partitions": 1, "durability": "os"})
        deaf.publish("orders", *[bytes(1000)] * 1000)
        request = read_request(deaf)
        before = server.rss_bytes()
        deaf.socket.settimeout(0.5)

        sent = 0
        with pytest.raises(TimeoutError):  # The server reads no further, and the buffers between are full.
            while True:
                sent += deaf.socket.send(request * 100)

        assert sent < 32 * MIB
        bystander.check()
        assert server.rss_bytes() - before < 48 * MIB
        server.check_log()


def read_request(peer: Peer) -> bytes:
    """A few bytes that ask for a megabyte."""
    told = arguments_of("read", topic="orders", partition=0, offset=0, limit=1000)
    return encode_call(peer.next_correlation(), "read", told)


def test_frames_that_never_end_have_one_limit_for_all(tmp_path: Path) -> None:
    settings = {"PENSTOCK_LIMITS__PUBLISH_BYTES_MAX": "16MiB"}
    with Server(tmp_path, settings=settings) as server, Bystander(server) as bystander:
        before = server.rss_bytes()
        peers = [Peer(server) for _ in range(10)]
        for peer in peers:
            with suppress(ConnectionError):
                peer.send(announced(native.PUBLISH, 12 * MIB) + bytes(8 * MIB))
        refused = [peer for peer in peers if was_refused(peer)]

        assert 1 <= len(refused) < 10
        assert server.rss_bytes() - before < 48 * MIB
        bystander.check()
        for peer in peers:
            peer.socket.close()
        server.check_log()


def was_refused(peer: Peer) -> bool:
    peer.socket.settimeout(2)
    try:
        opcode, body = peer.frame()
    except TimeoutError:
        return False
    except (EOFError, ConnectionError):
        return True
    assert opcode == native.ERROR
    assert isinstance(decode_error_frame(body), Overloaded)
    return True


OVERLOAD = {
    "PENSTOCK_LIMITS__PUBLISH_BYTES_MAX": "64KiB",
    "PENSTOCK_LIMITS__FRAME_BYTES_MAX": "64KiB",
    "PENSTOCK_TOPIC__MESSAGE_BYTES_MAX": "50KiB",
}


def test_publishes_beyond_the_limit_are_refused_and_may_be_sent_again(tmp_path: Path) -> None:
    with Server(tmp_path, settings=OVERLOAD) as server, Peer(server) as peer:
        peer.call("create_topic", name="orders", options={"partitions": 1})
        version = peer.version("orders")
        batch = bytes(encode_values([bytes(30_000)], 0, 0))

        peer.send(
            b"".join(
                native.encode_publish(100 + number, "orders", version, native.ACKS_DURABLE, [(0, batch)])
                for number in range(10)
            )
        )
        answers = [peer.frame() for _ in range(10)]

        errors = [decode_error_frame(body) for opcode, body in answers if opcode == native.ERROR]
        assert errors
        assert {type(error) for error in errors} == {Overloaded}
        assert all(error.retryable for error in errors)
        assert len(peer.call("read", topic="orders", partition=0, offset=0)) == 10 - len(errors)


def test_clients_retry_what_an_overloaded_server_refused_and_everything_arrives_once(tmp_path: Path) -> None:
    with Server(tmp_path, settings=OVERLOAD) as server, penstock.connect(server.url) as broker:
        broker.create_topic("orders", partitions=1)
        failures: list[BaseException] = []

        def publish(number: int) -> None:
            try:
                with penstock.connect(server.url, request_timeout="60s") as other:
                    for count in range(10):
                        other.publish("orders", b"%d-%d-" % (number, count) + bytes(40_000))
            except BaseException as error:  # noqa: BLE001 - the test must hear of it
                failures.append(error)

        threads = [threading.Thread(target=publish, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)

        assert failures == []
        names = [message.value[:10].rpartition(b"-")[0] for message in all_of(broker, "orders", 0)]
        assert sorted(names) == sorted(b"%d-%d" % (one, two) for one in range(8) for two in range(10))
        server.check_log()
