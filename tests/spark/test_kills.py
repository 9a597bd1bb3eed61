"""Whatever is killed while records go from topics to topics and tables, each of them arrives once.

On a real cluster: driver, executors, Python workers and broker die by SIGKILL.
The same without a JVM, quicker and more often: ``test_archive_kills.py``,
``test_replay_kills.py``.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.process import Server
from tests.spark.cluster import Cluster
from tests.spark.kills import STORE, VICTIMS, Killing, World, few, many, of_each
from tests.store.seaweedfs import Bucket

import penstock

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

STAGES = ["sink", "archive", "replay", "transform", "rollup"]
BUCKET_STAGES = ["sink", "archive", "replay", "transform"]
WITHIN_S = 270.0  # Less than a test may take.
KILLS = 12  # Of one stage, in a soak ...
SOAK_S = 1800.0  # ... and how long that may take.


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A broker that a test may kill, and its topics."""
    often = {"PENSTOCK_BROKER__MAINTENANCE": "50ms"}
    with Server(tmp_path, settings=often) as server, penstock.connect(server.url) as broker:
        made = World(server, broker)
        made.make()
        yield made


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    folder = tmp_path / "bucket"
    folder.mkdir()
    with Bucket(folder) as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def bucket_world(tmp_path: Path, bucket: Bucket) -> Iterator[World]:
    """The same with the lake, the tables and the checkpoints in a bucket."""
    settings = {"PENSTOCK_BROKER__MAINTENANCE": "50ms", "PENSTOCK_LAKE__PATH": f"{bucket.uri}/lake"}
    with Server(tmp_path, settings=settings) as server, penstock.connect(server.url) as broker:
        made = World(server, broker)
        made.make()
        yield made


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.soak)])
def test_drivers_executors_workers_and_brokers_are_killed_and_each_record_arrives_once(
    chance: random.Random, cluster: Cluster, world: World, tmp_path: Path, count: int
) -> None:
    """Two of the four in two of the stages, by chance: all of them take minutes."""
    kills = few(chance, world, count)
    stages = STAGES if count == len(VICTIMS) else [kill.stage for kill in kills]

    Killing(chance, cluster, world, tmp_path, within_s=WITHIN_S).run(kills, stages)

    for stage in stages:
        world.check(stage)
    world.server.check_log()


@pytest.mark.soak
@pytest.mark.parametrize("stage", STAGES)
def test_whatever_is_killed_again_and_again_each_record_arrives_once(
    chance: random.Random, cluster: Cluster, world: World, tmp_path: Path, stage: str
) -> None:
    kills = many(chance, world, stage, KILLS)

    Killing(chance, cluster, world, tmp_path, within_s=SOAK_S).run(kills, [stage])

    world.check(stage)
    world.server.check_log()


def test_with_a_lake_in_a_bucket_the_object_store_is_killed_as_well(
    chance: random.Random, cluster: Cluster, bucket: Bucket, bucket_world: World, tmp_path: Path
) -> None:
    stages = ["archive", "transform"]
    victims = chance.sample([STORE, chance.choice(VICTIMS)], 2)
    kills = of_each(chance, bucket_world, victims, stages)

    Killing(chance, cluster, bucket_world, tmp_path, within_s=WITHIN_S, bucket=bucket).run(kills, stages)

    for stage in stages:
        bucket_world.check(stage)
    bucket_world.server.check_log()


@pytest.mark.soak
@pytest.mark.parametrize("stage", BUCKET_STAGES)
def test_with_a_lake_in_a_bucket_whatever_is_killed_again_and_again(
    chance: random.Random, cluster: Cluster, bucket: Bucket, bucket_world: World, tmp_path: Path, stage: str
) -> None:
    kills = many(chance, bucket_world, stage, KILLS, (*VICTIMS, STORE))

    Killing(chance, cluster, bucket_world, tmp_path, within_s=SOAK_S, bucket=bucket).run(kills, [stage])

    bucket_world.check(stage)
    bucket_world.server.check_log()
