"""What is created as a queue on a server with default settings is first in, first out, as in a program."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

import pytest
from tests.server.process import PATIENCE_S, Server

import penstock

pytestmark = pytest.mark.slow

IN_ORDER = [str(number) for number in range(20)]
HEADER = Struct(">BI")
PUB, SUB, DELIVERY = 1, 2, 5


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as started:
        yield started


@pytest.fixture(params=["open", "connect"])
def broker(request: pytest.FixtureRequest, tmp_path: Path, server: Server) -> Iterator[penstock.Broker]:
    opened = (
        penstock.open(str(tmp_path / "data")) if request.param == "open" else penstock.connect(server.url)
    )
    with opened as made:
        yield made


def partitions(broker: penstock.Broker, topic: str) -> int:
    return len(broker.describe_topic(topic).partitions)


def test_a_queue_is_first_in_first_out(broker: penstock.Broker) -> None:
    queue = broker.queue("fifo")
    for value in IN_ORDER:
        queue.publish(value.encode())

    received = queue.subscribe("x").receive(20, wait=PATIENCE_S)

    assert [(message.value or b"").decode() for message in received] == IN_ORDER


def test_the_highest_priority_is_first_in_a_queue(broker: penstock.Broker) -> None:
    queue = broker.queue("lanes")
    for _ in range(12):
        queue.publish(b"low", priority="low")
    queue.publish(b"high", priority="high")

    [first] = queue.subscribe("x").receive(wait=PATIENCE_S)

    assert first.value == b"high"


def test_a_queue_has_the_partitions_that_were_asked_for(broker: penstock.Broker) -> None:
    broker.queue("wide", partitions=3)

    assert partitions(broker, "wide") == 3


def test_sub_of_the_text_protocol_makes_a_topic_in_order(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.ports["text"]), PATIENCE_S) as raw:
        lines = raw.makefile("rw", newline="\n")
        lines.write("SUB by-text\n" + "".join(f"PUB by-text {value}\n" for value in IN_ORDER))
        lines.flush()
        received: list[str] = []
        while len(received) < len(IN_ORDER):
            line = lines.readline().split()
            if line[0] == "MSG":
                received.append(line[3])

    assert received == IN_ORDER


def test_sub_of_kqueue_makes_a_topic_in_order(server: Server) -> None:
    def frame(opcode: int, **fields: str) -> bytes:
        body = json.dumps(fields).encode()
        return HEADER.pack(opcode, len(body)) + body

    with socket.create_connection(("127.0.0.1", server.ports["native"]), PATIENCE_S) as raw:
        stream = raw.makefile("rwb")
        stream.write(frame(SUB, Topic="by-kqueue"))
        stream.flush()
        assert stream.readline() == b"OK Subscribed to by-kqueue\n"
        for value in IN_ORDER:
            stream.write(frame(PUB, Topic="by-kqueue", Payload=value))
        stream.flush()
        received: list[str] = []
        while len(received) < len(IN_ORDER):
            first = stream.read(1)
            if first != bytes([DELIVERY]):
                assert first + stream.read(2) == b"OK "
                stream.readline()
                continue
            _, size = HEADER.unpack(first + stream.read(4))
            received.append(json.loads(stream.read(size))["Payload"])

    assert received == IN_ORDER
