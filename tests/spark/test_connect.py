"""Spark Connect: what a server does that does not have Penstock, and gets it from the client."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.server.process import Server, environment, free_port
from tests.spark.cluster import QUICK_JVM, SPARK_CLASS, bare_python, eventually
from tests.spark.drivers import Driver

import penstock
from penstock.spark.runtime.java import java_home

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
COMMAND_S = 100.0
TRANSFORM = """
topic = "copy"
table = "copies"
sql = "select key, value from lines"
[sources.lines]
topic = "in"
starting = "earliest"
"""


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Connect server on two cores, whose Python has no Penstock; its address."""
    pytest.importorskip("grpc")
    folder = tmp_path_factory.mktemp("connect")
    port = free_port()
    own = {"JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1", "BARE": "yes",
           "PYTHONPATH": "", "PYSPARK_PYTHON": str(bare_python(folder))}  # fmt: skip
    settings = {
        "spark.master": "local[2]",
        "spark.driver.extraJavaOptions": QUICK_JVM,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    log_path = folder / "connect.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [SPARK_CLASS.with_name("spark-submit"), "--class", CLASS, *words, "spark-internal"],
            stdout=log,
            stderr=log,
            cwd=folder,
            env=environment() | own,
            start_new_session=True,
        )
    try:
        started = "Spark Connect server started"
        eventually(lambda: started in log_path.read_text(errors="replace"), started)
        yield f"sc://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A broker of its own."""
    with Server(tmp_path) as running:
        yield running


def test_a_server_without_penstock_reads_writes_and_streams_topics(
    remote: str, server: Server, tmp_path: Path
) -> None:
    with penstock.connect(server.url) as broker:
        broker.create_topic("table", partitions=2)
        broker.create_topic("out", partitions=2)

        told = Driver("everything", remote, server, tmp_path).finish()

        assert told.splitlines() == [f"1000 {sum(range(1000)):.1f}", "done"]
        assert broker.describe_topic("table").messages == 1000
        values = sorted(message.value for message in broker.read("out", limit=2000))
        assert values == sorted(b"v%d" % number for number in range(1000))


def test_the_command_line_runs_on_a_server_without_penstock(
    remote: str, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "copy.toml").write_text(TRANSFORM)

    def command(*words: str) -> str:
        told = subprocess.run(
            [sys.executable, "-m", "penstock", *words, "--server", server.url],
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            env=environment(),
            cwd=tmp_path,
        )
        assert told.returncode == 0, told.stderr[-5000:]
        return told.stdout

    with penstock.connect(server.url) as broker:
        broker.create_topic("in", partitions=2)
        broker.publish_batch("in", [b"%d" % number for number in range(100)])

        command("pipeline", "run", "archive", "--once", "--master", remote, "--set", "topic=in")
        command("pipeline", "run", "replay", "--master", remote, "--set", "topic=in", "--set", "to=again")
        command("pipeline", "run", "transform", "--once", "--master", remote, "--config", "copy.toml")

        assert broker.describe_topic("again").messages == broker.describe_topic("copy").messages == 100
        query = "select (select count(*) from copies), (select max(topic) from __groups), count(*) from copy"
        assert command("sql", query, "-o", "csv", "--master", remote).splitlines()[1:] == ["100,in,100"]
        command("lake", "check", "in")
