"""A session reconnects automatically: requests outlive the connection they were sent on.

                    connect            hello, consumers resume
      CLOSED ──────────────> CONNECTING ──────────────────────> UP
        ^                        ^  │ refused, or lost: wait,    │
        │ close                  │  └─ longer each time, again   │ lost
        └────────────────────────┴───────────────────────────────┘

A request that finds no connection waits for the next one; a request whose
connection is lost before the answer came is sent again on the next one.  So
that this does nothing twice, every request is one of these:

    it changes nothing, or twice is the same as once       sent again
    the server knows a repeat when it sees one             sent again: publishes carry numbers or dedup ids,
                                                           and an answer such as "settled before" to a repeat
                                                           counts as done (``done``)
    neither                                                not sent again: ``OutcomeUnknown``

What a server refuses only for now (overloaded, shutting down) is asked again
after a pause.  All of it ends at the request's deadline.

Consumers take part: they are resumed, each with what it still holds, before
any request goes out on a new connection.

A session may know several servers, the nodes of a cluster.  It is connected to one of them; when that
cannot be reached, it goes on to the next (``ServerList``).  ``ask_once`` is for callers who have
another server to turn to (``routing.py``).
"""

import asyncio
import logging
import ssl
from collections.abc import Callable, Container, Coroutine, Iterable, Sequence
from functools import partial
from random import Random
from typing import Any, Final, Protocol

from penstock.client.connections.connection import ClientConnection, connect
from penstock.client.connections.exchange import ConnectionLost, Encode, OnAnswer
from penstock.client.connections.login import ClientLogin
from penstock.client.connections.url import ServerAddress
from penstock.client.retrying import NextStep, RequestRetry
from penstock.errors import (
    Closed,
    FrameTooLarge,
    NotOwner,
    OutcomeUnknown,
    Overloaded,
    PenstockError,
    ServerUnreachable,
    ShuttingDown,
    Unauthenticated,
    UnavailableError,
)
from penstock.wire.native import ASSIGNED, CONSUMER_CLOSED, DELIVERY, ERROR, HELLO, VERSION, decode_consumer
from penstock.wire.native_bodies import (
    Hello,
    Welcome,
    decode_assigned,
    decode_body,
    decode_consumer_closed,
    decode_error_frame,
    encode_body,
)

HELLO_S: Final = 5.0  # For the first answer of a server, if there are others to turn to.
PAUSE_MIN_S: Final = 0.05
PAUSE_MAX_S: Final = 2.0  # Well below the server's resume_ms: a consumer is missed for that long only.
CALM_S: Final = 1.0  # A connection that lived for less was none to rely on.
NOTHING: Final[frozenset[str]] = frozenset()

logger = logging.getLogger("penstock")

Ask = Callable[[Encode], Coroutine[Any, Any, bytes]]
Late = Callable[[bytes], None]


class Resumable(Protocol):
    """A consumer, to its session."""

    number: int  # On the current connection; -1 while there is none.

    async def resume(self, ask: Ask) -> None:
        """Open again on a new connection, with what is still held."""

    def resumed(self) -> None:
        """The new connection is in use."""

    def take_push(self, body: bytes) -> None:
        """The server has sent messages by itself."""

    def own(self, assignment: list[int]) -> None:
        """Stream groups: these partitions are the consumer's from now on."""

    def end(self, error: PenstockError) -> None:
        """The server has closed the consumer."""

    async def close(self) -> None:
        """Give back what is held."""


class ServerList:
    """The servers that a session may connect to, and which of them is next."""

    def __init__(self, given: Sequence[ServerAddress]) -> None:
        self._given = list(given)  # By the program.
        self._servers = list(given)
        self._failures = 0  # In a row.

    @property
    def current(self) -> ServerAddress:
        return self._servers[self._failures % len(self._servers)]

    @property
    def several(self) -> bool:
        return len(self._servers) > 1

    def learn(self, others: Iterable[ServerAddress]) -> None:
        """A cluster has these nodes now; those that the program has named stay."""
        servers = list(dict.fromkeys([self.current, *self._given, *others]))
        self._servers, self._failures = servers, 0

    def fail(self) -> int:
        """Turn to the next one; returns how often all of them have failed."""
        self._failures += 1
        return self._failures // len(self._servers)

    def succeed(self) -> None:
        """The current one is the first to try from now on."""
        self._servers.insert(0, self._servers.pop(self._failures % len(self._servers)))
        self._failures = 0


class ClientSession:
    """The way of a client to one server at a time; belongs to one event loop."""

    def __init__(
        self,
        servers: Sequence[ServerAddress],
        client: str,
        timeout_ms: int,
        random: Random,
        login: ClientLogin | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.servers = ServerList(servers)
        self._login = login or ClientLogin()
        self.tls = tls
        self.closing = False  # Nothing more is published.
        self.closed = False
        self.welcome: Welcome | None = None  # Of the current or the last connection.
        self.consumers: list[Resumable] = []
        self._client = client
        self.timeout_ms = timeout_ms
        self._random = random
        self._loop = asyncio.get_running_loop()
        self._connection: ClientConnection | None = None
        self._numbered: dict[int, Resumable] = {}  # The consumers, by their number on this connection.
        self._waiting: list[asyncio.Future[None]] = []  # For a connection.
        self._why = ""  # It is not there.
        self._up_since = 0.0  # On the loop's clock.
        self.generation = 0  # Of the connection: how many there were.
        self._refusal: PenstockError | None = None  # What the server said before it closed a connection.
        self._tasks: set[asyncio.Task[None]] = set()  # The session's own; awaited by close.

    async def open(self) -> None:
        """Connect for the first time, to the first server that can be reached; if there is none, say so."""
        while True:
            try:
                self._up(await self._connect())
            except ConnectionLost as lost:
                unreachable = ServerUnreachable(server=str(self.address), why=str(lost))
                failure: PenstockError = self._refusal or unreachable
            except (ServerUnreachable, ShuttingDown, Overloaded) as error:
                failure = error
            else:
                return
            if self.servers.fail():
                raise failure from None

    @property
    def address(self) -> ServerAddress:
        """Of the server that it is connected to, or tries to reach."""
        return self.servers.current

    @property
    def node(self) -> int:
        """The number of that server in a cluster; 0: there is no cluster."""
        return 0 if self.welcome is None else self.welcome.node

    @property
    def connected(self) -> bool:
        """Whether a request would go out at once."""
        return self._connection is not None

    @property
    def peer(self) -> tuple[str, int] | None:
        """Where the server is that is connected to: one of those that the address may stand for."""
        connection = self._connection
        return None if connection is None else connection.peer

    async def close(self) -> None:
        """Close the connection; waiting calls get an error."""
        self.closing = self.closed = True
        if self._connection is not None:
            await self._connection.close("the client was closed")
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def own(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run something beside the callers, until it ends or the session is closed."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # Requests.

    async def call(
        self,
        operation: str,
        encode: Encode,
        *,
        changes: bool = True,
        repeat: bool = True,
        wait_ms: int = 0,
        deadline: float | None = None,
        done: Container[str] = NOTHING,
        late: Late | None = None,
        failed: Exception | None = None,
    ) -> bytes:
        """The body of the answer; empty if a repeat was answered with an error that means it was done.

        ``wait_ms`` is how long the server itself may take beyond what is usual; ``late`` gets an answer
        that comes when the caller was cancelled; ``failed`` is what became of a first try by ``request``.
        """
        deadline = (self.deadline() if deadline is None else deadline) + wait_ms / 1000
        retry = RequestRetry(changes, repeat, done)
        while True:
            try:
                if failed is not None:
                    problem, failed = failed, None
                    raise problem
                connection = self._connection or await self._connected(
                    operation, deadline, retry.perhaps_done
                )
                return await self._ask(connection, encode, deadline, late)
            except (ConnectionLost, TimeoutError, PenstockError) as error:
                problem = error
            step = retry.after(problem)
            if step is NextStep.DONE:
                return b""
            if step is NextStep.PAUSE:
                if await self.pause(retry.pauses, deadline):
                    continue
                step = NextStep.UNKNOWN if retry.perhaps_done else NextStep.RAISE
            if step is NextStep.UNKNOWN:
                raise self.unknown(operation)
            if step is NextStep.UNANSWERED:
                why = f"{operation} was not answered within {self.timeout_ms / 1000:g} seconds"
                raise ServerUnreachable(server=str(self.address), why=why)
            if step is NextStep.RAISE:
                raise problem

    def request(self, encode: Encode, then: OnAnswer) -> None:
        """Send a request once, now; ``then`` is called with the response or the error."""
        if self._connection is None:
            then(b"", ConnectionLost(self._why))
            return
        try:
            self._connection.request(encode, then)
        except FrameTooLarge as error:
            then(b"", error)

    async def ask_once(self, encode: Encode, until: float) -> bytes:
        """The body of the answer to one try; raises ``ConnectionLost`` if there is none by then."""
        if self._connection is None:
            raise ConnectionLost(self._why)
        try:
            return await self._ask(self._connection, encode, until)
        except TimeoutError:
            raise ConnectionLost("the server does not answer") from None

    def deadline(self) -> float:
        """When a request that begins now must have its answer, on the loop's clock."""
        return self._loop.time() + self.timeout_ms / 1000

    def after(self, seconds: float) -> float:
        """The moment in so many seconds."""
        return self._loop.time() + seconds

    def is_due(self, deadline: float) -> bool:
        """Whether that moment has come."""
        return self._loop.time() >= deadline

    def at(self, deadline: float, function: Callable[[], None]) -> asyncio.TimerHandle:
        """Call it at that moment."""
        return self._loop.call_at(deadline, function)

    async def post(self, operation: str, frame_bytes: bytes, deadline: float) -> None:
        """Send what wants no answer, as soon as there is a connection."""
        (self._connection or await self._connected(operation, deadline, False)).send(frame_bytes)

    def send(self, frame_bytes: bytes) -> None:
        """Send what is not answered, if there is a connection to send it on."""
        if self._connection is not None:
            self._connection.push(frame_bytes)

    async def pause(self, count: int, deadline: float) -> bool:
        """Wait before the next try, longer each time; False if the deadline comes first."""
        pause_s = self._pause_s(count)
        left_s = deadline - self._loop.time()
        await asyncio.sleep(max(min(pause_s, left_s), 0))
        return pause_s < left_s

    async def _ask(
        self, connection: ClientConnection, encode: Encode, deadline: float, late: Late | None = None
    ) -> bytes:
        future: asyncio.Future[bytes] = self._loop.create_future()
        connection.request(encode, partial(_settle, future, late))
        timer = self._loop.call_at(deadline, _settle, future, None, b"", TimeoutError())
        try:
            return await future
        except asyncio.CancelledError:
            if late is not None and not future.cancelled() and future.exception() is None:
                late(future.result())  # The answer came in the same turn as the cancellation.
            raise
        finally:
            timer.cancel()

    async def _connected(self, operation: str, deadline: float, perhaps_done: bool) -> ClientConnection:
        while self._connection is None or self.closed:
            if self.closed:
                raise self.unknown(operation) if perhaps_done else Closed(what="broker")
            future: asyncio.Future[None] = self._loop.create_future()
            self._waiting.append(future)
            try:
                async with asyncio.timeout_at(deadline):
                    await future
            except TimeoutError:
                if perhaps_done:
                    raise self.unknown(operation) from None
                raise ServerUnreachable(server=str(self.address), why=self._why) from None
        return self._connection

    def unknown(self, operation: str) -> OutcomeUnknown:
        """The error for what may have been done."""
        return OutcomeUnknown(operation=operation, server=str(self.address))

    # Connections.

    async def _connect(self) -> ClientConnection:
        """A new connection after its hello; consumers are resumed, and requests may follow."""
        connection = await connect(self.address, self._take_push, self._lost, self.tls)
        try:
            deadline = self.deadline()
            if self.servers.several:
                deadline = min(deadline, self._loop.time() + HELLO_S)
            ask = partial(self._ask, connection, deadline=deadline)
            body = await ask(self.hello)
            self.welcome = decode_body(body, Welcome)
            connection.exchange.frame_bytes_max = self.welcome.frame_bytes_max
            self._numbered.clear()
            for consumer in list(self.consumers):
                await self._resume(consumer, ask)
        except TimeoutError:
            await connection.close("the server does not answer")
            raise ConnectionLost("the server does not answer") from None
        except BaseException:
            await connection.close("the connection was not accepted")
            raise
        if connection.lost:
            raise ConnectionLost(self._why)
        return connection

    def hello(self, correlation: int) -> bytes:
        login = self._login
        hello = Hello(
            versions=[VERSION], client=self._client, key=login.key, user=login.user, password=login.password
        )
        return encode_body(HELLO, correlation, hello)

    async def _resume(self, consumer: Resumable, ask: Ask) -> None:
        try:
            await consumer.resume(ask)
        except PenstockError as error:  # Its topic is gone, or its group is of the other kind now.
            if isinstance(error, UnavailableError) and not isinstance(error, NotOwner):
                raise  # The connection is tried again, as a whole.
            consumer.end(error)
            return
        self._numbered[consumer.number] = consumer

    def _up(self, connection: ClientConnection) -> None:
        self._connection = connection
        self.servers.succeed()
        self._refusal = None
        self._up_since = self._loop.time()
        self.generation += 1
        for consumer in list(self.consumers):
            consumer.resumed()
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def _lost(self, connection: ClientConnection, why: str) -> None:
        self._why = why
        if connection is not self._connection:
            return  # It was not up yet; the connect call reports it.
        self._connection = None
        self._numbered.clear()
        if not self.closed:
            logger.info("connection to %s lost: %s", self.address, why)
            short = self._loop.time() - self._up_since < CALM_S
            self.own(self._reconnect(PAUSE_MIN_S * self._random.random() if short else 0))

    async def _reconnect(self, pause_s: float) -> None:
        await asyncio.sleep(pause_s)  # A server that hangs up on everyone is not asked without a break.
        while True:
            try:
                self._up(await self._connect())
            except (ConnectionLost, PenstockError) as error:
                facts = error.facts if isinstance(error, PenstockError) else {}
                self._why = str(facts.get("why", error))
                if isinstance(error, Unauthenticated):
                    self._tell_waiting(error)
                rounds = self.servers.fail()
                if rounds:  # All of them were tried.
                    await asyncio.sleep(self._pause_s(rounds))
            else:
                logger.info("connected to %s again", self.address)
                return

    def _tell_waiting(self, error: PenstockError) -> None:
        """Who waits for a connection waits in vain."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_exception(error)

    def _pause_s(self, count: int) -> float:
        """Doubles with every time; jitter keeps a thousand clients from coming back at once."""
        longest: float = min(PAUSE_MIN_S * 2 ** min(count, 10), PAUSE_MAX_S)
        return longest * (0.5 + 0.5 * self._random.random())

    # Consumers.

    def add(self, consumer: Resumable) -> None:
        """From now on the consumer gets its pushes, and is resumed with every new connection."""
        self.consumers.append(consumer)
        self._numbered[consumer.number] = consumer

    def remove(self, consumer: Resumable) -> None:
        if consumer in self.consumers:
            self.consumers.remove(consumer)
        self._numbered.pop(consumer.number, None)

    def _take_push(self, opcode: int, body: bytes) -> None:
        if opcode == DELIVERY:
            consumer = self._numbered.get(decode_consumer(body))
            if consumer is not None:  # Else it was closed while this was on its way.
                consumer.take_push(body)
        elif opcode == ASSIGNED:
            number, partitions = decode_assigned(body)
            consumer = self._numbered.get(number)
            if consumer is not None:
                consumer.own(partitions)
        elif opcode == CONSUMER_CLOSED:
            number, error = decode_consumer_closed(body)
            consumer = self._numbered.get(number)
            if consumer is not None:
                consumer.end(error)
        elif opcode == ERROR:  # The server's last words: it is about to close.
            self._refusal = decode_error_frame(body)


def _settle(future: "asyncio.Future[bytes]", late: Late | None, body: bytes, error: Exception | None) -> None:
    if future.done():  # The caller has given up.
        if late is not None and error is None:
            late(body)
    elif error is None:
        future.set_result(body)
    else:
        future.set_exception(error)
