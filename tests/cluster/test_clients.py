"""Programs on three real nodes: they ask the owners, and do not notice moves, drains and kills."""

import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Self

import pytest
from tests.cluster.nodes import LISTENERS, PARTITIONS, PATIENCE_S, TOPIC, Nodes, settings
from tests.server.process import Server, until

import penstock
from penstock.errors import AlreadySettled, LeaseLost, OutcomeUnknown


def with_http(home: Path, store: str, number: int) -> Server:
    return Server(home, settings=settings(store, number), listeners=(*LISTENERS, "http"))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    folder = tmp_path_factory.mktemp("clients")
    with Nodes(folder, f"file://{folder}/store", make=with_http) as nodes:
        with nodes.connect(1) as broker:
            broker.create_topic(TOPIC, partitions=PARTITIONS)
        yield nodes


def forwarded(nodes: Nodes) -> int:
    """Publishes and receives that nodes have forwarded to each other so far."""
    total = 0
    for server in nodes.servers:
        if server.running:
            connection = HTTPConnection("127.0.0.1", server.ports["http"], timeout=PATIENCE_S)
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
            connection.close()
            name = r'penstock_cluster_peer_requests_total\{operation="(?:publish|receive|ack)"\} (\d+)'
            total += sum(int(float(count)) for count in re.findall(name, text))
    return total


class Program:
    """Publishes to all partitions, one message after the other, and consumes what it has published."""

    def __init__(self, broker: penstock.Broker, group: str) -> None:
        self.published: list[Any] = []  # Receipts, in order.
        self.received: dict[str, bytes] = {}  # By id.
        self.failures: list[str] = []
        self._broker = broker
        self._group = group
        self._consumer = broker.consumer(TOPIC, group=group, start="latest")
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._publish), threading.Thread(target=self._consume)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _publish(self) -> None:
        while not self._stop.is_set():
            number = len(self.published)
            value = f"{self._group}-{number}".encode()
            try:
                self.published.append(self._broker.publish(TOPIC, value, partition=number % PARTITIONS))
            except penstock.PenstockError as error:
                self.failures.append(f"publish {number}: {error!r}")

    def _consume(self) -> None:
        mine = f"{self._group}-".encode()
        while not self._stop.is_set() or len(self.received) < len(self.published):
            try:
                messages = self._consumer.receive(10, wait="1s")
            except penstock.PenstockError as error:
                self.failures.append(f"receive: {error!r}")
                continue
            for message in messages:
                if message.value.startswith(mine):
                    self.received[message.id] = message.value
                with suppress(
                    LeaseLost, AlreadySettled, OutcomeUnknown
                ):  # It comes again, from another owner.
                    message.ack()

    def wait_for(self, more: int) -> None:
        count = len(self.published) + more
        until(lambda: len(self.published) >= count or bool(self.failures))

    def check(self) -> None:
        """Every message exists once, in the order of its partition, and has arrived."""
        assert self.failures == []
        values = {
            receipt.id: f"{self._group}-{number}".encode() for number, receipt in enumerate(self.published)
        }
        assert len(values) == len(self.published)
        assert self.received == values
        found: list[bytes] = []
        for partition in range(PARTITIONS):
            offset = 0
            while messages := self._broker.read(TOPIC, partition=partition, offset=offset, limit=1000):
                found += [each.value for each in messages if each.value in set(values.values())]
                offset = messages[-1].offset + 1
        assert len(found) == len(self.published)
        for partition in range(PARTITIONS):
            offsets = [each.offset for each in self.published if each.partition == partition]
            assert offsets == sorted(offsets)


def connect(nodes: Nodes, first: int) -> penstock.Broker:
    """To any node, but first to this one."""
    servers = nodes.servers[first - 1 :] + nodes.servers[: first - 1]
    return penstock.connect([server.url for server in servers])


def test_publishes_receives_and_acks_are_not_forwarded(nodes: Nodes) -> None:
    with connect(nodes, 1) as broker, Program(broker, "direct") as program:

        def nothing_is_forwarded() -> bool:
            """Also not by a node that has just given partitions away."""
            before = forwarded(nodes)
            program.wait_for(60)
            return forwarded(nodes) == before

        until(nothing_is_forwarded)
    with connect(nodes, 2) as broker:
        program._broker = broker
        program.check()


def test_moves_and_drains_are_not_noticed(nodes: Nodes) -> None:
    with connect(nodes, 2) as broker, connect(nodes, 1) as operator:
        with Program(broker, "moves") as program:
            for partition in range(2):
                program.wait_for(20)
                owner = next(
                    each.node for each in operator.cluster_info().partitions if each.partition == partition
                )
                operator.move_partition(TOPIC, partition, owner % 3 + 1)
            program.wait_for(20)
            operator.drain_node(3)
            program.wait_for(20)
            operator.drain_node(3, undo=True)
            operator.balance_partitions()
            program.wait_for(20)
        program.check()


def test_the_kill_of_the_node_that_a_client_is_connected_to_is_not_noticed(nodes: Nodes) -> None:
    with connect(nodes, 1) as broker:
        with Program(broker, "kill") as program:
            program.wait_for(40)
            nodes.servers[0].kill()
            program.wait_for(60)
            nodes.servers[0].start()
            program.wait_for(40)
        program.check()
