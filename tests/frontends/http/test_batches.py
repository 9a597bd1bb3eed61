"""Publishing many messages over HTTP, as a document or as lines."""

from typing import Any

import msgspec
import pytest
from tests.frontends.http.browser import Answer, Place, place

from penstock.config.server import LimitSettings
from penstock.frontends.http.handlers.messages.batches import TOGETHER_MAX

BATCH = "/v1/topics/orders/publish/batch"
LINES = {"content-type": "application/x-ndjson"}


async def publish(http: Place, *messages: Any, **headers: str) -> list[dict[str, Any]]:
    answer = await http.ask("POST", BATCH, {"messages": list(messages)}, headers)
    assert answer.status == 200, answer.body
    return list(answer.json["results"])


def lines_of(answer: Answer) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in answer.body.splitlines()]


def codes(results: list[dict[str, Any]]) -> list[str | None]:
    return [None if result["ok"] else result["problem"]["code"] for result in results]


async def test_each_message_has_its_result_in_order(http: Place) -> None:
    results = await publish(
        http,
        *({"text": str(number), "partition": number % 2} for number in range(4)),
        {"text": "x", "delay": "1h"},
    )

    assert [(result["partition"], result["offset"]) for result in results[:4]] == [
        (0, 0),
        (1, 0),
        (0, 1),
        (1, 1),
    ]
    assert "offset" not in results[4]
    assert results[4]["schedule_id"] == (await http.broker.scheduled("orders"))[0].id


async def test_an_answer_says_how_durable_it_is(http: Place) -> None:
    answer = await http.ask("POST", BATCH, {"messages": []})

    assert answer.json == {"durability": "memory", "results": []}


async def test_a_message_that_is_refused_keeps_no_other_out(http: Place) -> None:
    results = await publish(
        http,
        {"text": "a", "partition": 0},
        {"text": "b", "partition": 9},
        {"colour": "red"},
        {},
        {"text": "c", "partition": 0},
    )

    assert codes(results) == [None, "PARTITION_NOT_FOUND", "REQUEST_INVALID", "REQUEST_INVALID", None]
    assert [message.value for message in await http.broker.read("orders", partition=0)] == [b"a", b"c"]


async def test_more_than_are_published_at_once_stay_in_order(http: Place) -> None:
    many = 2 * TOGETHER_MAX + 1

    results = await publish(http, *({"text": str(number), "partition": 0} for number in range(many)))

    assert [result["offset"] for result in results] == list(range(many))
    assert (await http.broker.read("orders", partition=0, offset=many - 1))[0].value == b"%d" % (many - 1)


async def test_the_idempotency_key_and_the_number_are_the_dedup_id(http: Place) -> None:
    messages = [{"text": "a", "partition": 0}, {"text": "b", "partition": 0}]

    first = await publish(http, *messages, **{"idempotency-key": "once"})
    again = await publish(http, *messages, **{"idempotency-key": "once"})

    assert [result["offset"] for result in again] == [result["offset"] for result in first] == [0, 1]
    assert [result["duplicate"] for result in again] == [True, True]


async def test_lines_are_answered_line_by_line(http: Place) -> None:
    body = (
        b'{"text": "a", "partition": 0}\n\r\n  {"text": "b", "partition": 0}\r\n'
        b'{"te\n{"text": "c", "partition": 0}'
    )

    answer = await http.ask("POST", BATCH, body, LINES)

    assert (answer.status, answer.headers["content-type"]) == (200, "application/x-ndjson")
    assert codes(lines_of(answer)) == [None, None, "REQUEST_INVALID", None]
    assert [message.value for message in await http.broker.peek("orders")] == [b"a", b"b", b"c"]


async def test_lines_are_answered_while_others_are_still_sent(http: Place) -> None:
    browser = await http.browser()
    browser.send(
        f"POST {BATCH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\n"
        "transfer-encoding: chunked\r\n\r\n".encode()
    )
    browser.send(b'11\r\n{"text": "abc"}\n\n\r\n')
    head = await browser.reader.readuntil(b"\r\n\r\n")
    await browser.reader.readline()
    first = await browser.reader.readline()

    browser.send(b'10\r\n{"text": "def"}\n\r\n0\r\n\r\n')
    rest = await browser.reader.readuntil(b"\r\n0\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 200 ")
    assert msgspec.json.decode(first)["ok"]
    assert rest.count(b'"ok":true') == 1


async def test_lines_may_be_longer_together_than_a_body_that_is_read_whole() -> None:
    limits = msgspec.structs.replace(LimitSettings(), http_body_bytes_max=100)
    line = b'{"text": "0123456789", "partition": 0}\n'
    async with place(limits) as http:
        lines = await http.ask("POST", BATCH, line * 50, LINES)
        whole = await http.ask("POST", BATCH, line * 50)

        assert codes(lines_of(lines)) == [None] * 50
        assert (whole.status, whole.code) == (413, "REQUEST_TOO_LARGE")


async def test_a_line_that_never_ends_is_refused_while_it_arrives() -> None:
    limits = msgspec.structs.replace(LimitSettings(), http_body_bytes_max=100)
    async with place(limits) as http:
        browser = await http.browser()
        browser.send(
            f"POST {BATCH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\n"
            "content-length: 1000000\r\n\r\n".encode()
            + b" " * 1000
        )

        answer = await browser.hear()

        assert codes(lines_of(answer)) == ["REQUEST_TOO_LARGE"]


async def test_lines_that_stop_coming_end_the_connection() -> None:
    async with place(msgspec.structs.replace(LimitSettings(), http_timeout_ms=20)) as http:
        browser = await http.browser()
        browser.send(
            f"POST {BATCH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson\r\n"
            'content-length: 1000\r\n\r\n{"text": "abc"}\n'.encode()
        )

        try:
            heard = await browser.hear_end()
        except ConnectionResetError:
            heard = b""

        assert not heard.endswith(b"0\r\n\r\n")
        assert len(await http.broker.peek("orders")) == 1


async def test_a_full_topic_refuses_all_that_came_together(http: Place) -> None:
    await http.broker.create_topic("small", depth_max=1)
    await http.broker.create_group("small", "billing")

    answer = await http.ask("POST", "/v1/topics/small/publish/batch", {"messages": [{"text": "a"}] * 2})

    assert codes(answer.json["results"]) == ["QUEUE_FULL", "QUEUE_FULL"]


@pytest.mark.parametrize(
    ("path", "body", "headers", "code"),
    [
        ("/v1/topics/__new/publish/batch", {"messages": []}, {}, "NAME_INVALID"),
        ("/v1/topics/__new/publish/batch", b"{}", LINES, "NAME_INVALID"),
        (BATCH, {}, {}, "REQUEST_INVALID"),
        (BATCH, b"", {}, "REQUEST_INVALID"),
        (BATCH, b'{"messages": [', {}, "REQUEST_INVALID"),
        (BATCH, {"messages": {}}, {}, "REQUEST_INVALID"),
        (BATCH, b"a", {"content-type": "text/csv"}, "MEDIA_TYPE_UNSUPPORTED"),
    ],
)
async def test_a_batch_that_makes_no_sense_is_told_why(
    http: Place, path: str, body: Any, headers: dict[str, str], code: str
) -> None:
    assert (await http.ask("POST", path, body, headers)).code == code


async def test_no_lines_are_answered_with_none(http: Place) -> None:
    answer = await http.ask("POST", BATCH, b"\n\n", LINES)

    assert (answer.status, answer.body) == (200, b"")
