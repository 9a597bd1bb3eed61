"""The gRPC listener for tests, over a broker in memory, and its stubs."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from penstock.broker.aio import EmbeddedAsyncBroker
from penstock.config.server import GrpcSettings, LimitSettings, TlsSettings
from penstock.frontends.grpc.errors import DETAILS
from penstock.frontends.grpc.server import GrpcListener
from penstock.frontends.listener import Connections
from penstock.frontends.security.gateway import AuthGateway
from penstock.grpc import penstock_pb2 as pb
from penstock.grpc.penstock_pb2_grpc import AdminStub, ConsumerStub, PublisherStub

PATIENCE_S = 60.0


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens soon."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


class Place:
    """A listener, its broker and a channel to it."""

    def __init__(self, broker: EmbeddedAsyncBroker, listener: GrpcListener, port: int) -> None:
        self.broker = broker
        self.listener = listener
        self.port = port
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        self.publisher = PublisherStub(self.channel)
        self.consumer = ConsumerStub(self.channel)
        self.admin = AdminStub(self.channel)

    async def publish(self, *values: bytes, topic: str = "orders") -> None:
        await self.publisher.PublishBatch(pb.PublishBatchRequest(topic=topic, values=values))

    async def poll(self, max_messages: int = 10, wait_ms: int = 0, group: str = "g") -> pb.Received:
        request = pb.PollRequest(topic="orders", group=group, max_messages=max_messages, wait_ms=wait_ms)
        return await self.consumer.Poll(request, timeout=PATIENCE_S)

    async def in_flight(self, group: str = "g") -> int:
        return (await self.broker.describe_group("orders", group)).in_flight


@asynccontextmanager
async def place(
    settings: GrpcSettings | None = None,
    limits: LimitSettings | None = None,
    authentication: bool = False,
    tls: TlsSettings | None = None,
) -> AsyncIterator[Place]:
    """All of it, with the topic orders."""
    broker = await EmbeddedAsyncBroker.open()
    await broker.create_topic("orders")
    limits = limits or LimitSettings()
    gateway = AuthGateway(broker, authentication=authentication)
    listener = GrpcListener(
        broker, limits, Connections(limits.connections_max), gateway, settings or GrpcSettings()
    )
    reserved = socket.create_server(("127.0.0.1", 0))
    port = reserved.getsockname()[1]
    reserved.close()
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", port))
    await listener.listen(reserved, tls or TlsSettings())
    made = Place(broker, listener, port)
    try:
        yield made
    finally:
        await made.channel.close()
        await listener.drain()
        gateway.close()
        await broker.close()


class Conversation:
    """A consume stream, with requests numbered from 1."""

    def __init__(self, made: Place, **call: Any) -> None:
        self.call = made.consumer.Consume(timeout=PATIENCE_S, **call)
        self._sent = 0
        self.pushed: list[int] = []  # The assignment.

    async def send(self, **request: Any) -> int:
        self._sent += 1
        await self.call.write(pb.ConsumeRequest(id=self._sent, **request))
        return self._sent

    async def hear(self) -> pb.ConsumeResponse:
        response = await self.call.read()
        assert isinstance(response, pb.ConsumeResponse), "the stream has ended"
        return response

    async def ask(self, **request: Any) -> pb.ConsumeResponse:
        """Send a request, and hear its answer."""
        number = await self.send(**request)
        response = await self.hear()
        while response.id == 0:  # Pushed.
            self.pushed = list(response.assignment.partitions)
            response = await self.hear()
        assert response.id == number
        return response

    async def open(self, group: str = "g", topic: str = "orders", **options: Any) -> pb.Opened:
        return (await self.ask(open=pb.Open(topic=topic, group=group, **options))).opened

    async def receive(self, max_messages: int = 10, wait_ms: int = 60_000) -> Sequence[pb.Leased]:
        wanted = pb.Receive(max_messages=max_messages, wait_ms=wait_ms)
        return (await self.ask(receive=wanted)).received.leases


def ranges(leases: Sequence[pb.Leased]) -> list[pb.LeaseRange]:
    return [leased.range for leased in leases]


def values(leases: Sequence[pb.Leased]) -> list[bytes]:
    return [message.value for leased in leases for message in leased.messages]


def info_of(error: grpc.aio.AioRpcError) -> ErrorInfo:
    """The details of a refusal."""
    trailing = dict(iter(error.trailing_metadata()))
    status = Status.FromString(trailing[DETAILS])
    assert status.code == error.code().value[0]
    assert status.message == error.details()
    info = ErrorInfo()
    assert status.details[0].Unpack(info)
    assert info.domain == "penstock"
    return info
