"""Group commit: who syncs, who waits, who hears of it."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from penstock.errors import Closed, StorageFailed
from penstock.log.commit import LATER_NS, ROUND_NEWEST_MAX, ROUND_NS, ROUND_OLDEST_MAX, GroupCommit
from penstock.log.files import MemoryFile, MemoryFiles
from penstock.log.log import Log, LogConfig
from penstock.testing.files import Fault, FaultyFiles
from penstock.wire.records import encode_values

PATIENCE_S = 60  # Far beyond what any of these takes; a test that waits so long has failed.


class GatedFile(MemoryFile):
    """A file whose sync takes as long as the test likes."""

    __slots__ = ("_files",)

    def __init__(self, files: "GatedFiles", data: bytearray) -> None:
        super().__init__(data)
        self._files = files

    def sync(self) -> None:
        self._files.threads.append(threading.current_thread().name)
        self._files.entered.release()
        assert self._files.gate.acquire(timeout=PATIENCE_S)
        if self._files.interrupts:
            self._files.interrupts -= 1
            raise KeyboardInterrupt


class GatedFiles(MemoryFiles):
    """Each sync passes ``gate`` once, and says so at ``entered`` before."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)
        self.threads: list[str] = []
        self.interrupts = 0  # So many syncs are interrupted.

    def open(self, path: str, *, create: bool) -> GatedFile:
        return GatedFile(self, self._contents.setdefault(path, bytearray()))


def publish(log: Log, commit: GroupCommit) -> int:
    log.append(encode_values([b"x"], 1000))
    commit.mark(log)
    return log.written


def test_the_first_waiter_syncs_in_its_own_thread() -> None:
    files = GatedFiles()
    files.gate.release()
    log = Log.open(files, "d", LogConfig())
    commit = GroupCommit()
    heard: list[str] = []
    commit.listeners.append(lambda: heard.append(threading.current_thread().name))

    commit.wait(log, publish(log, commit))

    assert (log.durable, log.high) == (log.written, 1)
    assert files.threads == heard == [threading.current_thread().name]


def test_those_who_come_during_a_sync_share_the_next_one() -> None:
    files = GatedFiles()
    log = Log.open(files, "d", LogConfig())
    commit = GroupCommit()
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(commit.wait, log, publish(log, commit))
        assert files.entered.acquire(timeout=PATIENCE_S)
        others = [pool.submit(commit.wait, log, publish(log, commit)) for _ in range(5)]

        files.gate.release()
        first.result(PATIENCE_S)
        assert files.entered.acquire(timeout=PATIENCE_S)
        assert log.high == 1
        files.gate.release()
        for other in others:
            other.result(PATIENCE_S)

    assert log.high == 6
    assert len(files.threads) == 2


def test_what_is_appended_during_a_sync_is_not_durable_by_it() -> None:
    files = GatedFiles()
    log = Log.open(files, "d", LogConfig())
    commit = GroupCommit()
    with ThreadPoolExecutor(1) as pool:
        written = publish(log, commit)
        waiter = pool.submit(commit.wait, log, written)
        assert files.entered.acquire(timeout=PATIENCE_S)
        publish(log, commit)
        files.gate.release()
        waiter.result(PATIENCE_S)

    assert (log.durable, log.high, log.end) == (written, 1, 2)


def test_waiting_for_what_is_durable_costs_no_sync() -> None:
    files = GatedFiles()
    files.gate.release()
    log = Log.open(files, "d", LogConfig())
    commit = GroupCommit()
    written = publish(log, commit)
    commit.wait(log, written)

    commit.wait(log, written)

    assert len(files.threads) == 1


def test_a_round_covers_every_marked_log() -> None:
    files = MemoryFiles()
    logs = [Log.open(files, f"d{number}", LogConfig()) for number in range(3)]
    commit = GroupCommit()
    written = [publish(log, commit) for log in logs]

    commit.wait(logs[1], written[1])

    assert [log.high for log in logs] == [1, 1, 1]


def test_a_kick_makes_the_disk_thread_sync_and_the_listeners_hear_of_it() -> None:
    files = GatedFiles()
    log = Log.open(files, "d", LogConfig())
    commit = GroupCommit()
    heard = threading.Semaphore(0)
    commit.listeners.append(heard.release)

    publish(log, commit)
    commit.kick()
    assert files.entered.acquire(timeout=PATIENCE_S)
    publish(log, commit)
    commit.kick()
    files.gate.release()
    assert heard.acquire(timeout=PATIENCE_S)
    files.gate.release()
    assert heard.acquire(timeout=PATIENCE_S)

    assert log.high == 2
    assert files.threads == ["penstock-disk", "penstock-disk"]
    commit.close()


def test_a_kick_with_nothing_marked_does_nothing() -> None:
    commit = GroupCommit()
    commit.kick()
    commit.close()
    commit.close()


def test_closing_ends_the_thread_after_the_rounds_it_was_asked_for() -> None:
    before = set(threading.enumerate())  # Others' brokers may be open in this process.
    log = Log.open(MemoryFiles(), "d", LogConfig())
    commit = GroupCommit()
    publish(log, commit)
    commit.kick()
    assert [thread.name for thread in set(threading.enumerate()) - before] == ["penstock-disk"]

    commit.close()

    assert log.high == 1
    assert set(threading.enumerate()) <= before


def test_what_is_forgotten_keeps_the_disk_thread_no_longer_than_one_sync() -> None:
    files = GatedFiles()
    logs = [Log.open(files, f"d{number}", LogConfig()) for number in range(100)]
    commit = GroupCommit(time_ns=count(0, 1 << 40).__next__)  # Each sync takes all the time of a round.
    for log in logs:
        publish(log, commit)
    commit.kick()
    assert files.entered.acquire(timeout=PATIENCE_S)

    commit.forget()
    files.gate.release()
    commit.close()

    assert len(files.threads) == 1
    assert sum(log.durable == log.written for log in logs) == 1


def test_a_waiter_and_the_disk_thread_take_turns() -> None:
    files = GatedFiles()
    log = Log.open(files, "d", LogConfig())
    commit = GroupCommit()
    with ThreadPoolExecutor(1) as pool:
        waiter = pool.submit(commit.wait, log, publish(log, commit))
        assert files.entered.acquire(timeout=PATIENCE_S)
        publish(log, commit)
        commit.kick()
        assert not files.entered.acquire(blocking=False)
        files.gate.release()
        waiter.result(PATIENCE_S)
        assert files.entered.acquire(timeout=PATIENCE_S)
        files.gate.release()
        commit.close()
    assert log.high == 2


def test_a_failed_sync_is_raised_by_all_who_wait_for_that_log_and_by_nobody_else() -> None:
    broken = FaultyFiles(MemoryFiles())
    bad = Log.open(broken, "d", LogConfig())
    good = Log.open(MemoryFiles(), "d", LogConfig())
    commit = GroupCommit()
    bad_written = publish(bad, commit)
    good_written = publish(good, commit)
    broken.fail_next(Fault.FAIL)

    commit.wait(good, good_written)
    for _ in range(2):
        with pytest.raises(StorageFailed):
            commit.wait(bad, bad_written)

    assert (bad.high, good.high) == (0, 1)
    with pytest.raises(StorageFailed):
        publish(bad, commit)


def test_a_roll_during_a_sync_waits_for_it_and_both_are_right() -> None:
    files = GatedFiles()
    log = Log.open(files, "d", LogConfig())
    log.append(encode_values([b"x"], 1000))
    with ThreadPoolExecutor(2) as pool:
        syncing = pool.submit(log.sync)
        assert files.entered.acquire(timeout=PATIENCE_S)
        rolling = pool.submit(log.roll)
        files.gate.release()
        syncing.result(PATIENCE_S)
        rolling.result(PATIENCE_S)  # Everything was durable: it needs no sync of its own.
    log.append(encode_values([b"y"], 1000))

    assert (log.high, log.end) == (1, 2)
    assert [segment.sealed for segment in log.segments()] == [True, False]
    files.gate.release()
    log.sync()
    assert log.high == 2


def test_many_threads_each_see_their_own_records_durable() -> None:
    """No choreography: whatever the scheduler does, a waiter returns only when its bytes are durable."""
    log = Log.open(MemoryFiles(), "d", LogConfig(segment_bytes=2000))
    commit = GroupCommit()
    lock = threading.Lock()

    def work(wait: Callable[[Log, int], None]) -> None:
        for _ in range(200):
            with lock:
                written = publish(log, commit)
                end = log.end
            wait(log, written)
            assert log.durable >= written
            assert log.high >= end

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, commit.wait) for _ in range(4)]:
            done.result(PATIENCE_S)
    assert log.high == log.end == 800


def test_a_waiter_that_is_interrupted_lets_the_others_go_on() -> None:
    """Ctrl-C while it syncs, as leader: the next one in the queue leads."""
    files = GatedFiles()
    files.interrupts = 1
    log = Log.open(files, "d", LogConfig())
    commit = GroupCommit()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(commit.wait, log, publish(log, commit))
        assert files.entered.acquire(timeout=PATIENCE_S)
        second = pool.submit(commit.wait, log, publish(log, commit))
        files.gate.release(2)
        with pytest.raises(KeyboardInterrupt):
            first.result(PATIENCE_S)
        second.result(PATIENCE_S)
    assert log.high == 2


def test_waiting_for_a_log_that_nobody_marked_syncs_it() -> None:
    log = Log.open(MemoryFiles(), "d", LogConfig())
    log.append(encode_values([b"x"], 1000))
    GroupCommit().wait(log, log.written)
    assert log.high == 1


def test_who_waits_for_a_log_that_is_abandoned_is_told() -> None:
    files = GatedFiles()
    busy = Log.open(files, "busy", LogConfig())
    log = Log.open(MemoryFiles(), "d", LogConfig())
    commit = GroupCommit()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(commit.wait, busy, publish(busy, commit))
        assert files.entered.acquire(timeout=PATIENCE_S)
        second = pool.submit(commit.wait, log, publish(log, commit))
        log.abandon()
        files.gate.release()
        first.result(PATIENCE_S)
        with pytest.raises(Closed):
            second.result(PATIENCE_S)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_listener_that_raises_does_not_stop_the_disk_thread_for_good() -> None:
    log = Log.open(MemoryFiles(), "d", LogConfig())
    commit = GroupCommit()
    raised = threading.Event()

    def fail() -> None:
        raised.set()
        raise ValueError

    commit.listeners.append(fail)
    publish(log, commit)
    commit.kick()
    thread = commit._disk_thread
    assert raised.wait(PATIENCE_S)
    if thread is not None:
        thread.join(PATIENCE_S)
    commit.listeners.clear()
    publish(log, commit)
    commit.kick()
    commit.close()
    assert log.high == 2


def test_a_loop_syncs_a_little_in_place() -> None:
    files = GatedFiles()
    files.gate.release()
    log = Log.open(files, "d", LogConfig())
    commit = GroupCommit()
    heard: list[bool] = []
    commit.listeners.append(lambda: heard.append(True))
    written = publish(log, commit)

    assert commit.sync_here(1, 1000)

    assert log.durable == written
    assert files.threads == [threading.current_thread().name]
    assert heard == []


@pytest.mark.parametrize(("logs_max", "bytes_max"), [(1, 10_000), (2, 100)])
def test_a_loop_does_not_sync_much_in_place(logs_max: int, bytes_max: int) -> None:
    logs = [Log.open(GatedFiles(), name, LogConfig()) for name in ("a", "b")]
    commit = GroupCommit()
    for log in logs:
        publish(log, commit)

    assert not commit.sync_here(logs_max, bytes_max)

    assert [log.durable for log in logs] == [0, 0]


def test_a_loop_does_not_wait_for_a_round_of_another() -> None:
    files = GatedFiles()
    log = Log.open(files, "d", LogConfig())
    commit = GroupCommit()
    written = publish(log, commit)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(commit.wait, log, written)
        assert files.entered.acquire(timeout=PATIENCE_S)
        publish(log, commit)

        assert not commit.sync_here(1, 10_000)

        files.gate.release()
        waiting.result(PATIENCE_S)
    files.gate.release()
    assert commit.sync_here(1, 10_000)
    assert log.durable == log.written


def test_a_publish_does_not_wait_for_thousands_of_other_logs() -> None:
    files = MemoryFiles()
    commit = GroupCommit(time_ns=lambda: 0)
    crowd = [Log.open(files, f"crowd-{number}", LogConfig()) for number in range(1000)]
    for log in crowd:
        publish(log, commit)
    lone = Log.open(files, "lone", LogConfig())

    commit.wait(lone, publish(lone, commit))

    synced = [number for number, log in enumerate(crowd) if log.durable == log.written]
    assert len(synced) < ROUND_NEWEST_MAX + ROUND_OLDEST_MAX
    assert synced[:ROUND_OLDEST_MAX] == list(range(ROUND_OLDEST_MAX))  # The oldest marks get their turn, too.


def test_a_kick_syncs_every_marked_log_in_bounded_rounds() -> None:
    commit = GroupCommit(time_ns=lambda: 0)
    rounds: list[int] = []
    logs = [Log.open(MemoryFiles(), "d", LogConfig()) for _ in range(200)]
    for log in logs:
        publish(log, commit)
    done = threading.Event()

    def note() -> None:
        rounds.append(sum(log.durable == log.written for log in logs))
        if rounds[-1] == len(logs):
            done.set()

    commit.listeners.append(note)
    commit.kick()

    assert done.wait(PATIENCE_S)
    commit.close()
    assert rounds == [64, 128, 192, 200]


def test_a_round_of_a_slow_disk_ends_in_time_with_those_that_came_last_and_first() -> None:
    ticks = count(0, ROUND_NS // 2)
    commit = GroupCommit(time_ns=lambda: next(ticks))
    logs = [Log.open(MemoryFiles(), "d", LogConfig()) for _ in range(20)]
    for log in logs[:-1]:
        publish(log, commit)

    commit.wait(logs[-1], publish(logs[-1], commit))

    assert [number for number, log in enumerate(logs) if log.durable] == [0, 18, 19]


def test_logs_that_nobody_waits_for_come_last_and_come() -> None:
    ticks = count(0, LATER_NS)
    commit = GroupCommit(time_ns=lambda: next(ticks))
    logs = [Log.open(MemoryFiles(), "d", LogConfig()) for _ in range(10)]
    for log in logs[:5]:
        log.append(encode_values([b"x"], 1000))
        commit.mark_later(log)
    for log in logs[5:9]:
        publish(log, commit)
        commit.defer(log)

    commit.wait(logs[9], publish(logs[9], commit))

    assert [number for number, log in enumerate(logs) if log.durable] == [0, 1, 9]
    assert not commit.sync_here(10, 10_000)  # An event loop leaves them to the disk thread.
    commit.kick()
    commit.close()
    assert all(log.durable == log.written for log in logs)
