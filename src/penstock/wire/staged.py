"""Staged record batches, which are kept in the topic ``__staging`` until their job is complete.

    a record of __staging     key     token:partition     the task and the target partition
                              value   a record batch      as it will be in the topic

Each task has a random token.  After a power cut a log may be shorter than before, and
other tasks then reuse its offsets; the token lets the publisher verify that a record
is the intended one.

Times that depend on the publication are relative until then: in a batch marked
SCHEDULED, the last header of each record is its delay (``x-delay``); in a batch marked
EXPIRES, the last header before the delay is its time to live (``x-ttl``).  Both are in
milliseconds.  A batch without timestamps of its own has timestamp 0.
"""

from typing import Final

from penstock.errors import InvalidBatch
from penstock.wire.headers import STAGED_DELAY, STAGED_TTL
from penstock.wire.records import EXPIRES, SCHEDULED, BatchBuilder, Headers, Record

STAGING: Final = "__staging"


def encode_staged(token: str, parts: list[tuple[int, bytes]]) -> bytes:
    """The batch of ``__staging`` that holds these batches, each for a partition."""
    builder = BatchBuilder()
    for partition, batch in parts:
        builder.add(b"%s:%d" % (token.encode(), partition), batch, [])
    return bytes(builder.build(0, 0))


def decode_staged(record: Record, token: str) -> tuple[int, bytes]:
    """The partition and the batch of a staged record; ``InvalidBatch`` if it is not of this token."""
    owner, _, number = (record.key or b"").rpartition(b":")
    if owner != token.encode() or not number.isdigit() or record.value is None:
        raise InvalidBatch(why=f"what is staged at offset {record.offset} is not of {token!r}")
    return int(number), record.value


def relative(record: Record) -> tuple[Headers, int, int]:
    """The message's own headers, its delay and its time to live; -1 for one that it does not have."""
    headers = list(record.headers)
    delay_ms = _taken(headers, STAGED_DELAY) if record.attributes & SCHEDULED else -1
    ttl_ms = _taken(headers, STAGED_TTL) if record.attributes & EXPIRES else -1
    return headers, delay_ms, ttl_ms


def _taken(headers: Headers, name: str) -> int:
    found, value = headers.pop() if headers else ("", None)
    if found != name or value is None or not value.isdigit() or len(value) > 15:
        raise InvalidBatch(why=f"a record that should end with the header {name} does not")
    return int(value)
