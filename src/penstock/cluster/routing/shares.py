"""A consumer at another node: the owner's share of a consumer that this node proxies.

It has the methods of ``BatchConsumer``.  Each is a request of the native protocol, on the connection on
which the consumer was opened; when that is lost, the owner gives the consumer's messages back, and the
share ends.
"""

from collections.abc import Callable
from typing import Any, Protocol

from penstock.broker.steps import Steps
from penstock.cluster.routing.connection import Answer, Encode, PeerConnection
from penstock.cluster.routing.listener import DISCONNECT_CONSUMER
from penstock.errors import Closed, OutcomeUnknown, PenstockError
from penstock.model.failure import Failure
from penstock.model.message import Message
from penstock.operations.codec import wire_message
from penstock.wire import native
from penstock.wire.native import LeasedBatch, Run
from penstock.wire.native_bodies import (
    AckAndPublish,
    ExtendBody,
    NackBody,
    OpenConsumer,
    OpenedConsumer,
    RejectBody,
    decode_assigned,
    decode_body,
    decode_consumer_closed,
    encode_body,
)


class Waits(Protocol):
    """Waits for a response, beyond the wait that the request asks for."""

    def __call__(self, answer: Answer, wait_ms: int = 0) -> Steps[bytes]: ...


class RemoteShare:
    """One consumer at another node."""

    def __init__(
        self,
        connection: PeerConnection,
        server: str,
        wait: Waits,
        request: OpenConsumer,
        now_ms: Callable[[], int],
    ) -> None:
        self.server = server
        self.error: PenstockError | None = None  # Why it has ended.
        self.on_assignment: Callable[[], None] = _nothing
        self._connection = connection
        self._wait = wait
        self._request = request
        self._now_ms = now_ms
        self._late: list[LeasedBatch] = []  # Arrived after the wait for them was cancelled.
        self._held = 0
        self._held_until_ms = 0

    def open(self) -> Steps[None]:
        yield from self._open(self._request)

    def _open(self, request: OpenConsumer) -> Steps[None]:
        body = yield from self._tell(native.OPEN_CONSUMER, request)
        opened = decode_body(body, OpenedConsumer)
        self.number = opened.consumer
        self.identity = opened.consumer_id
        self.kind = opened.kind
        self.visibility_ms = opened.visibility_ms
        self.session_ms = opened.session_ms
        self.assignment = opened.assignment
        self._token = opened.token
        self._connection.pushed[self.number] = self._pushed

    def _pushed(self, opcode: int, body: bytes) -> None:
        if opcode == native.ASSIGNED:
            _, self.assignment = decode_assigned(body)
            self.on_assignment()
        elif opcode == native.CONSUMER_CLOSED:
            _, self.error = decode_consumer_closed(body)
        elif opcode == native.ERROR:
            self.error = OutcomeUnknown(operation="receive", server=self.server)

    def _ask(
        self, encode: Encode, wait_ms: int = 0, then: Callable[[Answer], None] | None = None
    ) -> Steps[bytes]:
        if self.error is not None:
            raise self.error
        answer = Answer(OutcomeUnknown(operation="the request of a consumer", server=self.server))
        self._connection.request("the request of a consumer", encode, answer)
        try:
            return (yield from self._wait(answer, wait_ms))
        except GeneratorExit:  # The caller no longer waits.
            if then is not None:
                then(answer)
            raise

    @property
    def closed(self) -> bool:
        return self.error is not None

    @property
    def in_flight(self) -> int:
        """Messages that were received and not settled, as far as this node knows."""
        return self._held if self._now_ms() < self._held_until_ms else 0

    def _hold(self, count: int, for_ms: int) -> None:
        self._held = max(self.in_flight + count, 0)
        self._held_until_ms = max(self._held_until_ms, self._now_ms() + for_ms)

    def receive(self, max_messages: int, wait_ms: int) -> Steps[list[LeasedBatch]]:
        if self._late:
            return self._take_late(max_messages)
        number = self.number

        def encode(correlation: int) -> bytes:
            return native.encode_receive(correlation, number, max_messages, wait_ms)

        body = yield from self._ask(encode, wait_ms, self._call_off)
        return self._received(body)

    def _received(self, body: bytes) -> list[LeasedBatch]:
        batches = native.decode_received(body)
        self._hold(sum(each.end - each.start for each in batches), self.visibility_ms)
        return batches

    def _call_off(self, answer: Answer) -> None:
        """End the wait at the owner; messages that it has already sent are for the next receive."""

        def late(body: bytes, error: PenstockError | None) -> None:
            if error is None:
                self._late += self._received(body)

        if answer.done:
            late(answer.body, answer.error)
            return
        answer.late = late
        number = self.number
        self._connection.request("receive", lambda each: native.encode_receive(each, number, 0, 0), _ignore)

    def _take_late(self, max_messages: int) -> list[LeasedBatch]:
        taken: list[LeasedBatch] = []
        while self._late and max_messages:
            each = self._late.pop(0)
            split = min(each.end, each.start + max_messages)
            if split < each.end:
                rest = LeasedBatch(each.partition, each.lease, each.attempt, split, each.end, each.data)
                self._late.insert(0, rest)
                each = LeasedBatch(each.partition, each.lease, each.attempt, each.start, split, each.data)
            max_messages -= each.end - each.start
            taken.append(each)
        return taken

    # Answers to messages.

    def ack(self, runs: list[Run]) -> Steps[None]:
        self._settle(runs)
        yield from self._ask(lambda correlation: native.encode_ack(correlation, self.number, runs))

    def ack_and_publish(self, runs: list[Run], outputs: list[tuple[str, Message]]) -> Steps[None]:
        sent = [(topic, wire_message(message)) for topic, message in outputs]
        yield from self._tell(native.ACK_AND_PUBLISH, AckAndPublish(self.number, runs, sent))
        self._settle(runs)

    def nack(self, runs: list[Run], delay_ms: int | None, failure: Failure) -> Steps[None]:
        self._settle(runs)
        yield from self._tell(native.NACK, NackBody(self.number, runs, delay_ms, *failure))

    def reject(self, runs: list[Run], reason: str) -> Steps[None]:
        self._settle(runs)
        yield from self._tell(native.REJECT, RejectBody(self.number, runs, reason))

    def extend(self, leases: list[tuple[int, int]], duration_ms: int) -> Steps[list[tuple[int, int]]]:
        self._hold(0, duration_ms)
        body = yield from self._tell(native.EXTEND, ExtendBody(self.number, leases, duration_ms))
        return decode_body(body, list[tuple[int, int]])

    def commit(self, offsets: dict[int, int]) -> Steps[None]:
        yield from self._ask(
            lambda correlation: native.encode_commit(correlation, self.number, offsets.items())
        )

    def heartbeat(self) -> list[int]:
        self._connection.request("heartbeat", self._about(native.HEARTBEAT), _ignore)
        return self.assignment

    def keep(self, leases: list[tuple[int, int]], positions: dict[int, int]) -> Steps[None]:
        """Keep these leases and positions of a client that has reconnected."""
        self._connection.pushed.pop(self.number, None)
        self._late.clear()
        request = OpenConsumer(
            topic=self._request.topic,
            group=self._request.group,
            resume=self._token,
            held=leases,
            positions=positions,
            assignments=True,
        )
        yield from self._open(request)

    def close(self) -> Steps[None]:
        yield from self._end(native.CLOSE_CONSUMER)

    def disconnect(self) -> Steps[None]:
        yield from self._end(DISCONNECT_CONSUMER)

    def _end(self, opcode: int) -> Steps[None]:
        if self.error is None:
            self._connection.pushed.pop(self.number, None)
            try:
                yield from self._ask(self._about(opcode))
            finally:
                self.error = Closed(what="consumer")

    def _about(self, opcode: int) -> Encode:
        number = self.number
        return lambda correlation: native.encode_consumer(opcode, correlation, number)

    def _tell(self, opcode: int, body: Any) -> Steps[bytes]:
        return self._ask(lambda correlation: encode_body(opcode, correlation, body))

    def _settle(self, runs: list[Run]) -> None:
        self._hold(-sum(end - start for _, _, start, end in runs), 0)


def _nothing() -> None:
    """The observer of a consumer until it has one."""


def _ignore(_: bytes, __: PenstockError | None) -> None:
    """A request whose outcome does not matter."""
