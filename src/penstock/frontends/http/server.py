"""The HTTP listener: uvicorn's protocol on the broker's own loop, within our limits.

    connection ──> HttpConnection (uvicorn, httptools) ──> a task for each request ──> the app of ``app.py``

uvicorn parses, frames and keeps connections alive; it opens no socket here, handles
no signal and runs no timer, because the server (``serve.py``) does.  What is
added to it:

    connections     counted with those of all other listeners
    head            at most ``http_head_bytes_max``, looked at while it arrives
    a request       of which nothing has arrived for ``http_timeout_ms`` is refused, and its connection ended
    no request      a connection that is kept alive for the next one ends after ``KEEP_ALIVE_S``
    an answer       of which nothing is read for ``UNREAD_MS`` is not waited for: the client has vanished, or
                    does not care, and what it holds goes back

What cannot be understood as HTTP is answered with a problem document, too, and not
logged: otherwise any client could fill the disk.
"""

import asyncio
import socket
from typing import Final, cast

from starlette.types import ASGIApp
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from penstock.broker.frontend import EmbeddedAsyncBroker
from penstock.config.server import LOCALHOST, HttpSettings, LimitSettings
from penstock.errors import PenstockError, RequestInvalid, RequestTimeout, RequestTooLarge
from penstock.frontends.http.app import make_app
from penstock.frontends.http.call import HttpShared
from penstock.frontends.http.connections.sockets import PING_S, SocketConnection, is_handshake, quiet
from penstock.frontends.http.connections.writes import JoinedWrites
from penstock.frontends.http.consumers.long_polls import Disconnection
from penstock.frontends.http.problems import whole_response
from penstock.frontends.listener import Connections
from penstock.frontends.origins import Origins
from penstock.frontends.security.gateway import AuthGateway

KEEP_ALIVE_S: Final = (
    75  # Longer than load balancers keep theirs, which would use one that is just being closed.
)
DEFAULTS: Final = HttpSettings()
UNREAD_MS: Final = 120_000
LINGER_S: Final = 1.0  # For the last words to arrive before the end does.


class AsgiListener:
    """Connections of one ASGI application: the HTTP API, or another that speaks HTTP."""

    def __init__(self, app: ASGIApp, limits: LimitSettings, connections: Connections) -> None:
        self.limits = limits
        self.connections = connections
        self.config = Config(
            app,
            http=HttpConnection,
            ws=SocketConnection,
            ws_max_size=limits.http_body_bytes_max,
            ws_per_message_deflate=False,
            ws_ping_interval=PING_S,
            ws_ping_timeout=PING_S,
            loop="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
        self.config.load()
        self.state = ServerState()
        self.logger = quiet()
        self.emptied = asyncio.Event()  # Set whenever a connection has gone.

    def connect(self) -> asyncio.BaseProtocol:
        """The protocol of a new connection."""
        return HttpConnection(self)

    def connect_socket(self, **_: object) -> asyncio.Protocol:
        """The protocol of a connection that has become a WebSocket."""
        return SocketConnection(self)

    async def drain(self) -> None:
        """Answer requests that were read, then close every connection."""
        for connection in list(self.state.connections):
            connection.shutdown()
        self.end_waits()
        while self.state.connections:
            self.emptied.clear()
            await self.emptied.wait()
        if self.state.tasks:
            await asyncio.wait(self.state.tasks)

    def abort(self) -> None:
        """Close every connection at once, and cancel its requests."""
        for connection in list(self.state.connections):
            connection.transport.abort()
        for task in list(self.state.tasks):
            task.cancel()

    def end_waits(self) -> None:
        """Answer requests that wait for something."""


class HttpListener(AsgiListener):
    """The HTTP API, for ``penstock serve``."""

    def __init__(
        self,
        broker: EmbeddedAsyncBroker,
        limits: LimitSettings,
        connections: Connections,
        gateway: AuthGateway | None = None,
        settings: HttpSettings = DEFAULTS,
        host: str = LOCALHOST,
    ) -> None:
        gateway = gateway or AuthGateway(broker)
        origins = Origins(settings, host, authentication=gateway.required)
        self.shared = HttpShared(broker, gateway, limits, origins)
        super().__init__(make_app(self.shared), limits, connections)
        self.shared.watch.start()

    async def drain(self) -> None:
        """Answer requests that were read, then close every connection."""
        self.shared.draining = True
        self.shared.watch.stop()
        await super().drain()
        self.shared.consumers.close()

    def abort(self) -> None:
        """Close every connection at once, and cancel its requests."""
        self.shared.watch.stop()
        super().abort()
        self.shared.consumers.close()

    def end_waits(self) -> None:
        """Answer long polls now, with the messages that there are."""
        self.shared.consumers.end_waits()


class HttpConnection(HttpToolsProtocol):
    def __init__(self, listener: AsgiListener) -> None:
        super().__init__(listener.config, listener.state, {}, asyncio.get_running_loop())
        self._listener = listener
        self._counted = False
        self._head_bytes = 0
        self._rest_bytes = 0  # Of the head, not yet reported by the parser.
        self._begun = False  # A request, in the piece that has just arrived.
        self._in_head = True  # Nothing of a request has arrived, or not all of its head.
        self._refusal: PenstockError | None = None  # Why the parser was stopped.
        self._unanswered = 0  # Requests whose answer is not complete.
        self._watch: asyncio.TimerHandle | None = None
        self._lost = Disconnection()
        self.logger = listener.logger
        self.ws_protocol_class = listener.connect_socket  # type: ignore[assignment]

    # The transport's calls.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast("asyncio.Transport", JoinedWrites(transport, self.loop)))
        transport.set_write_buffer_limits(self._listener.limits.write_buffer_bytes_max)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # On Linux.
            made = transport.get_extra_info("socket")
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MS)
        try:
            self._listener.connections.enter()
        except PenstockError as error:
            self.refuse(error)
            return
        self._counted = True
        self._watch_out()

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return
        self._begun = False
        super().data_received(data)
        if self._in_head:
            self._count_rest(len(data))
        self._watch_out()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        if self._counted:
            self._counted = False
            self._listener.connections.leave()
        super().connection_lost(exc)
        self._lost.lose()
        self._listener.emptied.set()

    # The parser's calls.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"]["lost"] = self._lost
        self._in_head = self._begun = True
        self._head_bytes = self._rest_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        if self._in_head:  # What follows a body in chunks is no header, whatever it looks like.
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:
            self._unanswered += 1

    def send_400_response(self, msg: str) -> None:
        """The parser has failed: a limit was exceeded, or the input is not HTTP."""
        self.refuse(self._refusal or RequestInvalid(part="head", why=msg.rstrip(".").lower()))

    def on_response_complete(self) -> None:
        self._unanswered -= 1
        super().on_response_complete()
        if self._refusal is not None and not self._unanswered:
            self._end()

    # WebSockets.

    def _should_upgrade(self) -> bool:
        return super()._should_upgrade() and self.scope["method"] == "GET" and is_handshake(self.headers)

    def _unsupported_upgrade_warning(self) -> None:
        """Unsupported upgrades are ignored without a warning."""

    def handle_websocket_upgrade(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.abort()  # An answer is on its way still, and would come in the middle of frames.
            return
        self._counted = False  # From now on the socket is.
        super().handle_websocket_upgrade()

    # Inside.

    def refuse(self, error: PenstockError) -> None:
        """Send an error and close, once earlier requests are answered; further input is ignored."""
        self._refusal = error
        self._stop_watching()
        cycle = self.cycle
        if cycle is not None and cycle.more_body and not cycle.response_complete:
            # The body of that very request is at fault.
            if self.pipeline:
                self.pipeline.popleft()  # It has not begun.
            elif cycle.response_started:
                self.transport.abort()  # An answer that was begun has no other end.
                return
            self._unanswered -= 1
        if not self._unanswered:
            self._end()

    def _end(self) -> None:
        """Send the last response and close."""
        assert self._refusal is not None
        self._unset_keepalive_if_required()
        if self.transport.is_closing():
            return
        self.transport.write(whole_response(self._refusal))
        if self.transport.can_write_eof():
            self.transport.write_eof()
            # A close with bytes unread would destroy the last words.
            self.loop.call_later(LINGER_S, self.transport.close)
        else:
            self.transport.close()

    def _count(self, size: int) -> None:
        self._head_bytes += size
        limit = self._listener.limits.http_head_bytes_max
        if self._head_bytes > limit:
            self._refusal = RequestTooLarge(part="head", limit_bytes=limit)
            raise self._refusal

    def _count_rest(self, size: int) -> None:
        """Bound a header that does not end: the parser reports headers only when they are complete."""
        if self._begun or self._refusal is not None:
            return
        self._rest_bytes += size
        limit = self._listener.limits.http_head_bytes_max
        if self._rest_bytes > limit:
            self.refuse(RequestTooLarge(part="head", limit_bytes=limit))

    @property
    def _arriving(self) -> bool:
        """Whether the request has not arrived completely."""
        if self._in_head:
            return self.cycle is None or self._head_bytes > 0
        return self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete

    def _watch_out(self) -> None:
        if self._refusal is not None:
            return
        arriving = self._arriving
        if self._watch is not None and (
            not arriving or not self._in_head
        ):  # A head has one time for all of it.
            self._stop_watching()
        if arriving and self._watch is None:
            self._watch = self.loop.call_later(self._listener.limits.http_timeout_ms / 1000, self._waited)

    def _waited(self) -> None:
        self._watch = None
        if not self._arriving:
            return
        if self.flow.read_paused:  # The client is not slow.
            self._watch_out()
            return
        if self.cycle is not None and self.cycle.response_started:
            self.transport.abort()  # An answer that was begun has no other end.
            return
        self.refuse(RequestTimeout(seconds=self._listener.limits.http_timeout_ms // 1000))

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
