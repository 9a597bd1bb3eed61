"""Receipts: tokens with which a client settles a leased message.

    base64url( consumer, partition, lease, offset, MAC )

The numbers identify the delivery, and the MAC, with a secret of this process, proves that this server issued
the receipt.  So the server stores nothing per message in flight.  The broker decides whether the lease is
still held.

Receipts are written and read many at a time.  A hash is as long as the MACs of
``TOGETHER`` neighbours, each of which has a part of its own, so who knows one knows
nothing of the others; and as a receipt has no bits to fill up, many of them are base64
in one go.  What is read comes as runs: neighbours of one lease, for which the broker
is asked once.

Cost, compiled: half a microsecond to write one, and nearly one to read it.
"""

import binascii
import hmac
import secrets
from collections.abc import Callable
from hashlib import blake2b
from struct import Struct
from typing import Final

SECRET_BYTES: Final = 32
MAC_BYTES: Final = 15  # Too many to guess; and a receipt is a multiple of three bytes.
TOGETHER: Final = 4  # As many MACs as fit into one hash.

_BLOCK: Final = Struct(">IIqq")
_RECEIPT: Final = Struct(f">IIqq{MAC_BYTES}s")
_SIZE: Final = 24 + MAC_BYTES  # Of a receipt.
# The type says that numbers come out, so that compiled code holds them in machine words.
_unpack: Final[Callable[[bytes, int], tuple[int, int, int, int, bytes]]] = _RECEIPT.unpack_from
LENGTH: Final = _SIZE // 3 * 4  # In characters.
# base64 as URLs have it, and in no other way: the signs that fill up stand for nothing here.
_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_PLAIN: Final = bytes.maketrans(b"-_+/=", b"+/!!!")

LeasedOffset = tuple[int, int, int, int]  # Consumer, partition, lease, offset.


class ReceiptedLeases:
    """Consecutive messages of one lease, and their receipts."""

    __slots__ = ("consumer", "end", "lease", "partition", "receipts", "start")

    def __init__(self, leased: LeasedOffset, receipt: str) -> None:
        self.consumer, self.partition, self.lease, self.start = leased
        self.end = self.start + 1
        self.receipts = [receipt]

    def add(self, leased: LeasedOffset, receipt: str) -> bool:
        """Add a message if it follows the last one; returns whether it did."""
        if leased != (self.consumer, self.partition, self.lease, self.end):
            return False
        self.end += 1
        self.receipts.append(receipt)
        return True

    def singly(self) -> "list[ReceiptedLeases]":
        return [
            ReceiptedLeases((self.consumer, self.partition, self.lease, offset), receipt)
            for offset, receipt in enumerate(self.receipts, self.start)
        ]


class ReceiptCodec:
    """The receipts of one process."""

    def __init__(self) -> None:
        secret = secrets.token_bytes(SECRET_BYTES)
        self._hash = blake2b(key=secret, digest_size=TOGETHER * MAC_BYTES)
        self._block: LeasedOffset = (-1, -1, -1, -1)  # Whose MACs are known.
        self._macs = b""

    def write(self, consumer: int, partition: int, lease: int, offsets: list[int]) -> list[str]:
        """The receipts of messages of a lease."""
        parts: list[bytes] = []
        for offset in offsets:
            mac = self._mac(consumer, partition, lease, offset)
            parts.append(_RECEIPT.pack(consumer, partition, lease, offset, mac))
        text = binascii.b2a_base64(b"".join(parts), newline=False).translate(_SAFE).decode()
        return [text[at : at + LENGTH] for at in range(0, len(text), LENGTH)]

    def read(self, receipts: list[str]) -> tuple[list[ReceiptedLeases], list[str]]:
        """The runs that receipts stand for, and the receipts that were not issued here."""
        try:
            data = _bytes_of(receipts)
        except ValueError:
            known = [receipt for receipt in receipts if _looks_right(receipt)]
            unknown = [receipt for receipt in receipts if not _looks_right(receipt)]
            data = _bytes_of(known)
        else:
            known, unknown = receipts, []
        held: list[tuple[LeasedOffset, str]] = []
        for at, receipt in enumerate(known):
            consumer, partition, lease, offset, mac = _unpack(data, at * _SIZE)
            if hmac.compare_digest(mac, self._mac(consumer, partition, lease, offset)):
                held.append(((consumer, partition, lease, offset), receipt))
            else:
                unknown.append(receipt)
        return _runs(sorted(held)), unknown

    def _mac(self, consumer: int, partition: int, lease: int, offset: int) -> bytes:
        block = (consumer, partition, lease, offset // TOGETHER)
        if block != self._block:
            made = self._hash.copy()
            made.update(_BLOCK.pack(consumer, partition, lease, offset // TOGETHER))
            self._block, self._macs = block, made.digest()
        at = offset % TOGETHER * MAC_BYTES
        return self._macs[at : at + MAC_BYTES]


def _bytes_of(receipts: list[str]) -> bytes:
    """The decoded bytes of receipts, concatenated; ValueError if one cannot be a receipt."""
    for receipt in receipts:
        if len(receipt) != LENGTH:
            raise ValueError
    return binascii.a2b_base64("".join(receipts).encode().translate(_PLAIN), strict_mode=True)


def _looks_right(receipt: str) -> bool:
    try:
        _bytes_of([receipt])
    except ValueError:
        return False
    return True


def _runs(held: list[tuple[LeasedOffset, str]]) -> list[ReceiptedLeases]:
    """Join consecutive messages of a lease into runs."""
    runs: list[ReceiptedLeases] = []
    for leased, receipt in held:
        if not runs or not runs[-1].add(leased, receipt):
            runs.append(ReceiptedLeases(leased, receipt))
    return runs
