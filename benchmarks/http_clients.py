"""Clients of an HTTP server that is measured, in a process of their own.

    python -m benchmarks.http_clients PORT

Reads orders, one line of JSON each, and answers each with one:

    {"work": "post", "path": ..., "body": ..., "connections": 64, "count": 10000}
    {"work": "drain", "path": ..., "connections": 4, "count": 100000}

``post`` sends the same request over and over, on each connection when the one before was
answered.  ``drain`` receives messages and acks them, until ``count`` are acked.

It must not be the limit itself, so it is as much of HTTP as that needs: requests
are made once, and of an answer only the status and the length are looked at.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from typing import Any, cast

import msgspec
import uvloop

RECEIVE = 100
LENGTH = b"content-length: "


class Received(msgspec.Struct):
    """Of an answer with messages, what an ack needs."""

    messages: list["Message"]


class Message(msgspec.Struct):
    """One of them."""

    receipt: str


_received = msgspec.json.Decoder(Received)


def request(path: str, body: bytes) -> bytes:
    """The bytes of a request."""
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


class Connection(asyncio.Protocol):
    """Calls ``heard`` with the body of each answer; what that returns is sent next."""

    def __init__(self, heard: Callable[[bytes], bytes]) -> None:
        self._heard = heard
        self._data = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio's call."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """asyncio's call."""
        data = self._data + data if self._data else data
        end = data.find(b"\r\n\r\n")
        if end >= 0:
            at = data.find(LENGTH) + len(LENGTH)
            size = end + 4 + int(data[at : data.find(b"\r", at)])
            if len(data) >= size:
                assert data[9:12] == b"200", data
                self._data = b""
                following = self._heard(data[end + 4 :])
                if following:
                    self.transport.write(following)
                return
        self._data = data


class Clients:
    """Some connections, and how much is left for them to do."""

    def __init__(self, port: int, count: int) -> None:
        self._port = port
        self._left = count  # To send.
        self._unheard = count
        self._done = asyncio.Event()

    async def run(self, connections: int, first: bytes, heard: Callable[["Clients", bytes], bytes]) -> float:
        """Seconds from the first request to the last answer."""
        loop = asyncio.get_running_loop()
        made = [
            (
                await loop.create_connection(
                    lambda: Connection(lambda body: heard(self, body)), "127.0.0.1", self._port
                )
            )[1]
            for _ in range(connections)
        ]
        started = time.perf_counter()
        for connection in made:
            self._left -= 1
            connection.transport.write(first)
        await self._done.wait()
        seconds = time.perf_counter() - started
        for connection in made:
            connection.transport.close()
        return seconds

    def again(self, same: bytes) -> bytes:
        """An answer was heard; the same request again, unless it was the last."""
        self._unheard -= 1
        if self._unheard == 0:
            self._done.set()
        if self._left <= 0:
            return b""
        self._left -= 1
        return same

    def acked(self, count: int) -> bool:
        """So many messages are done with; True: all are."""
        self._unheard -= count
        if self._unheard <= 0:
            self._done.set()
        return self._unheard <= 0


async def post(port: int, order: dict[str, Any]) -> float:
    """The same request over and over."""
    same = request(order["path"], order["body"].encode())
    clients = Clients(port, order["count"])
    return await clients.run(order["connections"], same, lambda all_, _: all_.again(same))


async def drain(port: int, order: dict[str, Any]) -> float:
    """Receive and ack, until all are acked."""
    take = request(f"{order['path']}/receive", msgspec.json.encode({"max_messages": RECEIVE, "wait": 1}))

    def heard(clients: Clients, body: bytes) -> bytes:
        if body.startswith(b'{"results"'):
            return b"" if clients.acked(body.count(b'"ok":true')) else take
        receipts = [message.receipt for message in _received.decode(body).messages]
        if not receipts:
            return take
        return request(f"{order['path']}/ack", msgspec.json.encode({"receipts": receipts}))

    return await Clients(port, order["count"]).run(order["connections"], take, heard)


WORK = {"post": post, "drain": drain}


async def main(port: int) -> None:
    """Do what is asked, line by line."""
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        print(json.dumps({"seconds": await WORK[order["work"]](port, order)}), flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(int(sys.argv[1])))
