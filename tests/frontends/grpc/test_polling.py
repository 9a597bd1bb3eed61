"""Poll and ack with single calls."""

import asyncio

import grpc.aio
import pytest
from tests.frontends.grpc.place import PATIENCE_S, Place, info_of, ranges, until, values

from penstock.grpc import penstock_pb2 as pb


async def ack(api: Place, *leased: pb.LeaseRange, topic: str = "orders", group: str = "g") -> list[str]:
    """The codes of what was refused."""
    request = pb.AckRequest(topic=topic, group=group, ack=pb.Settle(ranges=leased))
    return [refused.error.code for refused in (await api.consumer.Ack(request)).errors]


async def test_a_message_is_polled_and_acked(api: Place) -> None:
    await api.publish(b"0", b"1")

    received = await api.poll()
    refused = await ack(api, *ranges(received.leases))

    assert values(received.leases) == [b"0", b"1"]
    assert refused == []
    assert await api.broker.depth("orders", "g") == 0


async def test_each_range_has_its_own_outcome(api: Place) -> None:
    await api.publish(b"0", b"1")
    [leased] = (await api.poll()).leases
    where = leased.range
    first = pb.LeaseRange(lease=where.lease, start=0, end=1, consumer=where.consumer)
    forged = pb.LeaseRange(lease=where.lease, start=1, end=2, consumer="nobody")
    gone = pb.LeaseRange(lease=where.lease, start=1, end=2, consumer="x" * len(where.consumer))

    assert await ack(api, first, forged, gone) == ["RECEIPT_UNKNOWN", "LEASE_LOST"]
    assert await ack(api, first) == ["ALREADY_SETTLED"]
    assert await ack(api, where, group="other") == ["RECEIPT_UNKNOWN"]
    assert await api.in_flight() == 1


async def test_nack_reject_and_extend(api: Place) -> None:
    await api.publish(b"0", b"1", b"2")
    where = (await api.poll()).leases[0].range
    one, two, three = (
        pb.LeaseRange(lease=where.lease, start=offset, end=offset + 1, consumer=where.consumer)
        for offset in range(3)
    )
    wanted = {"topic": "orders", "group": "g"}

    await api.consumer.Nack(
        pb.NackRequest(nack=pb.Failed(ranges=[one], delay_ms=0, error="KeyError: k"), **wanted)
    )
    await api.consumer.Reject(pb.RejectRequest(reject=pb.Refused(ranges=[two], reason="no good"), **wanted))
    kept = await api.consumer.Extend(
        pb.ExtendRequest(extend=pb.Longer(ranges=[three, two], duration_ms=60_000), **wanted)
    )

    assert (await api.poll(wait_ms=60_000)).leases[0].attempt == 2
    assert [letter.error for letter in await api.broker.dead_letters("orders")] == ["no good"]
    assert len(kept.errors) <= 1  # Of one lease: as long as some of it is held, all of it is kept.


async def test_an_ack_may_publish(api: Place) -> None:
    await api.publish(b"x")
    received = await api.poll()
    output = pb.Output(topic="results", message=pb.Message(value=b"y"))
    settle = pb.Settle(ranges=ranges(received.leases), outputs=[output])

    await api.consumer.Ack(pb.AckRequest(topic="orders", group="g", ack=settle))

    assert [message.value for message in await api.broker.read("results")] == [b"y"]


async def test_a_poll_waits_for_a_message(api: Place) -> None:
    waiting = asyncio.ensure_future(api.poll(wait_ms=60_000))
    await until(lambda: bool(api.listener.shared.ends))
    await api.publish(b"x")

    assert values((await waiting).leases) == [b"x"]


@pytest.mark.parametrize("way", ["cancelled", "deadline"])
async def test_a_poll_that_ends_early_leases_nothing(api: Place, way: str) -> None:
    request = pb.PollRequest(topic="orders", group="g", wait_ms=60_000)
    call = api.consumer.Poll(request, timeout=0.5 if way == "deadline" else PATIENCE_S)
    await until(lambda: bool(api.listener.shared.ends))
    if way == "cancelled":
        call.cancel()
    await until(lambda: not api.listener.shared.ends)

    await api.publish(b"x")

    assert await api.in_flight() == 0
    assert (await api.poll()).leases[0].attempt == 1


async def test_an_unused_consumer_is_closed_and_one_with_leases_is_kept(api: Place) -> None:
    consumers = api.listener._consumers
    await api.publish(b"x")
    received = await api.poll()

    consumers.sweep()
    consumers.sweep()
    kept = len(consumers._by_token)
    await ack(api, *ranges(received.leases))
    consumers.sweep()
    left = len(consumers._by_token)

    assert (kept, left) == (1, 0)


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"wait_ms": 60_001}, "VALUE_INVALID"),
        ({"wait_ms": -1}, "VALUE_INVALID"),
        ({"max_messages": 1001}, "VALUE_INVALID"),
        ({"visibility_ms": -1}, "VALUE_INVALID"),
        ({"group": ""}, "NAME_INVALID"),
        ({"topic": "a/b"}, "NAME_INVALID"),
    ],
)
async def test_a_wrong_poll_is_refused(api: Place, wanted: dict[str, object], reason: str) -> None:
    fields: dict[str, object] = {"topic": "orders", "group": "g", **wanted}

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await api.consumer.Poll(pb.PollRequest(**fields))  # type: ignore[arg-type]

    assert info_of(refused.value).reason == reason


async def test_a_stream_group_is_not_polled(api: Place) -> None:
    await api.broker.create_group("orders", "g", kind="stream")

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await api.poll()

    assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert info_of(refused.value).reason == "GROUP_KIND_MISMATCH"
