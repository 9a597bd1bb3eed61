"""Request bodies: content types and size limits.

A body that is read as a whole is limited by ``http_body_bytes_max``; a larger ``Content-Length`` is refused
before it is read.  A body that is read line by line may have any length; the limit then applies to a line.
"""

from collections.abc import AsyncIterator

from penstock.errors import MediaTypeUnsupported, RequestTooLarge
from penstock.frontends.http.call import HttpCall


class Gone(Exception):  # noqa: N818 - not an error: the client has disconnected.
    """The client closed the connection in the middle of its request."""


def check_type(call: HttpCall, *accepted: str) -> str:
    """The content type of a body; without one, the first that is accepted."""
    given = call.header(b"content-type")
    kind = accepted[0] if given is None else given.partition(";")[0].strip().lower()
    if kind not in accepted:
        raise MediaTypeUnsupported(given=kind, accepted=" or ".join(accepted))
    return kind


async def read_body(call: HttpCall) -> bytes:
    limit = call.shared.limits.http_body_bytes_max
    announced = call.headers.get(b"content-length", b"")
    if announced.isdigit() and int(announced) > limit:
        raise RequestTooLarge(part="body", limit_bytes=limit)
    data, more = await _piece(call)
    if more:
        whole = bytearray(data)
        while more and len(whole) <= limit:
            data, more = await _piece(call)
            whole += data
        data = bytes(whole)
    if len(data) > limit:
        raise RequestTooLarge(part="body", limit_bytes=limit)
    return data


async def read_lines(call: HttpCall) -> AsyncIterator[list[bytes]]:
    """The lines of a body, as they arrive, without empty ones."""
    limit = call.shared.limits.http_body_bytes_max
    rest, more = b"", True
    while more:
        data, more = await _piece(call)
        *lines, rest = (rest + data).split(b"\n")
        if not more:
            lines.append(rest)
        elif len(rest) > limit:
            raise RequestTooLarge(part="body", limit_bytes=limit)
        whole = [line for line in lines if line.strip()]
        if whole:
            yield whole


async def _piece(call: HttpCall) -> tuple[bytes, bool]:
    """The next piece of the body, and whether there are more."""
    assert call.receive is not None
    message = await call.receive()
    if message["type"] != "http.request":
        raise Gone
    return message.get("body", b""), message.get("more_body", False)


def plainly(problem: BaseException) -> str:
    """The message of a decoder, for the middle of a sentence."""
    text = str(problem) or "it is nested too deeply"
    return text[0].lower() + text[1:]
