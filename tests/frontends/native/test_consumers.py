"""Consumers of a Penstock client: asked, pushed to, lost and found again."""

from pathlib import Path
from typing import Any

import pytest
from tests.frontends.native.peer import Peer, Place, both_loops, serving, until

from penstock.errors import (
    AlreadySettled,
    Closed,
    GroupKindMismatch,
    GroupNotFound,
    LeaseLost,
    NotAssigned,
    Overloaded,
)
from penstock.model.message import Message
from penstock.operations.codec import wire_message
from penstock.wire import native
from penstock.wire.native import LeasedBatch
from penstock.wire.native_bodies import (
    AckAndPublish,
    ExtendBody,
    NackBody,
    RejectBody,
    decode_assigned,
    decode_body,
    decode_consumer_closed,
    encode_body,
)
from penstock.wire.records import decode_batch, encode_values, read_header


async def with_topic(place: Place, **options: object) -> Peer:
    peer = await place.client()
    await peer.call("create_topic", name="orders", options={"durability": "memory", **options})
    return peer


def values(batches: list[LeasedBatch]) -> list[bytes | None]:
    """What was delivered: records outside the ranges are left out."""
    found: list[bytes | None] = []
    for batch in batches:
        position = 0
        while position < len(batch.data):
            records = decode_batch(batch.data, position, batch.start, batch.end)
            found += [record.value for record in records]
            position += read_header(batch.data, position).size
    return found


def run(batch: LeasedBatch) -> native.Run:
    return batch.partition, batch.lease, batch.start, batch.end


async def pushed(peer: Peer) -> list[LeasedBatch]:
    opcode, body = await peer.frame()
    assert opcode == native.DELIVERY
    return native.decode_delivery(body)[1]


class RecordedTransport:
    """A transport that notes what is written to it, write by write."""

    def __init__(self, inner: Any, wrote: list[bytes]) -> None:
        self._inner = inner
        self._wrote = wrote

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, data: bytes) -> None:
        self._wrote.append(bytes(data))
        self._inner.write(data)

    def writelines(self, parts: list[bytes]) -> None:
        self._wrote.append(b"".join(parts))
        self._inner.writelines(parts)


def record_writes(place: Place) -> list[bytes]:
    """What the server writes from now on, on all connections, write by write."""
    wrote: list[bytes] = []
    for connection in place.listener.connections.open:
        recorded: Any = RecordedTransport(connection._transport, wrote)
        connection._transport = recorded
    return wrote


# Asked.


@both_loops
async def test_messages_come_as_leases_with_their_batches() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        await peer.publish("orders", b"a", b"b", b"c")
        opened = await peer.open("orders", consumer_id="worker-1", options={"visibility_timeout": 12})

        [batch] = await peer.receive(opened.consumer)

    assert (opened.consumer_id, opened.kind, opened.visibility_ms) == ("worker-1", "queue", 12_000)
    assert (batch.partition, batch.attempt, batch.start, batch.end) == (0, 1, 0, 3)
    assert values([batch]) == [b"a", b"b", b"c"]


@both_loops
async def test_a_receive_brings_no_more_than_it_asked_for() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        await peer.publish("orders", b"a", b"b", b"c")
        consumer = (await peer.open("orders")).consumer

        assert values(await peer.receive(consumer, 2)) == [b"a", b"b"]
        assert values(await peer.receive(consumer, 2)) == [b"c"]
        assert values(await peer.receive(consumer, 2)) == []


@both_loops
async def test_a_receive_waits_for_a_message() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        other = await place.client()
        consumer = (await peer.open("orders")).consumer
        peer.send(native.encode_receive(500, consumer, 10, 60_000))
        await peer.ask(native.frame(native.PING, 501))

        await other.publish("orders", b"a")

        opcode, body = await peer.frame()
        assert (opcode, native.correlation_of(body)) == (native.OK, 500)
        assert values(native.decode_received(body)) == [b"a"]


@both_loops
async def test_a_client_may_call_a_receive_off() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        consumer = (await peer.open("orders")).consumer
        peer.send(native.encode_receive(500, consumer, 10, 60_000))
        peer.send(native.encode_receive(501, consumer, 0, 0))

        answers = [await peer.frame(), await peer.frame()]

        assert {native.correlation_of(body) for _, body in answers} == {500, 501}
        assert [native.decode_received(body) for _, body in answers] == [[], []]
        await peer.publish("orders", b"a")  # Nobody waits any more, so nobody takes it.
        assert values(await peer.receive(consumer, 10)) == [b"a"]


@both_loops
async def test_acked_messages_are_done() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        await peer.publish("orders", b"a", b"b")
        consumer = (await peer.open("orders")).consumer

        await peer.ack(consumer, *await peer.receive(consumer))

        group = await peer.call("describe_group", topic="orders", group="g")
        assert (group.lag, group.in_flight, group.acked) == (0, 0, 2)


@both_loops
async def test_an_ack_that_comes_again_is_told_that_it_was_settled() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        await peer.publish("orders", b"a")
        consumer = (await peer.open("orders")).consumer
        [batch] = await peer.receive(consumer)
        await peer.ack(consumer, batch)

        with pytest.raises(AlreadySettled):
            await peer.ack(consumer, batch)


@both_loops
async def test_nobody_settles_what_another_holds() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        await peer.publish("orders", b"a")
        one = (await peer.open("orders")).consumer
        two = (await peer.open("orders")).consumer
        [batch] = await peer.receive(one)

        with pytest.raises(LeaseLost):
            await peer.ack(two, batch)


@both_loops
async def test_nacked_messages_come_again_with_their_error_in_the_trace() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        await peer.publish("orders", b"a", b"b")
        consumer = (await peer.open("orders")).consumer
        [batch] = await peer.receive(consumer)

        await peer.ask(
            encode_body(
                native.NACK, 40, NackBody(consumer, [run(batch)], 0, "ValueError", "bad price", "f00")
            )
        )
        again = await peer.receive(consumer, wait_ms=1000)
        trace = await peer.call("trace", topic="orders", partition=0, offset=1)

    assert values(again) == [b"a", b"b"]
    assert {each.attempt for each in again} == {2}
    assert any("bad price" in event.detail for event in trace.events if event.event == "nacked")


@both_loops
async def test_rejected_messages_are_dead_letters() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        await peer.publish("orders", b"a")
        consumer = (await peer.open("orders")).consumer
        [batch] = await peer.receive(consumer)

        await peer.ask(encode_body(native.REJECT, 40, RejectBody(consumer, [run(batch)], "no such customer")))

        [letter] = await peer.call("dead_letters", topic="orders")
        assert (letter.message.value, letter.error) == (b"a", "no such customer")


@both_loops
async def test_extending_tells_which_leases_are_lost() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        await peer.publish("orders", b"a")
        consumer = (await peer.open("orders")).consumer
        [batch] = await peer.receive(consumer)
        leases = [(0, batch.lease), (0, batch.lease + 99)]

        body = await peer.ask(encode_body(native.EXTEND, 40, ExtendBody(consumer, leases, 60_000)))

    assert decode_body(body, list[tuple[int, int]]) == [(0, batch.lease + 99)]


@both_loops
async def test_inputs_are_acked_and_outputs_published_together() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        await peer.call("create_topic", name="out", options={"durability": "memory"})
        await peer.publish("orders", b"a")
        consumer = (await peer.open("orders")).consumer
        [batch] = await peer.receive(consumer)
        outputs = [("out", wire_message(Message(b"result", "k")))]

        await peer.ask(
            encode_body(native.ACK_AND_PUBLISH, 40, AckAndPublish(consumer, [run(batch)], outputs))
        )

        assert [(m.value, m.key) for m in await peer.call("read", topic="out")] == [(b"result", b"k")]
        assert (await peer.call("describe_group", topic="orders", group="g")).lag == 0


@both_loops
async def test_a_closed_consumer_gives_back_what_it_holds_and_is_no_more() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        await peer.publish("orders", b"a")
        one = (await peer.open("orders")).consumer
        two = (await peer.open("orders")).consumer
        await peer.receive(one)

        await peer.ask(native.encode_consumer(native.CLOSE_CONSUMER, 60, one))

        [batch] = await peer.receive(two)
        assert batch.attempt == 1
        with pytest.raises(Closed):
            await peer.receive(one)
        assert len(place.listener.shared.resumable) == 1


@both_loops
async def test_a_receive_under_way_ends_when_its_consumer_is_closed() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        consumer = (await peer.open("orders")).consumer
        peer.send(native.encode_receive(500, consumer, 1, 60_000))
        peer.send(native.encode_consumer(native.CLOSE_CONSUMER, 501, consumer))

        frames = {
            native.correlation_of(body): opcode for opcode, body in [await peer.frame(), await peer.frame()]
        }

    assert frames == {500: native.ERROR, 501: native.OK}


@both_loops
async def test_a_receive_that_has_messages_is_not_called_off(tmp_path: Path) -> None:
    """At most once: it has settled them, and waits for the disk."""
    async with serving(str(tmp_path / "data")) as place:
        peer = await with_topic(place, durability="fsync")
        await peer.publish("orders", b"a")
        consumer = (await peer.open("orders", options={"delivery": "at-most-once"})).consumer

        peer.send(
            native.encode_receive(500, consumer, 1, 60_000) + native.encode_receive(501, consumer, 0, 0)
        )

        frames = [await peer.frame(), await peer.frame()]
        answers = {native.correlation_of(body): native.decode_received(body) for _, body in frames}
        assert values(answers[500]) == [b"a"]
        assert answers[501] == []


# Streams.


@both_loops
async def test_a_stream_is_read_in_order_and_committed() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        await peer.publish("orders", b"a", b"b", b"c")
        opened = await peer.open("orders", options={"kind": "stream"})
        beat = native.encode_consumer(native.HEARTBEAT, 70, opened.consumer)

        assert decode_body(await peer.ask(beat), list[int]) == [0]
        [batch] = await peer.receive(opened.consumer, 2)
        assert (batch.lease, values([batch])) == (native.NO_LEASE, [b"a", b"b"])
        await peer.ask(native.encode_commit(71, opened.consumer, [(0, 2)]))

        assert (await peer.call("describe_group", topic="orders", group="g")).lag == 1


@both_loops
async def test_a_receive_that_waits_is_told_of_a_rebalance_before_it_is_answered() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        await peer.call("create_topic", name="wide", options={"partitions": 2})
        one = (await peer.open("wide", options={"kind": "stream"}, assignments=True)).consumer
        peer.send(native.encode_receive(500, one, 10, 60_000))
        assert await told(peer) == (one, [0, 1])
        other = await place.client()
        two = (await other.open("wide", options={"kind": "stream"})).consumer  # It does not ask to be told.

        first, [kept] = await told(peer)
        await other.publish("wide", b"a", partition=1 - kept)
        [batch] = await other.receive(two, wait_ms=4000)

        assert (first, batch.partition) == (one, 1 - kept)
        await other.publish("wide", b"b", partition=kept)
        opcode, body = await peer.frame()
        assert (opcode, values(native.decode_received(body))) == (native.OK, [b"b"])


async def told(peer: Peer) -> tuple[int, list[int]]:
    """The assignment that comes next."""
    opcode, body = await peer.frame()
    assert opcode == native.ASSIGNED
    return decode_assigned(body)


@both_loops
async def test_a_commit_on_the_partition_of_another_is_refused() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        one = (await peer.open("orders", options={"kind": "stream"})).consumer
        two = (await peer.open("orders", options={"kind": "stream"})).consumer
        for number, consumer in enumerate((one, two)):
            await peer.ask(native.encode_consumer(native.HEARTBEAT, 70 + number, consumer))

        with pytest.raises(NotAssigned):
            await peer.ask(native.encode_commit(71, two, [(0, 0)]))


@both_loops
async def test_a_heartbeat_of_a_consumer_whose_group_is_gone_is_told_so() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        consumer = (await peer.open("orders", options={"kind": "stream"})).consumer
        await peer.call("delete_group", topic="orders", group="g")

        with pytest.raises(Closed):
            await peer.ask(native.encode_consumer(native.HEARTBEAT, 70, consumer))


@both_loops
async def test_what_is_for_queues_is_refused_for_a_stream() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        consumer = (await peer.open("orders", options={"kind": "stream"})).consumer

        with pytest.raises(GroupKindMismatch):
            await peer.ask(native.encode_ack(71, consumer, [(0, 0, 0, 1)]))


# Pushed to.


@both_loops
async def test_a_push_never_exceeds_the_credit() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        await peer.publish("orders", *[b"%d" % number for number in range(10)])
        consumer = (await peer.open("orders")).consumer

        peer.send(native.encode_credit(consumer, 3))
        first = await pushed(peer)
        await peer.ask(native.frame(native.PING, 90))  # Nothing more was on its way.
        peer.send(native.encode_credit(consumer, 4))
        second = await pushed(peer)
        await peer.ask(native.frame(native.PING, 91))

    assert values(first) == [b"0", b"1", b"2"]
    assert values(second) == [b"3", b"4", b"5", b"6"]


@both_loops
async def test_credit_that_is_left_is_used_when_messages_come() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        other = await place.client()
        consumer = (await peer.open("orders")).consumer
        peer.send(native.encode_credit(consumer, 2))
        await peer.ask(native.frame(native.PING, 90))

        await other.publish("orders", b"a")
        one = await pushed(peer)
        await other.publish("orders", b"b", b"c")
        two = await pushed(peer)
        await peer.ask(native.frame(native.PING, 91))

    assert (values(one), values(two)) == ([b"a"], [b"b"])


@pytest.mark.parametrize("durability", ["memory", "fsync"])
@both_loops
async def test_a_message_goes_out_before_the_receipt_of_its_publisher(
    durability: str, tmp_path: Path
) -> None:
    async with serving(str(tmp_path)) as place:
        publisher = await with_topic(place, durability=durability)
        version = (await publisher.metadata("orders")).version
        reader = await place.client()
        consumer = (await reader.open("orders")).consumer
        reader.send(native.encode_credit(consumer, 2))
        await reader.ask(native.frame(native.PING, 90))
        wrote = record_writes(place)

        batch = bytes(encode_values([b"a"], 0, 0))
        await publisher.ask(native.encode_publish(91, "orders", version, native.ACKS_DURABLE, [(0, batch)]))
        await pushed(reader)

    assert [data[0] for data in wrote] == [native.DELIVERY, native.OK]


@both_loops
async def test_what_is_pushed_in_one_turn_of_the_loop_takes_two_writes() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        consumers = [(await peer.open("orders", f"group-{number}")).consumer for number in range(5)]
        for consumer in consumers:
            peer.send(native.encode_credit(consumer, 2))
        await peer.ask(native.frame(native.PING, 90))
        wrote = record_writes(place)

        await place.broker.publish("orders", b"for all of them")
        for _ in consumers:
            await pushed(peer)

    assert [data.count(b"for all of them") for data in wrote] == [1, 4]


@both_loops
async def test_credit_for_a_consumer_that_does_not_exist_is_answered_with_an_error() -> None:
    async with serving() as place:
        peer = await place.client()

        error = await peer.refused(native.encode_credit(7, 1))

        assert isinstance(error, Closed)


@both_loops
async def test_a_client_is_told_when_its_group_is_gone() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        consumer = (await peer.open("orders")).consumer
        peer.send(native.encode_credit(consumer, 2))
        await peer.ask(native.frame(native.PING, 90))

        await place.broker.delete_group("orders", "g")

        opcode, body = await peer.frame()
        assert opcode == native.CONSUMER_CLOSED
        number, error = decode_consumer_closed(body)
        assert number == consumer
        assert isinstance(error, Closed | GroupNotFound)
        assert len(place.listener.shared.resumable) == 0


# Lost and found again.


@both_loops
async def test_a_consumer_goes_on_where_it_was_when_its_client_comes_back() -> None:
    async with serving(resume_ms=60_000) as place:
        peer = await with_topic(place)
        await peer.publish("orders", b"a", b"b")
        opened = await peer.open("orders")
        [held] = await peer.receive(opened.consumer, 1)
        await peer.receive(opened.consumer, 1)  # As if its answer had never arrived.
        peer.cut()
        await until(lambda: place.listener.shared.resumable.detached == 1)

        back = await place.client()
        again = await back.open("orders", resume=opened.token, held=[(held.partition, held.lease)])

        assert again.resumed
        assert again.consumer_id == opened.consumer_id
        assert place.listener.shared.resumable.detached == 0
        [second] = await back.receive(again.consumer)
        assert (values([second]), second.attempt) == ([b"b"], 1)
        await back.ack(again.consumer, held, second)
        assert (await back.call("describe_group", topic="orders", group="g")).lag == 0


@both_loops
async def test_a_client_that_comes_back_before_its_loss_is_noticed_has_its_consumer() -> None:
    async with serving(resume_ms=60_000) as place:
        peer = await with_topic(place)
        await peer.publish("orders", b"a")
        opened = await peer.open("orders")
        [held] = await peer.receive(opened.consumer)

        back = await place.client()
        again = await back.open("orders", resume=opened.token, held=[(held.partition, held.lease)])

        assert again.resumed
        await back.ack(again.consumer, held)
        with pytest.raises(Closed):
            await peer.receive(opened.consumer)
        peer.cut()
        await until(lambda: len(place.listener.connections.open) == 1)
        assert place.listener.shared.resumable.detached == 0
        assert await back.receive(again.consumer) == []


@both_loops
async def test_credit_does_not_outlive_the_connection() -> None:
    async with serving(resume_ms=60_000) as place:
        peer = await with_topic(place)
        opened = await peer.open("orders")
        peer.send(native.encode_credit(opened.consumer, 100))
        await peer.ask(native.frame(native.PING, 90))
        peer.cut()
        await until(lambda: place.listener.shared.resumable.detached == 1)

        back = await place.client()
        await back.publish("orders", b"a")
        again = await back.open("orders", resume=opened.token)

        await back.ask(native.frame(native.PING, 91))
        assert values(await back.receive(again.consumer)) == [b"a"]


@both_loops
async def test_the_leases_of_a_client_that_does_not_come_back_go_to_others_and_count_an_attempt() -> None:
    async with serving(resume_ms=10) as place:
        peer = await with_topic(place)
        await peer.publish("orders", b"a")
        opened = await peer.open("orders")
        await peer.receive(opened.consumer)
        other = await place.client()
        consumer = (await other.open("orders")).consumer

        peer.cut()

        [batch] = await other.receive(consumer, wait_ms=4000)
        assert (values([batch]), batch.attempt) == ([b"a"], 2)
        await until(lambda: len(place.listener.shared.resumable) == 1)


@both_loops
@pytest.mark.parametrize("token", [b"", b"guessed", bytes(16)])
async def test_a_token_that_is_not_known_opens_a_new_consumer(token: bytes) -> None:
    async with serving() as place:
        peer = await with_topic(place)

        opened = await peer.open("orders", resume=token)

    assert not opened.resumed


@both_loops
async def test_a_token_is_good_for_its_own_group_alone() -> None:
    async with serving() as place:
        peer = await with_topic(place)
        opened = await peer.open("orders", "g")

        other = await peer.open("orders", "another", resume=opened.token)

        assert not other.resumed
        assert await peer.receive(opened.consumer) == []


@both_loops
async def test_a_stream_goes_on_from_the_positions_the_client_names() -> None:
    async with serving(resume_ms=60_000) as place:
        peer = await with_topic(place)
        await peer.publish("orders", b"a", b"b", b"c")
        opened = await peer.open("orders", options={"kind": "stream"})
        assert len(values(await peer.receive(opened.consumer))) == 3
        peer.cut()
        await until(lambda: place.listener.shared.resumable.detached == 1)

        back = await place.client()
        again = await back.open("orders", resume=opened.token, positions={0: 1})

        assert again.resumed
        assert values(await back.receive(again.consumer)) == [b"b", b"c"]


@both_loops
async def test_a_client_that_leaves_while_its_consumer_is_made_leaves_nothing_behind() -> None:
    async with serving(resume_ms=1) as place:
        peer = await with_topic(place)
        peer.send(encode_body(native.OPEN_CONSUMER, 9, {"topic": "orders", "group": "g"}))
        await until(lambda: len(place.listener.shared.resumable) == 1)

        peer.cut()

        await until(lambda: len(place.listener.shared.resumable) == 0)
        assert (await place.broker.describe_group("orders", "g")).consumers == []


@both_loops
async def test_consumers_of_all_connections_have_a_limit() -> None:
    async with serving(resume_ms=60_000) as place:
        place.listener.shared.consumers_in_all_max = 1
        peer = await with_topic(place)
        await peer.open("orders")
        peer.cut()
        await until(lambda: place.listener.shared.resumable.detached == 1)
        other = await place.client()

        with pytest.raises(Overloaded, match="1 consumers"):
            await other.open("orders")


@both_loops
async def test_consumers_of_one_connection_have_a_limit() -> None:
    async with serving() as place:
        place.listener.shared.consumers_max = 2
        peer = await with_topic(place)
        await peer.open("orders")
        await peer.open("orders")

        with pytest.raises(Overloaded, match="2 consumers on one connection"):
            await peer.open("orders")
