"""Files that misbehave on purpose, for tests of whatever must survive it.

    FaultyFiles(inner, at=7, fault=Fault.TEAR)    the 7th file operation goes wrong
    CrashDisk()                                   a disk in memory that can lose power

``FaultyFiles`` wraps any ``Files``.  Run a workload once without a fault to
see how many operations it makes, then once for every operation and every
fault, and look at what is left:

    FULL           no room; the operation did nothing (``DiskFull``; a sync: ``StorageFailed``)
    FAIL           an input/output error; the operation did nothing (``StorageFailed``)
    STUCK          an append fails half-way and cannot be cut back; other operations: as FAIL
    TEAR           half of an append reaches the file and the process is gone; other operations: as BEFORE
    BEFORE, AFTER  the process is gone before, or after, the operation

When the process is gone, that call and every later one raise ``Crash``.

``CrashDisk`` knows which bytes were synced and which names were synced.
``power_cut`` keeps those, and of the rest what a seeded ``Random`` likes:
none, all, the beginning, or some blocks and zeros between; some of the
creations, removals and renames.  It is harsher than a file system with a
journal.  ``kill`` ends the process only: everything written stays.
"""

import os
from collections.abc import Callable, Sequence
from enum import Enum, auto
from random import Random
from typing import Final, TypeVar

from penstock.errors import DirectoryInUse, DiskFull, StorageFailed
from penstock.log.archive import SegmentArchive
from penstock.log.files import File, Files, Lock, Part, replace_file

T = TypeVar("T")

BLOCK_BYTES: Final = 64  # What a power cut keeps or loses as one; small, so that small tests have many.
NEEDS_ROOM: Final = frozenset({"append", "make_directory"})


class Crash(Exception):  # noqa: N818 - it is an event, and nothing may handle it as an error
    """The process is gone; a test raises it where a real one would end."""


class Fault(Enum):
    """A fault; see the top of the module."""

    FULL = auto()
    FAIL = auto()
    STUCK = auto()
    TEAR = auto()
    BEFORE = auto()
    AFTER = auto()


class FaultyFiles:
    """Any ``Files``, of which operation number ``at`` (counted from 1) goes wrong; 0: none does."""

    def __init__(
        self, inner: Files, *, at: int = 0, fault: Fault = Fault.FAIL, lasting: bool = False
    ) -> None:
        self.inner = inner
        self.operations: list[str] = []  # What was done so far, such as "append orders/0.log".
        self.crashed = False
        self._at = at
        self._fault = fault
        self._lasting = (
            lasting  # All later operations go wrong too, until ``heal``; FULL: those that need room.
        )

    @property
    def intact(self) -> bool:
        return self.inner.intact

    @intact.setter
    def intact(self, intact: bool) -> None:
        self.inner.intact = intact

    @property
    def cache(self) -> bool:
        return self.inner.cache

    @cache.setter
    def cache(self, cache: bool) -> None:
        self.inner.cache = cache

    @property
    def archive(self) -> SegmentArchive | None:
        return self.inner.archive

    @archive.setter
    def archive(self, archive: SegmentArchive | None) -> None:
        self.inner.archive = archive

    @property
    def ensured(self) -> set[str] | None:
        return self.inner.ensured

    @ensured.setter
    def ensured(self, ensured: set[str] | None) -> None:
        self.inner.ensured = ensured

    def heal(self) -> None:
        """Let all further operations succeed (not after a crash)."""
        self._at = 0

    def fail_next(self, fault: Fault, *, lasting: bool = False) -> None:
        """Let the next operation go wrong."""
        self._at = len(self.operations) + 1
        self._fault = fault
        self._lasting = lasting

    def perform(
        self, name: str, path: str, action: Callable[[], T], tear: Callable[[], None] | None = None
    ) -> T:
        """Do ``action``, unless it is its turn to go wrong; ``tear`` does half of it."""
        if self.crashed:
            raise Crash
        self.operations.append(f"{name} {path}")
        if not self._goes_wrong(name):
            return action()
        fault = self._fault
        if fault is Fault.FULL and name != "sync":
            raise DiskFull(path=path)
        if tear is not None and fault in (Fault.STUCK, Fault.TEAR):
            tear()
        if fault in (Fault.FULL, Fault.FAIL, Fault.STUCK):
            raise StorageFailed(path=path, why=f"{name} was made to fail")
        if fault is Fault.AFTER:
            action()
        self.crashed = True
        raise Crash(f"{name} {path}")

    def _goes_wrong(self, name: str) -> bool:
        number = len(self.operations)
        if not self._lasting:
            return number == self._at
        # A full disk stays full, but only for what needs room.
        return 0 < self._at <= number and (self._fault is not Fault.FULL or name in NEEDS_ROOM)

    def open(self, path: str, *, create: bool) -> File:
        file = self.perform("open", path, lambda: self.inner.open(path, create=create))
        return FaultyFile(self, path, file)

    def exists(self, path: str) -> bool:
        """See ``Files``; cannot go wrong."""
        if self.crashed:
            raise Crash
        return self.inner.exists(path)

    def list(self, directory: str) -> list[str]:
        return self.perform("list", directory, lambda: self.inner.list(directory))

    def make_directory(self, path: str, *, sync: bool = True) -> None:
        self.perform("make_directory", path, lambda: self.inner.make_directory(path, sync=sync))

    def remove(self, path: str) -> None:
        self.perform("remove", path, lambda: self.inner.remove(path))

    def remove_tree(self, path: str, *, sync: bool = True) -> None:
        self.perform("remove_tree", path, lambda: self.inner.remove_tree(path, sync=sync))

    def rename(self, source: str, target: str) -> None:
        self.perform("rename", target, lambda: self.inner.rename(source, target))

    def sync_directory(self, path: str) -> None:
        self.perform("sync_directory", path, lambda: self.inner.sync_directory(path))

    def read_file(self, path: str) -> bytes:
        return self.perform("read_file", path, lambda: self.inner.read_file(path))

    def write_file(self, path: str, data: bytes) -> None:
        """See ``Files``; each of its parts can go wrong."""
        replace_file(self, path, data)

    def mode(self, path: str) -> int:
        """See ``Files``; cannot go wrong."""
        return self.inner.mode(path)

    def set_mode(self, path: str, mode: int) -> None:
        """See ``Files``; cannot go wrong."""
        self.inner.set_mode(path, mode)

    def lock(self, path: str) -> Lock:
        """See ``Files``; cannot go wrong."""
        return self.inner.lock(path)

    def identity(self, path: str) -> tuple[int, int] | None:
        """See ``Files``; cannot go wrong."""
        return self.inner.identity(path)

    def free_bytes(self, path: str) -> int:
        """See ``Files``; cannot go wrong."""
        return self.inner.free_bytes(path)


class FaultyFile:
    def __init__(self, files: FaultyFiles, path: str, inner: File) -> None:
        self._files = files
        self._path = path
        self._inner = inner
        self.size = inner.size

    def append(self, parts: Sequence[Part]) -> None:
        whole = b"".join(parts)

        def tear() -> None:
            self._inner.append((whole[: len(whole) // 2],))

        self._files.perform("append", self._path, lambda: self._inner.append(parts), tear)
        self.size = self._inner.size

    def reserve(self, size: int, *, zeroed: bool) -> None:
        """See ``File``; cannot go wrong, since it need not succeed."""
        if self._files.crashed:
            raise Crash
        self._inner.reserve(size, zeroed=zeroed)

    def read(self, position: int, length: int) -> bytes:
        return self._files.perform("read", self._path, lambda: self._inner.read(position, length))

    def sync(self) -> None:
        self._files.perform("sync", self._path, self._inner.sync)

    def truncate(self, size: int) -> None:
        self._files.perform("truncate", self._path, lambda: self._inner.truncate(size))
        self.size = self._inner.size

    def close(self) -> None:
        """See ``File``; cannot go wrong."""
        self._inner.close()


class _Node:
    """A file on a ``CrashDisk``, whatever its name is."""

    def __init__(self) -> None:
        self.content = bytearray()  # As the running process sees it.
        self.synced = b""

    def lose(self, chance: Random) -> None:
        """Keep what was synced, and of the rest what ``chance`` selects."""
        old, new = self.synced, bytes(self.content)
        result = chance.choice([old, new, self._mixed(old, new, chance)])
        self.synced = result
        self.content = bytearray(result)

    def _mixed(self, old: bytes, new: bytes, chance: Random) -> bytes:
        pairs = enumerate(zip(old, new, strict=False))
        same = next((at for at, (one, other) in pairs if one != other), min(len(old), len(new)))
        size = chance.randint(min(len(old), len(new)), max(len(old), len(new)))
        result = bytearray(size)  # Zeros where neither state has a block.
        zeros = chance.random() < 0.5  # Not every cut leaves holes: often just the end is missing.
        result[:same] = new[:same]
        for at in range(same, size, BLOCK_BYTES):
            source = chance.choice([old, new, b""]) if zeros else new
            block = source[at : min(at + BLOCK_BYTES, size)]
            result[at : at + len(block)] = block
        return bytes(result)


class CrashFile:
    """An open file of a ``CrashDisk``."""

    def __init__(self, disk: "CrashDisk", node: _Node) -> None:
        self._disk = disk
        self._life = disk.life
        self._node = node
        self.size = len(node.content)

    def _check(self) -> None:
        if self._life != self._disk.life:
            raise Crash("a file of a process that is gone")

    def append(self, parts: Sequence[Part]) -> None:
        self._check()
        data = b"".join(parts)
        self._node.content[self.size : self.size + len(data)] = data
        self.size += len(data)

    def reserve(self, size: int, *, zeroed: bool) -> None:  # noqa: ARG002 - both are zeros here.
        self._check()
        self._node.content.extend(bytes(max(size - len(self._node.content), 0)))

    def read(self, position: int, length: int) -> bytes:
        self._check()
        return bytes(self._node.content[position : min(position + length, self.size)])

    def sync(self) -> None:
        self._check()
        self._node.synced = bytes(self._node.content)

    def truncate(self, size: int) -> None:
        self._check()
        del self._node.content[size:]
        self._node.content.extend(bytes(size - len(self._node.content)))
        self.size = size

    def close(self) -> None:
        if self._life == self._disk.life:
            del self._node.content[self.size :]


class _CrashLock:
    def __init__(self, disk: "CrashDisk", path: str) -> None:
        self._disk = disk
        self._path = path

    def settle(self) -> None:
        self._disk.intact = True

    def release(self) -> None:
        self._disk.locks.discard(self._path)


class CrashDisk:
    """A disk in memory that forgets, at a power cut, what was not synced."""

    def __init__(self) -> None:
        self.intact = True  # Until the power is cut.
        self.cache = False
        self.archive: SegmentArchive | None = None
        self.ensured: set[str] | None = None
        self.life = 0  # Rises with every crash; older files are dead.
        self.locks: set[str] = set()
        self._names: dict[str, _Node] = {}
        self._synced: dict[str, _Node] = {}
        # Directory -> changes of names that are not synced; None: removed.
        self._pending: dict[str, list[dict[str, _Node | None]]] = {}

    def kill(self) -> None:
        """The process ends; everything written is still there."""
        self.life += 1
        self.locks.clear()

    def power_cut(self, chance: Random) -> None:
        """The machine stops; what was not synced is there or not."""
        self.kill()
        self.intact = False
        for changes in self._pending.values():
            for change in changes:
                if chance.random() < 0.5:
                    self._apply(change, self._synced)
        self._pending.clear()
        self._names = dict(self._synced)
        for node in self._names.values():
            node.lose(chance)

    def damage(self, path: str, change: Callable[[bytes], bytes]) -> None:
        """Replace bytes of a file without any operation on it."""
        node = self._names[path]
        node.synced = change(bytes(node.content))
        node.content = bytearray(node.synced)

    @staticmethod
    def _apply(change: dict[str, _Node | None], names: dict[str, _Node]) -> None:
        for path, node in change.items():
            if node is None:
                names.pop(path, None)
            else:
                names[path] = node

    def _change(self, change: dict[str, _Node | None], directory: str | None = None) -> None:
        """Change names now, and for good when their directory is synced."""
        self._apply(change, self._names)
        directory = directory if directory is not None else os.path.dirname(next(iter(change)))
        self._pending.setdefault(directory, []).append(change)

    def _node(self, path: str) -> _Node:
        if path not in self._names:
            raise StorageFailed(path=path, why="there is no such file")
        return self._names[path]

    def open(self, path: str, *, create: bool) -> File:
        if create and path not in self._names:
            self._change({path: _Node()})
        return CrashFile(self, self._node(path))

    def exists(self, path: str) -> bool:
        return path in self._names or bool(self.list(path))

    def list(self, directory: str) -> list[str]:
        inside = directory.rstrip("/") + "/"
        below = [path[len(inside) :] for path in self._names if path.startswith(inside)]
        return sorted({path.partition("/")[0] for path in below})

    def make_directory(self, path: str, *, sync: bool = True) -> None:
        """See ``Files``; directories need no making here."""

    def remove(self, path: str) -> None:
        if path in self._names:
            self._change({path: None})

    def remove_tree(self, path: str, *, sync: bool = True) -> None:  # noqa: ARG002 - never synced.
        inside = path.rstrip("/") + "/"
        for name in [name for name in self._names if name.startswith(inside)]:
            self.remove(name)

    def rename(self, source: str, target: str) -> None:
        moved = [path for path in self._names if path == source or path.startswith(source + "/")]
        if not moved:
            self._node(source)  # Raises: there is nothing of that name.
        change: dict[str, _Node | None] = {target + path[len(source) :]: self._names[path] for path in moved}
        change.update(dict.fromkeys(moved))
        self._change(change, os.path.dirname(target))

    def sync_directory(self, path: str) -> None:
        for change in self._pending.pop(path, []):
            self._apply(change, self._synced)

    def read_file(self, path: str) -> bytes:
        return bytes(self._node(path).content)

    def write_file(self, path: str, data: bytes) -> None:
        replace_file(self, path, data)

    def mode(self, path: str) -> int:  # noqa: ARG002 - this disk has no users.
        return 0

    def set_mode(self, path: str, mode: int) -> None: ...

    def lock(self, path: str) -> Lock:
        if path in self.locks:
            raise DirectoryInUse(directory=os.path.dirname(path), pid=str(os.getpid()))
        self.locks.add(path)
        return _CrashLock(self, path)

    def identity(self, path: str) -> tuple[int, int] | None:  # noqa: ARG002
        """See ``Files``; nobody else can remove it."""
        return 0, 0

    def free_bytes(self, path: str) -> int:  # noqa: ARG002
        return -1
