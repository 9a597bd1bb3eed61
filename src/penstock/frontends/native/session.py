"""One Penstock client on a connection: its consumers, and the way answers take.

    frame ──> correlation ──> commands[opcode](session, correlation, body)
                                   └── broker.start(work, then) ──> connection.answer / session.refuse

A session finds the command and turns errors into answers; what a command does
is in ``commands.py``.  A ``PenstockError`` is sent as it is.  Anything else is a
bug: it is logged, sent as INTERNAL, and ends one request, never the server.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.api.work import Work
from penstock.broker.frontend import EmbeddedAsyncBroker, Then, ignore_result
from penstock.errors import Closed, OperationUnknown, Overloaded, PenstockError, ProtocolViolation
from penstock.frontends.native.connection import NativeConnection
from penstock.frontends.native.consumers import ResumableConsumers, WireConsumer
from penstock.frontends.public import public
from penstock.frontends.security.gateway import AuthenticatedConnection, AuthGateway
from penstock.frontends.security.guarded import BrokerOperations
from penstock.frontends.security.identity import Identity
from penstock.wire import native
from penstock.wire.native_bodies import assigned_frame, consumer_closed_frame, error_frame

CONSUMERS_MAX: Final = 1000  # Of one connection.
CONSUMERS_IN_ALL_MAX: Final = 100_000  # With those whose client may come back.
TOPICS_REMEMBERED_MAX: Final = 10_000

logger = logging.getLogger("penstock")


class NativeShared:
    """What the sessions of one listener have in common."""

    def __init__(
        self,
        broker: EmbeddedAsyncBroker,
        gateway: AuthGateway,
        *,
        frame_bytes_max: int,
        publish_bytes_max: int,
        requests_max: int,
        resume_ms: int,
        receive_messages_max: int,
        consumers_max: int | None = None,
    ) -> None:
        self.broker = broker
        self.gateway = gateway
        self.frame_bytes_max = frame_bytes_max
        self.publish_bytes_max = publish_bytes_max
        self.requests_max = requests_max
        self.receive_messages_max = receive_messages_max
        self.consumers_max = CONSUMERS_MAX if consumers_max is None else consumers_max  # Of one connection.
        self.consumers_in_all_max = CONSUMERS_IN_ALL_MAX
        self.durabilities: dict[
            str, tuple[int, int]
        ] = {}  # By topic: the version sent last, and its durability.
        self.publish_bytes = 0  # Of publishes that were not answered yet.
        self.resumable = ResumableConsumers(broker, resume_ms)

    def remember(self, topic: str, version: int, durability: int) -> None:
        """Note that this version of a topic's settings was sent to a client."""
        if len(self.durabilities) >= TOPICS_REMEMBERED_MAX:
            self.durabilities.clear()  # Topics come and go; who still needs one asks again.
        self.durabilities[topic] = version, durability

    def take_publish(self, size: int) -> None:
        """Reserve room for a publish, or raise if there is none."""
        if self.publish_bytes and self.publish_bytes + size > self.publish_bytes_max:
            raise Overloaded(what="bytes of publishes", limit=self.publish_bytes_max)
        self.publish_bytes += size


class NativeSession:
    """One client, from its hello to the end of the connection."""

    def __init__(self, connection: NativeConnection, shared: NativeShared, commands: "Commands") -> None:
        self.connection = connection
        self.shared = shared
        self.broker = shared.broker
        self.operations: BrokerOperations  # Of the authenticated client; set by the login.
        self.version = 0  # Of the protocol; 0 before the hello is answered.
        self.greeted = False  # There was a hello.
        self.challenge = b""  # For a node of the same cluster, which has to prove itself.
        self._admitted: AuthenticatedConnection | None = None
        self._commands = commands
        self._consumers: dict[int, WireConsumer] = {}
        self._numbers = 0

    # The connection's calls.

    def handle(self, opcode: int, body: bytes) -> None:
        try:
            correlation = native.correlation_of(body)
        except ProtocolViolation as error:
            self.connection.end(self.refusal(error))
            return
        command = self._commands.get(opcode)
        if not self.version and opcode != native.HELLO:
            why = "wait for the answer to the hello" if self.greeted else "a connection begins with a hello"
            self.connection.end(error_frame(correlation, ProtocolViolation(why=why)))
            return
        if command is None:
            self.refuse(correlation, OperationUnknown(operation=f"opcode 0x{opcode:02x}"))
            return
        try:
            command(self, correlation, body)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends one request.
            self.refuse(correlation, error)

    def refusal(self, error: PenstockError) -> bytes:
        """An error that is not the response to a request, sent before the connection is closed."""
        return error_frame(native.UNASKED, error)

    def pause(self) -> None:
        """The client does not read."""
        for consumer in self._consumers.values():
            consumer.pause()

    def resume(self) -> None:
        for consumer in list(self._consumers.values()):
            consumer.resume()

    def drain(self) -> None:
        for consumer in list(self._consumers.values()):
            consumer.give_up()

    def lost(self) -> None:
        """The connection was lost; the consumers wait for the client to reconnect."""
        for consumer in self._consumers.values():
            self.shared.resumable.detach(consumer)
        self._consumers.clear()
        if self._admitted is not None:
            self._admitted.leave()

    # The way in.

    def admit(self, identity: Identity) -> None:
        """The client has logged in: use its operations from now on."""
        self.operations = self.shared.gateway.operations(identity)
        self._admitted = self.shared.gateway.enter(identity, self._revoke)
        self.version = native.VERSION
        self.connection.trust()

    def _revoke(self, why: PenstockError) -> None:
        """The key was revoked or the user changed: close the connection and its consumers."""
        for consumer in self._consumers.values():
            self.shared.resumable.close(consumer, ignore_result)
        self._consumers.clear()
        self.connection.end(self.refusal(why))

    # Answers.

    def refuse(self, correlation: int, error: BaseException) -> None:
        """The answer to a request that failed."""
        self.connection.answer(error_frame(correlation, _public_error(error)))

    def start(self, work: Work[Any], correlation: int, encode: Callable[[int, Any], bytes]) -> None:
        """Start an operation, and respond with its result."""
        self.broker.start(work, self.then(correlation, encode))

    def then(self, correlation: int, encode: Callable[[int, Any], bytes]) -> Then:
        """A callback that responds with the result of an operation."""

        def answer(result: Any, error: BaseException | None) -> None:
            if error is not None:
                self.refuse(correlation, error)
                return
            try:
                frame = encode(correlation, result)
            except Exception as problem:  # noqa: BLE001 - as in handle.
                self.refuse(correlation, problem)
            else:
                self.connection.answer(frame)

        return answer

    # Consumers.

    def consumer(self, number: int) -> WireConsumer:
        """The consumer of that number, or the error for the client."""
        try:
            return self._consumers[number]
        except KeyError:
            raise Closed(what="consumer") from None

    def check_room(self) -> None:
        """Refuse a consumer beyond the limit."""
        if len(self._consumers) >= self.shared.consumers_max:
            raise Overloaded(what="consumers on one connection", limit=self.shared.consumers_max)
        if len(self.shared.resumable) >= self.shared.consumers_in_all_max:
            raise Overloaded(what="consumers", limit=self.shared.consumers_in_all_max)

    def add(self, consumer: WireConsumer) -> None:
        """Give a consumer a number on this connection."""
        self._numbers += 1
        consumer.operations = self.operations
        consumer.attach(self, self._numbers)
        self._consumers[self._numbers] = consumer
        if not self.connection.writable:
            consumer.pause()

    def remove(self, number: int) -> WireConsumer:
        """The consumer is closed by its client."""
        consumer = self.consumer(number)
        del self._consumers[number]
        return consumer

    def push(self, consumer: WireConsumer, batches: Any) -> None:
        self.connection.push(native.encode_delivery(consumer.number, batches))

    def assigned(self, consumer: WireConsumer, partitions: list[int]) -> None:
        """Send the partitions of a stream consumer, before any message of them."""
        self.connection.send(assigned_frame(consumer.number, partitions))

    def consumer_failed(self, consumer: WireConsumer, error: BaseException) -> None:
        """The broker has closed a consumer: its group or topic was deleted."""
        if self._consumers.pop(consumer.number, None) is not None:
            self.shared.resumable.close(consumer, ignore_result)
            self.connection.send(consumer_closed_frame(consumer.number, _public_error(error)))

    def give_away(self, consumer: WireConsumer) -> None:
        """The client has resumed a consumer on another connection, so this connection is dead."""
        self._consumers.pop(consumer.number, None)


Command = Callable[[NativeSession, int, bytes], None]
Commands = Mapping[int, Command]


def _public_error(error: BaseException) -> PenstockError:
    if isinstance(error, PenstockError):
        return public(error)
    logger.error("a request failed by a bug", exc_info=error)
    return PenstockError(reason=f"the server failed: {type(error).__name__}; its log says more")
