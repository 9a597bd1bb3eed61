"""Staged batches: read from staging, validated for their topic, and written to their destination.

    plain             to the log unchanged, with the time of its arrival
    with own times    to the log with these, raised to the time of the log's last record if older,
                      and never later than the broker's clock
    EXPIRES           to the log, with the time at which each record expires
    SCHEDULED         to the schedule

All of these have sequence numbers (``journal/intents.py``), so a repeat is recognised: by the
log's producer table, or by searching the schedule's log.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from penstock.broker.journal.intents import Ranges
from penstock.broker.publish.incoming import checked
from penstock.broker.publish.publishing import Publishing
from penstock.broker.registry.staging_peers import StagingRoom
from penstock.broker.state import Partition, State, Topic
from penstock.broker.steps import Steps
from penstock.broker.storage.recovery import open_schedule
from penstock.broker.topic.delayed import set_schedule_alarm
from penstock.delivery import dedup
from penstock.errors import (
    DelayOutOfRange,
    InvalidBatch,
    InvalidValue,
    OffsetOutOfRange,
    QueueFull,
    StagedMissing,
)
from penstock.log.log import Log
from penstock.types import duration_text
from penstock.wire.headers import EXPIRES_AT
from penstock.wire.records import (
    APPEND_TIME,
    CONTROL,
    DEDUP,
    EXPIRES,
    LANE_MASK,
    REDRIVEN,
    SCHEDULED,
    TRANSACTIONAL,
    BatchBuilder,
    Header,
    check_batch,
    decode_batch,
    number_batch,
    read_header,
)
from penstock.wire.staged import decode_staged, relative

READ_BYTES: Final = 1 << 20  # Of staging at a time: one batch, as a rule.
FOREIGN: Final = DEDUP | REDRIVEN | CONTROL | TRANSACTIONAL  # What a staged batch may not say of itself.


Read = Callable[[int, int], Steps[bytes]]  # Record batches from an offset of staging on; it has the second.


def read_log(log: Log, offset: int, end: int) -> Steps[bytes]:
    """From a log of this node."""
    yield from ()
    if end > log.high:
        raise OffsetOutOfRange(offset=end, start=log.start, end=log.high)
    return log.read(offset, READ_BYTES)


class StagedReader:
    """Partition and batch of everything in staged ranges, in their order, a piece at a time."""

    def __init__(self, read: Read, staged: dict[str, Ranges]) -> None:
        self._read = read
        self._left = [(token, start, end) for token, ranges in staged.items() for start, end in ranges]
        self._left.reverse()

    def more(self) -> Steps[list[tuple[int, bytes]]]:
        """The next batches; none at the end.  ``StagedMissing`` if they are gone."""
        if not self._left:
            return []
        token, start, end = self._left.pop()
        try:
            data = yield from self._read(start, end)
            found = list(_batches(data, token, start, end))
        except (OffsetOutOfRange, InvalidBatch) as error:
            raise StagedMissing(token=token, start=start, end=end, why=str(error)) from None
        following = found[-1][0]
        if following < end:
            self._left.append((token, following, end))
        return [batch for _, some in found for batch in some]


def _batches(data: bytes, token: str, start: int, end: int) -> Iterator[tuple[int, list[tuple[int, bytes]]]]:
    """Of a piece of the staging log: what is staged in each batch, and the offset behind it."""
    position = 0
    while start < end and (position < len(data) or not data):
        header = check_batch(data, position)
        if header.base_offset > start:
            raise InvalidBatch(why=f"what was staged at offset {start} is damaged")
        records = decode_batch(data, position, start, end)
        yield header.next_offset, [decode_staged(record, token) for record in records]
        position += header.size
        start = header.next_offset


def has_times(header: Header) -> bool:
    """Whether a batch has timestamps of its own."""
    return header.max_timestamp > 0 and not header.attributes & APPEND_TIME


class Checking:
    """Looks at the batches for one topic: what it lets pass can be published whatever happens."""

    def __init__(self, topic: Topic, rooms: dict[int, StagingRoom], wall_ms: int) -> None:
        self._topic = topic
        self._rooms = rooms
        self._wall_ms = wall_ms
        self._scheduled: dict[int, int] = {}  # Messages that wait, by partition, these included.
        self.counts: Counter[int] = Counter()  # Records so far, by partition.

    @property
    def count(self) -> int:
        return self.counts.total()

    def header_of(self, number: int, batch: bytes) -> Header:
        """Raise if the batch is not one for that partition, as far as its header says."""
        if number >= len(self._topic.partitions):
            self._topic.partition(number)  # Raises.
        header = checked(self._topic, batch)
        if header.attributes & FOREIGN or not header.count:
            raise InvalidBatch(why=f"attributes {header.attributes:#x}, {header.count} records")
        return header

    def check(self, number: int, batch: bytes, header: Header) -> None:
        """Raise if the batch, whose records can be read, cannot be published."""
        if header.attributes & (SCHEDULED | EXPIRES) or has_times(header):
            self._check_records(batch)
        if header.attributes & SCHEDULED:
            self._check_room(number, header.count)
        elif has_times(header) and not self._topic.settings.append_time:
            self._check_age(number, header)
        self.counts[number] += header.count

    def _check_records(self, batch: bytes) -> None:
        limit_ms = self._topic.settings.delay_max_ms
        for record in decode_batch(batch):
            _, delay_ms, _ = relative(record)
            if delay_ms > limit_ms:
                raise DelayOutOfRange(delay_ms=delay_ms, limit_ms=limit_ms)

    def _check_room(self, number: int, count: int) -> None:
        waiting = self._scheduled.get(number, self._rooms[number].scheduled) + count
        limit = self._topic.settings.scheduled_max
        if waiting > limit:
            raise QueueFull(what=f"the schedule of {self._topic.name!r}", limit=limit)
        self._scheduled[number] = waiting

    def _check_age(self, number: int, header: Header) -> None:
        """Retention goes by the times of messages: it would delete these within a minute."""
        kept_ms = self._topic.settings.kept_ms
        newest_ms = max(header.max_timestamp, self._rooms[number].last_timestamp)
        if kept_ms is not None and newest_ms < self._wall_ms - kept_ms:
            kept = f"topic {self._topic.name!r} keeps messages for {duration_text(kept_ms)}"
            why = f"{kept}, and would delete this one at once; lengthen its retention, or leave the time out"
            raise InvalidValue(name="timestamp", value=header.max_timestamp / 1000, why=why)


class Placing:
    """Puts the batches of one intent where they belong, those that are not there yet."""

    def __init__(
        self, state: State, publishing: Publishing, producer_id: int, time_ms: int, *, resumed: bool
    ) -> None:
        self._state = state
        self._publishing = publishing
        self._producer_id = producer_id
        self._time_ms = time_ms  # Of the intent.
        self._resumed = resumed  # Some of it may be done.
        self._scheduled: dict[int, int] = {}  # By partition: the last number in its schedule.
        self.logs: dict[Log, None] = {}  # What must be durable when all is done.

    def put(self, partition: Partition, sequence: int, batch: bytes) -> int:
        """The next batch for a partition, with the number of its first record; returns how many it has."""
        header = read_header(batch)  # The checksum of what it was staged in covers it.
        if header.attributes & SCHEDULED:
            self._schedule(partition, sequence, batch, header)
        else:
            self._append(partition, sequence, batch, header)
        return header.count

    def _append(self, partition: Partition, sequence: int, batch: bytes, header: Header) -> None:
        self.logs[partition.log] = None
        if partition.producers.check_internal(self._producer_id, sequence, header.count) == dedup.DUPLICATE:
            return
        ready = self._ready(partition.log.last_timestamp, batch, header)
        number_batch(ready, self._producer_id, sequence)
        self._publishing.append_staged(partition, ready, has_times(header))

    def _ready(self, last_ms: int, batch: bytes, header: Header) -> bytearray:
        """The batch as the log may have it: decoded and encoded again only where that is needed."""
        wall_ms = self._state.clock.wall_ms()
        own = has_times(header)
        in_time = not own or last_ms <= header.base_timestamp <= header.max_timestamp <= wall_ms
        if in_time and not header.attributes & EXPIRES:
            return bytearray(batch)
        builder = BatchBuilder()
        first_ms = -1
        for record in decode_batch(batch):
            headers, _, ttl_ms = relative(record)
            if ttl_ms >= 0:
                headers.append((EXPIRES_AT, b"%d" % (self._time_ms + ttl_ms)))
            last_ms = max(last_ms, min(record.timestamp, wall_ms)) if own else 0
            first_ms = last_ms if first_ms < 0 else first_ms
            builder.add(record.key, record.value, headers, last_ms - first_ms)
        return builder.build(first_ms, last_ms, header.attributes)

    def _schedule(self, partition: Partition, sequence: int, batch: bytes, header: Header) -> None:
        schedule = open_schedule(self._state, partition)
        self.logs[schedule.log] = None
        if self._resumed and partition.number not in self._scheduled:
            self._scheduled[partition.number] = schedule.last_sequence(self._producer_id)
        if sequence <= self._scheduled.get(partition.number, -1):
            return
        attributes = header.attributes & (LANE_MASK | EXPIRES)
        messages = []
        for record in decode_batch(batch):
            headers, delay_ms, ttl_ms = relative(record)
            due_ms = self._time_ms + delay_ms
            if ttl_ms >= 0:
                headers.append((EXPIRES_AT, b"%d" % (due_ms + ttl_ms)))
            messages.append((due_ms, record.key, record.value, headers, attributes))
        now_ms = self._state.clock.wall_ms()
        schedule.add_many(messages, now_ms, self._producer_id, sequence)
        self._state.commit.mark(schedule.log)
        set_schedule_alarm(self._state, partition)
