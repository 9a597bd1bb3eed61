"""What a client of the native protocol learns about owners, to ask them itself."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.routing.test_routing import PARTITIONS, SpreadServer

import penstock
from penstock.errors import TopicNotFound
from penstock.frontends.kqueue.opcodes import PING, SUB
from penstock.frontends.kqueue.server import KQueueProtocol
from penstock.frontends.kqueue.session import PRIVATE
from penstock.frontends.listener import Connections
from penstock.frontends.native.server import NativeListener
from penstock.frontends.security.gateway import AuthGateway
from penstock.testing import TestBroker
from penstock.transport.frames import plain_frame
from penstock.wire import native
from penstock.wire.native_bodies import (
    Hello,
    Metadata,
    OpenConsumer,
    OpenedConsumer,
    decode_body,
    decode_error_frame,
    encode_body,
)


class NativeServer(SpreadServer):
    """Every node listens for clients, too."""

    async def start(self) -> None:
        await super().start()
        self._native: list[Any] = []
        for node in self.nodes:
            gateway = AuthGateway(node.broker)
            other = KQueueProtocol(node.broker, gateway)
            listener = NativeListener(node.broker, self._limits, Connections(100), gateway, other)
            server = await self._loop.create_server(listener.connect, "127.0.0.1", 0)
            self._native.append((listener, server))
            port = server.sockets[0].getsockname()[1]
            addresses = node.table.addresses
            addresses[node.number] = addresses[node.number]._replace(native=port)

    async def stop(self) -> None:
        for listener, server in self._native:
            server.close()
            listener.abort()
        await super().stop()


@pytest.fixture
def server() -> Iterator[NativeServer]:
    with NativeServer() as server, penstock.connect(server.url) as broker:
        broker.create_topic("orders", partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            broker.publish("orders", b"%d" % partition, partition=partition)
        yield server


async def talk(address: tuple[str, int], *frames: bytes) -> list[tuple[int, bytes]]:
    """The answers to a hello and to these requests."""
    reader, writer = await asyncio.open_connection(*address)
    answers = []
    hello = encode_body(native.HELLO, 1, Hello(versions=[native.VERSION], client="test"))
    for frame in (hello, *frames):
        writer.write(frame)
        head = await reader.readexactly(native.HEADER_BYTES)
        answers.append((head[0], await reader.readexactly(int.from_bytes(head[1:], "big"))))
    writer.close()
    return answers[1:]


def metadata(server: NativeServer, node: int) -> Metadata:
    address = server.nodes[0].table.addresses[node]
    asked = talk((address.host, address.native), encode_body(native.METADATA, 2, "orders"))
    [(_, body)] = server.run(asked)
    return decode_body(body, Metadata)


def test_metadata_has_the_owners_and_where_they_are(server: NativeServer) -> None:
    for node in (1, 2, 3):
        found = metadata(server, node)

        assert found.owners == [(2, 1), (3, 1), (2, 1), (3, 1)]
        table = server.nodes[0].table.addresses
        assert found.nodes == {number: (each.host, each.native) for number, each in table.items()}


def test_a_program_learns_the_owners_and_their_addresses_from_any_node(server: NativeServer) -> None:
    table = server.nodes[0].table.addresses
    for node in (1, 2, 3):
        with penstock.connect(f"penstock://127.0.0.1:{table[node].native}") as broker:
            found = broker.topic_owners("orders")

            assert [node for node, _ in found.owners] == [2, 3, 2, 3]
            assert found.address(1) == ("127.0.0.1", table[3].native)
            assert found.address(PARTITIONS) is None
            with pytest.raises(TopicNotFound):
                broker.topic_owners("parcels")
            assert not broker.topic_exists("parcels")


def test_without_a_cluster_there_are_no_owners() -> None:
    with TestBroker.open() as broker:
        broker.create_topic("orders")

        assert broker.topic_owners("orders").address(0) is None
        with pytest.raises(TopicNotFound):
            broker.topic_owners("parcels")


def test_a_consumer_may_ask_for_the_partitions_of_one_node(server: NativeServer) -> None:
    received: dict[int, list[int]] = {}
    for node, (host, port) in metadata(server, 1).nodes.items():
        request = OpenConsumer(topic="orders", group="billing", here=True)
        receive = native.encode_receive(3, 1, 10, 0)
        [opened, *batches] = server.run(
            talk(
                (host, port), encode_body(native.OPEN_CONSUMER, 2, request), *([receive] if node > 1 else [])
            )
        )
        if node == 1:
            assert decode_error_frame(opened[1]).code == "NOT_OWNER"
            continue
        assert decode_body(opened[1], OpenedConsumer).consumer == 1
        received[node] = sorted(each.partition for each in native.decode_received(batches[0][1]))

    assert received == {2: [0, 2], 3: [1, 3]}


def test_a_subscriber_of_kqueue_leaves_the_private_groups_of_other_nodes(server: NativeServer) -> None:
    address = server.nodes[0].table.addresses[2]
    group = f"{PRIVATE}{'0' * 32}"  # Without consumers, as while another node opens one.

    async def subscribe() -> bytes:
        reader, writer = await asyncio.open_connection(address.host, address.native)
        writer.write(plain_frame(SUB, b'{"Topic":"orders","Group":"g"}'))
        line = await reader.readline()
        for _ in range(50):  # Turns in which it would be deleted.
            writer.write(plain_frame(PING, b""))
            await reader.readline()
        writer.close()
        return line

    with penstock.connect(server.url) as broker:
        broker.create_group("orders", group)

        assert server.run(subscribe()) == b"OK Subscribed to orders\n"

        assert group in broker.groups("orders")
