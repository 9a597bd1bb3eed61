"""Separates bad and late records of a source from good ones, with a reason.

    records ──> parsed by the schema ──> reason is null      good: the record's columns and its fields
                                     └── reason              unchanged, with the headers x-reason and x-source

The reason depends only on the record and on the batches before its own, which the
queries of a transform share (``source/shared_batches.py``).  So reruns, and the queries
for good and rejected records, decide the same.  With ``schema = "registry"`` it also depends
on the version of the topic's schema when the query was started.

A record is late if it was published long after its own time, or is far behind records
that earlier batches have read (``horizon``; only if producers set timestamps).  No good
record is before Spark's watermark, so Spark itself drops none:

    own time of a good record         <= its publish time + AHEAD_MS, so
    Spark's watermark                  = the latest own time - watermark - AHEAD_MS - 1 ms
                                       < horizon - watermark
    own time of a good record, later  >= horizon - watermark
"""

from typing import TYPE_CHECKING, Final
from uuid import uuid4

import msgspec
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it.

from penstock.spark.source.options import REGISTRY
from penstock.spark.typed.field_columns import INVALID
from penstock.types import duration_ms

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

AHEAD_MS: Final = 60_000  # How far a record's own time may be ahead of the log: clocks differ.
REASON: Final = "x-reason"
SOURCE: Final = "x-source"
ID: Final = "concat_ws(':', topic, partition, offset)"
BAD: Final = "value is not null and (_parsed is null or _parsed._bad is not null)"
BAD_JSON: Final = "its value is not JSON of the schema"
LATE: Final = "late:"  # How such reasons begin.
LATE_COUNT: Final = "late"  # What Spark observes of a batch, and how the names of these observations begin.
HORIZON: Final = "horizon"
_INTERNAL: Final = (HORIZON, INVALID)  # Columns that the view does not have.
PARSING: Final = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_bad"}


class TransformSource(msgspec.Struct, frozen=True, kw_only=True):
    """One topic, as a view."""

    # Empty: the topic is called like the view.
    topic: str = ""
    # Of the JSON in the values, as Spark writes schemas; "registry": the schema of the topic; empty: they are
    # not looked into.
    schema: str = ""
    # Which field has the record's own time; empty: when it was published counts.
    time: str = ""
    # How much later than its own time a record may be published; empty: any time, and no windows.
    watermark: str = ""
    # Where the first run begins: "earliest", "latest", or offsets as JSON.
    starting: str = "earliest"


def split(raw: "DataFrame", source: TransformSource) -> "tuple[DataFrame, DataFrame | None]":
    """The good rows of a source, as its view has them, and the others as messages, if there can be any.

    With a watermark, ``raw`` has the column ``horizon``; with the topic's schema, its fields and ``invalid``.
    """
    if not source.schema and not source.watermark:
        return raw, None
    rows, fields = raw, []
    if source.schema and source.schema != REGISTRY:
        parsed = F.from_json(F.col("value").cast("string"), f"{source.schema}, _bad string", PARSING)
        rows = raw.withColumn("_parsed", parsed)
        fields = [name for name in rows.schema["_parsed"].dataType.fieldNames() if name != "_bad"]  # type: ignore[attr-defined]
    rows = rows.withColumn("_reason", _reason(source))
    kept = [name for name in raw.columns if name not in (*fields, *_INTERNAL)]
    own = (F.col(f"`{name.replace('`', '``')}`") for name in kept)
    good = rows.where("_reason is null").select(*own, *(F.col(f"_parsed.`{name}`") for name in fields))
    return _watermarked(good, source), _marked(rows.where("_reason is not null"), source)


def _reason(source: TransformSource) -> "Column":
    """The reason why a row is rejected; null: it is good."""
    is_typed = source.schema == REGISTRY
    if is_typed:
        reason = F.when(F.col(INVALID).isNotNull(), F.col(INVALID))
    else:
        reason = F.when(F.expr(BAD if source.schema else "false"), BAD_JSON)
    field = f"`{source.time}`" if is_typed else f"_parsed.`{source.time}`"
    own, named = (field, source.time) if source.time else ("timestamp", "timestamp")
    if source.time:
        late = f"{own} < timestamp - {_interval(source)}"
        ahead = f"{own} > timestamp + interval {AHEAD_MS} milliseconds"
        reason = (
            reason.when(F.expr(f"{own} is null"), f"it has no {named}")
            .when(F.expr(late), f"{LATE} it was published more than {source.watermark} after its {named}")
            .when(F.expr(ahead), f"its {named} is after it was published")
        )
    if source.watermark:
        behind = f"{own} < {HORIZON} - {_interval(source)}"
        why = f"{LATE} its {named} is more than {source.watermark} before records that were read earlier"
        reason = reason.when(F.expr(behind), why)
    return reason


def _interval(source: TransformSource) -> str:
    """The allowed lateness of a record, in SQL."""
    return f"interval {duration_ms('watermark', source.watermark)} milliseconds"


def _watermarked(frame: "DataFrame", source: TransformSource) -> "DataFrame":
    if not source.watermark:
        return frame
    delay_ms = duration_ms("watermark", source.watermark) + AHEAD_MS + 1
    return frame.withWatermark(source.time or "timestamp", f"{delay_ms} milliseconds")


def _marked(rows: "DataFrame", source: TransformSource) -> "DataFrame":
    """Bad rows as messages: as they were, with the reason and where they are from; late ones are counted."""
    if source.watermark:
        late = F.count_if(F.col("_reason").startswith(LATE)).alias(LATE_COUNT)
        rows = rows.observe(f"{LATE_COUNT}{uuid4().hex}", late)
    ours = F.create_map(
        F.lit(REASON), F.col("_reason").cast("binary"), F.lit(SOURCE), F.expr(ID).cast("binary")
    )
    theirs = F.map_filter("headers", lambda name, _: ~name.isin(REASON, SOURCE))
    return rows.select("key", "value", F.map_concat(theirs, ours).alias("headers"))
