"""Receipts: what a client shows to answer for a message it has on loan.

    base64url( consumer, partition, lease, offset, MAC )

The numbers say what is answered for, and the MAC, under a secret that this process
made for itself, that nobody but this server has written them.  So nothing has to
be remembered for a message in flight.  Whether the lease is still held is for
the broker to say.
"""

import binascii
import hmac
import secrets
import struct
from collections.abc import Callable
from hashlib import blake2b
from typing import Final, NamedTuple

from penstock.errors import ReceiptUnknown

SECRET_BYTES: Final = 32
MAC_BYTES: Final = 16  # Too many to guess.
SHOWN_LENGTH_MAX: Final = 100  # Of a receipt that is none, in the error.

_NUMBERS: Final = struct.Struct(">IIqq")
# base64 as URLs have it, without the signs that fill up; ``base64`` itself takes four times as long.
_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_PLAIN: Final = bytes.maketrans(b"-_+/", b"+/!!")
_FILL: Final = b"=" * (-(_NUMBERS.size + MAC_BYTES) % 3)


class Place(NamedTuple):
    """What a receipt stands for."""

    consumer: int
    partition: int
    lease: int
    offset: int


class Receipts:
    """The receipts of one process."""

    def __init__(self) -> None:
        self._hash = blake2b(key=secrets.token_bytes(SECRET_BYTES), digest_size=MAC_BYTES)

    def writer(self, consumer: int, partition: int, lease: int) -> Callable[[int], str]:
        """What writes the receipts of a lease, by offset."""

        def write(offset: int) -> str:
            numbers = _NUMBERS.pack(consumer, partition, lease, offset)
            text = binascii.b2a_base64(numbers + self._mac(numbers), newline=False)
            return text.translate(_SAFE, b"=").decode()

        return write

    def read(self, receipt: str) -> Place:
        """What a receipt stands for; ``ReceiptUnknown`` for one that was not written here."""
        try:
            data = binascii.a2b_base64(receipt.encode().translate(_PLAIN) + _FILL, strict_mode=True)
        except ValueError:
            data = b""
        numbers, mac = data[: _NUMBERS.size], data[_NUMBERS.size :]
        if not hmac.compare_digest(mac, self._mac(numbers)):
            raise ReceiptUnknown(receipt=receipt[:SHOWN_LENGTH_MAX])
        return Place._make(_NUMBERS.unpack(numbers))

    def _mac(self, numbers: bytes) -> bytes:
        made = self._hash.copy()
        made.update(numbers)
        return made.digest()
