"""A client that says exactly what a test wants, in any version, and one request at a time or many."""

import socket
import struct
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from penstock.wire.kafka.codec import decode, encode
from penstock.wire.kafka.fields import KafkaMessage
from penstock.wire.kafka.lengths import passed_over
from penstock.wire.kafka.messages import sasl
from penstock.wire.kafka.messages.cluster import ApiVersionsRequest

ResponseT = TypeVar("ResponseT", bound=KafkaMessage)
CLIENT = b"raw"


class Addressed(Protocol):
    """A server, in real time or in virtual time."""

    @property
    def address(self) -> str: ...


class Raw:
    """One connection."""

    def __init__(self, kafka: Addressed) -> None:
        host, _, port = kafka.address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=20)
        self._sent: list[tuple[type[KafkaMessage], int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._socket.close()

    def ask(self, request: KafkaMessage, response: type[ResponseT], version: int) -> ResponseT:
        """Send a request, and wait for its answer."""
        self.send(request, version)
        return self.hear(response)

    def login(self, user: str, password: str) -> None:
        """Be somebody, by PLAIN."""
        self.ask(sasl.SaslHandshakeRequest(mechanism="PLAIN"), sasl.SaslHandshakeResponse, 1)
        proof = sasl.SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode())
        assert self.ask(proof, sasl.SaslAuthenticateResponse, 2).error_code == 0

    def send(self, request: KafkaMessage, version: int) -> None:
        """Only send it."""
        flexible = version >= request.FLEXIBLE
        head = struct.pack(">hhih", request.KEY, version, len(self._sent), len(CLIENT)) + CLIENT
        frame = head + b"\0" * flexible + b"".join(encode(request, version))
        self._sent.append((type(request), version))
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def hear(self, response: type[ResponseT]) -> ResponseT:
        """The next answer."""
        request, version = self._sent.pop(0)
        (size,) = struct.unpack(">i", self._read(4))
        frame = memoryview(self._read(size))
        tagged = version >= request.FLEXIBLE and request is not ApiVersionsRequest
        at = passed_over(frame, 4) if tagged else 4
        return decode(response, version, frame, at)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            assert more, "the server has closed the connection"
            data += more
        return data


def versions(request: Any) -> range:
    """All versions of an API."""
    first, last = request.VERSIONS
    return range(first, last + 1)
