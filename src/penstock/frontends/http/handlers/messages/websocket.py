"""Messages pushed to a client over a WebSocket, and settled on it.

    server ──> {"type": "messages", "messages": [{"id": "orders:0:7", "receipt": "...", ...}]}
    client ──> {"type": "ack", "receipts": ["..."], "id": 1}       or nack, reject, extend
    server ──> {"type": "answered", "id": 1, "results": [...]}     or {"type": "problem", "id": 1, ...}
    client ──> {"type": "credit", "messages": 100}

A frame of the client is the body of the request of that name, with its ``type`` and an optional ``id`` that
the response repeats; without one, only failures are reported.  Responses need not be in the order of the
frames.

At most ``max_in_flight`` messages are unsettled at a time.  A client that opens the socket with ``credit``
also limits how many messages are pushed in total, and adds credit as it works.

A socket has its own consumer.  When it ends, unsettled messages are released at once.  The attempt does not
count if the client or the server closed the socket; it counts if the connection was lost without a close
frame.  The server closes it with 1000, or 1012 if the server ends, or 4000 and the status of a problem (4401:
the key was revoked), which is sent in a frame before.

Limits: at most ``FRAMES_MAX`` frames of a client are processed at a time, and no more are read until some are
done; while the client does not read, no messages are leased.
"""

import asyncio
import logging
from collections.abc import Iterator
from copy import copy
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from starlette.types import Receive as Hear
from starlette.types import Send

from penstock.errors import PenstockError, RequestInvalid, ShuttingDown, UpgradeRequired
from penstock.frontends.http.bodies import plainly
from penstock.frontends.http.call import Handler, HttpCall
from penstock.frontends.http.consumers.registry import HttpConsumer
from penstock.frontends.http.handlers.messages import consuming
from penstock.frontends.http.handlers.messages.streaming import Stream, open_consumer
from penstock.frontends.http.messages import encode
from penstock.frontends.http.problems import Problem, problem

CREDIT_MAX: Final = 1_000_000
PUSH_WAIT_MS: Final = 3_600_000  # A push waits so long for messages, and then again.
FRAMES_MAX: Final = 64
FRAME_BYTES: Final = 256 * 1024  # Clients have limits, too; a message that is larger has a frame of its own.
DONE: Final = 1000
RESTART: Final = 1012
OURS: Final = 4000  # Where codes begin that no standard has taken.

logger = logging.getLogger("penstock")

Id = str | int | None
Credit = Annotated[int, Meta(ge=0, le=CREDIT_MAX)]


class Socket(Stream, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"way": "as"}):
    """Maximum number of unsettled messages, their visibility timeout, and the initial credit."""

    credit: Credit | None = None  # None: as many as there are.


# What a client says.


class AckFrame(consuming.Ack, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="ack"):
    """Messages were processed."""

    id: Id = None


class NackFrame(consuming.Nack, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="nack"):
    """Processing of messages failed."""

    id: Id = None


class RejectFrame(consuming.Reject, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="reject"):
    """The messages are no good."""

    id: Id = None


class ExtendFrame(consuming.Extend, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="extend"):
    """Keep the messages for so long from now."""

    id: Id = None


class MoreCredit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="credit"):
    """Additional messages that may be pushed."""

    messages: Credit


Answer = AckFrame | NackFrame | RejectFrame | ExtendFrame
HANDLERS: Final[dict[type[Answer], Handler]] = {
    AckFrame: consuming.ack,
    NackFrame: consuming.nack,
    RejectFrame: consuming.reject,
    ExtendFrame: consuming.extend,
}
_frames: Final[msgspec.json.Decoder[Answer | MoreCredit]] = msgspec.json.Decoder(Answer | MoreCredit)


# What the server sends.


class AnsweredFrame(msgspec.Struct, frozen=True, tag="answered"):
    """Results of the receipts of a frame."""

    id: Id
    results: list[consuming.Result]


class Trouble(msgspec.Struct, frozen=True, tag="problem"):
    """Why a frame was refused; without an id, possibly why the socket is closed."""

    id: Id
    problem: Problem


def _frames_of(messages: list[consuming.LeasedMessage]) -> Iterator[bytes]:
    found: list[bytes] = []
    size = 0
    for message in messages:
        encoded = encode(message)
        if found and size + len(encoded) > FRAME_BYTES:
            yield _frame_of(found)
            found, size = [], 0
        found.append(encoded)
        size += len(encoded)
    if found:
        yield _frame_of(found)


def _frame_of(messages: list[bytes]) -> bytes:
    return b'{"type":"messages","messages":[' + b",".join(messages) + b"]}"


async def ask_for_socket(call: HttpCall) -> None:
    """Receive and settle messages over a WebSocket."""
    consuming.permit(call)
    raise UpgradeRequired(path=call.scope["path"])


async def serve_socket(call: HttpCall, hear: Hear, send: Send) -> None:
    """Serve a WebSocket after the handshake."""
    wanted: Socket = call.query
    if call.shared.draining:
        raise ShuttingDown(what="server")
    with call.long_poll() as long_poll:
        consumer = await open_consumer(call, wanted)
        conversation = Conversation(call, consumer, wanted, hear, send)
        try:
            await send({"type": "websocket.accept"})
            error = await conversation.last()
        except OSError:  # The client has left.
            return
        finally:
            call.shared.consumers.end(
                consumer, disconnected=not conversation.closed and long_poll.error is None
            )
    await conversation.end(long_poll.error or error)


class Conversation:
    """One socket, from its first message to its last."""

    def __init__(
        self, call: HttpCall, consumer: HttpConsumer, wanted: Socket, hear: Hear, send: Send
    ) -> None:
        self._call = call
        self._consumer = consumer
        self._wanted = wanted
        self._hear_next = hear
        self._send = send
        self._credit = wanted.credit
        self._granted = asyncio.Event()  # There is credit.
        self._room = asyncio.Semaphore(FRAMES_MAX)
        self._over = asyncio.Event()
        self._error: PenstockError | None = None  # Why it ended, if that is sent to the client.

    async def last(self) -> PenstockError | None:
        """Push and answer until one of the two leaves; what was begun is answered before this returns."""
        self._call.lost.add(self._over.set)
        try:
            async with asyncio.TaskGroup() as tasks:
                both = [tasks.create_task(self._push()), tasks.create_task(self._hear(tasks))]
                await self._over.wait()
                for task in both:
                    task.cancel()
        finally:
            self._call.lost.discard(self._over.set)
        return self._error

    @property
    def closed(self) -> bool:
        """Whether one of the two has closed it; else the connection was lost."""
        return self._call.lost.closed or self._error is not None or self._call.shared.draining

    async def end(self, error: PenstockError | None) -> None:
        """Say why, if there is a reason, and close."""
        code, reason = (RESTART, "") if self._call.shared.draining else (DONE, "")
        try:
            if error is not None:
                reply = problem(error)
                await self._reply(Trouble(None, reply))
                code, reason = OURS + reply.status, error.code
            await self._send({"type": "websocket.close", "code": code, "reason": reason})
        except OSError:
            return  # The client has left.

    # Out.

    async def _push(self) -> None:
        consumers, lost = self._call.shared.consumers, self._call.lost
        try:
            while True:
                wanted = await self._until_credit()
                batches = await consumers.receive(self._consumer, wanted, PUSH_WAIT_MS, lost)
                messages = consuming.leased_messages(
                    self._call, self._consumer.number, batches, self._wanted.way
                )
                if self._credit is not None:
                    self._credit -= len(messages)
                for frame in _frames_of(messages):
                    await self._send({"type": "websocket.send", "text": frame.decode()})
                if messages:
                    continue
                if self._over.is_set() or self._call.shared.draining:
                    return
        except PenstockError as error:  # The consumer was closed, with its group or its topic.
            self._error = error
        except OSError:
            return
        finally:
            self._over.set()

    async def _until_credit(self) -> int:
        """How many messages may be pushed."""
        if self._credit is None:
            return self._wanted.max_in_flight
        while self._credit <= 0:
            self._granted.clear()
            await self._granted.wait()
        return min(self._credit, self._wanted.max_in_flight)

    async def _reply(self, frame: msgspec.Struct) -> None:
        await self._send({"type": "websocket.send", "text": encode(frame).decode()})

    # In.

    async def _hear(self, tasks: asyncio.TaskGroup) -> None:
        try:
            while True:
                event = await self._hear_next()
                if event["type"] == "websocket.disconnect":
                    return
                if event["type"] == "websocket.receive":
                    await self._heard(event.get("text") or event.get("bytes") or b"", tasks)
        except OSError:
            return
        finally:
            self._over.set()

    async def _heard(self, data: str | bytes, tasks: asyncio.TaskGroup) -> None:
        try:
            frame = _frames.decode(data)
        except (msgspec.MsgspecError, ValueError, RecursionError) as wrong:
            await self._refuse(plainly(wrong))
            return
        if isinstance(frame, MoreCredit):
            await self._add_credit(frame.messages)
            return
        await self._room.acquire()
        tasks.create_task(self._answer(frame)).add_done_callback(lambda _: self._room.release())

    async def _add_credit(self, messages: int) -> None:
        if self._credit is None:
            await self._refuse("this socket was opened without credit, so it is not counted")
            return
        self._credit = min(self._credit + messages, CREDIT_MAX)
        self._granted.set()

    async def _refuse(self, why: str) -> None:
        await self._reply(Trouble(None, problem(RequestInvalid(part="frame", why=why))))

    async def _answer(self, frame: Answer) -> None:
        call = copy(self._call)
        call.body = frame
        try:
            answered: consuming.Answered = await HANDLERS[type(frame)](call)
        except PenstockError as error:
            reply: Any = Trouble(frame.id, problem(error))
        except Exception:  # The others continue, and the client gets what it may know.
            logger.exception("%s over a WebSocket failed", type(frame).__name__.lower())
            reply = Trouble(frame.id, problem(PenstockError(reason="internal error; see the server's log")))
        else:
            if frame.id is None and all(result.ok for result in answered.results):
                return
            reply = AnsweredFrame(frame.id, answered.results)
        try:
            await self._reply(reply)
        except OSError:
            return  # The client has left.
