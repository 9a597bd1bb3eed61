"""A consumer on one stream: every request gets a response with its id, in any order.

    client ──> open ──> receive, receive, ack, nack, ... ──> closes its side
    server ──> opened ──> received, done, error, assignment ... ──> closed

The server sends messages only as answers to ``receive``, so the client controls how many are in flight.
``_read`` begins the operation of each request; its callback puts the answer into a queue, which ``_write``
sends.  gRPC allows one write at a time, and each waits while the client does not read.

The stream has its own consumer.  If the client closes its side, requests that were
sent are answered, what is unsettled is given back, and the attempt does not count.  If the call
is cancelled, its deadline passes or the connection is lost, it is given back at once and the
attempt counts.

Limits: ``REQUESTS_MAX`` requests whose answer is not sent; no more are read until some are.
``RECEIVES_MAX`` of them may be ``receive``: another one is refused if all of them wait for messages; if
responses are ready, it waits until one is sent.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from grpc.aio import EOF, BaseError

from penstock.api.work import Work
from penstock.broker.frontend import BatchConsumer, Running, ignore_result
from penstock.errors import GroupKindMismatch, LeaseLost, Overloaded, PenstockError, ProtocolViolation
from penstock.frontends.grpc.call import GrpcCall
from penstock.frontends.grpc.errors import in_stream
from penstock.frontends.grpc.messages import add_leases, group_options, message_of, run_of
from penstock.grpc import penstock_pb2 as pb
from penstock.model.failure import describe_error
from penstock.operations.consumers import ConsumerOptions
from penstock.types import extension_ms

REQUESTS_MAX: Final = 64
RECEIVES_MAX: Final = 4  # Each may bring some megabytes.
WAIT_MS_MAX: Final = 3_600_000  # Of one receive; a longer wait equals this one followed by another.
DONE: Final = pb.Empty()

logger = logging.getLogger("penstock")


async def consume(call: GrpcCall, _: object) -> None:
    """One consumer, from the first request to the last answer."""
    async with call.until_ended():
        first = await call.context.read()
    if first is EOF:
        return
    if isinstance(first, PenstockError):
        raise first
    if first.WhichOneof("request") != "open":
        raise ProtocolViolation(why="the first request of a stream opens the consumer")
    stream = ConsumeStream(call)
    admitted = call.shared.gateway.enter(call.identity, stream.end)
    call.shared.ends.add(stream.end)
    try:
        await stream.last(first)
    finally:
        call.shared.ends.discard(stream.end)
        admitted.leave()


class ConsumeStream:
    """One Consume stream: its consumer, its window and its settlements."""

    def __init__(self, call: GrpcCall) -> None:
        self._call = call
        self._broker = call.shared.broker
        self._inner: BatchConsumer
        self._topic = ""
        self._answers: deque[pb.ConsumeResponse] = deque()
        self._ready = asyncio.Event()  # Set when there is a response, or the stream ends.
        self._room = asyncio.Event()  # Set when another request may be read.
        self._open = 0  # Requests whose response was not sent.
        self._receives: set[Running] = set()  # Receives that wait for messages.
        self._received = 0  # Responses to receives that were not sent yet.
        self._read_all = False
        self._gone = False  # The client has left.
        self._error: PenstockError | None = None  # Why the server ends the stream.

    def end(self, error: PenstockError) -> None:
        """End the stream, because the server stops or the key was revoked."""
        self._error = error
        self._ready.set()

    async def last(self, first: pb.ConsumeRequest) -> None:
        """Serve until the client has closed its side and everything is answered, or either side ends it."""
        wanted = first.open
        self._topic = wanted.topic
        limit = wanted.max_in_flight if wanted.HasField("max_in_flight") else None
        options = ConsumerOptions(
            consumer_id=wanted.consumer_id or None,
            max_in_flight=limit,
            group=group_options(wanted.settings),
        )
        work = self._call.operations.batch_consumer(wanted.topic, wanted.group, options)
        self._inner = inner = await self._call.run(work)
        lost = True
        try:
            self._opened(first.id)
            async with asyncio.TaskGroup() as tasks:
                reading = tasks.create_task(self._read())
                await self._write()
                reading.cancel()
            if self._error is None:  # A call that was cancelled has also no more requests; but this fails.
                await self._send(pb.ConsumeResponse(closed=DONE))
            lost = self._gone
        finally:
            for running in self._receives:
                running.call_off()
            if not inner.closed:
                self._broker.start(inner.disconnect() if lost else inner.close(), ignore_result)
        if self._error is not None:
            raise self._error

    def _opened(self, identity: int) -> None:
        inner = self._inner
        if inner.kind == "stream":
            inner.tell_assignment(self._assigned)
        else:
            inner.want_records()
        opened = pb.Opened(
            consumer_id=inner.identity,
            kind=inner.kind,
            visibility_ms=inner.visibility_ms,
            session_ms=inner.session_ms,
            assignment=inner.assignment,
        )
        self._open += 1
        self._answer(pb.ConsumeResponse(id=identity, opened=opened))

    def _assigned(self, partitions: list[int]) -> None:
        if self._answers and not self._answers[-1].id and self._answers[-1].HasField("assignment"):
            self._answers.pop()  # The client has not read the previous one.
        else:
            self._open += 1
        self._answer(pb.ConsumeResponse(assignment=pb.Assignment(partitions=partitions)))

    # Out.

    async def _write(self) -> None:
        answers = self._answers
        while True:
            while answers and self._error is None and not self._gone:
                response = answers.popleft()
                await self._send(response)
                self._open -= 1
                self._received -= response.HasField("received")
                self._room.set()
            if self._error is not None or self._gone or (self._read_all and not self._open):
                return
            self._ready.clear()
            await self._ready.wait()

    async def _send(self, response: pb.ConsumeResponse) -> None:
        try:
            await self._call.context.write(response)
        except BaseError:
            self._gone = True

    def _answer(self, response: pb.ConsumeResponse) -> None:
        self._answers.append(response)
        self._ready.set()

    def _refuse(self, identity: int, error: BaseException) -> None:
        if not isinstance(error, PenstockError):
            logger.error("a request of a gRPC stream failed", exc_info=error)
            error = PenstockError(reason="internal error; see the server's log")
        self._answer(pb.ConsumeResponse(id=identity, error=in_stream(error)))

    # In.

    async def _read(self) -> None:
        try:
            await self._read_on()
        except BaseError:
            self._gone = True
        self._read_all = True
        self._ready.set()

    async def _read_on(self) -> None:
        read = self._call.context.read
        while (request := await read()) is not EOF:
            self._open += 1
            if isinstance(request, PenstockError):
                self._refuse(0, request)
            else:
                while request.HasField("receive") and self._must_send():
                    await self._sent()
                self._begin(request)
            while self._open >= REQUESTS_MAX:
                await self._sent()

    def _must_send(self) -> bool:
        """Whether a response has to be sent before another receive."""
        return self._received > 0 and self._received + len(self._receives) >= RECEIVES_MAX

    async def _sent(self) -> None:
        self._room.clear()
        await self._room.wait()

    def _begin(self, request: pb.ConsumeRequest) -> None:
        kind = request.WhichOneof("request")
        try:
            if kind == "receive":
                self._receive(request.id, request.receive)
            elif kind == "heartbeat":
                self._heartbeat(request.id)
            elif kind is None or kind == "open":
                raise ProtocolViolation(why="a request is one of receive, ack, nack, reject, extend, ...")
            else:
                work = WORKS[kind](self._inner, self._topic, getattr(request, kind))
                self._broker.start(work, partial(self._done, request.id))
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends one request.
            self._refuse(request.id, error)

    def _done(self, identity: int, _: Any, error: BaseException | None) -> None:
        if error is None:
            self._answer(pb.ConsumeResponse(id=identity, done=DONE))
        else:
            self._refuse(identity, error)

    def _receive(self, identity: int, wanted: pb.Receive) -> None:
        if len(self._receives) >= RECEIVES_MAX:
            raise Overloaded(what="receives of one stream", limit=RECEIVES_MAX)
        running: Running | None = None
        ended = False

        def then(batches: Any, error: BaseException | None) -> None:
            nonlocal ended
            ended = True
            if running is not None:
                self._receives.discard(running)
            if error is not None:
                self._refuse(identity, error)
                return
            response = pb.ConsumeResponse(id=identity)
            response.received.SetInParent()
            add_leases(response.received, batches)
            self._received += 1
            self._answer(response)

        wait_ms = min(max(wanted.wait_ms, 0), WAIT_MS_MAX)
        running = self._broker.start(self._inner.receive(wanted.max_messages or 1, wait_ms), then)
        if not ended:
            self._receives.add(running)

    def _heartbeat(self, identity: int) -> None:
        if self._inner.kind != "stream":
            raise GroupKindMismatch(operation="heartbeat", kind=self._inner.kind, group=self._topic)
        partitions = self._inner.heartbeat()
        self._answer(pb.ConsumeResponse(id=identity, assignment=pb.Assignment(partitions=partitions)))


# What settles messages, here and in single calls (polling.py).


def ack(inner: BatchConsumer, _: str, wanted: pb.Settle) -> Work[None]:
    runs = [run_of(each) for each in wanted.ranges]
    if not wanted.outputs:
        return inner.ack(runs)
    return inner.ack_and_publish(runs, [(each.topic, message_of(each.message)) for each in wanted.outputs])


def nack(inner: BatchConsumer, _: str, wanted: pb.Failed) -> Work[None]:
    delay_ms = wanted.delay_ms if wanted.HasField("delay_ms") else None
    runs = [run_of(each) for each in wanted.ranges]
    return inner.nack(runs, delay_ms, describe_error(wanted.error))


def reject(inner: BatchConsumer, _: str, wanted: pb.Refused) -> Work[None]:
    return inner.reject([run_of(each) for each in wanted.ranges], wanted.reason)


def extend(inner: BatchConsumer, topic: str, wanted: pb.Longer) -> Work[None]:
    kept_ms = extension_ms(wanted.duration_ms / 1000)
    starts = {(each.partition, each.lease): each.start for each in wanted.ranges}
    for partition, lease in (yield from inner.extend(list(starts), kept_ms)):
        raise LeaseLost(topic=topic, partition=partition, offset=starts[partition, lease])


def commit(inner: BatchConsumer, _: str, wanted: pb.Commit) -> Work[None]:
    return inner.commit(dict(wanted.offsets))


WORKS: Final[dict[str, Callable[[BatchConsumer, str, Any], Work[None]]]] = {
    "ack": ack,
    "nack": nack,
    "reject": reject,
    "extend": extend,
    "commit": commit,
}
