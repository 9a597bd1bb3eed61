"""A consumer of a topic whose partitions have several owners: one part at each owner.

    receive ── ask the parts in turn; if none has a message, wait at all of them ──> messages
    ack, nack, reject, extend ──> the part that holds the lease
    every FOLLOW_S, and when a part fails: the owners again ── open new parts, retire others

A part is a ``Receiver`` on the session of an owner (``routing.py``), opened with ``here``: it gets messages
of that node's partitions only.  If an owner cannot be reached from here, there is one part instead, on
the home session, whose node asks the owners (``proxied``).

A part whose node no longer owns partitions of the topic is retired: nothing is received from it, and it is
closed when the program has settled all its messages.  The leases of a failed node are lost, and the next
owner delivers their messages again.

``max_in_flight`` holds for each part; ``prefetch`` is divided among the parts.  In a stream group each owner
assigns its own partitions.
"""

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from penstock.api.operations import Wrap
from penstock.client.connections.exchange import ConnectionLost
from penstock.client.consume.receiver import Receiver
from penstock.client.consume.settling import RemoteSettler
from penstock.client.retrying import ELSEWHERE
from penstock.client.routing import ANSWER_S, OwnerRouting
from penstock.client.session import ClientSession
from penstock.errors import (
    Closed,
    LeaseLost,
    OutcomeUnknown,
    PenstockError,
    ServerUnreachable,
    UnavailableError,
)
from penstock.model.message import LeaseRun, Message
from penstock.types import Duration, whole_number
from penstock.wire.native import PING, frame
from penstock.wire.native_bodies import OpenConsumer

FOLLOW_S = 2.0  # Between two refreshes of the owners.  (Tests set it.)
PAUSE_S: Final = 0.1  # After a part has failed.
# The errors of a part whose node does not own the partitions, or cannot be reached.
GONE: Final = (*ELSEWHERE, UnavailableError, ServerUnreachable, OutcomeUnknown, ConnectionLost)

logger = logging.getLogger("penstock")


class ConsumerPart:
    """The consumer at one server."""

    def __init__(self, session: ClientSession, receiver: Receiver) -> None:
        self.session = session
        self.receiver = receiver
        self.answers = RemoteSettler(receiver)
        self.silent = False  # It did not answer in time.

    @property
    def usable(self) -> bool:
        return self.session.connected and not self.silent and not self.receiver.closed


class SpanningReceiver:
    """Several receivers as one, and the settling of their messages."""

    def __init__(
        self, routing: OwnerRouting, request: OpenConsumer, wrap: Wrap, prefetch: int, heartbeat: bool
    ) -> None:
        self.identity = request.consumer_id or f"{routing.home.node}-{secrets.token_hex(4)}"
        self._request = msgspec.structs.replace(
            request, consumer_id=self.identity
        )  # The same at every owner.
        self._routing = routing
        self._home = routing.home
        self._wrap = wrap
        self._prefetch = prefetch
        self._heartbeat = heartbeat
        self._settler: Any = None
        self._loop = asyncio.get_running_loop()
        self._parts: dict[ClientSession, ConsumerPart] = {}
        self._retired: list[ConsumerPart] = []
        self._from: dict[int, ConsumerPart] = {}  # By partition: the part that delivered the last message.
        self._ready: deque[Any] = deque()  # Messages that arrived when a receive already had others.
        self._turn = 0
        self._changed = asyncio.Event()  # The parts have changed; receives use the new ones.
        self._changing = asyncio.Lock()
        self._following: asyncio.Task[None] | None = None
        self._closed = False

    # Parts.

    async def open(self) -> None:
        await self._reconcile()
        self._following = self._home.own(self._follow())

    async def _follow(self) -> None:
        while not self._closed:
            await asyncio.sleep(FOLLOW_S)
            await self._reconcile_quietly()

    async def _reconcile(self) -> None:
        """Open a part at each owner, and retire the others."""
        async with self._changing:
            wanted = await self._wanted()
            for session in wanted:
                if session not in self._parts:
                    await self._open_part(session, proxied=session is self._home, count=len(wanted))
            if not self._parts:  # No owner can be asked: any node can.
                wanted = [self._home]
                await self._open_part(self._home, proxied=True, count=1)
            for session, part in list(self._parts.items()):
                if (session not in wanted and len(self._parts) > 1) or part.receiver.closed:
                    self._retire(part)
            for part in list(self._retired):
                if part.receiver.closed or not part.receiver.held_leases.held():
                    self._retired.remove(part)
                    self._home.own(part.receiver.close())

    async def _wanted(self) -> list[ClientSession]:
        """The sessions of all owners; home, if one cannot be reached, or the topic does not exist yet."""
        topic = self._request.topic
        owners = {node for node in await self._routing.refresh(topic) if node >= 0}
        found: list[ClientSession] = []
        for node in sorted(owners):
            session = await self._routing.open(node)
            if session is None or not await self._answers(session):
                return [self._home]
            found.append(session)
        return found or [self._home]

    async def _answers(self, session: ClientSession) -> bool:
        part = self._parts.get(session)
        if part is None or not part.silent:
            return True
        try:
            await session.ask_once(lambda number: frame(PING, number), session.after(ANSWER_S))
        except (ConnectionLost, PenstockError):
            return False
        part.silent = False
        return True

    async def _open_part(self, session: ClientSession, *, proxied: bool, count: int) -> None:
        request = msgspec.structs.replace(self._request, here=not proxied)
        prefetch = max(self._prefetch // count, 1) if self._prefetch else 0
        receiver = Receiver(session, request, self._wrap, prefetch, self._heartbeat)
        receiver.settler = self._settler
        try:
            await receiver.open()
        except GONE as error:
            if proxied:
                raise
            logger.info("consumer %s was not opened at %s: %s", self.identity, session.address, error)
            return
        self._parts[session] = ConsumerPart(session, receiver)
        self._change()

    def _retire(self, part: ConsumerPart) -> None:
        del self._parts[part.session]
        part.receiver.stop_receiving()
        self._retired.append(part)
        self._change()

    def _change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # Properties for the facade.

    @property
    def settler(self) -> Any:
        return self._settler

    @settler.setter
    def settler(self, settler: Any) -> None:
        self._settler = settler
        for part in self._all():
            part.receiver.settler = settler

    @property
    def in_flight(self) -> int:
        return sum(part.receiver.in_flight for part in self._all())

    @property
    def assignment(self) -> list[int]:
        return sorted({number for part in self._parts.values() for number in part.receiver.assignment})

    @property
    def closed(self) -> bool:
        return self._closed or self._home.closed

    def _all(self) -> list[ConsumerPart]:
        return [*self._parts.values(), *self._retired]

    def _check_open(self) -> None:
        if self._home.closed:
            raise Closed(what="broker")
        if self._closed:
            raise Closed(what="consumer")

    async def close(self) -> None:
        if self.closed:
            return
        self._closed = True
        if self._following is not None:
            self._following.cancel()
        self._ready.clear()
        self._change()
        async with self._changing:
            await asyncio.gather(*(part.receiver.close() for part in self._all()))

    # Receiving.

    async def receive(self, max_messages: Any, wait_ms: int) -> list[Any]:
        """Up to ``max_messages``, as soon as there is one; none after ``wait_ms``."""
        messages = await self._take(max_messages, wait_ms)
        for message in messages:  # ``commit`` leaves out what is still in ``_ready``.
            self._from[message.partition].receiver.handed([message])
        return messages

    async def _take(self, max_messages: Any, wait_ms: int) -> list[Any]:
        whole_number("max_messages", max_messages, 1)
        until = self._loop.time() + wait_ms / 1000
        left_ms = wait_ms
        while True:
            self._check_open()
            changed = self._changed
            found = self._take_ready(max_messages)
            if not found and (not left_ms or len(self._parts) > 1 or not self._usable()):
                found = await self._poll(max_messages)
            if found or not left_ms:
                return found
            if await self._wait(max_messages, left_ms, changed):
                return self._take_ready(max_messages)
            left_ms = max(round((until - self._loop.time()) * 1000), 0)

    def _take_ready(self, max_messages: int) -> list[Any]:
        return [self._ready.popleft() for _ in range(min(max_messages, len(self._ready)))]

    def _usable(self) -> list[ConsumerPart]:
        return [part for part in self._parts.values() if part.usable]

    async def _poll(self, max_messages: int) -> list[Any]:
        """Ask one part after the other, without waiting, until there are enough."""
        found: list[Any] = []
        parts = self._usable()
        if not parts:
            await self._reconcile()  # Raises if no node can be reached.
            parts = list(self._parts.values())
        self._turn += 1
        for step in range(len(parts)):
            part = parts[(self._turn + step) % len(parts)]
            try:
                found += await self._receive_from(part, max_messages - len(found), 0) or []
            except PenstockError:
                if not found:
                    raise
                break  # Return the received messages; the next call raises the error.
            except BaseException:  # Cancelled: the next receive returns it.
                self._ready.extendleft(reversed(found))
                raise
            if len(found) >= max_messages:
                break
        return found

    async def _receive_from(self, part: ConsumerPart, max_messages: int, wait_ms: int) -> list[Any] | None:
        """Receive from one part; None if it has ended, after which the owners are refreshed."""
        try:
            async with asyncio.timeout(None if wait_ms else ANSWER_S):
                messages = await part.receiver.take(max_messages, wait_ms)
        except TimeoutError:
            part.silent = True
        except GONE as error:
            logger.info("consumer %s: %s", self.identity, error)
        else:
            for message in messages:
                self._from[message.partition] = part
            return messages
        self._home.own(self._reconcile_quietly())
        return None

    async def _reconcile_quietly(self) -> None:
        try:
            await self._reconcile()
        except PenstockError as error:
            logger.info("consumer %s: the owners could not be followed: %s", self.identity, error)

    async def _wait(self, max_messages: int, wait_ms: int, changed: asyncio.Event) -> bool:
        """Wait at all parts until one has messages, which go to ``_ready``; True if the time is over."""
        parts = self._usable() or list(self._parts.values())
        tasks = [self._loop.create_task(self._receive_from(part, max_messages, wait_ms)) for part in parts]
        watch = self._loop.create_task(changed.wait())
        try:
            await asyncio.wait([*tasks, watch], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*tasks, watch):
                task.cancel()
            await asyncio.wait([*tasks, watch])
            ended = [task for task in tasks if not task.cancelled()]
            for task in ended:
                if task.exception() is None:
                    self._ready.extend(task.result() or [])
        for task in ended:
            error = task.exception()
            if error is not None and not self._ready:
                raise error
        if ended and all(task.result() is None for task in ended):
            await asyncio.sleep(min(wait_ms / 1000, PAUSE_S))  # Until the owners are known.
            return False
        return bool(ended)

    # Settling.

    def _part(self, message: Any) -> ConsumerPart:
        """The part that can settle a message; for a foreign message, one that raises the error."""
        delivery = getattr(message, "delivery", None)
        partition, lease = getattr(delivery, "partition", -1), getattr(delivery, "lease", -1)
        for part in self._all():
            if part.receiver.held_leases.holds(partition, lease):
                return part
        return self._from.get(partition) or self._all()[0]

    async def _answer(
        self, part: ConsumerPart, message: Any, answer: Callable[[RemoteSettler], Awaitable[None]]
    ) -> None:
        """Settle at a part.  ``LeaseLost`` if its server is no longer the owner, or has failed."""
        delivery = getattr(message, "delivery", None)
        failed = part.receiver.closed or (part in self._retired and not part.session.connected)
        if not failed or delivery is None:
            try:
                await answer(part.answers)
            except (*ELSEWHERE, Closed):
                if self.closed or delivery is None:
                    raise
            else:
                return
        raise LeaseLost(topic=self._request.topic, partition=message.partition, offset=message.offset)

    async def ack(self, messages: list[Any], outputs: list[tuple[str, Message]]) -> None:
        self._check_open()
        by_part: dict[ConsumerPart, list[Any]] = {}
        for message in messages:
            by_part.setdefault(self._part(message), []).append(message)
        if outputs or len(by_part) <= 1:  # Outputs belong to the messages of one partition.
            part = next(iter(by_part), None) or self._all()[0]
            first = messages[0] if messages else None
            await self._answer(part, first, lambda answers: answers.ack(messages, outputs))
            return
        failed: PenstockError | None = None
        for part, some in by_part.items():
            try:
                await self._answer(part, some[0], lambda answers, some=some: answers.ack(some, []))  # type: ignore[misc]
            except PenstockError as error:  # Those of the other parts are settled anyway.
                failed = failed or error
        if failed is not None:
            raise failed

    def answered(self, runs: list[LeaseRun]) -> None:
        """A transaction has settled these: they are not held any more."""
        for run in runs:
            for part in self._all():
                if part.receiver.held_leases.holds(run.partition, run.lease):
                    part.answers.answered([run])
                    break

    async def nack(self, message: Any, delay: Duration | None, error: BaseException | str | None) -> None:
        self._check_open()
        await self._answer(self._part(message), message, lambda answers: answers.nack(message, delay, error))

    async def reject(self, message: Any, reason: Any) -> None:
        self._check_open()
        await self._answer(self._part(message), message, lambda answers: answers.reject(message, reason))

    async def extend(self, message: Any, duration: Duration) -> None:
        self._check_open()
        await self._answer(self._part(message), message, lambda answers: answers.extend(message, duration))

    async def commit(self) -> None:
        """Stream groups: everything received so far is done."""
        self._check_open()
        for part in list(self._parts.values()):
            if not part.receiver.closed:
                await part.answers.commit()
