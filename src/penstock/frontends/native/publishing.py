"""PUBLISH: batches that the client has encoded, and their answer.

A module of its own because it is compiled: a client that publishes one message after the other waits for
every call in here.
"""

from typing import Final

from penstock.errors import MetadataStale, PenstockError
from penstock.frontends.native.session import NativeSession
from penstock.frontends.public import public
from penstock.model.message import Receipt
from penstock.wire import native
from penstock.wire.native import PublishOutcome
from penstock.wire.native_bodies import encode_error

FSYNC: Final = native.DURABILITIES.index("fsync")
OS: Final = native.DURABILITIES.index("os")


class PublishAnswer:
    """Answers a publish when the broker has its result."""

    __slots__ = ("acks", "correlation", "durability", "session", "size")

    def __init__(
        self, session: NativeSession, correlation: int, acks: int, durability: int, size: int
    ) -> None:
        self.session = session
        self.correlation = correlation
        self.acks = acks
        self.durability = durability
        self.size = size

    def __call__(self, answers: list[Receipt | PenstockError] | None, error: BaseException | None) -> None:
        session = self.session
        session.shared.publish_bytes -= self.size
        if error is not None or answers is None:
            session.refuse(self.correlation, error or PenstockError(reason="no answer"))
            return
        one = answers[0] if len(answers) == 1 else None
        if self.acks == native.ACKS_NONE and not _any_refused(answers):
            session.connection.answer(b"")
        elif isinstance(one, Receipt) and one.offset is not None:
            state = native.DUPLICATE if one.duplicate else native.WRITTEN
            session.connection.answer(
                native.encode_published_one(
                    self.correlation, one.partition, one.offset, one.timestamp, state, self.durability
                )
            )
        else:
            outcomes = [outcome(each) for each in answers]
            session.connection.answer(native.encode_published(self.correlation, outcomes, self.durability))


def _any_refused(answers: list[Receipt | PenstockError]) -> bool:
    for answer in answers:  # noqa: SIM110 - compiled, it is quicker than any() over a generator.
        if isinstance(answer, PenstockError):
            return True
    return False


def outcome(answer: Receipt | PenstockError) -> PublishOutcome:
    if isinstance(answer, PenstockError):
        return PublishOutcome(0, 0, 0, native.REFUSED, encode_error(public(answer)))
    assert answer.offset is not None, "a batch is never scheduled"
    state = native.DUPLICATE if answer.duplicate else native.WRITTEN
    return PublishOutcome(answer.partition, answer.offset, answer.timestamp, state)


def publish(session: NativeSession, correlation: int, body: bytes) -> None:
    request = native.decode_publish(body)
    shared = session.shared
    wait = request.acks == native.ACKS_DURABLE
    version, durability = shared.durabilities.get(request.topic, (-1, 0))
    if version != request.version:  # This server has not sent that version to any client.
        raise MetadataStale(topic=request.topic, version=request.version)
    if durability == FSYNC and not wait:
        durability = OS
    size = len(body)
    shared.take_publish(size)
    answer = PublishAnswer(session, correlation, request.acks, durability, size)
    try:
        steps = session.operations.append_batches(request.topic, version, request.batches, wait)
    except Exception as error:  # noqa: BLE001 - whatever it is, it ends one request.
        answer(None, error)
    else:
        session.broker.begin(steps, answer)
