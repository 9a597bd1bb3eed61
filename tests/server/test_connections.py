"""A thousand idle connections beside two hundred busy ones, and the connection beyond the limit."""

import asyncio
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.frontends.native.peer import Peer as AsyncPeer
from tests.server.bystander import http_get, read_all
from tests.server.peer import Peer
from tests.server.process import PATIENCE_S, Server, until

from penstock.errors import Overloaded
from penstock.wire import native
from penstock.wire.native_bodies import decode_error_frame

IDLE = 1000
ACTIVE = 200
ROUNDS = 3
IDLE_BYTES = 16 * 1024  # What an idle connection may cost; 2.4 KiB with uvloop, measured.
FILES = 2 * (IDLE + ACTIVE)

pytestmark = pytest.mark.slow


@pytest.fixture
def many_files() -> Iterator[None]:
    """As many open files as this test needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES:
        pytest.skip(f"this user may not have {FILES} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FILES), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def connected(server: Server) -> AsyncPeer:
    peer = AsyncPeer(*await asyncio.open_connection("127.0.0.1", server.ports["native"]))
    await peer.hello()
    return peer


async def many(server: Server, count: int) -> list[AsyncPeer]:
    return [await connected(server) for _ in range(count)]


async def work(peer: AsyncPeer, number: int) -> None:
    """Publish, receive and acknowledge, again and again."""
    consumer = (await peer.open("orders", f"group-{number % 10}")).consumer
    for _ in range(ROUNDS):
        await peer.publish("orders", b"%d" % number, partition=number % 6)
        batches = await peer.receive(consumer, 10, 60_000)
        assert batches
        await peer.ack(consumer, *batches)


async def test_two_hundred_work_beside_a_thousand_that_are_idle(tmp_path: Path, many_files: None) -> None:
    with Server(tmp_path) as server:
        active = await many(server, ACTIVE)
        await active[0].call("create_topic", name="orders", options={})
        before = server.rss_bytes()
        idle = await many(server, IDLE)
        cost = (server.rss_bytes() - before) / IDLE

        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
            for number, peer in enumerate(active):
                tasks.create_task(work(peer, number))
        async with asyncio.timeout(PATIENCE_S):
            for peer in idle:
                await peer.ask(native.frame(native.PING, 9))

        assert cost < IDLE_BYTES, f"an idle connection costs {cost:.0f} bytes"
        for peer in [*idle, *active]:
            peer.cut()
        server.check_log()


def test_the_connection_beyond_the_limit_is_told_so_and_the_others_are_unharmed(tmp_path: Path) -> None:
    with Server(tmp_path, settings={"PENSTOCK_LIMITS__CONNECTIONS_MAX": "20"}) as server:
        peers = [Peer(server) for _ in range(20)]

        with Peer(server, hello=False) as refused:
            opcode, body = refused.frame()
            assert (opcode, native.correlation_of(body)) == (native.ERROR, native.UNASKED)
            error = decode_error_frame(body)
            assert isinstance(error, Overloaded)
            assert error.facts == {"what": "connections", "limit": 20}
            assert refused.ended()
        with server.connect("text") as text:
            assert read_all(text).startswith(b"ERR ")
        assert http_get(server).startswith(b"HTTP/1.1 503 ")

        for peer in peers:
            peer.ping()
        peers.pop().socket.close()
        until(lambda: b"200 OK" in http_get(server))  # There is room again.
        for peer in peers:
            peer.socket.close()
        server.check_log()
