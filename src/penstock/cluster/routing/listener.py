"""The port of a node for the other nodes of its cluster: the native protocol over this node's own partitions.

A peer that has proved that it knows the cluster's secret (``peers.py``) may call every operation of this
node without permission checks, because the node that its client is connected to has made them.  Requests
are never forwarded from here, so nodes that disagree about an owner cannot pass a request back and forth:
they answer ``NotOwner``.
"""

import asyncio
import hmac
import secrets
from collections.abc import Callable
from typing import Any, Final

from penstock.api.work import Work
from penstock.broker.frontend import EmbeddedAsyncBroker, LocalOperations, ignore_result
from penstock.cluster.routing.calls import PEER_CALLS
from penstock.cluster.routing.peers import HEARTBEAT, NONCE_BYTES, PeerHello, proof
from penstock.config.server import LimitSettings
from penstock.errors import PenstockError, ProtocolViolation, Unauthenticated
from penstock.frontends.listener import Connections
from penstock.frontends.native.commands import TABLE, by_name
from penstock.frontends.native.connection import Dispatcher, NativeConnection, NativeHost
from penstock.frontends.native.publishing import outcome
from penstock.frontends.native.server import RECEIVE_MESSAGES_MAX
from penstock.frontends.native.session import CONSUMERS_IN_ALL_MAX, Commands, NativeSession, NativeShared
from penstock.frontends.security.gateway import AuthenticatedConnection, AuthGateway
from penstock.frontends.security.identity import NOBODY, Identity
from penstock.model.message import Receipt
from penstock.wire import native
from penstock.wire.native_bodies import decode_body, error_frame, ok_frame

REQUESTS_MAX: Final = 100_000  # Requests in flight on one connection: every waiting consumer is one.
RESUME_MS: Final = 0  # The consumers of a lost connection are closed: a peer opens new ones.
REPORT: Final = 0x3C  # This node's report about itself.
METRICS: Final = 0x3E
DISCONNECT_CONSUMER: Final = 0x3F  # As CLOSE_CONSUMER, but the attempt counts: the client was lost.


Heard = Callable[[bytes], Any]  # Called with a heartbeat; returns the response.


def ignore_heartbeat(_: bytes) -> None:
    """For a node without members."""


class PeerGateway(AuthGateway):
    """Accepts connections that prove the secret, and gives them the operations of this node."""

    def __init__(
        self,
        broker: EmbeddedAsyncBroker,
        local: LocalOperations,
        secret: bytes,
        heard: Heard,
        report: Callable[[], Any],
    ) -> None:
        super().__init__(broker)
        self.report = report
        self.required = True  # Before the proof, which must arrive soon, only short frames.
        self.secret = secret
        self.heard = heard
        self._local = local

    def operations(self, _: Identity) -> LocalOperations:
        return self._local

    def enter(self, _: Identity, end: Callable[[PenstockError], None]) -> AuthenticatedConnection:
        return AuthenticatedConnection(set(), end)


class PeerListener(NativeHost):
    def __init__(
        self,
        broker: EmbeddedAsyncBroker,
        local: LocalOperations,
        limits: LimitSettings,
        connections: Connections,
        secret: bytes,
        heard: Heard = ignore_heartbeat,
        report: Callable[[], Any] = lambda: None,
    ) -> None:
        gateway = PeerGateway(broker, local, secret, heard, report)
        super().__init__("peer", limits, connections, gateway)
        self.requests_max = REQUESTS_MAX
        self.shared = NativeShared(
            broker,
            gateway,
            frame_bytes_max=limits.frame_bytes_max,
            publish_bytes_max=limits.publish_bytes_max,
            requests_max=REQUESTS_MAX,
            resume_ms=RESUME_MS,
            receive_messages_max=RECEIVE_MESSAGES_MAX,
            consumers_max=CONSUMERS_IN_ALL_MAX,
        )

    def connect(self) -> asyncio.BaseProtocol:
        return NativeConnection(self)

    async def drain(self) -> None:
        await super().drain()
        self.shared.resumable.close_all()

    def abort(self) -> None:
        super().abort()
        self.shared.resumable.close_all()

    def dispatcher(self, data: bytes, connection: NativeConnection) -> Dispatcher | None:
        return NativeSession(connection, self.shared, PEER_TABLE) if data[0] == native.HELLO else None

    def unknown(self, _: bytes) -> bytes:
        return error_frame(native.UNASKED, ProtocolViolation(why="this port is for the nodes of a cluster"))

    def refusal(self, error: PenstockError) -> bytes:
        return error_frame(native.UNASKED, error)


def hello(session: NativeSession, correlation: int, body: bytes) -> None:
    """Authenticate a peer: a nonce, then a proof for the nonces of both sides."""
    request = decode_body(body, PeerHello)
    gateway = session.shared.gateway
    assert isinstance(gateway, PeerGateway)
    if not session.greeted:
        session.greeted = True
        ours = secrets.token_bytes(NONCE_BYTES)
        session.challenge = ours + request.nonce
        shown = proof(gateway.secret, "server", request.nonce, ours)
        session.connection.answer(ok_frame(correlation, PeerHello(nonce=ours, proof=shown)))
        return
    wanted = proof(gateway.secret, "client", session.challenge)
    session.challenge = secrets.token_bytes(NONCE_BYTES)  # One attempt.
    if session.version or not hmac.compare_digest(request.proof, wanted):
        refusal = Unauthenticated(why="the peer does not know the cluster's secret")
        session.connection.end(error_frame(correlation, refusal))
        return
    session.admit(NOBODY)
    session.connection.answer(native.frame(native.OK, correlation))


def heartbeat(session: NativeSession, correlation: int, body: bytes) -> None:
    """Note a peer's heartbeat, and answer with this node's."""
    gateway = session.shared.gateway
    assert isinstance(gateway, PeerGateway)
    session.connection.answer(ok_frame(correlation, gateway.heard(body)))


def report(session: NativeSession, correlation: int, _: bytes) -> None:
    gateway = session.shared.gateway
    assert isinstance(gateway, PeerGateway)
    session.connection.answer(ok_frame(correlation, gateway.report()))


def publish(session: NativeSession, correlation: int, body: bytes) -> None:
    """Append batches; the node of the client has compared the versions of the topic's settings."""
    request = native.decode_publish(body)
    session.shared.take_publish(len(body))

    def append() -> Work[list[Receipt | PenstockError]]:
        version, _ = yield from session.operations.metadata(request.topic)
        wait = request.acks == native.ACKS_DURABLE
        return (yield from session.operations.append_batches(request.topic, version, request.batches, wait))

    def then(answers: Any, error: BaseException | None) -> None:
        session.shared.publish_bytes -= len(body)
        if error is not None:
            session.refuse(correlation, error)
        else:
            outcomes = [outcome(each) for each in answers]
            session.connection.answer(native.encode_published(correlation, outcomes, 0))

    session.broker.start(append(), then)


def disconnect_consumer(session: NativeSession, correlation: int, body: bytes) -> None:
    """The client of a consumer was lost: give its messages back, and count the attempt."""
    consumer = session.remove(native.decode_consumer(body))
    session.start(consumer.inner.disconnect(), correlation, ok_frame)
    session.shared.resumable.close(consumer, ignore_result)


def metrics(session: NativeSession, correlation: int, _: bytes) -> None:
    session.start(session.operations.metrics(), correlation, _families)


def _families(correlation: int, families: Any) -> bytes:
    return ok_frame(correlation, [(each.metric.name, each.labels, each.samples) for each in families])


PEER_TABLE: Final[Commands] = {
    **TABLE,
    native.HELLO: hello,
    native.PUBLISH: publish,
    native.CALL: by_name(PEER_CALLS),
    HEARTBEAT: heartbeat,
    REPORT: report,
    METRICS: metrics,
    DISCONNECT_CONSUMER: disconnect_consumer,
}
