"""Validates values of a topic against its schemas: the versions of the subject ``<topic>-value``.

    a value in Confluent's wire format    matches the schema of its id, which is one of these
    any other value                       is JSON, and matches the latest version, which is a JSON schema
    a tombstone                           always matches

The wire format is in ``wire/schema_framing.py``.

A ``ValueChecker`` is made of one state of the registry and is not changed by later ones.  It may be used by
several threads.

Cost: a schema is parsed at its first use; then each value takes what the library takes (1 to 5 microseconds
if it is small and the schema is ordinary).  A caller that must not block leaves parsing, and schemas that
take longer, to a thread (``WouldBlock``).
"""

import json
from collections.abc import Sequence
from datetime import date, datetime, time
from typing import Any, Final, NamedTuple

from penstock.model.schemas import ReadValue, value_subject
from penstock.schemas.formats import ParsedSchema
from penstock.schemas.mismatch import Mismatch
from penstock.schemas.registry import SchemaRegistry
from penstock.wire.schema_framing import ID_BYTES, MAGIC, message_indexes, schema_id

_FIRST: Final = (0,)  # The message of a Protobuf file unless a value names another.
_START: Final = "byte 0"
_MAGIC: Final = bytes([MAGIC])


class WouldBlock(Exception):  # noqa: N818 - nothing is wrong.
    """The schema has to be parsed first, or takes long, and the caller did not want that here."""


class ValueMismatch(NamedTuple):
    """What is wrong with one value of a publish."""

    record: int  # Its index in the batch.
    schema: str  # Which schema it was compared with, or the subject if there is none.
    where: str  # In the value: a JSON pointer, or a byte.
    why: str
    is_unknown: bool = False  # The schema is not known (yet), so nothing was compared.

    def text(self) -> str:
        return f"it does not match {self.schema}: at {self.where}: {self.why}"


class ValueChecker:
    """The schemas of one topic's values."""

    def __init__(self, registry: SchemaRegistry, topic: str) -> None:
        self.subject = value_subject(topic)
        self._registry = registry
        self._versions = registry.ids(self.subject)  # By id, in their order.
        self._latest = next(reversed(self._versions), None)
        self._parsed: dict[int, ParsedSchema] = {}

    def check(self, index: int, value: bytes, may_block: bool) -> ValueMismatch | None:
        """What is wrong with a value, if anything is; ``may_block``: whether that may take long."""
        wanted = schema_id(value)
        chosen = self._latest if wanted is None else wanted
        if chosen is None or chosen not in self._versions:
            return ValueMismatch(index, f"the subject {self.subject!r}", _START, self._unknown(wanted), True)
        try:
            schema = self._schema(chosen, may_block)
            start, indexes = _begin(schema, value, framed=wanted is not None)
            schema.validate(value, start, indexes)
        except Mismatch as found:
            name = f"version {self._versions[chosen]} of {self.subject!r}"
            return ValueMismatch(index, name, found.where, found.why)
        return None

    def all_match(self, values: Sequence[bytes], may_block: bool) -> bool:
        """Whether values match, if all of them begin with the same frame; otherwise ``check`` has to tell.

        Together they take half of the time.
        """
        wanted = schema_id(values[0])
        chosen = self._latest if wanted is None else wanted
        if chosen is None or chosen not in self._versions:
            return False
        schema = self._schema(chosen, may_block)
        try:
            start, indexes = _begin(schema, values[0], framed=wanted is not None)
        except Mismatch:
            return False
        frame = values[0][:start]
        framed = [each.startswith(frame or _MAGIC) for each in values]
        if not (all(framed) if frame else not any(framed)):
            return False
        return schema.all_match([each[start:] for each in values], indexes)

    @property
    def has_versions(self) -> bool:
        """Whether the subject has a schema."""
        return bool(self._versions)

    def read(self, value: bytes, may_block: bool) -> ReadValue:
        """A value as JSON, or why it does not match."""
        wanted = schema_id(value)
        chosen = self._latest if wanted is None else wanted
        if chosen is None or chosen not in self._versions:
            return ReadValue(version=None, problem=self._unknown(wanted))
        schema, version = self._schema(chosen, may_block), self._versions[chosen]
        try:
            start, indexes = _begin(schema, value, framed=wanted is not None)
            schema.validate(value, start, indexes)
            text = json_text(schema.decode(value, start, indexes))
        except Mismatch as found:
            return ReadValue(version=version, type=schema.kind, problem=str(found))
        return ReadValue(version=version, type=schema.kind, json=text)

    def _unknown(self, wanted: int | None) -> str:
        if not self._versions:
            return "the subject has no schema; register one"
        known = ", ".join(map(str, list(self._versions)[-5:]))
        return f"schema id {wanted} is not one of the subject's, whose latest are {known}"

    def _schema(self, chosen: int, may_block: bool) -> ParsedSchema:
        found = self._parsed.get(chosen)
        if not may_block and (found is None or not found.is_quick):
            raise WouldBlock
        if found is None:
            found = self._parsed[chosen] = self._registry.parsed(chosen)
        return found


def json_text(value: Any) -> str:
    """A decoded value as JSON.  Bytes are text with a character for each byte, as in Avro's JSON."""
    return json.dumps(value, default=_plain, ensure_ascii=False, separators=(",", ":"))


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value)  # Decimals, UUIDs, durations.


def _begin(schema: ParsedSchema, value: bytes, *, framed: bool) -> tuple[int, tuple[int, ...]]:
    """The position of the data in a value, and the message of the Protobuf file."""
    if not framed:
        if schema.kind != "JSON":
            why = f"{schema.kind} values begin with a zero byte and the schema's id (Confluent's wire format)"
            raise Mismatch(_START, why)
        return 0, _FIRST
    if schema.kind != "PROTOBUF":
        return ID_BYTES, _FIRST
    try:
        indexes, start = message_indexes(value)
    except ValueError as error:
        raise Mismatch(f"byte {ID_BYTES}", str(error)) from None
    return start, indexes
