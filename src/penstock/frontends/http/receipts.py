"""Receipts: what a client shows to answer for a message it has on loan.

    base64url( consumer, partition, lease, offset, MAC )

The numbers say what is answered for, and the MAC, under a secret that this process
made for itself, that nobody but this server has written them.  So nothing has to
be remembered for a message in flight.  Whether the lease is still held is for
the broker to say.
"""

import base64
import binascii
import hmac
import secrets
import struct
from hashlib import blake2b
from typing import Final, NamedTuple

from penstock.errors import ReceiptUnknown

SECRET_BYTES: Final = 32
MAC_BYTES: Final = 16  # Too many to guess.
SHOWN_LENGTH_MAX: Final = 100  # Of a receipt that is none, in the error.

_NUMBERS: Final = struct.Struct(">IIqq")


class Place(NamedTuple):
    """What a receipt stands for."""

    consumer: int
    partition: int
    lease: int
    offset: int


class Receipts:
    """The receipts of one process."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(SECRET_BYTES)

    def write(self, place: Place) -> str:
        """The receipt for a message."""
        numbers = _NUMBERS.pack(*place)
        return base64.urlsafe_b64encode(numbers + self._mac(numbers)).decode().rstrip("=")

    def read(self, receipt: str) -> Place:
        """What a receipt stands for; ``ReceiptUnknown`` for one that was not written here."""
        try:
            data = base64.b64decode(receipt + "=" * (-len(receipt) % 4), b"-_", validate=True)
        except (binascii.Error, ValueError):
            data = b""
        numbers, mac = data[: _NUMBERS.size], data[_NUMBERS.size :]
        if not hmac.compare_digest(mac, self._mac(numbers)):
            raise ReceiptUnknown(receipt=receipt[:SHOWN_LENGTH_MAX])
        return Place(*_NUMBERS.unpack(numbers))

    def _mac(self, numbers: bytes) -> bytes:
        return blake2b(numbers, key=self._secret, digest_size=MAC_BYTES).digest()
