"""Values in Confluent's wire format, decoded for those who browse (``decode=true``)."""

import struct
from typing import Any

import pytest
from tests.frontends.http.browser import Place, place

from penstock.model.access import Grant
from penstock.model.schemas import NewSchema

ORDER = (
    '{"type": "record", "name": "Order", "fields": ['
    '{"name": "id", "type": "long"}, {"name": "total", "type": "double"}]}'
)
PROTO = 'syntax = "proto3"; message Order { string customer = 1; int32 count = 2; }'
LARGE = 2**62 + 1  # A double has fewer digits.


def framed(schema_id: int, data: bytes) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + data


def order(number: int, total: float) -> bytes:
    """An Order in Avro."""
    zigzag, digits = number << 1, bytearray()
    while zigzag > 0x7F:
        digits.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*digits, zigzag]) + struct.pack("<d", total)


async def typed(http: Place, schema: str = ORDER, kind: Any = "AVRO") -> int:
    """Give the topic orders a schema."""
    return (await http.broker.register_schema("orders-value", NewSchema(schema=schema, type=kind))).id


async def found(http: Place, query: str) -> list[Any]:
    answer = await http.ask("GET", f"/v1/topics/orders/messages?partition=0&{query}")
    assert answer.status == 200, answer.body
    messages: list[Any] = answer.json["messages"]
    return messages


@pytest.mark.parametrize("query", ["last=9", "offset=0", "key=k"])
async def test_a_value_is_decoded_by_its_schema_if_that_is_asked_for(http: Place, query: str) -> None:
    number = await typed(http)
    await http.broker.publish("orders", framed(number, order(LARGE, 2.5)), key="k", partition=0)

    [plain] = await found(http, query)
    [asked] = await found(http, f"{query}&decode=true")
    [document] = await found(http, f"{query}&decode=true&as=json")

    about = {"schema_id": number, "version": 1, "type": "AVRO"}
    assert "decoded" not in plain
    assert asked == {**plain, "decoded": {**about, "text": f'{{"id":{LARGE},"total":2.5}}'}}
    assert document["decoded"] == {**about, "json": {"id": LARGE, "total": 2.5}}


async def test_protobuf_values_are_decoded(http: Place) -> None:
    number = await typed(http, PROTO, "PROTOBUF")
    await http.broker.publish("orders", framed(number, b"\0\x0a\x04anna\x10\x02"), partition=0)

    [message] = await found(http, "decode=true&as=json")

    assert message["decoded"]["json"] == {"customer": "anna", "count": 2}
    assert message["decoded"]["type"] == "PROTOBUF"


async def test_values_that_name_no_schema_are_left_as_they_are(http: Place) -> None:
    before = framed(1, order(7, 1.0))
    await http.broker.publish("orders", before, partition=0)
    assert "decoded" not in (await found(http, "decode=true"))[0]  # The topic has no schema.

    number = await typed(http)
    for value in (b"hello", None, framed(number, b"")):
        await http.broker.publish("orders", value, key="k", partition=0)
    [first, text, tombstone, bad] = await found(http, "decode=true&as=text")

    assert first["decoded"]["text"] == '{"id":7,"total":1.0}'
    assert "decoded" not in text
    assert "decoded" not in tombstone
    assert bad["decoded"].keys() == {"schema_id", "version", "type", "problem"}
    assert "ends too early" in bad["decoded"]["problem"]


async def test_a_schema_that_the_topic_does_not_have_is_a_problem(http: Place) -> None:
    await typed(http)
    await http.broker.publish("orders", framed(77, order(7, 1.0)), partition=0)

    [message] = await found(http, "decode=true")

    assert message["decoded"] == {
        "schema_id": 77,
        "version": None,
        "type": None,
        "problem": "schema id 77 is not one of the subject's, whose latest are 1",
    }


async def test_what_json_cannot_say_is_text(http: Place) -> None:
    number = await typed(http)
    await http.broker.publish("orders", framed(number, order(1, float("nan"))), partition=0)

    [message] = await found(http, "decode=true&as=json")

    assert message["decoded"]["text"] == '{"id":1,"total":NaN}'
    assert "json" not in message["decoded"]


async def test_dead_letters_are_decoded_by_the_schemas_of_their_topic(http: Place) -> None:
    number = await typed(http)
    await http.broker.publish("orders", framed(number, order(7, 2.5)))
    async with await http.broker.consumer("orders") as consumer:
        [message] = await consumer.receive(wait="5s")
        await message.reject("no good")
    path = "/v1/topics/orders/dead-letters"

    [plain] = (await http.ask("GET", path)).json["dead_letters"]
    [listed] = (await http.ask("GET", f"{path}?decode=true&as=json")).json["dead_letters"]
    shown = (await http.ask("GET", f"{path}/{plain['message']['id']}?decode=true")).json

    assert "decoded" not in plain["message"]
    assert listed["message"]["decoded"]["json"] == {"id": 7, "total": 2.5}
    assert shown["message"]["decoded"]["text"] == '{"id":7,"total":2.5}'


async def test_who_may_read_the_topic_gets_its_values_decoded() -> None:
    async with place(authentication=True) as http:
        reader = await http.broker.create_key("reader", [Grant(role="reader", topics=["orders"])])
        producer = await http.broker.create_key("producer", [Grant(role="producer", topics=["orders"])])
        number = await typed(http)
        await http.broker.publish("orders", framed(number, order(7, 2.5)), partition=0)
        path = "/v1/topics/orders/messages?partition=0&decode=true"

        read = await http.ask("GET", path, None, {"authorization": f"Bearer {reader.key}"})
        refused = await http.ask("GET", path, None, {"authorization": f"Bearer {producer.key}"})

    assert read.json["messages"][0]["decoded"]["text"] == '{"id":7,"total":2.5}'
    assert refused.code == "FORBIDDEN"
