"""The pieces of a partition's checkpoint: which bytes of which segment are in which object (rule 26).

    data/<base>              a sealed segment, as its file is
    data/<base>.index        its index, and
    data/<base>.lanes        its lanes: a partition is opened with these, without its old segments
    data/<base>/<position>   a part of the segment that is still growing; the parts follow each other
    journal/..., schedule/...   the same
    start, digest, journal/snapshot     small files

A checkpoint uploads only what is new.  The growing segment is in parts, each at least as large as all that
follow it: what is new is joined with the parts before it that are not larger.  So there are few parts, and
each byte is uploaded a few times at most (as often as the segment doubles), and once more when the segment is
sealed.

An empty growing segment is a piece, too: it says where the log continues.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple

from penstock.broker.storage.recovery import JOURNAL, SCHEDULE
from penstock.cluster.core.host import Part
from penstock.cluster.core.metadata import Piece
from penstock.errors import PenstockError
from penstock.log.files import Files
from penstock.log.log import Log
from penstock.log.segment import INDEX, LANES, LOG, SegmentInfo, segment_name

DATA: Final = "data"
FOLDERS: Final = {DATA: "", JOURNAL: f"/{JOURNAL}", SCHEDULE: f"/{SCHEDULE}"}

Span = tuple[int, int]  # Positions in a segment: from, and up to.


class SegmentPiece(NamedTuple):
    """What the name of a piece says, if it is of a segment."""

    kind: str
    base: int
    ending: str = LOG
    position: int | None = None  # None: the segment is sealed, and this is all of it.

    @property
    def path(self) -> str:
        """Of the file, below the partition's directory."""
        return f"{FOLDERS[self.kind]}/{segment_name(self.base)}{self.ending}"


def parse(file: str) -> SegmentPiece | None:
    """The segment that a piece is of; None: it is a small file."""
    kind, _, rest = file.partition("/")
    if kind not in FOLDERS:
        return None
    for ending in (INDEX, LANES):
        if rest.endswith(ending) and rest.removesuffix(ending).isdigit():
            return SegmentPiece(kind, int(rest.removesuffix(ending)), ending)
    base, _, position = rest.partition("/")
    if not base.isdigit():
        return None
    return SegmentPiece(kind, int(base), LOG, int(position) if position else None)


def spans(known: Iterable[Span], end: int) -> list[Span]:
    """How a segment that has grown to ``end`` is split, if the store has the ``known`` parts of it."""
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
    """A segment that does not change any more, unless it is rewritten: then it gets another identity."""

    kind: str
    log: Log
    info: SegmentInfo
    path: str  # Of its file.
    identity: str
    is_current: Callable[[], bool]

    def parts(self, files: Files, known: set[tuple[str, str]]) -> list[Part]:
        """Its index first: who has it need not download the segment."""
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


def growing_parts(kind: str, log: Log, segment: SegmentInfo, known: Iterable[Piece]) -> list[Part]:
    """The last segment, or one that is not in WAL entries as a whole yet, as far as it is."""
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
    except PenstockError:  # It is damaged, or gone; whoever can help was told.
        return None
