"""Messages pushed as server-sent events: in order, within limits, and given back when the client is gone."""

import asyncio
import socket
from typing import Any

import msgspec
import pytest
from tests.frontends.http.browser import CUTS, PATIENCE_S, Browser, Place, cut, place

from penstock.frontends.http import server
from penstock.model.access import Grant
from penstock.testing import AsyncTestBroker

GROUP = "/v1/topics/orders/groups/billing"


class Events:
    """A stream, event by event."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser

    async def next(self) -> dict[str, str]:
        """The fields of the next event; none for a comment."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(PATIENCE_S):
            while True:
                line = (await self.browser.reader.readline()).decode().rstrip("\r\n")
                if line.startswith((":", "id: ", "event: ", "data: ")):
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif not line and fields:
                    return {name: value for name, value in fields.items() if name != ":"}

    async def message(self) -> Any:
        fields = await self.next()
        assert fields["event"] == "message"
        return msgspec.json.decode(fields["data"])


async def listen(http: Place, query: str = "as=text", headers: str = "") -> Events:
    browser = await http.browser()
    browser.send(f"GET {GROUP}/stream?{query} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n".encode())
    head = await asyncio.wait_for(browser.reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
    assert head.startswith(b"HTTP/1.1 200 "), head
    assert b"content-type: text/event-stream\r\n" in head
    events = Events(browser)
    assert await events.next() == {}
    return events


async def test_messages_are_pushed_in_order_and_acked_beside_the_stream(http: Place) -> None:
    events = await listen(http)
    for number in range(3):
        await http.broker.publish("orders", b"%d" % number, partition=0)

    messages = [await events.message() for _ in range(3)]
    receipts = [message["receipt"] for message in messages]
    acked = await http.ask("POST", f"{GROUP}/ack", {"receipts": receipts})

    assert [message["text"] for message in messages] == ["0", "1", "2"]
    assert [result["ok"] for result in acked.json["results"]] == [True] * 3
    assert (await http.broker.describe_group("orders", "billing")).lag == 0


async def test_no_more_is_pushed_than_may_be_unanswered(http: Place) -> None:
    for number in range(3):
        await http.broker.publish("orders", b"%d" % number, partition=0)
    events = await listen(http, "max_in_flight=2&as=text")
    first = await events.message()
    await events.message()
    assert (await http.broker.describe_group("orders", "billing")).in_flight == 2

    await http.ask("POST", f"{GROUP}/ack", {"receipt": first["receipt"]})

    assert (await events.message())["text"] == "2"


@pytest.mark.parametrize("way", CUTS)
async def test_a_client_that_is_gone_gives_back_what_it_held_and_counts_an_attempt(
    http: Place, way: str
) -> None:
    await http.broker.publish("orders", b"x")
    events = await listen(http)
    message = await events.message()

    cut(events.browser, way)
    while (await http.broker.describe_group("orders", "billing")).consumers:
        await http.turn()

    [again] = (await http.ask("POST", f"{GROUP}/receive", {})).json["messages"]
    assert (again["id"], again["attempt"]) == (message["id"], 2)
    assert (await http.ask("POST", f"{GROUP}/ack", {"receipt": message["receipt"]})).code == "LEASE_LOST"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux has a time for it")
async def test_a_client_that_reads_nothing_is_cut_and_gives_back_what_it_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "UNREAD_MS", 200)
    async with place() as http:
        events = await listen(http, "max_in_flight=1000")
        events.browser.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(200):
            await http.broker.publish("orders", b"x" * 100_000, partition=0)

        async with asyncio.timeout(PATIENCE_S):
            while (await http.broker.describe_group("orders", "billing")).consumers:
                await http.turn()

        left = await http.broker.describe_group("orders", "billing")
        assert (left.delivered > 0, left.in_flight) == (True, 0)


async def test_a_comment_comes_when_nothing_else_does() -> None:
    broker = await AsyncTestBroker.open()
    async with place(broker=broker) as http:
        events = await listen(http)
        while not http.listener.shared.consumers._waits:
            await http.turn()

        await broker.advance("16s")

        assert await events.next() == {}


async def test_the_end_of_the_server_ends_a_stream(http: Place) -> None:
    await http.broker.publish("orders", b"x")
    events = await listen(http)
    await events.message()

    await asyncio.wait_for(http.listener.drain(), PATIENCE_S)

    assert (await events.browser.hear_end()).endswith(b"0\r\n\r\n")
    assert (await http.broker.describe_group("orders", "billing")).in_flight == 0


async def test_a_group_that_is_deleted_ends_its_stream_with_a_problem(http: Place) -> None:
    events = await listen(http)

    await http.broker.delete_group("orders", "billing")
    fields = await events.next()

    assert (fields["event"], msgspec.json.decode(fields["data"])["code"]) == ("problem", "CLOSED")


async def test_a_revoked_key_ends_its_stream() -> None:
    async with place(authentication=True) as http:
        made = await http.broker.create_key("mine", [Grant(role="consumer")])
        events = await listen(http, headers=f"authorization: Bearer {made.key}\r\n")

        await http.broker.revoke_key(made.id)
        while not (fields := await events.next()):
            pass

        assert msgspec.json.decode(fields["data"])["code"] == "UNAUTHENTICATED"


@pytest.mark.parametrize(
    "query", ["max_in_flight=0", "max_in_flight=1001", "visibility=soon", "as=xml", "x=y"]
)
async def test_a_stream_that_makes_no_sense_is_told_why(http: Place, query: str) -> None:
    answer = await http.ask("GET", f"{GROUP}/stream?{query}")

    assert (answer.status, answer.code in ("REQUEST_INVALID", "VALUE_INVALID")) == (400, True)
    assert not http.listener.shared.consumers._by_number


async def test_a_stream_of_a_topic_that_cannot_be_is_not_begun(http: Place) -> None:
    answer = await http.ask("GET", "/v1/topics/__new/groups/billing/stream")

    assert answer.code == "NAME_INVALID"
