"""A real cluster: a master and two workers in processes of their own, to which Penstock is shipped."""

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.server.process import Server
from tests.spark.archived import RECORDS as REPLAYED
from tests.spark.archived import half_deleted
from tests.spark.cluster import Cluster, eventually
from tests.spark.drivers import Driver

import penstock
from penstock.spark.lake.logged import checked
from penstock.spark.lake.table import LakeTable

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

RECORDS = 20_000
ARCHIVED = 8_000
soak = pytest.mark.skipif(
    os.environ.get("HYPOTHESIS_PROFILE") != "soak", reason="it takes minutes; `make soak` runs it"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers with a core each."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A broker that a test may kill."""
    with Server(tmp_path, settings={"PENSTOCK_BROKER__MAINTENANCE": "50ms"}) as running:
        yield running


def started(cluster: Cluster, server: Server, program: str, folder: Path, **variables: str) -> Driver:
    """One program on the cluster."""
    own = {"PYSPARK_PYTHON": cluster.python, "SETTINGS": json.dumps(cluster.settings)}
    return Driver(program, cluster.url, server, folder, **own, **variables)


def everything_in(broker: penstock.Broker, topic: str) -> list[bytes]:
    """The values of a topic."""
    found: list[bytes] = []
    for partition in broker.describe_topic(topic).partitions:
        for offset in range(partition.start, partition.end, 5000):
            messages = broker.read(topic, partition=partition.partition, offset=offset, limit=5000)
            found += [message.value for message in messages]
    return found


def test_executors_that_have_no_penstock_and_no_key_read_and_write_topics(
    cluster: Cluster, tmp_path: Path
) -> None:
    asking = {"PENSTOCK_SECURITY__AUTHENTICATION": "true"}
    with Server(tmp_path, settings=asking) as server:
        with penstock.connect(server.url, key=server.facts["key"]) as broker:
            for topic in ("table", "out"):
                broker.create_topic(topic, partitions=2)
            grants = [penstock.Grant(role="producer"), penstock.Grant(role="reader", topics=["table"])]
            key = broker.create_key("spark", grants).key

            told = started(cluster, server, "shipped", tmp_path, KEY=key).finish()

            assert told.splitlines() == [f"1000 {sum(range(1000)):.1f}", "penstock_shipped", "done"]
            expected = sorted(b"v%d" % number for number in range(1000))
            assert sorted(everything_in(broker, "table")) == expected
            assert sorted(everything_in(broker, "out")) == expected
    places = [tmp_path / "driver.log", *(tmp_path / "checkpoint").rglob("*"), *cluster.folder.rglob("std*")]
    kept = "".join(path.read_text(errors="replace") for path in places if path.is_file())
    assert key.rpartition("_")[2] not in kept


def test_whatever_is_killed_every_record_arrives_once(
    cluster: Cluster, server: Server, tmp_path: Path
) -> None:
    """Driver, executors, Python workers and broker die by SIGKILL while a query runs from topic to topic."""
    chance = random.Random()  # No seed: other moments every time.
    publish_in(server, RECORDS)
    driver = started(cluster, server, "stream", tmp_path)

    def kill_driver() -> None:
        nonlocal driver
        driver.kill()
        driver = started(cluster, server, "stream", tmp_path)

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


@soak
def test_executors_that_are_killed_leave_each_record_in_the_lake_once(
    cluster: Cluster, server: Server, tmp_path: Path
) -> None:
    publish_in(server, ARCHIVED)
    lake = str(server.data / "lake")

    def archived() -> int:
        return sum(LakeTable.open(lake, "in").row_counts().values())

    kill_executors(cluster, started(cluster, server, "archive", tmp_path), archived, ARCHIVED)

    assert archived() == ARCHIVED
    with penstock.connect(server.url) as broker:
        for check in checked(broker, LakeTable.open(lake, "in")):
            assert (check.findings, check.next) == ([], check.log_end)


@soak
def test_executors_that_are_killed_leave_each_record_in_its_replay_once(
    cluster: Cluster, server: Server, tmp_path: Path
) -> None:
    with penstock.connect(server.url) as broker:
        half_deleted(broker, "in", str(server.data / "lake"))
        broker.create_topic("out", partitions=2)

    driver = started(cluster, server, "replay", tmp_path)
    kill_executors(cluster, driver, lambda: arrived(server), REPLAYED)

    with penstock.connect(server.url) as broker:
        counts = Counter(everything_in(broker, "out"))
        assert counts == Counter(b"%d" % number for number in range(REPLAYED))


def kill_executors(cluster: Cluster, driver: Driver, done: Callable[[], int], records: int) -> None:
    """Kill two while a driver does its work, each when it has come somewhere; then let it finish."""
    chance = random.Random()
    try:
        for mark in sorted(chance.sample(range(1, records * 3 // 4), 2)):
            eventually(lambda mark=mark: done() >= mark)  # type: ignore[misc]
            assert driver.running, driver.log.read_text()[-5000:]
            kill_one(chance, cluster.executors)
        driver.finish()
    finally:
        driver.kill()


def publish_in(server: Server, records: int) -> None:
    """Numbers in the topic ``in``, and an empty topic ``out``."""
    with penstock.connect(server.url) as broker:
        broker.create_topic("in", partitions=2)
        broker.create_topic("out", partitions=3)
        for first in range(0, records, 1000):
            broker.publish_batch("in", [b"%d" % number for number in range(first, first + 1000)])


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
