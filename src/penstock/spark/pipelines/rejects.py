"""Bad and late records of a source: found, and made into messages that say why.

    records ──> parsed by the schema ──> reason is null      good: the columns of a record, and its fields
                                     └── there is a reason   as it was, with x-reason and x-source

The reason is decided by the record alone, so a rerun decides the same, and the
query that takes the good ones and the one that takes the others agree without
knowing of each other.
"""

from typing import TYPE_CHECKING, Final

import msgspec
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it.

from penstock.types import duration_ms

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

AHEAD_MS: Final = 60_000  # How far a record's own time may be ahead of the log: clocks differ.
REASON: Final = "x-reason"
SOURCE: Final = "x-source"
ID: Final = "concat_ws(':', topic, partition, offset)"
BAD: Final = "value is not null and (_parsed is null or _parsed._bad is not null)"
BAD_JSON: Final = "its value is no JSON of the schema"
PARSING: Final = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_bad"}


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One topic, as a view."""

    # Empty: the topic is called like the view.
    topic: str = ""
    # Of the JSON in the values, as Spark writes schemas; empty: they are not looked into.
    schema: str = ""
    # Which field has the record's own time; empty: when it was published counts.
    time: str = ""
    # How much later than its own time a record may be published; empty: any time, and no windows.
    watermark: str = ""
    # Where the first run begins: "earliest", "latest", or offsets as JSON.
    starting: str = "earliest"


def split(raw: "DataFrame", source: Source) -> "tuple[DataFrame, DataFrame | None]":
    """The good rows of a source, as its view has them, and the others as messages, if there can be any."""
    if not source.schema:
        return _watermarked(raw, source), None
    parsed = F.from_json(F.col("value").cast("string"), f"{source.schema}, _bad string", PARSING)
    rows = raw.withColumn("_parsed", parsed).withColumn("_reason", _reason(source))
    fields = [name for name in rows.schema["_parsed"].dataType.fieldNames() if name != "_bad"]  # type: ignore[attr-defined]
    kept = [name for name in raw.columns if name not in fields]
    good = rows.where("_reason is null").select(*kept, *(F.col(f"_parsed.`{name}`") for name in fields))
    return _watermarked(good, source), _marked(rows.where("_reason is not null"))


def _reason(source: Source) -> "Column":
    """Why a row is set aside; null: it is good."""
    reason = F.when(F.expr(BAD), BAD_JSON)
    if not source.time:
        return reason
    own, allowed_ms = f"_parsed.`{source.time}`", duration_ms("watermark", source.watermark)
    late = f"{own} < timestamp - interval {allowed_ms} milliseconds"
    ahead = f"{own} > timestamp + interval {AHEAD_MS} milliseconds"
    return (
        reason.when(F.expr(f"{own} is null"), f"it has no {source.time}")
        .when(F.expr(late), f"late: it was published more than {source.watermark} after its {source.time}")
        .when(F.expr(ahead), f"its {source.time} is after it was published")
    )


def _watermarked(frame: "DataFrame", source: Source) -> "DataFrame":
    if not source.watermark:
        return frame
    delay_ms = duration_ms("watermark", source.watermark) + AHEAD_MS
    return frame.withWatermark(source.time or "timestamp", f"{delay_ms} milliseconds")


def _marked(rows: "DataFrame") -> "DataFrame":
    """Bad rows as messages: as they were, with the reason and where they are from."""
    ours = F.create_map(
        F.lit(REASON), F.col("_reason").cast("binary"), F.lit(SOURCE), F.expr(ID).cast("binary")
    )
    theirs = F.map_filter("headers", lambda name, _: ~name.isin(REASON, SOURCE))
    return rows.select("key", "value", F.map_concat(theirs, ours).alias("headers"))
