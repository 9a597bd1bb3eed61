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
from tests.spark.kills import VICTIMS, Killing, World, few, many

import penstock

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

STAGES = ["sink", "archive", "replay", "transform", "rollup"]
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
