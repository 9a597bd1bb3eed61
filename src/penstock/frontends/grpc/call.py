"""A call, and the state that all calls of a listener share: identity, limits, error handling.

    grpc.aio ──> Handlers ── draining? too many connections? login? ──> a method (publishing.py, ...)
                    ├── a PenstockError ──> a status with details
                    └── any other fault ──> INTERNAL, and the log

gRPC does not expose its connections, so they are counted by their calls: an address with at least one call
in progress is one connection.

Where keys are required, a call is authenticated by its headers, before its request is read, so
unauthenticated clients cannot make the server buffer anything.  At most ``LOGINS_MAX`` logins are checked
at a time, and at most ``UNKNOWN_CALLS_MAX`` health checks and reflection calls, which need no login, so
unauthenticated clients cannot use up all calls of a listener.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from google.protobuf.message import DecodeError
from grpc.aio import AbortError, BaseError, ServicerContext

from penstock.api.work import Work
from penstock.broker.frontend import EmbeddedAsyncBroker
from penstock.config.server import LimitSettings
from penstock.errors import Overloaded, PenstockError, ProtocolViolation, ShuttingDown
from penstock.frontends.grpc import errors
from penstock.frontends.grpc.together import Together
from penstock.frontends.listener import Connections
from penstock.frontends.security.gateway import AuthGateway
from penstock.frontends.security.guarded import BrokerOperations
from penstock.frontends.security.identity import NOBODY, Credentials, Identity

AUTHORIZATION: Final = "authorization"
LOGINS_MAX: Final = 256  # Calls that wait for their login; a key that was verified before does not wait.
UNKNOWN_CALLS_MAX: Final = 256  # Calls without a login.  Both are half of all calls (``server.py``) ...
UNKNOWN_OF_HOST_MAX: Final = 128  # ... of one host.

logger = logging.getLogger("penstock")

T = TypeVar("T")
Context = ServicerContext[Any, Any]


class GrpcShared:
    """The state that all calls of a listener share."""

    def __init__(
        self,
        broker: EmbeddedAsyncBroker,
        limits: LimitSettings,
        connections: Connections,
        gateway: AuthGateway,
    ) -> None:
        self.broker = broker
        self.limits = limits
        self.gateway = gateway
        self.publish_bytes = 0  # Of publishes that were not answered yet.
        self.draining = False
        self.ends: set[Callable[[PenstockError], None]] = set()  # Waiting calls, each of which can be ended.
        self._connections = connections
        self._calls: dict[str, int] = {}  # In progress, by the address of their connection.
        self.calls = 0  # All of them.
        self._left = asyncio.Event()  # Set whenever a call has ended.
        self._unknown: Counter[str] = Counter()  # Calls that need no login, by host.
        self._logins = 0  # Calls that wait for their login.
        self.together = Together()

    def enter(self, peer: str) -> None:
        """Count a call; ``Overloaded`` if its connection exceeds the limit."""
        if self.draining:
            raise ShuttingDown(what="server")
        calls = self._calls.get(peer, 0)
        if not calls:
            self._connections.enter()
        self._calls[peer] = calls + 1
        self.calls += 1

    def leave(self, peer: str) -> None:
        self.calls -= 1
        self._left.set()
        calls = self._calls.pop(peer) - 1
        if calls:
            self._calls[peer] = calls
        else:
            self._connections.leave()

    @contextmanager
    def unknown(self, peer: str) -> Iterator[None]:
        """Count a call that needs no login; ``Overloaded`` if it exceeds the limit."""
        host = host_of(peer)
        if self._unknown[host] >= UNKNOWN_OF_HOST_MAX:
            raise Overloaded(what="calls without a login of one address", limit=UNKNOWN_OF_HOST_MAX)
        if self._unknown.total() >= UNKNOWN_CALLS_MAX:
            raise Overloaded(what="calls without a login", limit=UNKNOWN_CALLS_MAX)
        self._unknown[host] += 1
        try:
            yield
        finally:
            self._unknown[host] -= 1
            if not self._unknown[host]:
                del self._unknown[host]

    async def login(self, credentials: Credentials, host: str) -> Identity:
        """Authenticate a call; ``Overloaded`` if too many logins are being checked."""
        login = self.gateway.start_login(credentials, host)
        if login.done():
            return login.result()
        if self._logins >= LOGINS_MAX:
            login.cancel()
            raise Overloaded(what="calls that wait for their login", limit=LOGINS_MAX)
        self._logins += 1
        try:
            return await login
        finally:
            self._logins -= 1

    async def drain(self) -> None:
        """Accept no more calls, end waiting ones, and wait for the others."""
        self.draining = True
        for end in list(self.ends):
            end(ShuttingDown(what="server"))
        while self.calls:
            self._left.clear()
            await self._left.wait()


class GrpcCall:
    """One call of a client, with its identity and its operations."""

    def __init__(self, shared: GrpcShared, context: Context, identity: Identity) -> None:
        self.shared = shared
        self.context = context
        self.identity = identity
        self.operations: BrokerOperations = shared.gateway.operations(identity)
        self.facts: dict[str, object] = {}  # Added to the details of an error.

    def run(self, work: Work[T]) -> Awaitable[T]:
        """Run one of the operations to its end; cancelling the call cancels it without effect."""
        return self.shared.broker.run(work)

    def start(self, work: Work[T]) -> "asyncio.Future[T]":
        """Begin an operation that is not cancelled with the call."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def then(result: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self.shared.broker.start(work, then)
        return future

    @asynccontextmanager
    async def until_ended(self) -> AsyncIterator[None]:
        """Count as a connection; the block fails if the server stops or the key is revoked."""
        shared = self.shared
        if shared.draining:  # Since the login began.
            raise ShuttingDown(what="server")
        ended: list[PenstockError] = []
        waiting = asyncio.timeout(None)

        def end(error: PenstockError) -> None:
            if not ended:
                waiting.reschedule(asyncio.get_running_loop().time())
            ended.append(error)

        admitted = shared.gateway.enter(self.identity, end)
        shared.ends.add(end)
        try:
            async with waiting:
                yield
        except TimeoutError:
            if not ended:
                raise
            raise ended[0] from None
        finally:
            shared.ends.discard(end)
            admitted.leave()


Unary = Callable[[GrpcCall, Any], Awaitable[Any]]
Streaming = Callable[[GrpcCall, Any], Awaitable[None]]


class Handlers:
    """Wraps methods as handlers for grpc.aio.

    gRPC reads the request of a unary call before it calls the handler.  ``alone`` says that the request is
    one message, though it comes as an iterator: it is read after the login.
    """

    def __init__(self, shared: GrpcShared) -> None:
        self._shared = shared

    def unary(self, method: Unary, *, alone: bool) -> Callable[[Any, Context], Awaitable[Any]]:
        """A handler whose method returns the one response to a message, or an iterator of messages."""

        async def handle(request: Any, context: Context) -> Any:
            return await self._handle(method, request, context, alone)

        return handle

    def stream(self, method: Streaming, *, alone: bool) -> Callable[[Any, Context], Awaitable[None]]:
        """A handler whose method writes any number of responses to the context."""

        async def handle(request: Any, context: Context) -> None:
            try:
                await self._handle(method, request, context, alone)
            except BaseError as gone:  # Of a write: the client has left.
                if isinstance(gone, AbortError):
                    raise

        return handle

    async def _handle(self, method: Any, request: Any, context: Context, alone: bool) -> Any:
        shared, peer = self._shared, context.peer()
        facts: dict[str, object] = {}
        try:
            shared.enter(peer)
            try:
                identity = NOBODY if not shared.gateway.required else await self._login(context, peer)
                if alone:
                    request = await only(request)
                elif isinstance(request, PenstockError):
                    raise request
                call = GrpcCall(shared, context, identity)
                facts = call.facts
                return await method(call, request)
            finally:
                shared.leave(peer)
        except PenstockError as error:
            failed = error
        except BaseError:  # gRPC's own.
            raise
        except Exception:  # The server continues, and the client gets no details.
            logger.exception("a gRPC call failed")
            failed = PenstockError(reason="internal error; see the server's log")
        await context.abort(
            errors.status_of(failed), errors.sentence(failed), errors.details(failed, **facts)
        )
        return None

    async def _login(self, context: Context, peer: str) -> Identity:
        shown = ""
        for name, value in context.invocation_metadata() or ():
            if name == AUTHORIZATION and isinstance(value, str):
                shown = value
        return await self._shared.login(Credentials.of_header(shown), host_of(peer))


async def only(requests: AsyncIterator[Any]) -> Any:
    """The one message of a request; its error if it cannot be read."""
    async for request in requests:
        if isinstance(request, PenstockError):
            raise request
        return request
    raise ProtocolViolation(why="the call ended without a request")


def host_of(peer: str) -> str:
    """The host of an address as gRPC writes it: ipv4:127.0.0.1:1234, or ipv6:%5B::1%5D:1234."""
    return unquote(peer).partition(":")[2].rpartition(":")[0].strip("[]") or peer


def decoder(kind: Any) -> Callable[[bytes], Any]:
    """Reads requests of a type; one that cannot be read is an error for the method, not for the log."""

    def decode(data: bytes) -> Any:
        try:
            return kind.FromString(data)
        except DecodeError:
            return ProtocolViolation(why=f"the request is no {kind.DESCRIPTOR.full_name}")

    return decode
