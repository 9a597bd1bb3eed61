"""Bytes that reached a server and are not a request that it knows."""

from penstock.errors.base import RequestError


class FrameTooLarge(RequestError):
    """A frame on a connection is longer than its receiver accepts.

    Cause: one request with very large messages, or bytes that are not this protocol at all.
    Do: send less in one request, or raise ``frame_bytes_max`` of the server.
    """

    code = "FRAME_TOO_LARGE"
    sentence = (
        "a frame of {size_bytes} bytes was announced and the limit is {limit_bytes}; "
        "send less at a time, or raise frame_bytes_max"
    )
    size_bytes: int
    limit_bytes: int


class ProtocolViolation(RequestError):
    """The other side of a connection sent bytes that the protocol does not allow.

    Cause: another program is on that port, a client library has a fault, or bytes were changed on the way.
    Do: check that address and port are those of a Penstock server, then the client library.
    """

    code = "PROTOCOL_VIOLATION"
    sentence = "this is not Penstock's protocol: {why}"
    why: str


class VersionUnsupported(RequestError):
    """Client and server have no version of the native protocol in common.

    Cause: one of the two is much older than the other.
    Do: install a version of the client that the server understands.
    """

    code = "VERSION_UNSUPPORTED"
    sentence = "the client speaks versions {offered} of the protocol and the server {supported}; update one"
    offered: str
    supported: str


class OperationUnknown(RequestError):
    """The server has no operation of that name or number.

    Cause: the client is newer than the server, or its library has a fault.
    Do: update the server, or do without the operation.
    """

    code = "OPERATION_UNKNOWN"
    sentence = "this server knows no operation {operation!r}; a newer one may"
    operation: str


class RequestInvalid(RequestError):
    """A request over HTTP has a body, a query or a header that cannot be understood.

    Cause: JSON that is none, a field that does not exist or has another type, base64 that is none.
    Do: read the sentence, which names the field, and compare with the server's ``/openapi.json``.
    """

    code = "REQUEST_INVALID"
    sentence = "the {part} of the request cannot be understood: {why}; /openapi.json says what it may be"
    part: str
    why: str


class RequestTooLarge(RequestError):
    """The head or the body of a request over HTTP is longer than the server accepts.

    Cause: very many or very large messages in one request, or very long headers.
    Do: send less in one request, or raise the limit that the sentence names.
    """

    code = "REQUEST_TOO_LARGE"
    sentence = (
        "the {part} of the request is longer than {limit_bytes} bytes; "
        "send less at a time, or raise http_{part}_bytes_max"
    )
    part: str
    limit_bytes: int


class RequestTimeout(RequestError):
    """A request over HTTP was begun and did not arrive.

    Cause: the client stopped in the middle, or the network between did.
    Do: send the request again; a publish with a dedup id cannot happen twice.
    """

    code = "REQUEST_TIMEOUT"
    sentence = "nothing of the request has arrived for {seconds} seconds; send it again"
    seconds: int


class RouteNotFound(RequestError):
    """There is nothing at that path of the HTTP API.

    Cause: the path is misspelt, or the server is older than the client.
    Do: look for the path in the server's ``/openapi.json``.
    """

    code = "ROUTE_NOT_FOUND"
    sentence = "there is nothing at {path!r}; /openapi.json lists what there is"
    path: str


class MethodNotAllowed(RequestError):
    """The HTTP API has that path, and another method for it.

    Cause: a GET where a POST is meant, or the other way round.
    Do: use one of the methods that the sentence names, which the header ``Allow`` has, too.
    """

    code = "METHOD_NOT_ALLOWED"
    sentence = "{path!r} does not know {method}; use {allowed}"
    path: str
    method: str
    allowed: str


class MediaTypeUnsupported(RequestError):
    """A body over HTTP says that it is of a type which is not understood there.

    Cause: the header ``Content-Type`` is missing or another one, such as that of a form.
    Do: send one of the types that the sentence names, and say so in ``Content-Type``.
    """

    code = "MEDIA_TYPE_UNSUPPORTED"
    sentence = "a body of type {given!r} is not understood here; send {accepted}"
    given: str
    accepted: str


class UpgradeRequired(RequestError):
    """At that path of the HTTP API there is a WebSocket, and the request does not ask for one.

    Cause: a plain ``GET``, or something between client and server that takes the header ``Upgrade`` away.
    Do: use a WebSocket client (``ws://``, ``wss://``) of version 13; or ``.../stream``, or ``.../receive``.
    """

    code = "UPGRADE_REQUIRED"
    sentence = "{path} is a WebSocket; connect to it with ws:// or wss://"
    path: str
