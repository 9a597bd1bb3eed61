"""Publishing over gRPC: one message, a batch, a stream of batches."""

import asyncio
from collections.abc import AsyncIterator

import grpc.aio
import pytest
from tests.frontends.grpc.place import PATIENCE_S, Place, info_of, place

from penstock.config.server import LimitSettings
from penstock.grpc import penstock_pb2 as pb


async def until_stored(api: Place) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if await api.broker.read("orders"):
                return
            await asyncio.sleep(0.01)


async def test_a_message_is_stored_with_everything_it_has(api: Place) -> None:
    message = pb.Message(value=b"x", key=b"k", headers={"h": "v"}, priority="high", partition=0)

    receipt = await api.publisher.Publish(pb.PublishRequest(topic="orders", message=message))

    [stored] = await api.broker.read("orders")
    assert (receipt.id, receipt.partition, receipt.offset) == ("orders:0:0", 0, 0)
    assert (stored.value, stored.key, stored.headers, stored.priority) == (b"x", b"k", {"h": "v"}, "high")
    assert receipt.timestamp_ms == stored.timestamp


async def test_a_delayed_message_has_a_schedule_id(api: Place) -> None:
    message = pb.Message(value=b"x", delay_ms=3_600_000)

    receipt = await api.publisher.Publish(pb.PublishRequest(topic="orders", message=message))

    assert receipt.offset == -1
    assert receipt.id == receipt.schedule_id
    assert [waiting.id for waiting in await api.broker.scheduled("orders")] == [receipt.schedule_id]


async def test_a_dedup_id_is_stored_once(api: Place) -> None:
    request = pb.PublishRequest(topic="orders", message=pb.Message(value=b"x", dedup_id="1"))

    first, second = await api.publisher.Publish(request), await api.publisher.Publish(request)

    assert (first.duplicate, second.duplicate, second.offset) == (False, True, first.offset)


async def test_a_batch_has_a_receipt_for_each_message_or_ranges_of_values(api: Place) -> None:
    messages = [
        pb.Message(value=b"0"),
        pb.Message(value=b"1", key=b"k"),
        pb.Message(key=b"k", tombstone=True),
    ]

    receipts = await api.publisher.PublishBatch(pb.PublishBatchRequest(topic="orders", messages=messages))
    ranges = await api.publisher.PublishBatch(pb.PublishBatchRequest(topic="orders", values=[b"3", b"4"]))

    stored = await api.broker.read("orders")
    assert [receipt.offset for receipt in receipts.receipts] == [0, 1, 2]
    assert list(ranges.ranges) == [pb.OffsetRange(partition=0, start=3, end=5)]
    assert [message.value for message in stored] == [b"0", b"1", b"", b"3", b"4"]
    assert [message.is_tombstone for message in stored] == [False, False, True, False, False]


async def test_a_stream_of_batches_is_stored_in_order_and_summed_up(api: Place) -> None:
    async def batches() -> AsyncIterator[pb.PublishBatchRequest]:
        yield pb.PublishBatchRequest(topic="orders", values=[b"0", b"1"])
        for number in range(2, 100):  # The topic of the batch before.
            yield pb.PublishBatchRequest(messages=[pb.Message(value=str(number).encode())])
        yield pb.PublishBatchRequest(messages=[pb.Message(value=b"later", delay_ms=60_000)])

    summary = await api.publisher.PublishStream(batches())

    assert (summary.messages, summary.scheduled) == (101, 1)
    assert list(summary.ranges) == [pb.OffsetRange(partition=0, start=0, end=100)]
    stored = await api.broker.read("orders", limit=200)
    assert [int(message.value) for message in stored] == list(range(100))
    assert api.listener.shared.publish_bytes == 0


async def test_a_refused_batch_ends_its_stream_and_says_how_much_is_stored(api: Place) -> None:
    async def batches() -> AsyncIterator[pb.PublishBatchRequest]:
        yield pb.PublishBatchRequest(topic="orders", values=[b"0", b"1"])
        await until_stored(api)
        yield pb.PublishBatchRequest(topic="orders", messages=[pb.Message(priority="urgent")])

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await api.publisher.PublishStream(batches())

    info = info_of(refused.value)
    assert (refused.value.code(), info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "PRIORITY_UNKNOWN")
    assert info.metadata["published"] in ("0", "2")  # What was stored, and known to be, by then.
    assert api.listener.shared.publish_bytes == 0


async def test_a_cancelled_stream_keeps_what_was_stored(api: Place) -> None:
    call = api.publisher.PublishStream()
    await call.write(pb.PublishBatchRequest(topic="orders", values=[b"0"]))
    await until_stored(api)

    call.cancel()
    await api.publish(b"1")

    assert [message.value for message in await api.broker.read("orders")] == [b"0", b"1"]


async def test_publishes_that_wait_for_the_disk_are_bounded() -> None:
    async with place(limits=LimitSettings(publish_bytes_max=1)) as api:
        api.listener.shared.publish_bytes = 1  # Of another call.
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await api.publisher.Publish(pb.PublishRequest(topic="orders", message=pb.Message(value=b"x")))
        api.listener.shared.publish_bytes = 0

        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert info_of(refused.value).reason == "OVERLOADED"


async def test_a_batch_has_messages_or_values_and_a_tombstone_no_value(api: Place) -> None:
    both = pb.PublishBatchRequest(topic="orders", values=[b"x"], messages=[pb.Message(value=b"y")])
    tombstone = pb.PublishRequest(topic="orders", message=pb.Message(value=b"x", tombstone=True))

    with pytest.raises(grpc.aio.AioRpcError, match="messages or values, not both"):
        await api.publisher.PublishBatch(both)
    with pytest.raises(grpc.aio.AioRpcError, match="a tombstone has no value"):
        await api.publisher.Publish(tombstone)
