"""SQL queries for statistics per minute, over journals and messages.

    happened   rows of journals (``queries/journal.py``)
    messages   publish time of each message
    floors     for each group, publish times of messages that are not settled now

A message counts in the minute of the event.  It is *unacked* at the end of a minute if it
was published but not settled by then: it was settled later, as the journals show, or is
not settled yet, and then the oldest of its partition is among the floors.  Messages
skipped by moving a group forward have no journal rows and do not count as unacked.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it.

from penstock.spark.records.schema import ddl, row_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA: Final = pa.schema([
    ("minute", pa.timestamp("us", "UTC")), ("topic", pa.string()), ("group", pa.string()),
    ("published", pa.int64()), ("delivered", pa.int64()), ("redelivered", pa.int64()), ("acked", pa.int64()),
    ("failed", pa.int64()), ("dead_lettered", pa.int64()), ("expired", pa.int64()),
    ("ack_p50_ms", pa.int64()), ("ack_p90_ms", pa.int64()), ("ack_p99_ms", pa.int64()),
    ("ack_max_ms", pa.int64()), ("oldest_unacked_seconds", pa.float64()),
])  # fmt: skip
MESSAGES: Final = ddl(row_columns("topic", "partition", "offset", "timestamp"))
FLOORS: Final = "topic string, `group` string, timestamp timestamp"

# Messages that a row of the journal speaks of; a commit may go back, and then settles nothing.
COUNT: Final = "greatest(end - start, 0)"

FAILED: Final = "('nacked', 'timed out', 'connection lost', 'rejected')"

PUBLISHED: Final = """
select date_trunc('minute', timestamp) as minute, topic, cast(null as string) as `group`,
    count(*) as published
from {messages} where timestamp >= timestamp {begin} and timestamp < timestamp {end}
group by all
"""

COUNTED: Final = f"""
select date_trunc('minute', time) as minute, topic, `group`,
    sum(case when event in ('delivered', 'redelivered', 'committed') then {COUNT} else 0 end) as delivered,
    sum(case when event = 'redelivered' then {COUNT} else 0 end) as redelivered,
    sum(case when event in ('acked', 'committed') then {COUNT} else 0 end) as acked,
    sum(case when event in {FAILED} then {COUNT} else 0 end) as failed,
    sum(case when event = 'dead-lettered' then {COUNT} else 0 end) as dead_lettered,
    sum(case when event = 'expired' and why is null then {COUNT} else 0 end) as expired
from {{journal}}
where time >= timestamp {{begin}} and time < timestamp {{end}} and start is not null and end is not null
group by all
having delivered + acked + failed + dead_lettered + expired > 0
"""

DONE: Final = "('acked', 'committed', 'dead-lettered', 'expired', 'skipped')"

# Every message that was settled: when it was published and when it was done.
SETTLED: Final = f"""
select done.topic, done.`group`, done.event, done.time, messages.timestamp
from (
    select topic, partition, `group`, event, time, explode(sequence(start, end - 1)) as offset
    from {{journal}}
    where start < end and why is null and event in {DONE}
) as done join {{messages}} as messages using (topic, partition, offset)
"""

LATENCIES: Final = """
select minute, topic, `group`, points[0] as ack_p50_ms, points[1] as ack_p90_ms, points[2] as ack_p99_ms,
    ack_max_ms
from (
    select minute, topic, `group`, percentile_approx(ms, array(0.5, 0.9, 0.99), 1000) as points,
        max(ms) as ack_max_ms
    from (
        select date_trunc('minute', time) as minute, topic, `group`,
            greatest(unix_millis(time) - unix_millis(timestamp), 0) as ms
        from {settled} where event in ('acked', 'committed')
            and time >= timestamp {begin} and time < timestamp {end}
    ) group by minute, topic, `group`
)
"""

# A message is unacked at the end of each minute from that of its publishing to the one before it was settled.
UNACKED: Final = """
select minute, topic, `group`,
    (unix_millis(minute) + 60000 - min(unix_millis(published))) / 1000 as oldest_unacked_seconds
from (
    select topic, `group`, published, explode(sequence(first, last, interval 1 minute)) as minute
    from (
        select topic, `group`, min(timestamp) as published,
            greatest(date_trunc('minute', timestamp), timestamp {begin}) as first,
            least(date_trunc('minute', time), timestamp {end}) - interval 1 minute as last
        from {settled} group by topic, `group`, first, last
        union all
        select topic, `group`, timestamp as published,
            greatest(date_trunc('minute', timestamp), timestamp {begin}) as first,
            timestamp {end} - interval 1 minute as last
        from {floors}
    ) where first <= last
) group by minute, topic, `group`
"""


def rolled_up(
    happened: "DataFrame", messages: "DataFrame", floors: "DataFrame", begin_ms: int, end_ms: int
) -> "DataFrame":
    """The rows of the minutes from ``begin_ms`` up to ``end_ms``; a minute is in microseconds since 1970."""
    times = {"begin": time_of(begin_ms).isoformat(), "end": time_of(end_ms).isoformat()}

    def sql(query: str, **frames: "DataFrame") -> "DataFrame":
        return happened.sparkSession.sql(query, None, **frames, **times)

    happened = happened.where("not startswith(`group`, '__')")  # Those are the broker's own.
    settled = sql(SETTLED, journal=happened, messages=messages)
    minute = ["minute", "topic", "group"]
    groups = sql(COUNTED, journal=happened)
    groups = groups.join(sql(LATENCIES, settled=settled), minute, "full")
    groups = groups.join(sql(UNACKED, settled=settled, floors=floors), minute, "full")
    found = sql(PUBLISHED, messages=messages).unionByName(groups, allowMissingColumns=True)
    return found.orderBy(*minute).withColumn("minute", F.unix_micros("minute"))


def time_of(time_ms: int) -> datetime:
    """Milliseconds since 1970 as a time."""
    return datetime.fromtimestamp(time_ms / 1000, UTC)
