"""Answers on the wire: a small one is one write, a large one does not wait to be whole."""

import asyncio
import socket

import msgspec
from tests.frontends.http.browser import PATIENCE_S, Place

REQUEST = b"GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n"
MANY = 100


def ask_often(port: int) -> list[bytes]:
    """What a client that waits hears first, each time it asks."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
        heard = []
        for _ in range(MANY):
            client.sendall(REQUEST)
            heard.append(client.recv(65536))
        return heard


async def test_head_and_body_of_an_answer_arrive_together(http: Place) -> None:
    for heard in await asyncio.to_thread(ask_often, http.port):
        head, _, body = heard.partition(b"\r\n\r\n")

        assert head.startswith(b"HTTP/1.1 200 ")
        assert msgspec.json.decode(body)["name"] == "penstock"


async def test_the_last_answer_of_a_connection_arrives_before_its_end(http: Place) -> None:
    browser = await http.browser()
    browser.send(REQUEST.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))

    heard = await browser.hear_end()

    assert heard.endswith(b"}")
    assert b"connection: close" in heard


async def test_an_answer_that_is_large_comes_whole_and_in_order(http: Place) -> None:
    await http.broker.publish_batch("orders", [b"%06d" % number * 1000 for number in range(100)])

    messages = (await http.ask("GET", "/v1/topics/orders/messages?limit=100&as=text")).json["messages"]

    values = sorted(message["text"] for message in messages)
    assert values == [f"{number:06d}" * 1000 for number in range(100)]
