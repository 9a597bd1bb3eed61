"""Messages of SQS as records, and records of any producer as messages of SQS.

    body                    the value, in UTF-8
    message group           the key
    message attributes      headers: a String by its name alone
    sqs-id                  the message id
    sqs-types               JSON: the types of attributes that are not String
    sqs-dedup, sqs-sender,  values from the client, if any; the time when a delayed message was sent
    sqs-trace, sqs-sent

So consumers of other protocols see attributes as headers.  A record that was not sent over SQS has an id
derived from its partition and offset; its headers are attributes, as text or, if they are not UTF-8, as
Binary.  Attributes whose names begin with "sqs-" are stored under "sqs-user-", so they cannot be taken for
one of the others.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from penstock.frontends.sqs.names import ACCOUNT, arn_of
from penstock.model.ids import SENT_ID, message_uuid
from penstock.model.message import RawHeaders, own_headers
from penstock.wire.headers import DEAD_LETTER_HEADERS, REDRIVEN_FROM, SOURCE_TOPIC
from penstock.wire.records import Record
from penstock.wire.sqs.requests import AttributeValue

ID: Final = SENT_ID
TYPES: Final = "sqs-types"
DEDUP: Final = "sqs-dedup"
SENDER: Final = "sqs-sender"
TRACE: Final = "sqs-trace"
SENT: Final = "sqs-sent"
OWN: Final = "sqs-"
USER: Final = "sqs-user-"

_types: Final = msgspec.json.Decoder(dict[str, str])


class SqsRecord(msgspec.Struct, kw_only=True, gc=False):
    """A record as a message of SQS."""

    message_id: str
    body: str
    group_id: str | None
    dedup_id: str | None
    sender: str
    sent_ms: int
    trace: str | None
    source: str | None  # Of a dead letter: the queue it was in.
    attributes: dict[str, AttributeValue]


def headers_of(
    message_id: str,
    attributes: Mapping[str, AttributeValue],
    *,
    dedup_id: str | None,
    sender: str | None,
    trace: str | None,
    sent_ms: int | None,
) -> dict[str, str | bytes]:
    """The headers of a message that is sent."""
    headers: dict[str, str | bytes] = {ID: message_id}
    if dedup_id is not None:
        headers[DEDUP] = dedup_id
    if sender is not None:
        headers[SENDER] = sender
    if trace is not None:
        headers[TRACE] = trace
    if sent_ms is not None:
        headers[SENT] = str(sent_ms)
    types = {name: value.data_type for name, value in attributes.items() if value.data_type != "String"}
    if types:
        headers[TYPES] = msgspec.json.encode(types)
    for name, attribute in attributes.items():
        stored = USER + name if name.startswith(OWN) else name
        content = attribute.string_value if attribute.binary_value is None else attribute.binary_value
        headers[stored] = content or ""
    return headers


def read_record(topic: str, partition: int, record: Record) -> SqsRecord:
    """Read a stored record of any producer."""
    headers, source = letter_content(record)
    own: dict[str, str] = {}
    users: list[tuple[str, bytes]] = []
    for name, value in headers:
        if name.startswith(USER):
            users.append((name[len(USER) :], value or b""))
        elif name.startswith(OWN):
            own[name] = _text(value or b"")
        elif name != REDRIVEN_FROM:
            users.append((name, value or b""))
    sent = own.get(SENT, "")
    return SqsRecord(
        message_id=own.get(ID) or message_uuid(topic, partition, record.offset),
        body=_text(record.value or b""),
        group_id=None if record.key is None else _text(record.key),
        dedup_id=own.get(DEDUP),
        sender=own.get(SENDER, ACCOUNT),
        sent_ms=int(sent) if sent.isascii() and sent.isdigit() else record.timestamp,
        trace=own.get(TRACE),
        source=source,
        attributes=_attributes(users, own.get(TYPES)) if users else {},
    )


def system_attributes(message: SqsRecord, region: str, receives: int, first_ms: int) -> dict[str, str | None]:
    """The system attributes of a message."""
    return {
        "SenderId": message.sender,
        "SentTimestamp": str(message.sent_ms),
        "ApproximateReceiveCount": str(receives),
        "ApproximateFirstReceiveTimestamp": str(first_ms),
        "MessageDeduplicationId": message.dedup_id,
        "MessageGroupId": message.group_id,
        "AWSTraceHeader": message.trace,
        "DeadLetterQueueSourceArn": None if message.source is None else arn_of(region, message.source),
    }


def letter_content(record: Record) -> tuple[RawHeaders, str | None]:
    """The headers that a message was sent with and, if it is a dead letter, the topic that it was in."""
    headers = own_headers(record.headers, record.attributes)
    cut = len(headers) - len(DEAD_LETTER_HEADERS)
    if cut < 0 or tuple(name for name, _ in headers[cut:]) != DEAD_LETTER_HEADERS:
        return headers, None
    return headers[:cut], _text(dict(headers[cut:])[SOURCE_TOPIC] or b"")


def _attributes(headers: list[tuple[str, bytes]], types_text: str | None) -> dict[str, AttributeValue]:
    try:
        types = {} if types_text is None else _types.decode(types_text)
    except msgspec.MsgspecError:
        types = {}
    return {name: _attribute(value, types.get(name, "")) for name, value in headers}


def _attribute(value: bytes, data_type: str) -> AttributeValue:
    if not data_type.startswith("Binary"):
        try:
            return AttributeValue(data_type=data_type or "String", string_value=value.decode())
        except UnicodeDecodeError:
            pass
    return AttributeValue(data_type=data_type or "Binary", binary_value=value)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
