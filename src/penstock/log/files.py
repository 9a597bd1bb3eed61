"""The only module that opens, writes, syncs, renames or locks a file.

All other code uses two small protocols:

    Files     a file system: open, list, rename, remove, sync, lock
    File      one open file that grows at its end

with two implementations here: ``SystemFiles`` (the machine's disk) and
``MemoryFiles`` (a dict; used by ``penstock.open()`` without a directory).
``penstock.testing`` adds two that fail on purpose.

Promises that recovery relies on:

    F1  ``File.append`` is all or nothing for the running process: on an error
        the file is cut back, so ``size`` is always the end of the last whole
        append.  (After a crash the tail may be torn; recovery cuts it.)
    F2  what was appended before a ``sync`` that returned is on the disk
    F3  creating, renaming or removing a file is durable only after
        ``sync_directory`` of its directory
    F4  ``write_file`` replaces a small file as a whole or not at all
    F5  ``reserve`` has no effect on what is read or appended here.  Closing the
        file releases unused space; after a crash it remains, as zeros at the end

Errors: a full disk is ``DiskFull`` (nothing was written; try again later),
any other failure of the operating system is ``StorageFailed``.

Descriptors: ``SystemFiles`` has at most ``open_max`` files open.  Beyond that the least recently used one
is closed, and reopened by its path when it is used again, invisibly to the holder of the ``File``.  So a
broker may have more logs than the operating system allows open files.

    F6  neither an open file nor a directory above it is renamed while the file is in use

Cost: one system call per method, two where space is released; ``append`` of one part
adds about 0.3 us of Python to its ``pwrite``.  A sync after an append within reserved
space takes two thirds of the time of one that makes the file longer; at the start of a
block, half of the time if the space was zeroed.
Not supported: memory maps and direct I/O (measured, not worth the effort), Windows.
"""

import errno
import fcntl
import logging
import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NoReturn, Protocol

from penstock.errors import DirectoryInUse, DirectoryUnusable, DiskFull, PenstockError, StorageFailed
from penstock.log.archive import SegmentArchive
from penstock.log.open_files import OPEN_MAX, OpenFiles
from penstock.types import mypyc_attr

Part = bytes | bytearray | memoryview

TEMPORARY: Final = (
    ".tmp"  # Ends the name of a file that is being written; what a crash leaves, recovery removes.
)
FILE_MODE: Final = 0o600  # Messages, password hashes, the audit log: nothing here is for other users.
DIRECTORY_MODE: Final = 0o700
OTHERS: Final = 0o077  # The bits of a mode that give access to others.
PARTS_MAX: Final = 1024  # IOV_MAX of Linux: more buffers than that are refused by pwritev.
LOCK_BYTES_MAX: Final = 256  # The process id, and the boot id, by which a power loss is recognised.
DELETED: Final = "it was deleted or replaced while it was in use"
BOOT_ID_PATH: Final = "/proc/sys/kernel/random/boot_id"  # Of Linux.
NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})

logger = logging.getLogger("penstock")

# fdatasync leaves out the time stamps, which are not used here; macOS lacks it.  (Tests set it.)
_sync_data = getattr(os, "fdatasync", os.fsync)
# Not on macOS either: there files just grow, except for small batches, before which zeros are written.
_allocate: Final = getattr(os, "posix_fallocate", None)


def _zero(descriptor: int, position: int, size: int) -> None:
    """Write zeros, as ``_allocate`` makes room: all of it, or an error."""
    if os.pwrite(descriptor, bytes(size), position) < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _is_deleted(descriptor: int) -> bool:
    """Whether an open file has no name any more.

    Linux says so in the name it has for the descriptor.  ``fstat`` would, too, but after it the next write
    gives the file a new, finer time stamp, and then a sync also writes the inode: half as long again.
    """
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").endswith(" (deleted)")
    except OSError:  # There is no /proc here.
        return not os.fstat(descriptor).st_nlink


class File(Protocol):
    """One open file.  One thread appends, reserves, truncates and reads; another may ``sync`` meanwhile."""

    size: int  # In bytes: the end of the last whole append.

    def append(self, parts: Sequence[Part]) -> None:
        """Write ``parts`` at the end, all of them or nothing."""
        ...

    def reserve(self, size: int, *, zeroed: bool) -> None:
        """Have room for appends up to ``size``, where that can be had; it makes their syncs quicker.

        ``zeroed``: zeros are written there, so that later syncs need not even note which blocks are in use.
        """
        ...

    def read(self, position: int, length: int) -> bytes:
        """``length`` bytes from ``position`` on; fewer at the end of the file."""
        ...

    def sync(self) -> None:
        """Return when everything appended before the call is on the disk."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes."""
        ...

    def close(self) -> None:
        """Give the handle back; nothing is synced.  A second call does nothing."""
        ...


class Lock(Protocol):
    """A held lock on a directory."""

    def settle(self) -> None:
        """Everything in the directory was recovered: from now on ``Files.intact`` reports later damage."""
        ...

    def release(self) -> None: ...


class Files(Protocol):
    """A file system; paths are ``/``-separated text."""

    # What the last process wrote is there, synced or not: the machine has run on since it took the lock.
    # False as long as that is not known.
    intact: bool
    # What is here is a copy of what a store has.  Then a log syncs nothing: a commit round puts its batches
    # into the store, and tells it (``Log.confirm``).
    cache: bool
    # Has sealed segments that may be missing here; only if this is a cache.
    archive: SegmentArchive | None
    # While a broker opens its logs: directories whose names, as they were found, are on the disk.  Thousands
    # of logs share the directories above their own.
    ensured: set[str] | None

    def open(self, path: str, *, create: bool) -> File:
        """Open a file for reading and appending; ``create`` makes it if it is not there."""
        ...

    def exists(self, path: str) -> bool:
        """Is there a file or directory of that name?"""
        ...

    def list(self, directory: str) -> list[str]:
        """The sorted names in a directory; none if it does not exist."""
        ...

    def make_directory(self, path: str, *, sync: bool = True) -> None:
        """Make a directory and its parents; fine if it exists.

        Without ``sync`` the caller syncs them, and one parent is made at most: a data directory that was
        removed must not come back without what was in it.
        """
        ...

    def remove(self, path: str) -> None:
        """Remove a file; fine if it is not there."""
        ...

    def remove_tree(self, path: str, *, sync: bool = True) -> None:
        """Remove a directory and all in it; fine if it is not there."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, replacing what had that name, in one step."""
        ...

    def sync_directory(self, path: str) -> None:
        """Return when the names in the directory are on the disk."""
        ...

    def read_file(self, path: str) -> bytes:
        """The whole of a small file."""
        ...

    def write_file(self, path: str, data: bytes) -> None:
        """Replace the whole of a small file, durably and in one step."""
        ...

    def mode(self, path: str) -> int:
        """The permission bits of a file or directory; 0 where there are none."""
        ...

    def set_mode(self, path: str, mode: int) -> None: ...

    def lock(self, path: str) -> Lock:
        """Take the lock file ``path``; ``DirectoryInUse`` if someone holds it."""
        ...

    def identity(self, path: str) -> tuple[int, int] | None:
        """An identity that differs from that of a later directory of the same name; None if there is none."""
        ...

    def free_bytes(self, path: str) -> int:
        """The room that is left where ``path`` is; -1 if unknown."""
        ...


def storage_error(path: str, error: OSError) -> PenstockError:
    """What an ``OSError`` on ``path`` means to the layers above."""
    if error.errno in NO_ROOM:
        return DiskFull(path=path)
    return StorageFailed(path=path, why=error.strerror or str(error))


def replace_file(files: Files, path: str, data: bytes, *, sync: bool = True) -> None:
    """``write_file`` in terms of the other operations, so that tests can fail each of them."""
    temporary = path + TEMPORARY
    file = files.open(temporary, create=True)
    try:
        if file.size:
            file.truncate(0)  # Left behind by a crash.
        file.append((data,))
        if sync:
            file.sync()
    finally:
        file.close()
    files.rename(temporary, path)
    if sync:
        files.sync_directory(os.path.dirname(path))


def keep_private(files: Files, path: str) -> None:
    """Take a file or directory away from other users of the machine, and warn if they had access."""
    mode = files.mode(path)
    if not mode & OTHERS:
        return
    try:
        files.set_mode(path, mode & ~OTHERS)
    except PenstockError as error:  # It belongs to another user, such as the mount of a container.
        logger.warning("%s is open to other users (mode %03o), and stays so: %s", path, mode, error)
    else:
        logger.warning(
            "%s was open to other users (mode %03o); its mode is now %03o", path, mode, mode & ~OTHERS
        )


class SystemFile:
    """A file of the operating system.

    Its descriptor may be taken away between two calls, when another file is opened in any thread.  The one
    who takes it away (``OpenFiles``) first takes it and then looks whether the file is in use; the one who
    uses it first says so and then takes the descriptor.  So one of the two always notices the other.
    """

    __slots__ = (
        "_busy", "_closed", "_descriptor", "_inode", "_opened", "_path", "_reserved", "_reserver", "_syncing",
        "failed", "size", "unsynced", "used",
    )  # fmt: skip

    def __init__(self, path: str, descriptor: int, opened: OpenFiles | None = None) -> None:
        self._path = path
        self._descriptor = descriptor  # -1 while it is taken away, or closed.
        self._opened = opened  # Who may take it away.
        self._closed = False
        self._busy = False  # The descriptor is in use by the thread that appends and reads ...
        self._syncing = False  # ... or by the one that syncs.
        self.unsynced = False  # Something was written since the last sync.
        self.used = True  # Since the last search for a file to close.
        self.failed: OSError | None = None  # Of a sync that no caller had requested: the next one fails.
        found = os.fstat(descriptor)
        self.size = found.st_size
        self._inode = found.st_ino
        self._reserved = 0  # Up to here the file may be longer than ``size`` ...
        self._reserver = 0  # ... since this process made it so; a forked copy has an old size.

    def append(self, parts: Sequence[Part]) -> None:
        """Write ``parts`` at the end, all of them or nothing."""
        size = self.size
        self._busy = self.used = True
        try:
            descriptor = self._descriptor
            if descriptor < 0:
                descriptor = self._open_again()
            self.unsynced = True
            if len(parts) == 1:
                total = len(parts[0])
                done = os.pwrite(descriptor, parts[0], size)
            else:
                total = sum(map(len, parts))
                done = os.pwritev(descriptor, parts[:PARTS_MAX], size)
            if done != total:
                self._write_rest(b"".join(parts), done)
            self.size = size + total  # While it is in use: closing cuts it to its size.
        except OSError as error:
            self._cut_back(error)
        finally:
            self._busy = False

    def _open_again(self) -> int:
        """The descriptor, which was taken away."""
        if self._closed or self._opened is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        with self._opened.guard:
            if self._descriptor < 0:  # Else it was given back, because the file is in use.
                self._opened.make_room()
                descriptor = self._opened.descriptor(lambda: os.open(self._path, os.O_RDWR))
                if os.fstat(descriptor).st_ino != self._inode:
                    os.close(descriptor)
                    raise OSError(errno.ENOENT, DELETED)
                self._descriptor = descriptor
                self._opened.files[self] = None
        return self._descriptor

    def take_away(self) -> bool:
        """Close the descriptor, unless it is in use; for ``OpenFiles``, which holds its guard."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return True  # It was closed during the search for a file to close.
        if self._busy or self._syncing:
            self._descriptor = descriptor
            return False
        try:
            if self._reserved > self.size and self._reserver == os.getpid():
                os.ftruncate(descriptor, self.size)
                self._reserved = 0
            if self.unsynced:
                self.unsynced = False
                _sync_data(descriptor)
        except OSError as error:
            self.failed = error  # What was written may be lost, and every later sync must fail, too.
        os.close(descriptor)
        return True

    def _write_rest(self, data: bytes, done: int) -> None:
        """The kernel took only the first ``done`` bytes: more parts than it takes, or nearly no room."""
        view = memoryview(data)
        while done < len(data):
            done += os.pwrite(self._descriptor, view[done:], self.size + done)

    def _cut_back(self, error: OSError) -> NoReturn:
        try:
            if self._descriptor >= 0:  # Else it could not be opened again, and nothing was written.
                self._trim()
        except OSError as second:
            # Whatever the first error was, now the tail is unknown: not a plain DiskFull any more.
            why = f"{error.strerror}, and cutting the file back: {second.strerror}"
            raise StorageFailed(path=self._path, why=why) from error
        raise storage_error(self._path, error) from error

    def _trim(self) -> None:
        os.ftruncate(self._descriptor, self.size)
        self._reserved = 0

    def reserve(self, size: int, *, zeroed: bool) -> None:
        """Have room for appends up to ``size``, where that can be had; it makes their syncs quicker."""
        make = _zero if zeroed else _allocate
        if make is None or size <= self.size:
            return
        self._reserved = max(self._reserved, size)
        self._reserver = os.getpid()
        self._busy = True
        try:
            descriptor = self._descriptor if self._descriptor >= 0 else self._open_again()
            make(descriptor, self.size, size - self.size)
        except OSError:
            # A disk that is nearly full, or one that cannot do it: the appends themselves will tell.
            with suppress(OSError):
                self._trim()
        finally:
            self._busy = False

    def read(self, position: int, length: int) -> bytes:
        """``length`` bytes from ``position`` on; fewer at the end of the file."""
        self._busy = self.used = True
        try:
            descriptor = self._descriptor if self._descriptor >= 0 else self._open_again()
            return os.pread(descriptor, max(min(length, self.size - position), 0), position)
        except OSError as error:
            raise storage_error(self._path, error) from error
        finally:
            self._busy = False

    def sync(self) -> None:
        """Return when everything appended before the call is on the disk."""
        self._syncing = True
        try:
            if self.failed is not None:
                raise self.failed
            descriptor = self._descriptor if self._descriptor >= 0 else self._open_again()
            self.unsynced = False
            _sync_data(descriptor)
            deleted = _is_deleted(descriptor)
        except OSError as error:
            # Even "no room" is fatal here: after a failed sync the kernel may have dropped the pages.
            raise StorageFailed(path=self._path, why=f"sync: {error}") from error
        finally:
            self._syncing = False
        if deleted:  # What is synced to a file without a name is lost.
            raise StorageFailed(path=self._path, why=DELETED)

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes."""
        self._busy = True
        try:
            descriptor = self._descriptor if self._descriptor >= 0 else self._open_again()
            self.unsynced = True
            os.ftruncate(descriptor, size)
        except OSError as error:
            raise storage_error(self._path, error) from error
        finally:
            self._busy = False
        self.size = size
        self._reserved = 0

    def close(self) -> None:
        """Give the descriptor back, and room that was not used."""
        self._closed = self._busy = True  # From here on it is not closed by others.
        if self._descriptor >= 0 and self._reserved > self.size and self._reserver == os.getpid():
            with suppress(OSError):  # Then recovery finds zeros, as after a crash.
                self._trim()
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
            if self._opened is not None:
                self._opened.files.pop(self, None)


def _uptime_id(descriptor: int) -> str:
    """Stays the same as long as the machine runs and the file is where it is; empty if unknown.

    A copy of a directory, or one that came from a snapshot of its disk, has another one: it may lack what was
    not synced, as after a power cut.
    """
    try:
        with open(BOOT_ID_PATH, encoding="ascii") as stream:
            boot_id = stream.read().strip()
        found = os.fstat(descriptor)
    except (OSError, ValueError):
        return ""
    return f"{boot_id} {found.st_dev}:{found.st_ino}"


class SystemLock:
    """A held ``flock``; the kernel releases it when the process dies, however it dies."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def settle(self) -> None:
        """Note that the machine has not lost power since everything was recovered."""
        with suppress(OSError):  # A full disk, say: then the next open is more careful than it need be.
            os.pwrite(self._descriptor, f"{os.getpid()}\n{_uptime_id(self._descriptor)}\n".encode(), 0)

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class SystemFiles:
    """The files of the operating system."""

    def __init__(self, open_max: int = OPEN_MAX) -> None:
        self.intact = False
        self.cache = False
        self.archive: SegmentArchive | None = None
        self.ensured: set[str] | None = None
        self._opened = OpenFiles(open_max)

    def open(self, path: str, *, create: bool) -> File:
        """Open a file for reading and appending; ``create`` makes it if it is not there."""
        opened = self._opened
        with opened.guard:
            opened.make_room()
            try:
                flags = os.O_RDWR | (os.O_CREAT if create else 0)
                descriptor = opened.descriptor(lambda: os.open(path, flags, FILE_MODE))
            except OSError as error:
                raise storage_error(path, error) from error
            file = SystemFile(path, descriptor, opened)
            opened.files[file] = None
        return file

    @property
    def open_count(self) -> int:
        """How many files have a descriptor."""
        return len(self._opened.files)

    def exists(self, path: str) -> bool:
        """Is there a file or directory of that name?"""
        return os.path.lexists(path)

    def list(self, directory: str) -> list[str]:
        """The sorted names in a directory; none if it does not exist."""
        try:
            return sorted(os.listdir(directory))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise storage_error(directory, error) from error

    def make_directory(self, path: str, *, sync: bool = True) -> None:
        """Make a directory and its parents; fine if it exists."""
        if os.path.isdir(path):
            return
        parent = os.path.dirname(os.path.abspath(path))
        if sync:
            self.make_directory(parent)
        try:
            if not sync and not os.path.isdir(parent):
                os.mkdir(parent, DIRECTORY_MODE)
            os.mkdir(path, DIRECTORY_MODE)
        except FileExistsError:
            if not os.path.isdir(path):
                raise DirectoryUnusable(directory=path, why="a file has that name") from None
        except OSError as error:
            if error.errno in NO_ROOM:
                raise DiskFull(path=path) from error
            raise DirectoryUnusable(directory=path, why=error.strerror or str(error)) from error
        if sync:
            self.sync_directory(parent)

    def remove(self, path: str) -> None:
        """Remove a file; fine if it is not there."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise storage_error(path, error) from error

    def remove_tree(self, path: str, *, sync: bool = True) -> None:
        """Remove a directory and all in it; fine if it is not there."""
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise storage_error(path, error) from error
        if sync:
            self.sync_directory(os.path.dirname(os.path.abspath(path)))

    def rename(self, source: str, target: str) -> None:
        """Give a file another name, replacing what had that name, in one step."""
        try:
            os.replace(source, target)
        except OSError as error:
            raise storage_error(source, error) from error

    def sync_directory(self, path: str) -> None:
        """Return when the names in the directory are on the disk."""
        if self.cache:
            return  # The next process begins with an empty directory.
        try:
            descriptor = self._opened.descriptor(lambda: os.open(path, os.O_RDONLY | os.O_DIRECTORY))
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise storage_error(path, error) from error

    def read_file(self, path: str) -> bytes:
        """The whole of a small file."""
        try:
            with open(path, "rb") as stream:
                return stream.read()
        except OSError as error:
            raise storage_error(path, error) from error

    def write_file(self, path: str, data: bytes) -> None:
        """Replace the whole of a small file, durably and in one step."""
        replace_file(self, path, data, sync=not self.cache)

    def mode(self, path: str) -> int:
        """The permission bits of a file or directory."""
        try:
            return stat.S_IMODE(os.stat(path).st_mode)
        except OSError as error:
            raise storage_error(path, error) from error

    def set_mode(self, path: str, mode: int) -> None:
        try:
            os.chmod(path, mode)
        except OSError as error:
            raise storage_error(path, error) from error

    def lock(self, path: str) -> Lock:
        """Take the lock file ``path``; ``DirectoryInUse`` if someone holds it."""
        directory = os.path.dirname(path)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE)
        except OSError as error:
            raise DirectoryUnusable(directory=directory, why=error.strerror or str(error)) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            before = os.pread(descriptor, LOCK_BYTES_MAX, 0).decode("ascii", "replace").splitlines()
            self.intact = before[1:2] == [_uptime_id(descriptor)] != [""]
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, "\n".join([str(os.getpid()), *before[1:2], ""]).encode(), 0)
        except OSError as error:
            holder = os.pread(descriptor, LOCK_BYTES_MAX, 0).decode("ascii", "replace").partition("\n")[0]
            os.close(descriptor)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise DirectoryInUse(directory=directory, pid=holder or "unknown") from None
            raise DirectoryUnusable(directory=directory, why=error.strerror or str(error)) from error
        return SystemLock(descriptor)

    def identity(self, path: str) -> tuple[int, int] | None:
        """Device and inode of a directory; None if there is none."""
        try:
            found = os.stat(path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def free_bytes(self, path: str) -> int:
        """The room that is left for this user on the file system of ``path``; -1 if unknown."""
        try:
            found = os.statvfs(path)
        except OSError:
            return -1
        return found.f_bavail * found.f_frsize


class ReadingFiles(SystemFiles):
    """Files for readers only, possibly on a read-only file system."""

    def open(self, path: str, *, create: bool) -> File:  # noqa: ARG002 - nothing is made.
        """Open a file for reading."""
        try:
            return SystemFile(path, os.open(path, os.O_RDONLY))
        except OSError as error:
            raise storage_error(path, error) from error

    def check_unused(self, path: str) -> None:
        """``DirectoryInUse`` if the lock file ``path`` is held; unlike ``lock`` it changes nothing."""
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            return  # A missing file is not held by any process.
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(descriptor, LOCK_BYTES_MAX, 0).decode("ascii", "replace").partition("\n")[0]
            directory = os.path.dirname(path)
            raise DirectoryInUse(directory=directory, pid=holder or "unknown") from None
        finally:
            os.close(descriptor)


@mypyc_attr(allow_interpreted_subclasses=True)
class MemoryFile:
    """A file that is a ``bytearray``."""

    __slots__ = ("_data", "size")

    def __init__(self, data: bytearray) -> None:
        self._data = data
        self.size = len(data)

    def append(self, parts: Sequence[Part]) -> None:
        """Write ``parts`` at the end."""
        data = self._data
        for part in parts:
            data += part
        self.size = len(data)

    def reserve(self, size: int, *, zeroed: bool) -> None: ...

    def read(self, position: int, length: int) -> bytes:
        """``length`` bytes from ``position`` on; fewer at the end of the file."""
        with memoryview(self._data) as view:
            return bytes(view[position : position + length])

    def sync(self) -> None:
        """Memory is as durable as it gets."""

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes."""
        del self._data[size:]
        self.size = len(self._data)

    def close(self) -> None: ...


class MemoryLock:
    """A held lock of ``MemoryFiles``."""

    def __init__(self, locks: set[str], path: str) -> None:
        self._locks = locks
        self._path = path

    def settle(self) -> None:
        """Memory does not outlive the process."""

    def release(self) -> None:
        self._locks.discard(self._path)


@mypyc_attr(allow_interpreted_subclasses=True)
class MemoryFiles:
    """Files that live and die with this object; directories exist as soon as they are named."""

    def __init__(self) -> None:
        self.intact = True
        self.cache = False
        self.archive: SegmentArchive | None = None
        self.ensured: set[str] | None = None
        self._contents: dict[str, bytearray] = {}
        self._locks: set[str] = set()

    def open(self, path: str, *, create: bool) -> File:
        """Open a file for reading and appending; ``create`` makes it if it is not there."""
        if create:
            return MemoryFile(self._contents.setdefault(path, bytearray()))
        return MemoryFile(self._content(path))

    def _content(self, path: str) -> bytearray:
        if path not in self._contents:
            raise StorageFailed(path=path, why=os.strerror(errno.ENOENT))
        return self._contents[path]

    def exists(self, path: str) -> bool:
        """Is there a file or directory of that name?"""
        return path in self._contents or bool(self.list(path))

    def list(self, directory: str) -> list[str]:
        """The sorted names in a directory; none if it does not exist."""
        inside = directory.rstrip("/") + "/"
        below = [path[len(inside) :] for path in self._contents if path.startswith(inside)]
        return sorted({path.partition("/")[0] for path in below})

    def make_directory(self, path: str, *, sync: bool = True) -> None: ...

    def remove(self, path: str) -> None:
        """Remove a file; fine if it is not there."""
        self._contents.pop(path, None)

    def remove_tree(self, path: str, *, sync: bool = True) -> None:  # noqa: ARG002 - nothing to sync.
        """Remove a directory and all in it; fine if it is not there."""
        inside = path.rstrip("/") + "/"
        for name in [name for name in self._contents if name.startswith(inside)]:
            del self._contents[name]

    def rename(self, source: str, target: str) -> None:
        """Give a file or directory another name; a file replaces what had that name."""
        inside = source.rstrip("/") + "/"
        moved = [path for path in self._contents if path == source or path.startswith(inside)]
        if not moved:
            self._content(source)  # Raises: there is nothing of that name.
        for path in moved:
            self._contents[target + path[len(source) :]] = self._contents.pop(path)

    def sync_directory(self, path: str) -> None:
        """Memory is as durable as it gets."""

    def read_file(self, path: str) -> bytes:
        """The whole of a small file."""
        return bytes(self._content(path))

    def write_file(self, path: str, data: bytes) -> None:
        """Replace the whole of a small file."""
        self._contents[path] = bytearray(data)

    def mode(self, path: str) -> int:  # noqa: ARG002 - memory has no users.
        return 0

    def set_mode(self, path: str, mode: int) -> None: ...

    def lock(self, path: str) -> Lock:
        """Take the lock ``path``; ``DirectoryInUse`` if someone holds it."""
        if path in self._locks:
            raise DirectoryInUse(directory=os.path.dirname(path), pid=str(os.getpid()))
        self._locks.add(path)
        return MemoryLock(self._locks, path)

    def identity(self, path: str) -> tuple[int, int] | None:  # noqa: ARG002 - it is one place.
        """Nobody else can remove it."""
        return 0, 0

    def free_bytes(self, path: str) -> int:  # noqa: ARG002
        return -1
