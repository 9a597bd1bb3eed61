"""One contract for every kind of files; then what only real ones, or only broken ones, can show."""

import errno
import os
import resource
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import cast

import pytest

from penstock.errors import DirectoryInUse, DirectoryUnusable, DiskFull, StorageFailed
from penstock.log.files import (
    BOOT_ID_PATH,
    PARTS_MAX,
    Files,
    MemoryFiles,
    SystemFile,
    SystemFiles,
    storage_error,
)
from penstock.testing.files import Crash, CrashDisk, Fault, FaultyFiles

# --- every kind ---------------------------------------------------------------------------------------------


@pytest.fixture(params=["system", "memory", "crash", "faulty"])
def files(request: pytest.FixtureRequest) -> Files:
    kinds: dict[str, Files] = {
        "system": SystemFiles(),
        "memory": MemoryFiles(),
        "crash": CrashDisk(),
        "faulty": FaultyFiles(MemoryFiles()),
    }
    return kinds[str(request.param)]


@pytest.fixture
def root(files: Files, tmp_path: Path) -> str:
    path = f"{tmp_path}/data"
    files.make_directory(path)
    return path


def test_what_is_appended_is_read_back(files: Files, root: str) -> None:
    file = files.open(f"{root}/a", create=True)

    file.append((b"one", bytearray(b"two"), memoryview(b"three")))
    file.append((b"four",))
    file.sync()

    assert file.size == 15
    assert file.read(0, 100) == b"onetwothreefour"
    assert file.read(3, 3) == b"two"
    assert file.read(15, 1) == b""
    file.close()
    file.close()
    assert files.open(f"{root}/a", create=False).size == 15
    assert files.read_file(f"{root}/a") == b"onetwothreefour"


@pytest.mark.parametrize("zeroed", [False, True])
def test_reserved_room_changes_nothing_that_is_read_or_appended(
    files: Files, root: str, zeroed: bool
) -> None:
    file = files.open(f"{root}/a", create=True)
    file.append((b"one",))

    file.reserve(10_000, zeroed=zeroed)
    file.append((b"two",))

    assert file.size == 6
    assert file.read(0, 100) == b"onetwo"
    assert file.read(6, 100) == file.read(7, 100) == b""
    file.close()
    assert files.read_file(f"{root}/a") == b"onetwo"


def test_a_truncated_file_grows_from_its_new_end(files: Files, root: str) -> None:
    file = files.open(f"{root}/a", create=True)
    file.append((b"0123456789",))

    file.truncate(4)
    file.append((b"ab",))

    assert file.size == 6
    assert file.read(0, 100) == b"0123ab"


def test_more_parts_than_the_kernel_takes_at_once_are_all_written(files: Files, root: str) -> None:
    file = files.open(f"{root}/a", create=True)
    parts = [b"%d," % number for number in range(PARTS_MAX * 2 + 5)]

    file.append(parts)

    assert file.read(0, file.size + 1) == b"".join(parts)


def test_a_file_that_is_not_there_cannot_be_opened_or_read(files: Files, root: str) -> None:
    with pytest.raises(StorageFailed):
        files.open(f"{root}/missing", create=False)
    with pytest.raises(StorageFailed):
        files.read_file(f"{root}/missing")
    with pytest.raises(StorageFailed):
        files.rename(f"{root}/missing", f"{root}/other")
    assert not files.exists(f"{root}/missing")


def test_names_are_listed_sorted_and_removed(files: Files, root: str) -> None:
    for name in ("b", "a", "c"):
        files.write_file(f"{root}/{name}", b"x")

    files.remove(f"{root}/b")
    files.remove(f"{root}/b")

    assert files.list(root) == ["a", "c"]
    assert files.exists(root)
    assert files.list(f"{root}/nowhere") == []


def test_a_rename_replaces_what_had_the_name(files: Files, root: str) -> None:
    files.write_file(f"{root}/a", b"new")
    files.write_file(f"{root}/b", b"old")

    files.rename(f"{root}/a", f"{root}/b")
    files.sync_directory(root)

    assert files.list(root) == ["b"]
    assert files.read_file(f"{root}/b") == b"new"


def test_a_written_file_is_replaced_as_a_whole(files: Files, root: str) -> None:
    files.write_file(f"{root}/a", b"a longer first text")
    files.write_file(f"{root}/a", b"second")

    assert files.read_file(f"{root}/a") == b"second"
    assert files.list(root) == ["a"]


def test_a_tree_is_removed_with_all_in_it(files: Files, root: str) -> None:
    files.make_directory(f"{root}/topic/0")
    files.write_file(f"{root}/topic/0/a", b"x")
    files.write_file(f"{root}/topics", b"x")

    files.remove_tree(f"{root}/topic")
    files.remove_tree(f"{root}/topic")

    assert files.list(root) == ["topics"]


def test_a_lock_is_held_by_one(files: Files, root: str) -> None:
    lock = files.lock(f"{root}/lock")

    with pytest.raises(DirectoryInUse) as caught:
        files.lock(f"{root}/lock")
    assert caught.value.facts == {"directory": root, "pid": str(os.getpid())}

    lock.release()
    lock.release()
    files.lock(f"{root}/lock").release()


# --- real ones ----------------------------------------------------------------------------------------------


@contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """No file may grow beyond ``size``: the kernel takes a part and refuses the rest, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("zeroed", [False, True])
def test_reserved_room_is_in_the_file_until_it_is_closed(tmp_path: Path, zeroed: bool) -> None:
    file = SystemFiles().open(f"{tmp_path}/a", create=True)
    file.append((b"before",))

    file.reserve(5000, zeroed=zeroed)
    file.append((b", after",))

    assert (tmp_path / "a").read_bytes() == b"before, after" + bytes(5000 - 13)
    file.close()
    assert (tmp_path / "a").read_bytes() == b"before, after"


@pytest.mark.parametrize("zeroed", [False, True])
def test_room_is_given_back_whichever_reservation_was_larger(tmp_path: Path, zeroed: bool) -> None:
    file = SystemFiles().open(f"{tmp_path}/a", create=True)

    file.reserve(10_000, zeroed=zeroed)
    file.reserve(5_000, zeroed=zeroed)
    file.append((b"x" * 6_000,))
    file.close()

    assert (tmp_path / "a").read_bytes() == b"x" * 6_000


@pytest.mark.parametrize("zeroed", [False, True])
def test_a_forked_copy_cuts_nothing_off_the_file_of_its_parent(tmp_path: Path, zeroed: bool) -> None:
    file = SystemFiles().open(f"{tmp_path}/a", create=True)
    file.append((b"before",))
    file.reserve(5000, zeroed=zeroed)
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.read(reading, 1)  # When the parent has gone on.
            file.close()
        finally:
            os._exit(0)
    file.append((b", after",))
    os.write(writing, b"x")
    os.waitpid(child, 0)
    file.append((b", and on",))
    os.close(reading)
    os.close(writing)

    assert file.read(0, 100) == b"before, after, and on"
    file.close()
    assert (tmp_path / "a").read_bytes() == b"before, after, and on"


@pytest.mark.parametrize("zeroed", [False, True])
def test_room_that_is_not_to_be_had_is_done_without(tmp_path: Path, zeroed: bool) -> None:
    file = SystemFiles().open(f"{tmp_path}/a", create=True)
    file.append((b"before",))

    with files_limited_to(1000):
        file.reserve(5000, zeroed=zeroed)
        file.append((b", after",))

    assert (tmp_path / "a").read_bytes() == b"before, after"


@pytest.mark.parametrize("parts", [(b"x" * 1500,), (b"x" * 700, b"y" * 800)], ids=["one part", "two parts"])
def test_an_append_that_fails_half_way_is_cut_back(tmp_path: Path, parts: tuple[bytes, ...]) -> None:
    file = SystemFiles().open(f"{tmp_path}/a", create=True)
    file.append((b"before",))

    with files_limited_to(1000), pytest.raises(StorageFailed):
        file.append(parts)

    assert file.size == 6
    assert (tmp_path / "a").read_bytes() == b"before"
    file.append((b" and after",))
    assert (tmp_path / "a").read_bytes() == b"before and after"


def test_a_full_disk_is_said_so_and_a_file_that_cannot_be_cut_back_has_failed() -> None:
    """/dev/full refuses every write for lack of room, and cannot be truncated either."""
    file = SystemFiles().open("/dev/full", create=False)
    with pytest.raises(StorageFailed, match="cutting the file back"):
        file.append((b"x",))


def test_lack_of_room_is_disk_full_and_all_else_is_storage_failed() -> None:
    kinds = [type(storage_error("p", OSError(number, "why"))) for number in (errno.ENOSPC, errno.EDQUOT)]
    assert kinds == [DiskFull, DiskFull]
    assert isinstance(storage_error("p", OSError(errno.EIO, "why")), StorageFailed)


def test_a_file_that_was_closed_fails_instead_of_touching_another(tmp_path: Path) -> None:
    file = SystemFiles().open(f"{tmp_path}/a", create=True)
    file.close()
    for call in (file.sync, lambda: file.append((b"x",)), lambda: file.read(0, 1), lambda: file.truncate(0)):
        with pytest.raises(StorageFailed):
            call()


def test_a_directory_that_cannot_be_made_or_locked_is_unusable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    files = SystemFiles()
    with pytest.raises(DirectoryUnusable):
        files.make_directory(f"{tmp_path}/file")
    with pytest.raises(DirectoryUnusable):
        files.make_directory(f"{tmp_path}/file/below")
    with pytest.raises(DirectoryUnusable):
        files.lock(f"{tmp_path}/nowhere/lock")
    with pytest.raises(StorageFailed):
        files.list(f"{tmp_path}/file")
    with pytest.raises(StorageFailed):
        files.sync_directory(f"{tmp_path}/nowhere")
    with pytest.raises(StorageFailed):
        files.remove(str(tmp_path))
    with pytest.raises(StorageFailed):
        files.remove_tree(f"{tmp_path}/file")


def test_directories_are_made_with_their_parents(tmp_path: Path) -> None:
    files = SystemFiles()
    files.make_directory(f"{tmp_path}/a/b/c")
    files.make_directory(f"{tmp_path}/a/b/c")
    assert files.exists(f"{tmp_path}/a/b/c")


def test_the_file_system_s_own_size_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    file = SystemFiles().open(f"{tmp_path}/a", create=True)
    assert isinstance(file, SystemFile)
    assert file.size == 5


# --- broken ones --------------------------------------------------------------------------------------------


def test_a_power_cut_keeps_what_was_synced_and_nothing_that_was_not_there() -> None:
    outcomes = set()
    for seed in range(50):
        disk = CrashDisk()
        file = disk.open("d/a", create=True)
        disk.sync_directory("d")
        file.append((b"s" * 100,))
        file.sync()
        file.append((b"u" * 200,))

        disk.power_cut(Random(seed))

        data = disk.read_file("d/a")
        assert data.startswith(b"s" * 100)
        assert set(data[100:]) <= set(b"u\0")
        outcomes.add(data)
    assert b"s" * 100 in outcomes
    assert b"s" * 100 + b"u" * 200 in outcomes
    assert len(outcomes) > 5


def test_a_power_cut_may_lose_names_until_the_directory_is_synced() -> None:
    outcomes = set()
    for seed in range(50):
        disk = CrashDisk()
        disk.open("d/old", create=True)
        disk.sync_directory("d")
        disk.open("d/new", create=True)
        disk.remove("d/old")
        disk.power_cut(Random(seed))
        outcomes.add(tuple(disk.list("d")))
    assert outcomes == {(), ("old",), ("new",), ("new", "old")}


def test_a_rename_happens_as_a_whole_or_not_at_all() -> None:
    outcomes = set()
    for seed in range(50):
        disk = CrashDisk()
        for name in ("a", "b"):
            file = disk.open(f"d/{name}", create=True)
            file.append((name.encode(),))
            file.sync()
        disk.sync_directory("d")
        disk.rename("d/a", "d/b")
        disk.power_cut(Random(seed))
        outcomes.add(tuple((name, disk.read_file(f"d/{name}")) for name in disk.list("d")))
    assert outcomes == {(("b", b"a"),), (("a", b"a"), ("b", b"b"))}


def test_an_unsynced_truncation_may_come_undone() -> None:
    outcomes = set()
    for seed in range(50):
        disk = CrashDisk()
        file = disk.open("d/a", create=True)
        disk.sync_directory("d")
        file.append((b"x" * 300,))
        file.sync()
        file.truncate(10)
        disk.power_cut(Random(seed))
        outcomes.add(len(disk.read_file("d/a")))
    assert {10, 300} < outcomes


def test_a_killed_process_loses_its_files_and_locks_but_no_bytes() -> None:
    disk = CrashDisk()
    file = disk.open("d/a", create=True)
    file.append((b"x",))
    disk.lock("d/lock")

    disk.kill()

    with pytest.raises(Crash):
        file.append((b"y",))
    assert disk.read_file("d/a") == b"x"
    disk.lock("d/lock").release()


def test_the_chosen_operation_fails_and_the_others_do_not() -> None:
    files = FaultyFiles(MemoryFiles(), at=3, fault=Fault.FULL)
    file = files.open("d/a", create=True)
    file.append((b"one",))

    with pytest.raises(DiskFull):
        file.append((b"two",))

    file.append((b"three",))
    assert file.read(0, 100) == b"onethree"
    assert files.operations == ["open d/a", "append d/a", "append d/a", "append d/a", "read d/a"]


def test_a_sync_without_room_has_failed() -> None:
    files = FaultyFiles(MemoryFiles())
    file = files.open("d/a", create=True)
    files.fail_next(Fault.FULL)
    with pytest.raises(StorageFailed):
        file.sync()
    file.sync()


def test_a_full_disk_refuses_what_needs_room_until_it_is_healed() -> None:
    files = FaultyFiles(MemoryFiles())
    file = files.open("d/a", create=True)
    files.fail_next(Fault.FULL, lasting=True)

    for _ in range(2):
        with pytest.raises(DiskFull):
            file.append((b"x",))
    assert file.read(0, 1) == b""
    file.sync()

    files.heal()
    file.append((b"x",))
    assert file.read(0, 10) == b"x"


def test_a_torn_append_leaves_half_and_then_nothing_works() -> None:
    inner = MemoryFiles()
    files = FaultyFiles(inner, at=2, fault=Fault.TEAR)
    file = files.open("d/a", create=True)

    with pytest.raises(Crash):
        file.append((b"12345678",))

    for call in (lambda: files.list("d"), lambda: files.exists("d"), file.sync):
        with pytest.raises(Crash):
            call()
    assert inner.read_file("d/a") == b"1234"


@pytest.mark.parametrize(("fault", "there"), [(Fault.BEFORE, True), (Fault.TEAR, True), (Fault.AFTER, False)])
def test_a_crash_comes_before_or_after_the_operation(fault: Fault, there: bool) -> None:
    inner = MemoryFiles()
    inner.write_file("d/a", b"x")
    with pytest.raises(Crash):
        FaultyFiles(inner, at=1, fault=fault).remove("d/a")
    assert inner.exists("d/a") is there


def test_an_append_that_is_stuck_has_written_half_of_it() -> None:
    inner = MemoryFiles()
    files = FaultyFiles(inner, at=2, fault=Fault.STUCK)
    file = files.open("d/a", create=True)
    with pytest.raises(StorageFailed):
        file.append((b"1234",))
    assert inner.read_file("d/a") == b"12"


# More files than may be open.


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_more_files_can_be_used_than_may_be_open_at_a_time(tmp_path: Path) -> None:
    before = descriptors()
    files = SystemFiles(open_max=4)
    opened = [files.open(f"{tmp_path}/{number}", create=True) for number in range(40)]

    for turn in range(3):
        for number, file in enumerate(opened):
            file.append((b"%d-%d " % (number, turn),))
            if turn:
                file.sync()
    read = [file.read(0, file.size) for file in opened]

    assert read == [b"".join(b"%d-%d " % (number, turn) for turn in range(3)) for number in range(40)]
    assert files.open_count <= 4
    assert descriptors() - before <= 4
    for file in opened:
        file.close()
    assert (files.open_count, descriptors()) == (0, before)


def test_a_file_that_is_used_again_and_again_stays_open(tmp_path: Path) -> None:
    files = SystemFiles(open_max=4)
    busy = files.open(f"{tmp_path}/busy", create=True)
    others = [files.open(f"{tmp_path}/{number}", create=True) for number in range(40)]
    kept = 0

    for other in others * 3:
        busy.append((b"x",))
        busy.sync()
        descriptor = busy._descriptor  # type: ignore[attr-defined]
        other.append((b"y",))
        kept += busy._descriptor == descriptor  # type: ignore[attr-defined]

    assert kept == 120


def test_room_that_was_reserved_is_given_back_by_a_file_that_is_closed_to_open_another(
    tmp_path: Path,
) -> None:
    files = SystemFiles(open_max=1)
    file = files.open(f"{tmp_path}/a", create=True)
    file.append((b"abc",))
    file.reserve(10_000, zeroed=True)

    for number in range(3):
        files.open(f"{tmp_path}/b{number}", create=True).append((b"x",))

    assert os.path.getsize(f"{tmp_path}/a") == 3
    file.append((b"def",))
    assert file.read(0, 10) == b"abcdef"


def test_a_sync_that_failed_when_a_file_was_closed_to_open_another_is_told_to_who_syncs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SystemFiles(open_max=1)
    file = files.open(f"{tmp_path}/a", create=True)
    file.append((b"abc",))

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr("penstock.log.files._sync_data", fail)
        for number in range(3):
            files.open(f"{tmp_path}/b{number}", create=True)

    with pytest.raises(StorageFailed, match="Input/output error"):
        file.sync()


@pytest.mark.slow
def test_threads_that_sync_never_meet_the_descriptor_of_another_file(tmp_path: Path) -> None:
    """One thread writes and has files opened and closed all the time, another one syncs them."""
    files = SystemFiles(open_max=3)
    opened = [files.open(f"{tmp_path}/{number}", create=True) for number in range(12)]
    random = Random(7)
    failures: list[BaseException] = []
    done = threading.Event()

    def sync() -> None:
        chooser = Random(8)
        try:
            while not done.is_set():
                chooser.choice(opened).sync()
        except BaseException as error:
            failures.append(error)
            raise

    thread = threading.Thread(target=sync)
    thread.start()
    written = [b""] * len(opened)
    for turn in range(3000):
        number = random.randrange(len(opened))
        piece = b"%d:%d " % (number, turn)
        opened[number].append((piece,))
        written[number] += piece
        if turn % 7 == 0:
            assert opened[number].read(0, 1 << 20) == written[number]
    done.set()
    thread.join()

    assert failures == []
    assert [Path(f"{tmp_path}/{number}").read_bytes() for number in range(12)] == written


@pytest.mark.skipif(not os.path.exists(BOOT_ID_PATH), reason="the system does not say when it started")
def test_a_directory_is_intact_if_the_machine_has_run_on_since_it_was_recovered(tmp_path: Path) -> None:
    path = f"{tmp_path}/LOCK"

    def intact(path: str, *, settle: bool = True) -> bool:
        files = SystemFiles()
        lock = files.lock(path)
        if settle:
            lock.settle()
        lock.release()
        return files.intact

    assert not intact(path, settle=False)  # It is new.
    assert not intact(path)  # Nobody has recovered it yet.
    assert intact(path, settle=False)
    assert intact(path)  # Who ended before it was recovered has changed nothing.
    shutil.copy(path, f"{tmp_path}/COPY")
    assert not intact(f"{tmp_path}/COPY")  # It may lack what was not synced.
    pid, _, place = (tmp_path / "LOCK").read_text().partition("\n")
    (tmp_path / "LOCK").write_text(f"{pid}\n0000{place[4:]}")
    assert not intact(path)  # The machine was started again.


def test_a_sync_to_a_file_that_was_deleted_fails(tmp_path: Path) -> None:
    file = SystemFiles().open(f"{tmp_path}/a", create=True)
    file.append((b"x",))
    file.sync()
    os.unlink(f"{tmp_path}/a")

    file.append((b"y",))
    with pytest.raises(StorageFailed, match="deleted"):
        file.sync()
    file.close()


def test_files_are_closed_for_others_if_the_system_has_no_descriptor_left(tmp_path: Path) -> None:
    files = SystemFiles(open_max=100)
    opened = [files.open(f"{tmp_path}/{number}", create=True) for number in range(8)]
    for file in opened:
        file.append((b"x",))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard[0], 512), hard[1]))
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))

        new = files.open(f"{tmp_path}/new", create=True)  # Closes one of the others ...
        files.sync_directory(str(tmp_path))
        for file in [*opened, new]:  # ... and all can be used.
            file.append((b"y",))
            file.sync()
            assert file.read(file.size - 1, 1) == b"y"
        assert files.open_count < 9
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, hard)
    for file in [*opened, new]:
        file.close()
    assert files.open_count == 0


def test_a_file_that_is_closed_while_another_is_opened_takes_no_place(tmp_path: Path) -> None:
    files = SystemFiles(open_max=2)
    closed = [files.open(f"{tmp_path}/{number}", create=True) for number in range(2)]
    for file in closed:
        file.close()
        files._opened.files[cast("SystemFile", file)] = None  # As by a thread that was just looking at it.

    opened = [files.open(f"{tmp_path}/{number}", create=True) for number in range(2, 9)]

    assert files.open_count == 2
    for file in opened:
        file.close()
    assert files.open_count == 0
