"""Messages on the command line: printed by ``consume`` and ``peek``, read by ``produce``.

    value    the value and a newline; on a terminal control characters are escaped
    json     one document per line, which ``produce --format json`` reads
    raw      the value's bytes and nothing else
    table    id, time, key and value in columns

A document has ``value`` and ``key`` as text, or ``value_base64`` and ``key_base64`` if the bytes are not
UTF-8, and ``json`` if a schema describes the value, such as one in Avro; ``value`` and ``table`` show that.
``produce`` stores a value that is not text (an object, a number) as JSON, and ``null`` as a tombstone.
"""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
import typer

from penstock.cli import screen
from penstock.cli.screen import Column
from penstock.cli.text import bytes_field, safe, safe_bytes, shortened, time_iso, time_text
from penstock.errors import RequestError
from penstock.model.message import Delivered, Message, StoredMessage
from penstock.wire.schema_framing import schema_id

if TYPE_CHECKING:
    from penstock.api.broker import Broker

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


Texts = dict[str, str]  # By the id of a message: its value as JSON.


class Readable:
    """Has the broker decode values that name a schema; those of a topic without one are left as they are."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._plain: set[str] = set()  # Topics that have no schema.

    def texts(self, messages: Sequence[StoredMessage]) -> Texts:
        """The values that match a schema, as JSON."""
        framed: dict[str, list[StoredMessage]] = {}
        for message in messages:
            if message.topic not in self._plain and schema_id(message.value) is not None:
                framed.setdefault(message.topic, []).append(message)
        texts: Texts = {}
        for topic, some in framed.items():
            try:
                read = self._broker.read_values(topic, [message.value for message in some])
            except RequestError:  # An older server, or one that does not allow it.
                self._plain.add(topic)
                continue
            if not any(value.version or value.problem for value in read):
                self._plain.add(topic)
            pairs = zip(some, read, strict=True)
            texts |= {message.id: value.json for message, value in pairs if value.json is not None}
        return texts


def document(message: StoredMessage, texts: Texts | None = None) -> dict[str, Any]:
    """A message as a document; a value that a schema describes is there as JSON, too."""
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
    if texts and message.id in texts:
        fields["json"] = msgspec.Raw(texts[message.id].encode())
    if isinstance(message, Delivered):
        fields |= {"group": str(message.group), "attempt": message.attempt}
    return fields


def row(message: StoredMessage, texts: Texts) -> list[object]:
    """A message as a row of a table."""
    key = "" if message.key is None else shortened(safe_bytes(message.key), TABLE_KEY)
    shown = safe(texts[message.id]) if message.id in texts else safe_bytes(message.value)
    value = "(tombstone)" if message.is_tombstone else shortened(shown, TABLE_VALUE)
    return [message.id, time_text(message.timestamp), key, value]


def printer(output: Format, broker: "Broker") -> Callable[[Sequence[StoredMessage]], None]:
    """Prints messages and flushes stdout."""
    write = {"value": _values, "json": _documents, "raw": _raw, "table": _table}[output]
    readable = Readable(broker)

    def show(messages: Sequence[StoredMessage]) -> None:
        if messages:
            write(messages, {} if output == "raw" else readable.texts(messages))
            screen.flush()

    return show


def _values(messages: Sequence[StoredMessage], texts: Texts) -> None:
    values = [texts[message.id].encode() if message.id in texts else message.value for message in messages]
    if sys.stdout.isatty():
        screen.write("".join(safe_bytes(value) + "\n" for value in values).encode())
    else:
        screen.write(b"".join(value + b"\n" for value in values))


def _documents(messages: Sequence[StoredMessage], texts: Texts) -> None:
    screen.documents(document(message, texts) for message in messages)


def _raw(messages: Sequence[StoredMessage], _: Texts) -> None:
    screen.write(b"".join(message.value for message in messages))


def _table(messages: Sequence[StoredMessage], texts: Texts) -> None:
    screen.table(COLUMNS, (row(message, texts) for message in messages))


# Going in.


class MessageDocument(msgspec.Struct, forbid_unknown_fields=True):
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
    json: Any = None


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


_DECODER: Final = msgspec.json.Decoder(MessageDocument)


def _value(given: MessageDocument) -> bytes | None:
    if given.value_base64 is not None:
        return given.value_base64
    if given.value is msgspec.UNSET:
        raise msgspec.ValidationError("Object has neither `value` nor `value_base64`")
    if isinstance(given.value, str):
        return given.value.encode()
    return None if given.value is None else msgspec.json.encode(given.value)
