"""Objects in the store: their names, their envelope, and how to create one when the outcome matters.

    wal/<incarnation>/<sequence>    one commit round of one incarnation, or the tombstone that ends its WAL
    meta/<number>                   one entry of the metadata log
    snap/<number>                   the metadata state after that many entries; only speeds up a start
    base/<incarnation>/<number>     one piece of a checkpoint
    beat/<incarnation>              the progress report of an incarnation; overwritten

Names under wal/, meta/ and base/ are only ever created, and never used again after a deletion (rules 1,
22). The store that is passed in puts the cluster's generation in front of every name (rule 24).

An object is one line of text with its kind, version and checksum, and then its payload:

    penstock wal 1 1c291ca3\n...

A version that this release does not know stops the node: a newer release wrote it.
"""

import asyncio
from collections.abc import Iterable
from typing import Final, Protocol

from crc32c import crc32c

from penstock.errors import CorruptionError, StoreRefused, StoreUnavailable

VERSION: Final = 1
HEADER_BYTES_MAX: Final = 512  # Upper bound for the first lines of an object.
RETRY_S: Final = 0.05  # The first pause after a request without an answer; doubled each time ...
RETRY_S_MAX: Final = 1.0  # ... up to this.
UNKNOWN: Final = (StoreUnavailable, StoreRefused)  # It is unknown whether the request was carried out.


class Store(Protocol):
    """``penstock.store.base.Store`` as coroutines; raises one of ``UNKNOWN`` if there was no answer."""

    object_bytes_max: int

    async def create(self, name: str, data: bytes) -> bool: ...

    async def get(self, name: str) -> bytes | None: ...

    async def list(self, prefix: str) -> Iterable[str]: ...

    async def delete(self, name: str) -> None: ...

    async def overwrite(self, name: str, data: bytes) -> None: ...


def wal_name(incarnation: str, sequence: int) -> str:
    return f"wal/{incarnation}/{sequence:012}"


def meta_name(number: int) -> str:
    return f"meta/{number:012}"


def snap_name(number: int) -> str:
    return f"snap/{number:012}"


def base_name(incarnation: str, number: int) -> str:
    return f"base/{incarnation}/{number:012}"


def beat_name(incarnation: str) -> str:
    return f"beat/{incarnation}"


def number_of(name: str) -> int:
    """The number at the end of a name."""
    return int(name.rpartition("/")[2])


def wrap(kind: str, *payload: bytes) -> bytes:
    """An object with this payload, which may be in several pieces: they are copied once."""
    checksum = 0
    for piece in payload:
        checksum = crc32c(piece, checksum)
    return b"".join((b"penstock %s %d %08x\n" % (kind.encode(), VERSION, checksum), *payload))


def unwrap(kind: str, name: str, data: bytes) -> bytes:
    """The payload of an object; ``CorruptionError`` if it does not match its name and first line."""
    head, _, payload = data.partition(b"\n")
    words = head.split(b" ")
    if len(words) != 4 or words[:2] != [b"penstock", kind.encode()]:
        raise CorruptionError(path=name, position=0, why=f"this is not a {kind} object of Penstock")
    if words[2] != b"%d" % VERSION:
        raise CorruptionError(path=name, position=0, why="a newer version of Penstock wrote it")
    if words[3] != b"%08x" % crc32c(payload):
        raise CorruptionError(path=name, position=len(head) + 1, why="its checksum does not match")
    return payload


async def decide(store: Store, name: str, data: bytes) -> bool:
    """Create ``name``, and return whether it holds ``data``; the answer is final (rule 2).

    It never gives up and never changes the bytes, which contain a nonce (rule 3), because a request without
    an answer may still be carried out at any later time.  An object that exists and then is missing was
    ours and has been collected, or its name is below the floor: creating it again does no harm.
    """
    pause_s = RETRY_S
    while True:
        try:
            if await store.create(name, data):
                return True
            found = await store.get(name)
            if found is not None:
                return found == data
        except UNKNOWN:
            pass
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, RETRY_S_MAX)
