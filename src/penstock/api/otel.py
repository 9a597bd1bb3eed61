"""Spans of what a program publishes, receives and works on, through the OpenTelemetry it has set up.

    publish orders ──┬── traceparent, in the message's headers ──> process orders
      PRODUCER       └── link ──> receive orders                     CONSUMER, in the trace of the publish
                                    CLIENT

The context goes with the message, through the log, retries, dead letters and
redrives, and comes out wherever the message is worked on: in ``with message:``, or
in a worker's function.  A message that has its own ``traceparent`` keeps it.  Names
and attributes are those of OpenTelemetry's conventions for messaging.

This module is imported only by a program that has OpenTelemetry (``spans.py``).
What a span is about is read when it begins, in the caller's own context; the work
itself may go on in another thread.
"""

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from opentelemetry import context, propagate, trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

from penstock.api.work import Work
from penstock.clock import SystemClock
from penstock.model.message import Delivered, Delivery, Message, Receipt
from penstock.version import __version__
from penstock.wire.records import Record

TRACEPARENT: Final = "traceparent"
SYSTEM: Final = "penstock"
OPERATION_TYPES: Final = {"publish": "send", "receive": "receive", "process": "process"}
KINDS: Final = {
    "publish": SpanKind.PRODUCER,
    "receive": SpanKind.CLIENT,
    "process": SpanKind.CONSUMER,
}
LINKS_MAX: Final = 100  # Of one span: a receive may bring thousands of messages.


def begin(operation: str, topic: str, **options: Any) -> Span:
    """A span of an operation on a topic."""
    attributes = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": OPERATION_TYPES[operation],
        "messaging.destination.name": str(topic),
        **options.pop("attributes", {}),
    }
    tracer = trace.get_tracer("penstock", __version__)
    return tracer.start_span(f"{operation} {topic}", kind=KINDS[operation], attributes=attributes, **options)


def finish(span: Span, error: BaseException | None) -> None:
    """The end of it, good or bad."""
    if isinstance(error, Exception):
        span.record_exception(error)
        span.set_attribute("error.type", type(error).__name__)
        span.set_status(Status(StatusCode.ERROR, str(error)))
    span.end()


def context_of(message: Delivered) -> context.Context:
    """What came with a message."""
    return propagate.extract(message.headers)


def carrying(message: Any, of: context.Context) -> Any:
    """The message with a context in its headers, unless it has its own; the caller's stays as it is."""
    headers = message.headers if isinstance(message, Message) else None
    if headers is not None and (not isinstance(headers, Mapping) or TRACEPARENT in headers):
        return message
    added: dict[str, str] = {}
    propagate.inject(added, of)
    if not added:
        return message
    if not isinstance(message, Message):
        return Message(message, headers=added)
    return Message(
        message.value, message.key, {**(headers or {}), **added}, message.priority, message.ttl,
        message.delay, message.deliver_at, message.dedup_id, message.partition,
    )  # fmt: skip


class Sending:
    """A publish: its span, and the messages that carry it."""

    def __init__(self, topic: str, messages: Iterable[Any]) -> None:
        before = list(messages)
        count = {} if len(before) == 1 else {"messaging.batch.message_count": len(before)}
        self.span = begin("publish", topic, attributes=count)
        of = trace.set_span_in_context(self.span)
        self.messages = [carrying(message, of) for message in before]

    def end(self, receipts: list[Receipt], error: BaseException | None) -> None:
        if len(receipts) == 1 and isinstance(receipts[0], Receipt):
            self.span.set_attribute("messaging.message.id", receipts[0].id)
            self.span.set_attribute("messaging.destination.partition.id", str(receipts[0].partition))
        finish(self.span, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self.end([], error)


class TracedProducer:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def publish(self, topic: str, message: Message) -> Work[Receipt]:
        """Publish one message under the next number of its partition."""
        return _publish_one(Sending(topic, [message]), lambda sent: self._inner.publish(topic, sent))


class TracedOperations:
    """The operations of a broker; what makes no span is passed on."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def publish(self, topic: str, message: Message, *more: Any) -> Work[Receipt]:
        return _publish_one(Sending(topic, [message]), lambda sent: self._inner.publish(topic, sent, *more))

    def publish_batch(self, topic: str, messages: Iterable[Any], *more: Any) -> Work[list[Receipt]]:
        """Publish many messages: one span, whose context all of them carry."""
        return self._publish_batch(topic, Sending(topic, messages), *more)

    def _publish_batch(self, topic: str, sending: Sending, *more: Any) -> Work[list[Receipt]]:
        with sending:
            receipts = yield from self._inner.publish_batch(topic, sending.messages, *more)
            sending.end(receipts, None)
        return list(receipts)

    def producer(self, *arguments: Any) -> Work[TracedProducer]:
        return TracedProducer((yield from self._inner.producer(*arguments)))

    def consumer(
        self,
        topic: str,
        group: str,
        consumer_id: Any,
        max_in_flight: Any,
        options: Any,
        wrap: Callable[[Delivery, list[Record]], list[Any]],
        *more: Any,
    ) -> Work["TracedConsumer"]:
        """A consumer, whose messages know when they are worked on."""
        watch = ProcessSpan()

        def watched(delivery: Delivery, records: list[Record]) -> list[Any]:
            delivery.watch = watch
            return wrap(delivery, records)

        made = yield from self._inner.consumer(
            topic, group, consumer_id, max_in_flight, options, watched, *more
        )
        return TracedConsumer(made, topic, group)


class TracedConsumer:
    """One consumer of a group."""

    def __init__(self, inner: Any, topic: str, group: str) -> None:
        self._inner = inner
        self._topic = topic
        self._group = group

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def settler(self) -> Any:
        """What received messages answer to."""
        return self._inner.settler

    @settler.setter
    def settler(self, settler: Any) -> None:
        self._inner.settler = settler

    def receive(self, max_messages: Any, wait_ms: int) -> Work[list[Any]]:
        """Messages, with a span if there are any; it is not the waiting that is of interest."""
        return self._receive(
            max_messages, wait_ms, context.get_current(), SystemClock().wall_ms() * 1_000_000
        )

    def _receive(
        self, max_messages: Any, wait_ms: int, of: context.Context, began_ns: int
    ) -> Work[list[Any]]:
        messages: list[Any] = yield from self._inner.receive(max_messages, wait_ms)
        if messages:
            attributes = {
                "messaging.consumer.group.name": self._group,
                "messaging.batch.message_count": len(messages),
            }
            links = _links([context_of(message) for message in messages[:LINKS_MAX]])
            span = begin(
                "receive", self._topic, context=of, links=links, attributes=attributes, start_time=began_ns
            )
            span.end()
        return messages

    def ack(self, messages: list[Any], outputs: list[tuple[str, Message]]) -> Work[None]:
        """Settle; messages published atomically with it carry the context of the ack."""
        of = context.get_current()
        carried = [(topic, carrying(message, of)) for topic, message in outputs]
        work: Work[None] = self._inner.ack(messages, carried)
        return work


class ProcessSpan:
    """Makes spans of the work on messages of one consumer."""

    def __init__(self) -> None:
        self._at_work: dict[int, tuple[Span, Any]] = {}  # By the identity of the message.

    def begin(self, message: Delivered) -> None:
        """Processing begins: from now on, in this context, its span is the current one."""
        if id(message) in self._at_work:
            return  # A block inside another one is the same work.
        attributes = {
            "messaging.consumer.group.name": message.group,
            "messaging.destination.partition.id": str(message.partition),
            "messaging.message.id": message.id,
            "messaging.message.body.size": len(message.value),
            "messaging.penstock.attempt": message.attempt,
        }
        links = _links([context.get_current()])
        of = context_of(message)
        span = begin("process", message.topic, context=of, links=links, attributes=attributes)
        token = context.attach(trace.set_span_in_context(span))
        self._at_work[id(message)] = (span, token)

    def end(self, message: Delivered, error: BaseException | str | None) -> None:
        found = self._at_work.pop(id(message), None)
        if found is None:
            return
        span, token = found
        context.detach(token)
        if isinstance(error, str):
            span.set_status(Status(StatusCode.ERROR, error))
            error = None
        finish(span, error)


def _links(contexts: list[context.Context]) -> list[Link]:
    """Links to the spans of these contexts, to each once."""
    found = [trace.get_current_span(of).get_span_context() for of in contexts]
    different = {(span.trace_id, span.span_id): span for span in found if span.is_valid}
    return [Link(span) for span in different.values()]


def _publish_one(sending: Sending, publish: Callable[[Any], Work[Receipt]]) -> Work[Receipt]:
    with sending:
        receipt = yield from publish(sending.messages[0])
        sending.end([receipt], None)
    return receipt
