"""A client that speaks in frames, over a blocking socket: for what no decent client would send."""

import socket
from types import TracebackType
from typing import Any, Self

from tests.server.process import PATIENCE_S, Server

from penstock.errors import PenstockError
from penstock.operations.codec import arguments_of, decode_answer
from penstock.transport.frames import Frame, FrameSplitter
from penstock.wire import native
from penstock.wire.native_bodies import (
    Hello,
    Metadata,
    OpenConsumer,
    OpenedConsumer,
    decode_body,
    decode_error_frame,
    encode_body,
    encode_call,
)
from penstock.wire.records import encode_values

HELLO = encode_body(native.HELLO, 1, Hello(versions=[native.VERSION], client="test"))


class Peer:
    """One native connection."""

    def __init__(self, server: Server, *, hello: bool = True) -> None:
        self.socket = server.connect("native")
        self._splitter = FrameSplitter(native.HEADER_BYTES, native.FRAME_BYTES_MAX)
        self._frames: list[Frame] = []
        self._correlation = 0
        if hello:
            self.ask(HELLO)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.socket.close()

    def next_correlation(self) -> int:
        self._correlation += 1
        return self._correlation

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def frame(self) -> Frame:
        """The next frame from the server."""
        while not self._frames:
            data = self.socket.recv(1 << 16)
            if not data:
                raise EOFError
            self._frames += self._splitter.feed(data)
        return self._frames.pop(0)

    def ended(self) -> bool:
        """Read up to the end; True if the server has closed the connection."""
        self.socket.settimeout(PATIENCE_S)
        try:
            while self.socket.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass
        return True

    def ask(self, request: bytes) -> bytes:
        """The body of the answer to a request; pushes that come before it are dropped."""
        self.send(request)
        wanted = native.correlation_of(request[native.HEADER_BYTES :])
        while True:
            opcode, body = self.frame()
            if opcode in (native.OK, native.ERROR) and native.correlation_of(body) == wanted:
                if opcode == native.ERROR:
                    raise decode_error_frame(body)
                return body

    def refused(self, request: bytes) -> PenstockError:
        """The error that answers a request."""
        try:
            self.ask(request)
        except PenstockError as error:
            return error
        raise AssertionError("it was not refused")

    def ping(self) -> None:
        self.ask(native.frame(native.PING, self.next_correlation()))

    def call(self, operation: str, **arguments: Any) -> Any:
        request = encode_call(self.next_correlation(), operation, arguments_of(operation, **arguments))
        return decode_answer(operation, memoryview(self.ask(request))[4:])

    def version(self, topic: str) -> int:
        body = self.ask(encode_body(native.METADATA, self.next_correlation(), topic))
        return decode_body(body, Metadata).version

    def publish(self, topic: str, *values: bytes, partition: int = 0) -> native.PublishOutcome:
        batch = bytes(encode_values(list(values), 0, 0))
        version = self.version(topic)
        request = native.encode_publish(
            self.next_correlation(), topic, version, native.ACKS_DURABLE, [(partition, batch)]
        )
        return native.decode_published(self.ask(request))[0][0]

    def open(self, topic: str, group: str = "g", **more: Any) -> OpenedConsumer:
        request = OpenConsumer(topic=topic, group=group, **more)
        return decode_body(
            self.ask(encode_body(native.OPEN_CONSUMER, self.next_correlation(), request)), OpenedConsumer
        )

    def receive(self, consumer: int, max_messages: int = 100, wait_ms: int = 0) -> list[native.LeasedBatch]:
        request = native.encode_receive(self.next_correlation(), consumer, max_messages, wait_ms)
        return native.decode_received(self.ask(request))

    def ack(self, consumer: int, *batches: native.LeasedBatch) -> None:
        runs = [(each.partition, each.lease, each.start, each.end) for each in batches]
        self.ask(native.encode_ack(self.next_correlation(), consumer, runs))


def reset(connection: socket.socket) -> None:
    """Vanish with a RST, not a FIN."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    connection.close()
