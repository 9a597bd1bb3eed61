"""Values as JSON and as text: what is published, what is read, and what neither can be."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Self, TypedDict

import msgspec
import pytest

from penstock.errors import InvalidValue
from penstock.model.message import Message, StoredMessage
from penstock.testing import TestBroker
from penstock.wire.records import Record


@dataclass
class Line:
    title: str
    count: int = 1


@dataclass
class Order:
    id: int
    lines: list[Line]


class Struct(msgspec.Struct):
    id: int


class Typed(TypedDict):
    id: int


class Model:
    """With the methods of a pydantic model that count here, and an error like pydantic's."""

    def __init__(self, id: int) -> None:  # noqa: A002 - the name of the field.
        self.id = id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def model_dump_json(self) -> str:
        return json.dumps({"id": self.id})

    @classmethod
    def model_validate_json(cls, data: str | bytes) -> Self:
        found = json.loads(data)
        if not isinstance(found, dict) or not isinstance(found.get("id"), int):
            raise ModelError("input_value='secret'")
        return cls(found["id"])


class ModelError(ValueError):
    def errors(self) -> list[dict[str, Any]]:
        return [{"loc": ("id",), "msg": "Input should be a valid integer", "input": "secret"}]


def stored(value: bytes | None) -> StoredMessage:
    return StoredMessage("orders", 3, Record(7, 0, b"key", value, [], 0))


@pytest.mark.parametrize(
    ("value", "kind", "written"),
    [
        (Order(1, [Line("a book")]), Order, b'{"id":1,"lines":[{"title":"a book","count":1}]}'),
        (Struct(1), Struct, b'{"id":1}'),
        (Typed(id=1), Typed, b'{"id":1}'),
        (Model(1), Model, b'{"id": 1}'),
        ([Model(1), Model(2)], list[Model], b'[{"id": 1},{"id": 2}]'),
        ([Struct(1), None], list[Struct | None], b'[{"id":1},null]'),
        (datetime(2026, 1, 2, tzinfo=UTC), datetime, b'"2026-01-02T00:00:00Z"'),
        (Decimal("1.10"), Decimal, b'"1.10"'),
        (None, None, b"null"),
        ("", str, b'""'),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_an_object_is_published_as_json_and_read_as_its_type(value: Any, kind: Any, written: bytes) -> None:
    message = Message(json=value)

    assert message.value == written
    assert message.json(kind) == stored(message.value).json(kind) == value
    assert message.json() == json.loads(written)


def test_an_object_is_encoded_when_the_message_is_made() -> None:
    order = {"id": 1}
    message = Message(json=order)

    order["id"] = 2

    assert message.json() == {"id": 1}


def test_a_model_gets_the_value_as_it_is() -> None:
    class Raw(Model):
        @classmethod
        def model_validate_json(cls, data: str | bytes) -> Self:
            raise ModelError(repr(data)) if data != b'{ "id":  1 }' else KeyError("as it is")

    with pytest.raises(KeyError, match="as it is"):
        stored(b'{ "id":  1 }').json(Raw)


def test_text_is_utf_8() -> None:
    message = Message(text="zwei Bücher")

    assert message.value == "zwei Bücher".encode()
    assert message.text == stored(message.value).text == "zwei Bücher"
    assert (stored(None).text, Message(None, key="k").text) == ("", "")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({}, "empty"),
        ({"value": b"a", "text": "a"}, "value and text"),
        ({"value": None, "json": 1}, "value and json"),
        ({"json": None, "text": "a"}, "json and text"),
        ({"value": b"a", "json": 1, "text": "a"}, "value and json and text"),
    ],
    ids=["none", "value and text", "a tombstone and json", "null and text", "all"],
)
def test_exactly_one_of_value_json_and_text_is_given(given: dict[str, Any], shown: str) -> None:
    with pytest.raises(InvalidValue, match="give exactly one of value") as caught:
        Message(**given)

    assert caught.value.value == shown


@pytest.mark.parametrize(
    ("given", "name", "why"),
    [
        ({"json": object()}, "json", "objects of type object cannot be encoded"),
        ({"json": Model}, "json", "objects of type type cannot be encoded"),
        ({"json": {(1, 2): 3}}, "json", "tuple"),
        ({"json": "\ud800"}, "json", "surrogates"),
        ({"text": b"bytes"}, "text", "pass bytes as value"),
        ({"text": None}, "text", "pass bytes as value"),
        ({"text": "\ud800"}, "text", "surrogates"),
    ],
)
def test_what_is_no_json_or_text_is_refused(given: dict[str, Any], name: str, why: str) -> None:
    with pytest.raises(InvalidValue, match=why) as caught:
        Message(**given)

    assert caught.value.name == name


def test_an_endless_object_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(InvalidValue, match="recursion"):
        Message(json=endless)


@pytest.mark.parametrize(
    ("value", "kind", "why"),
    [
        (b'{"lines": []}', Order, "message orders:3:7 cannot be 'Order': .* missing required field `id`"),
        (b'{"id": "secret", "lines": []}', Order, r"Expected `int`, got `str` - at `\$.id`"),
        (b'{"id": "secret"}', Model, "'Model': id: Input should be a valid integer"),
        (b'[{"id": "secret"}]', list[Model], r"id: Input should be a valid integer - at `\$\[0\]`"),
        (b"secret", None, "message orders:3:7 cannot be 'JSON': JSON is malformed"),
        (b'{"secret": ', None, "truncated"),
        (b'"\xff"', None, "utf-8"),
        (b"", None, "empty"),
        (None, Order, "empty"),
        (b"\x00\x00\x00\x00\x05\x02", None, "Confluent's wire format .*read_values"),
        (b"\x00\x00\x00\x00\x05", None, "Confluent's wire format"),
        (b"\x00\x00\x00\x00\x05\x30", None, "Confluent's wire format"),  # The long 24 of Avro, and not a 0.
        (b'\x00\x00\x00\x00\x05{"id": "one"}', Struct, r"`\$.id`"),
        (b"1", Callable, "Callable"),
        (b"1", "Order", "Order"),
    ],
)
def test_a_value_that_is_not_of_the_type_says_where_and_never_what(value: Any, kind: Any, why: str) -> None:
    with pytest.raises(InvalidValue, match=why) as caught:
        stored(value).json(kind)

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("text", "kind"), [('{"id": 1}', Struct), ('[{"id": 1}]', list[Struct])])
def test_json_is_read_without_the_frame_of_confluents_serializer(text: str, kind: Any) -> None:
    plain, framed = Message(text=text), Message(b"\x00\x00\x00\x00\x05" + text.encode())

    assert framed.json(kind) == plain.json(kind)
    assert framed.json() == json.loads(text)


def test_a_value_that_is_not_utf_8_is_no_text() -> None:
    with pytest.raises(InvalidValue, match=r"message orders:3:7 cannot be 'text': .* \(byte 1\)"):
        _ = stored(b"a\xff").text
    with pytest.raises(InvalidValue, match="a message cannot be 'text'"):
        _ = Message(b"\xff").text


def test_every_way_to_publish_takes_objects_and_text(penstock: TestBroker) -> None:
    queue, news = penstock.queue("orders"), penstock.topic("news")

    queue.publish(json=1)
    penstock.publish("orders", text="2")
    penstock.publish_batch("orders", [Message(json=3), b"4"])
    penstock.producer().publish("orders", json=5)
    with penstock.transaction() as transaction:
        transaction.publish("orders", text="6")
    consumer = penstock.consumer("orders", group="g")
    consumer.ack(consumer.receive(), publish=[("orders", Message(json=7))])
    news.publish(text="8")
    penstock.schedule("news", cron="0 9 * * *", json={"at": "nine"})

    assert [message.json(int) for message in penstock.read("orders")] == [1, 2, 3, 4, 5, 6, 7]
    assert [message.text for message in penstock.peek("news")] == ["8"]
    penstock.advance("1d")
    assert penstock.read("news")[-1].json() == {"at": "nine"}
