"""One connection of Kafka's protocol: frames in, calls to the handlers, answers out in the requests' order.

    data_received ──> FrameSplitter ──> waiting ──> begin: decode, handler(call)
                                                        │ at once, by a task, or when the broker calls back
    transport.write <── joined: when nothing more is    ┴ answered: in order
                        under way, or the turn ends

    I1  answers leave in the order of their requests
    I2  a request begins when all before it are answered, or when it and they are pipelined (Produce): so a
        client sees what it did before, and a producer's batches reach the log in their order

A fetch that waits for messages would hold back what comes behind it; it is told to hurry, and answers with
what there is.  A frame that cannot be read ends the connection, as it does in Kafka: there is no telling
what comes next.

Its limits: bytes of a frame (fewer of a stranger), requests that wait and their bytes, bytes of frames that
are not complete (of all connections), bytes that the client has not read.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Coroutine, Mapping
from typing import Any, Final, Protocol, cast

from penstock.errors import Closed, Overloaded, PenstockError, ProtocolViolation
from penstock.frontends.foreign import http_refusal, is_http, spoken
from penstock.frontends.kafka.call import Api, KafkaCall, Later
from penstock.frontends.kafka.errors import code_of
from penstock.frontends.kafka.session import KafkaSession
from penstock.wire.kafka.codec import decode, encode
from penstock.wire.kafka.fields import Message
from penstock.wire.kafka.frames import (
    API_VERSIONS,
    LENGTH_BYTES,
    FrameSplitter,
    Head,
    message_begin,
    read_head,
    response_frame,
)

KEY_END: Final = LENGTH_BYTES + 2  # Where the key of the first request ends.
WAITING_MAX: Final = 1000  # Requests of one connection that were read and have not begun.
JOIN_BYTES_MAX: Final = 64 * 1024  # More than that is not copied together to save a system call.


class Host(Protocol):
    """What a connection needs of its listener."""

    stranger_bytes_max: int  # Of the frames of somebody who has not logged in.
    frame_bytes_max: int
    write_buffer_bytes_max: int
    half_frame_bytes: int  # Kept for frames that are not complete, of all connections.
    half_frame_bytes_max: int
    apis: Mapping[int, Api]

    def session(self) -> KafkaSession: ...

    def enter(self, connection: "Connection") -> None:
        """Count the connection in, or raise."""
        ...

    def leave(self, connection: "Connection") -> None: ...

    def refused(self, peer: str, error: PenstockError) -> None:
        """A connection was refused, or ended because of what it sent."""
        ...


class Connection(asyncio.Protocol):
    """The protocol object of one connection."""

    def __init__(self, host: Host) -> None:
        self.session = host.session()
        self.apis = host.apis
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._splitter = FrameSplitter(
            host.frame_bytes_max if self.session.known else host.stranger_bytes_max
        )
        self._waiting: deque[memoryview] = deque()  # Frames that have not begun ...
        self._waiting_bytes = 0  # ... and how long they are.
        self._begun: deque[KafkaCall[Any]] = deque()  # Not all of it is answered; in their order.
        self._alone = 0  # How many of the begun are not pipelined: one at most.
        self._tasks: set[asyncio.Task[None]] = set()
        self._out: list[Any] = []
        self._out_bytes = 0
        self._flush_coming = False
        self._working = False  # Begin is on the stack: an answer at once does not call it again.
        self._heard = False  # Something has arrived.
        self._reading = True
        self._writable = True
        self._draining = False
        self._ending = False  # Nothing that arrives is looked at.

    # The transport's calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(self._host.write_buffer_bytes_max)
        session = self.session
        session.address = (transport.get_extra_info("peername") or ("?",))[0]
        session.reached = (transport.get_extra_info("sockname") or ("?", 0))[:2]
        session.end = self.end
        session.trust = self._trust
        try:
            self._host.enter(self)
        except PenstockError as error:  # Kafka has no words for it before a request.
            self._host.refused(str(session.address), error)
            self.abort()

    def data_received(self, data: bytes) -> None:
        if self._ending:
            return
        if not self._heard:
            self._heard = True
            if self._refuse_foreign(data):
                return
        host, splitter = self._host, self._splitter
        before = splitter.buffered
        frames = splitter.feed(data)
        host.half_frame_bytes += splitter.buffered - before
        for frame in frames:
            self._waiting_bytes += len(frame)
        self._waiting.extend(frames)
        if splitter.refusal is not None:
            self._refuse(splitter.refusal)
        elif host.half_frame_bytes > host.half_frame_bytes_max:
            self._refuse(Overloaded(what="bytes of unfinished requests", limit=host.half_frame_bytes_max))
        elif frames:
            self._work()

    def _refuse_foreign(self, data: bytes) -> bool:
        """End a connection that begins as another protocol; what looks like a length may be far from one."""
        if is_http(data):
            if self._transport is not None:
                self._transport.write(http_refusal("Kafka"))
        elif len(data) < KEY_END or int.from_bytes(data[LENGTH_BYTES:KEY_END], "big") in self.apis:
            return False
        self._refuse(ProtocolViolation(why=f"this port speaks Kafka's, and this looks like {spoken(data)}"))
        return True

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._writable = False
        self._set_reading()

    def resume_writing(self) -> None:
        self._writable = True
        self._work()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's.
        self._ending = True
        self._transport = None
        self._waiting.clear()
        self._host.half_frame_bytes -= self._splitter.buffered
        self._splitter = FrameSplitter(0)
        self._out.clear()
        for task in self._tasks:
            task.cancel()
        for call in list(self._begun):
            if call.hurry is not None:
                call.hurry()  # Nobody is there to be answered.
        self._begun.clear()
        self.session.leave()
        self._host.leave(self)

    # Requests.

    def _work(self) -> None:
        if self._working:
            return
        self._working = True
        while self._waiting and not self._ending and self._writable and self._begin(self._waiting[0]):
            pass
        self._working = False
        self._send()
        first = self._begun[0] if self._waiting and self._begun else None
        if first is not None and first.hurry is not None and not first.api.waits:
            first.hurry()
        self._set_reading()
        if self._draining:
            self._end_if_drained()

    def _begin(self, frame: memoryview) -> bool:
        """Begin a request; False if it has to wait for those before it."""
        if self.session.bare is not None:
            return self._begin_bare(frame)
        try:
            head = read_head(frame)
            api = self.apis.get(head.key)
            if self._begun and (api is None or not api.pipelined or self._alone):
                return False
            self._waiting.popleft()
            self._waiting_bytes -= len(frame)
            call = self._call(api, head, frame)
        except PenstockError as error:
            self._refuse(error)
            return False
        self._begun.append(call)
        if not call.api.pipelined:
            self._alone += 1
        self._handle(call)
        return True

    def _begin_bare(self, frame: memoryview) -> bool:
        """Of a login that is not in Kafka's messages, each frame waits for the answer to the one before."""
        if not self._begun and not self._tasks:
            self._waiting.popleft()
            self._waiting_bytes -= len(frame)
            task = self._loop.create_task(self._answer_bare(bytes(frame)))
            self._tasks.add(task)
            task.add_done_callback(self._end_bare)
        return False

    async def _answer_bare(self, token: bytes) -> None:
        assert self.session.bare is not None
        try:
            answer = await self.session.bare(token)
        except PenstockError as error:
            self._refuse(error)
            return
        if self._transport is not None:
            self._transport.write(len(answer).to_bytes(LENGTH_BYTES, "big") + answer)

    def _end_bare(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._work()

    def _call(self, api: Api | None, head: Head, frame: memoryview) -> KafkaCall[Any]:
        if api is None:
            raise ProtocolViolation(why=f"there is no API {head.key}")
        version = head.version
        if not self.session.known and not api.unauthenticated:
            raise ProtocolViolation(why=f"{api.request.__name__} comes after a login, not before")
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
        if isinstance(answer, Message):
            self.answered(call, answer)
        elif not isinstance(answer, Later):
            task = self._loop.create_task(self._await(call, answer))
            self._tasks.add(task)
            task.add_done_callback(lambda done: self._forget(done, answer))
            if call.api.waits:
                call.hurry = task.cancel

    def _forget(self, task: asyncio.Task[None], answer: Awaitable[Message]) -> None:
        self._tasks.discard(task)
        if isinstance(answer, Coroutine):
            answer.close()  # A task that is cancelled before its first turn has never awaited it.

    async def _await(self, call: KafkaCall[Any], answer: Awaitable[Message]) -> None:
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

    def answered(self, call: KafkaCall[Any], response: Message | None) -> None:
        """The answer of a call, which may have to wait for those before it."""
        assert call.parts is None, "a request is answered once"
        if response is None:
            call.parts = []
        else:
            api, version = call.api, call.version
            parts = encode(response, version)
            call.parts = response_frame(api.key, call.correlation, version >= api.flexible, parts)
        while self._begun and self._begun[0].parts is not None:
            first = self._begun.popleft()
            if not first.api.pipelined:
                self._alone -= 1
            if first.parts:
                self._put(first.parts)
        if self._waiting or self._draining:
            self._work()
        elif not self._working:
            self._send()

    def refused(self, call: KafkaCall[Any], error: BaseException) -> None:
        """The answer of a call that failed as a whole."""
        code = code_of(error)
        response = call.api.refused(call.request, code)
        if response is None:
            assert isinstance(error, PenstockError), "a fault, which is in the log"
            self._refuse(error)
        else:
            self.answered(call, response)

    def _put(self, parts: list[Any]) -> None:
        """To what is sent with the next write."""
        if self._transport is None:
            return
        for part in parts:
            self._out.append(part)
            self._out_bytes += len(part)
        if self._out_bytes >= self._host.write_buffer_bytes_max:
            self._flush()

    def _send(self) -> None:
        """Write what was answered: at once if nothing more is under way, else when the turn ends."""
        if not self._out:
            return
        if not self._begun:
            self._flush()
        elif not self._flush_coming:
            self._flush_coming = True
            self._loop.call_soon(self._end_turn)

    def _end_turn(self) -> None:
        self._flush_coming = False
        self._flush()

    def _flush(self) -> None:
        out, size = self._out, self._out_bytes
        self._out = []
        self._out_bytes = 0
        transport = self._transport
        if not out or transport is None or transport.is_closing():
            return
        if size > JOIN_BYTES_MAX:
            transport.writelines(out)
        else:
            transport.write(b"".join(out))

    # Ends.

    def drain(self) -> None:
        """Answer what was read, then close."""
        self._draining = True
        for call in list(self._begun):
            if call.hurry is not None:
                call.hurry()
        self._set_reading()
        self._end_if_drained()

    def hurry(self) -> None:
        """Answer what waits for messages, but not what waits for other clients."""
        for call in list(self._begun):
            if call.hurry is not None and not call.api.waits:
                call.hurry()

    def end(self) -> None:
        """Close, behind what was sent already."""
        self._ending = True
        self._waiting.clear()
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        self._ending = True
        if self._transport is not None:
            self._transport.abort()

    def _end_if_drained(self) -> None:
        if not self._begun and not self._waiting:
            self.end()

    def _trust(self) -> None:
        self._splitter.limit = self._host.frame_bytes_max

    def _refuse(self, error: PenstockError) -> None:
        self._host.refused(str(self.session.address), error)
        self.end()

    def _set_reading(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        few = len(self._waiting) < WAITING_MAX and self._waiting_bytes <= self._host.frame_bytes_max
        wanted = self._writable and not self._draining and few
        if wanted and not self._reading:
            transport.resume_reading()
        elif not wanted and self._reading:
            transport.pause_reading()
        self._reading = wanted
