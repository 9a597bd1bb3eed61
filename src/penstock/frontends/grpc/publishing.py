"""Publishing: one message, a batch, or a stream of batches.

A stream has up to ``BATCHES_MAX`` batches in progress, so that one sync serves several of them; no more are
read until the oldest is stored.  If one is refused, those read after it may still be stored.
"""

from collections import deque
from collections.abc import AsyncIterable, Iterable
from typing import TYPE_CHECKING, Final

from penstock.errors import Overloaded, PenstockError
from penstock.frontends.grpc.call import GrpcCall
from penstock.frontends.grpc.messages import message_of, messages_of, receipt
from penstock.grpc import penstock_pb2 as pb
from penstock.model.message import Receipt

if TYPE_CHECKING:
    from asyncio import Future

BATCHES_MAX: Final = 16  # In progress, of one stream.


async def publish(call: GrpcCall, request: pb.PublishRequest) -> pb.Receipt:
    size = _take(call, request)
    together = call.shared.together
    others = together.enter()
    try:
        if others is not None:
            await others
        work = call.operations.publish(request.topic, message_of(request.message))
        return receipt(await call.run(work))
    finally:
        together.leave()
        call.shared.publish_bytes -= size


async def publish_batch(call: GrpcCall, request: pb.PublishBatchRequest) -> pb.PublishBatchResponse:
    """Publish many messages of one topic."""
    size = _take(call, request)
    try:
        receipts = await call.run(call.operations.publish_batch(request.topic, messages_of(request)))
    finally:
        call.shared.publish_bytes -= size
    if request.values:
        summary = PublishSummary()
        summary.add(receipts)
        return pb.PublishBatchResponse(ranges=summary.message().ranges)
    return pb.PublishBatchResponse(receipts=map(receipt, receipts))


async def publish_stream(
    call: GrpcCall, requests: AsyncIterable[pb.PublishBatchRequest | PenstockError]
) -> pb.PublishSummary:
    """Publish batches as they arrive, until the server stops or the key is revoked."""
    async with call.until_ended():
        return await _publish_all(call, requests)


async def _publish_all(
    call: GrpcCall, requests: AsyncIterable[pb.PublishBatchRequest | PenstockError]
) -> pb.PublishSummary:
    topic, summary = "", PublishSummary()
    pending: deque[tuple[int, Future[list[Receipt]]]] = deque()
    try:
        async for request in requests:
            if isinstance(request, PenstockError):
                raise request
            topic = request.topic or topic
            size = _take(call, request)
            try:
                future = call.start(call.operations.publish_batch(topic, messages_of(request)))
            except BaseException:
                call.shared.publish_bytes -= size
                raise
            pending.append((size, future))
            while pending and (len(pending) >= BATCHES_MAX or pending[0][1].done()):
                await _store(call, pending, summary)
        while pending:
            await _store(call, pending, summary)
    finally:
        call.facts["published"] = summary.messages
        for size, future in pending:  # The stream was refused or cancelled.
            call.shared.publish_bytes -= size
            future.cancel()
    return summary.message()


async def _store(
    call: GrpcCall, pending: "deque[tuple[int, Future[list[Receipt]]]]", summary: "PublishSummary"
) -> None:
    """Wait for the oldest batch."""
    summary.add(await pending[0][1])
    call.shared.publish_bytes -= pending.popleft()[0]


def _take(call: GrpcCall, request: pb.PublishRequest | pb.PublishBatchRequest) -> int:
    """Count the bytes of a publish until it is answered; ``Overloaded`` if too many wait for the disk."""
    shared, size = call.shared, request.ByteSize()
    limit = shared.limits.publish_bytes_max
    if shared.publish_bytes and shared.publish_bytes + size > limit:
        raise Overloaded(what="bytes of publishes", limit=limit)
    shared.publish_bytes += size
    return size


class PublishSummary:
    """Where messages are, by partition."""

    def __init__(self) -> None:
        self.messages = 0
        self._scheduled = 0
        self._duplicates = 0
        self._ranges: dict[int, tuple[int, int]] = {}

    def add(self, receipts: Iterable[Receipt]) -> None:
        for made in receipts:
            self.messages += 1
            offset = made.offset
            if offset is None:
                self._scheduled += 1
            elif made.duplicate:
                self._duplicates += 1
            else:
                start, end = self._ranges.get(made.partition, (offset, offset))
                self._ranges[made.partition] = min(start, offset), max(end, offset + 1)

    def message(self) -> pb.PublishSummary:
        ranges = [
            pb.OffsetRange(partition=partition, start=start, end=end)
            for partition, (start, end) in sorted(self._ranges.items())
        ]
        return pb.PublishSummary(
            messages=self.messages, ranges=ranges, scheduled=self._scheduled, duplicates=self._duplicates
        )
