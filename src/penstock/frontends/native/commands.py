"""What each opcode, and each name of a CALL, asks of the broker.

A command decodes its body, starts one operation and leaves the answer to a
callback; a wrong body raises, and the session answers.  There is nothing of
delivery here: leases, groups, durability are the broker's.

``TABLE`` has the opcodes, ``penstock.operations.calls.CALLS`` the names; both are compared
with docs/protocols/native.md by a test.
"""

from collections.abc import Generator, Mapping
from typing import Any, Final

import msgspec

from penstock.broker.frontend import BatchConsumer
from penstock.config.broker import TopicSettings
from penstock.errors import (
    Closed,
    FrameTooLarge,
    OperationUnknown,
    PenstockError,
    ProtocolViolation,
    VersionUnsupported,
)
from penstock.frontends.native.consumers import WireConsumer
from penstock.frontends.native.publishing import publish
from penstock.frontends.native.session import Command, Commands, NativeSession
from penstock.frontends.security.identity import Credentials, Identity
from penstock.model.failure import Failure
from penstock.model.owners import topic_owners
from penstock.operations.call import Call
from penstock.operations.calls import CALLS
from penstock.operations.codec import encode_answer, message_of, wire_receipt
from penstock.operations.consumers import consumer_options
from penstock.version import __version__
from penstock.wire import native
from penstock.wire.native_bodies import (
    AckAndPublish,
    ExtendBody,
    Hello,
    Metadata,
    NackBody,
    OpenConsumer,
    OpenedConsumer,
    PublishMessages,
    RejectBody,
    Welcome,
    WireMessage,
    decode_body,
    decode_call,
    error_frame,
    ok_frame,
)


def _done(correlation: int, _: Any) -> bytes:
    return native.frame(native.OK, correlation)


# The connection.


def hello(session: NativeSession, correlation: int, body: bytes) -> None:
    """Agree on a version, and authenticate the client."""
    request = decode_body(body, Hello)
    if session.greeted:
        raise ProtocolViolation(why="a connection has only one hello")
    if native.VERSION not in request.versions:
        offered = ", ".join(map(str, request.versions))
        raise VersionUnsupported(offered=offered, supported=str(native.VERSION))
    session.greeted = True

    def known(identity: Identity | None, error: PenstockError | None) -> None:
        try:
            if identity is None:
                raise error or PenstockError(reason="no answer")
            if not session.connection.closed:
                session.admit(identity)
                session.connection.answer(ok_frame(correlation, _welcome(session)))
        except PenstockError as refusal:
            session.connection.end(error_frame(correlation, refusal))

    shown = Credentials(key=request.key, user=request.user, password=request.password)
    session.shared.gateway.begin_login(shown, session.connection.address, known)


def _welcome(session: NativeSession) -> Welcome:
    shared = session.shared
    return Welcome(
        version=native.VERSION,
        server=f"penstock/{__version__}",
        frame_bytes_max=shared.frame_bytes_max,
        requests_max=shared.requests_max,
        receive_messages_max=shared.receive_messages_max,
        resume_ms=shared.resumable.resume_ms,
        node=shared.gateway.owners.node,
    )


def ping(session: NativeSession, correlation: int, _: bytes) -> None:
    session.connection.answer(native.frame(native.OK, correlation))


# Publishing.


def metadata(session: NativeSession, correlation: int, body: bytes) -> None:
    """The settings that a client needs to encode batches for a topic."""
    topic = decode_body(body, str)

    def described(correlation: int, found: tuple[int, TopicSettings]) -> bytes:
        version, settings = found
        session.shared.remember(topic, version, native.DURABILITIES.index(settings.durability))
        where = topic_owners(session.shared.gateway.owners, topic, settings.partitions)
        body = Metadata(version=version, settings=settings, owners=where.owners, nodes=where.nodes)
        return ok_frame(correlation, body)

    session.start(session.operations.metadata(topic), correlation, described)


def new_producer(session: NativeSession, correlation: int, _: bytes) -> None:
    """An id for a producer."""
    session.connection.answer(native.encode_producer(correlation, session.operations.new_producer_id()))


def publish_messages(session: NativeSession, correlation: int, body: bytes) -> None:
    """Publish messages that the broker encodes."""
    request = decode_body(body, PublishMessages)
    messages = [message_of(each) for each in request.messages]
    shared, size = session.shared, len(body)
    shared.take_publish(size)

    def then(receipts: Any, error: BaseException | None) -> None:
        shared.publish_bytes -= size
        if error is not None:
            session.refuse(correlation, error)
        elif request.acks == native.ACKS_NONE:
            session.connection.answer(b"")
        else:
            session.connection.answer(ok_frame(correlation, [wire_receipt(receipt) for receipt in receipts]))

    session.broker.start(session.operations.publish_batch(request.topic, messages), then)


# Consuming.


def open_consumer(session: NativeSession, correlation: int, body: bytes) -> None:
    """Open a consumer, or resume one that has lost its connection."""
    request = decode_body(body, OpenConsumer)
    session.check_room()
    resumable = session.shared.resumable
    found = None
    if request.resume is not None:
        found = resumable.take(request.resume, request.topic, request.group, session.operations)

    def opened(consumer: WireConsumer, resumed: bool) -> bytes:
        resumable.add(consumer)
        session.add(consumer)
        if session.connection.closed:  # The client left while the consumer was made.
            session.lost()
        inner = consumer.inner
        return ok_frame(
            correlation,
            OpenedConsumer(
                consumer=consumer.number,
                consumer_id=inner.identity,
                kind=inner.kind,
                token=consumer.token,
                resumed=resumed,
                visibility_ms=inner.visibility_ms,
                session_ms=inner.session_ms,
                assignment=inner.assignment,
            ),
        )

    def made(_: int, inner: BatchConsumer) -> bytes:
        consumer = WireConsumer(session.broker, inner, request.topic, request.group)
        if request.assignments:
            consumer.tell_assignment()
        return opened(consumer, False)

    if found is not None:
        session.start(
            found.inner.keep(request.held, request.positions), correlation, lambda *_: opened(found, True)
        )
        return
    open_one = session.operations.own_consumer if request.here else session.operations.batch_consumer
    work = open_one(request.topic, request.group, consumer_options(request))
    session.start(work, correlation, made)


def close_consumer(session: NativeSession, correlation: int, body: bytes) -> None:
    """Close a consumer and release its leases."""
    consumer = session.remove(native.decode_consumer(body))
    session.shared.resumable.close(consumer, session.then(correlation, _done))


def receive(session: NativeSession, correlation: int, body: bytes) -> None:
    """Wait for messages; a request for none ends all waits of the consumer."""
    number, max_messages, wait_ms = native.decode_receive(body)
    if max_messages == 0:
        session.consumer(number).call_off()
        session.connection.answer(native.encode_received(correlation, []))
        return
    then = session.then(correlation, native.encode_received)
    session.consumer(number).receive(max_messages, wait_ms, then)


def credit(session: NativeSession, _: int, body: bytes) -> None:
    """Allow this many more pushed messages; there is no response."""
    number, added = native.decode_credit(body)
    consumer = session.consumer(number)
    session.connection.answer(b"")
    consumer.add_credit(added)


def ack(session: NativeSession, correlation: int, body: bytes) -> None:
    number, runs = native.decode_ack(body)
    session.start(session.consumer(number).inner.ack(runs), correlation, _done)


def nack(session: NativeSession, correlation: int, body: bytes) -> None:
    request = decode_body(body, NackBody)
    failure = Failure(request.error_class, request.error_message, request.fingerprint)
    work = session.consumer(request.consumer).inner.nack(request.runs, request.delay_ms, failure)
    session.start(work, correlation, _done)


def reject(session: NativeSession, correlation: int, body: bytes) -> None:
    request = decode_body(body, RejectBody)
    work = session.consumer(request.consumer).inner.reject(request.runs, request.reason)
    session.start(work, correlation, _done)


def extend(session: NativeSession, correlation: int, body: bytes) -> None:
    """Extend leases; the response names those that are lost."""
    request = decode_body(body, ExtendBody)
    work = session.consumer(request.consumer).inner.extend(request.leases, request.duration_ms)
    session.start(work, correlation, ok_frame)


def commit(session: NativeSession, correlation: int, body: bytes) -> None:
    """Stream groups: commit these offsets."""
    number, positions = native.decode_commit(body)
    work = session.consumer(number).inner.commit(dict(positions))
    session.start(work, correlation, _done)


def heartbeat(session: NativeSession, correlation: int, body: bytes) -> None:
    """Stream groups: send a heartbeat."""
    inner = session.consumer(native.decode_consumer(body)).inner
    if inner.closed:
        raise Closed(what="consumer")
    session.connection.answer(ok_frame(correlation, inner.heartbeat()))


def ack_and_publish(session: NativeSession, correlation: int, body: bytes) -> None:
    """Ack messages and publish outputs, atomically."""
    request = decode_body(body, AckAndPublish)
    outputs = [(topic, message_of(message)) for topic, message in request.outputs]
    work = session.consumer(request.consumer).inner.ack_and_publish(request.runs, outputs)
    session.start(work, correlation, _done)


def fetch(session: NativeSession, correlation: int, body: bytes) -> None:
    """Batches as they are stored; large ones are sent without a copy into a frame."""
    topic, partition, offset, max_bytes, journal = native.decode_fetch(body)

    def then(found: Any, error: BaseException | None) -> None:
        if error is not None:
            session.refuse(correlation, error)
            return
        batches: bytes = found.batches
        session.connection.send(
            native.encode_fetched(correlation, found.start, found.end, found.next_offset, len(batches))
        )
        session.connection.answer(batches)

    limit = session.shared.frame_bytes_max
    work = session.operations.fetch(topic, partition, offset, min(max_bytes, limit), journal)
    session.broker.start(work, then)


# By name.


def by_name(calls: Mapping[str, Call]) -> Command:
    """CALL: the operation that the request names."""

    def call(session: NativeSession, correlation: int, body: bytes) -> None:
        name, raw = decode_call(body)
        described = calls.get(name)
        if described is None:
            raise OperationUnknown(operation=name[:100])
        arguments: Any = decode_body(bytes(raw), described.arguments, 0)
        values = [_argument(value) for value in msgspec.structs.astuple(arguments)]
        result = getattr(session.operations, name)(*values)
        if isinstance(result, Generator):
            session.start(result, correlation, _answer)
        else:  # It did not wait.
            session.connection.answer(_answer(correlation, result))

    return call


def _argument(value: Any) -> Any:
    """An argument as a program passes it."""
    if isinstance(value, WireMessage):
        return message_of(value)
    if isinstance(value, list) and value and isinstance(value[0], WireMessage):
        return [message_of(each) for each in value]
    return value


def _answer(correlation: int, result: Any) -> bytes:
    data = encode_answer(result)
    if len(data) > native.FRAME_BYTES_MAX:
        raise FrameTooLarge(size_bytes=len(data), limit_bytes=native.FRAME_BYTES_MAX)
    return native.frame(native.OK, correlation, data)


TABLE: Final[Commands] = {
    native.HELLO: hello,
    native.PING: ping,
    native.METADATA: metadata,
    native.NEW_PRODUCER: new_producer,
    native.PUBLISH: publish,
    native.PUBLISH_MESSAGES: publish_messages,
    native.OPEN_CONSUMER: open_consumer,
    native.CLOSE_CONSUMER: close_consumer,
    native.RECEIVE: receive,
    native.CREDIT: credit,
    native.ACK: ack,
    native.NACK: nack,
    native.REJECT: reject,
    native.EXTEND: extend,
    native.COMMIT: commit,
    native.HEARTBEAT: heartbeat,
    native.ACK_AND_PUBLISH: ack_and_publish,
    native.FETCH: fetch,
    native.CALL: by_name(CALLS),
}
