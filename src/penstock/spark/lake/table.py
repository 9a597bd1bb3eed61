"""A table of the lake, whose commits are the state of its archive.

    partition 0     first            next
                    │■■■■■■■■■■■■■■■■│               first <= archived offsets < next
                         └ lost ┘                   deleted by retention before it was archived; recorded

The table is the only state of the archive; there is no separate checkpoint.  Each commit
adds files and moves the partition's *next* from the start of its range to the end, in
one atomic step.  *next*, *first* and the row count are Delta application transactions
(``delta.app_name``), stored in the same log as the files, so they cannot disagree:

    I1  a commit is rejected unless its ranges start at their partitions' *next*
    I2  two commits that move the *next* of the same partition cannot both succeed
    I3  rows of a partition = rows of all its files, whatever was compacted

So any process can continue after an archiver that died, a late commit of an archived
range changes nothing, and concurrent archivers are slower but never wrong.

A ``LakeTable`` is a snapshot of the time when it was opened or refreshed; the files of a
snapshot stay readable until they are vacuumed.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from penstock.errors import LakeUnusable
from penstock.model.ranges import OffsetRange
from penstock.spark.lake import storage
from penstock.spark.lake.delta import (
    add_action,
    app_name,
    create_table,
    files_of,
    open_table,
    remove_action,
    sync_commits,
    transaction_version,
    translated_errors,
)
from penstock.spark.lake.layout import LakeFile, file_of

COMMITS_MAX: Final = 20  # How often a commit is tried when others, of other partitions, are in its way.
ARCHIVED: Final = "penstock.archived"  # Metadata of a commit: number of ranges ...
COMPACTED: Final = "penstock.compacted"  # ... or of files.
LOST: Final = "penstock.lost"  # The table property that holds what was never archived.


@dataclass(frozen=True, slots=True)
class ArchivedRange:
    """Offsets of one partition that a commit archives: all that the log had of them."""

    partition: int
    start: int
    end: int
    rows: int  # Fewer than the offsets where the log itself had fewer.


class LakeTable:
    """The table of one topic; ``open`` it, whether it is there or not."""

    def __init__(self, lake: str, topic: str, delta: DeltaTable | None) -> None:
        self.lake: Final = lake
        self.topic: Final = topic
        self.path: Final = f"{lake}/{topic}"  # Or a URI.
        self._delta = delta

    @classmethod
    def open(cls, lake: str, topic: str) -> "LakeTable":
        """The table of a topic as it is now."""
        lake = storage.located(lake)
        return cls(lake, topic, open_table(f"{lake}/{topic}"))

    @property
    def exists(self) -> bool:
        return self._delta is not None

    def refresh(self) -> None:
        """Load the latest version of the table."""
        self._delta = open_table(self.path)
        for name in ("_numbers", "_files"):
            self.__dict__.pop(name, None)

    # What it has.

    def next_offsets(self) -> dict[int, int]:
        """For each partition, the first offset that is not archived; none for those never archived."""
        return {partition: numbers[0] for partition, numbers in self._numbers.items()}

    def first_offsets(self) -> dict[int, int]:
        """For each partition, where the archive began."""
        return {partition: numbers[1] for partition, numbers in self._numbers.items()}

    def row_counts(self) -> dict[int, int]:
        """For each partition, how many rows were archived."""
        return {partition: numbers[2] for partition, numbers in self._numbers.items()}

    @cached_property
    def _numbers(self) -> dict[int, tuple[int, int, int]]:
        """Next, first and rows of each partition."""
        numbers = {}
        for partition in range(self._version("partitions") or 0):
            reached = self._version("next", partition)
            if reached is not None:
                first, rows = self._version("first", partition), self._version("rows", partition)
                numbers[partition] = (reached, first or 0, rows or 0)
        return numbers

    def _version(self, *app: object) -> int | None:
        return None if self._delta is None else transaction_version(self._delta, self.path, app_name(*app))

    def lost(self) -> list[OffsetRange]:
        """The ranges that retention deleted before they were archived."""
        if self._delta is None:
            return []
        known = json.loads(self._delta.metadata().configuration.get(LOST, "[]"))
        return [OffsetRange(self.topic, *each) for each in known]

    def files(
        self,
        partition: int | None = None,
        start: int | None = None,
        end: int | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
    ) -> list[LakeFile]:
        """The files that may have records of a partition, of a range of offsets and of times; in order."""
        return [
            file
            for file in self._files
            if (partition is None or file.partition == partition)
            and file.overlaps(start, end)
            and file.within(from_ms, to_ms)
        ]

    @cached_property
    def _files(self) -> list[LakeFile]:
        if self._delta is None:
            return []
        files = [file_of(self.path, action) for action in files_of(self._delta, self.path)]
        return sorted(files, key=lambda file: (file.partition, file.start, file.end))

    @property
    def version(self) -> int:
        """The table's version; it rises with every commit.  -1 if it is not there."""
        return -1 if self._delta is None else self._delta.version()

    def history(self, limit: int) -> list[dict[str, Any]]:
        """The last commits, newest first, in Delta's format."""
        if self._delta is None:
            return []
        with translated_errors(self.path):
            return self._delta.history(limit)

    # What changes it.

    def commit(self, ranges: Sequence[ArchivedRange], files: Sequence[LakeFile], now_ms: int) -> bool:
        """Add files that archive ranges; False: some range was archived by others, and nothing was changed.

        If it returns True, the commit is durable.  If False, the caller may remove the files.
        """
        adds = [add_action(self.path, file, now_ms) for file in files]
        for _ in range(COMMITS_MAX):
            delta = self._delta or self._create()
            reached = self.next_offsets()
            if any(reached.get(each.partition, each.start) != each.start for each in ranges):
                return self._has(files)
            if self._try(delta, adds, self._moves(ranges), {ARCHIVED: len(ranges)}):
                return True
        raise LakeUnusable(lake=self.path, why=f"{COMMITS_MAX} commits conflicted with others; try again")

    def replace(self, old: Sequence[LakeFile], new: Sequence[LakeFile], now_ms: int) -> bool:
        """Replace files by others with the same rows; False: another process did, and nothing was changed."""
        assert sum(file.rows for file in old) == sum(file.rows for file in new), "I3"
        if self._delta is None or not set(old) <= set(self._files):
            return self._has(new)
        adds = [add_action(self.path, file, now_ms, changes=False) for file in new]
        removes = [remove_action(self.path, file, now_ms) for file in old]
        turn = Transaction(app_name("compacted"), (self._version("compacted") or 0) + 1)
        return self._try(self._delta, [*adds, *removes], [turn], {COMPACTED: len(old)}) or self._has(new)

    def _has(self, files: Sequence[LakeFile]) -> bool:
        """Whether the files belong to the table.

        A store may take a commit and lose its answer; the library then finds the table changed, by
        ourselves.  What is in the table must not be taken for a failure and removed.
        """
        known = {file.path for file in self._files}
        return bool(files) and all(file.path in known for file in files)

    def vacuum(self, unused_hours: int) -> int:
        """Delete files that have been unused for so long, and those of killed writers.

        Files that are being written or read are younger than that.
        """
        assert unused_hours >= 1, "a file may take a while from its first byte to its commit"
        self.refresh()  # What an old snapshot does not know would count as left behind.
        if self._delta is None:
            return 0
        with translated_errors(self.path):
            # The library also lists files deleted long ago, and makes two commits for every vacuum.
            named = self._delta.vacuum(unused_hours, enforce_retention_duration=False, full=True)
            count = sum(storage.exists(f"{self.path}/{name}") for name in set(named))
            if count:
                self._delta.vacuum(unused_hours, dry_run=False, enforce_retention_duration=False, full=True)
        self.refresh()
        return count

    def lose(self, lost: OffsetRange) -> bool:
        """Record that offsets are in neither log nor lake, and move *next* past them."""
        assert self._delta is not None, "what was never begun has lost nothing"
        if self.next_offsets().get(lost.partition) != lost.start:
            return False
        known = [(each.partition, each.start, each.end) for each in self.lost()]
        known.append((lost.partition, lost.start, lost.end))
        moves = [Transaction(app_name("next", lost.partition), lost.end)]
        with translated_errors(self.path):
            try:
                self._delta.alter.set_table_properties(
                    {LOST: json.dumps(known)},
                    raise_if_not_exists=False,
                    commit_properties=CommitProperties(app_transactions=moves, max_commit_retries=0),
                )
            except CommitFailedError:
                self.refresh()
                return False
        self._settle()
        return True

    def _create(self) -> DeltaTable:
        create_table(self.path, self.topic)
        self.refresh()
        assert self._delta is not None, "it was made just now"
        return self._delta

    def _moves(self, ranges: Sequence[ArchivedRange]) -> list[Transaction]:
        """The application transactions of a commit."""
        moves = []
        known = self._numbers
        for each in ranges:
            if each.partition not in known:
                moves.append(Transaction(app_name("first", each.partition), each.start))
            _, _, rows = known.get(each.partition, (0, 0, 0))
            moves.append(Transaction(app_name("rows", each.partition), rows + each.rows))
            moves.append(Transaction(app_name("next", each.partition), each.end))
        partitions = max((each.partition + 1 for each in ranges), default=0)
        if partitions > (self._version("partitions") or 0):
            moves.append(Transaction(app_name("partitions"), partitions))
        return moves

    def _try(
        self,
        delta: DeltaTable,
        actions: Sequence[AddAction | RemoveAction],
        moves: list[Transaction],
        notes: dict[str, Any],
    ) -> bool:
        """Commit, unless a commit since this snapshot moved the same numbers or removed the same files."""
        with translated_errors(self.path):
            try:
                delta.create_write_transaction(
                    list(actions),
                    "append",
                    delta.schema(),
                    partition_by=["date"],
                    commit_properties=CommitProperties(custom_metadata=notes, app_transactions=moves),
                )
            except CommitFailedError:
                self.refresh()
                return False
        self._settle()
        return True

    def _settle(self) -> None:
        """Make the commits since this snapshot durable, of which one is ours, and see them."""
        sync_commits(self.path, self.version)
        self.refresh()


def tables_in(lake: str) -> list[str]:
    """The topics that have a table."""
    lake = storage.located(lake)
    return [name for name in storage.folders_in(lake) if "_delta_log" in storage.folders_in(f"{lake}/{name}")]
