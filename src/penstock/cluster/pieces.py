"""The pieces of a partition's checkpoint: how segments are divided into objects (rule 26).

    data/<base>              a sealed segment, an unchanged copy of its file
    data/<base>.index        its index, and
    data/<base>.lanes        its lanes: a partition is opened with these, without its old segments
    data/<base>/<position>   a part of the segment that is still growing; the parts follow each other
    journal/..., schedule/...   the same
    intents/...              the same, with partition 0: the staged publishes of its topic
    start, digest, journal/snapshot     small files

A checkpoint uploads only new data.  The growing segment is in parts, each at least as large as all that
follow it: new data is joined with the preceding parts that are not larger.  So there are few parts, and
each byte is uploaded a few times at most (as often as the segment doubles), and once more when the segment
is sealed.

An empty growing segment is a piece, too: its name is the offset at which the log continues.

``PartitionFiles`` reassembles them, and appends the slices of WAL entries.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple

from penstock.broker.storage.recovery import INTENTS, JOURNAL, SCHEDULE
from penstock.cluster.core.host import Part
from penstock.cluster.core.metadata import Piece
from penstock.errors import CorruptionError, PenstockError
from penstock.log.files import Files
from penstock.log.log import Log, LogConfig
from penstock.log.recovery import START
from penstock.log.segment import INDEX, LANES, LOG, SegmentInfo, segment_name

DATA: Final = "data"
SNAPSHOT: Final = "journal/snapshot"
DIGEST: Final = "digest"  # Of producers: a partition with it is opened without its old segments.
SMALL_FILES: Final = (START, SNAPSHOT, DIGEST)
KINDS: Final = (DATA, JOURNAL, SCHEDULE, INTENTS)

Span = tuple[int, int]  # Positions in a segment: from, and up to.


class SegmentPiece(NamedTuple):
    """The parsed name of a piece of a segment."""

    kind: str
    base: int
    ending: str = LOG
    position: int | None = None  # None: the segment is sealed, and this is all of it.

    @property
    def is_sealed_data(self) -> bool:
        """Whether it is a complete segment of messages, which may stay in the store until it is read."""
        return self.kind == DATA and self.ending == LOG and self.position is None

    def path(self, directory: str) -> str:
        """Of the file, given the directory of the partition."""
        return f"{log_folder(directory, self.kind)}/{segment_name(self.base)}{self.ending}"


def log_folder(directory: str, kind: str) -> str:
    """The folder of a log, given the directory of its partition; intents are in that of the topic."""
    if kind == DATA:
        return directory
    return f"{directory.rpartition('/')[0] if kind == INTENTS else directory}/{kind}"


def parse(file: str) -> SegmentPiece | None:
    """The segment that a piece belongs to; None: it is a small file."""
    kind, _, rest = file.partition("/")
    if kind not in KINDS:
        return None
    for ending in (INDEX, LANES):
        if rest.endswith(ending) and rest.removesuffix(ending).isdigit():
            return SegmentPiece(kind, int(rest.removesuffix(ending)), ending)
    base, _, position = rest.partition("/")
    if not base.isdigit():
        return None
    return SegmentPiece(kind, int(base), LOG, int(position) if position else None)


def spans(known: Iterable[Span], end: int) -> list[Span]:
    """Split a segment that has grown to ``end``, given its ``known`` parts in the store."""
    parts: list[Span] = []
    for start, upto in sorted(known):
        if start == (parts[-1][1] if parts else 0) and start < upto <= end:
            parts.append((start, upto))
    new = (parts[-1][1] if parts else 0, end)
    if new[0] == end and parts:
        return parts
    while parts and parts[-1][1] - parts[-1][0] <= new[1] - new[0]:
        new = (parts.pop()[0], end)
    return [*parts, new]


class SealedSegment(NamedTuple):
    """A segment that no longer changes, unless it is rewritten: then it gets another identity."""

    kind: str
    log: Log
    info: SegmentInfo
    path: str  # Of its file.
    identity: str
    is_current: Callable[[], bool]

    def parts(self, files: Files, known: set[tuple[str, str]]) -> list[Part]:
        """Its index first: with it a node need not download the segment."""
        base = self.info.base_offset
        name = f"{self.kind}/{base}"
        parts = []
        for ending in (INDEX, LANES) if self.kind == DATA else ():
            path = self.path.removesuffix(LOG) + ending
            if (name + ending, self.identity) in known or files.exists(path):
                parts.append(self._part(name + ending, partial(files.read_file, path)))
        parts.append(self._part(name, partial(self.log.copy, base, 0, self.info.bytes)))
        return parts

    def _part(self, file: str, read: Callable[[], bytes | None]) -> Part:
        return Part(file, self.identity, lambda: _read(read) if self.is_current() else None)


def small_identity(data: bytes) -> str:
    """The identity of a small file; a longer one begins with its checksum."""
    return data.hex() if len(data) < 64 else data[:4].hex()


def growing_parts(kind: str, log: Log, segment: SegmentInfo, known: Iterable[Piece]) -> list[Part]:
    """The packed part of the last segment, or of one that is not completely in WAL entries yet."""
    base, end = segment.base_offset, log.taken_size(segment)
    mine = [piece.identity.split("-") for piece in known if piece.file.startswith(f"{kind}/{base}/")]
    return [
        Part(
            f"{kind}/{base}/{start}", f"{start}-{upto}", partial(_read, partial(log.copy, base, start, upto))
        )
        for start, upto in spans([(int(start), int(upto)) for start, upto in mine], end)
    ]


def _read(read: Callable[[], bytes | None]) -> bytes | None:
    try:
        return read()
    except PenstockError:  # It is damaged or missing, which was reported for repair.
        return None


class PartitionFiles:
    """The files of a partition that is being assembled; ``close`` when it is complete."""

    def __init__(self, files: Files, directory: str, config: LogConfig) -> None:
        self.directory = directory
        self._files = files
        self._config = config
        self._logs: dict[str, Log] = {}
        self._small: dict[str, bytes] = {}
        remove_partition(files, directory)

    def leaves(self, piece: Piece) -> bool:  # noqa: ARG002 - everything is wanted here.
        return False

    def restore(self, piece: Piece, data: bytes) -> None:
        segment = parse(piece.file)
        if segment is None:
            self._small[piece.file] = data
            return
        path = segment.path(self.directory)
        self._files.make_directory(path.rpartition("/")[0])
        file = self._files.open(path, create=True)
        try:
            if file.size != (segment.position or 0):
                why = "the part of the segment before it is missing"
                raise CorruptionError(path=piece.name, position=0, why=why)
            file.append((data,))
        finally:
            file.close()

    def _log(self, kind: str) -> Log:
        if kind not in self._logs:
            self._logs[kind] = Log.open(self._files, log_folder(self.directory, kind), self._config)
        return self._logs[kind]

    def end(self, log: str) -> int:
        return self._log(log).end

    def append(self, log: str, first: int, batches: memoryview) -> None:  # noqa: ARG002 - they have it
        self._log(log).append_slice(bytes(batches))

    def close(self) -> None:
        """Write the small files, which describe the logs, when these are complete."""
        for log in self._logs.values():
            log.close()
        for name, data in self._small.items():
            self._files.make_directory(f"{self.directory}/{name}".rpartition("/")[0])
            self._files.write_file(f"{self.directory}/{name}", data)

    def abandon(self) -> None:
        for log in self._logs.values():
            log.abandon()


def remove_partition(files: Files, directory: str, *, sync: bool = True) -> None:
    """Remove the files of a partition, and the intents with the first one."""
    files.remove_tree(directory, sync=sync)
    if directory.endswith("/0"):
        files.remove_tree(log_folder(directory, INTENTS), sync=sync)
