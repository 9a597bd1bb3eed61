"""Spark Connect: a session on a server that does not have Penstock, and gets it from the client."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.server.process import Server, environment, free_port
from tests.spark.cluster import SPARK_CLASS, bare_python, eventually

import penstock
from penstock.spark.java import java_home

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

DRIVER = Path(__file__).with_name("driver.py")
CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
PROGRAM_S = 270.0


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[str]:
    """A Connect server on two cores, whose Python has no Penstock; its address."""
    pytest.importorskip("grpc")
    port = free_port()
    own = {"JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1", "BARE": "yes",
           "PYSPARK_PYTHON": str(bare_python(tmp_path))}  # fmt: skip
    settings = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    log_path = tmp_path / "connect.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [SPARK_CLASS.with_name("spark-submit"), "--class", CLASS, *words, "spark-internal"],
            stdout=log,
            stderr=log,
            cwd=tmp_path,
            env=environment() | own,
            start_new_session=True,
        )
    try:
        eventually(lambda: "Spark Connect server started" in log_path.read_text(errors="replace"))
        yield f"sc://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_server_without_penstock_reads_writes_and_streams_topics(remote: str, tmp_path: Path) -> None:
    with Server(tmp_path) as server, penstock.connect(server.url) as broker:
        broker.create_topic("table", partitions=2)
        broker.create_topic("out", partitions=2)

        told = subprocess.run(
            [sys.executable, DRIVER, "everything", remote, f"127.0.0.1:{server.ports['native']}", tmp_path],
            capture_output=True,
            text=True,
            timeout=PROGRAM_S,
        )

        assert told.returncode == 0, told.stderr[-5000:]
        assert told.stdout.splitlines() == [f"1000 {sum(range(1000)):.1f}", "done"]
        assert broker.describe_topic("table").messages == broker.describe_topic("out").messages == 1000
        values = sorted(message.value for message in broker.read("out", limit=2000))
        assert values == sorted(b"v%d" % number for number in range(1000))
