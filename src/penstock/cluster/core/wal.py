"""WAL entries: the new bytes of all logs of an incarnation, committed by one create.

The payload of an entry is a JSON header (the nonce of rule 3, and a list of slices), a newline, and the
concatenated bytes of the slices.  A slice belongs to one log of one partition in one epoch (rule 19); its
bytes are record batches with the offsets that they have in that log.

A round that is larger than ``ENTRY_BYTES_MAX``, or than the store's object limit, becomes several entries:
its payload is cut into parts, which are numbered in their headers.  It is committed as a whole, since the
order between logs is kept only within a round: parts without the last one are ignored.

A tombstone is an entry of another kind.  It ends the WAL: entries at its sequence or above were never
committed (rule 7).
"""

from collections.abc import Callable
from typing import Final

import msgspec

from penstock.cluster.core.metadata import Key
from penstock.cluster.core.objects import HEADER_BYTES_MAX, unwrap, wrap
from penstock.errors import CorruptionError

WAL: Final = "wal"
ENTRY_BYTES_MAX: Final = 4 << 20  # Of a payload, without the header of a part (rule 5).


class Slice(msgspec.Struct, frozen=True, array_like=True):
    """New batches of one log."""

    topic: str
    partition: int
    epoch: int
    log: str  # data, journal, schedule, ...
    first: int  # The offset of its first record.
    size: int  # In bytes.

    @property
    def key(self) -> Key:
        return self.topic, self.partition


class _Header(msgspec.Struct):
    nonce: str
    tombstone: bool = False
    slices: list[Slice] = []
    part: int = 0
    parts: int = 1


class Entry:
    """A decoded round, a part of one, or a tombstone."""

    def __init__(self, header: _Header, payload: bytes) -> None:
        self.tombstone = header.tombstone
        self.bytes = len(payload)
        self.part = header.part
        self.parts = header.parts
        self.payload = payload if header.parts > 1 else b""
        self.whole: Entry | None = None  # In the last part: the joined round.
        self._parts: dict[tuple[Key, int], list[tuple[Slice, memoryview]]] = {}
        view = memoryview(payload)
        at = 0
        for each in header.slices:
            self._parts.setdefault((each.key, each.epoch), []).append((each, view[at : at + each.size]))
            at += each.size

    def slices(self, key: Key, epoch: int) -> list[tuple[Slice, memoryview]]:
        """The slices of a partition in an epoch, in the order in which they were appended (rule 19)."""
        return self._parts.get((key, epoch), [])


class Joining:
    """Joins the parts of rounds, which follow each other in a WAL."""

    def __init__(self) -> None:
        self._parts: list[Entry] = []

    def add(self, name: str, entry: Entry) -> Entry | None:
        """The round, if this entry completes one."""
        if entry.parts == 1:
            return entry
        if entry.part != len(self._parts):
            why = f"it is part {entry.part} of a round, but part {len(self._parts)} should follow"
            raise CorruptionError(path=name, position=0, why=why)
        self._parts.append(entry)
        if len(self._parts) < entry.parts:
            return None
        parts, self._parts = self._parts, []
        if entry.whole is None:
            entry.whole = _decoded(name, b"".join(part.payload for part in parts))
        return entry.whole


def encode_entries(nonce: str, slices: list[tuple[Slice, bytes]], bytes_max: int) -> list[bytes]:
    """The objects of a round, each with up to ``bytes_max``; usually one."""
    header = msgspec.json.encode(_Header(nonce, slices=[each for each, _ in slices]))
    size = min(bytes_max, ENTRY_BYTES_MAX) - HEADER_BYTES_MAX
    if len(header) + 1 + sum(len(data) for _, data in slices) <= size:
        return [wrap(WAL, header, b"\n", *[data for _, data in slices])]
    payload = b"".join((header, b"\n", *[data for _, data in slices]))
    chunks = [payload[at : at + size] for at in range(0, len(payload), size)]
    return [
        wrap(WAL, msgspec.json.encode(_Header(nonce, part=part, parts=len(chunks))) + b"\n" + chunk)
        for part, chunk in enumerate(chunks)
    ]


def encode_tombstone(nonce: str) -> bytes:
    return wrap(WAL, msgspec.json.encode(_Header(nonce, tombstone=True)) + b"\n")


_decode: Final[Callable[[bytes], _Header]] = msgspec.json.Decoder(_Header).decode


def decode_entry(name: str, data: bytes) -> Entry:
    return _decoded(name, unwrap(WAL, name, data))


def _decoded(name: str, data: bytes) -> Entry:
    head, _, payload = data.partition(b"\n")
    try:
        header = _decode(head)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptionError(path=name, position=0, why=str(error)) from error
    if header.parts == 1 and sum(each.size for each in header.slices) != len(payload):
        raise CorruptionError(path=name, position=0, why="its slices have another size than its bytes")
    return Entry(header, payload)
