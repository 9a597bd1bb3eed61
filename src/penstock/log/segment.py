"""One file of a log, with its index: naming, opening, sealing.

    00000000000000000000.log      batches, one after the other
    00000000000000000000.index    sparse index; also the mark of a clean end
    00000000000000000000.lanes    ranges outside the normal lane, if there are any

The number is the offset of the first record.  The last segment of a log is
its active one: its index is in memory and grows.  The others are sealed: their files
are opened and their indexes loaded on the first read, and released after a while (see
``Log``), so a log of a thousand segments costs a thousand small objects, not a thousand
open files.  A log that never had a
batch has no file at all.
"""

from dataclasses import dataclass
from typing import Final, NoReturn

from penstock.errors import Closed, CorruptionError, NotCached, StorageFailed
from penstock.log.files import File, Files
from penstock.log.index import IndexHead, LaneRange, SegmentIndex, decode_index, encode_index, encode_lanes

LOG: Final = ".log"
INDEX: Final = ".index"
LANES: Final = ".lanes"
REWRITE: Final = ".rewrite.tmp"  # Of ``Log.rewrite``; ends as every temporary file does.
RESTORING: Final = "restoring"  # Segments not yet back in the log; see ``maintenance/restoring.py``.
ROOM_BYTES_MIN: Final = 16 * 1024  # A topic of few messages reserves little room ahead ...
ROOM_BYTES_MAX: Final = 4 * 1024 * 1024  # ... and a large one not much; more made no sync quicker.
ZEROED_BATCH_BYTES_MAX: Final = 32 * 1024  # Room for batches up to here is zeroed: all is written twice, and
ZEROED_BYTES_MAX: Final = 256 * 1024  # the zeros go to the disk with the next sync, so not too many at once.
CUT: Final = ".cut-"  # Bytes that recovery cut off although valid batches were among them.


def segment_name(base_offset: int) -> str:
    """The file name of a segment, without its ending."""
    return f"{base_offset:020d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentInfo:
    """The facts of a segment that retention and eviction need."""

    base_offset: int
    next_offset: int
    bytes: int
    max_timestamp: int  # 0 if it has no records.
    sealed: bool
    used: bool = True  # Since ``Log.forget_use``.


class Segment:
    """One segment.  Plain data; ``Log`` keeps it right."""

    __slots__ = (
        "base_offset", "checked_end", "checked_start", "closed", "file", "files", "index", "indexed",
        "made", "max_timestamp", "next_offset", "path", "room", "sealed", "size", "stored", "used",
        "vouched",
    )  # fmt: skip

    def __init__(self, files: Files, directory: str, base_offset: int) -> None:
        self.files = files
        self.path = f"{directory}/{segment_name(base_offset)}"  # Without an ending.
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = 0  # In bytes: the end of the last batch.
        self.room = 0  # While active: the file is made longer ahead of batches that end behind this.
        self.max_timestamp = 0  # Of its records; 0 if it has none.
        self.sealed = False
        self.closed = False  # For good, with its log.
        self.made = True  # False: the log is empty, and the file comes with its first batch.
        self.vouched = -1  # The size that the segment had when its index was stored; -1 if there is none.
        self.file: File | None = None  # None: closed.
        self.index: SegmentIndex | None = None  # None: not loaded.
        self.indexed = 0  # While active: from this position on the next batch gets an entry.
        self.stored = 0  # Up to here the bytes were there before this process, and were not summed by it ...
        self.checked_start = 0  # ... except between these two positions.
        self.checked_end = 0
        self.used = True  # Since the last search for a segment to evict.

    def is_checked(self, position: int, end: int) -> bool:
        """Whether these bytes were written by this process, or their checksums were found right by it."""
        end = min(end, self.stored)
        return position >= end or (self.checked_start <= position and end <= self.checked_end)

    def checked(self, position: int, end: int) -> None:
        """The checksums in between are right.  One stretch is remembered: that of the last reader."""
        if self.checked_start <= position <= self.checked_end <= end:
            self.checked_end = end
        else:
            self.checked_start, self.checked_end = position, end

    def average_bytes(self) -> int:
        """Of a record, rounded up."""
        return self.size // max(self.next_offset - self.base_offset, 1) + 1

    def info(self) -> SegmentInfo:
        return SegmentInfo(
            base_offset=self.base_offset,
            next_offset=self.next_offset,
            bytes=self.size,
            max_timestamp=self.max_timestamp,
            sealed=self.sealed,
            used=self.used,
        )

    def make_room(self, file: File, end: int, end_max: int) -> None:
        """Let ``file`` be as long as it will soon be, before a batch that ends at ``end``."""
        if not self.size:  # Zeros and no batch before them would be damage; see recovery.
            self.room = end
            return
        zeroed = end - self.size <= ZEROED_BATCH_BYTES_MAX
        ahead = min(max(self.size, ROOM_BYTES_MIN), ZEROED_BYTES_MAX if zeroed else ROOM_BYTES_MAX)
        self.room = max(min(self.size + ahead, end_max), end)
        if self.room > end:
            file.reserve(self.room, zeroed=zeroed)

    @property
    def log_path(self) -> str:
        return self.path + LOG

    def opened(self) -> File:
        """The file, opened if it was not."""
        if self.file is None:
            if self.closed:
                raise Closed(what="log")
            self.file = self.open_file()
        return self.file

    def open_file(self) -> File:
        """A handle of its own; ``NotCached`` if the file is to be fetched first."""
        archive = self.files.archive
        if archive is None:
            return self.files.open(self.log_path, create=False)
        archive.require(self.log_path)
        try:
            return self.files.open(self.log_path, create=False)
        except StorageFailed as error:
            archive.lost(self.log_path)
            raise NotCached(path=self.log_path) from error

    def load_index(self) -> SegmentIndex | None:
        """The stored index, or None if it is missing or damaged."""
        path = self.path + INDEX
        return decode_index(self.files.read_file(path)) if self.files.exists(path) else None

    def store_index(self, index: SegmentIndex, lanes: list[LaneRange]) -> None:
        """Write lanes and index of the segment as it is now: the lanes first, the index vouches for them."""
        if lanes:
            overwrite(self.files, self.path + LANES, encode_lanes(self.base_offset, self.size, lanes))
        else:
            self.files.remove(self.path + LANES)
        head = IndexHead(
            base_offset=self.base_offset,
            next_offset=self.next_offset,
            segment_bytes=self.size,
            max_timestamp=self.max_timestamp,
            entries=len(index.offsets),
            lane_ranges=len(lanes),
            body_crc=0,
        )
        overwrite(self.files, self.path + INDEX, encode_index(head, index))
        self.vouched = self.size

    def release(self) -> None:
        """Close the file and forget the index; both come back when they are needed."""
        file, self.file = self.file, None
        self.index = None
        if file is not None:
            file.close()

    def close(self) -> None:
        self.closed = True
        self.release()

    def remove(self) -> None:
        """Remove the files: the batches first, since an index without them means nothing."""
        self.release()
        self.files.remove(self.log_path)
        self.files.remove(self.path + INDEX)
        self.files.remove(self.path + LANES)


def overwrite(files: Files, path: str, data: bytes) -> None:
    """Write a derived file: no sync and no rename, since a torn one is detected and rebuilt."""
    file = files.open(path, create=True)
    try:
        file.truncate(0)
        file.append((data,))
    finally:
        file.close()


def unused_name(files: Files, path: str) -> str:
    """The path, or with a number behind it if a file has that name: bytes that were kept stay kept."""
    name, number = path, 0
    while files.exists(name):
        number += 1
        name = f"{path}-{number}"
    return name


def raise_corruption(segment: Segment, position: int, why: str) -> NoReturn:
    """Raise the error of damaged bytes."""
    raise CorruptionError(path=segment.log_path, position=position, why=why)
