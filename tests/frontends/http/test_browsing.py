"""Looking at messages over HTTP: by place, by time, the last ones, by key; and traces."""

from typing import Any

import pytest
from tests.frontends.http.browser import Place

from penstock.model.ids import message_uuid

MESSAGES = "/v1/topics/orders/messages"


async def offsets(http: Place, query: str) -> list[tuple[int, int]]:
    answer = await http.ask("GET", f"{MESSAGES}?{query}")
    assert answer.status == 200, answer.body
    return [(message["partition"], message["offset"]) for message in answer.json["messages"]]


@pytest.fixture
async def full(http: Place) -> Place:
    """Partition 0 has five messages, and partition 1 has two."""
    for number in range(7):
        await http.broker.publish("orders", b"%d" % number, partition=0 if number < 5 else 1)
    return http


async def test_messages_are_found_by_partition_offset_and_limit(full: Place) -> None:
    assert await offsets(full, "partition=0&offset=3") == [(0, 3), (0, 4)]
    assert await offsets(full, "partition=0&limit=2") == [(0, 0), (0, 1)]
    assert await offsets(full, "partition=1") == [(1, 0), (1, 1)]
    assert len(await offsets(full, "")) == 7


async def test_an_answer_says_where_to_go_on(full: Place) -> None:
    some = await full.ask("GET", f"{MESSAGES}?partition=0&limit=2")
    end = await full.ask("GET", f"{MESSAGES}?partition=0&offset=5")

    assert some.json["next_offset"] == 2
    assert end.json == {"messages": [], "next_offset": 5}


async def test_messages_are_found_by_time(full: Place) -> None:
    [first, *_] = await full.broker.read("orders", partition=0)
    later = (first.timestamp + 100_000) / 1000

    assert await offsets(full, f"from_time={later}") == []
    assert len(await offsets(full, "from_time=2020-01-01T00:00:00Z")) == 7
    assert (
        len(await offsets(full, "from_time=2020-01-01T00:00:00+00:00&to_time=2100-01-01T00:00:00%2B01:00"))
        == 7
    )
    assert await offsets(full, "to_time=2020-01-01T00:00:00Z") == []


async def test_the_last_messages_are_found(full: Place) -> None:
    assert await offsets(full, "last=2&partition=0") == [(0, 3), (0, 4)]


async def test_messages_are_found_by_key(full: Place) -> None:
    for number in range(3):
        await full.broker.publish("orders", b"%d" % number, key="ada")
        await full.broker.publish("orders", b"%d" % number, key="bob")

    found = await full.ask("GET", f"{MESSAGES}?key=ada")
    some = await full.ask("GET", f"{MESSAGES}?key=ada&limit=2")
    rest = await full.ask("GET", f"{MESSAGES}?key=ada&offset={some.json['next_offset']}")

    assert [message["key"] for message in found.json["messages"]] == ["ada"] * 3
    assert some.json["messages"] + rest.json["messages"] == found.json["messages"]


@pytest.mark.parametrize(
    ("value", "way", "shown"),
    [
        (b"hi", "base64", {"value": "aGk="}),
        (b"hi", "text", {"text": "hi"}),
        (b"\xff", "text", {"value": "/w=="}),
        (b'{"a": 1}', "json", {"json": {"a": 1}}),
        (b"hi", "json", {"text": "hi"}),
        (b"\xff", "json", {"value": "/w=="}),
        (b"[" * 5000, "json", {"text": "[" * 5000}),
        (None, "json", {"value": None}),
    ],
)
async def test_a_value_is_shown_as_it_was_asked_for_if_it_can_be(
    http: Place, value: bytes | None, way: str, shown: dict[str, Any]
) -> None:
    await http.broker.publish("orders", value, key="k")

    answer = await http.ask("GET", f"{MESSAGES}?as={way}")

    [message] = answer.json["messages"]
    assert {name: message[name] for name in ("value", "text", "json") if name in message} == shown


async def test_keys_and_headers_that_are_no_text_are_shown_all_the_same(http: Place) -> None:
    await http.broker.publish("orders", b"{}", key=b"\xff", headers={"a": b"\xfe"})

    [message] = (await http.ask("GET", f"{MESSAGES}?as=json")).json["messages"]

    assert (message["key"], message["key_base64"]) == (None, "/w==")
    assert message["headers"]["a"] == "\\udcfe"
    assert message["json"] == {}


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("partition=9", 404, "PARTITION_NOT_FOUND"),
        ("partition=0&offset=99", 416, "OFFSET_OUT_OF_RANGE"),
        ("offset=1", 400, "VALUE_INVALID"),
        ("limit=0", 400, "REQUEST_INVALID"),
        ("limit=all", 400, "REQUEST_INVALID"),
        ("limit=1&limit=2", 400, "REQUEST_INVALID"),
        ("colour=red", 400, "REQUEST_INVALID"),
        ("partition", 400, "REQUEST_INVALID"),
        ("as=xml", 400, "REQUEST_INVALID"),
        ("last=1&offset=1", 400, "REQUEST_INVALID"),
        ("last=1&key=a", 400, "REQUEST_INVALID"),
        ("from_time=yesterday", 400, "VALUE_INVALID"),
        ("from_time=nan", 400, "VALUE_INVALID"),
        ("from_time=1e308", 400, "VALUE_INVALID"),
        ("from_time=-1e308", 400, "VALUE_INVALID"),
        ("partition=99999999999999999999999", 400, "REQUEST_INVALID"),
        ("&".join(f"a{number}=1" for number in range(200)), 400, "REQUEST_INVALID"),
    ],
)
async def test_a_query_that_makes_no_sense_is_told_why(
    full: Place, query: str, status: int, code: str
) -> None:
    answer = await full.ask("GET", f"{MESSAGES}?{query}")

    assert (answer.status, answer.code) == (status, code)


async def test_a_message_tells_its_journey(full: Place) -> None:
    async with await full.broker.consumer("orders", group="billing", consumer_id="w-1") as consumer:
        [message] = await consumer.receive()
        await message.ack()

    answer = await full.ask("GET", f"/v1/trace/{message.id}")

    assert answer.json["id"] == message.id
    assert {"published", "delivered", "acked"} <= {event["event"] for event in answer.json["events"]}


@pytest.mark.parametrize("name", ["orders", "orders:0:99", "orders:9:0", "nothing:0:0", "::", "orders:0:x"])
async def test_a_message_that_is_not_there_has_no_journey(full: Place, name: str) -> None:
    answer = await full.ask("GET", f"/v1/trace/{name}")

    assert 400 <= answer.status < 500
    assert answer.code


async def test_a_message_is_traced_by_the_ids_of_other_clients(http: Place) -> None:
    await http.broker.publish("orders", b"a", partition=0, headers={"x-producer": "order-service"})

    answer = await http.ask("GET", f"/v1/trace/{message_uuid('orders', 0, 0)}")
    unknown = await http.ask("GET", f"/v1/trace/{message_uuid('nothing', 0, 0)}")
    by_kafka = await http.ask("GET", "/v1/trace/orders-0@0")

    assert (answer.status, answer.json["id"]) == (200, "orders:0:0")
    assert by_kafka.json == answer.json
    assert answer.json["events"][0]["detail"].endswith("by order-service")
    assert (unknown.status, unknown.code) == (400, "VALUE_INVALID")
