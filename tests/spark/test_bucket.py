"""The lake in a bucket of a real S3 server: what works in a directory works there, without a jar."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.server.process import Server
from tests.spark.archived import archive
from tests.spark.drivers import Driver
from tests.spark.kills import World
from tests.spark.lake_rows import NOON_MS, read, rows, write_rows
from tests.spark.lake_rows import archive as archive_rows
from tests.spark.test_restoring import everything, hourly
from tests.store.seaweedfs import Bucket

import penstock
from penstock.config.server import LakeSettings
from penstock.errors import InvalidValue, LakeUnreachable, LakeUnusable
from penstock.spark.lake import compaction, storage
from penstock.spark.lake.log_comparison import checked
from penstock.spark.lake.table import ArchivedRange, LakeTable, tables_in
from penstock.spark.replay import snapshots
from penstock.spark.reports import driver_tables
from penstock.spark.restoring import restore
from penstock.testing import TestBroker

pytestmark = pytest.mark.slow

ARCHIVERS = 3
RANGES = 12


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with pytest.MonkeyPatch.context() as patch, Bucket(tmp_path_factory.mktemp("bucket")) as running:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        yield running


@pytest.fixture
def lake(bucket: Bucket, request: pytest.FixtureRequest) -> str:
    """A lake of its own for each test."""
    return f"{bucket.uri}/{request.node.name}"


def test_deleted_records_are_restored_from_a_bucket_and_the_check_finds_nothing(lake: str) -> None:
    with TestBroker.open() as broker:
        begin = hourly(broker, lake)
        snapshots.take(broker, "noon", NOON_MS)

        restore(broker, "orders", "audit", from_time=begin, lake=lake)

        assert everything(broker) == list(range(60))
        archive(broker, "orders", lake)
        [check] = checked(broker, LakeTable.open(lake, "orders"))
        assert (check.findings, check.rows, check.next) == ([], 60, 60)
        assert tables_in(lake) == ["orders"]
        assert snapshots.get(broker, "noon").offsets("orders") == {0: 60}


def test_small_files_are_compacted_and_the_old_ones_deleted(lake: str) -> None:
    table = LakeTable.open(lake, "orders")
    for number in range(compaction.FILES_MIN):
        assert archive_rows(table, rows(range(number * 10, number * 10 + 10)), number * 10, number * 10 + 10)
    before = [file.path for file in table.files()]

    [joint] = compaction.plan(table, 1 << 20, NOON_MS)
    joined = compaction.join(joint)
    assert compaction.replace(table, joint, joined, NOON_MS)

    assert [file.path for file in table.files()] == [joined.path]
    assert read(table, 0, 80) == read(LakeTable.open(lake, "orders"), 0, 80)
    assert read(table, 15, 25)["offset"].to_pylist() == list(range(15, 25))
    assert all(storage.exists(path) for path in before)  # For readers that still use them.
    assert table.vacuum(24) == len(before)  # They were replaced two days ago.
    assert not any(storage.exists(path) for path in before)
    assert read(table, 0, 80).num_rows == 80


def test_of_archivers_at_the_same_time_one_commits_each_range(lake: str) -> None:
    wins: list[int] = []
    barrier = threading.Barrier(ARCHIVERS)

    def archiver() -> None:
        table = LakeTable.open(lake, "orders")
        for number in range(RANGES):
            start, end = number * 10, number * 10 + 10
            files = write_rows(table.path, 0, [rows(range(start, end))])
            barrier.wait(60)
            table.refresh()
            if table.commit([ArchivedRange(0, start, end, 10)], files, NOON_MS):
                wins.append(number)
            barrier.wait(60)

    threads = [threading.Thread(target=archiver) for _ in range(ARCHIVERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)

    assert wins == list(range(RANGES))
    table = LakeTable.open(lake, "orders")
    assert read(table, 0, 1000)["offset"].to_pylist() == list(range(RANGES * 10))
    assert table.row_counts() == {0: RANGES * 10}


@pytest.mark.jvm
def test_pipelines_with_checkpoints_in_a_bucket_continue_after_a_kill(bucket: Bucket, tmp_path: Path) -> None:
    settings = {"PENSTOCK_LAKE__PATH": f"{bucket.uri}/pipelines"}
    program = "archive,replay,transform+asked"
    with Server(tmp_path, settings=settings) as server, penstock.connect(server.url) as broker:
        world = World(server, broker)
        world.make()
        first = Driver(program, "local[2]", server, tmp_path, bucket.environment)
        first.until(lambda: world.done["transform"]() > 0, "the first batch of the transform")
        first.kill()
        output = Driver(program, "local[2]", server, tmp_path, bucket.environment).finish()

        for stage in ("archive", "replay", "transform"):
            world.check(stage)
    assert output.splitlines() == ["`in` 6000 6000 4", "copied 6000 6000 4", "done"]
    assert {"rows", "side", "table"} <= set(storage.folders_in(f"{world.lake}/_checkpoints/transform"))


def test_a_store_that_is_away_is_no_damage_and_everything_is_there_again_later(
    bucket: Bucket, lake: str
) -> None:
    table = LakeTable.open(lake, "orders")
    archive_rows(table, rows(range(10)), 0, 10)
    [file] = table.files()
    driver_tables.append(f"{lake}/_tables/totals", pa.table({"total": [1]}), "totals", 1)
    operations: list[Callable[[], object]] = [
        lambda: read(table, 0, 10).num_rows,
        lambda: storage.bytes_of(file.path) == file.bytes,
        lambda: driver_tables.last_version(f"{lake}/_tables/totals", "totals"),
    ]

    bucket.kill()
    for operation in operations:
        with pytest.raises(LakeUnreachable):
            operation()
    bucket.start()

    assert [operation() for operation in operations] == [10, True, 1]


def test_settings_that_make_commits_unsafe_are_refused(lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_S3_ALLOW_UNSAFE_RENAME", "true")
    storage._bucket.cache_clear()

    with pytest.raises(LakeUnusable, match="unset AWS_S3_ALLOW_UNSAFE_RENAME"):
        archive_rows(LakeTable.open(lake, "orders"), rows(range(3)), 0, 3)


@pytest.mark.parametrize("value", ["1", "TRUE", "on", "Yes", "y"])
def test_they_are_refused_in_all_ways_to_say_yes(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_S3_ALLOW_UNSAFE_RENAME", value)
    storage._bucket.cache_clear()

    with pytest.raises(LakeUnusable, match="unset AWS_S3_ALLOW_UNSAFE_RENAME"):
        storage.filesystem_of("s3://nowhere/lake")


def test_a_wrong_secret_is_one_sentence(lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    storage._bucket.cache_clear()

    with pytest.raises(LakeUnusable) as failure:
        storage.folders_in(lake)

    storage._bucket.cache_clear()
    assert "SignatureDoesNotMatch" in str(failure.value)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize("location", ["ftp://host/lake", "s3://", "hdfs://namenode/lake"])
def test_a_location_that_is_no_bucket_is_refused_when_the_server_starts(location: str) -> None:
    with pytest.raises(InvalidValue, match="use a directory, or one of s3://bucket/path"):
        LakeSettings(path=location)
    with pytest.raises(LakeUnusable, match="use a directory, or a bucket"):
        storage.located(location)


@pytest.mark.parametrize(
    "location", ["s3://b/l", "gs://b/l", "az://c/l", "abfss://c@a.dfs.core.windows.net/l"]
)
def test_every_object_store_has_a_client_without_a_jar(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "a")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")

    _, inside = storage.filesystem_of(storage.located(LakeSettings(path=location).path))

    assert inside == "l"


def test_a_file_url_is_its_directory(tmp_path: Path) -> None:
    assert storage.located(LakeSettings(path=f"file://{tmp_path}/a%20b/").path) == f"{tmp_path}/a b"
