"""A consumer on one stream: receive, settle, and what becomes of leases when it ends."""

import asyncio

import grpc.aio
import pytest
from tests.frontends.grpc.place import PATIENCE_S, Conversation, Place, info_of, ranges, values

from penstock.frontends.grpc.consuming import RECEIVES_MAX
from penstock.grpc import penstock_pb2 as pb


async def until_in_flight(api: Place, count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if await api.in_flight() == count:
                return
            await asyncio.sleep(0.01)


async def test_messages_are_received_and_settled_on_one_stream(api: Place) -> None:
    await api.publish(b"0", b"1", b"2", b"3")
    stream = Conversation(api)

    opened = await stream.open(max_in_flight=10, consumer_id="worker-1")
    leases = await stream.receive()
    [leased] = leases
    first = pb.LeaseRange(partition=0, lease=leased.range.lease, start=0, end=1)
    second = pb.LeaseRange(partition=0, lease=leased.range.lease, start=1, end=2)
    third = pb.LeaseRange(partition=0, lease=leased.range.lease, start=2, end=3)
    fourth = pb.LeaseRange(partition=0, lease=leased.range.lease, start=3, end=4)
    answers = [
        await stream.ask(ack=pb.Settle(ranges=[first])),
        await stream.ask(nack=pb.Failed(ranges=[second], delay_ms=0, error="ValueError: no")),
        await stream.ask(reject=pb.Refused(ranges=[third], reason="no good")),
        await stream.ask(extend=pb.Longer(ranges=[fourth], duration_ms=60_000)),
    ]
    again = await stream.receive(1)

    assert (opened.kind, opened.consumer_id, opened.visibility_ms) == ("queue", "worker-1", 30_000)
    assert values(leases) == [b"0", b"1", b"2", b"3"]
    assert all(answer.HasField("done") for answer in answers)
    assert (again[0].attempt, values(again)) == (2, [b"1"])
    [letter] = await api.broker.dead_letters("orders")
    assert (letter.error, letter.message.value) == ("no good", b"2")
    events = [event.event for event in (await api.broker.trace("orders:0:3")).events]
    assert "extended" in events


async def test_a_receive_waits_for_a_message_and_answers_come_as_they_are_ready(api: Place) -> None:
    stream = Conversation(api)
    await stream.open()

    waiting = await stream.send(receive=pb.Receive(max_messages=5, wait_ms=60_000))
    nothing = await stream.send(receive=pb.Receive(max_messages=5))
    empty = await stream.hear()
    await api.publish(b"x")
    filled = await stream.hear()

    assert (empty.id, len(empty.received.leases)) == (nothing, 0)
    assert (filled.id, values(filled.received.leases)) == (waiting, [b"x"])


async def test_nothing_is_sent_that_was_not_asked_for(api: Place) -> None:
    await api.publish(*[b"x"] * 100)
    stream = Conversation(api)
    await stream.open(max_in_flight=5)

    three = await stream.receive(3)
    two = await stream.receive(100)

    assert [len(values(three)), len(values(two)), await api.in_flight()] == [3, 2, 5]


async def test_receives_that_wait_are_limited(api: Place) -> None:
    stream = Conversation(api)
    await stream.open()
    for _ in range(RECEIVES_MAX):
        await stream.send(receive=pb.Receive(wait_ms=60_000))

    refused = await stream.ask(receive=pb.Receive(wait_ms=60_000))

    assert (refused.error.code, refused.error.retryable) == ("OVERLOADED", True)


async def test_an_ack_may_publish(api: Place) -> None:
    await api.publish(b"x")
    stream = Conversation(api)
    await stream.open()
    leases = await stream.receive()
    output = pb.Output(topic="results", message=pb.Message(value=b"y"))

    done = await stream.ask(ack=pb.Settle(ranges=ranges(leases), outputs=[output]))

    assert done.HasField("done")
    assert [message.value for message in await api.broker.read("results")] == [b"y"]


async def test_a_refused_request_does_not_end_the_stream(api: Place) -> None:
    await api.publish(b"x")
    stream = Conversation(api)
    await stream.open()
    leases = await stream.receive()
    await stream.ask(ack=pb.Settle(ranges=ranges(leases)))

    second = await stream.ask(ack=pb.Settle(ranges=ranges(leases)))
    heartbeat = await stream.ask(heartbeat=pb.Heartbeat())
    twice = await stream.ask(open=pb.Open(topic="orders", group="g"))
    commit = await stream.ask(commit=pb.Commit(offsets={0: 1}))
    await api.publish(b"y")

    codes = [answer.error.code for answer in (second, heartbeat, twice, commit)]
    assert codes == ["ALREADY_SETTLED", "GROUP_KIND_MISMATCH", "PROTOCOL_VIOLATION", "GROUP_KIND_MISMATCH"]
    assert values(await stream.receive()) == [b"y"]


async def test_a_stream_begins_with_open(api: Place) -> None:
    stream = Conversation(api)
    await stream.send(receive=pb.Receive())

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stream.hear()

    assert info_of(refused.value).reason == "PROTOCOL_VIOLATION"


async def test_closing_the_stream_gives_messages_back_without_counting_the_attempt(api: Place) -> None:
    await api.publish(b"0", b"1")
    stream = Conversation(api)
    await stream.open()
    assert len(values(await stream.receive())) == 2

    await stream.call.done_writing()
    closed = await stream.hear()
    code = await stream.call.code()

    assert closed.HasField("closed")
    assert code == grpc.StatusCode.OK
    [leased] = (await api.poll(wait_ms=60_000)).leases
    assert (leased.attempt, len(leased.messages)) == (1, 2)


async def test_requests_that_were_sent_are_answered_before_the_end(api: Place) -> None:
    await api.publish(b"0")
    stream = Conversation(api)
    await stream.open()
    leases = await stream.receive()

    number = await stream.send(ack=pb.Settle(ranges=ranges(leases)))
    await stream.call.done_writing()
    done, closed = await stream.hear(), await stream.hear()

    assert (done.id, done.HasField("done"), closed.HasField("closed")) == (number, True, True)


async def test_a_cancelled_stream_gives_messages_back_at_once_and_the_attempt_counts(api: Place) -> None:
    await api.publish(b"0", b"1")
    stream = Conversation(api)
    await stream.open()
    await stream.receive()

    stream.call.cancel()

    await until_in_flight(api, 0)
    [leased] = (await api.poll(wait_ms=60_000)).leases
    assert (leased.attempt, len(leased.messages)) == (2, 2)


async def test_a_deadline_ends_a_stream_like_a_cancellation(api: Place) -> None:
    await api.publish(b"0")
    call = api.consumer.Consume(timeout=1.0)
    await call.write(pb.ConsumeRequest(id=1, open=pb.Open(topic="orders", group="g")))
    await call.write(pb.ConsumeRequest(id=2, receive=pb.Receive(wait_ms=60_000)))

    with pytest.raises(grpc.aio.AioRpcError) as ended:
        while True:
            await call.read()

    assert ended.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    await until_in_flight(api, 0)
    assert values((await api.poll(wait_ms=60_000)).leases) == [b"0"]


async def test_a_lost_connection_gives_messages_back(api: Place) -> None:
    await api.publish(b"0")
    channel = grpc.aio.insecure_channel(
        f"127.0.0.1:{api.port}", options=[("grpc.use_local_subchannel_pool", 1)]
    )
    call = channel.stream_stream(
        "/penstock.v1.Consumer/Consume",
        request_serializer=pb.ConsumeRequest.SerializeToString,
        response_deserializer=pb.ConsumeResponse.FromString,
    )()
    await call.write(pb.ConsumeRequest(id=1, open=pb.Open(topic="orders", group="g")))
    await call.write(pb.ConsumeRequest(id=2, receive=pb.Receive(wait_ms=60_000)))
    await call.read()
    await call.read()
    await until_in_flight(api, 1)

    await channel.close()

    await until_in_flight(api, 0)


async def test_a_deleted_group_is_told_to_who_waits(api: Place) -> None:
    stream = Conversation(api)
    await stream.open()
    await stream.send(receive=pb.Receive(wait_ms=60_000))

    await api.broker.delete_group("orders", "g")

    assert (await stream.hear()).error.code in ("CLOSED", "GROUP_NOT_FOUND")


async def until_assigned(stream: Conversation, count: int) -> list[int]:
    """The partitions of a member, by its heartbeats."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = await stream.ask(heartbeat=pb.Heartbeat())
            if len(answer.assignment.partitions) == count:
                return list(answer.assignment.partitions)


async def test_members_of_a_stream_group_share_partitions_and_commit(api: Place) -> None:
    await api.broker.create_topic("events", partitions=2)
    settings = pb.GroupSettings(kind="stream", start="earliest")
    for partition in (0, 1):
        await api.broker.publish("events", b"%d" % partition, partition=partition)
    one, two = Conversation(api), Conversation(api)

    opened = await one.open("readers", "events", settings=settings)
    both = await one.receive()
    pushed = one.pushed
    await one.ask(commit=pb.Commit(offsets={0: 1, 1: 1}))
    await two.open("readers", "events", settings=settings)
    mine, theirs = await until_assigned(one, 1), await until_assigned(two, 1)

    assert (opened.kind, pushed) == ("stream", [0, 1])
    assert sorted(values(both)) == [b"0", b"1"]
    assert {leased.range.lease for leased in both} == {-1}
    assert sorted(mine + theirs) == [0, 1]
    assert (await api.broker.describe_group("events", "readers")).lag == 0


async def test_a_new_assignment_is_pushed_while_a_receive_waits(api: Place) -> None:
    await api.broker.create_topic("events", partitions=2)
    settings = pb.GroupSettings(kind="stream", session_timeout_ms=600_000)
    one, two = Conversation(api), Conversation(api)
    await one.open("readers", "events", settings=settings)
    await until_assigned(one, 2)
    await two.open("readers", "events", settings=settings)
    await until_assigned(one, 1)

    await one.send(receive=pb.Receive(wait_ms=600_000))
    two.call.cancel()
    pushed = pb.ConsumeResponse()
    async with asyncio.timeout(PATIENCE_S):
        while len(pushed.assignment.partitions) != 2:
            pushed = await one.hear()

    assert pushed.id == 0
