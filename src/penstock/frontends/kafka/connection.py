"""One connection of Kafka's protocol: splits frames, calls handlers, sends responses in request order.

    data_received ──> frames ──> begin: decode, handler(call)
                                     │ at once, by a task, or when the broker calls back
    transport.write <── joined:      ┴ answered: in order
                        when nothing more is in flight, or the turn ends

    I1  answers leave in the order of their requests
    I2  a request begins when all before it are answered, or when it and they are pipelined (Produce): so a
        client sees what it did before, and a producer's batches reach the log in their order

A fetch that waits for messages would delay the requests after it; ``hurry`` makes it answer with what there
is.  A frame that cannot be decoded closes the connection, as it does in Kafka: what follows it cannot be
trusted.

Its own limits are the number of requests that wait and their bytes; the others are those of every
``ServerConnection``.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Coroutine, Mapping
from typing import Any, Final

from penstock.errors import Closed, PenstockError, ProtocolViolation
from penstock.frontends.foreign import http_refusal, is_http, spoken
from penstock.frontends.framed import FramedListener, ServerConnection
from penstock.frontends.kafka.call import Api, KafkaCall, Later
from penstock.frontends.kafka.errors import code_of
from penstock.frontends.kafka.session import KafkaSession
from penstock.transport.frames import LENGTH_BYTES, Frame
from penstock.types import mypyc_attr
from penstock.wire.kafka.codec import decode, encode
from penstock.wire.kafka.fields import KafkaMessage
from penstock.wire.kafka.frames import (
    API_VERSIONS,
    Head,
    message_begin,
    read_head,
    response_frame,
)

KEY_END: Final = LENGTH_BYTES + 2  # Where the key of the first request ends.
WAITING_MAX: Final = 1000  # Requests of one connection that were read and have not begun.


@mypyc_attr(allow_interpreted_subclasses=True)
class KafkaHost(FramedListener["KafkaConnection"]):
    """The part of the listener that a connection uses."""

    apis: Mapping[int, Api]

    def session(self) -> KafkaSession:
        raise NotImplementedError


class KafkaConnection(ServerConnection):
    def __init__(self, host: KafkaHost) -> None:
        super().__init__(host, LENGTH_BYTES)
        self.session = host.session()
        self.apis = host.apis
        self._waiting_bytes = 0  # Of the frames that have not begun.
        self._begun: deque[KafkaCall[Any]] = deque()  # The requests in flight, in their order.
        self._alone = 0  # How many of them are not pipelined: one at most.
        self._tasks: set[asyncio.Task[None]] = set()
        self._working = False  # ``proceed`` is on the stack: an answer at once does not call it again.

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        session = self.session
        session.address = self.address
        session.reached = (transport.get_extra_info("sockname") or ("?", 0))[:2]
        session.end = self.end
        session.trust = self.trust

    def start(self, data: bytes) -> bool:
        """Refuse a connection that begins as another protocol; its bytes make no sense as a length."""
        if is_http(data):
            self.send(http_refusal("Kafka"))
        elif len(data) < KEY_END or int.from_bytes(data[LENGTH_BYTES:KEY_END], "big") in self.apis:
            return True
        self.refuse(ProtocolViolation(why=f"this port speaks Kafka's, and this looks like {spoken(data)}"))
        return False

    def take(self, frames: list[Frame]) -> None:
        for _, body in frames:
            self._waiting_bytes += len(body)
        self._frames.extend(frames)
        self.proceed()

    def lost(self) -> None:
        for task in self._tasks:
            task.cancel()
        for call in list(self._begun):
            if call.hurry is not None:
                call.hurry()  # There is no client to answer.
        self._begun.clear()
        self.session.leave()

    # Requests.

    def proceed(self) -> None:
        if self._working:
            return
        self._working = True
        while self._frames and not self._ending and self.writable and self._begin(self._frames[0][1]):
            pass
        self._working = False
        self._send()
        first = self._begun[0] if self._frames and self._begun else None
        if first is not None and first.hurry is not None and not first.api.waits:
            first.hurry()
        self._set_reading()
        if self._draining:
            self._end_if_drained()

    def _begin(self, body: bytes) -> bool:
        """Start a request; False if it has to wait for earlier ones."""
        if self.session.bare is not None:
            return self._begin_bare(body)
        frame = memoryview(body)
        try:
            head = read_head(frame)
            api = self.apis.get(head.key)
            if self._begun and (api is None or not api.pipelined or self._alone):
                return False
            self._frames.popleft()
            self._waiting_bytes -= len(body)
            call = self._call(api, head, frame)
        except PenstockError as error:
            self.refuse(error)
            return False
        self._begun.append(call)
        self.in_flight += 1
        if not call.api.pipelined:
            self._alone += 1
        self._handle(call)
        return True

    def _begin_bare(self, body: bytes) -> bool:
        """Start a frame of a login without Kafka's messages; it waits for the response to the one before."""
        if not self._begun and not self._tasks:
            self._frames.popleft()
            self._waiting_bytes -= len(body)
            task = self._loop.create_task(self._answer_bare(body))
            self._tasks.add(task)
            task.add_done_callback(self._end_bare)
        return False

    async def _answer_bare(self, token: bytes) -> None:
        assert self.session.bare is not None
        try:
            answer = await self.session.bare(token)
        except PenstockError as error:
            self.refuse(error)
            return
        self.send_now(len(answer).to_bytes(LENGTH_BYTES, "big") + answer)

    def _end_bare(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.proceed()

    def _call(self, api: Api | None, head: Head, frame: memoryview) -> KafkaCall[Any]:
        if api is None:
            raise ProtocolViolation(why=f"there is no API {head.key}")
        version = head.version
        if not self.session.known and not api.unauthenticated:
            raise ProtocolViolation(why=f"{api.request.__name__} requires a login first")
        first, last = api.offered
        if not first <= version <= last:
            if head.key != API_VERSIONS:
                raise ProtocolViolation(why=f"{api.request.__name__} v{version} is not offered")
            # The one request that a client makes before it knows which versions there are.
            return KafkaCall(api, 0, head.correlation, head.client_id, None, self.session, self)
        begin = message_begin(frame, head, version >= api.flexible)
        request = decode(api.request, version, frame, begin)
        return KafkaCall(api, version, head.correlation, head.client_id, request, self.session, self)

    def _handle(self, call: KafkaCall[Any]) -> None:
        try:
            answer = call.api.handler(call)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends one request.
            self.refused(call, error)
            return
        if isinstance(answer, KafkaMessage):
            self.answered(call, answer)
        elif not isinstance(answer, Later):
            task = self._loop.create_task(self._await(call, answer))
            self._tasks.add(task)
            task.add_done_callback(lambda done: self._forget(done, answer))
            if call.api.waits:
                call.hurry = task.cancel

    def _forget(self, task: asyncio.Task[None], answer: Awaitable[KafkaMessage]) -> None:
        self._tasks.discard(task)
        if isinstance(answer, Coroutine):
            answer.close()  # A task that is cancelled before its first turn has never awaited it.

    async def _await(self, call: KafkaCall[Any], answer: Awaitable[KafkaMessage]) -> None:
        try:
            response = await answer
        except asyncio.CancelledError:
            if not self._ending:
                self.refused(call, Closed(what="server"))
            raise
        except Exception as error:  # noqa: BLE001 - as above.
            self.refused(call, error)
        else:
            self.answered(call, response)

    # Answers.

    def answered(self, call: KafkaCall[Any], response: KafkaMessage | None) -> None:
        """Take the response of a call; it is sent after those of earlier requests."""
        assert call.parts is None, "a request is answered once"
        if response is None:
            call.parts = []
        else:
            api, version = call.api, call.version
            parts = encode(response, version)
            call.parts = response_frame(api.key, call.correlation, version >= api.flexible, parts)
        while self._begun and self._begun[0].parts is not None:
            first = self._begun.popleft()
            self.in_flight -= 1
            if not first.api.pipelined:
                self._alone -= 1
            if first.parts:
                self._put(first.parts)
        if self._frames or self._draining:
            self.proceed()
        elif not self._working:
            self._send()

    def refused(self, call: KafkaCall[Any], error: BaseException) -> None:
        """Take the error of a call that has failed as a whole."""
        code = code_of(error)
        response = call.api.refused(call.request, code)
        if response is None:
            assert isinstance(error, PenstockError), "a fault, which is in the log"
            self.refuse(error)
        else:
            self.answered(call, response)

    def _put(self, parts: list[Any]) -> None:
        """Add a response to the next write."""
        if self._ending:
            return
        for part in parts:
            self._out.append(part)
            self._out_bytes += len(part)
        if self._out_bytes >= self._unsent_bytes_max:
            self._flush(turn_ends=False)

    def _send(self) -> None:
        """Write the responses: at once if nothing is in flight, otherwise at the end of the turn."""
        if not self._out:
            return
        if not self._begun:
            self._flush(turn_ends=False)
        elif not self._flush_coming:
            self._flush_coming = True
            self._loop.call_soon(self._flush)

    # Limits and the end.

    def has_room(self) -> bool:
        return len(self._frames) < WAITING_MAX and self._waiting_bytes <= self._listener.frame_bytes_max

    def stop_waiting(self) -> None:
        for call in list(self._begun):
            if call.hurry is not None:
                call.hurry()

    def hurry(self) -> None:
        """End requests that wait for messages, but not those that wait for other clients."""
        for call in list(self._begun):
            if call.hurry is not None and not call.api.waits:
                call.hurry()

    def last_words(self, error: PenstockError) -> bytes:  # noqa: ARG002 - Kafka has none.
        return b""
