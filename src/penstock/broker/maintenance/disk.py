"""Whether the broker can write: is there disk space, and does the data directory still exist?

A full disk is noticed by the write that fails.  From then on this module checks every second whether there
is space again, so that ``/readyz`` recovers without a publish.

Writes would not notice a directory that is removed or replaced under a running broker: open files can be
written to after they were deleted, and their content is lost when the process ends.  So each sync checks
that its file still has a name (``log/files.py``), which refuses publishes before they are acknowledged,
and this module checks that the directory is the one that was opened.
"""

import logging
from contextlib import suppress
from typing import Final

from penstock.broker.state import State
from penstock.errors import DiskFull, PenstockError, StorageFailed
from penstock.log.files import DELETED, TEMPORARY
from penstock.log.log import Log

logger = logging.getLogger("penstock")

ROOM_CHECK_MS: Final = 1000  # While there is no room: how often to look whether there is.
PROBE_BYTES: Final = 64 * 1024  # Written to find out.
SAID_MAX: Final = 100  # Errors of recurring work that are not said again ...
SAID_AGAIN_MS: Final = 3_600_000  # ... for so long.


class Storage:
    def __init__(self, state: State) -> None:
        self._state = state
        self._identity: tuple[int, int] | None = None
        self._said: dict[str, int] = {}  # By sentence: when.
        state.problems.on_full = self._look_again

    def opened(self) -> None:
        """Remember which directory it is."""
        if not self._state.in_memory:
            self._identity = self._state.files.identity(self._state.directory)

    def check(self) -> None:
        """Check that the directory exists, and whether a full disk has room again."""
        if self._state.in_memory or self._state.closed:
            return
        self._check_directory()
        self._check_room()

    def _check_directory(self) -> None:
        directory = self._state.directory
        if self._identity is None or self._state.files.identity(directory) == self._identity:
            return
        if not self._state.problems.has("directory_gone"):
            message = (
                "the data directory was removed or replaced while it was in use: publishing is refused; "
                "put it back if you can, and start again"
            )
            self._state.problems.report("directory_gone", "directory_gone", message, path=directory)
        for log in self._logs():
            if log.failed is None:
                log.failed = StorageFailed(path=log.path, why=DELETED)

    def _logs(self) -> list[Log]:
        """All logs that are on the disk."""
        logs: list[Log] = [] if self._state.ledger is None else [self._state.ledger.log]
        for topic in self._state.topics.values():
            logs += [] if topic.intents is None else [topic.intents.log]
            for partition in topic.partitions:
                logs.append(partition.log)
                logs += [] if partition.journal is None else [partition.journal.log]
                logs += [] if partition.schedule is None else [partition.schedule.log]
        return [log for log in logs if log.config.durability != "memory"]

    def _look_again(self) -> None:
        self._state.alarms.set(self._state.storage, self._state.clock.steady_ms() + ROOM_CHECK_MS)

    def _check_room(self) -> None:
        if not self._state.problems.has("disk_full"):
            return
        try:
            self._probe(f"{self._state.directory}/probe{TEMPORARY}")
        except DiskFull:
            self._look_again()
        except PenstockError:
            self._look_again()  # Something else is wrong; the next write reports it.
        else:
            self._state.problems.over("disk_full", "there is room on the disk again")

    def _probe(self, path: str) -> None:
        """Write some bytes; ``DiskFull`` if there is no room for them."""
        files = self._state.files
        try:
            file = files.open(path, create=True)
            try:
                file.append((bytes(PROBE_BYTES),))
            finally:
                file.close()
        finally:
            with suppress(PenstockError):
                files.remove(path)

    def retry_later(self, error: PenstockError) -> None:
        """Log that recurring work has failed and is retried, but not each time."""
        if self._state.problems.trouble(error):
            return
        sentence, now_ms = str(error), self._state.clock.steady_ms()
        if now_ms - self._said.get(sentence, now_ms - SAID_AGAIN_MS) < SAID_AGAIN_MS:
            return
        if len(self._said) >= SAID_MAX:
            self._said.clear()
        self._said[sentence] = now_ms
        logger.warning("will try again: %s", sentence)
