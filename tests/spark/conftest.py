"""One Spark session, one cluster and one server for all tests here: starting any of them is slow.

Tests that use the session, or start a JVM of their own, have the mark ``jvm`` and
run in two processes, with a session each (``make test-spark``): one alone waits too
often to keep two cores busy.  A file is not divided: what it starts, it starts once.
The others run with the rest of the suite.  Those with the mark ``soak`` take minutes
each and run in ``make soak``.
"""

import os
import random
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.server.process import LISTENERS, Server
from tests.spark.cluster import QUICK_JVM, Cluster
from tests.spark.guarded import Guarded

import penstock
import penstock.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK_JVM)  # Of every driver that a test starts.
LONGEST = ("test_kills.py", "test_run.py", "test_connect.py", "test_cluster.py")  # These take a minute.


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Mark tests that use the session as ``jvm``.

    Where two processes share the work, the longest files come first, so that both end at about the same time.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.jvm)
    yield  # Others choose by these marks, and shuffle.
    items.sort(key=lambda item: item.path.name not in LONGEST)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """Spark on two cores of this machine."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    session = penstock.spark.session("local[2]", config={"spark.sql.warehouse.dir": str(warehouse)})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers with a core each, in processes of their own."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def chance() -> random.Random:
    """Other moments every time; a failure shows the seed, and --randomly-seed repeats it."""
    seed = random.getrandbits(32)
    sys.stdout.write(f"the moments are those of random.Random({seed})\n")
    return random.Random(seed)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server in a process of its own; tests take topics of their own names."""
    with Server(tmp_path_factory.mktemp("served"), listeners=(*LISTENERS, "kafka")) as running:
        yield running


@pytest.fixture
def servers(served: Server) -> str:
    """Where it listens, as the option ``servers`` has it."""
    return f"127.0.0.1:{served.ports['native']}"


@pytest.fixture
def broker(servers: str) -> Iterator[penstock.Broker]:
    """A client of it."""
    with penstock.connect(servers) as connected:
        yield connected


@pytest.fixture
def lake(served: Server) -> Path:
    """Where its lake is."""
    return served.data / "lake"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A server that asks for keys."""
    asking = {"PENSTOCK_SECURITY__AUTHENTICATION": "true"}
    with Server(tmp_path_factory.mktemp("guarded"), settings=asking) as server:
        with penstock.connect(server.url, key=server.facts["key"]) as admin:
            yield Guarded(server, admin)
