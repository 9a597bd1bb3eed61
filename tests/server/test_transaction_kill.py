"""Transactions of our own client, while the server and the workers are killed again and again."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from tests.server.process import PATIENCE_S, Server
from tests.server.test_kafka_kill import Killer

import penstock

ORDERS = [b"%04d" % number for number in range(300)]
WORKERS = 2


@contextmanager
def worker(server: Server) -> Iterator[None]:
    """A worker process, which is killed at the end."""
    command = [sys.executable, "-m", "tests.server.transaction_worker", server.url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield
    finally:
        process.kill()
        process.communicate()


def depth(server: Server) -> int:
    with penstock.connect(server.url) as broker:
        return broker.depth("orders", "billing")


def written(server: Server, topic: str) -> dict[int, list[bytes]]:
    """What readers see of each partition."""
    found: dict[int, list[bytes]] = {}
    with penstock.connect(server.url) as broker, broker.consumer(topic, group="check") as consumer:
        while messages := consumer.receive(1000, wait="3s"):
            for message in messages:
                found.setdefault(message.partition, []).append(message.value)
            consumer.ack(messages)
    return found


@pytest.mark.slow
def test_every_input_has_one_output_whoever_is_killed(tmp_path: Path) -> None:
    random = Random(7)
    with Server(tmp_path) as server:
        with penstock.connect(server.url) as broker:
            broker.create_topic("orders", partitions=2)
            broker.create_topic("bills", partitions=2)
            broker.create_topic("audit", partitions=1, durability="os")
            broker.create_group("orders", "billing", visibility_timeout="2s", max_attempts=1000)
            broker.publish_batch("orders", [penstock.Message(each, key=each) for each in ORDERS])

        with Killer(server, seed=3) as killer:
            for _ in range(WORKERS + 1):  # Each is killed in the middle of something.
                with worker(server), worker(server):
                    time.sleep(random.uniform(0.3, 0.8))
        with worker(server):
            until = time.monotonic() + PATIENCE_S
            while depth(server) > 0 and time.monotonic() < until:
                time.sleep(0.1)

        assert killer.kills > 0
        assert depth(server) == 0
        bills, audit = written(server, "bills"), written(server, "audit")
        assert sorted(bills[0]) == sorted(bills[1]) == sorted(audit[0]) == ORDERS
