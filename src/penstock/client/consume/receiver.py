"""A consumer of a remote broker.

    receive ── RECEIVE, which waits at the server ──────────────> messages
    prefetch=N ── CREDIT ──> DELIVERY, DELIVERY ... ──> buffer ──> receive, or a loop, takes from it
    heartbeat ── every third of the visibility timeout: EXTEND the leases that the program still holds
                 (stream groups: HEARTBEAT, every third of the session timeout)
    ASSIGNED ──> the partitions of a stream consumer, as soon as they change, before messages of new ones
    ack, nack, reject, extend, commit ──> settling.py

When the connection is lost, the consumer is resumed on the next one: it sends the leases it still holds and
its positions, the server releases messages that were sent and never arrived, and in-flight settlements are
sent again.  If the server no longer knows the consumer (after a restart, or a long disconnection), it
starts as a new one: its messages were released, and settling them raises ``LeaseLost``.

A cancelled receive loses nothing: it is cancelled at the server, and messages in flight
are kept for the next receive.

With ``prefetch=N`` at most N messages are unsettled at any time, including those in the
buffer; in a stream group, at most N wait in the buffer.
"""

import asyncio
import logging
from collections import deque
from typing import Any, Final

import msgspec

from penstock.api.operations import Wrap
from penstock.client.consume.held_leases import HeldLeases
from penstock.client.consume.records import records_of
from penstock.client.session import Ask, ClientSession
from penstock.errors import Closed, GroupKindMismatch, PenstockError
from penstock.model.message import Delivery
from penstock.types import whole_number
from penstock.wire.native import (
    CLOSE_CONSUMER,
    EXTEND,
    HEARTBEAT,
    NO_LEASE,
    OPEN_CONSUMER,
    PING,
    UINT32_MAX,
    UNASKED,
    LeasedBatch,
    decode_delivery,
    decode_received,
    encode_consumer,
    encode_credit,
    encode_receive,
    frame,
)
from penstock.wire.native_bodies import ExtendBody, OpenConsumer, OpenedConsumer, decode_body, encode_body

HEARTBEATS: Final = 3  # Heartbeats per timeout that one of them extends.
HEARTBEAT_MIN_S: Final = 0.005

logger = logging.getLogger("penstock")


class Receiver:
    """The receiving side of one consumer."""

    def __init__(
        self, session: ClientSession, request: OpenConsumer, wrap: Wrap, prefetch: int, heartbeat: bool
    ) -> None:
        self.settler: Any = None  # The facade's consumer.
        self.session = session
        self.number = -1  # On the current connection; -1 while there is none.
        self.identity = ""
        self.stream = False
        self.group = request.group
        self.held_leases = HeldLeases(request.group)
        self.lives = 0  # How often it was reopened without its leases.
        self.read: dict[int, int] = {}  # Streams: by partition, the next offset for the program.
        self._request = request
        self._wrap = wrap
        self._prefetch = prefetch
        self._heartbeat = heartbeat
        self._loop = asyncio.get_running_loop()
        self._token: bytes | None = None
        self._visibility_ms = 0
        self._session_ms = 0
        self._assignment: list[int] = []
        self._sent: dict[int, int] = {}  # Streams: the next offset to arrive.
        self._buffer: deque[Any] = deque()  # Pushed messages that were not received yet.
        self._late: list[tuple[float, LeasedBatch]] = []  # Of a cancelled receive; until when.
        self._credit = 0  # Messages that the server may still push.
        self._waiting: list[asyncio.Future[None]] = []  # Receives that wait for a push.
        self._called_off = 0  # How often a receive was cancelled.
        self._closed = False
        self._ended: PenstockError | None = None  # Why the server closed it.
        self._heartbeat_task: asyncio.Task[None] | None = None

    @property
    def in_flight(self) -> int:
        """Messages that the consumer holds and has not settled."""
        return self.held_leases.count

    @property
    def assignment(self) -> list[int]:
        """Stream groups: the partitions that are assigned to the consumer."""
        return list(self._assignment)

    @property
    def closed(self) -> bool:
        """True if there is nothing left to close."""
        return self._closed or self._ended is not None or self.session.closed

    def check_open(self) -> None:
        """Raise an error if the consumer is closed."""
        if self.session.closed:
            raise Closed(what="broker")
        if self._closed:
            raise Closed(what="consumer")
        if self._ended is not None:
            raise self._ended

    def current(self) -> int:
        """The consumer's number, for a request that is about to be sent."""
        self.check_open()
        return self.number

    # Life.

    async def open(self) -> None:
        """Open it at the server for the first time."""
        body = await self.session.call(
            "consumer", lambda correlation: encode_body(OPEN_CONSUMER, correlation, self._request)
        )
        opened = decode_body(body, OpenedConsumer)
        self.stream = opened.kind == "stream"
        self._take(opened)
        self.session.add(self)
        if self._heartbeat:
            self._heartbeat_task = self.session.own(self._keep_alive())

    def _take(self, opened: OpenedConsumer) -> None:
        self.number = opened.consumer
        self.identity = opened.consumer_id
        self._token = opened.token
        self._visibility_ms = opened.visibility_ms
        self._session_ms = opened.session_ms
        self._assignment = opened.assignment

    async def resume(self, ask: Ask) -> None:
        """Continue on a new connection, with the leases that are still held."""
        self._credit = 0
        self._late.clear()  # Not listed as held, so the server gives them back.
        request = msgspec.structs.replace(
            self._request,
            resume=self._token,
            held=self.held_leases.held(),
            positions=dict(self._sent),
        )
        body = await ask(lambda correlation: encode_body(OPEN_CONSUMER, correlation, request))
        opened = decode_body(body, OpenedConsumer)
        if (opened.kind == "stream") != self.stream:
            raise GroupKindMismatch(operation="consumer", kind=opened.kind, group=self.group)
        if not opened.resumed:
            logger.info("consumer %s of %s was opened again, without its leases", self.identity, self.group)
            self.lives += 1
            self.held_leases.clear()
            self._buffer.clear()
            self._sent.clear()
        self._take(opened)
        if self.stream and opened.resumed:
            self.own(opened.assignment)
        elif self.stream:  # Messages that the program has read before can still be committed.
            body = await ask(lambda correlation: encode_consumer(HEARTBEAT, correlation, self.number))
            self.own(decode_body(body, list[int]))

    def resumed(self) -> None:
        """The new connection is in use; the credit of the old one is void."""
        if self._waiting or self._buffer or self.held_leases.count:  # Otherwise the next receive asks.
            self.ask_for_more(now=True)

    def stop_receiving(self) -> None:
        """Receive nothing more; messages that the program holds can still be settled."""
        self._prefetch = 0
        self._buffer.clear()
        self._late.clear()

    def end(self, error: PenstockError) -> None:
        """The server has closed it: its group or topic was deleted."""
        self._ended = error
        self._forget()

    async def close(self) -> None:
        """Give unsettled messages back at once."""
        if self.closed:
            return
        number = self.number
        self._closed = True
        connected = self.session.connected
        self._forget()
        if connected:  # Otherwise the server will notice by itself.
            try:
                await self.session.call(
                    "close",
                    lambda correlation: encode_consumer(CLOSE_CONSUMER, correlation, number),
                    repeat=False,
                )
            except PenstockError as error:
                logger.info("consumer %s was not closed in order: %s", self.identity, error)

    def _forget(self) -> None:
        self.session.remove(self)
        self.held_leases.clear()
        self._buffer.clear()
        self._late.clear()
        if self._heartbeat_task is not None:
            self._heartbeat_task.cancel()
        self.wake()

    # Receiving.

    async def receive(self, max_messages: Any, wait_ms: int) -> list[Any]:
        """Up to ``max_messages``, as soon as there is one; none after ``wait_ms``."""
        return self.handed(await self.take(max_messages, wait_ms))

    async def take(self, max_messages: Any, wait_ms: int) -> list[Any]:
        """``receive`` for a caller that does not return them to the program at once."""
        self.check_open()
        if type(max_messages) is not int or max_messages < 1:
            whole_number("max_messages", max_messages, 1)
        if self._late:
            messages = self._take_late()
            if messages:
                self._buffer.extend(messages)
        if self._prefetch and not self._buffer:
            await self._await_push(wait_ms)
        if self._prefetch or self._buffer:
            return self._from_buffer(max_messages)
        return await self._poll(max_messages, wait_ms)

    async def _poll(self, max_messages: int, wait_ms: int) -> list[Any]:
        assert self.session.welcome is not None
        limit = min(max_messages, self.session.welcome.receive_messages_max)
        until = self._loop.time() + wait_ms / 1000
        while True:
            called_off = self._called_off
            batches = decode_received(await self._ask_for(limit, wait_ms))
            if batches or called_off == self._called_off:
                messages = self._messages(batches[0]) if batches else []
                for batch in batches[1:]:
                    messages += self._messages(batch)
                return messages
            wait_ms = max(round((until - self._loop.time()) * 1000), 0)  # Another receive was cancelled.

    async def _ask_for(self, limit: int, wait_ms: int) -> bytes:
        until = self._loop.time() + wait_ms / 1000

        def encode(correlation: int) -> bytes:
            left_ms = round((until - self._loop.time()) * 1000) if sent else wait_ms
            sent.append(correlation)
            return encode_receive(correlation, self.current(), limit, min(max(left_ms, 0), UINT32_MAX))

        sent: list[int] = []
        try:
            return await self.session.call(
                "receive", encode, changes=False, wait_ms=wait_ms, late=self._keep_late
            )
        except asyncio.CancelledError:
            if sent and not self.closed:
                self._called_off += 1
                self.session.send(encode_receive(UNASKED, self.number, 0, 0))
            raise

    def _keep_late(self, body: bytes) -> None:
        """Keep the messages of a response that arrives after its receive was cancelled."""
        until = self._loop.time() + self._visibility_ms / 1000 / 2  # Half of it is left for the work.
        self._late += [(until, batch) for batch in decode_received(body)]

    def _take_late(self) -> list[Any]:
        late, self._late = self._late, []
        now = self._loop.time()
        return [
            message
            for until, batch in late
            if self.stream or until > now
            for message in self._messages(batch)
        ]

    def _messages(self, batch: LeasedBatch) -> list[Any]:
        """The messages of a delivery."""
        records = records_of(batch)
        group: str = self.group
        if self.stream:
            self._sent[batch.partition] = batch.end
        elif batch.lease != NO_LEASE:
            until = self._loop.time() + self._visibility_ms / 1000
            group = self.held_leases.take(batch.partition, batch.lease, len(records), until)
        delivery = Delivery(
            self._request.topic, batch.partition, group, batch.lease, batch.start, batch.end, batch.attempt,
            self.settler,
        )  # fmt: skip
        messages = self._wrap(delivery, records)
        if not self.stream and batch.lease == NO_LEASE:  # At most once: settled before it was sent.
            for message in messages:
                message.mark_settled()
        return messages

    def handed(self, messages: list[Any]) -> list[Any]:
        """Note the program's position in a stream, when it gets these messages."""
        if self.stream:
            for message in messages:
                self.read[message.partition] = message.offset + 1
        return messages

    # Prefetching.

    def take_push(self, body: bytes) -> None:
        """Accept messages that the server has pushed."""
        _, batches = decode_delivery(body)
        for batch in batches:
            self._credit -= batch.end - batch.start
            self._buffer.extend(self._messages(batch))
        self.wake()

    async def _await_push(self, wait_ms: int) -> None:
        self.ask_for_more(now=True)
        if not wait_ms:  # What the server has for us comes before its answer to this.
            await self.session.call("receive", lambda correlation: frame(PING, correlation), changes=False)
            return
        deadline = self._loop.time() + wait_ms / 1000
        while not self._buffer:
            self.check_open()
            future: asyncio.Future[None] = self._loop.create_future()
            self._waiting.append(future)
            try:
                async with asyncio.timeout_at(deadline):
                    await future
            except TimeoutError:
                return
            finally:
                if future in self._waiting:
                    self._waiting.remove(future)

    def _from_buffer(self, max_messages: int) -> list[Any]:
        self.check_open()
        buffer = self._buffer
        messages = [buffer.popleft() for _ in range(min(max_messages, len(buffer)))]
        self.ask_for_more()
        return messages

    def ask_for_more(self, now: bool = False) -> None:
        """Grant credit for the free room, when that is worth a frame."""
        if not self._prefetch or self.closed or not self.session.connected:
            return
        unanswered = len(self._buffer) if self.stream else self.held_leases.count
        room = self._prefetch - unanswered - self._credit
        if room > 0 and (now or self._waiting or room >= max(self._prefetch // 2, 1)):
            self._credit += room
            self.session.send(encode_credit(self.number, room))

    def wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    # Heartbeats.

    async def _keep_alive(self) -> None:
        while True:
            period_ms = self._session_ms if self.stream else self._visibility_ms
            await asyncio.sleep(max(period_ms / HEARTBEATS / 1000, HEARTBEAT_MIN_S))
            await self.send_heartbeat()

    async def send_heartbeat(self) -> None:
        """Keep the program's leases, or its membership in a stream group."""
        try:
            if self.stream:
                await self.heartbeat_stream()
                return
            leases = self.held_leases.to_extend(self._loop.time(), self._visibility_ms / 1000)
            if leases:
                for key in await self.extend(leases, self._visibility_ms):
                    self.held_leases.lose(key)
        except PenstockError as error:
            logger.info("no heartbeat of consumer %s: %s", self.identity, error)

    async def extend(self, leases: list[tuple[int, int]], duration_ms: int) -> list[tuple[int, int]]:
        """Set the deadline of leases, from now; returns those that are lost."""
        body = await self.session.call(
            "extend",
            lambda correlation: encode_body(
                EXTEND, correlation, ExtendBody(self.current(), leases, duration_ms)
            ),
        )
        self.held_leases.extend(leases, self._loop.time() + duration_ms / 1000)
        return decode_body(body, list[tuple[int, int]])

    async def heartbeat_stream(self) -> None:
        """Stay a member, and update the assigned partitions."""
        body = await self.session.call(
            "heartbeat",
            lambda correlation: encode_consumer(HEARTBEAT, correlation, self.current()),
            changes=False,
        )
        self.own(decode_body(body, list[int]))

    def own(self, assignment: list[int]) -> None:
        """Take over a new assignment; messages of other partitions are dropped."""
        self._assignment = assignment
        owned = set(assignment)
        for partition in (self._sent.keys() | self.read.keys()) - owned:
            self._sent.pop(partition, None)
            self.read.pop(partition, None)
        if any(message.partition not in owned for message in self._buffer):
            self._buffer = deque(message for message in self._buffer if message.partition in owned)
            self.ask_for_more()
        self._late = [late for late in self._late if late[1].partition in owned]
