"""The JVM of a pipeline ends before the pipeline does: that is told in a sentence, or was meant."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.server.process import PATIENCE_S, environment
from tests.spark.cluster import below, eventually, jvms_below

import penstock
from penstock.spark.lake.table import LakeTable

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


class Archive:
    """``penstock pipeline run archive`` in a session of its own, for one topic."""

    def __init__(self, servers: str, topic: str, lake: Path, folder: Path) -> None:
        self.topic = topic
        self._lake = lake
        self._errors = folder / "errors"
        command = [sys.executable, "-m", "penstock", "pipeline", "run", "archive", "--server", servers]
        settings = ("--name", topic, "--set", f"topic={topic}", "--set", "interval=100ms")
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*command, *settings], env=environment(), stderr=errors, start_new_session=True
            )

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    def wait_for(self, count: int) -> None:
        def archived() -> bool:
            return sum(LakeTable.open(str(self._lake), self.topic).row_counts().values()) == count

        ended = lambda: "" if self.process.poll() is None else self.errors  # noqa: E731
        eventually(archived, "messages in the lake", unless=ended)


@pytest.fixture
def archive(servers: str, broker: penstock.Broker, lake: Path, tmp_path: Path) -> Iterator[Archive]:
    topic = f"ends-{len(broker.topics())}"
    broker.create_topic(topic, partitions=1)
    broker.publish(topic, b"x")
    running = Archive(servers, topic, lake, tmp_path)
    try:
        running.wait_for(1)
        yield running
    finally:
        if running.process.poll() is None:
            os.killpg(running.process.pid, signal.SIGKILL)
            running.process.wait()


def test_a_jvm_that_was_killed_is_an_error_of_one_sentence(archive: Archive, broker: penstock.Broker) -> None:
    [jvm] = jvms_below(archive.process.pid)

    os.kill(jvm, signal.SIGKILL)
    broker.publish(archive.topic, b"y")

    assert archive.process.wait(PATIENCE_S) == 1
    sentence = f"pipeline {archive.topic!r} failed: the JVM that runs Spark ended by SIGKILL"
    assert sentence in archive.errors
    assert "Traceback" not in archive.errors


def test_a_service_manager_that_asks_every_process_to_end_is_not_told_of_a_failure(archive: Archive) -> None:
    for pid in (archive.process.pid, *below({archive.process.pid})):
        with suppress(ProcessLookupError):  # One that was asked before has ended it.
            os.kill(pid, signal.SIGTERM)

    assert archive.process.wait(PATIENCE_S) == 0
    assert "Traceback" not in archive.errors
    assert "failed" not in archive.errors
