"""A topic's log in the lake, without Spark: for tests of what comes back from there."""

from penstock.api.broker import Broker
from penstock.spark.arrays import rows_of
from penstock.spark.lake.layout import ROWS
from penstock.spark.lake.table import ArchivedRange, LakeTable
from penstock.spark.lake.writing import write_rows


def archive(broker: Broker, topic: str, lake: str) -> None:
    """Archive everything that is in the log and not in the lake."""
    table = LakeTable.open(lake, topic)
    for place in broker.describe_topic(topic).partitions:
        offset = start = table.next_offsets().get(place.partition, place.start)
        while offset < place.end:
            fetched = broker.fetch(topic, place.partition, offset)
            rows = list(
                rows_of(
                    fetched.batches, topic, place.partition, offset, fetched.next_offset, list(ROWS.names)
                )
            )
            files = write_rows(table.path, place.partition, rows)
            count = sum(each.num_rows for each in rows)
            assert table.commit([ArchivedRange(place.partition, start, fetched.next_offset, count)], files, 0)
            offset = start = fetched.next_offset
