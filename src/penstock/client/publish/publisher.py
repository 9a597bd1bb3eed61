"""Publishing over a connection: what is published, by topic, and how much of it may wait.

publish, publish_batch, publish_nowait
      │ Unit
      v
  Publisher ── bounds the bytes that wait, cuts what is too large for a request
      │ by topic
      v
   Sender ── requests, numbers, repeats (sender.py)
"""

import asyncio
import threading
from functools import partial
from random import Random
from typing import Any, Final, Literal

from penstock.client.publish.requests import PublishRequest, only_outcome
from penstock.client.publish.sender import Sender
from penstock.client.publish.sending import send_through
from penstock.client.publish.server_state import ServerState, depth_wait_ms
from penstock.client.publish.units import OnReceipts, Unit, size_of
from penstock.client.routing import OwnerRouting
from penstock.clock import Clock
from penstock.errors import Closed, InvalidValue, QueueFull
from penstock.model.message import Receipt
from penstock.model.placing import place
from penstock.types import missing_topic
from penstock.wire.native import ACKS_DURABLE, ACKS_NONE, ACKS_WRITTEN, DUPLICATE
from penstock.wire.native_bodies import Metadata
from penstock.wire.records import read_header

Acks = Literal["durable", "written", "none"]
ACKS: Final[dict[Acks, int]] = {"durable": ACKS_DURABLE, "written": ACKS_WRITTEN, "none": ACKS_NONE}
BUFFER_BYTES_MAX: Final = 64 << 20  # Of all that was published and is not answered.


def acks_number(acks: Any) -> int:
    """The number of an ``acks`` value on the wire."""
    number = ACKS.get(acks) if isinstance(acks, str) else None  # type: ignore[call-overload]
    if number is None:
        raise InvalidValue(name="acks", value=acks, why=f"use one of {', '.join(ACKS)}")
    return int(number)


class Room:
    """What a publish takes of the buffer; ``give_back`` may be called more than once."""

    __slots__ = ("_publisher", "_taken", "size")

    def __init__(self, publisher: "Publisher", size: int) -> None:
        self._publisher = publisher
        self.size = size
        self._taken = False

    def take(self, *, always: bool = False) -> None:
        """Raises ``QueueFull`` if there is not enough, unless it is taken ``always``."""
        publisher = self._publisher
        with publisher.lock:
            before = publisher.buffered
            if always or not before or before + self.size <= publisher.buffer_bytes_max:
                publisher.buffered = before + self.size
                self._taken = True
        if not self._taken:
            raise QueueFull(what="the client's publish buffer", limit=publisher.buffer_bytes_max)

    def give_back(self) -> None:
        with self._publisher.lock:
            if self._taken:
                self._taken = False
                self._publisher.buffered -= self.size


class Publisher:
    """All that one client publishes."""

    def __init__(self, routing: OwnerRouting, clock: Clock, linger_ms: int, random: Random) -> None:
        self.session = routing.home
        self.server = ServerState(routing, clock, random)
        self._linger_ms = linger_ms
        self._senders: dict[str, Sender] = {}
        self.buffer_bytes_max = BUFFER_BYTES_MAX
        self.buffered = 0  # Bytes that were published and are not answered.
        self.lock = threading.Lock()  # Of that number alone: the sync client takes room in its own threads.

    def reserve(self, messages: list[Any]) -> Room:
        """Make room for messages, from any thread."""
        room = Room(self, size_of(messages))
        room.take()
        return room

    def start(self, topic: Any, messages: list[Any], acks: int) -> "asyncio.Future[list[Receipt]]":
        """Begin to publish; the future has a receipt for each message."""
        future: asyncio.Future[list[Receipt]] = asyncio.get_running_loop().create_future()

        def then(receipts: list[Receipt], error: BaseException | None) -> None:
            if future.done():
                return  # The caller has given up; what was written stays written.
            if error is None:
                future.set_result(receipts)
            else:
                future.set_exception(error)

        self.publish(topic, messages, self.reserve(messages), acks, then)
        return future

    def publish(self, topic: Any, messages: list[Any], room: Room, acks: int, then: OnReceipts) -> None:
        """Begin to publish what room was made for; ``then`` is called with the outcome."""
        ended = give_back_and(room, then)
        if self.session.closing:
            ended([], Closed(what="broker"))
        elif not isinstance(topic, str):
            ended([], missing_topic(topic))
        else:
            self._enqueue(topic, messages, room.size, acks, ended)

    def sender(self, topic: Any) -> Sender | None:
        """Of a topic that was published to before."""
        return self._senders.get(topic) if isinstance(topic, str) else None

    def idle_sender(self, topic: Any) -> Sender | None:
        """The topic's sender, if all that was published before, to any topic, is answered at this moment.

        In any thread, without the lock: room is taken before the loop gets a publish; a thread sees its own.
        """
        sender = self._senders.get(topic) if isinstance(topic, str) else None
        server = self.server
        if sender is None or self.buffered or server.unasked > server.unasked_taken or not sender.idle:
            return None
        return sender

    def _enqueue(self, topic: str, messages: list[Any], size: int, acks: int, then: OnReceipts) -> None:
        """In one piece, if it is not too large."""
        sender = self._senders.get(topic)
        if sender is None:
            sender = self._senders[topic] = Sender(self.server, topic, self._linger_ms)
        deadline = self.session.deadline()
        if size <= self.server.request_bytes or len(messages) == 1:
            sender.add(Unit(messages, size, acks, deadline, then))
            return
        pieces = split(messages, self.server.request_bytes)
        whole = Pieces(len(pieces), then)
        for number, piece in enumerate(pieces):
            sender.add(Unit(piece, size_of(piece), acks, deadline, whole.part(number)))

    async def metadata(self, topic: Any) -> Metadata:
        """Settings of a topic, as far as they are known here."""
        sender = self.sender(topic)
        if sender is None or sender.metadata is None:
            return await self.server.metadata(topic)
        return sender.metadata

    async def append(self, topic: Any, partition: Any, batch: Any) -> Receipt:
        """Append a batch that the program has encoded; retried if it has sequence numbers."""
        metadata = await self.server.metadata(topic)
        number = place(topic, -1 if partition is None else partition, None, metadata.settings.partitions)
        if type(batch) is not bytes:
            raise InvalidValue(name="batch", value=batch, why="a record batch is bytes")
        request = PublishRequest(topic, metadata.version, ACKS_DURABLE, [(number, batch)])
        numbered = read_header(batch).producer_id >= 0
        wait_ms = depth_wait_ms(metadata.settings)
        outcome = only_outcome(await self.send_batch(request, "append", number, wait_ms, repeat=numbered))
        repeat = outcome.state == DUPLICATE and request.tries == 1
        return Receipt(topic, number, outcome.offset, outcome.timestamp, None, repeat)

    async def send_batch(
        self, request: PublishRequest, operation: str, partition: int, wait_ms: int, *, repeat: bool = True
    ) -> bytes:
        """The answer to a request of one batch, from the owner of its partition if that can be asked."""
        failed: Exception | None = None
        target = self.server.target(request.topic, partition, request.version) if repeat else None
        if target is not None:
            here, request.version = request.version, target.version
            routing = self.server.routing
            answer = await routing.attempt(
                target.session, request.topic, request.encode, self.session.deadline(), wait_ms
            )
            if isinstance(answer, bytes):
                return answer
            request.version, failed = here, answer
            if failed is None:
                request.tries = 0  # Nothing was done.
        deadline = self.session.deadline()
        return await send_through(
            self.session, operation, request, deadline, wait_ms=wait_ms, failed=failed, repeat=repeat
        )

    async def flush(self) -> None:
        """Wait until every publish so far has a result, or an error."""
        loop = asyncio.get_running_loop()
        marks: list[asyncio.Future[None]] = []
        for sender in self._senders.values():
            if sender.busy:
                mark: asyncio.Future[None] = loop.create_future()
                marks.append(mark)
                sender.add(Unit([], 0, ACKS_DURABLE, 0.0, partial(_done, mark)))
        for mark in marks:
            await mark


def give_back_and(room: Room, then: OnReceipts) -> OnReceipts:
    """What is called at the end of a publish."""

    def ended(receipts: list[Receipt], error: BaseException | None) -> None:
        room.give_back()
        then(receipts, error)

    return ended


def _done(mark: "asyncio.Future[None]", _: list[Receipt], __: BaseException | None) -> None:
    if not mark.done():
        mark.set_result(None)


def split(messages: list[Any], request_bytes: int) -> list[list[Any]]:
    """Pieces that fit into a request each, unless a single message does not."""
    pieces: list[list[Any]] = []
    room = 0
    for message in messages:
        size = size_of([message])
        if size > room:
            pieces.append([])
            room = request_bytes
        pieces[-1].append(message)
        room -= size
    return pieces


class Pieces:
    """A call that was too large for one request: it is answered when all of its pieces are."""

    def __init__(self, count: int, then: OnReceipts) -> None:
        self._receipts: list[list[Receipt]] = [[]] * count
        self._left = count
        self._then = then
        self._error: BaseException | None = None

    def part(self, number: int) -> OnReceipts:
        """What is called when a piece is answered."""

        def then(receipts: list[Receipt], error: BaseException | None) -> None:
            self._receipts[number] = receipts
            self._error = self._error or error
            self._left -= 1
            if self._left == 0:
                self._then([each for piece in self._receipts for each in piece], self._error)

        return then
