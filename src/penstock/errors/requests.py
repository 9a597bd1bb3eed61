"""Invalid requests: malformed frames, HTTP requests and unknown operations."""

from penstock.errors.base import RequestError


class FrameTooLarge(RequestError):
    """A frame is longer than its receiver accepts.

    Cause: one request with very large messages, or another protocol on this port.
    Do: send less in one request, or raise the server's ``frame_bytes_max``.
    """

    code = "FRAME_TOO_LARGE"
    sentence = (
        "a frame has {size_bytes} bytes and the limit is {limit_bytes}; "
        "send less at a time, or raise frame_bytes_max"
    )
    size_bytes: int
    limit_bytes: int


class ProtocolViolation(RequestError):
    """The peer sent bytes that the protocol does not allow.

    Cause: another program uses that port, a client library has a bug, or bytes were changed on the way.
    Do: check that address and port belong to a Penstock server, then check the client library.
    """

    code = "PROTOCOL_VIOLATION"
    sentence = "this is not Penstock's protocol: {why}"
    why: str


class VersionUnsupported(RequestError):
    """Client and server have no version of the native protocol in common.

    Cause: one of the two is much older than the other.
    Do: install a client version that the server supports.
    """

    code = "VERSION_UNSUPPORTED"
    sentence = "the client supports protocol versions {offered}, the server {supported}; update one of them"
    offered: str
    supported: str


class MetricsDisabled(RequestError):
    """The server collects no metrics.

    Cause: the setting ``broker.metrics`` is false.
    Do: set ``broker.metrics`` to true and restart the server, or do not scrape it.
    """

    code = "METRICS_DISABLED"
    sentence = "this server collects no metrics; set {setting} to true"
    setting: str


class OperationUnknown(RequestError):
    """The server has no operation with that name or number.

    Cause: the client is newer than the server, or its library has a bug.
    Do: update the server, or do not use the operation.
    """

    code = "OPERATION_UNKNOWN"
    sentence = "this server has no operation {operation!r}; a newer version may have it"
    operation: str


class RequestInvalid(RequestError):
    """The body, query or a header of an HTTP request is invalid.

    Cause: invalid JSON or base64, or a field that does not exist or has the wrong type.
    Do: correct the field that the message names; the server's ``/openapi.json`` describes every request.
    """

    code = "REQUEST_INVALID"
    sentence = "the {part} of the request is invalid: {why}; see /openapi.json"
    part: str
    why: str


class RequestTooLarge(RequestError):
    """The head or body of an HTTP request is longer than the server accepts.

    Cause: many or very large messages in one request, or very long headers.
    Do: send less in one request, or raise the limit that the message names.
    """

    code = "REQUEST_TOO_LARGE"
    sentence = (
        "the {part} of the request is longer than {limit_bytes} bytes; "
        "send less at a time, or raise http_{part}_bytes_max"
    )
    part: str
    limit_bytes: int


class RequestTimeout(RequestError):
    """An HTTP request did not arrive completely in time.

    Cause: the client or the network stopped in the middle of the request.
    Do: send the request again; a publish with a dedup id is stored only once.
    """

    code = "REQUEST_TIMEOUT"
    sentence = "no more of the request arrived for {seconds} seconds; send it again"
    seconds: int


class RouteNotFound(RequestError):
    """The HTTP API has no such path.

    Cause: the path is misspelt, or the server is older than the client.
    Do: look up the path in the server's ``/openapi.json``.
    """

    code = "ROUTE_NOT_FOUND"
    sentence = "there is nothing at {path!r}; /openapi.json lists all paths"
    path: str


class MethodNotAllowed(RequestError):
    """The path exists in the HTTP API, but not with this method.

    Cause: GET instead of POST, for example.
    Do: use a method that the message and the ``Allow`` header name.
    """

    code = "METHOD_NOT_ALLOWED"
    sentence = "{path!r} does not support {method}; use {allowed}"
    path: str
    method: str
    allowed: str


class MediaTypeUnsupported(RequestError):
    """The content type of an HTTP request is not supported there.

    Cause: the ``Content-Type`` header is missing or wrong, such as that of a form.
    Do: send a type that the message names, and set ``Content-Type`` to it.
    """

    code = "MEDIA_TYPE_UNSUPPORTED"
    sentence = "the content type {given!r} is not supported here; send {accepted}"
    given: str
    accepted: str


class UpgradeRequired(RequestError):
    """The path is a WebSocket, and the request is not a WebSocket handshake.

    Cause: a plain ``GET``, or a proxy that removes the ``Upgrade`` header.
    Do: use a WebSocket client (``ws://``, ``wss://``) of version 13; or ``.../stream``, or ``.../receive``.
    """

    code = "UPGRADE_REQUIRED"
    sentence = "{path} is a WebSocket; connect to it with ws:// or wss://"
    path: str
