"""The audit log: one line of JSON for each administrative action, including refused ones.

    data/audit.log      {"time":"2026-11-16T03:12:45.120Z","who":"user anna","operation":"delete_topic",
                         "on":"orders","outcome":"done"}
    data/audit.log.1    the previous file; the log is rotated at 16 MiB, and older files are deleted

A completed action is on disk before it is answered.  A refused one is written but not
synced, so that a client without permissions cannot keep the disk busy.  A partial line
left by a crash is terminated, so that every other line stays valid JSON.
"""

from datetime import UTC, datetime
from typing import Final

import msgspec

from penstock.broker.state import State
from penstock.log.files import File

BYTES_MAX: Final = 16 * 1024 * 1024  # About 100,000 acts.
ON_LENGTH_MAX: Final = 500  # A topic and a group have no more; what names nothing may be of any length.
DONE: Final = "done"


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    time: str  # RFC 3339, UTC.
    who: str
    operation: str
    on: str  # The topic, group, key or user.
    outcome: str  # "done", or the code of the error.


class Audit:
    """The audit log of one broker; the file is created by the first entry."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._path = f"{state.directory}/audit.log"
        self._file: File | None = None

    def note(self, who: str, operation: str, on: str, outcome: str) -> None:
        wall = datetime.fromtimestamp(self._state.clock.wall_ms() / 1000, UTC)
        time = wall.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        entry = AuditEntry(time=time, who=who, operation=operation, on=on[:ON_LENGTH_MAX], outcome=outcome)
        file = self._opened()
        file.append((msgspec.json.encode(entry) + b"\n",))
        if outcome == DONE:
            file.sync()

    def _opened(self) -> File:
        if self._file is not None and self._file.size >= BYTES_MAX:
            self.close()
            self._state.files.rename(self._path, f"{self._path}.1")
        if self._file is None:
            self._file = self._state.files.open(self._path, create=True)
            self._state.files.sync_directory(self._state.directory)
            if self._file.size and self._file.read(self._file.size - 1, 1) != b"\n":
                self._file.append((b"\n",))
        return self._file

    def close(self) -> None:
        """Close the file; the next entry opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None
