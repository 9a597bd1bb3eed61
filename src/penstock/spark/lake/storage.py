"""File access for the lake: a local directory, or a bucket of an object store.

    /data/lake, file:///data/lake                       Arrow's local file system
    s3://, s3a://, gs://, az://, abfss://, abfs://      the object store client of ``deltalake``

Files and table commits of a bucket go through the same client, so they use the same
credentials: the environment variables that ``deltalake`` reads, or the role of the
machine.  No jar and no Hadoop configuration is involved.

Retention may delete from the log what the lake has.  So on a local disk, files and their
directories are synced before they are committed; an object store guarantees durability
itself.

Only this module of the lake opens, syncs or removes files and converts the errors of the
libraries.
"""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Final
from urllib.parse import unquote, urlparse

import pyarrow as pa
from pyarrow import fs

from penstock.config.server import LAKE_SCHEMES
from penstock.errors import DiskFull, LakeDamaged, LakeUnreachable, LakeUnusable

SENTENCE_MAX: Final = 500  # Characters: enough for what a store answers, and not for a whole page of it.

# Settings of the client, and their values, by which a commit is no longer a conditional PUT.
UNSAFE: Final = {
    "AWS_S3_ALLOW_UNSAFE_RENAME": ("1", "true", "on", "yes", "y"),
    "AWS_CONDITIONAL_PUT": ("disabled",),
}

_BECAUSE: Final = "↳"  # How delta-rs begins the cause of an error.
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_TAGS: Final = re.compile(r"<[^<>]*>")
# The client retries only temporary failures; one that it may not retry itself is that of a connection.
_TEMPORARY: Final = re.compile(r"after \d+ retries|http error\b(?!.*builder error)", re.DOTALL)
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_FULL_WORDS: Final = ("no space left", "disk quota exceeded")


def located(lake: str) -> str:
    """A lake as the rest names it: an absolute path, or a URI; without a slash at its end."""
    if not lake:
        raise LakeUnusable(lake=lake, why="this broker has no lake; set lake.path")
    parsed = urlparse(lake)
    if parsed.scheme == "file":
        return os.path.abspath(unquote(parsed.path))
    if "://" not in lake:
        return os.path.abspath(lake)
    if parsed.scheme not in LAKE_SCHEMES or not parsed.netloc:
        schemes = ", ".join(f"{scheme}://" for scheme in LAKE_SCHEMES)
        raise LakeUnusable(lake=lake, why=f"use a directory, or a bucket with one of {schemes}")
    return lake.rstrip("/")


def is_local(path: str) -> bool:
    """Is it on a disk of this machine?"""
    return path.startswith("/")


def filesystem_of(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path or URI, and the path as that one knows it."""
    if is_local(path):
        return fs.LocalFileSystem(), path
    scheme, _, rest = path.partition("://")
    bucket, _, inside = rest.partition("/")
    return _bucket(f"{scheme}://{bucket}"), inside


@lru_cache(maxsize=8)  # A client keeps its connections; a process rarely uses more than one bucket.
def _bucket(root: str) -> fs.FileSystem:
    """The client of a bucket."""
    from deltalake.exceptions import DeltaError  # Only now: a task on a local lake does not need it.
    from deltalake.fs import DeltaStorageHandler

    for name, values in UNSAFE.items():
        if os.environ.get(name, "").lower() in values:
            raise LakeUnusable(
                lake=root, why=f"unset {name}: two writers could overwrite a commit of each other"
            )
    try:
        return fs.PyFileSystem(DeltaStorageHandler(root))
    except (DeltaError, OSError, ValueError) as error:
        raise LakeUnusable(lake=root, why=sentence_of(error)) from None


def folders_in(path: str) -> list[str]:
    """The names of the folders in a folder; none if it is not there."""
    system, inside = filesystem_of(path)
    with writing(path):
        found = system.get_file_info(fs.FileSelector(inside, allow_not_found=True))
    return sorted(each.base_name for each in found if each.type == fs.FileType.Directory)


def make_folder(path: str) -> None:
    """Make the folder of a new file; object stores have no folders."""
    if is_local(path):
        with writing(path):
            os.makedirs(path, exist_ok=True)


def exists(path: str) -> bool:
    system, inside = filesystem_of(path)
    with writing(path):
        return bool(system.get_file_info(inside).type == fs.FileType.File)


def remove(path: str) -> None:
    """Remove an uncommitted file, if it exists."""
    if exists(path):
        system, inside = filesystem_of(path)
        with writing(path):
            system.delete_file(inside)


def bytes_of(path: str) -> int:
    """The size of a file."""
    system, inside = filesystem_of(path)
    with writing(path):
        return int(system.get_file_info(inside).size)


def sync(path: str) -> None:
    """Return when a file, and its name in its folder and the folder's above, will survive a loss of power."""
    if not is_local(path):
        return
    with writing(path):
        folder = os.path.dirname(path)
        for each in (path, folder, os.path.dirname(folder)):
            handle = os.open(each, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Convert errors in the block to errors of the lake at ``path``."""
    try:
        yield
    except OSError as error:
        raise failure_of(path, error) from error


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Convert errors in the block: ``LakeDamaged`` for the file at ``path``, unless its store is away."""
    try:
        yield
    except FileNotFoundError:
        raise LakeDamaged(path=path, why="the file does not exist") from None
    except (pa.ArrowException, OSError) as error:
        failure = failure_of(path, error)
        if isinstance(failure, LakeUnreachable):
            raise failure from error
        raise LakeDamaged(path=path, why=sentence_of(error)) from error


def failure_of(path: str, error: Exception) -> DiskFull | LakeUnreachable | LakeUnusable:
    """The error for a failed request or write."""
    text = str(error).lower()
    if getattr(error, "errno", None) in _FULL or any(words in text for words in _FULL_WORDS):
        return DiskFull(path=path)
    if not is_local(path) and _TEMPORARY.search(text):
        return LakeUnreachable(lake=path, why=sentence_of(error))
    return LakeUnusable(lake=path, why=sentence_of(error))


def sentence_of(error: BaseException) -> str:
    """The message of an error as one line, without its full stop.

    Its first line, and all causes that delta-rs lists after arrows: the last one, often an XML response of an
    object store, explains the others.
    """
    lines = _COLOURS.sub("", str(error)).strip().splitlines() or [type(error).__name__]
    first, *causes = "\n".join(lines).split(_BECAUSE) if _BECAUSE in str(error) else lines[:1]
    sentences = [" ".join(each.split()) for each in (first, *(_TAGS.sub(" ", cause) for cause in causes))]
    return ": ".join(each for each in sentences if each)[:SENTENCE_MAX].rstrip(".")
