"""Reading messages without consuming them: by offset, time or key, or the last ones; and tracing a message.

Reading by key is a search: it scans the partition of the key from ``offset``, at most ``SCAN_MESSAGES_MAX``
messages per request, and ``next_offset`` is where to continue.
"""

from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from penstock.errors import RequestInvalid
from penstock.frontends.http.call import HttpCall
from penstock.frontends.http.handlers.messages.showing import BrowsedMessage, shown
from penstock.frontends.http.messages import As, key_fields
from penstock.model.message import StoredMessage
from penstock.model.placing import place
from penstock.model.trace import TraceEvent

SCAN_MESSAGES_MAX: Final = 10_000
LIMIT_MAX: Final = 10_000

Count = Annotated[int, Meta(ge=1, le=LIMIT_MAX)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Browse(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"way": "as"}):
    """Which messages to read."""

    partition: Number | None = None
    offset: Number | None = None
    from_time: str | None = None
    to_time: str | None = None
    key: str | None = None
    last: Count | None = None
    limit: Count = 100
    way: As = "base64"
    decode: bool = False  # Add what values in Confluent's wire format say, by the topic's schemas.


class Browsed(msgspec.Struct, frozen=True, kw_only=True):
    """Messages, and where to continue."""

    messages: list[BrowsedMessage]
    next_offset: int | None  # In the partition that was named or found; None: name one to go on.


class At(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Position: "earliest", "latest", or a time."""

    at: str = "latest"


class Offsets(msgspec.Struct, frozen=True):
    """An offset for each partition, in order."""

    offsets: list[int]


class MessageTrace(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that happened to a message, oldest first."""

    id: str
    topic: str
    partition: int
    offset: int | None  # None while it is not in the log.
    key: str | None
    events: list[TraceEvent]
    key_base64: bytes | UnsetType = UNSET


async def browse(call: HttpCall) -> Browsed:
    """Read stored messages: from an offset or time, the last ones, or those with a key."""
    wanted: Browse = call.query
    if wanted.key is not None:
        return await _with_key(call, wanted, wanted.key)
    if wanted.last is not None:
        if wanted.offset is not None or wanted.from_time or wanted.to_time:
            raise RequestInvalid(part="query", why="the last messages have neither an offset nor times")
        found = await call.run(call.operations.peek(call.topic, wanted.last, wanted.partition))
    else:
        found = await _read(call, wanted, wanted.partition, wanted.offset, wanted.limit)
    following = None if wanted.partition is None else _after(found, wanted.offset)
    return Browsed(messages=await shown(call, found, wanted.way, wanted.decode), next_offset=following)


async def _with_key(call: HttpCall, wanted: Browse, key: str) -> Browsed:
    if wanted.last is not None:
        raise RequestInvalid(part="query", why="a search by key has a limit, and no last")
    data = key.encode()
    topic = await call.run(call.operations.describe_topic(call.topic))
    partition = place(call.topic, wanted.partition, data, len(topic.partitions))
    found = await _read(call, wanted, partition, wanted.offset, SCAN_MESSAGES_MAX)
    fitting = [message for message in found if message.key == data]
    if len(fitting) > wanted.limit:
        fitting = fitting[: wanted.limit]
        following = _after(fitting, wanted.offset)
    else:
        following = _after(found, wanted.offset)
    return Browsed(messages=await shown(call, fitting, wanted.way, wanted.decode), next_offset=following)


async def _read(
    call: HttpCall, wanted: Browse, partition: int | None, offset: int | None, limit: int
) -> list[StoredMessage]:
    begin, end = _instant(wanted.from_time), _instant(wanted.to_time)
    return await call.run(call.operations.read(call.topic, partition, offset, begin, end, limit))


def _after(found: list[StoredMessage], offset: int | None) -> int | None:
    return found[-1].offset + 1 if found else offset


def _instant(text: str | None) -> str | float | None:
    """A time of a query: RFC 3339, or seconds since 1970."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        return text.replace(" ", "+")  # A plus that was not escaped is a space.


async def find_offsets(call: HttpCall) -> Offsets:
    """Find offsets: the first of each partition at or after a time, the earliest, or the next one."""
    wanted: At = call.query
    at = wanted.at if wanted.at in ("earliest", "latest") else _instant(wanted.at)
    assert at is not None
    found = await call.run(call.operations.offsets(call.topic, at, False))
    return Offsets([found[partition] for partition in sorted(found)])


async def trace(call: HttpCall) -> MessageTrace:
    """Trace a message by its id or schedule id: everything that happened to it."""
    found = await call.shared.gateway.broker(call.identity).trace(call.path["id"])
    key: dict[str, Any] = key_fields(found.key)
    return MessageTrace(
        id=found.id,
        topic=found.topic,
        partition=found.partition,
        offset=found.offset if found.offset >= 0 else None,
        events=found.events,
        **key,
    )
