"""A log whose old segments are elsewhere: evicted, missing, damaged, and opened without them."""

import pytest
from tests.logs import SMALL, compacted, publish, values_of

from penstock.errors import NotCached, PenstockError
from penstock.log.archive import FetchedSegment
from penstock.log.files import MemoryFiles
from penstock.log.log import Log
from penstock.log.segment import LOG, segment_name


class DictArchive:
    """Has copies of files, and puts them back when it is told to."""

    def __init__(self, files: MemoryFiles) -> None:
        self.copies: dict[str, bytes] = {}
        self.lost_paths: list[str] = []
        self._files = files

    def has(self, path: str) -> bool:
        return path in self.copies

    def is_cached(self, path: str) -> bool:
        return self._files.exists(path)

    def fetching(self, path: str) -> FetchedSegment | None:
        return FetchedSegment() if self.has(path) and not self._files.exists(path) else None

    def require(self, path: str) -> None:
        if self.fetching(path) is not None:
            raise NotCached(path=path)

    def damaged(self, path: str) -> PenstockError | None:
        if self._files.read_file(path) == self.copies.get(path):
            return None
        self._files.remove(path)
        return NotCached(path=path)

    def lost(self, path: str) -> None:
        self.lost_paths.append(path)

    def forget(self, path: str) -> None:
        self.copies.pop(path, None)

    def put_back(self) -> None:
        for path, data in self.copies.items():
            self._files.write_file(path, data)


class ArchivedLog:
    """Ten segments of one message each, all but the last of them in an archive."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.files.cache = True
        self.archive = self.files.archive = DictArchive(self.files)
        self.log = Log.open(self.files, "d", SMALL)
        for number in range(10):
            publish(self.log, b"%d" % number)
            self.log.roll()
        piece = self.log.take_slice(1 << 20)
        assert piece is not None
        self.log.confirm(piece.written, piece.end)
        for segment in self.log.segments()[:-1]:
            data = self.log.copy(segment.base_offset, 0, segment.bytes)
            assert data is not None
            self.archive.copies[self.path(segment.base_offset)] = data

    def path(self, base: int) -> str:
        return f"d/{segment_name(base)}{LOG}"

    def evict_all(self) -> None:
        for base in range(10):
            self.log.evict(base)


EVERYTHING = [b"%d" % number for number in range(10)]


def test_an_evicted_segment_is_read_when_it_is_back() -> None:
    each = ArchivedLog()
    each.evict_all()

    with pytest.raises(NotCached):
        each.log.records(3, 4)
    with pytest.raises(NotCached):
        each.log.fetch(3, 1000)
    assert each.log.fetching(3) is not None
    assert each.log.fetching(10) is None
    each.archive.put_back()

    assert each.log.fetching(3) is None
    assert values_of(each.log) == EVERYTHING


def test_a_log_is_opened_without_its_old_segments() -> None:
    each = ArchivedLog()
    each.evict_all()
    each.log.close()

    opened = Log.open(each.files, "d", SMALL)

    assert [segment.next_offset for segment in opened.segments()] == [*range(1, 11), 10]
    assert opened.recovery.damage == []
    with pytest.raises(NotCached):
        opened.records(0, 1)
    each.archive.put_back()
    assert values_of(opened) == EVERYTHING


def test_a_segment_without_its_index_is_needed_to_open() -> None:
    each = ArchivedLog()
    each.evict_all()
    each.log.close()
    each.files.write_file(each.path(4).replace(LOG, ".index"), b"torn")

    with pytest.raises(NotCached):
        Log.open(each.files, "d", SMALL)
    each.archive.put_back()

    assert values_of(Log.open(each.files, "d", SMALL)) == EVERYTHING


@pytest.mark.parametrize("at", [4, 20, 65])
def test_a_damaged_segment_is_fetched_again(at: int) -> None:
    each = ArchivedLog()
    each.log._drop(each.log._segments[5])
    each.files._contents[each.path(5)][at] ^= 1
    each.log._segments[5].stored = 1 << 20  # As after a restart: nothing is known of its bytes.

    with pytest.raises(NotCached):
        each.log.records(5, 6)
    each.archive.put_back()

    assert values_of(each.log) == EVERYTHING
    assert each.log.damage.ranges == []


def test_damage_that_the_archive_has_too_is_left_out() -> None:
    each = ArchivedLog()
    each.log._drop(each.log._segments[5])
    each.files._contents[each.path(5)][65] ^= 1
    each.archive.copies[each.path(5)] = bytes(each.files._contents[each.path(5)])

    assert values_of(each.log) == EVERYTHING[:5] + EVERYTHING[6:]


def test_a_lost_file_that_nobody_has_is_reported() -> None:
    each = ArchivedLog()
    each.archive.forget(each.path(2))
    each.log.evict(2)

    with pytest.raises(NotCached):
        each.log.records(2, 3)

    assert each.archive.lost_paths == [each.path(2)]


def test_deleting_needs_no_segments_and_is_told_to_the_archive() -> None:
    each = ArchivedLog()
    each.evict_all()

    each.log.delete_before(6)

    assert sorted(each.archive.copies) == [each.path(base) for base in range(6, 10)]
    assert each.log.start == 6


def test_compaction_waits_for_segments() -> None:
    each = ArchivedLog()
    each.evict_all()
    steps = each.log.rewrite(lambda record: record.offset % 2 == 0, 10)

    assert isinstance(next(steps), FetchedSegment)
    each.archive.put_back()
    for missing in steps:
        assert missing is None

    assert values_of(each.log) == EVERYTHING[::2]
    assert each.archive.copies == {}
    compacted(each.log, 0, 0)


def test_use_is_noted_until_it_is_forgotten() -> None:
    each = ArchivedLog()
    each.log.forget_use()

    each.log.records(4, 5)

    assert [segment.base_offset for segment in each.log.segments() if segment.used] == [4]
