"""``replay``: publishes past records to a topic, or moves a group back to them.

    to     = "orders.again"     matching records are published to another topic, exactly once
    group  = "audit"            the group is moved back, and deleted records are restored for it

To a topic, Spark reads the range in chunks, filters it and stages it; each chunk is
published atomically under its number (``replay/plans.py``), so an interrupted replay
continues without repeating anything.  Messages keep key, value, headers, lane and their
order within the partition.  They get new timestamps, and headers added by the broker
(ids, deadlines) are removed.

To a group, nothing is copied and Spark is not started (``restoring.py``).  A group reads
everything from the given time on, so filters do not apply.

``dry_run`` only counts.
"""

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal, cast
from uuid import uuid4

import msgspec

from penstock.config.broker import DAY_MS
from penstock.errors import InvalidValue
from penstock.model.ranges import OffsetRange
from penstock.spark.pipelines.run.context import Context
from penstock.spark.records.planning import ranges_between
from penstock.spark.replay import plans
from penstock.spark.replay.chunks import ReplayChunk, matching_rows, publisher
from penstock.spark.replay.plans import ReplayPlan
from penstock.spark.restoring import counts, restore
from penstock.spark.sink.sink import SinkOptions
from penstock.spark.source.options import SourceOptions, every_partition
from penstock.spark.source.scan import TopicScan
from penstock.types import DURATION_MS_MAX

if TYPE_CHECKING:
    from penstock.client.sync import RemoteBroker

CHUNK_RECORDS: Final = 1_000_000  # Some seconds of work: a job is worth it, and little is done again.
TASKS: Final = 8  # Of a chunk: more than most machines that run Spark by themselves have cores for.
BURST_S: Final = 5  # A replay with a rate goes in chunks of so many seconds.


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
    # Only messages for which this is true: SQL, over the columns of a topic, and the fields of its schema.
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
            raise InvalidValue(name="to", value=self.to, why="set either to or group")
        if self.group and (self.to_time or self.key or self.where or self.rate):
            why = "a group always gets all messages from the given time on; to filter them, replay to a topic"
            raise InvalidValue(name="group", value=self.group, why=why)
        if self.rate is not None and not 0 < self.rate <= DURATION_MS_MAX:
            raise InvalidValue(
                name="rate", value=self.rate, why="it must be a positive number of messages per second"
            )
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
        context.tell(f"{below + above:,} messages: {below:,} from the lake, {above:,} in the log")
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
    context.tell(f"restored {count:,} messages; {settings.group} starts at the first of them")


# To a topic.


def _to_topic(settings: Settings, context: Context) -> None:
    broker = context.broker
    plans.make_target(broker, settings.to, like=settings.topic)
    replay = plans.begun(broker, _wanted(settings, context))
    done = plans.published(broker, replay)
    publish = publisher(context.spark, settings.where)
    context.progress.expect(replay.records)
    pace = _Pace(settings.rate, context)
    for number, some in enumerate(replay.chunks()):
        if done is None or number > done:
            chunk = _chunk(settings, context, replay, number, some)
            pace.keep(publish(context.spark, broker, chunk))
        context.progress.advance(records=sum(map(len, some)), batches=1)
        if context.stopping.is_set():
            return
    plans.finished(broker, replay)
    context.tell(f"published {pace.count:,} of {replay.records:,} messages to {settings.to}")


def _wanted(settings: Settings, context: Context) -> ReplayPlan:
    """The plan, if there is none yet."""
    start, end = _range(settings, context)
    chunk = CHUNK_RECORDS if settings.rate is None else int(settings.rate * BURST_S)
    what = [settings.topic, settings.to, settings.key, settings.where, settings.on_gap]
    return ReplayPlan(
        name=context.name, id=uuid4().hex, what=msgspec.json.encode(what).decode(),
        topic=settings.topic, to=settings.to, from_ms=_ms(settings.from_time), to_ms=_ms(settings.to_time),
        start=start, end=end, chunk_records=max(min(chunk, CHUNK_RECORDS), 1),
    )  # fmt: skip


def _range(settings: Settings, context: Context) -> tuple[dict[int, int], dict[int, int]]:
    """Where the times begin and end, by partition; a little too early is fine, rows are tested again."""
    options = replace(
        _source(settings, context),
        from_times=every_partition(_ms(settings.from_time)),
        to_times=every_partition(_ms(settings.to_time)),
    )
    scan = TopicScan(options, cast("RemoteBroker", context.broker))
    return scan.starting("earliest")[settings.topic], scan.ending()[settings.topic]


def _source(settings: Settings, context: Context) -> SourceOptions:
    return SourceOptions(
        address=context.address, topics=(settings.topic,), lake=context.lake, on_gap=settings.on_gap
    )


def _ms(time: datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)


def _chunk(
    settings: Settings, context: Context, replay: ReplayPlan, number: int, some: list[OffsetRange]
) -> ReplayChunk:
    records = max(sum(map(len, some)) // TASKS, 1)
    return ReplayChunk(
        source=replace(_source(settings, context), partition_records=records),
        sink=SinkOptions(address=context.address, topic=settings.to, write_id=None),
        application=replay.application,
        number=number,
        ranges=tuple(some),
        key=settings.key.encode() or None,
        from_ms=replay.from_ms,
        to_ms=replay.to_ms,
    )


class _Pace:
    def __init__(self, rate: float | None, context: Context) -> None:
        self._rate = rate
        self._context = context
        self._begun_ms = context.clock.steady_ms()
        self.count = 0  # So far.

    def keep(self, count: int) -> None:
        """Count published messages, and wait as the rate requires, unless the run is stopped."""
        self.count += count
        if self._rate is not None:
            due_ms = self._begun_ms + self.count * 1000 / self._rate
            self._context.stopping.wait(max(due_ms - self._context.clock.steady_ms(), 0) / 1000)


# Counting.


def _count(settings: Settings, context: Context) -> None:
    """Print how many messages match, by partition."""
    replay = _wanted(settings, context)
    some = ranges_between({settings.topic: replay.start}, {settings.topic: replay.end})
    found = {}
    if some:
        chunk = _chunk(settings, context, replay, 0, some)
        rows = matching_rows(context.spark, context.broker, chunk, settings.where)
        found = {row["partition"]: row["count"] for row in rows.groupBy("partition").count().collect()}
    read = sum(map(len, some))
    context.tell(f"{sum(found.values()):,} of {read:,} messages of {settings.topic} match")
    for partition, count in sorted(found.items()):
        context.tell(f"  partition {partition}: {count:,}")
