"""Clients of a gRPC server that is measured, in a process of their own.

    python -m benchmarks.grpc_clients PORT

Reads orders, one line of JSON each, and answers each with one:

    {"work": "unary", "path": "/penstock.v1.Publisher/Publish", "count": 10000}
    {"work": "publish", "path": "/penstock.v1.Publisher/PublishStream", "count": 1000000}
    {"work": "consume", "count": 1000000}
    {"work": "serve", "count": 100, "bytes": 30000}     the bare answers for such a consumer

It must not be the limit itself, so requests are encoded once, and of an answer only
what an ack needs is decoded.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import uvloop

from penstock.grpc import penstock_pb2 as pb

VALUE = b"x" * 100
BATCH = 1000
IN_FLIGHT = 64  # Unary calls.
TOPIC = "numbers"
GROUP = "readers"


async def unary(channel: grpc.aio.Channel, order: dict[str, Any]) -> float:
    """The same call over and over, by so many tasks."""
    body = pb.PublishRequest(topic=TOPIC, message=pb.Message(value=VALUE)).SerializeToString()
    call: Any = channel.unary_unary(order["path"])

    async def some(count: int) -> None:
        for _ in range(count):
            await call(body)

    await some(1)
    started = time.perf_counter()
    await asyncio.gather(*(some(order["count"] // IN_FLIGHT) for _ in range(IN_FLIGHT)))
    return time.perf_counter() - started


async def publish(channel: grpc.aio.Channel, order: dict[str, Any]) -> float:
    """One stream of batches."""
    body = pb.PublishBatchRequest(topic=TOPIC, values=[VALUE] * BATCH).SerializeToString()
    batches = order["count"] // BATCH

    async def bodies() -> AsyncIterator[bytes]:
        for _ in range(batches):
            yield body

    call: Any = channel.stream_unary(order["path"])
    started = time.perf_counter()
    summary = pb.PublishSummary.FromString(await call(bodies()))
    assert summary.messages == batches * BATCH
    return time.perf_counter() - started


async def consume(channel: grpc.aio.Channel, order: dict[str, Any]) -> float:
    """Receive and ack on one stream, with the next receive on its way."""
    open_call: Any = channel.stream_stream("/penstock.v1.Consumer/Consume")
    call = open_call()
    receive = pb.ConsumeRequest(
        id=2, receive=pb.Receive(max_messages=BATCH, wait_ms=1000)
    ).SerializeToString()
    opened = pb.ConsumeRequest(id=1, open=pb.Open(topic=TOPIC, group=GROUP))
    await call.write(opened.SerializeToString())
    await call.read()
    started = time.perf_counter()
    for _ in range(2):
        await call.write(receive)
    left = order["count"]
    unacked = 0
    while left or unacked:
        answer = pb.ConsumeResponse.FromString(await call.read())
        if answer.HasField("done"):
            unacked -= 1
        elif answer.received.leases:
            ranges = [leased.range for leased in answer.received.leases]
            left -= sum(each.end - each.start for each in ranges)
            await call.write(pb.ConsumeRequest(id=3, ack=pb.Settle(ranges=ranges)).SerializeToString())
            unacked += 1
            if left > 0:
                await call.write(receive)
    seconds = time.perf_counter() - started
    await call.done_writing()
    return seconds


async def serve(channel: grpc.aio.Channel, order: dict[str, Any]) -> float:
    """As many bytes, from the bare server."""
    open_call: Any = channel.stream_stream("/bare.Bare/Serve")
    call = open_call()
    receive = pb.ConsumeRequest(id=order["bytes"]).SerializeToString()
    ack = pb.ConsumeRequest(id=2).SerializeToString()
    started = time.perf_counter()
    for _ in range(order["count"]):
        await call.write(receive)
        await call.read()
        await call.write(ack)
        await call.read()
    seconds = time.perf_counter() - started
    await call.done_writing()
    return seconds


WORK = {"unary": unary, "publish": publish, "consume": consume, "serve": serve}


async def main(port: int) -> None:
    """Do what is asked, line by line."""
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            order = json.loads(line)
            print(json.dumps({"seconds": await WORK[order["work"]](channel, order)}), flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(int(sys.argv[1])))
