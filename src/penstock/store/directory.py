"""A store in a directory: for a laptop, for tests, and for NFSv4 with hard mounts.

    create   write .tmp/<random>, fdatasync, link to the name (fails if it exists), fsync its directory

``link`` is atomic on NFS, too.  If its answer is lost there, the repeated request finds its own link; the
temporary file then has two links, which shows that the first request succeeded.  The directory is also
synced before ``create`` reports a name as taken, because the process that made the link may have crashed
before its sync.

A crash leaves temporary files behind; they are removed when the store is opened, once they are an hour old.
A create costs one fdatasync and one directory fsync, 0.5 ms on a local disk.
"""

import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.clock import Clock
from penstock.errors import StoreRefused, StoreUnavailable
from penstock.store.base import OBJECT_BYTES_MAX, check_name

TEMPORARY: Final = ".tmp"
TEMPORARY_AGE_S: Final = 3600  # Far longer than writing one object takes.
DENIED: Final = (PermissionError, NotADirectoryError, IsADirectoryError)


class DirectoryStore:
    object_bytes_max = OBJECT_BYTES_MAX

    def __init__(self, path: str, clock: Clock) -> None:
        self.url = f"file://{path}"
        self._root = Path(path)
        with _Errors(self.url):
            (self._root / TEMPORARY).mkdir(parents=True, exist_ok=True)
            _sync(self._root.parent)
            _sync(self._root)
            self._remove_old(clock.wall_ms() // 1000)

    def create(self, name: str, data: bytes) -> bool:
        with _Errors(self.url):
            path = self._root / check_name(name)
            temporary = self._write(data)
            try:
                created = self._link(temporary, path)
            finally:
                temporary.unlink()
            _sync(path.parent)
            return created

    def _link(self, temporary: Path, path: Path) -> bool:
        """Link a file to its name; False if the name is taken.

        It makes few calls, since after each one a thread may have to wait for the event loop's turn to end.
        """
        try:
            try:
                os.link(temporary, path)
            except FileNotFoundError:
                self._make_above(path)  # Unless another writer has done so in the meantime.
                os.link(temporary, path)
        except FileExistsError:  # Perhaps by this request's first attempt: see the top of the module.
            return temporary.stat().st_nlink > 1
        return True

    def get(self, name: str) -> bytes | None:
        with _Errors(self.url):
            try:
                return (self._root / check_name(name)).read_bytes()
            except FileNotFoundError:
                return None

    def list(self, prefix: str) -> Iterator[str]:
        with _Errors(self.url):
            top = self._root / prefix.rpartition("/")[0]
            for directory, folders, files in os.walk(top):
                folders[:] = [folder for folder in folders if folder != TEMPORARY]
                inside = Path(directory).relative_to(self._root)
                for file in files:
                    name = (inside / file).as_posix()
                    if name.startswith(prefix):
                        yield name

    def delete(self, name: str) -> None:
        with _Errors(self.url), suppress(FileNotFoundError):
            (self._root / check_name(name)).unlink()

    def overwrite(self, name: str, data: bytes) -> None:
        with _Errors(self.url):
            path = self._root / check_name(name)
            self._make_above(path)
            self._write(data).rename(path)
            _sync(path.parent)

    def close(self) -> None:
        pass

    def _make_above(self, path: Path) -> None:
        """Create the directories above an object, and sync them."""
        missing = path.parent
        made = []
        while not missing.exists():
            made.append(missing)
            missing = missing.parent
        for directory in reversed(made):
            directory.mkdir(exist_ok=True)
            _sync(directory.parent)

    def _write(self, data: bytes) -> Path:
        path = self._root / TEMPORARY / secrets.token_hex(16)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
        return path

    def _remove_old(self, now_s: int) -> None:
        for path in (self._root / TEMPORARY).iterdir():
            with suppress(FileNotFoundError):  # Another node removes it at the same time.
                if path.stat().st_mtime < now_s - TEMPORARY_AGE_S:
                    path.unlink()


class _Errors:
    """Converts errors of the operating system to errors of the store."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, OSError):
            why = f"{error.strerror or error} ({error.filename})" if error.filename else str(error)
            raised = StoreRefused if isinstance(error, DENIED) else StoreUnavailable
            raise raised(store=self._url, why=why) from error


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
