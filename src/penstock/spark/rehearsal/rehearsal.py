"""Runs a worker function over stored messages, and captures its effects on the broker.

    row ──> WorkerMessage ──> function(message) ──> done, failed or rejected; outputs; duration
                                  │
              ack, nack, reject, extend: only recorded
              penstock.connect(): a client that records what is published and refuses other calls

Runs in Spark's Python workers, one message at a time.  A function sees each message as its
first delivery.  Side effects other than on the broker are real.

``outputs`` are the messages published with the ack, which the journal also has of the real
run; ``published`` are those sent by a client of the function's own, which cannot be
compared.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from penstock.clock import stopwatch_ns
from penstock.model.failure import describe_error
from penstock.model.message import Delivered, Delivery, Message
from penstock.spark.queries.message_outcomes import Sending, outputs_text
from penstock.spark.rehearsal.capture import (
    AsyncSettlementRecorder,
    PublishRecorder,
    SettlementRecorder,
    captured,
)
from penstock.wire.records import Headers, Record, lane_attributes
from penstock.workers.executors import finish
from penstock.workers.message import AsyncWorkerMessage, WorkerMessage
from penstock.workers.outcome import Failed, Outcome, Rejected, call_async, call_plain

RESULT: Final = (
    "outcome string, error_class string, error string, outputs string, published string, "
    "milliseconds double"
)  # fmt: skip
ARGUMENTS: Final = (
    "topic", "partition", "offset", "unix_millis(timestamp)", "key", "value", "headers", "lane",
)  # fmt: skip
REJECTED: Final = "rejected"
WORDS: Final = {Failed: "failed", Rejected: REJECTED}  # Of outcomes; all others are "done".


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A function to run over messages; a UDF of Spark, so it is shipped to the executors."""

    function: Callable[..., Any]
    is_async: bool
    group: str
    timeout_ms: int | None  # Of an async function; a plain one cannot be interrupted.

    def __call__(
        self, topic: str, partition: int, offset: int, timestamp_ms: int,
        key: bytes | None, value: bytes | None, headers: dict[str, bytes | None] | None, lane: int,
    ) -> tuple[str, str, str, str, str, float]:  # fmt: skip
        """The result of one message, as a row of ``RESULT``; the arguments are ``ARGUMENTS``."""
        record = Record(
            offset, timestamp_ms, key, value, list((headers or {}).items()), lane_attributes(lane)
        )
        delivery = Delivery(topic, partition, self.group, 0, offset, offset + 1, 1, SettlementRecorder())
        answers, sent = SettlementRecorder(), PublishRecorder()
        begun_ns = stopwatch_ns()
        with captured(sent):
            outcome = loop().run_until_complete(self._call(Delivered(delivery, record), answers))
        milliseconds = (stopwatch_ns() - begun_ns) / 1e6
        outcome = outcome if answers.outcome is None else answers.outcome
        outputs, published = outputs_text(_plain(answers.outputs)), outputs_text(_plain(sent.messages))
        return WORDS.get(type(outcome), "done"), *_error(outcome), outputs, published, milliseconds

    async def _call(self, delivered: Delivered, answers: "SettlementRecorder") -> Outcome:
        if not self.is_async:
            return await finish(call_plain(self.function, (WorkerMessage(delivered, answers),)))
        message = AsyncWorkerMessage(delivered, AsyncSettlementRecorder(answers))
        call = call_async(self.function, (message,))
        if self.timeout_ms is None:
            return await call
        try:
            return await asyncio.wait_for(call, self.timeout_ms / 1000)
        except TimeoutError as error:
            return Failed(error)


@cache
def loop() -> asyncio.AbstractEventLoop:
    """The event loop of this process, which is for functions alone."""
    return asyncio.new_event_loop()


def _error(outcome: Outcome) -> tuple[str, str]:
    """Class and message of an error, as in the journal."""
    if isinstance(outcome, Rejected):
        return REJECTED, outcome.reason
    if isinstance(outcome, Failed):
        failure = describe_error(outcome.error)
        return failure.error_class, failure.message
    return "", ""


def _plain(messages: Iterable[tuple[str, Message]]) -> Iterator[Sending]:
    for topic, message in messages:
        headers: Headers = [(name, _bytes(each)) for name, each in (message.headers or {}).items()]
        yield topic, _bytes(message.key), message.value, headers


def _bytes(text: str | bytes | None) -> bytes | None:
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
