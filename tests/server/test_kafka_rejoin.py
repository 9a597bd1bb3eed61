"""Members of Kafka's groups, and a server that is killed and started again: all go on, from their places.

Who was in a group is not kept.  So each client must hear, of its next heartbeat or commit, what makes it
join again by itself; nothing that was committed comes again, and nothing else is left out.
"""

import asyncio
import gc
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiokafka
import kafka as kafka_python
import pytest
from confluent_kafka import Consumer, KafkaException
from tests.server.process import LISTENERS, Server, until

import penstock

PARTITIONS = 2
COUNT = 20


class Librdkafka:
    """confluent-kafka, in one of its ways to be a member."""

    def __init__(self, address: str, group: str, settings: dict[str, Any]) -> None:
        quick = {} if "group.protocol" in settings else {"heartbeat.interval.ms": 200}
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
                **quick,
                **settings,
            }
        )
        self._consumer.subscribe(["orders"])

    def read(self) -> list[bytes]:
        got = self._consumer.consume(COUNT, timeout=0.2)
        return [message.value() or b"" for message in got if message.error() is None]

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


class KafkaPython:
    """kafka-python."""

    def __init__(self, address: str, group: str) -> None:
        self._consumer: Any = kafka_python.KafkaConsumer(
            "orders",
            bootstrap_servers=address,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
        )

    def read(self) -> list[bytes]:
        found = self._consumer.poll(timeout_ms=200)
        return [record.value for records in found.values() for record in records]

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close()


class Aiokafka:
    """aiokafka, on a loop of its own."""

    def __init__(self, address: str, group: str) -> None:
        self._runner = asyncio.Runner()
        self._consumer: Any = self._runner.run(self._begin(address, group))

    async def _begin(self, address: str, group: str) -> Any:
        consumer = aiokafka.AIOKafkaConsumer(
            "orders",
            bootstrap_servers=address,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
        )
        await consumer.start()
        return consumer

    def read(self) -> list[bytes]:
        found = self._runner.run(self._consumer.getmany(timeout_ms=200))
        return [record.value for records in found.values() for record in records]

    def commit(self) -> None:
        self._runner.run(self._consumer.commit())

    def close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()


Member = Librdkafka | KafkaPython | Aiokafka
MAKERS: dict[str, Callable[[str, str], Member]] = {
    "dynamic": lambda address, group: Librdkafka(address, group, {}),
    "static": lambda address, group: Librdkafka(address, group, {"group.instance.id": "host-1"}),
    "newer": lambda address, group: Librdkafka(address, group, {"group.protocol": "consumer"}),
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path, listeners=(*LISTENERS, "kafka")) as server:
        with penstock.connect(server.url) as broker:
            broker.create_topic("orders", partitions=PARTITIONS)
        yield server


def publish(server: Server, first: int) -> list[bytes]:
    contents = [b"%d" % number for number in range(first, first + COUNT)]
    with penstock.connect(server.url) as broker:
        broker.publish_batch("orders", contents)
    return sorted(contents)


def read_all(members: dict[str, Member]) -> dict[str, list[bytes]]:
    """So many different messages each."""
    found: dict[str, set[bytes]] = {name: set() for name in members}

    def look() -> bool:
        for name, member in members.items():
            if len(found[name]) < COUNT:
                found[name].update(member.read())
        return all(len(values) >= COUNT for values in found.values())

    until(look)
    return {name: sorted(values) for name, values in found.items()}


def commit_all(server: Server, group: str, member: Member) -> None:
    """A member that has not heard of the restart yet is refused, joins again, and reads that again."""

    def tried() -> bool:
        try:
            member.commit()
        except (KafkaException, kafka_python.errors.KafkaError, aiokafka.errors.KafkaError):
            member.read()
        with penstock.connect(server.url) as broker:
            if broker.describe_group("orders", group).lag == 0:
                return True
        member.read()
        return False

    until(tried)


def is_lost(found: socket.socket) -> bool:
    return found.fileno() >= 0 and found.getsockname()[0] == "0.0.0.0"


def close_leftovers() -> None:
    """kafka-python leaves the sockets behind with which it tried while nobody was there."""
    for found in gc.get_objects():
        # By its type: isinstance would follow a weak proxy whose object is gone.
        if issubclass(type(found), socket.socket) and found.family == socket.AF_INET and is_lost(found):
            found.close()


@pytest.mark.slow
def test_members_of_every_client_join_again_after_a_kill_and_go_on_from_their_places(server: Server) -> None:
    address = f"127.0.0.1:{server.ports['kafka']}"
    with ExitStack() as stack:
        members = {name: make(address, name) for name, make in MAKERS.items()}
        for member in members.values():
            stack.callback(member.close)
        before = publish(server, 0)
        assert read_all(members) == dict.fromkeys(MAKERS, before)
        for member in members.values():
            member.commit()

        server.kill()
        server.start()
        after = publish(server, COUNT)

        assert read_all(members) == dict.fromkeys(MAKERS, after)
        for name, member in members.items():
            commit_all(server, name, member)
    server.check_log()
    close_leftovers()
