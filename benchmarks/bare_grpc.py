"""The limit that the gRPC API is measured beside: grpc.aio on uvloop, and nothing of a broker.

python -m benchmarks.bare_grpc      prints its port

/bare.Bare/Echo    unary: the message that was sent, decoded and encoded
/bare.Bare/Count   client streaming: reads batches, decoded, and answers with their number
/bare.Bare/Serve   bidirectional: answers each request with as many bytes as the last one said (``id``)
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import uvloop

from penstock.grpc import penstock_pb2 as pb


async def echo(request: pb.PublishRequest, _: object) -> pb.PublishRequest:
    """The same."""
    return request


async def count(requests: AsyncIterator[pb.PublishBatchRequest], _: object) -> pb.PublishSummary:
    """How many messages there were."""
    total = 0
    async for request in requests:
        total += len(request.values)
    return pb.PublishSummary(messages=total)


async def serve(requests: AsyncIterator[pb.ConsumeRequest], _: object) -> AsyncIterator[bytes]:
    """So many bytes."""
    async for request in requests:
        yield b"x" * request.id


async def main() -> None:
    """Until the process is ended."""
    handlers: dict[str, Any] = {
        "Echo": grpc.unary_unary_rpc_method_handler(
            echo, pb.PublishRequest.FromString, pb.PublishRequest.SerializeToString
        ),
        "Count": grpc.stream_unary_rpc_method_handler(
            count, pb.PublishBatchRequest.FromString, pb.PublishSummary.SerializeToString
        ),
        "Serve": grpc.stream_stream_rpc_method_handler(serve, pb.ConsumeRequest.FromString),
    }
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bare.Bare", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
