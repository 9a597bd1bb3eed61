"""``replay``: what was, once more; from the lake and the log to a topic, or to a group.

    to     = "orders.again"     matching records are published to another topic, each once
    group  = "audit"            the group is moved back, and what retention deleted is put back for it

To a topic, Spark reads the range in chunks, filters it, and stages it; each
chunk is published at one stroke under its number (``replays.py``), so a replay
that is stopped or killed goes on where it was and repeats nothing.  Messages
keep key, value, headers and lane, and the order they had in their partition;
their time is when they are published, and what the broker had added to their
headers (ids, deadlines) is left behind.

To a group, nothing is copied and Spark does not start: see ``restoring.py``.  A
group gets the whole range from a time on, so there is nothing to filter.

``dry_run`` counts, and changes nothing.
"""

import json
import pickle
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, cast
from uuid import uuid4

import msgspec

from penstock.errors import InvalidValue
from penstock.spark import replays
from penstock.spark.options import SourceOptions
from penstock.spark.pipelines.context import Context
from penstock.spark.planning import spans
from penstock.spark.replays import Replay
from penstock.spark.restoring import counts, restore
from penstock.spark.scan import Scan
from penstock.types import DURATION_MS_MAX

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from penstock.client.sync import RemoteBroker
    from penstock.spark.planning import Span
    from penstock.spark.sink import SinkOptions, Staged

DAY_MS: Final = 24 * 3600 * 1000
CHUNK_RECORDS: Final = 1_000_000  # Some seconds of work: a job is worth it, and little is done again.
TASKS: Final = 8  # Of a chunk: more than most machines that run Spark by themselves have cores for.
BURST_S: Final = 5  # A replay with a rate goes in chunks of so many seconds.
# Headers that the broker adds: without its mark, which only it can give, they mean nothing.
BROKERS: Final = frozenset({"x-expires-at", "x-dedup-id", "x-schedule-id", "x-redrive-group"})


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What to replay, and to whom."""

    # The topic whose past it is.
    topic: str
    # One of the two: the topic that gets it, made if it does not exist; or the group of `topic`.
    to: str = ""
    group: str = ""
    # From one time on, and before another.
    from_time: datetime | None = None
    to_time: datetime | None = None
    # Only messages of this key.
    key: str = ""
    # Only messages for which this is true: SQL, over the columns of a topic.
    where: str = ""
    # Messages a second, at most.
    rate: float | None = None
    # Count, and change nothing.
    dry_run: bool = False
    # Offsets that are in neither log nor lake: "error", or "skip", which writes them down in __gaps.
    on_gap: Literal["error", "skip"] = "error"
    # How long retention waits for a group to read what was put back for it.
    hold_ms: int = 7 * DAY_MS

    def __post_init__(self) -> None:
        if bool(self.to) == bool(self.group):
            raise InvalidValue(name="to", value=self.to, why="give a topic, or a group")
        if self.group and (self.to_time or self.key or self.where or self.rate):
            why = "a group is moved, and gets everything from there on; replay a part of it to a topic"
            raise InvalidValue(name="group", value=self.group, why=why)
        if self.rate is not None and not 0 < self.rate <= DURATION_MS_MAX:
            raise InvalidValue(name="rate", value=self.rate, why="it is messages a second")
        if self.from_time and self.to_time and self.from_time > self.to_time:
            raise InvalidValue(name="to_time", value=self.to_time, why="it is before from_time")


def run(settings: Settings, context: Context) -> None:
    """Replay, or count what would be replayed."""
    if settings.group:
        _to_group(settings, context)
    elif settings.dry_run:
        _count(settings, context)
    else:
        _to_topic(settings, context)


# To a group.


def _to_group(settings: Settings, context: Context) -> None:
    found = counts(context.broker, settings.topic, from_time=settings.from_time, lake=context.lake)
    below, above = sum(lake for lake, _ in found.values()), sum(log for _, log in found.values())
    if settings.dry_run:
        context.tell(f"{below + above:,} messages: {below:,} from the lake, {above:,} that the log has")
        return
    context.progress.expect(below)
    done = restore(
        context.broker,
        settings.topic,
        settings.group,
        from_time=settings.from_time,
        lake=context.lake,
        hold=settings.hold_ms / 1000,
        on_gap=settings.on_gap,
        advance=lambda count: context.progress.advance(records=count),
    )
    count = sum(each.records for each in done)
    context.tell(f"{count:,} messages were put back; {settings.group} begins with the first of them")


# To a topic.


def _to_topic(settings: Settings, context: Context) -> None:
    from penstock.spark.sink import SinkOptions, make_staging, publish

    broker = context.broker
    replays.make_target(broker, settings.to, like=settings.topic)
    make_staging(broker)
    replay = replays.begun(broker, _wanted(settings, context))
    done = broker.published_version(settings.to, replay.application)
    sink = SinkOptions(servers=context.servers, topic=settings.to, write_id=None)
    context.progress.expect(replay.records)
    published = 0
    pace = _Pace(settings.rate, context)
    for number, chunk in enumerate(replay.chunks()):
        if done is None or number > done:
            staged = _staged(_chosen(settings, context, chunk), sink, replay.application)
            publish(sink, staged, replay.application, number)
            count = sum(each.rows for each in staged)
            published += count
            pace.keep(count)
        context.progress.advance(records=sum(map(len, chunk)), batches=1)
        if context.stopping.is_set():
            return
    replays.finished(broker, replay)
    context.tell(f"{published:,} of {replay.records:,} messages were published to {settings.to}")


def _wanted(settings: Settings, context: Context) -> Replay:
    """The plan, if there is none yet."""
    start, end = _range(settings, context)
    chunk = CHUNK_RECORDS if settings.rate is None else int(settings.rate * BURST_S)
    told = {"rate": None, "dry_run": False}  # These do not change what is replayed.
    what = msgspec.json.encode(msgspec.structs.replace(settings, **told)).decode()
    return Replay(
        name=context.name, id=uuid4().hex, what=what, topic=settings.topic, start=start, end=end,
        chunk_records=max(min(chunk, CHUNK_RECORDS), 1),
    )  # fmt: skip


def _range(settings: Settings, context: Context) -> tuple[dict[int, int], dict[int, int]]:
    """Where the times begin and end, by partition; a little too early is fine, rows are tested again."""
    options = SourceOptions(
        servers=context.servers,
        topics=(settings.topic,),
        from_ms=_ms(settings.from_time),
        to_ms=_ms(settings.to_time),
        lake=context.lake,
    )
    scan = Scan(options, cast("RemoteBroker", context.broker))
    return scan.starting("earliest")[settings.topic], scan.ending()[settings.topic]


def _ms(time: datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)


def _chosen(settings: Settings, context: Context, chunk: "list[Span]") -> "DataFrame":
    """The rows of a chunk that are wanted."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it.

    # A partition that is not named would be read from its beginning to its end: name them all.
    nothing = dict.fromkeys(context.broker.offsets(settings.topic, "earliest"), 0)
    starts = nothing | {span.partition: span.start for span in chunk}
    ends = nothing | {span.partition: span.end for span in chunk}
    rows = (
        context.spark.read.format("penstock")
        .option("servers", context.servers)
        .option("topic", settings.topic)
        .option("starting", json.dumps(starts))
        .option("ending", json.dumps(ends))
        .option("lake", context.lake)
        .option("on_gap", settings.on_gap)
        .option("partition_records", max(sum(map(len, chunk)) // TASKS, 1))
        .load()
        .where(F.col("partition").isin([span.partition for span in chunk]))
    )
    if settings.from_time is not None:
        rows = rows.where(F.col("timestamp") >= F.lit(settings.from_time))
    if settings.to_time is not None:
        rows = rows.where(F.col("timestamp") < F.lit(settings.to_time))
    if settings.key:
        rows = rows.where(F.col("key") == F.lit(settings.key.encode()))
    return rows.where(settings.where) if settings.where else rows


def _staged(rows: "DataFrame", sink: "SinkOptions", application: str) -> "list[Staged]":
    """Have tasks encode and stage the rows; what they have staged, in the order of the rows."""
    from pyspark.sql import functions as F  # noqa: N812

    messages = rows.select("key", "value", "headers", F.col("lane").alias("priority"))
    outcomes = messages.mapInArrow(partial(_stage, sink, application), "staged binary").collect()
    return [pickle.loads(row.staged) for row in outcomes]


def _stage(
    sink: "SinkOptions", application: str, batches: "Iterable[pa.RecordBatch]"
) -> "Iterator[pa.RecordBatch]":
    """In a task."""
    import pyarrow as pa

    from penstock.spark.sink import stage

    staged = stage(sink, application, map(_without_brokers, batches))
    yield pa.RecordBatch.from_pydict({"staged": [pickle.dumps(staged)]})


def _without_brokers(rows: "pa.RecordBatch") -> "pa.RecordBatch":
    """The rows without the headers that the broker had added."""
    import pyarrow as pa

    at = rows.schema.get_field_index("headers")
    headers = rows.column(at)
    if not any(name in BROKERS for name in set(headers.keys.unique().to_pylist())):
        return rows
    kept = [
        None if each is None else [(name, value) for name, value in each if name not in BROKERS]
        for each in headers.to_pylist()
    ]
    return rows.set_column(at, rows.schema.field(at), pa.array(kept, headers.type))


class _Pace:
    """Keeps to a rate."""

    def __init__(self, rate: float | None, context: Context) -> None:
        self._rate = rate
        self._context = context
        self._begun_ms = context.clock.steady_ms()
        self._count = 0

    def keep(self, count: int) -> None:
        """So many more are done: wait until that is not too early, or the run shall end."""
        self._count += count
        if self._rate is not None:
            due_ms = self._begun_ms + self._count * 1000 / self._rate
            self._context.stopping.wait(max(due_ms - self._context.clock.steady_ms(), 0) / 1000)


# Counting.


def _count(settings: Settings, context: Context) -> None:
    """Tell how many messages match, by partition."""
    start, end = _range(settings, context)
    chunk = spans({settings.topic: start}, {settings.topic: end})
    found = {}
    if chunk:
        rows = _chosen(settings, context, chunk).groupBy("partition").count().collect()
        found = {row["partition"]: row["count"] for row in rows}
    read = sum(map(len, chunk))
    context.tell(f"{sum(found.values()):,} of {read:,} messages of {settings.topic} match")
    for partition, count in sorted(found.items()):
        context.tell(f"  partition {partition}: {count:,}")
