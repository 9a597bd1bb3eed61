"""A log whose files are a cache: what a commit round takes from it, and what makes its bytes durable."""

import pytest
from tests.logs import SMALL, publish, rewritten, values_of

from penstock.errors import OffsetOutOfRange, StorageFailed
from penstock.log.commit import GroupCommit
from penstock.log.files import MemoryFiles
from penstock.log.log import Log, LogConfig, LogSlice
from penstock.model.histogram import Histogram
from penstock.wire.records import leader_epoch_of

BYTES_MAX = 1 << 20


def cached_log(config: LogConfig = SMALL, base: int = 0) -> Log:
    files = MemoryFiles()
    files.cache = True
    return Log.open(files, "d", config, base)


class StoreRound:
    """Writes slices into a list; the real one writes one object with all of them."""

    local = False

    def __init__(self) -> None:
        self.sync_us = Histogram((1,))
        self.entries: list[list[tuple[Log, LogSlice]]] = []

    def commit(self, logs: list[Log]) -> None:
        taken = [(log, log.take_slice(BYTES_MAX)) for log in logs]
        entry = [(log, piece) for log, piece in taken if piece is not None]
        self.entries.append(entry)
        for log, piece in entry:
            log.confirm(piece.written, piece.end)


def test_a_sync_makes_nothing_durable_but_asks_for_a_round() -> None:
    log = cached_log()
    asked: list[Log] = []
    log.on_sync = asked.append
    publish(log, b"a")

    log.sync()

    assert (log.durable, log.high, asked) == (0, 0, [log])


def test_rolling_and_closing_make_nothing_durable() -> None:
    log = cached_log()
    publish(log, b"a")

    log.roll()
    publish(log, b"b")
    log.close()

    assert (log.durable, log.high) == (0, 0)


def test_a_slice_has_what_was_appended_since_the_last_one() -> None:
    log = cached_log()
    assert log.take_slice(BYTES_MAX) is None
    publish(log, b"a", b"b")
    first = log.take_slice(BYTES_MAX)
    publish(log, b"c")
    second = log.take_slice(BYTES_MAX)

    assert first is not None
    assert second is not None
    assert (first.start, first.end, second.start, second.end) == (0, 2, 2, 3)
    assert (first.written, second.written) == (len(first.data), log.written)
    assert log.take_slice(BYTES_MAX) is None


def test_slices_are_bounded_and_go_on_across_segments() -> None:
    log = cached_log()
    for number in range(40):
        publish(log, b"%d" % number)
    assert log.segment_count > 3

    taken = [piece for _ in range(100) if (piece := log.take_slice(300)) is not None]

    assert max(len(piece.data) for piece in taken) <= 300
    assert [piece.start for piece in taken] == [0, *(piece.end for piece in taken[:-1])]
    assert taken[-1].written == log.written
    assert sum(len(piece.data) for piece in taken) == log.written


def test_one_batch_is_taken_however_large() -> None:
    log = cached_log()
    publish(log, b"x" * 400)

    taken = log.take_slice(1)

    assert taken is not None
    assert taken.end == 1


def test_confirming_makes_a_slice_durable_and_visible() -> None:
    log = cached_log()
    publish(log, b"a")
    taken = log.take_slice(BYTES_MAX)
    publish(log, b"b")
    assert taken is not None

    log.confirm(taken.written, taken.end)

    assert (log.durable, log.high, log.end) == (taken.written, 1, 2)


def test_what_is_rejected_is_an_error_for_those_who_wait_and_append() -> None:
    log = cached_log()
    publish(log, b"a")
    gone = StorageFailed(path="d", why="sealed")

    log.reject(gone)

    with pytest.raises(StorageFailed):
        publish(log, b"b")
    with pytest.raises(StorageFailed):
        GroupCommit(StoreRound()).wait(log, log.written)


def test_nothing_is_deleted_or_rewritten_before_it_was_taken() -> None:
    log = cached_log()
    for number in range(40):
        publish(log, b"%d" % number)

    assert log.delete_before(40) == 0
    assert rewritten(log, lambda _: False, 40).segments == 0

    taken = log.take_slice(BYTES_MAX)
    assert taken is not None
    assert log.delete_before(40) > 0


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_slices_appended_elsewhere_make_the_same_log(durability: str) -> None:
    config = LogConfig(segment_bytes=500, durability="fsync" if durability == "fsync" else "os")
    log = cached_log(config, base=7)
    log.leader_epoch = 3
    pieces: list[LogSlice] = []
    for number in range(20):
        publish(log, b"%d" % number, b"x")
        if number % 3 == 0:
            piece = log.take_slice(BYTES_MAX)
            assert piece is not None
            pieces.append(piece)

    other = cached_log(config, base=7)
    for piece in pieces:
        other.append_slice(piece.data)
        other.append_slice(piece.data)  # A repeat does no harm.
    other.confirm(other.written, other.end)

    end = pieces[-1].end
    log.confirm(pieces[-1].written, end)
    assert (other.end, other.high) == (end, end)
    assert values_of(other, 7) == values_of(log, 7, end)
    assert leader_epoch_of(other.read(7, 1000)) == 3


def test_a_slice_behind_a_gap_is_refused() -> None:
    log = cached_log()
    publish(log, b"a")
    log.take_slice(BYTES_MAX)
    publish(log, b"b")
    second = log.take_slice(BYTES_MAX)
    assert second is not None

    with pytest.raises(OffsetOutOfRange):
        cached_log().append_slice(second.data)


def test_after_a_cut_slices_go_on_from_there() -> None:
    log = cached_log()
    publish(log, b"a")
    publish(log, b"b")
    log.cut(1)
    publish(log, b"c")

    taken = log.take_slice(BYTES_MAX)

    assert taken is not None
    assert (taken.start, taken.end, taken.written) == (1, 2, log.written)


def test_logs_in_memory_are_synced_as_ever() -> None:
    log = cached_log(LogConfig(durability="memory"))
    publish(log, b"a")

    log.sync()

    assert log.durable == log.written


def test_a_round_of_another_kind_gets_every_marked_log_and_is_not_run_on_the_loop() -> None:
    store = StoreRound()
    commit = GroupCommit(store)
    logs = [cached_log() for _ in range(100)]
    for log in logs:
        publish(log, b"a")
        commit.mark(log)

    assert not commit.sync_here(1000, 1 << 30)
    commit.wait(logs[0], logs[0].written)

    assert [len(entry) for entry in store.entries] == [100]
    assert all(log.durable == log.written for log in logs)
