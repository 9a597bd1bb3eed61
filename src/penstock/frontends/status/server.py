"""``GET /metrics``: the status of the Simple MQ, as JSON.

    {"queues": {"user-signups-0": 1}, "active_connections": 1}

A queue is ``<topic>-<partition>``; its number is what waits for the slowest
group, or all that is stored if no group has come yet.  Connections are those
of all listeners, this one included.

Which hosts and origins it answers is decided as for the HTTP API (``origins.py``).
A server that asks for keys answers to one: ``Authorization: Bearer pk_...``; and
lists the topics that it may see.

It is as much of HTTP/1.1 as that needs: one request for each connection, no
body, an answer, the end.  The head of a request has a limit in bytes and one in
time.  The figures are worked out when they are asked for, at some microseconds
for each partition; nothing is kept up to date for a page that is seldom read.
"""

import asyncio
from http import HTTPStatus
from typing import Any, Final

import msgspec

from penstock.broker.frontend import EmbeddedAsyncBroker
from penstock.config.server import LOCALHOST, HttpSettings, LimitSettings
from penstock.errors import PenstockError
from penstock.frontends.lines import LineConnection, LineListener, LineTooLong, NotLines
from penstock.frontends.listener import Connections
from penstock.frontends.origins import Origins
from penstock.frontends.security.gateway import AuthGateway
from penstock.frontends.security.identity import Credentials, Identity

PATH: Final = "/metrics"
DEFAULTS: Final = HttpSettings()
# What a refused request is in HTTP.
STATUSES: Final = {
    "UNAUTHENTICATED": HTTPStatus.UNAUTHORIZED,
    "FORBIDDEN": HTTPStatus.FORBIDDEN,
    "HOST_NOT_ALLOWED": HTTPStatus.MISDIRECTED_REQUEST,
    "ORIGIN_NOT_ALLOWED": HTTPStatus.FORBIDDEN,
    "QUOTA_EXCEEDED": HTTPStatus.TOO_MANY_REQUESTS,
}


class BadRequest(Exception):  # noqa: N818 - it reads better, and never leaves this module.
    """The request is not answered with what it asks for; ``status`` says why."""

    def __init__(self, status: HTTPStatus, words: str, *, body: bool = True) -> None:
        super().__init__(words)
        self.status = status
        self.body = body  # False for HEAD, whose answer has none.


class StatusListener(LineListener):
    def __init__(
        self,
        broker: EmbeddedAsyncBroker,
        limits: LimitSettings,
        connections: Connections,
        gateway: AuthGateway | None = None,
        settings: HttpSettings = DEFAULTS,
        host: str = LOCALHOST,
    ) -> None:
        super().__init__(connections)
        self._broker = broker
        self._limits = limits
        self._gateway = gateway or AuthGateway(broker)
        self._origins = Origins(settings, host, authentication=self._gateway.required)

    def connect(self) -> LineConnection:
        """The protocol of a new connection."""
        return LineConnection(self, self._limits.status_head_bytes_max, self._limits.write_buffer_bytes_max)

    def refusal(self, error: PenstockError) -> bytes:
        """The response to a connection that cannot be served at all."""
        return response(HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)})

    async def talk(self, connection: LineConnection) -> None:
        try:
            async with asyncio.timeout(self._limits.status_timeout_ms / 1000):
                headers = await self._read_head(connection)
            if headers is None:
                return
            self._origins.check(headers, looks=True)
            shown = Credentials.of_header(headers.get(b"authorization", b"").decode("latin-1"))
            identity = await self._gateway.login(shown, connection.address)
            answer = response(HTTPStatus.OK, await self._metrics(identity))
        except TimeoutError:
            answer = response(HTTPStatus.REQUEST_TIMEOUT, {"error": "the request took too long to arrive"})
        except LineTooLong:
            words = f"the head of a request has at most {self._limits.status_head_bytes_max} bytes"
            answer = response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, {"error": words})
        except NotLines as other:
            words = f"this port speaks HTTP; what you sent looks like {other.spoken}"
            answer = response(HTTPStatus.BAD_REQUEST, {"error": words})
        except BadRequest as refusal:
            answer = response(refusal.status, {"error": str(refusal)}, body=refusal.body)
        except PenstockError as error:
            answer = response(STATUSES.get(error.code, HTTPStatus.SERVICE_UNAVAILABLE), {"error": str(error)})
        await connection.last_words(answer)

    async def _read_head(self, connection: LineConnection) -> dict[bytes, bytes] | None:
        """The headers of a request that may be answered, by their names; None if there is no request."""
        first = await connection.read_line()
        if first is None:
            return None
        size = len(first)
        headers: dict[bytes, bytes] = {}
        while line := await connection.read_line():
            size += len(line)
            if size > self._limits.status_head_bytes_max:
                raise LineTooLong
            if b":" not in line:
                raise BadRequest(HTTPStatus.BAD_REQUEST, "a header is 'Name: value'")
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        if line is None:
            raise BadRequest(HTTPStatus.BAD_REQUEST, "the head of a request ends with an empty line")
        check_request(first)
        return headers

    async def _metrics(self, identity: Identity) -> dict[str, Any]:
        waiting = await self._broker.run(self._gateway.operations(identity).waiting())
        return {
            "queues": {f"{topic}-{partition}": count for (topic, partition), count in waiting.items()},
            "active_connections": self._connections.count,
        }


def check_request(line: bytes) -> None:
    """Refuse a request line that there is no answer to."""
    words = line.decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[0].isalpha():
        raise BadRequest(HTTPStatus.BAD_REQUEST, "this is not a request of HTTP/1.1")
    method, target, _ = words
    body = method != "HEAD"
    if target.partition("?")[0] != PATH:
        raise BadRequest(HTTPStatus.NOT_FOUND, f"there is only {PATH} here", body=body)
    if method != "GET":
        raise BadRequest(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is answered here", body=body)


def response(status: HTTPStatus, content: dict[str, Any], *, body: bool = True) -> bytes:
    """A whole answer, after which the connection ends."""
    text = msgspec.json.encode(content) + b"\n"
    head = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(text)}",
        "Connection: close",
        *(["Allow: GET"] if status is HTTPStatus.METHOD_NOT_ALLOWED else []),
        *(["WWW-Authenticate: Bearer"] if status is HTTPStatus.UNAUTHORIZED else []),
    ]
    return "\r\n".join([*head, "", ""]).encode() + (text if body else b"")
