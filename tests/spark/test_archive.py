"""The archive pipeline on a real broker and real Spark: what the log has is in the lake, once."""

import io
import json
import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.server.process import Server, until
from tests.spark.cluster import below, command, parent
from tests.spark.lake_rows import read

import penstock
from penstock.cli.main import main
from penstock.config.broker import ARCHIVE_GROUP
from penstock.errors import InvalidValue, LakeUnusable, NotArchived, TopicNotFound
from penstock.model.info import PipelineRun
from penstock.model.ranges import OffsetRange
from penstock.spark.lake import archiving
from penstock.spark.lake.table import LakeTable
from penstock.spark.pipelines import archive
from penstock.spark.pipelines.run import runner
from penstock.spark.pipelines.run.settings import RunSettings
from penstock.spark.runtime.connections import DAEMON
from penstock.wire.records import encode_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose retention does not wait for a minute."""
    settings = {"PENSTOCK_BROKER__MAINTENANCE": "50ms"}
    with Server(tmp_path_factory.mktemp("served"), settings=settings) as running:
        yield running


class Archiver:
    """Runs the pipeline once, in this process."""

    def __init__(self, broker: penstock.Broker, servers: str, lake: Path) -> None:
        self.broker = broker
        self.servers = servers
        self.lake = str(lake)

    def run(self, *topics: str, **settings: object) -> PipelineRun:
        chosen = archive.Settings(topic=list(topics), **settings)  # type: ignore[arg-type]
        run = RunSettings(master="local[2]")
        return runner.run("archive", archive, run, chosen, self.broker, servers=self.servers, once=True)

    def table(self, topic: str) -> LakeTable:
        return LakeTable.open(self.lake, topic)


def check(archiver: Archiver, topic: str) -> tuple[int, list[str]]:
    """The exit code of ``lake check``, and what it has found."""
    out = io.TextIOWrapper(io.BytesIO())
    with redirect_stdout(out):
        code = main(["lake", "check", topic, "-o", "json", "--server", archiver.servers])
    out.seek(0)
    return code, [finding for line in out for finding in json.loads(line)["findings"]]


@pytest.fixture
def archiver(spark: "SparkSession", broker: penstock.Broker, servers: str, lake: Path) -> Archiver:
    return Archiver(broker, servers, lake)


def test_what_the_log_has_is_in_the_lake(archiver: Archiver) -> None:
    broker = archiver.broker
    broker.create_topic("archived", partitions=2)
    for number in range(20):
        broker.publish(
            "archived",
            b"value %d" % number if number % 7 else None,
            key=f"key {number}" if number % 7 == 0 or number % 2 else None,
            headers={"n": str(number)} if number % 3 else None,
            priority="high" if number % 5 == 0 else "normal",
            partition=number % 2,
        )

    done = archiver.run("archived")

    table = archiver.table("archived")
    assert (done.records, done.batches, done.files, done.state) == (20, 1, 2, "done")
    assert table.next_offsets() == {0: 10, 1: 10}
    assert check(archiver, "archived") == (0, [])
    for partition in range(2):
        stored = broker.read("archived", partition=partition, offset=0)
        expected = [(m.offset, m.timestamp, m.key, m.value, dict(m.headers)) for m in stored]
        found = [
            (row["offset"], round(row["timestamp"].timestamp() * 1000), row["key"], row["value"] or b"",
             {name: value.decode() for name, value in row["headers"]})
            for row in read(table, 0, 100, partition).to_pylist()
        ]  # fmt: skip
        assert found == expected
    assert sorted(row["lane"] for row in read(table, 0, 100, 0).to_pylist()) == [0] * 8 + [1] * 2


def test_a_run_that_finds_nothing_new_changes_nothing(archiver: Archiver) -> None:
    archiver.broker.create_topic("idle", partitions=1)
    archiver.broker.publish_batch("idle", [b"1", b"2"])
    archiver.run("idle")
    version = archiver.table("idle").version

    done = archiver.run("idle")

    assert done.records == 0
    assert archiver.table("idle").version == version


def test_the_broker_shows_how_far_the_archive_is(archiver: Archiver) -> None:
    archiver.broker.create_topic("shown", partitions=1)
    archiver.broker.publish_batch("shown", [b"%d" % number for number in range(10)])
    archiver.run("shown")
    archiver.broker.publish("shown", b"later")

    group = archiver.broker.describe_group("shown", ARCHIVE_GROUP)

    assert (group.kind, group.lag, group.partitions[0].floor) == ("stream", 1, 10)


def test_topics_are_chosen_by_pattern_and_grow_partitions(archiver: Archiver) -> None:
    broker = archiver.broker
    for topic in ("grow-a", "grow-b", "other-grow-a"):
        broker.create_topic(topic, partitions=1)
        broker.publish(topic, b"1")
    archiver.run(topic_pattern="grow-.")
    broker.alter_topic("grow-a", partitions=3)
    broker.publish("grow-a", b"2", partition=2)

    done = archiver.run(topic_pattern="grow-.")

    assert done.records == 1
    assert archiver.table("grow-a").next_offsets() == {0: 1, 2: 1}
    assert archiver.table("grow-b").next_offsets() == {0: 1}
    assert not archiver.table("other-grow-a").exists


def test_small_batches_are_committed_one_after_the_other_and_their_files_joined(
    archiver: Archiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = archiver.broker
    broker.create_topic("batches", partitions=1)
    for number in range(9):
        broker.publish("batches", bytes(1000) + b"%d" % number)
    monkeypatch.setattr(archiving, "RANGE_BYTES", 1000)

    done = archiver.run("batches", batch_bytes=1)

    table = archiver.table("batches")
    assert (done.records, done.batches, done.files) == (9, 9, 9)
    assert [(file.start, file.end) for file in table.files()] == [(0, 9)]
    assert read(table, 0, 100)["offset"].to_pylist() == list(range(9))


def test_what_retention_deleted_first_is_an_error_or_on_record(archiver: Archiver) -> None:
    broker = archiver.broker
    broker.create_topic("late", partitions=1)
    broker.publish_batch("late", [b"1", b"2"])
    archiver.run("late")
    broker.publish_batch("late", [b"3", b"4"])
    broker.alter_topic("late", retention="1ms")
    until(lambda: broker.offsets("late", "earliest") == {0: 4})
    broker.alter_topic("late", retention="7d")
    broker.publish("late", b"5")

    with pytest.raises(NotArchived, match="offsets 2 up to 4"):
        archiver.run("late")
    archiver.run("late", on_gap="skip")

    table = archiver.table("late")
    assert table.lost() == [OffsetRange("late", 0, 2, 4)]
    assert read(table, 0, 100)["value"].to_pylist() == [b"1", b"2", b"5"]
    assert archiver.run("late").records == 0
    assert check(archiver, "late") == (0, [])


def test_retention_waits_for_the_archive_end_to_end(archiver: Archiver) -> None:
    broker = archiver.broker
    broker.create_topic("waits", partitions=1, retention="1ms", retention_waits_for_archive=True)
    broker.create_topic("does-not-wait", partitions=1, retention="1ms")
    broker.publish_batch("waits", [b"1", b"2", b"3"])
    broker.publish_batch("does-not-wait", [b"1", b"2", b"3"])

    until(lambda: broker.offsets("does-not-wait", "earliest") == {0: 3})
    assert broker.offsets("waits", "earliest") == {0: 0}
    archiver.run("waits")
    until(lambda: broker.offsets("waits", "earliest") == {0: 3})

    assert read(archiver.table("waits"), 0, 100)["value"].to_pylist() == [b"1", b"2", b"3"]


def test_a_topic_that_was_made_anew_is_not_mixed_with_the_old_one(archiver: Archiver) -> None:
    broker = archiver.broker
    broker.create_topic("anew", partitions=1)
    broker.publish_batch("anew", [b"1", b"2", b"3"])
    archiver.run("anew")
    broker.delete_topic("anew")
    broker.create_topic("anew", partitions=1)
    broker.publish("anew", b"other")

    with pytest.raises(LakeUnusable, match="the topic was recreated; move the table away"):
        archiver.run("anew")
    code, [finding] = check(archiver, "anew")
    assert (code, finding) == (1, "offsets 1 to 2: in the lake, but beyond the end of the log")
    broker.publish_batch("anew", [b"2", b"3", b"4"])
    with pytest.raises(LakeUnusable, match="the topic was recreated; move the table away"):
        archiver.run("anew")
    assert "different topics" in check(archiver, "anew")[1][0]

    assert read(archiver.table("anew"), 0, 100)["value"].to_pylist() == [b"1", b"2", b"3"]


def test_a_compacted_log_and_its_lake_are_whole(archiver: Archiver) -> None:
    broker = archiver.broker
    broker.create_topic("compacted", partitions=1, compact=True, segment_bytes=4096)
    for number in range(100):
        broker.publish("compacted", bytes(100), key=f"key {number % 3}")
    until(lambda: len(broker.read("compacted", partition=0, limit=1000)) < 80)
    archiver.run("compacted")
    for number in range(100):
        broker.publish("compacted", bytes(100), key=f"key {number % 3}")
    archiver.run("compacted")
    until(lambda: len(broker.read("compacted", partition=0, limit=1000)) < 120)

    table = archiver.table("compacted")
    assert table.next_offsets() == {0: 200}
    assert table.row_counts()[0] < 200
    assert check(archiver, "compacted") == (0, [])


def workers() -> list[int]:
    """The Python workers of this process's Spark, which are children of a daemon that has the same name."""
    daemons = [pid for pid in below({os.getpid()}) if DAEMON in command(pid).split()]
    return [pid for pid in daemons if parent(pid) in daemons]


class Killer(threading.Thread):
    """Kills Python workers of Spark, one after the other."""

    def __init__(self, times: int) -> None:
        super().__init__(daemon=True)
        self._random = random.Random(4)
        self.left = times
        self.stopping = threading.Event()

    def run(self) -> None:
        while self.left and not self.stopping.wait(self._random.random() / 4):
            for worker in workers()[:1]:
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
                    self.left -= 1


def test_python_workers_that_are_killed_leave_each_record_once(
    archiver: Archiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = archiver.broker
    broker.create_topic("worked", partitions=2)
    for number in range(40):
        broker.append("worked", number % 2, bytes(encode_values([bytes(100)] * 1000, 1_794_787_200_000)))
    monkeypatch.setattr(archive, "RETRY_S", 0.05)
    monkeypatch.setattr(archiving, "RANGE_BYTES", 250_000)
    killer = Killer(times=4)
    killer.start()

    done = archiver.run("worked", batch_bytes=1_000_000)

    killer.stopping.set()
    killer.join()
    assert killer.left < 4
    assert done.records == 40_000
    assert check(archiver, "worked") == (0, [])
    for partition in range(2):
        found = read(archiver.table("worked"), 0, 100_000, partition)
        assert found["offset"].to_pylist() == list(range(20_000))


def test_a_topic_that_is_not_there_is_an_error_and_the_others_are_archived(archiver: Archiver) -> None:
    archiver.broker.create_topic("there", partitions=1)
    archiver.broker.publish("there", b"1")

    with pytest.raises(TopicNotFound, match="not-there"):
        archiver.run("not-there", "there")

    assert archiver.table("there").next_offsets() == {0: 1}


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(InvalidValue, match="topic_pattern"):
        archive.Settings(topic_pattern="(")
    with pytest.raises(InvalidValue, match="set either"):
        archive.Settings(topic=["a"], topic_pattern="b")
    with pytest.raises(InvalidValue, match="at least an hour"):
        archive.Settings(vacuum_after_ms=1000)
