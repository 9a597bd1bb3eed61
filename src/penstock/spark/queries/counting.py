"""Counts the records of ranges of offsets without decoding them.

    offsets      0          log start                    end
    lake         │■■■■■■■│■■■■■■│                        rows of whole files are in the table's log;
                                                         of a file that is cut, its offsets are read
    log                     │■■■■■■■■■■■■■■■■■■■■■■■■■│   the headers of batches have their counts;
                                                         of a batch that is cut, its offsets are decoded

The log is fetched for its headers, so only so much of it is counted (``COUNTED_BYTES_MAX``).
"""

from collections.abc import Sequence
from typing import Final

from penstock.api.broker import Broker
from penstock.errors import OffsetOutOfRange
from penstock.model.ranges import OffsetRange
from penstock.spark.lake.history import LakeHistory
from penstock.spark.lake.reading import read_range
from penstock.spark.records.arrow import decode_rows
from penstock.wire.records import CONTROL, read_header

COUNTED_BYTES_MAX: Final = 256 << 20  # Of the log: about a second.
FETCH_BYTES: Final = 4 << 20


def count_records(broker: Broker, topic: str, spans: Sequence[OffsetRange]) -> int | None:
    """The number of records in ranges of a topic; None if counting takes long, or offsets are missing."""
    described = {each.partition: each for each in broker.describe_topic(topic).partitions}
    history = LakeHistory(broker, None)
    logged: list[OffsetRange] = []
    count = size = 0
    for span in spans:
        log = described[span.partition]
        for where, part in history.locate(span, log.start):
            if where == "gap":
                return None
            if where == "lake":
                broker.peek(topic, 1)  # Files of the lake have no permissions.
                count += _in_lake(history, part)
            else:
                logged.append(part)
                size += log.bytes * len(part) // max(log.end - log.start, 1)
    if size > COUNTED_BYTES_MAX:
        return None
    return count + sum(_in_log(broker, part) for part in logged)


def _in_lake(history: LakeHistory, span: OffsetRange) -> int:
    files = history.files(span)
    whole = [file for file in files if span.start <= file.start and file.end <= span.end]
    cut = [file for file in files if file not in whole]
    batches = read_range(cut, span.partition, span.start, span.end, ["offset"])
    return sum(file.rows for file in whole) + sum(int(batch.num_rows) for batch in batches)


def _in_log(broker: Broker, span: OffsetRange) -> int:
    count, offset = 0, span.start
    while offset < span.end:
        fetched = broker.fetch(span.topic, span.partition, offset, max_bytes=FETCH_BYTES)
        if fetched.next_offset <= offset:
            raise OffsetOutOfRange(offset=offset, start=fetched.start, end=fetched.end)
        count += _of_batches(fetched.batches, span)
        offset = fetched.next_offset
    return count


def _of_batches(data: bytes, span: OffsetRange) -> int:
    """The records of a range in some batches."""
    count = position = 0
    while position < len(data):
        header = read_header(data, position)
        following = position + header.size
        if not header.attributes & CONTROL:
            if span.start <= header.base_offset and header.next_offset <= span.end:
                count += header.count
            elif span.start < header.next_offset and header.base_offset < span.end:
                batch = data[position:following]
                count += sum(rows.num_rows for rows in decode_rows(batch, span, ["offset"]))
        position = following
    return count
