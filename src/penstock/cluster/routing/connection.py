"""One connection to another node, and the responses that operations wait for.

Compiled, because its base class is.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

from penstock.broker.steps import Arrival, Steps, Waiter
from penstock.clock import Clock
from penstock.errors import Closed, OutcomeUnknown, PenstockError
from penstock.transport.framed import FramedConnection
from penstock.transport.frames import FrameSplitter
from penstock.wire.native import ERROR, FRAME_BYTES_MAX, HEADER_BYTES, OK, UINT32_MAX, correlation_of
from penstock.wire.native_bodies import decode_error_frame

UNSENT_BYTES_MAX: Final = 1 << 20

Encode = Callable[[int], bytes]  # A whole frame, for the correlation it gets.
OnAnswer = Callable[[bytes, PenstockError | None], None]
OnPush = Callable[[int, bytes], None]


class Answer:
    """The response to one request; its waiters are woken when it has arrived."""

    def __init__(self, unknown: PenstockError) -> None:
        self._unknown = unknown  # For a request without a response in time.
        self.waiters: dict[Waiter, None] = {}
        self.late: OnAnswer | None = None  # Receives a response that nothing waits for any more.
        self.done = False
        self.body = b""
        self.error: PenstockError | None = None

    def __call__(self, body: bytes, error: PenstockError | None) -> None:
        self.done = True
        self.body = body
        self.error = error
        if self.late is not None:
            self.late(body, error)
        for waiter in list(self.waiters):
            waiter.wake()

    def wait(self, clock: Clock, until_ms: int) -> Steps[bytes]:
        """The body of the response, or the error that it is."""
        while not self.done:
            if clock.steady_ms() >= until_ms:
                raise self._unknown
            yield Arrival(self, until_ms)
        if self.error is not None:
            raise self.error
        return self.body


class PeerConnection(FramedConnection):
    """One connection to another node; every request is answered once, by the peer or by the end."""

    def __init__(self, server: str, requests: Counter[str]) -> None:
        super().__init__(FrameSplitter(HEADER_BYTES, FRAME_BYTES_MAX), UNSENT_BYTES_MAX)
        self.lost = False
        self.pushed: dict[int, OnPush] = {}  # By consumer number: handlers of frames that the peer pushes.
        self.requests = requests  # Requests sent, by operation.
        self._server = server
        self._correlation = 0
        self._waiting: dict[int, tuple[str, OnAnswer]] = {}

    def request(self, operation: str, encode: Encode, then: OnAnswer) -> None:
        if self.lost:
            then(b"", OutcomeUnknown(operation=operation, server=self._server))
            return
        self._correlation = self._correlation % UINT32_MAX + 1
        data = encode(self._correlation)
        self.requests[operation] += 1
        self._waiting[self._correlation] = operation, then
        self.push(data)

    def data_received(self, data: bytes) -> None:
        try:
            for opcode, body in self._splitter.feed(data):
                self._handle(opcode, body)
            if self._splitter.refusal is not None:
                raise self._splitter.refusal
        except PenstockError:  # Invalid bytes.
            self.abort()

    def _handle(self, opcode: int, body: bytes) -> None:
        if opcode not in (OK, ERROR):
            consumer = int.from_bytes(body[4:8], "big")
            if consumer in self.pushed:
                self.pushed[consumer](opcode, body)
            return
        operation, then = self._waiting.pop(correlation_of(body), ("", _nobody))
        if opcode == OK:
            then(body, None)
            return
        error = decode_error_frame(body)
        if isinstance(error, Closed) and error.what == "broker":  # It stopped, perhaps in mid-request.
            error = OutcomeUnknown(operation=operation, server=self._server)
        then(b"", error)

    def connection_lost(self, _: Exception | None) -> None:
        self.lost = True
        waiting, self._waiting = self._waiting, {}
        for operation, then in waiting.values():
            then(b"", OutcomeUnknown(operation=operation, server=self._server))
        for pushed in list(self.pushed.values()):
            pushed(ERROR, b"")


def _nobody(_: bytes, __: PenstockError | None) -> None:
    """The callback of a response that nothing waits for any more."""
