"""The pipeline on local[2], beside what Spark does with the same rows in Parquet.

One Spark session and one server serve all rounds of a benchmark; a round
before them, which does not count, warms both up.  The limit is always the same
work of Spark on Parquet files that hold the same rows: no broker can be faster
than files that Spark's own code reads and writes.

Values are random bytes: Parquet would make nothing of equal ones.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from statistics import median
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import penstock
from benchmarks import typed_values
from benchmarks.durable import scratch
from benchmarks.model import Benchmark, Round, Rounds, Target
from benchmarks.processes import ClientProcess, ServerProcess
from penstock.clock import SystemClock
from penstock.model.schemas import SchemaType, value_subject
from penstock.wire.records import encode_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VALUE_BYTES = 100
BATCH = 1000
PARTITIONS = 4
TOPIC = "numbers"
SEGMENT_BYTES = 16 << 20  # Small, so that retention has whole segments to delete before a replay.
MAINTENANCE = {"PENSTOCK_BROKER__MAINTENANCE": "1s"}
RATE = 200  # Publishes a second while latency is measured.
TURNS = 4  # Quiet and loaded, so that a bad moment of the disk may come in either.
PATIENCE_S = 120.0
TYPED_COLUMNS = "id bigint, customer string, total double, note string"


@cache
def session() -> "SparkSession":
    """The one of this process."""
    import penstock.spark

    return penstock.spark.session("local[2]")


@dataclass(frozen=True, slots=True)
class Place:
    """A server with a full topic, and the same rows as Parquet."""

    server: ServerProcess
    broker: penstock.Broker
    directory: str
    count: int

    @property
    def parquet(self) -> str:
        """Where the Parquet files are."""
        return f"{self.directory}/parquet"

    def table(self, topic: str = TOPIC) -> "DataFrame":
        """A topic, as Spark reads it."""
        return session().read.format("penstock").options(servers=self.server.url, topic=topic).load()

    def files(self) -> "DataFrame":
        """The same from Parquet."""
        return session().read.parquet(self.parquet)


@contextmanager
def filled(size: int, value_bytes: int = VALUE_BYTES) -> Iterator[Place]:
    """A server whose topic has ``size`` messages, of 100 bytes by default, and its copy."""
    with scratch() as directory, ServerProcess(f"{directory}/data", MAINTENANCE, kafka=True) as server:
        with penstock.connect(server.url) as broker:
            count = max(size // BATCH, 1) * BATCH
            broker.create_topic(TOPIC, partitions=PARTITIONS, durability="os", segment_bytes=SEGMENT_BYTES)
            for number in range(count // BATCH):
                data = os.urandom(BATCH * value_bytes)
                values = [data[at : at + value_bytes] for at in range(0, len(data), value_bytes)]
                batch = bytes(encode_values(values, SystemClock().wall_ms()))
                broker.append(TOPIC, number % PARTITIONS, batch)
            place = Place(server, broker, directory, count)
            place.table().write.parquet(place.parquet)
            yield place


def seconds_of(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def to_nowhere(frame: "DataFrame") -> Callable[[], object]:
    return lambda: frame.write.format("noop").mode("overwrite").save()


def batch_read(size: int) -> Rounds:
    """All of a topic to a sink that does nothing; rows a second."""
    with filled(size) as place:
        to_nowhere(place.table())()
        to_nowhere(place.files())()
        while True:
            measured = place.count / seconds_of(to_nowhere(place.table()))
            limit = place.count / seconds_of(to_nowhere(place.files()))
            yield Round(measured=measured, limit=limit)


def typed_read(kind: SchemaType, size: int) -> Rounds:
    """The fields of a topic with a schema to a sink that does nothing; beside the same columns of Parquet."""
    with filled(BATCH) as place:
        topic = new_topic(place)
        info = place.broker.register_schema(value_subject(topic), typed_values.schema_of(kind))
        value = typed_values.serializer(kind, info.id)
        count = max(size // BATCH, 1) * BATCH
        for number in range(0, count, BATCH):
            values = [value(each) for each in range(number, number + BATCH)]
            batch = bytes(encode_values(values, SystemClock().wall_ms()))
            place.broker.append(topic, number // BATCH % PARTITIONS, batch)
        reader = session().read.format("penstock").options(servers=place.server.url, topic=topic)
        table = reader.option("value_format", "registry").schema(TYPED_COLUMNS).load()
        parquet = f"{place.directory}/{uuid4().hex}"
        table.write.parquet(parquet)
        files = session().read.parquet(parquet)
        assert files.count() == count, "all are valid"
        to_nowhere(table)()
        to_nowhere(files)()
        while True:
            measured = count / seconds_of(to_nowhere(table))
            yield Round(measured=measured, limit=count / seconds_of(to_nowhere(files)))


def stream_read(size: int) -> Rounds:
    """The same as a stream, in micro-batches of a fifth; rows a second of those after the first."""
    with filled(size) as place:
        while True:
            reader = session().readStream.format("penstock").option("starting", "earliest")
            reader = reader.options(servers=place.server.url, topic=TOPIC)
            stream = reader.option("max_records_per_trigger", max(place.count // 5, 1)).load()
            progress = drained(stream, place)[1:]
            rows = sum(each["numInputRows"] for each in progress)
            seconds = sum(each["durationMs"]["triggerExecution"] for each in progress) / 1000
            limit = place.count / seconds_of(to_nowhere(place.files()))
            yield Round(measured=rows / seconds, limit=limit)


def drained(stream: "DataFrame", place: Place) -> list[Any]:
    """Run a stream up to what is there now; the progress of its batches that had rows."""
    writer = stream.writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", f"{place.directory}/{uuid4().hex}").start()
    query.awaitTermination()
    return [each for each in query.recentProgress if each["numInputRows"]]


def sink(size: int) -> Rounds:
    """Rows of Parquet into a topic, each once; rows a second; beside rewriting the Parquet."""
    with filled(size) as place:
        values = place.files().select("value")
        while True:
            topic = new_topic(place)
            writer = values.write.format("penstock").options(servers=place.server.url, topic=topic)
            measured = place.count / seconds_of(writer.mode("append").save)
            assert place.broker.describe_topic(topic).messages == place.count, "each once"
            place.broker.delete_topic(topic)
            yield Round(measured=measured, limit=place.count / _rewriting(place))


def new_topic(place: Place) -> str:
    name = f"copy-{uuid4().hex}"
    place.broker.create_topic(name, partitions=PARTITIONS, durability="os")
    return name


def _rewriting(place: Place) -> float:
    """How long Spark takes to write the rows as Parquet, packed as the lake's."""
    target = f"{place.directory}/{uuid4().hex}"
    writer = place.files().write.option("compression", "zstd")
    return seconds_of(lambda: writer.parquet(target))


def archive(size: int) -> Rounds:
    """A topic into an empty lake, committed; rows a second; beside rewriting the Parquet."""
    with filled(size) as place:
        while True:
            lake = f"{place.directory}/{uuid4().hex}"
            seconds = seconds_of(partial(run_pipeline, place, "archive", topic=TOPIC, lake=lake))
            yield Round(measured=place.count / seconds, limit=place.count / _rewriting(place))


def run_pipeline(place: Place, name: str, **settings: str) -> None:
    """Run a pipeline here, until it has done what there is to do."""
    from penstock.spark.pipelines import load
    from penstock.spark.pipelines.run import runner
    from penstock.spark.pipelines.run.settings import load as load_settings

    module = load(name)
    given = {"master": "local[2]", **settings}
    run, own = load_settings(module.Settings, given=given, now_ms=SystemClock().wall_ms())
    runner.run(name, module, run, own, place.broker, servers=place.server.url, once=True)


def replay(size: int) -> Rounds:
    """What retention has deleted, from the lake into another topic; rows a second; beside reading Parquet."""
    with filled(size) as place:
        run_pipeline(place, "archive", topic=TOPIC)
        place.broker.alter_topic(TOPIC, retention="1s")
        deadline = time.monotonic() + PATIENCE_S
        while place.broker.describe_topic(TOPIC).messages > place.count // 2 and time.monotonic() < deadline:
            time.sleep(0.5)  # The segment that is written to stays, so some are from the log.
        while True:
            topic = new_topic(place)
            seconds = seconds_of(partial(run_pipeline, place, "replay", topic=TOPIC, to=topic))
            assert place.broker.describe_topic(topic).messages == place.count, "each once"
            place.broker.delete_topic(topic)
            limit = place.count / seconds_of(to_nowhere(place.files()))
            yield Round(measured=place.count / seconds, limit=limit)


def micro_batch(size: int) -> Rounds:
    """A micro-batch of a few rows, from a topic to nowhere, the median of ``size``; ms."""
    with filled(BATCH) as place:
        topic = new_topic(place)
        stream = session().readStream.format("penstock").options(servers=place.server.url, topic=topic).load()
        rate = session().readStream.format("rate").option("rowsPerSecond", 100).load()
        while True:
            measured = _batch_ms(stream, place, size, lambda: place.broker.publish_batch(topic, [b"x", b"y"]))
            limit = _batch_ms(rate, place, size, lambda: None)
            yield Round(measured=measured, limit=limit)


def _batch_ms(stream: "DataFrame", place: Place, count: int, feed: Callable[[], object]) -> float:
    writer = stream.writeStream.format("noop").trigger(processingTime="0 seconds")
    query = writer.option("checkpointLocation", f"{place.directory}/{uuid4().hex}").start()
    try:
        found: dict[int, int] = {}
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count + 2 and time.monotonic() < deadline:
            feed()
            time.sleep(0.05)
            for each in query.recentProgress:
                if each["numInputRows"]:
                    found[each["batchId"]] = each["durationMs"]["triggerExecution"]
    finally:
        query.stop()
    return median(ms for number, ms in sorted(found.items())[2:])  # The first ones start the Python workers.


def latency(size: int) -> Rounds:
    """p99 of a durable publish while Spark reads the broker as fast as it can; ms; beside a quiet broker."""
    with filled(1_000_000 if size > RATE else BATCH) as place:
        place.broker.create_topic("other", partitions=1)
        to_nowhere(place.table())()
        while True:
            quiet: list[float] = []
            loaded: list[float] = []
            for _ in range(TURNS):
                quiet += _answers(place, size // TURNS)
                with _reading(place):
                    loaded += _answers(place, size // TURNS)
            yield Round(measured=_p99(loaded), limit=_p99(quiet))


def _p99(took: list[float]) -> float:
    return sorted(took)[len(took) * 99 // 100]


def _answers(place: Place, count: int) -> list[float]:
    """A client in a process of its own publishes at a steady rate; how long each answer took, in ms."""
    with ClientProcess("answers", place.server.url, "other", count, RATE) as client:
        client.wait_ready()
        client.begin()
        took: list[float] = client.result()["took"]
        return took


@contextmanager
def _reading(place: Place) -> Iterator[None]:
    """Spark reads the topic again and again meanwhile."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            to_nowhere(place.table())()

    thread = threading.Thread(target=work, name="spark-reader")
    thread.start()
    try:
        time.sleep(1.0)  # Until it has begun.
        yield
    finally:
        over.set()
        thread.join()


_PARQUET = "spark.read.parquet, same rows"
_REWRITE = "Parquet to zstd Parquet"

BENCHMARKS = [
    Benchmark(
        name="spark-read",
        what="5 M messages of 100 bytes from a running broker to a sink that does nothing",
        unit="rows/s",
        limit=_PARQUET,
        run=batch_read,
        sizes={"tiny": 10_000, "quick": 500_000, "full": 5_000_000},
        target=Target(value=0.5, direction="at least", of="ratio"),
        grows="rows",
    ),
    *(
        Benchmark(
            name=f"spark-typed-{kind.lower()}",
            what=f"2 M values of a schema ({kind}, 4 fields, about 80 bytes) as columns, to nowhere",
            unit="rows/s",
            limit="spark.read.parquet, same columns",
            run=partial(typed_read, kind),
            sizes={"tiny": 10_000, "quick": 500_000, "full": 2_000_000},
            target=Target(value=0.3, direction="at least", of="ratio"),
            grows="rows",
        )
        for kind in typed_values.KINDS
    ),
    Benchmark(
        name="spark-stream",
        what="the same as a stream in five micro-batches, without the first",
        unit="rows/s",
        limit=_PARQUET,
        run=stream_read,
        sizes={"tiny": 10_000, "quick": 500_000, "full": 5_000_000},
        target=Target(value=1_000_000, direction="at least"),
    ),
    Benchmark(
        name="spark-sink",
        what="5 M values of 100 bytes from Parquet into a topic, exactly once",
        unit="rows/s",
        limit=_REWRITE,
        run=sink,
        sizes={"tiny": 10_000, "quick": 500_000, "full": 5_000_000},
        target=Target(value=500_000, direction="at least"),
    ),
    Benchmark(
        name="spark-archive",
        what="5 M messages from the log into the lake, committed, end to end",
        unit="rows/s",
        limit=_REWRITE,
        run=archive,
        sizes={"tiny": 10_000, "quick": 500_000, "full": 5_000_000},
        target=Target(value=400_000, direction="at least"),
    ),
    Benchmark(
        name="spark-replay",
        what="5 M messages that retention has deleted, from the lake into a topic, exactly once",
        unit="rows/s",
        limit=_PARQUET,
        run=replay,
        sizes={"tiny": 10_000, "quick": 500_000, "full": 5_000_000},
        target=Target(value=300_000, direction="at least"),
    ),
    Benchmark(
        name="spark-micro-batch",
        what="a micro-batch of a few messages, start to end, the median",
        unit="ms",
        limit="Spark's own rate source",
        run=micro_batch,
        sizes={"tiny": 3, "quick": 10, "full": 30},
        target=Target(value=300, direction="at most"),
    ),
    Benchmark(
        name="spark-latency",
        what="p99 of a durable publish at 200/s while Spark reads the same broker without a pause",
        unit="ms",
        limit="the same while it is idle",
        run=latency,
        sizes={"tiny": 50, "quick": 600, "full": 2_000},
        target=Target(value=2.0, direction="at most", of="ratio"),
    ),
]
