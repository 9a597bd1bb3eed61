"""Consuming with requests: receive leased messages, and settle each with its receipt.

A request with one receipt succeeds or fails.  A request with several succeeds and returns a result for each.
Consecutive messages of one lease are settled in one call, which succeeds or fails as a whole; if it fails,
they are settled one by one, so that each has its own result.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta

from penstock.api.work import Work
from penstock.broker.frontend import BatchConsumer
from penstock.errors import (
    InvalidValue,
    LeaseLost,
    PenstockError,
    ReceiptUnknown,
    RequestInvalid,
    ShuttingDown,
)
from penstock.frontends.http.call import HttpCall
from penstock.frontends.http.consumers.receipts import ReceiptedLeases
from penstock.frontends.http.handlers.messages.publishing import Duration
from penstock.frontends.http.messages import As, Stored, text_of, value_fields
from penstock.frontends.http.problems import Problem, problem
from penstock.model.failure import describe_error
from penstock.model.message import own_headers
from penstock.operations.consumers import ConsumerOptions
from penstock.types import LANE_NAMES, duration_ms, extension_ms
from penstock.wire.native import LeasedBatch, Run
from penstock.wire.records import Record, lane_of

WAIT_MS_MAX: Final = 60_000
MESSAGES_MAX: Final = 1000  # Of one receive.
RECEIPTS_MAX: Final = 10_000  # Of one answer.

SHOWN_LENGTH_MAX: Final = 100  # Of a receipt that is none, in the error.

Act = Callable[[BatchConsumer, list[Run]], Work[Any]]


class Receive(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"way": "as"}):
    """How many messages to receive, how long to wait for the first, and their visibility timeout."""

    max_messages: Annotated[int, Meta(ge=1, le=MESSAGES_MAX)] = 1
    wait: Duration = 0  # Up to 60 s.
    visibility: Duration | None = None  # None: as the group has it.
    way: As = "base64"


class LeasedMessage(Stored, frozen=True, kw_only=True, gc=False):
    """A leased message."""

    attempt: int
    receipt: str | None  # None: it was settled when it was delivered (at most once).


class Received(msgspec.Struct, frozen=True):
    """The received messages."""

    messages: list[LeasedMessage]


class Receipts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One or several receipts."""

    receipt: str | None = None
    receipts: Annotated[list[str], Meta(max_length=RECEIPTS_MAX)] | None = None


class Ack(Receipts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Acknowledge messages."""


class Nack(Receipts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Processing failed: deliver again after the delay, or after the group's backoff."""

    delay: Duration | None = None
    error: str | None = None


class Reject(Receipts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reject messages: they become dead letters."""

    reason: str


class Extend(Receipts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Extend the leases of these messages, counted from now."""

    duration: Duration


class Result(msgspec.Struct, frozen=True, gc=False):
    """Result of one receipt."""

    receipt: str
    ok: bool
    problem: Problem | None = None


class Answered(msgspec.Struct, frozen=True):
    """A result for each receipt, in order."""

    results: list[Result]


async def receive(call: HttpCall) -> Received:
    """Receive messages; waits for the first if there is none."""
    wanted: Receive = call.body
    wait_ms = duration_ms("wait", wanted.wait)
    if wait_ms > WAIT_MS_MAX:
        raise InvalidValue(name="wait", value=wanted.wait, why="it is at most 60 seconds")
    if call.shared.draining:
        raise ShuttingDown(what="server")
    visibility_ms = None if wanted.visibility is None else duration_ms("visibility", wanted.visibility)
    consumers = call.shared.consumers
    consumer = await consumers.find(call.operations, call.topic, call.group, visibility_ms)
    if wait_ms == 0:
        batches = await consumers.receive(consumer, wanted.max_messages, 0, call.lost)
    else:
        with call.long_poll() as long_poll:
            batches = await consumers.receive(consumer, wanted.max_messages, wait_ms, call.lost)
        if long_poll.error is not None:
            raise long_poll.error
    return Received(leased_messages(call, consumer.number, batches, wanted.way))


def leased_messages(
    call: HttpCall, consumer: int, batches: list[LeasedBatch], way: As
) -> list[LeasedMessage]:
    """Leased messages with their receipts."""
    found: list[LeasedMessage] = []
    for batch in batches:
        receipts: Sequence[str | None] = [None] * len(batch.records)
        if batch.lease >= 0:
            offsets = [record.offset for record in batch.records]
            receipts = call.shared.receipts.write(consumer, batch.partition, batch.lease, offsets)
        found += _messages_of(call.topic, batch, receipts, way)
    return found


def _messages_of(
    topic: str, batch: LeasedBatch, receipts: Sequence[str | None], way: As
) -> Iterator[LeasedMessage]:
    """The messages of one lease: the inner loop of a receive, so what they have in common is found once."""
    partition, attempt = batch.partition, batch.attempt
    attributes, priority = -1, ""
    for record, receipt in zip(batch.records, receipts, strict=True):
        if record.attributes != attributes:
            attributes = record.attributes
            priority = LANE_NAMES[lane_of(attributes)]
        offset, key, headers = record.offset, record.key, record.headers
        text = None if key is None else text_of(key)
        value, shown, document = (
            (record.value, UNSET, UNSET) if way == "base64" else value_fields(record.value, way)
        )
        yield LeasedMessage(
            key=text,
            key_base64=UNSET if key is None or text is not None else key,
            headers=_headers(record) if headers else {},
            value=value,
            text=shown,
            json=document,
            id=f"{topic}:{partition}:{offset}",
            topic=topic,
            partition=partition,
            offset=offset,
            timestamp=record.timestamp,
            priority=priority,
            attempt=attempt,
            receipt=receipt,
        )


def _headers(record: Record) -> dict[str, str]:
    return {
        name: "" if value is None else value.decode("utf-8", "surrogateescape")
        for name, value in own_headers(record.headers, record.attributes)
    }


async def ack(call: HttpCall) -> Answered:
    """Acknowledge messages: they are not delivered again."""
    return await _answer(call, lambda consumer, runs: consumer.ack(runs))


async def nack(call: HttpCall) -> Answered:
    """Nack messages: they are delivered again after the delay, or after the group's backoff."""
    body: Nack = call.body
    delay_ms = None if body.delay is None else duration_ms("delay", body.delay)
    failure = describe_error(body.error)
    return await _answer(call, lambda consumer, runs: consumer.nack(runs, delay_ms, failure))


async def reject(call: HttpCall) -> Answered:
    """Reject messages: they become dead letters at once."""
    body: Reject = call.body
    return await _answer(call, lambda consumer, runs: consumer.reject(runs, body.reason))


async def extend(call: HttpCall) -> Answered:
    """Extend the leases of these messages, counted from now."""
    body: Extend = call.body
    kept_ms = extension_ms(body.duration)

    def keep(consumer: BatchConsumer, runs: list[Run]) -> Work[Any]:
        [(partition, lease, start, _)] = runs
        if (yield from consumer.extend([(partition, lease)], kept_ms)):
            raise LeaseLost(topic=call.topic, partition=partition, offset=start)

    return await _answer(call, keep)


# Answering, whatever the answer is.


async def _answer(call: HttpCall, act: Act) -> Answered:
    permit(call)
    body: Receipts = call.body
    if (body.receipt is None) == (body.receipts is None):
        raise RequestInvalid(part="body", why="give either a receipt, or a list of receipts")
    if body.receipt is not None:
        held, unknown = call.shared.receipts.read([body.receipt])
        if unknown:
            raise unknown_receipt(body.receipt)
        await call.run(act(holder(call, held[0]), [run_of(held[0])]))
        return Answered([Result(body.receipt, True)])
    outcomes = await _answer_all(call, list(dict.fromkeys(body.receipts or [])), act)
    return Answered(
        [
            Result(receipt, True) if error is None else Result(receipt, False, problem(error))
            for receipt, error in outcomes.items()
        ]
    )


async def _answer_all(call: HttpCall, receipts: list[str], act: Act) -> dict[str, PenstockError | None]:
    outcomes: dict[str, PenstockError | None] = dict.fromkeys(receipts)
    runs, unknown = call.shared.receipts.read(receipts)
    outcomes.update((receipt, unknown_receipt(receipt)) for receipt in unknown)
    again: list[ReceiptedLeases] = []
    for run, error in await _try_all(call, runs, act):
        if error is not None and len(run.receipts) == 1:
            outcomes[run.receipts[0]] = error
        elif error is not None:
            again += run.singly()
    for run, error in await _try_all(call, again, act):
        outcomes[run.receipts[0]] = error
    return outcomes


async def _try_all(
    call: HttpCall, runs: list[ReceiptedLeases], act: Act
) -> list[tuple[ReceiptedLeases, PenstockError | None]]:
    """The error of each, if it was refused."""
    tried: list[tuple[ReceiptedLeases, PenstockError | None]] = []
    works: list[Work[Any]] = []
    begun: list[ReceiptedLeases] = []
    for run in runs:
        try:
            works.append(act(holder(call, run), [run_of(run)]))
            begun.append(run)
        except PenstockError as error:
            tried.append((run, error))
    for run, ended in zip(begun, await call.run_all(works), strict=True):
        tried.append((run, ended if isinstance(ended, PenstockError) else None))
    return tried


def run_of(held: ReceiptedLeases) -> Run:
    """A run in the form of the broker."""
    return held.partition, held.lease, held.start, held.end


def holder(call: HttpCall, held: ReceiptedLeases) -> BatchConsumer:
    """The consumer that has issued these receipts; it may have lost the leases since."""
    consumer = call.shared.consumers.get(held.consumer)
    if consumer is None:
        raise LeaseLost(topic=call.topic, partition=held.partition, offset=held.start)
    if consumer.key[:3] != (call.operations, call.topic, call.group):
        raise unknown_receipt(held.receipts[0])
    return consumer.inner


def unknown_receipt(receipt: str) -> ReceiptUnknown:
    """The error for a receipt that this server has not issued."""
    return ReceiptUnknown(receipt=receipt[:SHOWN_LENGTH_MAX])


def permit(call: HttpCall) -> None:
    """Refuse clients that may not consume here, before a receipt is read."""
    call.operations.batch_consumer(call.topic, call.group, ConsumerOptions()).close()
