"""Publishing many messages: as one JSON document, or as lines of JSON while they arrive.

    {"messages": [{...}, {...}]}    ──> {"durability": "fsync", "results": [{...}, {...}]}
    {...}\\n{...}\\n ...            ──> {...}\\n{...}\\n ...         a result for each line, in order

Messages that arrive together are published as one batch.  If one of them is refused, they are published one
by one, so that only that one fails; each message has its own result.  Results are sent while the body still
arrives, so the client must read while it writes; memory use does not grow with the body.

With ``Idempotency-Key``, a message without a dedup id gets that key and its index in the request as dedup id.
"""

from collections.abc import AsyncGenerator, Sequence
from itertools import count
from typing import Final

import msgspec

from penstock.config.broker import Durability
from penstock.errors import PenstockError, RequestError, RequestInvalid
from penstock.frontends.http.bodies import check_type, plainly, read_body, read_lines
from penstock.frontends.http.call import JSON, NDJSON, HttpCall
from penstock.frontends.http.handlers.messages.publishing import (
    IDEMPOTENCY_KEY,
    NewMessage,
    message_of,
    trace_context,
)
from penstock.frontends.http.problems import Problem, problem
from penstock.model.message import Message, Receipt

TOGETHER_MAX: Final = 1000  # Messages that are published at once; the loop is for others, too.


class MessageList(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Messages to publish, each decoded separately."""

    messages: list[msgspec.Raw]


class NewMessages(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Messages to publish; as application/x-ndjson, one per line."""

    messages: list[NewMessage]


class PublishResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Position of a published message, or the error."""

    ok: bool
    partition: int | None = None
    offset: int | None = None  # Missing while the message waits in the schedule.
    timestamp: int | None = None
    schedule_id: str | None = None
    duplicate: bool = False
    problem: Problem | None = None


class PublishedBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A result for each message, in order."""

    durability: Durability
    results: list[PublishResult]


_messages: Final = msgspec.json.Decoder(MessageList)
_message: Final = msgspec.json.Decoder(NewMessage)
_lines: Final = msgspec.json.Encoder()


async def publish_batch(call: HttpCall) -> PublishedBatch | AsyncGenerator[bytes, None]:
    """Publish many messages. Each has its own result, sent when it is stored with its topic's durability."""
    kind = check_type(call, JSON, NDJSON)
    call.operations.publish_batch(call.topic, []).close()  # A guard asks when work is made.
    _, settings = await call.run(call.operations.metadata(call.topic))
    if kind == NDJSON:
        return _answer_lines(call)
    try:
        decoded = _messages.decode(await read_body(call))
    except (msgspec.MsgspecError, ValueError, RecursionError) as wrong:
        raise RequestInvalid(part="body", why=plainly(wrong)) from None
    numbers = count()
    results: list[PublishResult] = []
    for start in range(0, len(decoded.messages), TOGETHER_MAX):
        results += await _publish(call, decoded.messages[start : start + TOGETHER_MAX], numbers)
    return PublishedBatch(durability=settings.durability, results=results)


async def _answer_lines(call: HttpCall) -> AsyncGenerator[bytes, None]:
    numbers = count()
    try:
        async for lines in read_lines(call):
            for start in range(0, len(lines), TOGETHER_MAX):
                yield _lines.encode_lines(await _publish(call, lines[start : start + TOGETHER_MAX], numbers))
    except PenstockError as error:  # The rest of the body cannot be read.
        yield _lines.encode_lines([_refused(error)])


async def _publish(
    call: HttpCall, written: Sequence[bytes | msgspec.Raw], numbers: "count[int]"
) -> list[PublishResult]:
    """Publish some messages as they were written."""
    key, context = call.header(IDEMPOTENCY_KEY), trace_context(call)
    results: list[PublishResult | None] = []
    messages: list[Message] = []
    for number, text in zip(numbers, written, strict=False):
        try:
            decoded = _message.decode(text)
            messages.append(message_of(decoded, None if key is None else f"{key}:{number}", context))
            results.append(None)
        except PenstockError as error:
            results.append(_refused(error))
        except (msgspec.MsgspecError, ValueError, RecursionError) as wrong:
            results.append(_refused(RequestInvalid(part="body", why=plainly(wrong))))
    outcomes = iter(await _publish_all(call, messages))
    return [next(outcomes) if result is None else result for result in results]


async def _publish_all(call: HttpCall, messages: list[Message]) -> list[PublishResult]:
    if not messages:
        return []
    try:
        receipts = await call.run(call.operations.publish_batch(call.topic, messages))
    except RequestError:  # Nothing was published: it is checked before.
        ended = await call.run_all(call.operations.publish(call.topic, message) for message in messages)
        return [_refused(each) if isinstance(each, PenstockError) else _result(each) for each in ended]
    except PenstockError as error:
        return [_refused(error)] * len(messages)
    return [_result(receipt) for receipt in receipts]


def _result(receipt: Receipt) -> PublishResult:
    return PublishResult(
        ok=True,
        partition=receipt.partition,
        offset=receipt.offset,
        timestamp=receipt.timestamp,
        schedule_id=receipt.schedule_id,
        duplicate=receipt.duplicate,
    )


def _refused(error: PenstockError) -> PublishResult:
    return PublishResult(ok=False, problem=problem(error))
