"""The read operations of a log.

A position is found in one of three ways, the cheapest first:

    window    the last few chunks that were read and decoded: a reader that takes one record at a time
              from a batch of a hundred decodes it once, and the next batch is already in the chunk
    hint      where the batch after the last raw read begins: a fetch continues without a look-up
    index     a binary search, then along the headers of at most ``index_bytes`` and a batch

Everything read is checked: records against the checksum of their batch, the position
of every batch by the chain of offsets (see ``log/scan.py``).  Bytes that do not fit are
examined once and remembered (``log/damage.py``): their offsets are absent from
then on, and everything around them is read as usual.  Batches that are returned
undecoded have their checksums verified the first time, unless this process wrote them.

Bounds: ``WINDOWS_MAX`` chunks of ``CHUNK_BYTES``, or of a batch up to ``LARGE_BYTES``,
one of which may be larger, with their records; ``HINTS_MAX`` hints; ``OPEN_MAX`` sealed
segments with an open file and a loaded index.  Nothing grows with the backlog.

Not thread-safe: the caller holds the lock under which it also appends.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Final

from penstock.errors import InvalidBatch, OffsetOutOfRange
from penstock.log.archive import FetchedSegment, SegmentArchive
from penstock.log.damage import Broken, DamagedRange, DamageMap, broken_at, survey
from penstock.log.files import File
from penstock.log.index import SegmentIndex
from penstock.log.recovery import rebuild_index
from penstock.log.scan import Damage, check_chain, decode, reach, skip_plain, skip_to
from penstock.log.segment import Segment, raise_corruption
from penstock.log.transactions import COMMIT_KEY, IN_TRANSACTION, STABLE, LogTransactions, hide
from penstock.wire.records import (
    HEADER_BYTES,
    Header,
    Record,
    base_offset_of,
    check_batch,
    decode_batch,
    read_header,
    size_of,
)
from penstock.wire.rewriting import slice_batch

RECORDS_MANY: Final = 1 << 30  # More than anybody asks for.
CHUNK_BYTES: Final = 64 * 1024  # One read for 600 small records, at the cost of about ten small reads.
LARGE_BYTES: Final = 4 * CHUNK_BYTES  # Of batches beyond this, only one is kept for each log.
SEEK_BYTES: Final = 8 * 1024  # Twice the distance of index entries: nearly always one read.
AHEAD: Final = (
    64  # Records decoded at a time for a reader that continues: one by one costs four times as much.
)
WINDOWS_MAX: Final = 4  # Readers at different places of one log that do not disturb each other.
HINTS_MAX: Final = 64
ASKED_MAX: Final = 64
REPEATED: Final = 2  # The fetch at which the records are decoded, too.
BATCH_RECORDS_MIN: Final = 4  # Smaller batches are cheaper to take apart than to pass on.
PLAIN_BYTES_MIN: Final = 16 * 1024  # A batch of this size is not, however few records it has.
EVERY_BATCH: Final = -1  # In place of attribute bits.
OPEN_MAX: Final = 4  # Sealed segments kept open: as many as there are windows.

MARKERS_ONLY: Final = LogTransactions()  # It knows of no abort, so it hides only markers.

_offset_of = attrgetter("offset")


class Window:
    """A chunk of a segment and the records decoded from its beginning, so far."""

    __slots__ = (
        "at", "data", "dense", "next_offset", "position", "records", "segment", "start", "transactions",
    )  # fmt: skip

    def __init__(self, segment: Segment, transactions: LogTransactions) -> None:
        self.segment = segment
        self.transactions = transactions  # The log's.
        self.position = 0  # Of the chunk in the segment.
        self.data = b""
        self.at = 0  # Up to here the chunk is decoded.
        self.start = -1  # The records cover the offsets [start, next_offset) ...
        self.next_offset = -1
        self.dense = False  # ... and lack none of them.
        self.records: list[Record] = []

    def extend(self, end: int) -> None:
        """Decode on, to offset ``end`` if the chunk reaches that far."""
        try:
            self.at, self.next_offset = decode(
                self.data, self.at, self.next_offset, end, self.records, self.transactions
            )
        except Damage as damage:
            raise broken_at(self.segment, self.position, damage) from None
        self.dense = len(self.records) == self.next_offset - self.start

    def between(self, start: int, end: int) -> list[Record]:
        """The records with offsets in ``[start, end)``."""
        if self.dense:
            return self.records[start - self.start : end - self.start]
        first = bisect_left(self.records, start, key=_offset_of)
        return self.records[first : bisect_left(self.records, end, key=_offset_of)]


class LogReader:
    """The read operations of a log; ``Log`` adds those that change it."""

    def __init__(self, segments: list[Segment], index_bytes: int) -> None:
        self._segments = segments  # By rising offset; the last one is active.  Never empty.
        self._bases = [segment.base_offset for segment in segments]
        self._index_bytes = index_bytes
        self._open: list[Segment] = []  # Sealed segments with an open file, the latest used last.
        self._windows: list[Window] = []  # The latest used last.
        self.transactions = LogTransactions()
        self._window = Window(segments[-1], self.transactions)
        self._hints: dict[int, tuple[Segment, int]] = {}
        self.damage = DamageMap()  # What was found so far that cannot be read ...
        self.on_damage: Callable[[DamagedRange], None] = _ignore  # ... called for each range ...
        self.on_deleted: Callable[[DamagedRange], None] = _ignore  # ... and when it is deleted.
        self._rescanned: set[str] = set()  # Segments whose stored index turned out to be of other bytes.
        self._asked: dict[int, int] = {}  # Where fetches began of late, and how often.
        self._changes = 0  # How often positions became void: by deleting, rewriting, cutting.
        self.archive: SegmentArchive | None = None  # Has sealed segments that may be missing here.
        self.start = segments[0].base_offset  # The first offset that is kept.
        self.end = segments[-1].next_offset  # The offset of the next record.
        self.safe = self.end  # What is below is as durable as the log promises ...
        self.unstable = STABLE  # ... and of no transaction that is still open.

    @property
    def high(self) -> int:
        """Readers see only what is below."""
        return min(self.unstable, self.safe)

    # --- decoded ----------------------------------------------------------------------------------------

    def records(self, start: int, end: int) -> list[Record]:
        """The records with offsets in ``[start, end)``.

        Those are absent that compaction removed, a transaction has hidden (``log/transactions.py``), or
        that cannot be read (``damage``).
        """
        window = self._window
        if window.start <= start <= end <= window.next_offset and window.dense:
            first = window.start
            return window.records[start - first : end - first]
        return self._records(start, end)

    def _records(self, start: int, end: int) -> list[Record]:
        if not self.start <= start <= end <= self.end:
            outside = start if start < self.start else end
            raise OffsetOutOfRange(offset=outside, start=self.start, end=self.end)
        found: list[Record] = []
        window = self._window
        while start < end:
            upto = end
            seam = False
            if self.damage.ranges:
                start = self.damage.skip(start)
                if start >= end:
                    break
                upto = min(end, self.damage.sound_until(start))
                seam = self.damage.is_seam(start)
            try:
                if not window.start <= start <= window.next_offset or (seam and start == window.next_offset):
                    window = self._window_at(start, seam)
                if window.next_offset < upto:
                    self._extend(window, start, upto)
            except Broken as broken:
                self._learn(broken)
                window = self._window
                continue
            part = window.between(start, upto)
            found = found + part if found else part
            start = min(window.next_offset, upto)  # It may have been decoded on, beyond damage.
        return found

    def all_records(self, start: int, end: int) -> list[Record]:
        """As ``records``, but with those of aborted transactions, which are decoded again each time."""
        if not self.transactions.aborted(start, end):
            return self.records(start, end)
        if not self.start <= start <= end <= self.end:
            raise OffsetOutOfRange(
                offset=start if start < self.start else end, start=self.start, end=self.end
            )
        found: list[Record] = []
        while (start := self.damage.skip(start)) < end:
            upto = min(end, self.damage.sound_until(start))
            try:
                segment, position, base = self._locate(start)
                window = Window(segment, MARKERS_ONLY)
                self._fill(window, segment, position, base)
                window.extend(min(upto, segment.next_offset))
            except Broken as broken:
                self._learn(broken)
                continue
            found += window.between(start, upto)
            start = window.next_offset
        return found

    def _extend(self, window: Window, start: int, end: int) -> None:
        """Decode towards ``end``, at least beyond ``start``; at the end of the chunk read the next one."""
        end = max(end, start + AHEAD)
        if window.at < len(window.data):
            window.extend(min(end, window.segment.next_offset))
        if window.next_offset > start:
            return
        if start < window.segment.next_offset:
            self._fill(window, window.segment, window.position + window.at, start)
        else:
            self._fill(window, *self._locate(start))
        window.extend(min(end, window.segment.next_offset))

    def _window_at(self, offset: int, seam: bool) -> Window:
        """A window that holds ``offset``, or that ends with it, unless that is a ``seam``."""
        window = self._find_window(offset)
        if window is not None and seam and window.next_offset == offset:
            window = None
        if window is None:
            segment, position, base = self._locate(offset)
            window = (
                self._windows.pop(0)
                if len(self._windows) >= WINDOWS_MAX
                else Window(segment, self.transactions)
            )
            self._fill(window, segment, position, base)
            window.extend(offset + 1)
        else:
            self._windows.remove(window)
        self._windows.append(window)
        self._window = window
        return window

    def _find_window(self, offset: int) -> Window | None:
        following = None
        for window in self._windows:
            if window.start <= offset:
                if offset < window.next_offset:
                    return window
                if offset == window.next_offset:
                    following = window
        return following

    def _fill(self, window: Window, segment: Segment, position: int, base: int) -> None:
        """Read a chunk that holds at least the batch at ``position``, which begins with offset ``base``."""
        file = self._use(segment)
        left = segment.size - position
        data = file.read(position, min(CHUNK_BYTES, left))
        if len(data) < HEADER_BYTES:
            raise Broken(segment, position, base, f"the batch of offset {base} is missing")
        size = size_of(data)
        if size > len(data):
            if size > left:
                raise Broken(segment, position, base, f"a batch of {size} bytes, and {left} are left")
            data = file.read(position, size)
            if size > LARGE_BYTES:
                self._windows = [
                    each for each in self._windows if each is window or len(each.data) <= LARGE_BYTES
                ]
        window.segment = segment
        window.position = position
        window.data = data
        window.at = 0
        window.start = window.next_offset = base
        window.records = []
        window.dense = True

    def last(self, count: int) -> list[Record]:
        """The last ``count`` records that readers may see, the oldest first."""
        high = self.high
        span = max(count, 1)
        while True:
            start = max(self.start, high - span)
            found = self.records(start, high)
            if len(found) >= count or start == self.start:
                return found[max(len(found) - count, 0) :]
            span *= 2  # Compaction left gaps: look further back.

    def offset_at(self, timestamp_ms: int) -> int:
        """The offset of the first record that is not older than that; ``end`` if there is none."""
        for segment in self._segments:
            if segment.size and segment.max_timestamp >= timestamp_ms:
                break
        else:
            return self.end
        base, _ = self._index(segment).find_time(timestamp_ms)
        for header in self.headers(max(base, self.start)):
            first = max(header.base_offset, self.start)
            if self._is_sound(header):  # Summing a batch takes a fraction of the time of decoding it.
                if header.max_timestamp < timestamp_ms:
                    continue
                if self._is_of_one_time(header):
                    return first
            for record in self.records(first, header.next_offset):
                if record.timestamp >= timestamp_ms:
                    return record.offset
        return self.end

    def _is_sound(self, header: Header) -> bool:
        """Does the batch match its checksum, so that its header can be relied on?"""
        segment, position, _ = self._locate(header.base_offset)
        try:
            check_batch(self._use(segment).read(position, header.size))
        except InvalidBatch:
            return False
        return True

    def _is_of_one_time(self, header: Header) -> bool:
        """Does a batch have a record at each of its offsets, all of one time, as a broker stamps them?"""
        dense = header.count == header.next_offset - header.base_offset
        return dense and header.base_timestamp == header.max_timestamp and not self._hides(header)

    # --- raw --------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one that holds ``offset`` on, below ``high``: at least one if there is one.

        At most ``max_bytes`` unless the first batch alone is longer, and never
        beyond the end of a segment, or damage.
        """
        if not self.start <= offset <= self.end:
            raise OffsetOutOfRange(offset=offset, start=self.start, end=self.end)
        while True:
            offset = self.damage.skip(offset)
            if offset >= self.high:
                return b""
            try:
                return self._read(offset, max_bytes)
            except Broken as broken:
                self._learn(broken)

    def _read(self, offset: int, max_bytes: int) -> bytes:
        segment, position, base = self._locate(offset)
        file = self._use(segment)
        upto = min(self.high, self.damage.sound_until(offset))
        left = segment.size - position
        data = file.read(position, min(max(max_bytes, HEADER_BYTES), left))
        try:
            at, following = reach(data, base, upto, len(data))
            if at == 0:
                size = size_of(data)
                data = file.read(position, min(size, left))
                at, following = reach(data, base, upto, len(data))
        except Damage as damage:
            raise broken_at(segment, position, damage) from None
        if at == 0:
            raise Broken(segment, position, base, f"the batch of offset {base} is not whole")
        self._hint(following, segment, position + at)
        return data if at == len(data) else data[:at]

    def fetch(self, offset: int, max_bytes: int) -> tuple[bytes, int]:
        """As ``read``, and the offset after it; what a transaction has hidden is an empty batch."""
        data, following = self.fetch_all(offset, max_bytes, self.high)
        return hide(data, self.transactions) if offset <= self.transactions.last else data, following

    def fetch_all(self, offset: int, max_bytes: int, upto: int) -> tuple[bytes, int]:
        """Batches as they are, markers and all, that begin below ``upto``: ``high``, or ``safe``.

        Its time does not depend on how many batches that are.  Where the last one ends is found by the
        index, and only the chain of the last few is checked; except that bytes which were there before
        this process are checked as a whole when they are fetched for the first time.
        """
        if not self.start <= offset <= upto:
            raise OffsetOutOfRange(offset=offset, start=self.start, end=upto)
        while True:
            offset = min(self.damage.skip(offset), upto)
            if offset == upto:
                return b"", offset
            try:
                return self._fetch(offset, max_bytes, min(upto, self.damage.sound_until(offset)))
            except Broken as broken:
                self._learn(broken)

    def _fetch(self, offset: int, max_bytes: int, upto: int) -> tuple[bytes, int]:
        goes_on = offset in self._hints
        segment, position, base = self._locate(offset)
        end, following = self._reach(segment, position, offset, position + max_bytes, upto)
        if end == position:  # The first batch alone is longer.
            head = self._use(segment).read(position, HEADER_BYTES)
            size = size_of(head)
            end, following = self._reach(segment, position, offset, position + size, upto)
        data = self._use(segment).read(position, end - position)
        if not data or len(data) != end - position:
            raise Broken(segment, position, base, f"the batch of offset {base} is not whole")
        if not segment.is_checked(position, end):
            try:
                check_chain(data, base)
            except Damage as damage:
                raise broken_at(segment, position, damage) from None
            segment.checked(position, end)
        if not goes_on:
            self._check_again(segment, position, offset, data)
        self._hint(following, segment, end)
        return data, following

    def _check_again(self, segment: Segment, position: int, offset: int, data: bytes) -> None:
        """Look at the records of a batch too, if it is the first of what is fetched for the second time.

        A reader that cannot decode a batch requests it again and again.  Earlier versions accepted batches
        whose records cannot be decoded.
        """
        asked = self._asked.pop(offset, 0) + 1
        if len(self._asked) >= ASKED_MAX:
            del self._asked[next(iter(self._asked))]
        self._asked[offset] = asked
        if asked == REPEATED:
            try:
                decode_batch(data, 0)
            except InvalidBatch as error:
                why = error.why
                raise Broken(segment, position, offset, why, unreadable=True) from None

    def _reach(self, segment: Segment, position: int, wanted: int, limit: int, upto: int) -> tuple[int, int]:
        """Where the last batch that ends within ``limit`` and begins below ``upto`` ends; what follows it.

        The first one is that of ``wanted``, at ``position``.
        """
        limit = min(limit, segment.size)
        if self.damage.ranges:
            limit = min(limit, self.damage.begins_in(segment.log_path, wanted))
        offset, at = self._index(segment).find_mark(limit, upto)
        file = self._use(segment)
        while True:
            data = file.read(at, min(SEEK_BYTES, limit - at))
            try:
                step, offset = reach(data, offset, upto, limit - at)
            except Damage as damage:
                raise broken_at(segment, at, damage) from None
            at += step
            if step + HEADER_BYTES <= len(data) or at + HEADER_BYTES > limit or offset >= upto:
                if at < position:
                    raise Broken(segment, position, offset, f"the batch of offset {offset} is not whole")
                return at, offset

    def fitting(self, start: int, limit_bytes: int) -> int:
        """How many records from ``start`` on take about so many bytes, as the index knows; at least 1.

        Unlike the average it notices large records among small ones.
        """
        segment = self._segments[max(bisect_right(self._bases, start) - 1, 0)]
        index = segment.index
        if index is None or not index.offsets:
            return RECORDS_MANY
        _, position = index.find_offset(start)
        if segment.size - position <= limit_bytes:
            return RECORDS_MANY
        place = min(bisect_right(index.positions, position + limit_bytes), len(index.offsets) - 1)
        if index.offsets[place] > start:
            return index.offsets[place] - start
        later = bisect_right(self._bases, start)  # The index has nothing behind it: to the segment's end.
        return self._bases[later] - start if later < len(self._bases) else RECORDS_MANY

    def _spanned(self, start: int, end: int) -> int:
        """The bytes of the batches that hold these offsets, as far as their segment's index knows; or 0."""
        segment = self._segments[max(bisect_right(self._bases, start) - 1, 0)]
        index = segment.index
        if index is None or not index.offsets:
            return 0
        _, position = index.find_offset(start)
        place = bisect_left(index.offsets, end)
        return (index.positions[place] if place < len(index.positions) else segment.size) - position

    def plain_batches(self, start: int, end: int, marked: int, max_bytes: int) -> bytes:
        """The batches that hold the offsets ``[start, end)``, as they are; empty if that does not pay.

        It pays if most of what they hold is wanted, and none of them is small (in records and in bytes),
        lacks a record, is hidden by a transaction, or has one of the ``marked`` attributes, which need a look
        inside.
        The first and the last are cut to what is wanted, unless they are compressed.
        """
        if self.damage.ranges and self.damage.sound_until(self.damage.skip(start)) < end:
            return b""
        wanted = end - start
        following = start
        spanned = 0
        count = 0
        pieces: list[bytes] = []
        max_bytes = self._spanned(start, end) or max_bytes
        while following < end:
            data = self.read(following, max_bytes)
            if not data:
                return b""
            at = 0
            while following < end and at < len(data):
                header = read_header(data, at)
                count += 1
                spanned += header.count
                if (
                    header.base_offset > following  # Damage was found just now.
                    or (count * BATCH_RECORDS_MIN > wanted and header.size < PLAIN_BYTES_MIN)
                    or spanned > 2 * wanted
                    or header.attributes & marked
                    or header.count != header.last_offset_delta + 1
                    or (header.attributes & IN_TRANSACTION and self._hides(header))
                ):
                    return b""
                try:
                    pieces.append(_wanted_part(data, at, start, end))
                except InvalidBatch:
                    return b""  # Reading the records finds the damage, and reports where it is.
                following = header.next_offset
                at += header.size
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def headers(self, offset: int) -> Iterator[Header]:
        """The headers of the batches from the one that holds ``offset`` on; nothing is decoded or summed."""
        return self._headers(offset, EVERY_BATCH, False)

    def marked_headers(self, offset: int, attributes: int, *, summed: bool = False) -> Iterator[Header]:
        """Only those with one of these attribute bits or a producer's number, in a third of the time.

        ``summed``: for who believes what they say, their checksums are checked.
        """
        return self._headers(offset, attributes, summed)

    def _headers(self, offset: int, attributes: int, summed: bool) -> Iterator[Header]:
        while offset < self.end:
            offset = self.damage.skip(max(offset, self.start))
            if offset >= self.end:
                return
            try:
                segment, position, base = self._locate(offset)
                changes = self._changes
                upto = min(segment.next_offset, self.damage.sound_until(offset))
                for header in self._segment_headers(segment, position, base, upto, attributes, summed):
                    offset = header.next_offset
                    yield header
                if changes == self._changes:
                    offset = upto
            except Broken as broken:
                self._learn(broken)

    def _segment_headers(
        self, segment: Segment, position: int, base: int, upto: int, attributes: int, summed: bool
    ) -> Iterator[Header]:
        """Up to an offset of the segment, or until positions become void."""
        changes = self._changes
        data = b""
        at = 0
        while changes == self._changes and base < upto:
            if at + HEADER_BYTES > len(data):
                position += at
                data = self._use(segment).read(position, min(CHUNK_BYTES, segment.size - position))
                at = 0
            if attributes != EVERY_BATCH:
                at, base = skip_plain(data, at, base, attributes, upto)
                if base >= upto or (at > 0 and at + HEADER_BYTES > len(data)):
                    continue
            try:
                header = read_header(data, at)
            except InvalidBatch as error:
                raise Broken(segment, position + at, base, error.why) from None
            if header.base_offset != base or header.next_offset > upto:
                raise Broken(segment, position + at, base, f"the batch of offset {base} is missing")
            if summed:
                self._check_sum(segment, position + at, header)
            yield header
            base = header.next_offset
            at += header.size

    def _check_sum(self, segment: Segment, position: int, header: Header) -> None:
        """Check the checksum of a batch, unless this process has written it, or has checked it before."""
        if not segment.is_checked(position, position + header.size):
            try:
                check_chain(self._use(segment).read(position, header.size), header.base_offset)
            except Damage as damage:
                raise broken_at(segment, position, damage) from None

    def _hides(self, header: Header) -> bool:
        return self.transactions.hides(header.attributes, header.producer_id, header.base_offset)

    def is_commit(self, marker: Header) -> bool | None:
        """Whether that marker of the log commits; None if it cannot be read."""
        segment, position, base = self._locate(marker.base_offset)
        data = self._use(segment).read(position, marker.size)
        try:
            check_batch(data)
            return [record.key for record in decode_batch(data)] == [COMMIT_KEY]
        except InvalidBatch as error:
            self._learn(Broken(segment, position, base, error.why))
            return None

    # --- finding ----------------------------------------------------------------------------------------

    def _locate(self, offset: int) -> tuple[Segment, int, int]:
        """Segment, position and base offset of the batch that holds ``offset``, which is below ``end``."""
        hint = self._hints.pop(offset, None)
        if hint is not None and offset < hint[0].next_offset:
            return hint[0], hint[1], offset
        segment = self._segments[bisect_right(self._bases, offset) - 1]
        index = self._index(segment)
        if offset >= segment.next_offset or not index.offsets or offset < index.offsets[0]:
            position = segment.size if offset >= segment.next_offset else 0
            raise Broken(segment, position, offset, f"the batch of offset {offset} is missing")
        base, position = index.find_offset(offset)
        file = self._use(segment)
        while True:
            data = file.read(position, min(SEEK_BYTES, segment.size - position))
            if len(data) < HEADER_BYTES:
                raise Broken(segment, position, base, f"the batch of offset {base} is missing")
            try:
                at, base = skip_to(data, base, offset)
            except Damage as damage:
                raise broken_at(segment, position, damage) from None
            position += at
            if at + HEADER_BYTES <= len(data):
                return segment, position, base

    def _learn(self, broken: Broken) -> None:
        """Determine what is damaged, so that it is skipped from now on; raise if nothing new is found."""
        segment, position = broken.segment, broken.position
        self._fetch_again(segment)
        file, index = self._use(segment), self._index(segment)
        changed = False
        if broken.unreadable:
            header = read_header(file.read(position, HEADER_BYTES))
            end = position + header.size
            changed = self.note_damage(
                DamagedRange(
                    segment.log_path, position, end, header.base_offset, header.next_offset, broken.why
                )
            )
        else:
            after = self._segments.index(segment) + 1
            following = self._bases[after] if after < len(self._bases) else self.end
            found = survey(segment, file, index, position, broken.offset, following)
            for damage in () if found.index_wrong else found.damage:
                changed = self.note_damage(damage) or changed
            for offset, resumed, before in () if found.index_wrong else found.entries:
                changed = index.insert(offset, resumed, before) or changed
            if not changed and segment.log_path not in self._rescanned:
                self._rescanned.add(segment.log_path)
                segment.index = self._rescan(segment)
                self._forget()
                return
        if not changed:
            raise_corruption(segment, position, broken.why)
        self._hints.clear()

    def note_damage(self, found: DamagedRange) -> bool:
        """Remember a range that cannot be read, and report it; False if it was known."""
        if not self.damage.add(found):
            return False
        self.on_damage(found)
        return True

    def _hint(self, offset: int, segment: Segment, position: int) -> None:
        if self.damage.is_seam(offset):
            return  # What comes next lies elsewhere.
        hints = self._hints
        if len(hints) >= HINTS_MAX:
            del hints[next(iter(hints))]
        hints[offset] = (segment, position)

    def _use(self, segment: Segment) -> File:
        """The file of a segment; a sealed one that was not used for long is closed instead."""
        opened = self._open
        if segment.sealed:
            segment.used = True
            if not opened or opened[-1] is not segment:
                if segment in opened:
                    opened.remove(segment)
                elif len(opened) >= OPEN_MAX:
                    opened.pop(0).release()
                opened.append(segment)
        return segment.opened()

    def _drop(self, segment: Segment) -> None:
        """Close a segment's file and forget that it was open."""
        segment.release()
        if segment in self._open:
            self._open.remove(segment)

    # --- a cache ----------------------------------------------------------------------------------------

    def fetching(self, offset: int) -> FetchedSegment | None:
        """What to wait for before ``offset`` can be read; None if it can be read now."""
        if self.archive is None or offset >= self._bases[-1]:
            return None
        segment = self._segments[max(bisect_right(self._bases, offset) - 1, 0)]
        return None if segment.file is not None else self.archive.fetching(segment.log_path)

    def evicted_ms(self, offset: int) -> int | None:
        """The newest time of the segment that has ``offset``, if only the archive has it; begins no fetch."""
        if self.archive is None or offset >= self._bases[-1]:
            return None
        segment = self._segments[max(bisect_right(self._bases, offset) - 1, 0)]
        if segment.file is not None or self.archive.is_cached(segment.log_path):
            return None
        return segment.max_timestamp

    def copy(self, base_offset: int, start: int, end: int) -> bytes | None:
        """The checked bytes of the segment that begins with an offset, between two positions.

        None if there is no such segment any more, or if its bytes are wrong, which is reported for repair.
        """
        number = bisect_left(self._bases, base_offset)
        if number == len(self._bases) or self._bases[number] != base_offset:
            return None
        segment = self._segments[number]
        if segment.size < end:
            return None
        data = self._use(segment).read(start, end - start)
        try:
            if len(data) < end - start:
                raise Damage(0, "the segment ends within a batch", base_offset)
            if data:
                check_chain(data, base_offset_of(data))
        except Damage:
            self._fetch_again(segment)
            return None
        return data

    def evict(self, base_offset: int) -> None:
        """Remove the file of a sealed segment that the archive has; its index stays."""
        segment = self._segments[bisect_left(self._bases, base_offset)]
        assert segment.sealed
        assert segment.base_offset == base_offset
        self._drop(segment)
        segment.files.remove(segment.log_path)

    def forget_use(self) -> None:
        """Note from now on which segments are read; see ``SegmentInfo.used``."""
        for segment in self._segments:
            segment.used = False

    def _fetch_again(self, segment: Segment) -> None:
        """The bytes of a cached segment are wrong: raise ``NotCached`` if the right ones can be had."""
        if self.archive is not None:
            self._drop(segment)
            error = self.archive.damaged(segment.log_path)
            if error is not None:
                self._forget()
                raise error

    def _index(self, segment: Segment) -> SegmentIndex:
        index = segment.index
        if index is None:
            self._use(segment)
            index = segment.load_index()
            if index is None:
                index = self._rescan(segment)
            segment.index = index
        return index

    def _rescan(self, segment: Segment) -> SegmentIndex:
        """Make the index of a sealed segment again, and find everything in it that is damaged."""
        index, damage = rebuild_index(segment, self._index_bytes)
        if damage:
            self._fetch_again(segment)
        self.damage.drop_segment(segment.log_path)
        for found in damage:
            self.note_damage(found)
        return index

    def _forget(self) -> None:
        self._changes += 1
        self._windows.clear()
        self._window = Window(self._segments[-1], self.transactions)
        self._hints.clear()
        self._asked.clear()


def _ignore(_: DamagedRange) -> None: ...


def _wanted_part(data: bytes, at: int, start: int, end: int) -> bytes:
    """The batch at a position of data, checked, and cut to what was asked for if it can be cut."""
    header = check_batch(data, at)
    if header.codec or (start <= header.base_offset and header.next_offset <= end):
        return data[at : at + header.size]
    return bytes(slice_batch(data, at, header, start, end))
