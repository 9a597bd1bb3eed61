"""What is killed and when, while stages of ``driver.py`` run on a cluster, and what is true in the end.

    in ──┬── sink ──────> out
         ├── archive ───> the lake          of ``in``, a third is in the lake alone, the rest in the log alone
         ├── replay ────> again
         ├── transform ─> copy, and a table
         └── rollup ────> a table           minute by minute, some of them still to come

A kill comes when a stage has come so far.  A driver that was killed, and a broker,
are started again; executors and Python workers come back by themselves.
"""

import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from deltalake import DeltaTable
from tests.server.process import Server, until
from tests.spark.archived import archive
from tests.spark.cluster import Cluster
from tests.spark.drivers import Driver
from tests.store.seaweedfs import Bucket

import penstock
from penstock.clock import SystemClock
from penstock.spark.lake.log_comparison import checked
from penstock.spark.lake.table import LakeTable
from penstock.spark.pipelines import rollup
from penstock.spark.reports import driver_tables, result_tables
from penstock.wire.records import encode_values

RECORDS = 6000
LAKE_RECORDS = 2000
BATCH = 500
MINUTES = 9  # That are rolled up at least.
ACKED = 100  # By a group.
VICTIMS = ("driver", "executor", "worker", "broker")
STORE = "store"  # One more, where the lake is in a bucket.


@dataclass(frozen=True)
class Kill:
    """Of whom, and when a stage has done how much."""

    victim: str
    stage: str
    mark: int


class World:
    """A broker with a topic of numbers, and what the stages have made of it."""

    def __init__(self, server: Server, broker: penstock.Broker) -> None:
        self.server = server
        self.broker = broker
        self.lake = broker.stats().lake
        self.first = SystemClock().wall_ms() // rollup.MINUTE_MS
        self.expected = Counter(b"%d" % number for number in range(RECORDS))
        self.done: dict[str, Callable[[], int]] = {
            "sink": lambda: self.messages("out"),
            "archive": lambda: sum(self.table.row_counts().values()) - LAKE_RECORDS,
            "replay": lambda: self.messages("again"),
            "transform": lambda: self.messages("copy"),
            "rollup": self.minutes,
        }
        self.ends = dict.fromkeys(self.done, RECORDS)
        self.ends |= {"archive": RECORDS - LAKE_RECORDS, "rollup": MINUTES}

    def make(self) -> None:
        """The topics, with everything that is to be read."""
        self.broker.create_topic("in", partitions=2, segment_bytes=5_000)
        for topic in ("out", "again", "copy"):
            self.broker.create_topic(topic, partitions=3)
        self._publish(0, LAKE_RECORDS)
        archive(self.broker, "in", self.lake)
        self.broker.alter_topic("in", retention="1ms")
        until(lambda: all(each.start == each.end for each in self.broker.describe_topic("in").partitions))
        self.broker.alter_topic("in", retention="7d")
        self._publish(LAKE_RECORDS, RECORDS)
        with self.broker.consumer("in", group="workers") as consumer:
            consumer.ack(consumer.receive(ACKED))

    def _publish(self, start: int, end: int) -> None:
        for first in range(start, end, BATCH):
            values = [b"%d" % number for number in range(first, first + BATCH)]
            self.broker.append("in", first // BATCH % 2, bytes(encode_values(values, 0)))

    # How far it is.

    def messages(self, topic: str) -> int:
        return self.broker.describe_topic(topic).messages

    @property
    def table(self) -> LakeTable:
        return LakeTable.open(self.lake, "in")

    def minutes(self) -> int:
        version = driver_tables.last_version(
            result_tables.path_of(self.lake, rollup.TABLE), rollup.APPLICATION
        )
        return 0 if version is None else version - self.first

    # What must be true in the end.

    def check(self, stage: str) -> None:
        """Each record is there once."""
        {
            "sink": lambda: self.check_topic("out"),
            "archive": self.check_lake,
            "replay": lambda: self.check_topic("again"),
            "transform": self.check_copies,
            "rollup": self.check_minutes,
        }[stage]()

    def check_topic(self, topic: str) -> None:
        found: Counter[bytes] = Counter()
        for place in self.broker.describe_topic(topic).partitions:
            found.update(
                message.value
                for offset in range(place.start, place.end, 5000)
                for message in self.broker.read(topic, partition=place.partition, offset=offset, limit=5000)
            )
        assert found == self.expected

    def check_lake(self) -> None:
        assert self.table.row_counts() == {0: RECORDS // 2, 1: RECORDS // 2}
        for check in checked(self.broker, self.table):
            assert (check.findings, check.next) == ([], check.log_end)

    def check_copies(self) -> None:
        self.check_topic("copy")
        rows = DeltaTable(result_tables.path_of(self.lake, "copy")).to_pyarrow_table()
        assert Counter(rows["value"].to_pylist()) == self.expected

    def check_minutes(self) -> None:
        rows = driver_tables.read(result_tables.path_of(self.lake, rollup.TABLE)).to_pylist()
        assert sum(row["published"] or 0 for row in rows) == RECORDS - LAKE_RECORDS
        acked = [row["acked"] or 0 for row in rows if row["group"] == "workers"]
        assert sum(acked) == ACKED
        assert max(Counter((row["minute"], row["topic"], row["group"]) for row in rows).values()) == 1


def few(chance: random.Random, world: World, count: int) -> list[Kill]:
    """So many victims once, in a stage that is not the same for any two."""
    stages = sorted(chance.sample(list(world.done), count), key=list(world.done).index)
    return of_each(chance, world, chance.sample(VICTIMS, count), stages)


def of_each(chance: random.Random, world: World, victims: Sequence[str], stages: Sequence[str]) -> list[Kill]:
    """A victim in each stage."""
    return [
        Kill(victim, stage, chance.randint(1, world.ends[stage] // 2))
        for victim, stage in zip(victims, stages, strict=True)
    ]


def many(
    chance: random.Random, world: World, stage: str, kills: int, victims: Sequence[str] = VICTIMS
) -> list[Kill]:
    """Victims by chance, all in one stage."""
    marks = sorted(chance.randint(1, world.ends[stage] * 3 // 4) for _ in range(kills))
    return [Kill(chance.choice(victims), stage, mark) for mark in marks]


class Killing:
    """Some stages on a cluster, with kills while they run."""

    def __init__(
        self,
        chance: random.Random,
        cluster: Cluster,
        world: World,
        folder: Path,
        *,
        within_s: float,
        bucket: Bucket | None = None,
    ) -> None:
        self._chance = chance
        self._cluster = cluster
        self._bucket = bucket
        self._variables = cluster.variables
        if bucket is not None:
            (folder / "conf").mkdir()
            self._variables = cluster.variables_with(bucket.environment, folder / "conf")
        self._world = world
        self._folder = folder
        self._left_s = within_s  # For all of it.

    def run(self, kills: list[Kill], stages: list[str]) -> None:
        """Let the stages run to their end, whatever is killed."""
        self._stages = stages
        self._driver = self._started()
        try:
            for kill in kills:
                self._driver.until(lambda kill=kill: self._is_time(kill), str(kill))  # type: ignore[misc]
                self._kill(kill.victim)
            self._driver.finish()
        finally:
            self._driver.kill()

    def _started(self) -> Driver:
        told = (",".join(self._stages), self._cluster.url, self._world.server, self._folder)
        return Driver(*told, self._variables, self._left_s)

    def _is_time(self, kill: Kill) -> bool:
        return self._world.done[kill.stage]() >= kill.mark

    def _kill(self, victim: str) -> None:
        {
            "driver": self._kill_driver,
            "executor": lambda: self._kill_one("an executor", self._cluster.executors),
            "worker": lambda: self._kill_one("a Python worker", self._cluster.python_workers),
            "broker": self._kill_broker,
            STORE: self._kill_store,
        }[victim]()

    def _kill_driver(self) -> None:
        self._driver.kill()
        self._left_s = self._driver.left_s
        self._driver = self._started()

    def _kill_broker(self) -> None:
        self._world.server.kill()
        self._world.server.start()

    def _kill_store(self) -> None:
        assert self._bucket is not None
        self._bucket.kill()
        self._bucket.start()

    def _kill_one(self, what: str, processes: Callable[[], list[int]]) -> None:
        """One of them, when there is one; or none, if the stages were quicker."""
        found: list[int] = []

        def is_there() -> bool:
            found[:] = processes()
            return bool(found) or self._driver.is_done

        self._driver.until(is_there, what)
        if not found:
            return
        with suppress(ProcessLookupError):
            os.kill(self._chance.choice(sorted(found)), signal.SIGKILL)
