"""Checks every byte of a log's directory, and repairs it, while no broker has it open.

    examine    what is damaged in which file            reads everything, writes nothing
    repair     a log without the damage                 the damaged bytes are kept beside it

Checking does more than opening a log: it verifies all checksums and decodes all records.

Repairing rewrites each damaged segment.  Valid batches are copied unchanged.  Damaged ones are replaced by
an empty batch over the same offsets, as compaction leaves it, and their bytes are moved to
``<base>.damaged-<position>``.  A batch whose base offset alone is wrong, which no checksum covers, gets the
offset that the chain of batches implies.  Damaged derived files are removed and rebuilt by the next open.  As
in ``log/rewrite.py``, a crash leaves each segment in its old or its new form.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

import msgspec

from penstock.errors import InvalidBatch
from penstock.log.damage import DamagedRange
from penstock.log.files import TEMPORARY, File, Files
from penstock.log.index import decode_index, decode_index_head, decode_lanes
from penstock.log.recovery import START, begun_at, closed_as, is_room, scan_over, segment_bases, shortage
from penstock.log.scan import OFFSET_END, Scan
from penstock.log.segment import CUT, INDEX, LANES, REWRITE, Segment, unused_name
from penstock.wire.records import (
    HEADER_BYTES,
    SIZE_BEGIN,
    check_batch,
    decode_batch,
    leader_epoch_of,
    max_timestamp_of,
    place_batch,
    size_of,
)
from penstock.wire.rewriting import empty_batches

DAMAGED: Final = ".damaged-"  # Then the position that the bytes had in their segment.
COPY_BYTES: Final = 4 * 1024 * 1024
INDEX_BYTES: Final = 4096

Watch = Callable[[int], None]  # Called with the number of bytes read.


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not as it should be in a file."""

    path: str
    why: str
    position: int = 0
    end_position: int = 0
    first_offset: int = 0
    end_offset: int = 0
    derived: bool = False  # The next open rebuilds the file: nothing is lost.
    note: bool = False  # No damage, but worth knowing.

    @property
    def offsets(self) -> int:
        """How many offsets cannot be read."""
        return self.end_offset - self.first_offset


def _nobody(_: int) -> None:
    pass


def examine(files: Files, directory: str, watch: Watch = _nobody) -> Iterator[Finding]:
    """Everything that is damaged in a log's directory."""
    for check in _segment_checks(files, directory, watch):
        yield from check.findings()
        yield from _derived(check.segment)
    if begun_at(files, directory) is None:
        yield Finding(path=f"{directory}/{START}", why="the checksum does not match")
    for name in files.list(directory):
        if CUT in name and not name.endswith(TEMPORARY):
            why = "bytes that were cut off the end of a segment when it was opened; for you to look at"
            yield Finding(path=f"{directory}/{name}", why=why, note=True)


def _derived(segment: Segment) -> Iterator[Finding]:
    """Damage to the index and the lanes of a segment."""
    files = segment.files
    head = None
    if files.exists(segment.path + INDEX):
        data = files.read_file(segment.path + INDEX)
        head = decode_index_head(data)
        if decode_index(data) is None:
            yield Finding(path=segment.path + INDEX, why="the checksum does not match", derived=True)
    if files.exists(segment.path + LANES) and head is not None and head.lane_ranges:
        lanes = files.read_file(segment.path + LANES)
        if decode_lanes(lanes, segment.base_offset, head.segment_bytes) is None:
            yield Finding(path=segment.path + LANES, why="the checksum does not match", derived=True)


class SegmentCheck:
    """One segment, from its first byte to its last."""

    def __init__(self, segment: Segment, following: int, watch: Watch) -> None:
        self.segment = segment
        self.end = segment.base_offset  # The offset after its last record, once that is known.
        self.size = 0  # Where its last batch ends.
        self.damage: list[DamagedRange] = []
        self._following = following
        self._watch = watch

    def findings(self) -> Iterator[Finding]:
        """What is wrong with it."""
        segment = self.segment
        file = segment.opened()
        try:
            scan = Scan(segment.base_offset, INDEX_BYTES, 0)
            self.damage = scan_over(segment, file, scan, self._following, file.size)
            self.end, self.size = min(scan.next_offset, self._following), scan.position
            self.damage = sorted([*self.damage, *self._unreadable(file)], key=lambda found: found.position)
            found = list(self.damage)
            tail = self._tail(file, scan.why)
        finally:
            segment.release()
        yield from map(_finding, found)
        if tail is not None:
            yield tail

    def _unreadable(self, file: File) -> Iterator[DamagedRange]:
        """Batches with a right checksum whose records cannot be decoded."""
        position = 0
        ends = {found.position: found.end_position for found in self.damage}
        while position < self.size:
            position = ends.get(position, position)
            if position >= self.size:
                return
            data = file.read(position, SIZE_BEGIN)
            data = file.read(position, size_of(data))
            header = check_batch(data)
            try:
                decode_batch(data)
            except InvalidBatch as error:
                why = error.why
                yield DamagedRange(
                    self.segment.log_path, position, position + header.size, header.base_offset,
                    header.next_offset, why,
                )  # fmt: skip
            position += header.size
            self._watch(header.size)

    def _tail(self, file: File, why: str) -> Finding | None:
        """What lies behind the last valid batch."""
        segment, size = self.segment, file.size
        closed = closed_as(segment)
        closed_bytes = 0 if closed is None else closed.segment_bytes
        end = self._following
        if not segment.sealed:
            end = self.end if closed is None else closed.next_offset
        if self.end < end:  # Its last offsets were there once: it is no torn end.
            why = shortage(size, closed_bytes) or why or f"offsets {self.end} to {end - 1} are missing"
            last = DamagedRange(segment.log_path, self.size, size, self.end, end, why)
            self.damage.append(last)
            self.end = end
            return _finding(last)
        if segment.sealed or self.size >= size or is_room(file, self.size):
            return None  # What is behind a complete chain does not matter.
        why = f"the end is no valid batch ({why}): the next start cuts it off and keeps it"
        return Finding(path=segment.log_path, why=why, position=self.size, end_position=size, note=True)


def _segment_checks(files: Files, directory: str, watch: Watch) -> Iterator[SegmentCheck]:
    """A check for each segment; its ``findings`` are taken before the next one is asked for."""
    bases = segment_bases(files, directory)
    end = bases[0] if bases else 0
    for base, following in pairwise([*bases, OFFSET_END]):
        segment = Segment(files, directory, base)
        segment.sealed = following != OFFSET_END
        if segment.sealed and following <= end:
            continue  # Joined to the one before; the next open removes it.
        check = SegmentCheck(segment, following, watch)
        yield check
        end = check.end


def _finding(found: DamagedRange) -> Finding:
    return Finding(
        path=found.path, why=found.why, position=found.position, end_position=found.end_position,
        first_offset=found.first_offset, end_offset=found.end_offset,
    )  # fmt: skip


class Repaired(msgspec.Struct, frozen=True, kw_only=True):
    """What was done to a file."""

    path: str
    what: str
    lost: int = 0  # Offsets that cannot be read any more.


def repair(files: Files, directory: str) -> Iterator[Repaired]:
    """Leave out what is damaged in a log's directory, and keep it beside."""
    for check in _segment_checks(files, directory, _nobody):
        list(check.findings())
        if check.damage:
            yield from _rewrite(check.segment, check)
        for finding in list(_derived(check.segment)):
            files.remove(finding.path)
            yield Repaired(path=finding.path, what="removed; the next start makes it again")
    if begun_at(files, directory) is None:
        files.rename(f"{directory}/{START}", f"{directory}/{START}{DAMAGED}0")
        what = "moved aside: messages that were deleted by hand may be there again"
        yield Repaired(path=f"{directory}/{START}", what=what)
    files.sync_directory(directory)


def _drop_index(segment: Segment) -> None:
    segment.files.remove(segment.path + INDEX)
    segment.files.remove(segment.path + LANES)
    segment.files.sync_directory(segment.path.rpartition("/")[0])


def _rewrite(segment: Segment, check: SegmentCheck) -> Iterator[Repaired]:
    """Rewrite a segment without its damaged batches."""
    files = segment.files
    source = files.open(segment.log_path, create=False)
    target = files.open(segment.path + REWRITE, create=True)
    done: list[Repaired] = []
    try:
        target.truncate(0)
        position = timestamp = 0
        for found in check.damage:
            timestamp = max(timestamp, _copy(source, target, position, found.position))
            done.append(_leave_out(segment, source, target, found, timestamp))
            position = found.end_position
        _copy(source, target, position, source.size)  # A torn end too: the next open looks at it.
        target.sync()
    finally:
        source.close()
        target.close()
    _drop_index(segment)
    files.rename(segment.path + REWRITE, segment.log_path)
    files.sync_directory(segment.path.rpartition("/")[0])
    yield from done


def _leave_out(segment: Segment, source: File, target: File, found: DamagedRange, timestamp: int) -> Repaired:
    data = source.read(found.position, found.end_position - found.position)
    saved = _with_its_offset(data, found)
    if saved is not None:
        target.append((saved,))
        what = f"the batch at byte {found.position} has its offset {found.first_offset} again"
        return Repaired(path=segment.log_path, what=what)
    if found.offsets:
        target.append(empty_batches(found.first_offset, found.end_offset, timestamp))
    if not data:
        what = f"offsets {found.first_offset} to {found.end_offset - 1} are missing, and are now known to be"
        return Repaired(path=segment.log_path, what=what, lost=found.offsets)
    kept = unused_name(segment.files, f"{segment.path}{DAMAGED}{found.position}")
    segment.files.write_file(kept, data)
    what = f"{len(data)} damaged bytes at byte {found.position} were moved to {kept}"
    return Repaired(path=segment.log_path, what=what, lost=found.offsets)


def _with_its_offset(data: bytes, found: DamagedRange) -> bytearray | None:
    """The batch, if nothing but its base offset is wrong."""
    if len(data) < HEADER_BYTES:
        return None
    batch = bytearray(data)
    try:
        place_batch(batch, found.first_offset, leader_epoch_of(data))
        header = check_batch(bytes(batch))
        decode_batch(bytes(batch))
    except (InvalidBatch, ValueError, IndexError, OverflowError):
        return None
    return batch if header.size == len(batch) and header.next_offset == found.end_offset else None


def _copy(source: File, target: File, position: int, end: int) -> int:
    """Copy bytes; returns the newest time of the batches among them, if they are whole."""
    newest = 0
    at = position
    while at < end:
        head = source.read(at, HEADER_BYTES)
        if len(head) < HEADER_BYTES:
            break
        newest = max(newest, max_timestamp_of(head))
        at += size_of(head)
    while position < end:
        data = source.read(position, min(COPY_BYTES, end - position))
        if not data:
            break
        target.append((data,))
        position += len(data)
    return newest
