"""The native protocol's frames and bodies: there and back, and nothing but our own errors for other bytes."""

import datetime
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.broker import TopicSettings
from penstock.errors import FrameTooLarge, InvalidValue, PenstockError, ProtocolViolation
from penstock.transport.frames import Frame, FrameSplitter, plain_frame
from penstock.wire import native, native_bodies
from penstock.wire.native import LeasedBatch, PublishOutcome

uint32 = st.integers(0, 2**32 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
names = st.text("abcdefghijklmnopqrstuvwxyz0123456789._-", min_size=1, max_size=200)
runs = st.lists(st.tuples(uint32, int64, int64, int64), max_size=8)
leased = st.builds(
    LeasedBatch, uint32, int64, uint32, int64, int64, st.binary(max_size=60)
)  # fmt: skip
outcomes = st.one_of(
    st.builds(PublishOutcome, uint32, int64, int64, st.sampled_from([native.WRITTEN, native.DUPLICATE])),
    st.builds(PublishOutcome, uint32, int64, int64, st.just(native.REFUSED), st.binary(max_size=30)),
)


def body_of(frame: bytes, opcode: int) -> bytes:
    """The body of the one frame in these bytes."""
    splitter = FrameSplitter(native.HEADER_BYTES, native.FRAME_BYTES_MAX)
    frames = splitter.feed(frame)
    assert [found for found, _ in frames] == [opcode]
    assert splitter.buffered == 0
    return frames[0][1]


# Frames.


@given(
    st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=40)), max_size=8),
    st.lists(st.integers(1, 30), min_size=1),
)
def test_a_stream_cut_anywhere_gives_the_same_frames(frames: list[Frame], cuts: list[int]) -> None:
    stream = b"".join(plain_frame(opcode, body) for opcode, body in frames)
    splitter = FrameSplitter(native.HEADER_BYTES, native.FRAME_BYTES_MAX)
    found: list[Frame] = []
    at = turn = 0

    while at < len(stream):
        size = cuts[turn % len(cuts)]
        found += splitter.feed(stream[at : at + size])
        at += size
        turn += 1

    assert found == frames
    assert (splitter.buffered, splitter.refusal) == (0, None)


def test_a_frame_that_is_too_long_is_refused_before_its_body_comes() -> None:
    splitter = FrameSplitter(native.HEADER_BYTES, 100)

    frames = splitter.feed(plain_frame(1, b"good") + b"\x01\xff\xff\xff\xff" + b"x" * 50)

    assert frames == [(1, b"good")]
    assert isinstance(splitter.refusal, FrameTooLarge)
    assert splitter.refusal.facts == {"size_bytes": 0xFFFF_FFFF, "limit_bytes": 100}
    assert splitter.buffered == 0


def test_a_frame_that_is_too_long_is_refused_whose_length_comes_in_two_pieces() -> None:
    splitter = FrameSplitter(native.HEADER_BYTES, 100)

    frames = splitter.feed(b"\x01\xff\xff") + splitter.feed(b"\xff\xff" + b"x" * 50)

    assert frames == []
    assert isinstance(splitter.refusal, FrameTooLarge)
    assert splitter.buffered == 0


def test_nothing_is_read_after_a_frame_that_is_too_long() -> None:
    splitter = FrameSplitter(native.HEADER_BYTES, 100)
    splitter.feed(b"\x01\xff\xff\xff\xff")

    frames = splitter.feed(plain_frame(1, b"good"))

    assert frames == []
    assert splitter.buffered == 0


def test_the_longest_frame_is_accepted() -> None:
    splitter = FrameSplitter(native.HEADER_BYTES, 4)

    assert splitter.feed(plain_frame(9, b"four")) == [(9, b"four")]


def test_what_is_kept_of_a_frame_is_counted() -> None:
    splitter = FrameSplitter(native.HEADER_BYTES, native.FRAME_BYTES_MAX)

    splitter.feed(b"\x01\x00\x00\x00\x64" + b"x" * 20)
    splitter.feed(b"y" * 30)

    assert splitter.buffered == 55


# Bodies.


@given(uint32, names, st.integers(0, 2**64 - 1), st.integers(0, 2),
       st.lists(st.tuples(uint32, st.binary(max_size=50)), max_size=5))  # fmt: skip
def test_a_publish_arrives_as_it_was_sent(
    correlation: int, topic: str, version: int, acks: int, batches: list[tuple[int, bytes]]
) -> None:
    body = body_of(native.encode_publish(correlation, topic, version, acks, batches), native.PUBLISH)

    got = native.decode_publish(body)

    assert native.correlation_of(body) == correlation
    assert (got.topic, got.version, got.acks, got.batches) == (topic, version, acks, batches)


@given(uint32, st.lists(outcomes, max_size=5), st.integers(0, 2))
def test_the_answer_to_a_publish_arrives_as_it_was_sent(
    correlation: int, sent: list[PublishOutcome], durability: int
) -> None:
    body = body_of(native.encode_published(correlation, sent, durability), native.OK)

    assert native.correlation_of(body) == correlation
    assert native.decode_published(body) == (sent, durability)


@given(uint32, uint32, int64, int64, st.integers(0, 1), st.integers(0, 2))
def test_the_answer_for_one_batch_is_the_same_bytes(
    correlation: int, partition: int, offset: int, timestamp: int, state: int, durability: int
) -> None:
    one = native.encode_published_one(correlation, partition, offset, timestamp, state, durability)

    assert one == native.encode_published(
        correlation, [PublishOutcome(partition, offset, timestamp, state)], durability
    )


@given(uint32, uint32, runs)
def test_an_ack_arrives_as_it_was_sent(correlation: int, consumer: int, sent: list[native.Run]) -> None:
    body = body_of(native.encode_ack(correlation, consumer, sent), native.ACK)

    assert native.correlation_of(body) == correlation
    assert native.decode_ack(body) == (consumer, sent)


@given(uint32, uint32, st.lists(st.tuples(uint32, int64), max_size=8))
def test_a_commit_arrives_as_it_was_sent(
    correlation: int, consumer: int, sent: list[native.Position]
) -> None:
    body = body_of(native.encode_commit(correlation, consumer, sent), native.COMMIT)

    assert native.decode_commit(body) == (consumer, sent)


@given(uint32, st.lists(leased, max_size=5))
def test_deliveries_arrive_as_they_were_sent(number: int, sent: list[LeasedBatch]) -> None:
    asked = body_of(native.encode_received(number, sent), native.OK)
    pushed = body_of(native.encode_delivery(number, sent), native.DELIVERY)

    assert native.correlation_of(asked) == number
    assert native.decode_received(asked) == sent
    assert native.correlation_of(pushed) == native.UNASKED
    assert native.decode_delivery(pushed) == (number, sent)


@given(uint32, uint32, uint32, uint32)
def test_the_small_requests_arrive_as_they_were_sent(
    correlation: int, consumer: int, one: int, other: int
) -> None:
    receive = body_of(native.encode_receive(correlation, consumer, one, other), native.RECEIVE)
    credit = body_of(native.encode_credit(consumer, one), native.CREDIT)
    close = body_of(
        native.encode_consumer(native.CLOSE_CONSUMER, correlation, consumer), native.CLOSE_CONSUMER
    )
    producer = body_of(native.encode_producer(correlation, one), native.OK)

    assert native.correlation_of(receive) == correlation
    assert native.decode_receive(receive) == (consumer, one, other)
    assert native.decode_credit(credit) == (consumer, one)
    assert native.decode_consumer(close) == consumer
    assert native.decode_producer(producer) == one


@given(uint32, uint32, int64, uint32, st.booleans(), st.binary(max_size=50))
def test_a_fetch_and_its_answer_arrive_as_they_were_sent(
    correlation: int, partition: int, offset: int, max_bytes: int, journal: bool, batches: bytes
) -> None:
    sent = native.encode_fetch(correlation, "orders", partition, offset, max_bytes, journal)
    asked = body_of(sent, native.FETCH)
    head = native.encode_fetched(correlation, 3, offset, 5, len(batches))
    answer = body_of(head + batches, native.OK)

    assert native.correlation_of(asked) == native.correlation_of(answer) == correlation
    assert native.decode_fetch(asked) == ("orders", partition, offset, max_bytes, journal)
    assert native.decode_fetched(answer) == (3, offset, 5, batches)


BODIES: list[Any] = [
    native_bodies.Hello(versions=[1], client="penstock-python/0.1.0"),
    native_bodies.Welcome(
        version=1, server="s", frame_bytes_max=1, requests_max=2, receive_messages_max=3, resume_ms=4
    ),
    native_bodies.Metadata(version=2**64 - 1, settings=TopicSettings(partitions=6)),
    native_bodies.OpenConsumer(topic="t", options={"kind": "stream"}, held=[(1, 2)], positions={0: 9}),
    native_bodies.OpenedConsumer(
        consumer=1, consumer_id="c", kind="queue", token=b"t", resumed=True, visibility_ms=1, session_ms=2,
        assignment=[1],
    ),
    native_bodies.NackBody(1, [(0, 1, 2, 3)], 5, "ValueError", "bad", "f00"),
    native_bodies.RejectBody(1, [(0, 1, 2, 3)], "no good"),
    native_bodies.ExtendBody(1, [(0, 7)], 30_000),
    native_bodies.PublishMessages("t", 2, [native_bodies.WireMessage(b"v", headers=[("a", b"\xff")])]),
    native_bodies.WireReceipt(0, None, 5, "t:0:s1", True),
    native_bodies.AckAndPublish(1, [(0, 1, 2, 3)], [("out", native_bodies.WireMessage(None, b"k"))]),
]  # fmt: skip


@pytest.mark.parametrize("sent", BODIES, ids=lambda sent: type(sent).__name__)
def test_msgpack_bodies_arrive_as_they_were_sent(sent: Any) -> None:
    body = body_of(native_bodies.encode_body(0x30, 77, sent), 0x30)

    assert native.correlation_of(body) == 77
    assert native_bodies.decode_body(body, type(sent)) == sent


def test_a_field_of_a_newer_side_is_ignored() -> None:
    body = native_bodies.encode_body(0x10, 1, {"versions": [1], "client": "c", "colour": "blue"})

    assert native_bodies.decode_body(body[5:], native_bodies.Hello).client == "c"


def test_a_call_keeps_its_arguments_encoded() -> None:
    body = body_of(native_bodies.encode_call(5, "seek", {"topic": "t"}), native.CALL)

    name, arguments = native_bodies.decode_call(body)

    assert (name, msgspec.msgpack.decode(arguments)) == ("seek", {"topic": "t"})


# Bytes that are not the protocol.

DECODERS: list[tuple[bytes, Callable[[bytes], object]]] = [
    (native.encode_publish(1, "orders", 7, 2, [(0, b"batch"), (1, b"more")]), native.decode_publish),
    (
        native.encode_published(1, [PublishOutcome(0, 1, 2, 0), PublishOutcome(1, 0, 0, 2, b"error")], 0),
        native.decode_published,
    ),
    (native.encode_receive(1, 2, 3, 4), native.decode_receive),
    (native.encode_credit(2, 3), native.decode_credit),
    (native.encode_ack(1, 2, [(0, 1, 2, 3), (1, 2, 3, 4)]), native.decode_ack),
    (native.encode_commit(1, 2, [(0, 1)]), native.decode_commit),
    (native.encode_received(1, [LeasedBatch(0, 1, 2, 3, 4, b"data")]), native.decode_received),
    (native.encode_delivery(1, [LeasedBatch(0, 1, 2, 3, 4, b"data")]), native.decode_delivery),
    (native.encode_producer(1, 9), native.decode_producer),
    (native.encode_fetch(1, "", 2, 3, 4, True), native.decode_fetch),
    (native.encode_fetched(1, 2, 3, 4, 0), native.decode_fetched),
    (native_bodies.encode_call(1, "seek", {"topic": "t"}), native_bodies.decode_call),
    (native_bodies.error_frame(1, ProtocolViolation(why="x")), native_bodies.decode_error_frame),
    (
        native_bodies.consumer_closed_frame(1, ProtocolViolation(why="x")),
        native_bodies.decode_consumer_closed,
    ),
    *(
        (
            native_bodies.encode_body(0x30, 1, body),
            partial(native_bodies.decode_body, kind=type(body)),
        )
        for body in BODIES
    ),
]


def only_our_own_errors(decode: Callable[[bytes], object], body: bytes) -> None:
    """Decode, and let nothing pass that is not ours."""
    with suppress(PenstockError):
        decode(body)


@pytest.mark.parametrize(("frame", "decode"), DECODERS)
def test_a_body_cut_short_is_refused_in_our_words(frame: bytes, decode: Callable[[bytes], object]) -> None:
    body = frame[native.HEADER_BYTES :]

    decode(body)
    for size in range(len(body)):
        only_our_own_errors(decode, body[:size])


@given(st.sampled_from(DECODERS), st.data())
def test_changed_bytes_are_refused_in_our_words(
    case: tuple[bytes, Callable[[bytes], object]], data: st.DataObject
) -> None:
    frame, decode = case
    body = bytearray(frame[native.HEADER_BYTES :])
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))

    only_our_own_errors(decode, bytes(body))


@given(st.sampled_from(DECODERS), st.binary(max_size=80))
def test_random_bytes_are_refused_in_our_words(
    case: tuple[bytes, Callable[[bytes], object]], body: bytes
) -> None:
    only_our_own_errors(case[1], body)


def test_msgpack_that_is_nested_without_end_is_refused_in_our_words() -> None:
    deep = b"\x00\x00\x00\x01" + b"\x82\xa5topic\xa1t\xa7options\x81\xa1a" + b"\x91" * 100_000 + b"\xc0"

    with pytest.raises(ProtocolViolation):
        native_bodies.decode_body(deep, native_bodies.OpenConsumer)


def test_bytes_behind_a_body_are_refused() -> None:
    body = native.encode_ack(1, 2, [(0, 1, 2, 3)])[native.HEADER_BYTES :]

    with pytest.raises(ProtocolViolation, match="longer than its fields"):
        native.decode_ack(body + b"x")


def test_acks_that_do_not_exist_are_refused() -> None:
    body = native.encode_publish(1, "orders", 7, 3, [])[native.HEADER_BYTES :]

    with pytest.raises(ProtocolViolation, match="acks is 0, 1 or 2"):
        native.decode_publish(body)


def test_a_body_without_correlation_is_refused() -> None:
    with pytest.raises(ProtocolViolation, match="shorter than its correlation"):
        native.correlation_of(b"abc")


@given(st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), st.text(), st.dates())))
def test_any_fact_can_travel(facts: dict[str, Any]) -> None:
    error = PenstockError(reason="r", **{f"x{name}": value for name, value in facts.items()})

    copy = native_bodies.decode_error(native_bodies.encode_error(error))

    assert str(copy) == str(error)
    assert {name: repr(value) for name, value in copy.facts.items()} == {
        name: repr(value) for name, value in error.facts.items()
    }


def test_a_fact_that_is_no_plain_value_looks_the_same() -> None:
    day = datetime.date(2026, 11, 14)
    error = InvalidValue(name="delay", value=day, why="it is a day")

    copy = native_bodies.decode_error(native_bodies.encode_error(error))

    assert str(copy) == str(error)
    assert isinstance(copy.facts["value"], native_bodies.ShownValue)
