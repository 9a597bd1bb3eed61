"""Bytes of another protocol on a port that does not speak it.

A web page can make the browser of its visitor send a request to any address that the browser
reaches, 127.0.0.1 included.  The page cannot read the answer, but a server that skips the lines it does not
understand would carry out those that it does: the body of the request is up to the page.  So a connection
that begins as another protocol is ended before anything in it is looked at:

    HTTP     a request line, or a ``Host`` header.  It is answered in HTTP, so that a person who typed the
             address into a browser learns which port to use.
    TLS      a ClientHello, which holds bytes (a session ticket) that the sender may not have chosen
    binary   a control character where a line of text begins

On the ports of the binary protocols none of this can be a valid frame, so there it only chooses the words.
"""

import re
from typing import Final

_REQUEST_LINE: Final = re.compile(rb"[A-Za-z]{1,20} [^\r\n]* HTTP/[0-9]")
_HOST_HEADER: Final = re.compile(rb"host[ \t]*:", re.IGNORECASE)
_METHODS: Final = (
    b"GET ", b"HEAD ", b"POST ", b"PUT ", b"PATCH ", b"DELETE ", b"OPTIONS ", b"CONNECT ", b"TRACE ",
)  # fmt: skip
_TLS_HANDSHAKE: Final = b"\x16\x03"
_SPACE: Final = b"\t\r\n"


def is_http(data: bytes) -> bool:
    """Whether a line, or what a connection begins with, is an HTTP request."""
    return (
        data.startswith(_METHODS)
        or _REQUEST_LINE.match(data) is not None
        or _HOST_HEADER.match(data) is not None
    )


def is_tls(data: bytes) -> bool:
    """Whether a connection begins with a TLS handshake, of which perhaps only a byte has arrived."""
    return data.startswith(_TLS_HANDSHAKE) or data == _TLS_HANDSHAKE[:1]


def is_binary(data: bytes) -> bool:
    """Whether a connection begins with bytes that are not a line of text."""
    return bool(data) and data[0] < 0x20 and data[0] not in _SPACE


def spoken(data: bytes) -> str:
    """The protocol that a connection seems to use, for an error message."""
    if is_http(data):
        return "HTTP"
    if is_tls(data):
        return "TLS"
    return "a binary protocol" if is_binary(data) else "another protocol"


def http_refusal(port: str) -> bytes:
    """A complete HTTP response to a request that was sent to the port of another protocol."""
    return http_answer(
        f"This is the {port} port of Penstock, which does not speak HTTP. The HTTP API is on listen.http."
    )


def http_answer(sentence: str) -> bytes:
    """A complete HTTP response that refuses any request."""
    text = f"{sentence}\n"
    head = (
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n"
    )
    return (head + text).encode()
