"""Consuming by requests: receive messages on loan, and answer for each by its receipt.

One receipt is answered with success or a problem.  Many are answered one by
one: the request succeeds, and has a result for each of them.  Neighbours of one
lease go to the broker as one run, which it takes or refuses as a whole; a run
that is refused is tried again message by message, so each has its own result.
"""

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from penstock.api.operations import Work
from penstock.broker.batches import BatchConsumer
from penstock.broker.leases import LeasedBatch
from penstock.broker.queues import Run
from penstock.client.records import records_between
from penstock.errors import (
    InvalidValue,
    LeaseLost,
    PenstockError,
    ReceiptUnknown,
    RequestInvalid,
    ShuttingDown,
)
from penstock.failure import describe_error
from penstock.frontends.http.call import Call
from penstock.frontends.http.messages import As, Stored, content
from penstock.frontends.http.problems import Problem, problem
from penstock.frontends.http.publishing import Duration
from penstock.frontends.http.receipts import Place
from penstock.types import LANE_NAMES, duration_ms, extension_ms
from penstock.wire.records import Record, lane_of

WAIT_MS_MAX: Final = 60_000
MESSAGES_MAX: Final = 1000  # Of one receive.
RECEIPTS_MAX: Final = 10_000  # Of one answer.

Act = Callable[[BatchConsumer, list[Run]], Work[Any]]
Held = tuple[Place, str]  # What a receipt stands for, and the receipt.


class Receive(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"way": "as"}):
    """How many messages to take, how long to wait for the first, and how long they stay on loan."""

    max_messages: Annotated[int, Meta(ge=1, le=MESSAGES_MAX)] = 1
    wait: Duration = 0  # Up to 60 s.
    visibility: Duration | None = None  # None: as the group has it.
    way: As = "base64"


class Lent(Stored, frozen=True, kw_only=True):
    """A message on loan."""

    attempt: int
    receipt: str | None  # None: it was settled when it was delivered (at most once).


class Received(msgspec.Struct, frozen=True):
    """What there was."""

    messages: list[Lent]


class Receipts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Messages on loan, by one receipt or by many."""

    receipt: str | None = None
    receipts: Annotated[list[str], Meta(max_length=RECEIPTS_MAX)] | None = None


class Ack(Receipts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The work is done."""


class Nack(Receipts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The work failed: deliver again after the delay, or after the group's backoff."""

    delay: Duration | None = None
    error: str | None = None


class Reject(Receipts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The messages are no good: to the dead letters."""

    reason: str


class Extend(Receipts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keep the messages, and the others of their leases, for so long from now."""

    duration: Duration


class Result(msgspec.Struct, frozen=True):
    """What became of one receipt."""

    receipt: str
    ok: bool
    problem: Problem | None = None


class Answered(msgspec.Struct, frozen=True):
    """A result for each receipt, in their order."""

    results: list[Result]


async def receive(call: Call) -> Received:
    """Take messages on loan; waits for the first if there is none."""
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
        with call.stay() as stay:
            batches = await consumers.receive(consumer, wanted.max_messages, wait_ms, call.lost)
        if stay.error is not None:
            raise stay.error
    return Received(lent(call, consumer.number, batches, wanted.way))


def lent(call: Call, consumer: int, batches: list[LeasedBatch], way: As) -> list[Lent]:
    """The messages of leases, with their receipts."""
    topic = call.topic
    found: list[Lent] = []
    for batch in batches:
        receipt = call.shared.receipts.writer(consumer, batch.partition, batch.lease)
        found += [
            Lent(
                id=f"{topic}:{batch.partition}:{record.offset}",
                topic=topic,
                partition=batch.partition,
                offset=record.offset,
                timestamp=record.timestamp,
                priority=LANE_NAMES[lane_of(record.attributes)],
                attempt=batch.attempt,
                receipt=receipt(record.offset) if batch.lease >= 0 else None,
                **content(record.key, record.value, _headers(record), way),
            )
            for record in records_between(batch.data, batch.start, batch.end)
        ]
    return found


def _headers(record: Record) -> dict[str, str]:
    return {
        name: "" if value is None else value.decode("utf-8", "surrogateescape")
        for name, value in record.headers
    }


async def ack(call: Call) -> Answered:
    """The work is done: do not deliver these again."""
    return await _answer(call, lambda consumer, runs: consumer.ack(runs))


async def nack(call: Call) -> Answered:
    """The work failed: deliver these again after the delay, or after the group's backoff."""
    told: Nack = call.body
    delay_ms = None if told.delay is None else duration_ms("delay", told.delay)
    failure = describe_error(told.error)
    return await _answer(call, lambda consumer, runs: consumer.nack(runs, delay_ms, failure))


async def reject(call: Call) -> Answered:
    """These are no good: straight to the dead letters."""
    told: Reject = call.body
    return await _answer(call, lambda consumer, runs: consumer.reject(runs, told.reason))


async def extend(call: Call) -> Answered:
    """Keep these, and the others of their leases, for so long from now."""
    told: Extend = call.body
    kept_ms = extension_ms(told.duration)

    def keep(consumer: BatchConsumer, runs: list[Run]) -> Work[Any]:
        [(partition, lease, start, _)] = runs
        if (yield from consumer.extend([(partition, lease)], kept_ms)):
            raise LeaseLost(topic=call.topic, partition=partition, offset=start)

    return await _answer(call, keep)


# Answering, whatever the answer is.


async def _answer(call: Call, act: Act) -> Answered:
    permit(call)
    told: Receipts = call.body
    if (told.receipt is None) == (told.receipts is None):
        raise RequestInvalid(part="body", why="give either a receipt, or a list of receipts")
    if told.receipt is not None:
        place = call.shared.receipts.read(told.receipt)
        await call.run(act(_holder(call, place, told.receipt), [_run([(place, told.receipt)])]))
        return Answered([Result(told.receipt, ok=True)])
    outcomes = await _answer_all(call, list(dict.fromkeys(told.receipts or [])), act)
    return Answered(
        [
            Result(receipt, ok=error is None, problem=None if error is None else problem(error))
            for receipt, error in outcomes.items()
        ]
    )


async def _answer_all(call: Call, receipts: list[str], act: Act) -> dict[str, PenstockError | None]:
    outcomes: dict[str, PenstockError | None] = dict.fromkeys(receipts)
    runs: list[tuple[BatchConsumer, list[Held]]] = []
    for run in _runs(sorted(_known(call, receipts, outcomes))):
        try:
            runs.append((_holder(call, *run[0]), run))
        except PenstockError:
            outcomes.update((receipt, _missed(call, place, receipt)) for place, receipt in run)
    again: list[tuple[BatchConsumer, Held]] = []
    tried = await _try_all(call, [act(consumer, [_run(run)]) for consumer, run in runs])
    for (consumer, run), missed in zip(runs, tried, strict=True):
        if missed is not None and len(run) > 1:
            again += [(consumer, held) for held in run]
        elif missed is not None:
            outcomes[run[0][1]] = missed
    tried = await _try_all(call, [act(consumer, [_run([held])]) for consumer, held in again])
    outcomes.update((receipt, missed) for (_, (_, receipt)), missed in zip(again, tried, strict=True))
    return outcomes


def _known(
    call: Call, receipts: list[str], outcomes: dict[str, PenstockError | None]
) -> Iterator[tuple[Place, str]]:
    """What receipts stand for; those that stand for nothing have their outcome."""
    read = call.shared.receipts.read
    for receipt in receipts:
        try:
            yield read(receipt), receipt
        except ReceiptUnknown as error:
            outcomes[receipt] = error


def _runs(held: list[Held]) -> Iterator[list[Held]]:
    """Neighbours of one lease, together."""
    run: list[Held] = []
    following: tuple[int, ...] = ()
    for place, receipt in held:
        if run and place != following:
            yield run
            run = []
        run.append((place, receipt))
        consumer, partition, lease, offset = place
        following = consumer, partition, lease, offset + 1
    if run:
        yield run


def _run(held: list[Held]) -> Run:
    """Neighbours as the broker has them."""
    first, last = held[0][0], held[-1][0]
    return first.partition, first.lease, first.offset, last.offset + 1


async def _try_all(call: Call, works: list[Work[Any]]) -> list[PenstockError | None]:
    """What each was refused with, if it was."""
    return [ended if isinstance(ended, PenstockError) else None for ended in await call.run_all(works)]


def _holder(call: Call, place: Place, receipt: str) -> BatchConsumer:
    """The consumer that holds what a receipt stands for; it may have lost it since."""
    consumer = call.shared.consumers.get(place.consumer)
    if consumer is None:
        raise LeaseLost(topic=call.topic, partition=place.partition, offset=place.offset)
    if consumer.key[:3] != (call.operations, call.topic, call.group):
        raise ReceiptUnknown(receipt=receipt)
    return consumer.inner


def _missed(call: Call, place: Place, receipt: str) -> PenstockError:
    """Why nobody holds it."""
    try:
        _holder(call, place, receipt)
    except PenstockError as error:
        return error
    raise AssertionError("it was asked before")


def permit(call: Call) -> None:
    """Refuse whoever may not consume here, before a receipt is looked at: a guard asks when work is made."""
    call.operations.batch_consumer(call.topic, call.group, None, None, {}).close()
