"""The status page: what it says, and what it says to those who ask for something else."""

import asyncio
import http.client
import json
import shutil
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from penstock.config.server import LimitSettings
from penstock.frontends.listener import Connections
from penstock.frontends.status.server import StatusListener
from penstock.testing import AsyncTestBroker

PATIENCE_S = 60
LIMITS = msgspec.structs.replace(LimitSettings(), status_head_bytes_max=1000, status_timeout_ms=50)


class Door:
    """The status listener, and the broker behind it."""

    def __init__(self, broker: AsyncTestBroker) -> None:
        self.broker = broker
        self.connections = Connections(10)
        self.listener = StatusListener(broker, LIMITS, self.connections)
        self.port = 0

    async def ask(self, request: bytes, *, end: bool = False) -> bytes:
        """Send bytes; everything until the server closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request)
        if end:
            writer.write_eof()
        answer = await asyncio.wait_for(reader.read(), PATIENCE_S)
        writer.close()
        return answer

    async def get(self, path: str, method: str = "GET", body: bytes | None = None) -> tuple[int, Any]:
        """By an HTTP client of the standard library."""
        return await asyncio.to_thread(self._get, path, method, body)

    def _get(self, path: str, method: str, body: bytes | None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request(method, path, body)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, json.loads(content) if content else None


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async with await AsyncTestBroker.open() as broker:
        door = Door(broker)
        server = await asyncio.get_running_loop().create_server(door.listener.connect, "127.0.0.1", 0)
        door.port = server.sockets[0].getsockname()[1]
        yield door
        server.close()
        await asyncio.wait_for(door.listener.drain(), PATIENCE_S)


async def test_nothing_waits_in_an_empty_broker(door: Door) -> None:
    assert await door.get("/metrics") == (200, {"queues": {}, "active_connections": 1})


async def test_without_a_group_everything_stored_waits(door: Door) -> None:
    await door.broker.create_topic("user-signups", partitions=2)
    await door.broker.publish("user-signups", b"new user: alex", partition=0)

    _, answer = await door.get("/metrics")

    assert answer["queues"] == {"user-signups-0": 1, "user-signups-1": 0}


async def test_with_groups_it_is_what_waits_for_the_slowest(door: Door) -> None:
    await door.broker.create_topic("orders", partitions=1)
    await door.broker.publish_batch("orders", [b"x"] * 5)
    quick = await door.broker.consumer("orders", group="quick")
    slow = await door.broker.consumer("orders", group="slow")
    await quick.ack(await quick.receive(max_messages=5))
    await slow.ack(await slow.receive(max_messages=2))

    _, answer = await door.get("/metrics")

    assert answer["queues"] == {"orders-0": 3}


async def test_connections_of_all_listeners_are_counted(door: Door) -> None:
    door.connections.enter()  # As another listener would.

    _, answer = await door.get("/metrics")

    assert answer["active_connections"] == 2
    door.connections.leave()


async def test_the_answer_is_http_to_the_letter(door: Door) -> None:
    answer = await door.ask(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")

    body = b'{"queues":{},"active_connections":1}\n'
    assert (
        answer
        == (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
        )
        + body
    )


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
async def test_curl_shows_it(door: Door) -> None:
    curl = await asyncio.create_subprocess_exec(
        "curl", "-sS", f"http://127.0.0.1:{door.port}/metrics", stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(curl.communicate(), PATIENCE_S)

    assert curl.returncode == 0
    assert json.loads(out) == {"queues": {}, "active_connections": 1}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/metrics?pretty=1", 200),
        ("GET", "/", 404),
        ("GET", "/metrics/", 404),
        ("POST", "/elsewhere", 404),
        ("POST", "/metrics", 405),
        ("DELETE", "/metrics", 405),
        ("HEAD", "/metrics", 405),
    ],
)
async def test_other_paths_and_methods_have_their_codes(
    door: Door, method: str, path: str, status: int
) -> None:
    found, answer = await door.get(path, method, body=b"x" * 5000 if method == "POST" else None)

    assert found == status
    assert (answer is None) == (method == "HEAD")


async def test_the_answer_arrives_although_the_request_goes_on(door: Door) -> None:
    """A connection that is closed with unread input would be reset, and the answer lost."""
    answer = await door.ask(b"POST /metrics HTTP/1.1\r\nContent-Length: 5000000\r\n\r\n" + b"x" * 5_000_000)

    assert answer.startswith(b"HTTP/1.1 405 ")


async def test_a_method_that_is_not_allowed_names_the_one_that_is(door: Door) -> None:
    assert b"\r\nAllow: GET\r\n" in await door.ask(b"PUT /metrics HTTP/1.1\r\n\r\n")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"hello\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"GET /metrics\r\n\r\n", 400),
        (b"GET /metrics HTTP/2\r\n\r\n", 400),
        (b"GET  /metrics HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\x00\xff HTTP/1.1 x\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 2000 + b"\r\n\r\n", 431),
        (b"GET /metrics HTTP/1.1\r\n" + b"X: yyyyyyy\r\n" * 200 + b"\r\n", 431),
        (b"GET /metrics HTTP/1.1\r\n" + b"x" * 100_000, 431),
    ],
)
async def test_a_bad_request_is_told_so(door: Door, request_bytes: bytes, status: int) -> None:
    answer = await door.ask(request_bytes)

    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert b'{"error":"' in answer


async def test_a_head_that_is_cut_short_is_no_request(door: Door) -> None:
    assert (await door.ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n", end=True)).startswith(b"HTTP/1.1 400 ")
    assert await door.ask(b"", end=True) == b""


async def test_a_head_that_does_not_come_is_not_waited_for(door: Door) -> None:
    assert (await door.ask(b"GET /metrics HTTP/1.1\r\n")).startswith(b"HTTP/1.1 408 ")


async def test_one_connection_more_than_the_limit_is_told_so(door: Door) -> None:
    for _ in range(10):
        door.connections.enter()

    answer = await door.ask(b"")

    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"the limit is 10 connections" in answer
