"""A topic's log in the lake, without Spark: for tests of what comes back from there."""

from tests.server.process import until
from tests.spark.lake_rows import write_rows

import penstock
from penstock.api.broker import Broker
from penstock.model.ranges import OffsetRange
from penstock.spark.lake.layout import ROWS
from penstock.spark.lake.table import ArchivedRange, LakeTable
from penstock.spark.records.arrow import decode_rows

RECORDS = 6000  # Of a topic that is half deleted.
LAKE_RECORDS = 4000


def half_deleted(broker: Broker, topic: str, lake: str) -> None:
    """Make a topic of numbers whose first part is in the lake alone, and the second in the log alone."""
    broker.create_topic(topic, partitions=2, segment_bytes=20_000)
    _publish(broker, topic, 0, LAKE_RECORDS)
    archive(broker, topic, lake)
    broker.alter_topic(topic, retention="1ms")
    until(lambda: all(each.start == each.end for each in broker.describe_topic(topic).partitions))
    broker.alter_topic(topic, retention="7d")
    _publish(broker, topic, LAKE_RECORDS, RECORDS)


def _publish(broker: Broker, topic: str, start: int, end: int) -> None:
    for number in range(start, end, 50):
        some = range(number, number + 50)
        broker.publish_batch(topic, [penstock.Message(b"%d" % each, key=str(each % 7)) for each in some])


def archive(broker: Broker, topic: str, lake: str) -> None:
    """Archive everything that is in the log and not in the lake."""
    table = LakeTable.open(lake, topic)
    for place in broker.describe_topic(topic).partitions:
        offset = start = table.next_offsets().get(place.partition, place.start)
        while offset < place.end:
            fetched = broker.fetch(topic, place.partition, offset)
            fetched_range = OffsetRange(topic, place.partition, offset, fetched.next_offset)
            rows = list(decode_rows(fetched.batches, fetched_range, ROWS.names))
            files = write_rows(table.path, place.partition, rows)
            count = sum(each.num_rows for each in rows)
            assert table.commit([ArchivedRange(place.partition, start, fetched.next_offset, count)], files, 0)
            offset = start = fetched.next_offset
