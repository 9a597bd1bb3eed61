"""Publishing one message over HTTP."""

from typing import Any

import pytest
from tests.frontends.http.browser import Place

PUBLISH = "/v1/topics/orders/publish"


async def test_a_message_is_published_with_all_it_can_have(http: Place) -> None:
    answer = await http.ask(
        "POST",
        PUBLISH,
        {
            "key": "k", "value": "aGVsbG8=", "headers": {"a": "b"}, "priority": "high", "ttl": "1h",
            "dedup_id": "d-1", "partition": 1,
        },
    )  # fmt: skip

    [message] = await http.broker.peek("orders")
    assert answer.status == 200
    assert answer.json == {
        "id": "orders:1:0",
        "topic": "orders",
        "partition": 1,
        "offset": 0,
        "schedule_id": None,
        "timestamp": message.timestamp,
        "duplicate": False,
        "durability": "memory",
    }
    assert (message.key, message.value, message.priority) == (b"k", b"hello", "high")
    assert message.headers["a"] == "b"
    assert message.expires_at is not None


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (b'{"text": "gr\xc3\xbcn"}', "grün".encode()),
        (b'{"json": {"a":  [1, null]}}', b'{"a":  [1, null]}'),
        (b'{"json": null}', b"null"),
        (b'{"value": "AP8="}', b"\x00\xff"),
    ],
)
async def test_a_value_is_base64_or_text_or_json_as_it_was_written(
    http: Place, written: bytes, value: bytes
) -> None:
    answer = await http.ask("POST", PUBLISH, written)

    assert answer.status == 200
    assert [message.value for message in await http.broker.peek("orders")] == [value]


async def test_a_value_of_null_is_a_tombstone(http: Place) -> None:
    await http.ask("POST", PUBLISH, {"key": "k", "value": None})

    assert [message.is_tombstone for message in await http.broker.peek("orders")] == [True]


async def test_a_delayed_message_is_answered_with_its_schedule_id(http: Place) -> None:
    answer = await http.ask("POST", PUBLISH, {"text": "later", "delay": "5m"})

    [waiting] = await http.broker.scheduled("orders")
    assert answer.json["offset"] is None
    assert answer.json["schedule_id"] == answer.json["id"] == waiting.id


async def test_the_idempotency_key_is_the_dedup_id_of_a_message_without_one(http: Place) -> None:
    header = {"Idempotency-Key": "once"}

    first = await http.ask("POST", PUBLISH, {"text": "a", "key": "k"}, header)
    again = await http.ask("POST", PUBLISH, {"text": "a", "key": "k"}, header)
    other = await http.ask("POST", PUBLISH, {"text": "a", "key": "k", "dedup_id": "mine"}, header)

    assert (first.json["duplicate"], again.json["duplicate"], other.json["duplicate"]) == (False, True, False)
    assert again.json["id"] == first.json["id"] != other.json["id"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "REQUEST_INVALID"),
        ({"text": "a", "value": "aGk="}, 400, "REQUEST_INVALID"),
        ({"value": "no base64!"}, 400, "REQUEST_INVALID"),
        ({"text": 1}, 400, "REQUEST_INVALID"),
        ({"text": "a", "colour": "red"}, 400, "REQUEST_INVALID"),
        ({"text": "a", "priority": "soon"}, 400, "PRIORITY_UNKNOWN"),
        ({"text": "a", "delay": "-1s"}, 400, "VALUE_INVALID"),
        ({"text": "a", "delay": 1e12}, 400, "DELAY_OUT_OF_RANGE"),
        (b'{"text": "a", "deliver_at": 1e308}', 400, "VALUE_INVALID"),
        (b'{"text": "a", "deliver_at": 1' + b"0" * 400 + b"}", 400, "VALUE_INVALID"),
        (b'{"text": "a", "ttl": 1e308}', 400, "VALUE_INVALID"),
        ({"text": "a", "partition": -1}, 404, "PARTITION_NOT_FOUND"),
        ({"text": "a", "partition": 9}, 404, "PARTITION_NOT_FOUND"),
        ({"text": "a" * 2_000_000}, 413, "MESSAGE_TOO_LARGE"),
        ([], 400, "REQUEST_INVALID"),
        (b"{", 400, "REQUEST_INVALID"),
        (b"", 400, "REQUEST_INVALID"),
        (b"[" * 100_000, 400, "REQUEST_INVALID"),
        (b'{"text": "\xff"}', 400, "REQUEST_INVALID"),
        (b'{"text": "\\ud800"}', 400, "REQUEST_INVALID"),
    ],
)
async def test_a_message_that_cannot_be_published_is_told_why(
    http: Place, body: Any, status: int, code: str
) -> None:
    answer = await http.ask("POST", PUBLISH, body)

    assert (answer.status, answer.code) == (status, code)
    assert await http.broker.peek("orders") == []


@pytest.mark.parametrize("header", ["k", "with blanks", '"quoted"', "\xfc"])
async def test_a_delayed_message_is_published_once_by_its_idempotency_key(http: Place, header: str) -> None:
    key = {"Idempotency-Key": header}

    first = await http.ask("POST", PUBLISH, {"text": "a", "delay": "5m"}, key)
    again = await http.ask("POST", PUBLISH, {"text": "a", "delay": "5m"}, key)

    assert (first.json["duplicate"], again.json["duplicate"]) == (False, True)
    assert again.json["schedule_id"] == first.json["schedule_id"]
    assert len(await http.broker.scheduled("orders")) == 1


@pytest.mark.parametrize("header", ["", "x" * 10_000])
async def test_an_idempotency_key_that_is_no_dedup_id_is_refused_in_few_words(
    http: Place, header: str
) -> None:
    answer = await http.ask("POST", PUBLISH, {"text": "a"}, {"Idempotency-Key": header})

    assert (answer.status, answer.code) == (400, "VALUE_INVALID")
    assert answer.json["detail"].endswith("it is text of 1 to 200 characters")
    assert len(answer.body) < 2000
    assert await http.broker.depth("orders") == 0


async def test_requests_that_are_sent_at_once_are_answered_in_order(http: Place) -> None:
    browser = await http.browser()
    bodies = [f'{{"text": "{number}", "partition": 0}}' for number in range(20)]
    for body in bodies:
        head = f"POST {PUBLISH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        browser.send(f"{head}{body}".encode())

    answers = [await browser.hear() for _ in bodies]

    assert [answer.json["offset"] for answer in answers] == list(range(20))
