"""Opens the directory of a log after a clean shutdown or a crash.

For every segment, the oldest first:

    its index is valid and says where its batches end    trusted
    otherwise                                            scanned with checksums; index rebuilt

In a log that was not closed only the last segment is scanned.  If it does not end with
a complete, valid batch, it is cut exactly after the last one: what follows was never
acknowledged, because a sync covers everything before it.  Zeros at the end are reserved
space that was not used.  Without a power cut such an end is rare and may be damage, so
its bytes are kept (see below).

Valid batches after an invalid one mean one of two things.  If the machine lost power,
later bytes may have reached the disk before earlier ones: then the log is cut, because
none of these batches was acknowledged, and the bytes are kept beside it
(``.cut-<position>``).  If it did not (``Files.intact``), or if these bytes existed when
the log was closed, the file was damaged otherwise: then only the damaged bytes are left
out.  Offsets that the log had when it was closed are never reused: if their batches are
gone, an empty batch takes their place.

A sealed segment is never cut, except for such zeros.  Damage in it is reported, its
offsets are absent for readers, and everything before and after it is unaffected.

A crash can also leave temporary files, indexes without a segment, segments that were
merged into the previous one, an unfinished restoration (all removed), and an empty last
segment (used).  The report lists what was found.
"""

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from crc32c import crc32c

from penstock.errors import DiskFull, StorageFailed
from penstock.log.damage import DamagedRange
from penstock.log.files import TEMPORARY, File, Files
from penstock.log.index import (
    INDEX_HEAD_BYTES,
    IndexHead,
    LaneRange,
    SegmentIndex,
    decode_index_head,
    decode_lanes,
)
from penstock.log.scan import OFFSET_END, Scan, find_batch
from penstock.log.segment import (
    CUT,
    INDEX,
    LANES,
    LOG,
    RESTORING,
    ROOM_BYTES_MAX,
    Segment,
    raise_corruption,
    unused_name,
)
from penstock.wire.records import HEADER_BYTES, base_offset_of, read_header
from penstock.wire.rewriting import empty_batches

# A log's directory, that of its partition, of its topic, and of all topics: what may not be on the disk yet.
NEW_DIRECTORIES_MAX: Final = 4
SCAN_BYTES: Final = 4 * 1024 * 1024  # Large enough to hide the cost of a read, small enough not to matter.

START: Final = "start"  # The file that says where the log begins, if that is within a segment.
_SEGMENT_FILE: Final = re.compile(r"([0-9]{20})\.(log|index|lanes)")


@dataclass(slots=True)
class Recovery:
    """What opening a log found and did."""

    strict: bool = False  # See ``open_segments``.
    scanned_bytes: int = 0
    cut_bytes: int = 0  # Removed from the end of the last segment ...
    cut_position: int = 0  # ... from here on.
    kept_path: str = ""  # Where the cut bytes are kept, if they may be more than a torn end.
    rebuilt: list[str] = field(default_factory=list)  # Index files that were rebuilt.
    removed: list[str] = field(default_factory=list)  # Files a crash had left.
    damage: list[DamagedRange] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Was everything as ``close`` leaves it?"""
        return not (self.scanned_bytes or self.cut_bytes or self.removed or self.damage)


@dataclass(frozen=True, slots=True)
class Opened:
    """A log's directory, ready for use."""

    segments: list[Segment]
    lanes: list[LaneRange]
    recovery: Recovery


def open_segments(
    files: Files, directory: str, index_bytes: int, base: int = 0, *, strict: bool = False
) -> Opened:
    """Open a log's directory; if there is none, the first batch makes it, at offset ``base``.

    ``strict``: ``CorruptionError``, and nothing is changed, if it lacks its end as of when it was closed.
    """
    recovery = Recovery(strict=strict)
    bases = _tidy(files, directory, recovery)
    if not bases:
        return empty_log(files, directory, base, recovery)
    segments: list[Segment] = []
    lanes: list[LaneRange] = []
    before = 0
    for base, following in pairwise([*bases, OFFSET_END]):
        segment = Segment(files, directory, base)
        segment.sealed = base != bases[-1]
        if segment.sealed and segments and following <= segments[-1].next_offset:
            # A rewrite had joined it to the one before, and a crash came before it was removed.
            segment.remove()
            recovery.removed.append(segment.log_path)
            continue
        if segments and segments[-1].next_offset > base:
            lanes = [(start, min(end, base), lane) for start, end, lane in lanes if start < base]
        lanes += _open_segment(segment, before, following, index_bytes, recovery)
        before = max(before, segment.max_timestamp)
        segments.append(segment)
    _check_chain(segments, recovery)
    return Opened(segments, lanes, recovery)


def empty_log(files: Files, directory: str, base: int, recovery: Recovery | None = None) -> Opened:
    """A log that has never had a batch, and so no file."""
    segment = Segment(files, directory, base)
    segment.index = SegmentIndex()
    segment.made = False
    return Opened([segment], [], recovery or Recovery())


def create_segment(files: Files, directory: str, base_offset: int) -> Segment:
    """A new, empty, active segment, durably there."""
    segment = Segment(files, directory, base_offset)
    segment.file = files.open(segment.log_path, create=True)
    assert segment.file.size == 0, "a new segment has a new name"
    files.sync_directory(directory)
    segment.index = SegmentIndex()
    return segment


def sync_names(files: Files, directory: str, *, found: bool = False) -> None:
    """Make sure of a log's first file, and of the directories that may have been made for it.

    ``found``: the names were there before this process, so those of a directory are made sure of once.
    """
    ensured = files.ensured if found else None
    for _ in range(NEW_DIRECTORIES_MAX):
        if ensured is None or directory not in ensured:
            try:
                files.sync_directory(directory)
            except DiskFull as error:  # As after a failed sync of the file: its content is unknown.
                raise StorageFailed(path=directory, why=f"sync: {error}") from error
            if ensured is not None:
                ensured.add(directory)
        directory, slash, _ = directory.rpartition("/")
        if not slash or not directory:
            return


def start_file(offset: int) -> bytes:
    """The offset as text, and a line with its checksum."""
    text = b"%d\n" % offset
    return text + b"crc32c %08x\n" % crc32c(text)


def begun_at(files: Files, directory: str) -> int | None:
    """The stored start of a log; 0 if there is none, None if it cannot be read."""
    path = f"{directory}/{START}"
    if not files.exists(path):
        return 0
    data = files.read_file(path)
    text = data.partition(b"\n")[0]
    if not text.isdigit() or data not in (start_file(int(text)), text + b"\n"):
        return None
    return int(text)


def rebuild_index(segment: Segment, index_bytes: int) -> tuple[SegmentIndex, list[DamagedRange]]:
    """The index of a sealed segment whose stored one turned out to be damaged, and what cannot be read."""
    scan = Scan(segment.base_offset, index_bytes, 0)
    file = segment.opened()
    damage = scan_over(segment, file, scan, segment.next_offset, file.size)
    if scan.next_offset < segment.next_offset:
        damage.append(
            DamagedRange(
                segment.log_path, scan.position, segment.size, scan.next_offset, segment.next_offset, scan.why
            )
        )
    return scan.index, damage


def segment_bases(files: Files, directory: str) -> list[int]:
    """The base offsets of a log's segments, rising."""
    names = [name for name in files.list(directory) if _SEGMENT_FILE.fullmatch(name)]
    found = {int(name[:20]) for name in names if name.endswith(LOG)}
    if files.archive is not None:  # Of a segment that is not cached, only the index is here.
        indexes = [name for name in names if name.endswith(INDEX)]
        found |= {int(name[:20]) for name in indexes if files.archive.has(f"{directory}/{name[:20]}{LOG}")}
    return sorted(found)


def _tidy(files: Files, directory: str, recovery: Recovery) -> list[int]:
    """The base offsets of the segments; what a crash left behind is removed."""
    names = files.list(directory)
    bases = segment_bases(files, directory)
    for name in names:
        match = _SEGMENT_FILE.fullmatch(name)
        if name.endswith(TEMPORARY) or (match and int(match[1]) not in bases):
            files.remove(f"{directory}/{name}")
            recovery.removed.append(name)
    if RESTORING in names:
        files.remove_tree(f"{directory}/{RESTORING}")
        recovery.removed.append(RESTORING)
    return bases


def _open_segment(
    segment: Segment, before: int, limit: int, index_bytes: int, recovery: Recovery
) -> list[LaneRange]:
    """Bring a segment up; returns its lanes.  ``limit`` is where the next one begins."""
    if segment.files.archive is not None and segment.sealed and not segment.files.exists(segment.log_path):
        lanes = _trust_head(segment, closed_as(segment))
        if lanes is not None:
            return lanes
    file = segment.opened()
    lanes = _trust(segment, file)
    if lanes is None:
        lanes = _rescue(segment, file, before, limit, index_bytes, recovery)
    if segment.sealed:
        segment.release()
    else:
        assert segment.index is not None
        last = segment.index.positions[-1] if segment.index.positions else -index_bytes
        segment.indexed = last + index_bytes
    return lanes


def _trust(segment: Segment, file: File) -> list[LaneRange] | None:
    """Take over what the stored index says, if it is about the segment as it is; None if not."""
    head = closed_as(segment)
    if head is None:
        return None
    if file.size > head.segment_bytes and is_room(file, head.segment_bytes):
        file.truncate(head.segment_bytes)
    return _trust_head(segment, head) if file.size == head.segment_bytes else None


def _trust_head(segment: Segment, head: IndexHead | None) -> list[LaneRange] | None:
    """``_trust`` without a look at the file, which may have to be fetched when it is read."""
    if head is None:
        return None
    lanes: list[LaneRange] | None = []
    if head.lane_ranges:
        path = segment.path + LANES
        data = segment.files.read_file(path) if segment.files.exists(path) else b""
        lanes = decode_lanes(data, segment.base_offset, head.segment_bytes)
        if lanes is None:
            return None
    if not segment.sealed:
        segment.index = segment.load_index()
        if segment.index is None:
            return None
    segment.size = segment.stored = segment.vouched = head.segment_bytes
    segment.next_offset = head.next_offset
    segment.max_timestamp = head.max_timestamp
    return lanes


def read_head(segment: Segment) -> IndexHead | None:
    """What the stored index of a segment says of it; None if there is none that can be trusted."""
    path = segment.path + INDEX
    if not segment.files.exists(path):
        return None
    file = segment.files.open(path, create=False)
    try:
        return decode_index_head(file.read(0, INDEX_HEAD_BYTES))
    finally:
        file.close()


def closed_as(segment: Segment) -> IndexHead | None:
    """The state of a segment when its index was stored; None if unknown."""
    head = read_head(segment)
    return None if head is None or head.base_offset != segment.base_offset else head


def shortage(size: int, closed_bytes: int) -> str:
    """What is wrong with a segment that has become shorter; empty if it has not."""
    return f"it has {size} bytes, and had {closed_bytes} when it was closed" if size < closed_bytes else ""


def _stand_in(segment: Segment, file: File, scan: Scan, end: int, why: str) -> DamagedRange:
    """Let empty batches take the offsets up to ``end``, or new records would get those of lost ones."""
    position, offset = scan.position, scan.next_offset
    file.append(empty_batches(offset, end, scan.last_timestamp))
    file.sync()
    scan.resume(position, offset, OFFSET_END)
    scan_file(file, scan)
    return DamagedRange(segment.log_path, position, scan.position, offset, end, why)


def _rescue(
    segment: Segment, file: File, before: int, limit: int, index_bytes: int, recovery: Recovery
) -> list[LaneRange]:
    """Scan a segment that cannot be trusted."""
    scan = Scan(segment.base_offset, index_bytes, before)
    if segment.sealed:
        recovery.damage += scan_over(segment, file, scan, limit, file.size)
    else:
        closed = closed_as(segment)
        closed_bytes = 0 if closed is None else closed.segment_bytes
        # What a process wrote is there if only the process ended, and what was there when the log was
        # closed was synced: damage in it is no torn end.
        written = file.size if segment.files.intact else closed_bytes
        recovery.damage += scan_over(segment, file, scan, limit, written)
        why = shortage(file.size, closed_bytes) or scan.why
        # Closing syncs the segment before it writes the index, and nothing shortens it after.
        lacks_end = closed is not None and scan.next_offset < closed.next_offset
        if lacks_end and recovery.strict:
            segment.close()
            raise_corruption(segment, scan.position, why)
        _cut(segment, file, scan, recovery)
        if closed is not None and lacks_end:
            recovery.damage.append(_stand_in(segment, file, scan, closed.next_offset, why))
    recovery.scanned_bytes += file.size
    segment.size = scan.position
    segment.next_offset = scan.next_offset
    segment.max_timestamp = scan.last_timestamp if scan.position else 0
    segment.index = scan.index
    if segment.sealed:
        segment.store_index(scan.index, scan.lanes)
        recovery.rebuilt.append(segment.path + INDEX)
    return scan.lanes


def scan_file(file: File, scan: Scan) -> None:
    """Feed the file to the scan, from its position on, until the end or damage."""
    while not scan.why and scan.position < file.size:
        left = file.size - scan.position
        if scan.wanted > left:
            scan.why = f"a batch of at least {scan.wanted} bytes, and {left} are left"
            return
        scan.feed(file.read(scan.position, max(SCAN_BYTES, scan.wanted)))


def _cut(segment: Segment, file: File, scan: Scan, recovery: Recovery) -> None:
    """Cut the last segment behind its last valid batch, and make sure of what is before."""
    files = segment.files
    directory = segment.path.rpartition("/")[0]
    ensured = set() if files.ensured is None else files.ensured
    # A stored index is of an older state; it must not fit by accident after the cut.
    files.remove(segment.path + INDEX)
    files.remove(segment.path + LANES)
    ensured.discard(directory)
    if scan.why:
        if not is_room(file, scan.position):
            recovery.cut_bytes = file.size - scan.position
            recovery.cut_position = scan.position
            if files.intact or _next_batch(file, scan.position + 1, scan.next_offset) >= 0:
                recovery.kept_path = unused_name(files, f"{segment.path}{CUT}{scan.position}")
                _keep(files, file, scan.position, recovery.kept_path)
        files.sync_directory(directory)
        ensured.add(directory)
        file.truncate(scan.position)
    # A killed process leaves bytes that are in the kernel but not on the disk, and from now on they count.
    if not files.cache:
        file.sync()
        sync_names(files, directory, found=True)


def is_room(file: File, position: int) -> bool:
    """Is what follows nothing but room that was reserved?  Without a batch before it, it is damage."""
    size = file.size - position
    return position > 0 and size <= ROOM_BYTES_MAX and file.read(position, size) == bytes(size)


def _keep(files: Files, file: File, position: int, path: str) -> None:
    """Copy the end of a file to a file of its own."""
    copy = files.open(path + TEMPORARY, create=True)
    try:
        copy.truncate(0)
        while position < file.size:
            data = file.read(position, SCAN_BYTES)
            copy.append((data,))
            position += len(data)
        copy.sync()
    finally:
        copy.close()
    files.rename(path + TEMPORARY, path)


def _next_batch(file: File, position: int, offset: int, limit: int = OFFSET_END) -> int:
    """The position of the first valid batch at or behind ``position``; -1 if there is none."""
    while position < file.size:
        # Twice a chunk at a time, half of that on: a batch across the border is whole in one of them,
        # unless it is longer than a chunk, and then the ones behind it are found.
        found = find_batch(file.read(position, 2 * SCAN_BYTES), offset, limit)
        if found >= 0:
            return position + found
        position += SCAN_BYTES
    return -1


def scan_over(segment: Segment, file: File, scan: Scan, limit: int, written: int) -> list[DamagedRange]:
    """Scan a segment, over damage where a valid batch follows that begins at ``written`` or before.

    ``limit`` is where the next segment begins.
    """
    damage: list[DamagedRange] = []
    while True:
        scan_file(file, scan)
        if not scan.why or scan.next_offset >= limit:  # What is behind a complete chain does not matter.
            return damage
        position = scan.position
        while True:
            position = _next_batch(file, position + 1, scan.next_offset, limit)
            if position < 0 or position > written:  # At ``written`` a batch begins, or the file ends.
                return damage
            header = read_header(file.read(position, HEADER_BYTES))
            if _is_followed(file, position + header.size, header.next_offset, limit):
                break
        damage.append(
            DamagedRange(
                segment.log_path, scan.position, position, scan.next_offset, header.base_offset, scan.why
            )
        )
        scan.resume(position, header.base_offset, limit)


def _is_followed(file: File, position: int, offset: int, limit: int) -> bool:
    """Does what comes next confirm where a batch behind damage belongs?  Its own checksum does not."""
    if is_room(file, position):  # Or its very end.
        return limit in (offset, OFFSET_END)
    data = file.read(position, HEADER_BYTES)
    return len(data) == HEADER_BYTES and base_offset_of(data) == offset


def _check_chain(segments: list[Segment], recovery: Recovery) -> None:
    """Each segment begins where the one before it ended."""
    for segment, following in pairwise(segments):
        base = following.base_offset
        if segment.next_offset < base:
            why = f"offsets {segment.next_offset} to {base - 1} are missing"
            recovery.damage.append(
                DamagedRange(segment.log_path, segment.size, segment.size, segment.next_offset, base, why)
            )
        elif segment.next_offset > base:
            why = f"offsets {base} to {segment.next_offset - 1} are in the next segment, too"
            recovery.damage.append(
                DamagedRange(segment.log_path, segment.size, segment.size, base, base, why)
            )
            segment.next_offset = base
