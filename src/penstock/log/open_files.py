"""Which files have a descriptor, if there may be fewer descriptors than files.

``SystemFiles`` requests a slot before it opens a file, and a ``SystemFile`` before it is reopened; the
descriptor of another file is closed for it.  ``SystemFile`` explains why that is safe.
"""

import errno
import resource
import threading
from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol

OPEN_MAX: Final = 4096  # Files with a descriptor at a time, unless a setting says otherwise.
OPEN_MIN: Final = 16  # Less would not do, whatever the system allows.
LOOKED_MAX: Final = 32  # At so many open files one looks to find one to close.
NO_DESCRIPTOR: Final = (errno.EMFILE, errno.ENFILE)


class EvictableFile(Protocol):
    """A file that may be closed for another one."""

    used: bool  # Since the last search for a file to close.
    unsynced: bool  # It would have to be synced first.

    def take_away(self) -> bool:
        """Close it, unless it is in use; True if it has no descriptor now."""
        ...


def open_files_max(wanted: int) -> int:
    """This many, and at most half of the system's limit: the rest is for connections and others."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return wanted if allowed == resource.RLIM_INFINITY else max(min(wanted, allowed // 2), OPEN_MIN)


class OpenFiles:
    """The files that have a descriptor: at most so many, as far as those in use allow it."""

    def __init__(self, open_max: int) -> None:
        self.open_max = open_max
        self.files: dict[EvictableFile, None] = {}  # Those that were opened or looked at last are at the end.
        self.guard = threading.RLock()

    def make_room(self) -> None:
        """Close a file if there are too many: one that was not used recently, preferably a synced one.

        Every file is passed over once for having been used, so what is used again and again stays open.
        """
        if len(self.files) >= self.open_max:
            self._close_one()

    def descriptor(self, open_it: Callable[[], int]) -> int:
        """Open something, even if the system has no descriptor left: then files are closed for it.

        Connections, or other parts of the program, may have taken more than their share.  Without this a sync
        that has to open a file again would fail, and with it the log, until the next start.
        """
        while True:
            try:
                return open_it()
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR:
                    raise
                with self.guard:
                    if not self._close_one():
                        raise

    def _close_one(self) -> bool:
        unsynced: EvictableFile | None = None
        for file in list(islice(self.files, LOOKED_MAX)):
            self.files.pop(file, None)
            self.files[file] = None
            if file.used:
                file.used = False
            elif file.unsynced:
                unsynced = unsynced or file
            elif self._close(file):
                return True
        if unsynced is not None and self._close(unsynced):
            return True
        return any(self._close(file) for file in list(islice(self.files, LOOKED_MAX)))

    def _close(self, file: EvictableFile) -> bool:
        if not file.take_away():
            return False
        self.files.pop(file, None)
        return True
