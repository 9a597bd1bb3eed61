"""Publishing a message as JSON, and its receipt.

The value of a message is bytes.  It is sent in one of three ways: as ``value`` in
base64, as ``text``, or as ``json``, which is stored byte for byte.
``"value": null`` is a tombstone.

The response is sent when the message is stored with the durability of its topic.  The header
``Idempotency-Key`` is the dedup id of a message without its own.  A W3C trace context (``traceparent``,
``tracestate``) is copied to the headers of the message.
"""

import re
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from penstock.config.broker import Durability
from penstock.errors import RequestInvalid
from penstock.frontends.http.call import HttpCall
from penstock.model.message import Message, Receipt

Duration = str | int | float  # As JSON has it: "5m", or seconds.
Instant = str | int | float  # RFC 3339, or seconds since 1970.
IDEMPOTENCY_KEY: Final = b"idempotency-key"
TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[ -~]{1,200})?")
TRACESTATE: Final = re.compile(r"[ -~]{1,512}")


class NewMessage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to publish, with exactly one of value, text and json."""

    value: bytes | UnsetType | None = UNSET
    text: str | UnsetType = UNSET
    json: msgspec.Raw | UnsetType = UNSET
    key: str | None = None
    headers: dict[str, str] | None = None
    priority: str | int = 0
    delay: Duration | None = None
    deliver_at: Instant | None = None
    ttl: Duration | None = None
    dedup_id: str | None = None
    partition: int | None = None


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """Position of a published message."""

    id: str  # What a trace takes; the schedule's id while the message is not due.
    topic: str
    partition: int
    offset: int | None  # None while the message waits in the schedule.
    schedule_id: str | None
    timestamp: int  # Milliseconds since 1970, when the broker took it.
    duplicate: bool  # The dedup id was seen before; this is where the first message is.
    durability: Durability  # What the answer promises.


async def publish(call: HttpCall) -> Published:
    """Publish one message. The response means that it is stored with the durability of its topic."""
    message = message_of(call.body, call.header(IDEMPOTENCY_KEY), trace_context(call))
    receipt = await call.run(call.operations.publish(call.topic, message))
    _, settings = await call.run(call.operations.metadata(call.topic))
    return published(receipt, settings.durability)


def trace_context(call: HttpCall) -> dict[str, str]:
    """What the request says of the trace it belongs to; nothing if that is no trace."""
    traceparent, tracestate = call.header(b"traceparent"), call.header(b"tracestate")
    if traceparent is None or not TRACEPARENT.fullmatch(traceparent):
        return {}
    if tracestate is None or not TRACESTATE.fullmatch(tracestate):
        return {"traceparent": traceparent}
    return {"traceparent": traceparent, "tracestate": tracestate}


def message_of(
    body: NewMessage, idempotency_key: str | None = None, context: dict[str, str] | None = None
) -> Message:
    """The message as a program in the broker's process would have made it."""
    headers = body.headers
    if context and "traceparent" not in (headers or {}):
        headers = {**(headers or {}), **context}
    return Message(
        value_of(body),
        body.key,
        headers,
        body.priority,
        body.ttl,
        body.delay,
        body.deliver_at,
        idempotency_key if body.dedup_id is None else body.dedup_id,
        body.partition,
    )


def value_of(body: NewMessage) -> bytes | None:
    """The bytes of a message, however they were written."""
    value, text, json = body.value, body.text, body.json
    if value is not UNSET:
        if text is UNSET and json is UNSET:
            return value
    elif text is not UNSET:
        if json is UNSET:
            return text.encode()
    elif json is not UNSET:
        return bytes(json)
    raise RequestInvalid(part="body", why="a message has exactly one of value, text and json")


def published(receipt: Receipt, durability: Durability) -> Published:
    """A receipt as JSON has it."""
    return Published(
        id=receipt.id,
        topic=receipt.topic,
        partition=receipt.partition,
        offset=receipt.offset,
        schedule_id=receipt.schedule_id,
        timestamp=receipt.timestamp,
        duplicate=receipt.duplicate,
        durability=durability,
    )
