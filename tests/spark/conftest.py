"""One Spark session and one server for all tests here: starting either is slow.

Tests that use the session, or start a JVM of their own, have the mark ``jvm`` and
run one after the other (``make test-spark``): Spark takes every core there is.
The others run with the rest of the suite.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.server.process import Server

import penstock
import penstock.spark
from penstock.spark.session import DRIVER_SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A JVM that lives for minutes compiles more than it runs: it shall not try hard.
QUICK = {
    name: f"{options} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    for name, options in DRIVER_SETTINGS.items()
    if name == "spark.driver.extraJavaOptions"
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever has the session has the mark."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.jvm)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """Spark on two cores of this machine."""
    warehouse = tmp_path_factory.mktemp("warehouse")
    session = penstock.spark.session("local[2]", config=QUICK | {"spark.sql.warehouse.dir": str(warehouse)})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server in a process of its own; tests take topics of their own names."""
    with Server(tmp_path_factory.mktemp("served")) as running:
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
