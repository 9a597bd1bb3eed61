"""MD5 checksums that SQS clients compare with their own: of bodies and of message attributes.

MD5 protects nothing here; the protocol has it to find damage on the way.
"""

from collections.abc import Mapping
from hashlib import md5
from struct import Struct
from typing import Final

from penstock.wire.sqs.requests import AttributeValue

_LENGTH: Final = Struct(">I")
_TEXT: Final = b"\x01"
_BYTES: Final = b"\x02"


def md5_of(data: bytes) -> str:
    return md5(data, usedforsecurity=False).hexdigest()


def md5_of_attributes(attributes: Mapping[str, AttributeValue]) -> str | None:
    """Names in order; name, type and value each behind its length."""
    if not attributes:
        return None
    parts: list[bytes] = []
    for name in sorted(attributes):
        value = attributes[name]
        parts += (_counted(name.encode()), _counted(value.data_type.encode()))
        if value.binary_value is not None:
            parts += (_BYTES, _counted(value.binary_value))
        else:
            parts += (_TEXT, _counted((value.string_value or "").encode()))
    return md5_of(b"".join(parts))


def _counted(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data
