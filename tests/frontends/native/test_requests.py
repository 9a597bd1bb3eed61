"""Requests of a Penstock client, over real sockets."""

import asyncio
from pathlib import Path

import pytest
from tests.frontends.native.peer import Peer, Place, both_loops, serving, until

from penstock.config.broker import TopicSettings
from penstock.errors import (
    InvalidBatch,
    InvalidName,
    InvalidValue,
    MetadataStale,
    OperationUnknown,
    Overloaded,
    PartitionNotFound,
    PenstockError,
    ProtocolViolation,
    TopicExists,
    VersionUnsupported,
)
from penstock.model.message import Message
from penstock.operations.codec import wire_message
from penstock.version import __version__
from penstock.wire import native
from penstock.wire.native_bodies import (
    Hello,
    PublishMessages,
    WireReceipt,
    decode_body,
    decode_error,
    decode_error_frame,
    encode_body,
    encode_call,
)
from penstock.wire.records import BatchBuilder, encode_values


def batch(*values: bytes) -> bytes:
    return bytes(encode_values(list(values), 0, 0))


def numbered(producer_id: int, sequence: int, *values: bytes) -> bytes:
    """A batch of an idempotent producer."""
    builder = BatchBuilder()
    for value in values:
        builder.add(None, value, [])
    return bytes(builder.build(0, 0, 0, producer_id=producer_id, producer_epoch=0, base_sequence=sequence))


async def with_topic(place: Place, **options: object) -> Peer:
    peer = await place.client()
    await peer.call("create_topic", name="orders", options={"durability": "memory", **options})
    return peer


# The connection.


@both_loops
async def test_a_hello_tells_the_version_and_the_limits() -> None:
    async with serving(frame_bytes_max=4096, resume_ms=7, requests_max=9) as place:
        peer = await place.connect()

        welcome = await peer.hello()

    assert welcome.version == 1
    assert welcome.server == f"penstock/{__version__}"
    assert (welcome.frame_bytes_max, welcome.resume_ms, welcome.requests_max) == (4096, 7, 9)


@both_loops
async def test_a_client_of_another_version_is_refused() -> None:
    async with serving() as place:
        peer = await place.connect()

        error = await peer.refused(encode_body(native.HELLO, 1, Hello(versions=[2, 3], client="new")))

    assert isinstance(error, VersionUnsupported)
    assert error.facts == {"offered": "2, 3", "supported": "1"}


@both_loops
async def test_nothing_is_done_before_the_hello_has_succeeded() -> None:
    async with serving() as place:
        peer = await place.connect()
        await peer.refused(encode_body(native.HELLO, 1, Hello(versions=[2], client="new")))

        peer.send(native.frame(native.PING, 2))
        opcode, body = await peer.frame()

        assert opcode == native.ERROR
        assert isinstance(decode_error_frame(body), ProtocolViolation)
        assert await peer.rest() == b""


@both_loops
async def test_a_second_hello_is_refused_and_the_connection_goes_on() -> None:
    async with serving() as place:
        peer = await place.client()

        error = await peer.refused(encode_body(native.HELLO, 5, Hello(versions=[1], client="again")))

        assert isinstance(error, ProtocolViolation)
        await peer.ask(native.frame(native.PING, 6))


@both_loops
async def test_a_ping_is_answered() -> None:
    async with serving() as place:
        peer = await place.client()

        assert await peer.ask(native.frame(native.PING, 77)) == (77).to_bytes(4, "big")


@both_loops
async def test_an_opcode_that_does_not_exist_is_refused_and_the_connection_goes_on() -> None:
    async with serving() as place:
        peer = await place.client()

        error = await peer.refused(native.frame(0x7F, 5, b"whatever"))

        assert isinstance(error, OperationUnknown)
        assert error.facts == {"operation": "opcode 0x7f"}
        await peer.ask(native.frame(native.PING, 6))


@both_loops
async def test_a_body_that_makes_no_sense_is_refused_and_the_connection_goes_on() -> None:
    async with serving() as place:
        peer = await place.client()

        error = await peer.refused(native.frame(native.PUBLISH, 5, b"\xff"))

        assert isinstance(error, ProtocolViolation)
        await peer.ask(native.frame(native.PING, 6))


@both_loops
async def test_requests_sent_together_are_answered_each_under_its_own_correlation() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        consumer = (await peer.open("orders")).consumer
        version = (await peer.metadata("orders")).version

        # The first waits for what the second brings, so the answers come in another order.
        peer.send(
            native.encode_receive(1001, consumer, 10, 10_000)
            + native.encode_publish(1002, "orders", version, 2, [(0, batch(b"a"))])
            + native.frame(native.PING, 1003)
        )
        answers = dict([await answer(peer), await answer(peer), await answer(peer)])

    assert [*answers][-1] == 1001
    assert native.decode_published(answers[1002])[0][0].offset == 0
    assert native.decode_received(answers[1001])[0].end == 1


async def answer(peer: Peer) -> tuple[int, bytes]:
    opcode, body = await peer.frame()
    assert opcode == native.OK
    return native.correlation_of(body), body


@both_loops
async def test_requests_beyond_the_limit_wait_and_none_is_lost() -> None:
    async with serving(requests_max=4) as place:
        peer = await with_topic(place)
        consumer = (await peer.open("orders")).consumer
        for number in range(4):
            peer.send(native.encode_receive(100 + number, consumer, 1, 20))
        peer.send(b"".join(native.frame(native.PING, number) for number in range(200, 300)))

        order = [(await answer(peer))[0] for _ in range(104)]

    assert sorted(order) == [100, 101, 102, 103, *range(200, 300)]
    assert order[0] in (100, 101, 102, 103)


# Publishing.


@both_loops
async def test_metadata_is_what_the_topic_is() -> None:
    async with serving() as place:
        peer = await with_topic(place, partitions=3, compression="lz4")

        told = await peer.metadata("orders")

    assert told.settings == TopicSettings(partitions=3, durability="memory", compression="lz4")


@both_loops
async def test_metadata_of_a_name_that_no_topic_can_have_is_refused() -> None:
    async with serving() as place:
        peer = await place.client()

        with pytest.raises(InvalidName):
            await peer.metadata("no/body")


@both_loops
async def test_batches_are_appended_each_to_its_partition() -> None:
    async with serving() as place:
        peer = await with_topic(place, partitions=2)
        version = (await peer.metadata("orders")).version
        await peer.publish("orders", b"before", partition=1)

        body = await peer.ask(
            native.encode_publish(
                50, "orders", version, native.ACKS_DURABLE, [(1, batch(b"a", b"b")), (0, batch(b"c"))]
            )
        )

        outcomes, durability = native.decode_published(body)
        assert [(each.partition, each.offset, each.state) for each in outcomes] == [(1, 1, 0), (0, 0, 0)]
        assert native.DURABILITIES[durability] == "memory"
        values = [message.value for message in await peer.call("read", topic="orders", partition=1)]
        assert values == [b"before", b"a", b"b"]


@both_loops
async def test_a_batch_that_is_refused_keeps_no_other_out() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        version = (await peer.metadata("orders")).version
        damaged = bytearray(batch(b"a"))
        damaged[-1] ^= 1

        body = await peer.ask(
            native.encode_publish(
                50, "orders", version, 2, [(0, bytes(damaged)), (7, batch(b"b")), (0, batch(b"c"))]
            )
        )

    outcomes, _ = native.decode_published(body)
    assert [each.state for each in outcomes] == [native.REFUSED, native.REFUSED, native.WRITTEN]
    assert isinstance(decode_error(outcomes[0].error), InvalidBatch)
    assert isinstance(decode_error(outcomes[1].error), PartitionNotFound)
    assert outcomes[2].offset == 0


@both_loops
async def test_a_publish_for_settings_of_yesterday_is_refused_and_may_be_tried_again() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        version = (await peer.metadata("orders")).version
        await peer.call("alter_topic", name="orders", options={"partitions": 4})

        error = await peer.refused(native.encode_publish(9, "orders", version, 2, [(0, batch(b"a"))]))

        assert isinstance(error, MetadataStale)
        assert error.retryable
        assert (await peer.metadata("orders")).version != version
        assert (await peer.publish("orders", b"a", partition=3)).offset == 0


@both_loops
async def test_a_topic_that_was_made_anew_has_another_version() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        before = (await peer.metadata("orders")).version
        await peer.call("delete_topic", name="orders")
        await peer.call("create_topic", name="orders", options={"durability": "memory"})

        error = await peer.refused(native.encode_publish(9, "orders", before, 2, [(0, batch(b"a"))]))

        assert isinstance(error, MetadataStale)


@both_loops
async def test_a_repeat_of_a_producer_is_answered_with_the_place_of_the_first() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        version = (await peer.metadata("orders")).version
        producer = native.decode_producer(await peer.ask(native.frame(native.NEW_PRODUCER, 3)))
        data = numbered(producer, 0, b"a", b"b")

        first = await peer.ask(native.encode_publish(10, "orders", version, 2, [(0, data)]))
        again = await peer.ask(native.encode_publish(11, "orders", version, 2, [(0, data)]))

    one, two = native.decode_published(first)[0][0], native.decode_published(again)[0][0]
    assert (one.state, two.state) == (native.WRITTEN, native.DUPLICATE)
    assert one.offset == two.offset == 0


@both_loops
async def test_every_producer_has_an_id_of_its_own() -> None:
    async with serving() as place:
        peer = await place.client()

        ids = {native.decode_producer(await peer.ask(native.frame(native.NEW_PRODUCER, n))) for n in range(5)}

    assert len(ids) == 5


@both_loops
async def test_a_publish_without_acks_is_not_answered() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        version = (await peer.metadata("orders")).version

        peer.send(native.encode_publish(10, "orders", version, native.ACKS_NONE, [(0, batch(b"a"))]))
        await peer.ask(native.frame(native.PING, 11))

        assert len(await peer.call("read", topic="orders")) == 1


@both_loops
async def test_a_publish_without_acks_that_is_refused_is_answered() -> None:
    async with serving() as place:
        peer = await with_topic(place)

        error = await peer.refused(native.encode_publish(10, "orders", 1, native.ACKS_NONE, []))

        assert isinstance(error, MetadataStale)


@both_loops
async def test_an_answer_says_how_durable_the_batch_is(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "data")) as place:
        peer = await with_topic(place, durability="fsync")
        version = (await peer.metadata("orders")).version

        written = await peer.ask(native.encode_publish(1, "orders", version, 1, [(0, batch(b"a"))]))
        durable = await peer.ask(native.encode_publish(2, "orders", version, 2, [(0, batch(b"b"))]))

    assert native.DURABILITIES[native.decode_published(written)[1]] == "os"
    assert native.DURABILITIES[native.decode_published(durable)[1]] == "fsync"


@both_loops
async def test_what_was_answered_as_durable_is_there_after_reopening(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "data")) as place:
        peer = await with_topic(place, durability="fsync")
        await peer.publish("orders", b"a")

    async with serving(str(tmp_path / "data")) as place:
        peer = await place.client()

        assert [message.value for message in await peer.call("read", topic="orders")] == [b"a"]


@both_loops
async def test_publishes_beyond_what_may_wait_for_the_disk_are_refused_and_may_be_tried_again(
    tmp_path: Path,
) -> None:
    async with serving(str(tmp_path / "data"), publish_bytes_max=1000, frame_bytes_max=1000) as place:
        peer = await with_topic(place, durability="fsync")
        version = (await peer.metadata("orders")).version
        data = batch(b"x" * 600)

        # Both arrive in one read, so the first still waits for the disk when the second comes.
        peer.send(b"".join(native.encode_publish(n, "orders", version, 2, [(0, data)]) for n in (1, 2)))
        frames = sorted([await peer.frame(), await peer.frame()])
        third = await peer.ask(native.encode_publish(3, "orders", version, 2, [(0, data)]))

        assert [opcode for opcode, _ in frames] == [native.OK, native.ERROR]
        error = decode_error_frame(frames[1][1])
        assert isinstance(error, Overloaded)
        assert error.retryable
        assert native.decode_published(third)[0][0].offset == 1
        assert place.listener.shared.publish_bytes == 0


@both_loops
async def test_messages_that_the_broker_encodes_are_published_with_all_they_have() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        messages = [
            wire_message(Message(b"a", "k", {"h": "v", "raw": b"\xff"}, "high", ttl="1h", dedup_id="d1")),
            wire_message(Message(b"later", delay="1h")),
            wire_message(Message(b"a again", dedup_id="d1")),
        ]

        body = await peer.ask(
            encode_body(native.PUBLISH_MESSAGES, 5, PublishMessages("orders", native.ACKS_DURABLE, messages))
        )

        first, later, again = decode_body(body, list[WireReceipt])
        assert (first.offset, first.duplicate) == (0, False)
        assert later.offset is None
        assert later.schedule_id is not None
        assert (again.offset, again.duplicate) == (0, True)
        stored = (await peer.call("read", topic="orders"))[0]
        assert (stored.value, stored.key, stored.priority) == (b"a", b"k", "high")
        assert stored.headers["h"] == "v"
        assert dict(stored.raw_headers)["raw"] == b"\xff"
        assert stored.expires_at is not None


@both_loops
async def test_a_message_the_broker_refuses_is_refused_with_its_error() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        message = wire_message(Message(b"late", delay=-1))

        error = await peer.refused(
            encode_body(native.PUBLISH_MESSAGES, 5, PublishMessages("orders", 2, [message]))
        )

        assert error.code == "DELAY_OUT_OF_RANGE"


# Calls.


@both_loops
async def test_a_call_is_answered_with_what_the_broker_returns() -> None:
    async with serving() as place:
        peer = await with_topic(place, partitions=2)
        await peer.publish("orders", b"a", b"b", partition=1)
        await peer.call("create_group", topic="orders", group="g", options={"visibility_timeout": 12})
        await peer.call("seek", topic="orders", group="g", to="latest")

        assert await peer.call("topics") == ["orders"]
        assert (await peer.call("describe_topic", name="orders")).messages == 2
        assert (await peer.call("describe_group", topic="orders", group="g")).lag == 0
        assert [m.value for m in await peer.call("peek", topic="orders", count=1, partition=1)] == [b"b"]
        assert (await peer.call("trace", topic="orders", partition=1, offset=0)).id == "orders:1:0"
        assert (await peer.call("stats")).messages == 2


@both_loops
async def test_the_schedule_is_kept_over_calls() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        message = wire_message(Message(b"report", priority="low"))

        name = await peer.call("schedule", topic="orders", message=message, cron="0 9 * * mon-fri")

        assert [(each.id, each.cron) for each in await peer.call("scheduled", topic="orders")] == [
            (name, "0 9 * * mon-fri")
        ]
        assert await peer.call("scheduled_count", topic="orders") == 1
        assert await peer.call("cancel", schedule_id=name) == "cancelled"
        assert await peer.call("reschedule", schedule_id=name, delay="1h") is False


@both_loops
async def test_dead_letters_are_seen_and_sent_back_over_calls() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        async with await place.broker.consumer("orders", group="g", max_attempts=1) as consumer:
            await place.broker.publish("orders", b"bad")
            [message] = await consumer.receive()
            await message.nack(error="no good")

        [letter] = await peer.call("dead_letters", topic="orders")
        [errors] = await peer.call("dead_letter_errors", topic="orders")
        redriven = await peer.call("redrive", topic="orders")

    assert (letter.message.value, letter.source, letter.error) == (b"bad", "orders:0:0", "no good")
    assert errors.count == 1
    assert redriven.redriven == 1


@both_loops
async def test_an_error_of_the_broker_is_the_same_over_a_call() -> None:
    async with serving() as place:
        peer = await with_topic(place)

        with pytest.raises(TopicExists, match="orders"):
            await peer.call("create_topic", name="orders")
        with pytest.raises(InvalidValue, match="there is no such setting"):
            await peer.call("create_topic", name="other", options={"colour": "blue"})


@both_loops
async def test_a_call_of_an_unknown_operation_is_refused() -> None:
    async with serving() as place:
        peer = await place.client()

        error = await peer.refused(encode_call(4, "__init__", {}))

        assert isinstance(error, OperationUnknown)


@both_loops
async def test_a_call_with_the_wrong_arguments_is_refused() -> None:
    async with serving() as place:
        peer = await place.client()

        error = await peer.refused(encode_call(4, "delete_topic", {"name": 7}))

        assert isinstance(error, ProtocolViolation)
        assert "name" in str(error)


@both_loops
async def test_a_bug_of_the_server_ends_one_request_and_is_logged(
    monkeypatch: pytest.MonkeyPatch, bugs: list[str]
) -> None:
    async with serving() as place:
        peer = await place.client()
        monkeypatch.setattr(place.broker.operations, "topics", lambda: 1 // 0)

        error = await peer.refused(encode_call(4, "topics", {}))
        monkeypatch.undo()

        assert (type(error), error.code) == (PenstockError, "INTERNAL")
        assert "ZeroDivisionError" in str(error)
        assert await peer.call("topics") == []
    bugs.append("a request failed by a bug: ZeroDivisionError('integer division or modulo by zero')")


@both_loops
async def test_an_answer_that_is_too_large_for_a_frame_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as place:
        peer = await place.client()
        monkeypatch.setattr(native, "FRAME_BYTES_MAX", 3)

        error = await peer.refused(encode_call(4, "stats", {}))

        assert error.code == "FRAME_TOO_LARGE"
        await peer.ask(native.frame(native.PING, 5))


# The end.


@both_loops
async def test_a_client_that_closes_its_side_gets_its_answers_first(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "data")) as place:
        peer = await with_topic(place, durability="fsync")
        consumer = (await peer.open("orders")).consumer
        version = (await peer.metadata("orders")).version

        peer.send(native.encode_receive(1, consumer, 1, 60_000))
        peer.send(native.encode_publish(2, "orders", version, 2, [(0, batch(b"a"))]))
        peer.writer.write_eof()

        answers = dict([await answer(peer), await answer(peer)])
        assert native.decode_published(answers[2])[0][0].offset == 0
        assert await peer.rest() == b""
        await until(lambda: not place.listener.connections.open)


@both_loops
async def test_draining_answers_what_was_read_and_closes(tmp_path: Path) -> None:
    async with serving(str(tmp_path / "data")) as place:
        peer = await with_topic(place, durability="fsync")
        consumer = (await peer.open("orders")).consumer
        version = (await peer.metadata("orders")).version
        data = batch(b"a")
        peer.send(native.encode_receive(1, consumer, 1, 60_000))
        peer.send(native.encode_publish(2, "orders", version, 2, [(0, data)]) + native.frame(native.PING, 3))
        assert await answer(peer) == (3, (3).to_bytes(4, "big"))

        await asyncio.wait_for(place.listener.drain(), 60)

        answers = dict([await answer(peer), await answer(peer)])
        assert native.decode_published(answers[2])[0][0].offset == 0
        assert 1 in answers
        assert await peer.rest() == b""
        assert not place.listener.connections.open


@both_loops
async def test_draining_gives_back_what_consumers_hold() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        await peer.publish("orders", b"a")
        consumer = (await peer.open("orders")).consumer
        assert len(await peer.receive(consumer)) == 1

        await asyncio.wait_for(place.listener.drain(), 60)

        await until(lambda: len(place.listener.shared.resumable) == 0)
        assert (await place.broker.describe_group("orders", "g")).in_flight == 0


@both_loops
async def test_a_connection_that_comes_while_the_server_drains_is_closed() -> None:
    async with serving() as place:
        await asyncio.wait_for(place.listener.drain(), 60)

        peer = await place.connect()

        assert await peer.rest() == b""


# Fetching.


@both_loops
async def test_a_fetch_is_answered_with_what_lies_in_the_log(tmp_path: Path) -> None:
    async with serving(str(tmp_path)) as place:
        peer = await with_topic(place, durability="os", partitions=1)
        version = (await peer.metadata("orders")).version
        large = [batch(b"%d" % number * 50_000) for number in range(5)]
        for each in large:
            await peer.ask(native.encode_publish(7, "orders", version, 2, [(0, each)]))

        body = await peer.ask(native.encode_fetch(9, "orders", 0, 1, 2**32 - 1, False))
        start, end, following, found = native.decode_fetched(body)

        assert (start, end, following) == (0, 5, 5)
        assert len(found) == sum(map(len, large[1:]))
        assert [found.count(each[-40_000:]) for each in large] == [0, 1, 1, 1, 1]


@both_loops
async def test_the_answer_to_a_fetch_fits_into_a_frame(tmp_path: Path) -> None:
    async with serving(str(tmp_path), frame_bytes_max=100_000) as place:
        peer = await with_topic(place, partitions=1)
        version = (await peer.metadata("orders")).version
        for _ in range(5):
            await peer.ask(native.encode_publish(7, "orders", version, 2, [(0, batch(b"x" * 40_000))]))

        body = await peer.ask(native.encode_fetch(9, "orders", 0, 0, 2**32 - 1, False))

    assert native.decode_fetched(body)[2] == 2
    assert len(body) < 100_000


@both_loops
async def test_many_fetches_in_flight_are_all_answered(tmp_path: Path) -> None:
    async with serving(str(tmp_path)) as place:
        peer = await with_topic(place, partitions=1)
        version = (await peer.metadata("orders")).version
        for _ in range(20):
            await peer.ask(native.encode_publish(7, "orders", version, 2, [(0, batch(b"x" * 500_000))]))

        for correlation in range(100, 120):
            peer.send(native.encode_fetch(correlation, "orders", 0, correlation - 100, 4 << 20, False))
        answers = [await peer.frame() for _ in range(20)]

    assert sorted(native.correlation_of(body) for _, body in answers) == list(range(100, 120))
    assert {opcode for opcode, _ in answers} == {native.OK}
