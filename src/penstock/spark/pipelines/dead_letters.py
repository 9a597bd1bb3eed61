"""``dead_letters``: groups the dead letters of a period by error, as a table and a report.

    orders.dlq, ...  ──>  by topic and fingerprint  ──>  <lake>/_tables/dead_letters
                          counts, first and last,   ──>  dead-letters.html: plots, samples, keys
                          samples, keys             ──>  a summary on stdout

One bug is one row, however many messages it affected: the fingerprint of an error is
made of its class and the functions in its traceback, not of its message.  Letters that
were redriven since are included.  Letters that retention has deleted are read from the
lake.

The pipeline ends by itself and can be repeated: table and report are replaced.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it.

from penstock.config.broker import DEAD_LETTER_SUFFIX
from penstock.errors import InvalidValue, TopicNotFound
from penstock.spark.pipelines.run.context import Context
from penstock.spark.queries.views import LETTER
from penstock.spark.reports import driver_tables, result_tables
from penstock.spark.reports.dead_letter_report import Row, name_of, page_of, period_of, step_minutes, total
from penstock.types import check_name
from penstock.wire.headers import SOURCE_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TABLE: Final = "dead_letters"
SAMPLE_BYTES: Final = 2000  # Of a payload; what is longer is cut.
TOP_KEYS: Final = 5
LINES: Final = 10  # On stdout; the report has more, and the table all.
LINE_CHARACTERS: Final = 70
MESSAGE: Final = ("topic", "partition", "offset", "timestamp", "key", "value")
SOURCE: Final = f"cast(headers['{SOURCE_TOPIC}'] as string) as source"

SAMPLE: Final = pa.struct([
    ("id", pa.string()), ("time", pa.timestamp("us", "UTC")), ("key", pa.binary()), ("value", pa.binary()),
])  # fmt: skip
SCHEMA: Final = pa.schema([
    ("topic", pa.string()), ("fingerprint", pa.string()), ("error_class", pa.string()),
    ("error", pa.string()), ("reason", pa.string()), ("groups", pa.list_(pa.string())),
    ("count", pa.int64()), ("first", pa.timestamp("us", "UTC")), ("last", pa.timestamp("us", "UTC")),
    ("attempts", pa.float64()), ("keys", pa.int64()),
    ("top_keys", pa.list_(pa.struct([("key", pa.binary()), ("count", pa.int64())]))),
    ("samples", pa.list_(SAMPLE)),
])  # fmt: skip

# The newest error of each kind speaks for all of them: the first of the samples.
NEWEST: Final = "struct(timestamp, offset, partition)"
GROUPED: Final = f"""
select source as topic, fingerprint, max_by(error_class, {NEWEST}) as error_class,
    max_by(error, {NEWEST}) as error, max_by(reason, {NEWEST}) as reason,
    sort_array(collect_set(`group`)) as groups, count(*) as count,
    unix_micros(min(timestamp)) as first, unix_micros(max(timestamp)) as last,
    avg(attempts) as attempts, count(distinct key) as keys
from {{letters}} group by source, fingerprint order by count desc, topic, fingerprint
"""
KEYS: Final = """
select topic, fingerprint, key, count from (
    select *, row_number() over (partition by topic, fingerprint order by count desc, key) as place
    from (
        select source as topic, fingerprint, key, count(*) as count
        from {letters} where key is not null group by source, fingerprint, key
    )
) where place <= {most} order by place
"""
SAMPLES: Final = f"""
select source as topic, fingerprint, id, unix_micros(timestamp) as time, key,
    substring(value, 1, {{bytes}}) as value
from (
    select *, concat_ws(':', topic, partition, offset) as id,
        row_number() over (partition by source, fingerprint order by {NEWEST} desc) as place
    from {{letters}}
) where place <= {{most}} order by place
"""
OVER_TIME: Final = """
select source as topic, fingerprint, unix_seconds(timestamp) div {seconds} * {seconds} as time,
    count(*) as count
from {letters} group by all
"""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    # The topics whose messages failed; empty: all of them.
    topic: list[str] = []
    # The period, by when a message became a dead letter; none: from the first, and to now.
    from_time: datetime | None = None
    to_time: datetime | None = None
    # Where the report goes; empty: none is made.
    report: str = "dead-letters.html"
    # How many payloads of each error are kept.
    samples: int = 3

    def __post_init__(self) -> None:
        for name in self.topic:
            check_name("topic", name)
        if not 0 <= self.samples <= 100:
            raise InvalidValue(name="samples", value=self.samples, why="it must be from 0 to 100")


def run(settings: Settings, context: Context) -> None:
    """Group the dead letters of the period, and write them down."""
    errors: list[Row] = []
    bars_over_time: list[Row] = []
    letters = _letters(settings, context)
    if letters is not None:
        letters.persist()
        try:
            errors = _errors(letters, settings, context)
            step = step_minutes(errors)
            bars_over_time = _rows(context, OVER_TIME, letters=letters, seconds=step * 60)
        finally:
            letters.unpersist()
    driver_tables.replace(
        result_tables.path_of(context.lake, TABLE), pa.Table.from_pylist(errors, schema=SCHEMA)
    )
    context.progress.advance(records=sum(each["count"] for each in errors), batches=1, files=1)
    _tell(errors, settings, context)
    if settings.report:
        period = period_of(errors, settings.from_time, settings.to_time)
        page_of(errors, bars_over_time, period).write(settings.report)
        context.tell(f"report: {settings.report}")


# Reading.


def _letters(settings: Settings, context: Context) -> "DataFrame | None":
    """The dead letters of the period, with what their headers say; None: there is no topic of them."""
    dead_letter_topics = _dead_letter_topics(settings, context)
    if not dead_letter_topics:
        return None
    options = context.address.options | {"topic": ",".join(dead_letter_topics)}
    for name in ("from_time", "to_time"):
        time: datetime | None = getattr(settings, name)
        if time is not None:
            options[name] = time.isoformat()
    columns = [f"{text} as `{name}`" for name, text in LETTER]
    found = context.spark.read.format("penstock").options(**options).load()
    letters = found.selectExpr(*MESSAGE, SOURCE, *columns).where("source is not null")
    return letters.where(F.col("source").isin(settings.topic)) if settings.topic else letters


def _dead_letter_topics(settings: Settings, context: Context) -> list[str]:
    """The topics that hold the dead letters of the others."""
    known = context.broker.topics()
    dead_letter_topics = {name for name in known if name.endswith(DEAD_LETTER_SUFFIX) and not settings.topic}
    for topic in settings.topic or known:
        try:
            named = context.broker.describe_topic(topic).settings.dead_letter_topic
        except TopicNotFound:
            named = ""  # It is gone, and its dead letters may be there still.
        dead_letter_topics.add(named or topic + DEAD_LETTER_SUFFIX)
    return sorted(dead_letter_topics.intersection(known))


def _rows(context: Context, query: str, **arguments: Any) -> list[Row]:
    return [row.asDict(recursive=True) for row in context.spark.sql(query, None, **arguments).collect()]


def _errors(letters: "DataFrame", settings: Settings, context: Context) -> list[Row]:
    """A row for each error, the most frequent first."""
    errors = _rows(context, GROUPED, letters=letters)
    parts = {
        "top_keys": _rows(context, KEYS, letters=letters, most=TOP_KEYS),
        "samples": _rows(context, SAMPLES, letters=letters, most=settings.samples, bytes=SAMPLE_BYTES),
    }
    for name, found in parts.items():
        for each in errors:
            each[name] = [row for row in found if _same(row, each)]
    return errors


def _same(one: Row, other: Row) -> bool:
    return bool(one["topic"] == other["topic"] and one["fingerprint"] == other["fingerprint"])


# Telling.


def _tell(errors: list[Row], settings: Settings, context: Context) -> None:
    period = period_of(errors, settings.from_time, settings.to_time)
    if not errors:
        context.tell(f"no dead letters {period}")
        return
    context.tell(f"{total(errors):,} dead letters of {len(errors):,} errors, {period}")
    for each in errors[:LINES]:
        context.tell(f"{each['count']:>9,}  {each['topic']}  {name_of(each, LINE_CHARACTERS)}")
    context.tell(f"table: {TABLE}")
