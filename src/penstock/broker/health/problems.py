"""Storage problems of a broker, each reported once when it begins and once when it ends.

    damaged           bytes of a log cannot be read; their offsets are absent, everything else is there
    cut               the end of a log was cut off, and may have been more than a torn write
    file_damaged      a settings file cannot be read
    topic_offline     a topic cannot be opened; the others can
    storage_failed    a log takes no more writes
    directory_gone    the data directory was removed or replaced
    disk_full         there is no space on the disk

Each is one line in the server log, is listed by ``stats`` (and so on the dashboard), counted by the
metrics, and fails ``/readyz`` unless it is only a warning.  Two of them can end without a restart, which
is logged too: when there is space again, and when the damaged bytes are deleted, for example by retention.

Thread-safe: a failed sync is reported by the disk thread.
"""

import logging
from collections.abc import Callable, Hashable
from typing import Final

from penstock.clock import Clock
from penstock.errors import DiskFull, PenstockError, StorageFailed
from penstock.log.damage import DamagedRange
from penstock.log.files import DELETED
from penstock.log.log import Log
from penstock.model.info import ProblemKind, StorageProblem

logger = logging.getLogger("penstock")

PROBLEMS_MAX: Final = 1000  # Listed at a time; more are counted.
WARNINGS: Final = frozenset({"cut"})  # What does not need anybody to act.
PASSING: Final = frozenset({"disk_full"})  # What is expected to be over without a restart.


class Problems:
    """The problems that a broker has now."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[Hashable, StorageProblem] = {}
        self.beyond = 0  # Problems that were not listed, because there are too many.
        self.refused: dict[str, int] = {}  # Writes that were refused, by the code of the error.
        self.on_full: Callable[[], None] = lambda: None  # Called when there is no room, each time.

    def all(self) -> list[StorageProblem]:
        """All current problems, the oldest first."""
        return list(self._known.values())

    def serious(self) -> list[StorageProblem]:
        """Problems that make the broker not ready."""
        return [problem for problem in self.all() if not problem.warning]

    def count(self, kind: ProblemKind) -> int:
        """How many there are of a kind."""
        return sum(problem.kind == kind for problem in self.all())

    def has(self, key: Hashable) -> bool:
        """Whether a problem is current."""
        return key in self._known

    def report(
        self,
        key: Hashable,
        kind: ProblemKind,
        message: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        first_offset: int | None = None,
        end_offset: int | None = None,
        path: str = "",
    ) -> None:
        """Report a problem; it is logged once, until it is over."""
        if key in self._known:
            return
        if len(self._known) >= PROBLEMS_MAX:
            self.beyond += 1
            return
        warning = kind in WARNINGS
        self._known[key] = StorageProblem(
            kind=kind,
            message=message,
            since_ms=self._clock.wall_ms(),
            warning=warning,
            topic=topic,
            partition=partition,
            first_offset=first_offset,
            end_offset=end_offset,
            path=path,
        )
        level = logging.WARNING if warning or kind in PASSING else logging.ERROR
        logger.log(level, "%s%s", message, f" ({path})" if path else "")

    def over(self, key: Hashable, message: str) -> None:
        if self._known.pop(key, None) is not None:
            logger.info("%s", message)

    def forget_topic(self, topic: str) -> None:
        """Forget the problems of a topic that was deleted."""
        for key in [key for key, problem in self.all_by_key() if problem.topic == topic]:
            del self._known[key]

    def forget_partition(self, topic: str, partition: int) -> None:
        """Forget the problems of a partition that is not here any more."""
        for key, problem in self.all_by_key():
            if problem.topic == topic and problem.partition == partition:
                del self._known[key]

    def all_by_key(self) -> list[tuple[Hashable, StorageProblem]]:
        """All current problems by their keys."""
        return list(self._known.items())

    # What logs report.

    def watch(self, log: Log, what: str, topic: str | None = None, partition: int | None = None) -> None:
        """Report the damage of a log, now and when more is found; ``what`` describes its contents."""
        subject = "" if topic is None else f" of {topic}" if partition is None else f" of {topic}:{partition}"
        name = f"the {what}{subject}"

        def damaged(found: DamagedRange) -> None:
            self._damaged(name, found, topic, partition)

        def deleted(found: DamagedRange) -> None:
            self.over(_key(found), f"damaged bytes of {name} were deleted, with what was around them")

        def failed(error: PenstockError) -> None:
            self.refused[error.code] = self.refused.get(error.code, 0) + 1
            self.trouble(error, name, topic, partition)

        for found in log.damage.ranges:
            damaged(found)
        log.on_damage = damaged
        log.on_deleted = deleted
        log.on_trouble = failed
        if log.recovery.kept_path:
            cut = log.recovery
            message = (
                f"{name} did not end with a valid batch: {cut.cut_bytes} bytes were cut off, and are kept "
                "beside it"
            )
            self.report(
                ("cut", log.path), "cut", message, topic=topic, partition=partition, path=cut.kept_path
            )

    def _damaged(self, name: str, found: DamagedRange, topic: str | None, partition: int | None) -> None:
        last = found.end_offset - 1
        offsets = f"offset {last}" if found.offsets == 1 else f"offsets {found.first_offset} to {last}"
        if not found.offsets:
            offsets = "a place"
        message = (
            f"{offsets} in {name} cannot be read: at byte {found.position}, {found.why}; everything "
            "around it can"
        )
        self.report(
            _key(found), "damaged", message, topic=topic, partition=partition,
            first_offset=found.first_offset, end_offset=found.end_offset, path=found.path,
        )  # fmt: skip

    def trouble(
        self, error: PenstockError, name: str = "", topic: str | None = None, partition: int | None = None
    ) -> bool:
        """A write failed; False if that says nothing about the storage."""
        if isinstance(error, DiskFull):
            message = "there is no room on the disk: publishing is refused until there is"
            self.report("disk_full", "disk_full", message)
            self.on_full()
        elif isinstance(error, StorageFailed) and error.why == DELETED:
            if self.has("directory_gone"):
                return True  # That is why.
            whose = "files of the data directory" if topic is None else f"the files of topic {topic}"
            message = f"{whose} were removed while they were in use: publishing there is refused"
            self.report(("removed", topic), "directory_gone", message, topic=topic)
        elif isinstance(error, StorageFailed):
            path = error.path
            message = f"{name or 'a file'} takes no more writes: {error.why}"
            key = ("storage_failed", path)
            self.report(key, "storage_failed", message, topic=topic, partition=partition, path=path)
        else:
            return False
        return True


def _key(found: DamagedRange) -> Hashable:
    return found.path, found.position, found.first_offset
