"""The log against a dict of records, through any order of calls, restarts, kills and power cuts.

The model is obviously right: the records by offset, where batches begin, how
far a sync has reached.  Whatever is done, the log shows exactly the records of
the model; after a power cut it shows everything that was synced and, of the
rest, the first few batches and nothing else.
"""

from collections.abc import Iterator
from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.logs import rewritten

from penstock.log.lanes import LaneIndex
from penstock.log.log import Log, LogConfig
from penstock.log.maintenance.restoring import Restoration
from penstock.testing.files import CrashDisk
from penstock.wire.records import (
    APPEND_TIME,
    BatchBuilder,
    Record,
    check_batch,
    decode_batch,
    lane_attributes,
    place_batch,
)

LANES = [2, 1, 0, -1, -2]
SEGMENT_BYTES = 700  # A few batches: rolling happens by itself, too.
INDEX_BYTES = 150

key = st.none() | st.binary(max_size=3)
value = st.none() | st.binary(max_size=120)
headers = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2)
content = st.lists(st.tuples(key, value, headers, st.integers(0, 3)), min_size=1, max_size=6)


class AnyOrderOfCalls(RuleBasedStateMachine):
    """A log on a disk that may lose power, and the model of it."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = CrashDisk()
        self.records: dict[int, Record] = {}
        self.lanes: dict[int, int] = {}  # By offset, also of removed records.
        self.batches: list[int] = []  # Where each begins, as it was appended.
        self.end = 0
        self.durable = 0
        self.newest_ms = 0
        self.gone: list[bytes] = []  # Deleted batches, the oldest first.

    @initialize(durability=st.sampled_from(["fsync", "fsync", "os"]))
    def open(self, durability: str) -> None:
        self.config = LogConfig(
            segment_bytes=SEGMENT_BYTES,
            index_bytes=INDEX_BYTES,
            durability="fsync" if durability == "fsync" else "os",
        )
        self.log = Log.open(self.disk, "d", self.config)

    # Writing.

    @rule(
        content=content,
        lane=st.sampled_from(LANES),
        codec=st.integers(0, 4),
        step_ms=st.integers(-6, 3),  # Clocks of producers do not agree.
        append_time=st.booleans(),
        producer_id=st.sampled_from([-1, -1, 7]),
    )
    def append(
        self,
        content: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]],
        lane: int,
        codec: int,
        step_ms: int,
        append_time: bool,
        producer_id: int,
    ) -> None:
        builder = BatchBuilder()
        for one_key, one_value, one_headers, delta in content:
            builder.add(one_key, one_value, one_headers, delta)
        base_ms = max(self.newest_ms + step_ms, 0)
        newest_ms = base_ms + max(delta for *_, delta in content)
        self.newest_ms = max(self.newest_ms, newest_ms)
        attributes = lane_attributes(lane) | codec | (APPEND_TIME if append_time else 0)
        batch = builder.build(base_ms, newest_ms, attributes, producer_id)
        expected = bytearray(batch)
        place_batch(expected, self.end, 0)

        assert self.log.append(batch) == self.end

        for record in decode_batch(bytes(expected)):
            self.records[record.offset] = record
            self.lanes[record.offset] = lane
        self.batches.append(self.end)
        segments = self.log.segments()
        if len(segments) > 1 and segments[-1].base_offset > self.durable:
            self.durable = segments[-1].base_offset  # It rolled, which syncs all before.
        self.end += len(content)

    @rule()
    def sync(self) -> None:
        self.log.sync()
        self.durable = self.end

    @rule()
    def roll(self) -> None:
        self.log.roll()
        self.durable = self.end

    @rule(data=st.data())
    def delete_before(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.end))
        sealed = [segment for segment in self.log.segments() if segment.sealed]
        gone = [segment.next_offset for segment in sealed if segment.next_offset <= offset]
        start = max([self.log.start, *gone])

        while self.log.start < start:  # Read before they go: they may be wanted back.
            batches = list(self._raw(self.log.start, start))
            self.gone += batches
            assert self.log.delete_before(offset) == start

        self.records = {place: record for place, record in self.records.items() if place >= start}
        self.batches = [place for place in self.batches if place >= start]

    def _raw(self, offset: int, end: int) -> Iterator[bytes]:
        for header in self.log.headers(offset):
            if header.base_offset >= end:
                return
            segment, position, _ = self.log._locate(header.base_offset)
            yield segment.opened().read(position, header.size)

    @precondition(lambda self: self.gone)
    @rule(
        data=st.data(), fault=st.sampled_from(["none", "none", "kill", "power cut"]), steps=st.integers(0, 3)
    )
    def restore(self, data: st.DataObject, fault: str, steps: int) -> None:
        count = data.draw(st.integers(1, len(self.gone)))
        batches = self.gone[-count:]
        restoration = Restoration(self.log, self.disk, self.config, check_batch(batches[0]).base_offset)
        restoration.add(b"".join(batches))
        installing = restoration.install()
        if fault == "none":
            list(installing)
            assert self.log.start == restoration.start
        else:  # A crash on the way: some segments are there, and none is missing behind them.
            for _ in range(steps):
                next(installing, None)
            self.disk.kill() if fault == "kill" else self.disk.power_cut(Random(steps))
            self.log = Log.open(self.disk, "d", self.config)
            assert self.log.recovery.damage == []
            if fault != "kill":
                self._lose_from(self.log.end)
            self.newest_ms = max(self.newest_ms, *(check_batch(batch).max_timestamp for batch in batches))
            self._after_open()
        self.newest_ms = max(self.newest_ms, self.log.last_timestamp)
        while self.gone and check_batch(self.gone[-1]).base_offset >= self.log.start:
            batch = self.gone.pop()
            for record in decode_batch(batch):
                self.records[record.offset] = record
            self.batches.insert(0, check_batch(batch).base_offset)

    @rule(modulus=st.sampled_from([1, 2, 3, 4, 1000]), data=st.data())
    def rewrite(self, modulus: int, data: st.DataObject) -> None:
        upto = data.draw(st.integers(0, self.end))
        ends = [s.next_offset for s in self.log.segments() if s.sealed and s.next_offset <= upto]
        reach = max(ends, default=0)
        wanted = {
            offset: record
            for offset, record in self.records.items()
            if offset >= reach or offset % modulus == 0
        }

        report = rewritten(self.log, lambda record: record.offset % modulus == 0, upto)

        assert report.records_removed == len(self.records) - len(wanted)
        self.records = wanted

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        # A batch that was emptied may have been joined with others: only a boundary that is left will do.
        left = [header.base_offset for header in self.log.headers(self.log.start)]
        offset = data.draw(st.sampled_from([place for place in [*left, self.end] if place >= self.log.start]))

        self.log.cut(offset)

        if offset < self.end:
            self._lose_from(offset)
            self.durable = self.end  # Cutting syncs what is left.

    # Restarts.

    @rule()
    def close_and_open(self) -> None:
        self.log.close()
        self.disk.kill()
        self.log = Log.open(self.disk, "d", self.config)

        assert self.log.recovery.clean
        assert self.log.end == self.end
        self._after_open()

    @rule()
    def kill(self) -> None:
        self.disk.kill()
        self.log = Log.open(self.disk, "d", self.config)

        assert self.log.recovery.cut_bytes == 0
        assert self.log.end == self.end
        self._after_open()

    @rule(seed=st.integers(0, 1 << 32), twice=st.booleans())
    def power_cut(self, seed: int, twice: bool) -> None:
        random = Random(seed)
        start = self.log.start
        self.disk.power_cut(random)
        self.log = Log.open(self.disk, "d", self.config)
        if twice:  # What recovery did was durable, or is done again.
            end = self.log.end
            self.disk.power_cut(random)
            self.log = Log.open(self.disk, "d", self.config)
            assert self.log.end == end

        assert self.log.recovery.damage == []
        assert self.log.start == start
        assert self.durable <= self.log.end <= self.end
        assert self.log.end in [*self.batches, self.end, start]
        self._lose_from(self.log.end)
        self._after_open()

    def _after_open(self) -> None:
        self.durable = self.end
        assert self.log.last_timestamp <= self.newest_ms
        assert self.log.last_timestamp >= max((r.timestamp for r in self.records.values()), default=0)
        self.newest_ms = self.log.last_timestamp

    def _lose_from(self, offset: int) -> None:
        self.records = {place: record for place, record in self.records.items() if place < offset}
        self.lanes = {place: lane for place, lane in self.lanes.items() if place < offset}
        self.batches = [place for place in self.batches if place < offset]
        self.end = offset

    # Reading.

    def _between(self, start: int, end: int) -> list[Record]:
        return [self.records[offset] for offset in range(start, end) if offset in self.records]

    @rule(data=st.data())
    def read_records(self, data: st.DataObject) -> None:
        start = data.draw(st.integers(self.log.start, self.end))
        end = data.draw(st.integers(start, self.end))
        assert self.log.records(start, end) == self._between(start, end)

    @rule(data=st.data(), step=st.integers(1, 4))
    def read_one_after_the_other(self, data: st.DataObject, step: int) -> None:
        start = data.draw(st.integers(self.log.start, self.end))
        for offset in range(start, self.end, step):
            end = min(offset + step, self.end)
            assert self.log.records(offset, end) == self._between(offset, end)

    @rule(data=st.data(), max_bytes=st.integers(0, 900))
    def read_raw(self, data: st.DataObject, max_bytes: int) -> None:
        offset = start = data.draw(st.integers(self.log.start, self.end))
        found: list[Record] = []
        while offset < self.log.high:
            raw = self.log.read(offset, max_bytes)
            at = 0
            while at < len(raw):
                header = check_batch(raw, at)
                found += decode_batch(raw, at)
                offset = header.next_offset
                at += header.size
            assert at == len(raw) <= max(max_bytes, header.size)
        assert offset == max(start, self.log.high)
        assert [record for record in found if record.offset >= start] == self._between(start, self.log.high)

    @rule(count=st.integers(0, 12))
    def last(self, count: int) -> None:
        visible = self._between(self.log.start, self.log.high)
        assert self.log.last(count) == visible[len(visible) - min(count, len(visible)) :]

    @rule(data=st.data())
    def offset_at(self, data: st.DataObject) -> None:
        timestamp = data.draw(st.integers(0, self.newest_ms + 1))
        expected = next((o for o, r in sorted(self.records.items()) if r.timestamp >= timestamp), self.end)
        assert self.log.offset_at(timestamp) == expected

    @rule(data=st.data())
    def walk_headers(self, data: st.DataObject) -> None:
        start = data.draw(st.integers(self.log.start, self.end))
        headers = list(self.log.headers(start))
        offset = self.end if not headers else headers[0].base_offset
        assert offset <= start
        for header in headers:
            assert header.base_offset == offset
            offset = header.next_offset
            assert header.count == len(self._between(header.base_offset, offset))
        assert offset == self.end

    # Always.

    @invariant()
    def the_log_is_the_model(self) -> None:
        log = self.log
        assert log.end == self.end
        assert log.high == (self.durable if self.config.durability == "fsync" else self.end)
        assert log.records(log.start, log.end) == self._between(log.start, log.end)
        assert log.size_bytes == sum(segment.bytes for segment in log.segments())
        assert log.durable <= log.written

    @invariant()
    def every_offset_is_in_its_lane(self) -> None:
        assert lanes_of(self.log.lanes, self.log.start, self.end) == {
            offset: lane for offset, lane in self.lanes.items() if offset >= self.log.start
        }


def lanes_of(index: LaneIndex, start: int, end: int) -> dict[int, int]:
    """The lane of every offset, as the ranges of the index say."""
    found: dict[int, int] = {}
    for lane in index.lanes():
        first, last = index.next_range(lane, start, end)
        while first < end:
            found.update(dict.fromkeys(range(first, last), lane))
            first, last = index.next_range(lane, last, end)
    return found


TestAnyOrderOfCalls = AnyOrderOfCalls.TestCase
