"""The ASGI application: routing, authentication, decoding and error handling of requests.

    path ──> Resource ── method ──> Route
                                     1  authentication       Authorization header, or session cookie
                                     2  query, body          decoded and validated by their structs
                                     3  handler(call)        with the operations that the caller may use
                                     4  answer, or problem   JSON

Starlette's router finds the path; nothing else of that framework is used.  It gets decoded paths, in which an
encoded slash is like one between segments.  Subjects of the schema registry may have slashes (Protobuf's
serializers name them after imported files), so there another character stands for it until a route is found.
The size of a body is checked before it is read.  An unexpected error is logged, and the client gets a
response without its details.
"""

import logging
from collections.abc import AsyncGenerator, Iterable
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import msgspec
from starlette.routing import BaseRoute, Router, WebSocketRoute
from starlette.routing import Route as PathRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.errors import (
    MethodNotAllowed,
    PenstockError,
    RequestInvalid,
    RequestTooLarge,
    RouteNotFound,
)
from penstock.frontends.http import browsers, problems, registry_problems
from penstock.frontends.http.bodies import Gone, check_type, plainly, read_body
from penstock.frontends.http.call import JSON, NDJSON, Headers, HttpCall, HttpShared, Route
from penstock.frontends.http.cors import with_cors
from penstock.frontends.http.messages import encode
from penstock.frontends.http.pages import ui
from penstock.frontends.http.routes import ROUTES
from penstock.frontends.security.identity import Credentials
from penstock.frontends.security.needs import NEEDS

FIELDS_MAX: Final = 100  # Of a query.
CLOSE: Final = (b"connection", b"close")
LOOKING: Final = ("describe", "read")  # Actions that take and change nothing.
FAULT: Final = 1011  # How a WebSocket is closed if the server is to blame.
SLASH: Final = "\udc2f"  # Of a subject.  No decoded path has it: it is half of a surrogate pair.

logger = logging.getLogger("penstock")

Lines = AsyncGenerator[bytes, None]


def make_app(shared: HttpShared, routes: Iterable[Route] = (*ROUTES, *browsers.ROUTES)) -> ASGIApp:
    """The application over one broker."""

    async def nowhere(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001 - ASGI's.
        await _send_problem(_answering(scope, send), RouteNotFound(path=_path(scope)))

    routes = list(routes)
    by_path: dict[str, list[Route]] = {}
    for route in routes:
        by_path.setdefault(route.path, []).append(route)
    paths: list[BaseRoute] = []
    for path, of_path in by_path.items():
        resource = Resource(shared, of_path)
        paths.append(PathRoute(path, resource))
        if resource.has_socket:
            paths.append(WebSocketRoute(path, resource))
    files = ui.UiFiles(_send_problem)
    paths += [PathRoute(path, files) for path in ui.PATHS]
    router = Router(paths, redirect_slashes=False, default=nowhere)
    before = tuple({route.path.partition("{")[0] for route in routes if "{subject}" in route.path})
    return with_cors(_with_slashes(router, before), shared.origins)


def _with_slashes(app: ASGIApp, before: tuple[str, ...]) -> ASGIApp:
    """Behind these prefixes, an encoded slash belongs to a subject."""

    async def routed(scope: Scope, receive: Receive, send: Send) -> None:
        raw: bytes = scope.get("raw_path", b"")
        if b"%2F" in raw.upper() and scope["path"].startswith(before):
            segments = (unquote(segment).replace("/", SLASH) for segment in raw.decode("ascii").split("/"))
            scope = {**scope, "path": "/".join(segments)}
        await app(scope, receive, send)

    return routed


def _path(scope: Scope) -> str:
    """The path as the client sent it."""
    path: str = scope["path"]
    return path.replace(SLASH, "/")


class Resource:
    """All methods of one path."""

    def __init__(self, shared: HttpShared, routes: list[Route]) -> None:
        self._shared = shared
        self._routes = {route.method: Decoding(route) for route in routes}
        for route in routes:
            if route.method == "GET" and route.operation is None:  # What load balancers ask with, too.
                self._routes["HEAD"] = self._routes["GET"]  # The server below leaves the body out.
        self._allowed = ", ".join(self._routes)
        self._registry = routes[0].registry
        self.has_socket = any(route.socket is not None for route in routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._open(scope, receive, send)
            return
        try:
            decoding = self._routes.get(scope["method"])
            if decoding is None:
                raise MethodNotAllowed(path=_path(scope), method=scope["method"], allowed=self._allowed)
            call = HttpCall(self._shared, dict(scope["headers"]))
            call.scope = scope
            answer = await self._answer(call, decoding, receive)
        except PenstockError as error:
            await _send_problem(send, error, registry=self._registry)
        except Gone:
            return
        except Exception:  # The server continues, and the client gets what it may know.
            logger.exception("%s %s failed", scope["method"], _path(scope))
            fault = PenstockError(reason="internal error; see the server's log")
            await _send_problem(send, fault, registry=self._registry)
        else:
            if isinstance(answer, bytes):
                route = decoding.route
                await _send(send, route.status, answer, route.kind, *route.headers, *call.more)
            else:
                await _stream(send, call.kind or decoding.route.pieces or NDJSON, answer, call.more)

    async def _answer(self, call: HttpCall, decoding: "Decoding", receive: Receive) -> bytes | Lines:
        route = decoding.route
        await self._prepare(call, decoding)
        call.receive = receive
        if route.body is not None and not route.streamed:
            check_type(call, *route.accepts)
            call.body = decoding.body(await read_body(call))
        answer = await route.handler(call)
        if isinstance(answer, AsyncGenerator):
            return answer
        if route.kind != JSON:
            whole: bytes = answer
            return whole
        return b"" if route.answer is None else encode(answer)

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        decoding = self._routes["GET"]
        try:
            call = HttpCall(self._shared, dict(scope["headers"]))
            call.scope = {**scope, "method": "GET"}
            await self._prepare(call, decoding)
            assert decoding.route.socket is not None
            await decoding.route.socket(call, receive, send)
        except PenstockError as error:
            await _send_problem(_answering(scope, send), error)
        except OSError:  # The client has left.
            return
        except Exception:
            logger.exception("the WebSocket %s failed", scope["path"])
            await send({"type": "websocket.close", "code": FAULT})

    async def _prepare(self, call: HttpCall, decoding: "Decoding") -> None:
        """Authenticate the client, and decode path and query."""
        route, scope = decoding.route, call.scope
        call.lost = scope["state"]["lost"]
        if route.operation is not None:
            self._shared.origins.check(call.headers, looks=decoding.looks)
            if self._shared.gateway.required:
                await self._login(call)
        call.path = {name: text.replace(SLASH, "/") for name, text in scope["path_params"].items()}
        if route.query is not None:
            call.query = decoding.query(scope["query_string"])

    async def _login(self, call: HttpCall) -> None:
        shown = call.header(b"authorization")
        session = browsers.session_of(call) if shown is None else None
        if session is None:
            call.credentials = Credentials.of_header(shown or "")
            call.identity = await self._shared.gateway.login(call.credentials, call.address)
        else:
            browsers.check_guard(call, call.scope["method"], session)
            call.identity, call.credentials = session.identity, session.credentials
        call.operations = self._shared.gateway.operations(call.identity)


class Decoding:
    """A route, and how its query and body are read."""

    def __init__(self, route: Route) -> None:
        self.route = route
        self.looks = route.operation is not None and NEEDS[route.operation].action in LOOKING
        self._body = None if route.body is None else msgspec.json.Decoder(route.body)
        self._nothing = b"" if route.needs_body else b"{}"  # What stands for no body at all.

    def query(self, text: bytes) -> Any:
        try:
            pairs = parse_qsl(
                text.decode("ascii"),
                keep_blank_values=True,
                strict_parsing=bool(text),
                max_num_fields=FIELDS_MAX,
            )
            fields = dict(pairs)
            if len(fields) < len(pairs):
                raise RequestInvalid(part="query", why="a name is given twice")
            return msgspec.convert(fields, self.route.query, strict=False)
        except (msgspec.MsgspecError, ValueError) as problem:
            raise RequestInvalid(part="query", why=plainly(problem)) from None

    def body(self, data: bytes) -> Any:
        assert self._body is not None
        try:
            return self._body.decode(data or self._nothing)
        except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
            raise RequestInvalid(part="body", why=plainly(problem)) from None


# Out.


def _answering(scope: Scope, send: Send) -> Send:
    """A ``send`` for responses that are not a WebSocket's: to a handshake they are sent as its refusal."""
    if scope["type"] == "http":
        return send

    async def refuse(message: Message) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    return refuse


async def _send_problem(send: Send, error: PenstockError, *, registry: bool = False) -> None:
    document = problems.problem(error)
    status, body = document.status, problems.encode(document)
    if registry:
        status, body = registry_problems.answer(error)
    more = problems.headers(error)
    if error.code == RequestTooLarge.code:  # What follows is not to be read.
        more.append(CLOSE)
    await _send(send, status, body, JSON if registry else problems.MEDIA_TYPE, *more)


async def _send(send: Send, status: int, body: bytes, kind: str, *more: tuple[bytes, bytes]) -> None:
    headers = list(more)
    if body:
        headers.append((b"content-type", kind.encode()))
    if status != 204:
        headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _stream(send: Send, kind: str, lines: Lines, more: Headers) -> None:
    """A response that is produced while it is sent."""
    headers = [(b"content-type", kind.encode()), (b"cache-control", b"no-store"), *more]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    try:
        async for piece in lines:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    except Gone:
        return
    finally:
        await lines.aclose()
    await send({"type": "http.response.body", "body": b""})
