"""The request object passed to handlers, and the rows of the route table.

A handler is a coroutine that gets a ``HttpCall`` and returns a value; the application does authentication,
limits, decoding, encoding, status and errors.  Handlers call the broker through ``call.operations``, which
enforces the permissions of the caller.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET
from starlette.types import Receive, Scope, Send

from penstock.api.work import Work
from penstock.broker.frontend import EmbeddedAsyncBroker
from penstock.config.server import LimitSettings
from penstock.errors import PenstockError
from penstock.frontends.http.consumers.long_polls import Disconnection, LongPoll
from penstock.frontends.http.consumers.receipts import ReceiptCodec
from penstock.frontends.http.consumers.registry import HttpConsumers
from penstock.frontends.http.monitoring.history import OverviewHistory
from penstock.frontends.http.monitoring.reports import Reports
from penstock.frontends.origins import Origins
from penstock.frontends.security.gateway import AuthGateway
from penstock.frontends.security.guarded import BrokerOperations
from penstock.frontends.security.identity import NOBODY, Credentials

T = TypeVar("T")
Headers = tuple[tuple[bytes, bytes], ...]

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
EVENTS: Final = "text/event-stream"


class HttpShared:
    """What all requests of a listener share."""

    def __init__(
        self, broker: EmbeddedAsyncBroker, gateway: AuthGateway, limits: LimitSettings, origins: Origins
    ) -> None:
        self.broker = broker
        self.gateway = gateway
        self.limits = limits
        self.origins = origins
        self.draining = False  # The server is about to end.
        self.consumers = HttpConsumers(broker)
        gateway.ended.append(self.consumers.forget)
        self.receipts = ReceiptCodec()
        self.reports = Reports(gateway)
        self.sql_running = 0  # Queries that Spark answers for clients of this listener.
        self.watch = OverviewHistory(broker, gateway, self.reports)


class HttpCall:
    """One HTTP request: its parameters, its body, and the operations its sender may use."""

    __slots__ = (
        "body", "credentials", "headers", "identity", "kind", "lost", "more", "operations", "path", "query",
        "receive", "scope", "shared",
    )  # fmt: skip

    def __init__(self, shared: HttpShared, headers: Mapping[bytes, bytes]) -> None:
        self.shared = shared
        self.headers = headers  # By their names in small letters.
        self.operations: BrokerOperations  # Of the caller; not set before a login that is required.
        if not shared.gateway.required:
            self.operations = shared.gateway.operations(NOBODY)
        self.identity = NOBODY
        self.credentials = Credentials()  # With which the sender has logged in.
        self.lost = Disconnection()  # Whether the connection is.
        self.path: Mapping[str, str] = {}
        self.query: Any = None  # Of the type that the route names.
        self.body: Any = None  # The same; None where the handler reads it itself.
        self.receive: Receive | None = None  # Then the next piece of it.
        self.scope: Scope = {}  # The request as ASGI has it.
        self.more: Headers = ()  # What the handler adds to the head of the answer.
        self.kind: str | None = None  # The media type of the answer, where the handler chooses it.

    @property
    def address(self) -> str:
        """The address of the client."""
        client = self.scope.get("client")
        return client[0] if client else "?"

    @property
    def secure(self) -> bool:
        """Whether the connection is encrypted."""
        return self.scope.get("scheme") == "https"

    @property
    def topic(self) -> str:
        """The topic in the path."""
        return self.path["topic"]

    @property
    def group(self) -> str:
        """The group in the path."""
        return self.path["group"]

    async def run(self, work: Work[T]) -> T:
        """Run one of the operations to its end."""
        return await self.shared.broker.run(work)

    async def run_all(self, works: Iterable[Work[T]]) -> list[T | PenstockError]:
        """Run operations at the same time, begun in their order, so that one sync serves all."""
        return await self.shared.broker.run_all(works)

    def long_poll(self) -> LongPoll:
        """A wait for messages, for a request that is not answered at once."""
        return LongPoll(self.shared.gateway, self.identity, self.lost)

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")


Handler = Callable[[HttpCall], Awaitable[Any]]
SocketHandler = Callable[[HttpCall, Receive, Send], Awaitable[None]]


class Routed(msgspec.Struct, frozen=True):
    method: str
    path: str
    handler: Handler
    operation: str | None  # The operation whose permission is required; None: no login is required.


class Route(Routed, frozen=True, kw_only=True):
    """What one method of one path does."""

    tag: str  # The heading in the documents.
    answer: Any = UNSET  # The type of the answer; by default what the handler returns.  None: there is none.
    status: int = 200
    kind: str = JSON  # The media type of the answer; of any other than JSON the handler returns the bytes.
    headers: Headers = ()  # That go with it, beside type and length.
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    example: Any = None  # A body that makes sense.
    streamed: bool = False  # The handler reads the body itself.
    pieces: str | None = None  # The type of an answer that is sent piece by piece.
    others: tuple[str, ...] = ()  # Media types that the client may ask for instead, with Accept.
    socket: SocketHandler | None = None  # What is done where a WebSocket is asked for.
    accepts: tuple[str, ...] = (JSON,)  # Media types of the body.
    registry: bool = False  # Errors are answered as a schema registry does, not as problem documents.
    id: str = ""  # In the documents; the name of the handler, unless given.
    errors: tuple[str, ...] = ()  # Codes of this route, beside those that every one may answer with.

    def __post_init__(self) -> None:
        if self.answer is UNSET:
            returned = self.handler.__annotations__["return"]
            pieces = self.pieces is not None or self.kind != JSON
            msgspec.structs.force_setattr(self, "answer", None if pieces else returned)

    @property
    def needs_body(self) -> bool:
        """Whether some field of the body must be given."""
        return self.body is not None and any(field.required for field in msgspec.structs.fields(self.body))

    @property
    def name(self) -> str:
        """What the route is called in the documents."""
        name: str = self.id or getattr(self.handler, "__name__", "")
        return name

    @property
    def summary(self) -> str:
        """One sentence: the handler's docstring."""
        return (self.handler.__doc__ or "").strip().partition("\n")[0]
