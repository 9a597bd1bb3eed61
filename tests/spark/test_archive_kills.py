"""Archivers and their broker are killed at random moments, again and again: the lake has each record once.

Two archivers run at once all the time, so they also meet each other.  At the end
one of them finishes undisturbed; then the lake must be what the log is, record by
record, and the check must find nothing.  The lake is a directory, or a bucket of an
S3 server that is killed as well.
"""

import random
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.full_disk import small_disk
from tests.server.process import PATIENCE_S, Server, until
from tests.spark import archive_process
from tests.store.seaweedfs import Bucket

import penstock
from penstock.config.broker import DAY_MS
from penstock.errors import DiskFull, LakeUnreachable, PenstockError, ServerUnreachable
from penstock.model.ranges import OffsetRange
from penstock.spark.lake.layout import ROWS
from penstock.spark.lake.log_comparison import checked
from penstock.spark.lake.reading import read_range
from penstock.spark.lake.table import LakeTable
from penstock.spark.records.arrow import decode_rows
from penstock.wire.records import BatchBuilder

pytestmark = pytest.mark.slow

# Kills, and in a soak.
ROUNDS = [6, pytest.param(100, marks=pytest.mark.soak)]
BUCKET_ROUNDS = [3, pytest.param(60, marks=pytest.mark.soak)]
PARTITIONS = 2
PAUSE_S = 0.01  # Between two batches: archivers in tiny pieces must keep up.
MIDNIGHT_MS = 1_794_787_200_000  # 2026-11-16 00:00 UTC


class Publisher(threading.Thread):
    """Publishes around midnight, so that dates interleave, until it is told to stop."""

    def __init__(self, servers: str, seed: int) -> None:
        super().__init__(daemon=True)
        self._servers = servers
        self._random = random.Random(seed)
        self.stopping = threading.Event()

    def run(self) -> None:
        with penstock.connect(self._servers) as broker:
            while not self.stopping.wait(PAUSE_S):
                with suppress(PenstockError):  # The server is being killed; what it has, the log tells.
                    broker.append("orders", self._random.randrange(PARTITIONS), self._batch())

    def _batch(self) -> bytes:
        builder = BatchBuilder()
        for _ in range(self._random.randrange(1, 100)):
            late = self._random.random() < 0.3
            builder.add(None, self._random.randbytes(20), [("a", b"1")], DAY_MS if late else 0)
        return bytes(builder.build(MIDNIGHT_MS, MIDNIGHT_MS + DAY_MS))


def archiver(servers: str, lake: Path | str, *words: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, archive_process.__file__, servers, str(lake), "orders", *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def kill(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGKILL)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGKILL, errors[-3000:].decode()  # It had not ended by itself.


def log_rows(broker: penstock.Broker, partition: int) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    offset = broker.offsets("orders", "earliest")[partition]
    end = broker.offsets("orders", "latest")[partition]
    while offset < end:
        fetched = broker.fetch("orders", partition, offset)
        batches += decode_rows(fetched.batches, OffsetRange("orders", partition, offset, end), ROWS.names)
        offset = fetched.next_offset
    return pa.Table.from_batches(batches, ROWS)


def archived(lake: str) -> int:
    """How many records the lake has."""
    return sum(LakeTable.open(lake, "orders").row_counts().values())


def assert_same(broker: penstock.Broker, lake: Path | str) -> int:
    """The lake is what the log is; returns how many records that are."""
    table = LakeTable.open(str(lake), "orders")
    records = 0
    for check in checked(broker, table):
        assert (check.findings, check.next) == ([], check.log_end)
        logged = log_rows(broker, check.partition)
        lake_rows = read_range(table.files(), check.partition, 0, 1 << 60)
        assert pa.Table.from_batches(lake_rows, ROWS).equals(logged)
        records += logged.num_rows
    return records


@pytest.mark.parametrize("rounds", ROUNDS)
def test_archivers_and_a_broker_that_are_killed_leave_each_record_once(
    chance: random.Random, tmp_path: Path, rounds: int
) -> None:
    killed_again_and_again(chance, tmp_path, rounds, str(tmp_path / "lake"), None)


@pytest.mark.parametrize("rounds", BUCKET_ROUNDS)
def test_an_object_store_that_is_killed_as_well_has_each_record_once(
    chance: random.Random, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    with Bucket(tmp_path) as bucket:
        for name, value in bucket.environment.items():
            monkeypatch.setenv(name, value)
        killed_again_and_again(chance, tmp_path, rounds, f"{bucket.uri}/lake", bucket)


def test_an_archive_waits_for_an_object_store_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Bucket(tmp_path) as bucket, Server(tmp_path) as server:
        for name, value in bucket.environment.items():
            monkeypatch.setenv(name, value)
        lake, servers = f"{bucket.uri}/lake", f"127.0.0.1:{server.ports['native']}"
        with penstock.connect(servers) as broker:
            broker.create_topic("orders", partitions=PARTITIONS)
            broker.publish_batch("orders", [b"%d" % number for number in range(100)])
            running = archiver(servers, lake)
            until(lambda: archived(lake) == 100)

            bucket.kill()
            broker.publish_batch("orders", [b"%d" % number for number in range(100)])
            for _ in range(2):  # As long as the client itself tries, twice.
                with pytest.raises(LakeUnreachable):
                    archived(lake)
            bucket.start()

            until(lambda: archived(lake) == 200)
            kill(running)
            assert assert_same(broker, lake) == 200


def killed_again_and_again(
    chance: random.Random, folder: Path, rounds: int, lake: str, bucket: Bucket | None
) -> None:
    with Server(folder) as server:
        servers = f"127.0.0.1:{server.ports['native']}"
        with penstock.connect(servers) as broker:
            broker.create_topic("orders", partitions=PARTITIONS)
        publisher = Publisher(servers, chance.getrandbits(32))
        publisher.start()
        running = [archiver(servers, lake) for _ in range(2)]
        until(lambda: LakeTable.open(lake, "orders").version > 0)
        for _ in range(rounds):
            threading.Event().wait(chance.random())
            victim = chance.randrange(4 if bucket is None else 5)
            if victim == 4 and bucket is not None:
                bucket.kill()
                bucket.start()
            if victim == 3:
                server.kill()
                server.start()
            for number in {0, 1} if victim == 2 else {victim} & {0, 1}:
                kill(running[number])
                running[number] = archiver(servers, lake)
        publisher.stopping.set()
        publisher.join(timeout=PATIENCE_S)
        for process in running:
            kill(process)
        last = archiver(servers, lake, "once")
        _, errors = last.communicate(timeout=PATIENCE_S)
        assert last.returncode == 0, errors[-2000:]

        with penstock.connect(servers) as broker:
            assert assert_same(broker, lake) > 10 * rounds
        history = LakeTable.open(lake, "orders").history(1000)
        assert any("penstock.compacted" in commit for commit in history)


def test_a_dead_broker_is_one_sentence_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.spark.pipelines.archive.RETRIES", 0)
    with Server(tmp_path) as server:
        servers = f"127.0.0.1:{server.ports['native']}"
        with penstock.connect(servers) as broker:
            broker.create_topic("orders", partitions=1)
            broker.publish_batch("orders", [b"%d" % number for number in range(100)])

            def killed_first(spark: None, work: Any, tasks: Any) -> list[Any]:
                server.kill()
                return archive_process.run_tasks(spark, work, tasks)

            with pytest.raises(ServerUnreachable, match="penstock serve is running"):
                archive_process.run(
                    servers, str(tmp_path / "lake"), "orders", once=True, run_tasks=killed_first
                )
            assert not list(tmp_path.rglob("*.parquet"))
            server.start()
            archive_process.run(servers, str(tmp_path / "lake"), "orders", once=True)
            assert assert_same(broker, tmp_path / "lake") == 100


def test_a_full_disk_is_one_sentence_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.spark.pipelines.archive.RETRIES", 0)
    with Server(tmp_path) as server, small_disk(tmp_path / "tiny", 2) as tiny:
        servers = f"127.0.0.1:{server.ports['native']}"
        with penstock.connect(servers) as broker:
            broker.create_topic("orders", partitions=1)
            ballast = tiny / "ballast"
            ballast.write_bytes(bytes(1_800_000))
            values = [random.Random(number).randbytes(500) for number in range(1000)]
            broker.publish_batch("orders", values)

            with pytest.raises(DiskFull, match="no room on the disk"):
                archive_process.run(servers, str(tiny / "lake"), "orders", once=True)
            ballast.unlink()
            archive_process.run(servers, str(tiny / "lake"), "orders", once=True)

            assert assert_same(broker, tiny / "lake") == 1000
