"""A real cluster: a master and two workers in processes of their own, to which Penstock is shipped."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.server.process import Server, environment
from tests.spark.cluster import Cluster, eventually

import penstock

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

DRIVER = Path(__file__).with_name("driver.py")
RECORDS = 20_000
DRIVER_S = 270.0  # The longest that a driver may take: less than a test may.


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers with a core each."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A broker that a test may kill."""
    with Server(tmp_path) as running:
        yield running


class Driver:
    """One program on the cluster, in a process of its own."""

    def __init__(self, cluster: Cluster, server: Server, program: str, folder: Path) -> None:
        self.log = folder / "driver.log"
        servers = f"127.0.0.1:{server.ports['native']}"
        own = {"PYSPARK_PYTHON": cluster.python, "SETTINGS": json.dumps(cluster.settings),
               "SPARK_LOCAL_IP": "127.0.0.1"}  # fmt: skip
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(DRIVER), program, cluster.url, servers, str(folder)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment() | own,
                start_new_session=True,  # Its JVM goes with it.
            )

    def finish(self) -> str:
        """What it printed, when it has ended well."""
        try:
            output, _ = self.process.communicate(timeout=DRIVER_S)
        finally:
            self.kill()
        assert self.process.returncode == 0, self.log.read_text()[-5000:]
        return output

    def kill(self) -> None:
        """Driver and JVM."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


def everything_in(broker: penstock.Broker, topic: str) -> list[bytes]:
    """The values of a topic."""
    found: list[bytes] = []
    for partition in broker.describe_topic(topic).partitions:
        for offset in range(partition.start, partition.end, 5000):
            messages = broker.read(topic, partition=partition.partition, offset=offset, limit=5000)
            found += [message.value for message in messages]
    return found


def test_executors_that_have_no_penstock_read_and_write_topics(
    cluster: Cluster, server: Server, tmp_path: Path
) -> None:
    with penstock.connect(server.url) as broker:
        broker.create_topic("table", partitions=2)
        broker.create_topic("out", partitions=2)

        told = Driver(cluster, server, "shipped", tmp_path).finish()

        assert told.splitlines() == [f"1000 {sum(range(1000)):.1f}", "penstock_shipped", "done"]
        expected = sorted(b"v%d" % number for number in range(1000))
        assert sorted(everything_in(broker, "table")) == expected
        assert sorted(everything_in(broker, "out")) == expected


def test_whatever_is_killed_every_record_arrives_once(
    cluster: Cluster, server: Server, tmp_path: Path
) -> None:
    """Driver, executors, Python workers and broker die by SIGKILL while a query runs from topic to topic."""
    chance = random.Random()  # No seed: other moments every time.
    with penstock.connect(server.url) as broker:
        broker.create_topic("in", partitions=2)
        broker.create_topic("out", partitions=3)
        for first in range(0, RECORDS, 1000):
            broker.publish_batch("in", [b"%d" % number for number in range(first, first + 1000)])

    driver = Driver(cluster, server, "stream", tmp_path)

    def kill_driver() -> None:
        nonlocal driver
        driver.kill()
        driver = Driver(cluster, server, "stream", tmp_path)

    def kill_broker() -> None:
        server.kill()
        server.start()

    kills: list[Callable[[], None]] = [
        lambda: kill_one(chance, cluster.python_workers),
        kill_broker,
        lambda: kill_one(chance, cluster.executors),
        kill_driver,
        kill_broker,
        lambda: kill_one(chance, cluster.python_workers),
    ]
    chance.shuffle(kills)
    marks = sorted(chance.sample(range(1, RECORDS * 9 // 10), len(kills)))
    try:
        for mark, kill in zip(marks, kills, strict=True):
            eventually(lambda mark=mark: arrived(server) >= mark)  # type: ignore[misc]
            kill()
        driver.finish()
    finally:
        driver.kill()

    with penstock.connect(server.url) as broker:
        counts = Counter(everything_in(broker, "out"))
        assert counts == Counter(b"%d" % number for number in range(RECORDS))
    server.check_log()


def arrived(server: Server) -> int:
    """How many records are in ``out``."""
    with penstock.connect(server.url) as broker:
        return broker.describe_topic("out").messages


def kill_one(chance: random.Random, processes: Callable[[], list[int]]) -> None:
    """SIGKILL for one of them, when there is one."""
    eventually(lambda: bool(processes()))
    for pid in chance.sample(processes(), 1):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
