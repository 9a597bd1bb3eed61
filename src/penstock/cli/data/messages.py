"""Messages on the command line: printed by ``consume`` and ``peek``, read by ``produce``.

    value    the value and a newline; on a terminal control characters are escaped
    json     one document per line, which ``produce --format json`` reads
    raw      the value's bytes and nothing else
    table    id, time, key and value in columns

A document has ``value`` and ``key`` as text, or ``value_base64`` and ``key_base64`` if the bytes are not
UTF-8. ``produce`` stores a value that is not text (an object, a number) as JSON, and ``null`` as a tombstone.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
import typer

from penstock.cli import screen
from penstock.cli.screen import Column
from penstock.cli.text import bytes_field, safe_bytes, shortened, time_iso, time_text
from penstock.model.message import Delivered, Message, StoredMessage

Format = Literal["value", "json", "raw", "table"]
FormatOption = Annotated[
    Format,
    typer.Option(
        "--format", "--output", "-o", help="Output format: values, JSON documents, raw bytes or columns."
    ),
]
COLUMNS: Final = (Column("id"), Column("time (UTC)"), Column("key"), Column("value", cut=True))
TABLE_KEY: Final = 24  # Characters of a key or a value that are enough to know it by; json has all.
TABLE_VALUE: Final = 200


def document(message: StoredMessage) -> dict[str, Any]:
    """A message as a document."""
    fields: dict[str, Any] = {
        "id": message.id,
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": time_iso(message.timestamp),
        **bytes_field("key", message.key),
        **bytes_field("value", None if message.is_tombstone else message.value),
        "headers": message.headers,
        "priority": message.priority,
    }
    if isinstance(message, Delivered):
        fields |= {"group": str(message.group), "attempt": message.attempt}
    return fields


def row(message: StoredMessage) -> list[object]:
    """A message as a row of a table."""
    key = "" if message.key is None else shortened(safe_bytes(message.key), TABLE_KEY)
    value = "(tombstone)" if message.is_tombstone else shortened(safe_bytes(message.value), TABLE_VALUE)
    return [message.id, time_text(message.timestamp), key, value]


def printer(output: Format) -> Callable[[Sequence[StoredMessage]], None]:
    """Prints messages and flushes stdout."""
    write = {"value": _values, "json": _documents, "raw": _raw, "table": _table}[output]

    def show(messages: Sequence[StoredMessage]) -> None:
        if messages:
            write(messages)
            screen.flush()

    return show


def _values(messages: Sequence[StoredMessage]) -> None:
    if sys.stdout.isatty():
        text = "".join(safe_bytes(message.value) + "\n" for message in messages)
        screen.write(text.encode())
    else:
        screen.write(b"".join(message.value + b"\n" for message in messages))


def _documents(messages: Sequence[StoredMessage]) -> None:
    screen.documents(map(document, messages))


def _raw(messages: Sequence[StoredMessage]) -> None:
    screen.write(b"".join(message.value for message in messages))


def _table(messages: Sequence[StoredMessage]) -> None:
    screen.table(COLUMNS, map(row, messages))


# Going in.


class Document(msgspec.Struct, forbid_unknown_fields=True):
    """A message as a document; fields set by the broker are accepted and ignored."""

    value: Any = msgspec.UNSET
    value_base64: bytes | None = None
    key: str | None = None
    key_base64: bytes | None = None
    headers: dict[str, str] | None = None
    priority: str | int | None = None
    delay: str | float | None = None
    deliver_at: str | float | None = None
    ttl: str | float | None = None
    dedup_id: str | None = None
    partition: int | None = None
    id: Any = None
    topic: Any = None
    offset: Any = None
    timestamp: Any = None
    group: Any = None
    attempt: Any = None


class Template:
    """Defaults from the command line; fields of a document take precedence."""

    def __init__(self, **fields: Any) -> None:
        self._fields = {name: field for name, field in fields.items() if field is not None}

    def message(self, value: bytes | None) -> Message | bytes:
        """A message with this value."""
        if not self._fields and value is not None:
            return value
        return Message(value, **self._fields)

    def message_of(self, text: bytes) -> Message | bytes:
        """The message of a JSON document; a msgspec.ValidationError says what is wrong with it."""
        given = _DECODER.decode(text)
        own = {
            "key": given.key if given.key_base64 is None else given.key_base64,
            "headers": given.headers,
            "priority": given.priority,
            "delay": given.delay,
            "deliver_at": given.deliver_at,
            "ttl": given.ttl,
            "dedup_id": given.dedup_id,
            "partition": given.partition,
        }
        fields = self._fields | {name: field for name, field in own.items() if field is not None}
        return Message(_value(given), **fields)


_DECODER: Final = msgspec.json.Decoder(Document)


def _value(given: Document) -> bytes | None:
    if given.value_base64 is not None:
        return given.value_base64
    if given.value is msgspec.UNSET:
        raise msgspec.ValidationError("Object has neither `value` nor `value_base64`")
    if isinstance(given.value, str):
        return given.value.encode()
    return None if given.value is None else msgspec.json.encode(given.value)
