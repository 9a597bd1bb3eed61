"""The measured work: publishing, a failure, a drain, a takeover, and idling."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import penstock
import penstock.aio
from benchmarks.cluster.nodes import ClusterNode, nodes
from penstock.clock import SystemClock
from penstock.errors import NotOwner
from penstock.store.base import Store
from penstock.store.opening import open_store

CLIENTS = 64
SINGLE_COUNT = 300
BATCH = 100  # Partitions that one publish writes to.
CHECKPOINT_S = 35.0  # A checkpoint is written every 30 s.
IDLE_S = 20.0
FAILOVER_CLIENTS = 12
QUIET_S = 2.0  # Before and after a kill.
REQUEST_TIMEOUT = "120s"


def opened(url: str) -> Store:
    return open_store(url, SystemClock())


def store_writes(store: Store, prefix: str, sizes: list[int]) -> list[float]:
    """Create an object of each size, one after the other; the seconds of each."""
    taken = []
    for number, size in enumerate(sizes):
        data = bytes(size)
        began = time.perf_counter()
        assert store.create(f"{prefix}/{number}", data)
        taken.append(time.perf_counter() - began)
    return taken


def single_publishes(url: str, size: int) -> list[float]:
    """One client that waits for each acknowledgement; the seconds of each."""
    taken = []
    with penstock.connect(url, request_timeout=REQUEST_TIMEOUT) as broker:
        broker.create_topic("single", partitions=1)
        for _ in range(SINGLE_COUNT):
            began = time.perf_counter()
            broker.publish("single", bytes(size))
            taken.append(time.perf_counter() - began)
    return taken[SINGLE_COUNT // 10 :]


async def many_publishes(url: str, size: int, seconds: float) -> float:
    """So many clients with one message each under way; messages a second."""
    counts = [0] * CLIENTS
    brokers = [await penstock.aio.connect(url).start() for _ in range(CLIENTS)]
    topic = f"many-{size}"
    await brokers[0].create_topic(topic, partitions=8)
    until = time.perf_counter() + seconds

    async def client(number: int) -> None:
        while time.perf_counter() < until:
            await brokers[number].publish(topic, bytes(size), partition=number % 8)
            counts[number] += 1

    began = time.perf_counter()
    await asyncio.gather(*[client(number) for number in range(CLIENTS)])
    taken = time.perf_counter() - began
    for broker in brokers:
        await broker.close()
    return sum(counts) / taken


class Writers:
    """Clients that publish one message at a time, and the longest that any of them has waited."""

    def __init__(self, urls: list[str], topic: str, partitions: int) -> None:
        self.longest_s = 0.0
        self.failures = 0
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=(urls[number % len(urls)], topic, number % partitions))
            for number in range(FAILOVER_CLIENTS)
        ]
        for thread in self._threads:
            thread.start()

    def _write(self, url: str, topic: str, partition: int) -> None:
        with penstock.connect(url, request_timeout=REQUEST_TIMEOUT) as broker:
            while not self._ended.is_set():
                began = time.perf_counter()
                try:
                    broker.publish(topic, b"x", partition=partition)
                except penstock.PenstockError:
                    self.failures += 1
                self.longest_s = max(self.longest_s, time.perf_counter() - began)

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()


def topic_everywhere(cluster: list[ClusterNode], topic: str, partitions: int, segment_bytes: int) -> None:
    """Create a topic, and wait until all of it can be written."""
    with penstock.connect(cluster[0].url, request_timeout=REQUEST_TIMEOUT) as broker:
        broker.create_topic(topic, partitions=partitions, segment_bytes=segment_bytes)
    publish_to_all(cluster[0].url, topic, partitions, 1)


def publish_to_all(url: str, topic: str, partitions: int, size: int) -> float:
    """A message to every partition; the seconds until all are acknowledged."""
    began = time.perf_counter()
    with penstock.connect(url, request_timeout=REQUEST_TIMEOUT) as broker:
        for first in range(0, partitions, BATCH):
            numbers = range(first, min(first + BATCH, partitions))
            messages = [penstock.Message(bytes(size), partition=each) for each in numbers]
            while True:
                try:
                    broker.publish_batch(topic, messages)
                    break
                except NotOwner:  # A busy machine took longer than a node waits for an owner.
                    continue
    return time.perf_counter() - began


def failover(folder: Path, store: str) -> float:
    """The longest pause of any writer around the kill of one of three nodes, in seconds."""
    with nodes(folder, store, 3) as cluster:
        topic_everywhere(cluster, "orders", 12, 1 << 20)
        writers = Writers([node.url for node in cluster[:2]], "orders", 12)
        time.sleep(QUIET_S)
        cluster[2].kill()
        time.sleep(QUIET_S + 4)
        writers.end()
        assert not writers.failures, f"{writers.failures} publishes failed"
        return writers.longest_s


def idle(folder: Path, store: str) -> float:
    """Store requests a second and node, when nobody does anything."""
    with nodes(folder, store, 3) as cluster:
        topic_everywhere(cluster, "orders", 12, 1 << 20)
        time.sleep(CHECKPOINT_S)
        before = [node.requests().number for node in cluster]
        time.sleep(IDLE_S)
        after = [node.requests().number for node in cluster]
    return (sum(after) - sum(before)) / IDLE_S / len(cluster)


def drain(folder: Path, store: str, partitions: int) -> tuple[float, float]:
    """A node stops: seconds until it has ended, and until all partitions can be written again."""
    with nodes(folder, store, 2) as cluster:
        topic_everywhere(cluster, "orders", partitions, 1 << 20)
        stopped: list[float] = []
        stopping = threading.Thread(target=lambda: stopped.append(cluster[1].stop()))
        stopping.start()
        served = publish_to_all(cluster[0].url, "orders", partitions, 1)
        stopping.join()
        return stopped[0], served + publish_to_all(cluster[0].url, "orders", partitions, 1)


def takeover(
    folder: Path, store: str, partitions: int, total_bytes: int, say: Callable[[str], None]
) -> tuple[float, int, float]:
    """All partitions of a killed node, whose cache is lost: seconds until they can be written, bytes read.

    And the seconds of reading one old message of each.
    """
    with nodes(folder, store, 1) as cluster:
        topic_everywhere(cluster, "orders", partitions, 512 << 10)
        size = 64 << 10
        for _ in range(max(total_bytes // (partitions * size), 1)):
            publish_to_all(cluster[0].url, "orders", partitions, size)
        say("waiting for a checkpoint")
        time.sleep(CHECKPOINT_S)
        other = ClusterNode(folder, store, 2)
        cluster.append(other)
        before = other.requests().read_bytes
        killed = time.perf_counter()
        cluster[0].kill()
        publish_to_all(other.url, "orders", partitions, 1)
        seconds = time.perf_counter() - killed
        read = other.requests().read_bytes - before
        began = time.perf_counter()
        with penstock.connect(other.url, request_timeout=REQUEST_TIMEOUT) as broker:
            for partition in range(partitions):
                broker.read("orders", partition=partition, offset=1, limit=1)
        return seconds, read, time.perf_counter() - began


def p50_ms(taken: list[float]) -> float:
    return median(taken) * 1000
