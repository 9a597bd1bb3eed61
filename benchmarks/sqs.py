"""The SQS listener beside the bare HTTP framework and beside moto's server.

    python -m benchmarks.sqs [--count N] [--moto PYTHON]

Each server is a process of its own; the load is this process.  Requests are as boto3 makes them, without
signatures, which no server checks here.  ``PYTHON`` is an interpreter that has moto; without it moto is left
out.  The bare framework is Starlette on uvicorn, which reads the body and answers with as many bytes.
Messages are durable (fsync) in Penstock, or left to the system (os), and in memory in moto.
"""

import argparse
import asyncio
import http.client
import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

from benchmarks.durable import scratch
from benchmarks.http_clients import Connection
from benchmarks.processes import Process, said_until_ready

CONNECTIONS = 32
BODY = "x" * 100
SENT = 150  # Bytes of an answer to SendMessage.
RECEIVED = 330  # The same with one message.


def request(action: str, fields: dict[str, object]) -> bytes:
    """A request of the JSON protocol."""
    body = json.dumps(fields).encode()
    head = (
        f"POST / HTTP/1.1\r\nhost: localhost\r\nx-amz-target: AmazonSQS.{action}\r\n"
        "content-type: application/x-amz-json-1.0\r\n"
        "authorization: AWS4-HMAC-SHA256 Credential=x/20300101/us-east-1/sqs/aws4_request,"
        f" SignedHeaders=host, Signature=x\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class AnyCaseConnection(Connection):
    """Whatever the case of the server's headers."""

    def data_received(self, data: bytes) -> None:
        head, blank, body = data.partition(b"\r\n\r\n")
        super().data_received(head.lower() + blank + body if blank else data)


class Load:
    """Requests over several connections, each after the answer to the one before."""

    def __init__(self, port: int) -> None:
        self._port = port

    def per_second(self, count: int, first: bytes, then: Callable[[bytes], bytes] | None = None) -> float:
        """Answers a second to ``first``, or to it and what ``then`` makes of each of its answers."""
        return asyncio.run(self._run(count, first, then))

    async def _run(self, count: int, first: bytes, then: Callable[[bytes], bytes] | None) -> float:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        left = count

        def heard_by() -> Callable[[bytes], bytes]:
            follows = then is not None

            def heard(body: bytes) -> bytes:
                nonlocal left, follows
                if then is not None and follows:
                    follows = False
                    return then(body)
                follows = True
                left -= 1
                if left <= 0 and not done.done():
                    done.set_result(None)
                return first

            return heard

        made = [await loop.create_connection(lambda: AnyCaseConnection(heard_by()), "127.0.0.1", self._port)
                for _ in range(CONNECTIONS)]  # fmt: skip
        started = time.perf_counter()
        for transport, _ in made:
            transport.write(first)
        await done
        taken = time.perf_counter() - started
        for transport, _ in made:
            transport.abort()
        return count / taken


def queue_load(port: int, count: int) -> tuple[float, float]:
    """Messages a second that are sent, and that are received and deleted."""
    load = Load(port)
    url = f"http://localhost:{port}/123456789012/numbers"
    load.per_second(
        1, request("CreateQueue", {"QueueName": "numbers", "Attributes": {"VisibilityTimeout": "600"}})
    )
    send = request("SendMessage", {"QueueUrl": url, "MessageBody": BODY})
    sent = load.per_second(count + CONNECTIONS, send)
    take = request("ReceiveMessage", {"QueueUrl": url})

    def delete(body: bytes) -> bytes:
        handle = json.loads(body)["Messages"][0]["ReceiptHandle"]
        return request("DeleteMessage", {"QueueUrl": url, "ReceiptHandle": handle})

    return sent, load.per_second(count - CONNECTIONS, take, delete)


def bare_load(port: int, count: int) -> tuple[float, float]:
    """The same numbers of an application that does nothing."""
    load = Load(port)
    body = b"x" * 160

    def post(size: int) -> bytes:
        head = f"POST /v1/topics/numbers/publish?size={size} HTTP/1.1\r\nhost: localhost\r\n"
        return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body

    return load.per_second(count, post(SENT)), load.per_second(count, post(RECEIVED), lambda _: post(2))


def moto_load(python: str, count: int) -> tuple[float, float]:
    """One request after the other: moto ends a connection after each, and does one thing at a time."""
    port = 15_324
    url = f"http://localhost:{port}/123456789012/numbers"
    command = [python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _until_there(port)
            started = time.perf_counter()
            for _ in range(count):
                _ask(port, "SendMessage", {"QueueUrl": url, "MessageBody": BODY})
            sent = time.perf_counter()
            for _ in range(count):
                handle = _ask(port, "ReceiveMessage", {"QueueUrl": url})["Messages"][0]["ReceiptHandle"]
                _ask(port, "DeleteMessage", {"QueueUrl": url, "ReceiptHandle": handle})
            return count / (sent - started), count / (time.perf_counter() - sent)
        finally:
            process.kill()


def _until_there(port: int) -> None:
    while True:
        try:
            _ask(port, "CreateQueue", {"QueueName": "numbers"})
        except ConnectionError:
            time.sleep(0.2)
        else:
            return


def _ask(port: int, action: str, fields: dict[str, object]) -> Any:
    head, _, body = request(action, fields).partition(b"\r\n\r\n")
    headers = dict(line.decode().split(": ", 1) for line in head.split(b"\r\n")[2:])
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/", body, headers)
    answer = connection.getresponse().read()
    connection.close()
    return json.loads(answer or b"{}")


def main() -> None:
    made = argparse.ArgumentParser()
    made.add_argument("--count", type=int, default=5000)
    made.add_argument("--moto", help="an interpreter that has moto")
    options = made.parse_args()
    off = [word for name in ("native", "text", "status", "http", "kafka") for word in (f"--{name}", "off")]
    for durability in ("fsync", "os"):
        with scratch() as directory:
            serve = ["-m", "penstock", "serve", "--data", f"{directory}/data", *off, "--sqs", "127.0.0.1:0"]
            with Process(serve, {"PENSTOCK_TOPIC__DURABILITY": durability}) as server:
                address = said_until_ready(server.line)["sqs"]
                port = int(address.rpartition(":")[2].strip("/"))
                show(durability, server, queue_load, port, options.count)
    with Process(["-m", "benchmarks.bare_http"]) as bare:
        show("bare HTTP", bare, bare_load, int(bare.line()), options.count)
    if options.moto:
        sent, taken = moto_load(options.moto, max(options.count // 20, 100))
        print(f"{'moto':10} send {sent:8.0f}/s    receive + delete {taken:8.0f}/s")


def show(
    name: str, server: Process, load: Callable[[int, int], tuple[float, float]], port: int, count: int
) -> None:
    """One line: rates, and what a request costs the server, which other work on the machine changes less."""
    before = server.cpu_seconds()
    sent, taken = load(port, count)
    cost_us = (server.cpu_seconds() - before) / (3 * count) * 1e6
    rates = f"send {sent:8.0f}/s    receive + delete {taken:8.0f}/s"
    print(f"{name:10} {rates}    {cost_us:6.0f} us of CPU a request", flush=True)


if __name__ == "__main__":
    main()
