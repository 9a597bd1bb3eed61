"""WAL entries: the new bytes of all logs of an incarnation, committed by one create.

The payload of an entry is a JSON header (the nonce of rule 3, and a list of slices), a newline, and the
bytes of the slices, one behind the other.  A slice belongs to one log of one partition in one epoch (rule
19); its bytes are record batches with the offsets that they have in that log.

A tombstone is an entry of another kind.  It ends the WAL: whatever stands at its sequence or above was
never committed (rule 7).
"""

from collections.abc import Callable
from typing import Final

import msgspec

from penstock.cluster.core.metadata import Key
from penstock.cluster.core.objects import unwrap, wrap
from penstock.errors import CorruptionError

WAL: Final = "wal"
ENTRY_BYTES_MAX: Final = 4 << 20  # About; a single batch may be larger (rule 5).


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


class Entry:
    """A decoded entry, or a tombstone."""

    def __init__(self, header: _Header, payload: bytes) -> None:
        self.tombstone = header.tombstone
        self.bytes = len(payload)
        self._parts: dict[tuple[Key, int], list[tuple[Slice, memoryview]]] = {}
        view = memoryview(payload)
        at = 0
        for each in header.slices:
            self._parts.setdefault((each.key, each.epoch), []).append((each, view[at : at + each.size]))
            at += each.size

    def slices(self, key: Key, epoch: int) -> list[tuple[Slice, memoryview]]:
        """The slices of a partition in an epoch, in the order in which they were appended (rule 19)."""
        return self._parts.get((key, epoch), [])


def encode_entry(nonce: str, parts: list[tuple[Slice, bytes]]) -> bytes:
    header = _Header(nonce, slices=[each for each, _ in parts])
    return wrap(WAL, b"\n".join((msgspec.json.encode(header), b"".join(data for _, data in parts))))


def encode_tombstone(nonce: str) -> bytes:
    return wrap(WAL, msgspec.json.encode(_Header(nonce, tombstone=True)) + b"\n")


_decode: Final[Callable[[bytes], _Header]] = msgspec.json.Decoder(_Header).decode


def decode_entry(name: str, data: bytes) -> Entry:
    head, _, payload = unwrap(WAL, name, data).partition(b"\n")
    try:
        header = _decode(head)
    except msgspec.DecodeError as error:
        raise CorruptionError(path=name, position=0, why=str(error)) from error
    if sum(each.size for each in header.slices) != len(payload):
        raise CorruptionError(path=name, position=0, why="its slices have another size than its bytes")
    return Entry(header, payload)
