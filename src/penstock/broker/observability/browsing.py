"""Reads stored messages without affecting any group: from an offset or a time on, or the last few.

An answer is bounded in messages (the caller's limit) and in bytes
(``receive_bytes_max``, or one message of each partition if those are larger).
A caller that got fewer messages than requested continues where the answer ended;
an empty answer means that there are no more.

Over several partitions messages come in the order of their times.  If the
bytes of one partition did not fit, the others are cut at the same time, so
that nothing is missing before the last message of an answer.
"""

from collections.abc import Iterable
from typing import Final

from penstock.broker.observability.tracing import check_offset
from penstock.broker.state import Partition, State
from penstock.errors import InvalidValue, OffsetOutOfRange
from penstock.log.log import Log
from penstock.model.message import StoredMessage
from penstock.model.placing import stored_bytes
from penstock.types import Instant, instant_ms, whole_number
from penstock.wire.records import Record

READ_MAX: Final = 100_000  # Messages one answer may have.
CHUNK_RECORDS: Final = 100  # Read at a time, so that the bytes are counted before there are too many.


class Browsing:
    def __init__(self, state: State) -> None:
        self._state = state

    def read(
        self,
        name: str,
        number: int | None,
        offset: int | None,
        from_time: Instant | None,
        to_time: Instant | None,
        limit: int,
    ) -> list[StoredMessage]:
        """Messages from an offset or a time on, oldest first by time."""
        topic = self._state.readable(name, number)
        whole_number("limit", limit, 1, READ_MAX)
        if offset is not None and number is None and len(topic.partitions) > 1:
            raise InvalidValue(
                name="offset", value=offset, why="name the partition too; this topic has several"
            )
        partitions = topic.partitions.owned if number is None else [topic.partition(number)]
        messages: list[StoredMessage] = []
        complete_ms: int | None = None  # Up to here nothing is missing; None: nothing is at all.
        for partition in partitions:
            log = partition.log
            start = _first(log, offset, from_time)
            end = log.high
            if to_time is not None:
                end = min(log.offset_at(instant_ms("to_time", to_time)), end)
            records, all_of_it = _some(log, start, end, limit, self._share(partitions))
            messages += _stored(partition, records)
            if not all_of_it:
                last_ms = records[-1].timestamp
                complete_ms = last_ms if complete_ms is None else min(complete_ms, last_ms)
        if len(partitions) > 1:
            messages = [each for each in messages if complete_ms is None or each.timestamp <= complete_ms]
            messages.sort(key=_by_time)
        return messages[:limit]

    def peek(self, name: str, number: int | None, count: int) -> list[StoredMessage]:
        """The last messages, oldest of them first."""
        topic = self._state.readable(name, number)
        whole_number("count", count, 1, READ_MAX)
        partitions = topic.partitions.owned if number is None else [topic.partition(number)]
        share = self._share(partitions)
        messages: list[StoredMessage] = []
        for partition in partitions:
            fitting = max(share // partition.log.average_bytes, 1)
            messages += _stored(partition, partition.log.last(min(count, fitting)))
        if len(partitions) > 1:
            messages.sort(key=_by_time)
        return messages[-count:]

    def _share(self, partitions: list[Partition]) -> int:
        return self._state.config.receive_bytes_max // len(partitions)


def _stored(partition: Partition, records: Iterable[Record]) -> list[StoredMessage]:
    return [StoredMessage(partition.topic.name, partition.number, record) for record in records]


def _by_time(message: StoredMessage) -> tuple[int, int, int]:
    return message.timestamp, message.partition, message.offset


def _first(log: Log, offset: int | None, from_time: Instant | None) -> int:
    if offset is not None:
        check_offset(offset)
        if not log.start <= offset <= log.end:
            raise OffsetOutOfRange(offset=offset, start=log.start, end=log.end)
        return offset
    return log.start if from_time is None else log.offset_at(instant_ms("from_time", from_time))


def _some(log: Log, start: int, end: int, limit: int, bytes_max: int) -> tuple[list[Record], bool]:
    """The first records of a range, across gaps of compaction; False if ``bytes_max`` was too small."""
    records: list[Record] = []
    bytes_left = bytes_max
    while start < end and len(records) < limit:
        if bytes_left <= 0 and records:
            return records, False
        fitting = max(bytes_left // log.average_bytes, 1)
        upto = min(start + min(limit - len(records), fitting, CHUNK_RECORDS), end)
        some = log.records(start, upto)
        records += some
        bytes_left -= sum(stored_bytes(each.key, each.value, each.headers) for each in some)
        start = upto
    return records, True
