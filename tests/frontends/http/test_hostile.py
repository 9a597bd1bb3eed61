"""Whatever arrives, it is answered or cut, costs little, and disturbs nobody."""

import asyncio
import json
from random import Random

import msgspec
import pytest
from tests.frontends.http.browser import PATIENCE_S, Browser, Place, place

from penstock.config.server import LimitSettings

PUBLISH = "/v1/topics/orders/publish"
GROUP = "/v1/topics/orders/groups/billing"
HEAD = f"POST {PUBLISH} HTTP/1.1\r\nhost: localhost\r\n"
HELD = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n"


# Bodies.


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"}", b"nonsense", b"[]", b"null", b'"text"', b"5", b'{"text": "a"} {"text": "b"}',
        b'{"text": }', b"\xff\xfe", b'{"text": "\xff"}', b'\xef\xbb\xbf{"text": "a"}',
        b'{"text": "\\ud800"}', b"{'text': 'a'}",
        b'{"text": NaN}', b'{"json": NaN}', b'{"json": {"a": 01}}', b'{"priority": 1e999, "text": "a"}',
        b'{"text": "a", "partition": 99999999999999999999999999}', b'{"text": "a", "partition": 0.5}',
        b'{"text": "a", "headers": {"a": 1}}', b'{"text": "a", "headers": []}', b'{"text": "a", "TEXT": "b"}',
        b'{"value": "%%%%"}', b'{"value": "YQ"}', b'{"value": "YQ==YQ=="}',
        b'{"value": "Y\\u0000=="}', b'{"value": 5}',
        b'{"text": "a", "value": "YQ=="}', b'{"text": null}', b'{"text": "a", "delay": "5 parsecs"}',
        b'{"text": "a", "ttl": -1}', b'{"text": "a", "deliver_at": "yesterday"}',
        b'{"json": ' + b"[" * 100_000,
        b'{"json": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}", b"",
    ],
    ids=lambda body: repr(body[:40]),
)  # fmt: skip
async def test_a_body_that_is_no_message_is_refused_and_publishes_nothing(http: Place, body: bytes) -> None:
    answer = await http.ask("POST", PUBLISH, body)

    assert 400 <= answer.status < 500, answer.body
    assert answer.code in (
        "REQUEST_INVALID", "VALUE_INVALID", "MESSAGE_EXPIRED", "PARTITION_NOT_FOUND", "PRIORITY_UNKNOWN",
    )  # fmt: skip
    assert await http.broker.depth("orders") == 0
    assert (await http.ask("POST", PUBLISH, {"text": "a"})).status == 200


@pytest.mark.parametrize("nested", [b"[" * 500 + b"]" * 500, b'{"a":' * 500 + b"1" + b"}" * 500])
async def test_json_may_be_as_deep_as_can_be_read_again(http: Place, nested: bytes) -> None:
    answer = await http.ask("POST", PUBLISH, b'{"json": ' + nested + b"}")
    shown = await http.ask("GET", "/v1/topics/orders/messages?last=1&as=json")

    assert (answer.status, shown.status) == (200, 200)
    assert json.loads(shown.body)["messages"][0]["json"] == json.loads(nested)


# Heads.


@pytest.mark.parametrize(
    "request_",
    [
        b"CONNECT a:1 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /v1/dead-letters?topic=\xff HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /livez HTTP/1.1\nhost: localhost\n\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        HELD + b"x: a\x00b\r\n\r\n",
        HELD + b"x: a\r\n b\r\n\r\n",
        HELD + b"x : a\r\n\r\n",
        HELD + b": a\r\n\r\n",
        # Two servers may not see different requests in the same bytes.
        HEAD.encode() + b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD.encode() + b"content-length: 4\r\ncontent-length: 5\r\n\r\nabcde",
        HEAD.encode() + b"content-length: -1\r\n\r\n",
        HEAD.encode() + b"content-length: 1_0\r\n\r\n",
        HEAD.encode() + b"content-length: 99999999999999999999999\r\n\r\n",
        HEAD.encode() + b"transfer-encoding: gzip\r\n\r\n",
        HEAD.encode() + b"transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        HEAD.encode() + b"transfer-encoding: chunked\r\n\r\nzz\r\n",
        HEAD.encode() + b"transfer-encoding: chunked\r\n\r\n-1\r\n",
    ],
    ids=lambda request: repr(request[-40:]),
)
async def test_a_request_that_can_be_read_in_two_ways_is_read_in_none(
    http: Place, request_: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    browser = await http.browser()
    browser.send(request_)

    answer = await browser.hear()

    assert (answer.status, answer.code) == (400, "REQUEST_INVALID")
    assert answer.headers["connection"] == "close"
    assert await browser.hear_end() == b""
    assert await http.broker.depth("orders") == 0
    assert not caplog.records  # Or whoever likes could fill the disk.


SMALL = msgspec.structs.replace(LimitSettings(), http_head_bytes_max=2000)


@pytest.mark.parametrize(
    "begun",
    [HELD + b"x: ", HELD, b"GET /", b"GET /livez?", b"\r\n" * 1000],
    ids=["value", "name", "path", "query", "nothing"],
)
async def test_a_head_that_does_not_end_is_refused_while_it_arrives(begun: bytes) -> None:
    async with place(SMALL) as http:
        browser = await http.browser()
        browser.send(begun)
        await browser.writer.drain()
        filling = b"\r\n" if begun.startswith(b"\r\n") else b"a"
        with pytest.raises(ConnectionError):
            async with asyncio.timeout(PATIENCE_S):
                while True:  # Until nobody reads it any more.
                    browser.send(filling * 5000)
                    await browser.writer.drain()

        [connection] = http.listener.state.connections or [None]
        assert connection is None or connection.transport.is_closing()


async def test_a_head_that_is_too_long_in_small_pieces_is_told_so() -> None:
    async with place(SMALL) as http:
        browser = await http.browser()
        browser.send(HELD + b"x: ")
        for _ in range(30):
            browser.send(b"a" * 100)
            await browser.writer.drain()
            await http.ask("GET", "/livez")  # By now it has been read.

        answer = await browser.hear()

        assert (answer.status, answer.code) == (413, "REQUEST_TOO_LARGE")


async def test_many_requests_that_are_sent_at_once_are_no_long_head() -> None:
    async with place(SMALL) as http:
        browser = await http.browser()
        one = HEAD.encode() + b'content-length: 13\r\n\r\n{"text": "a"}'
        browser.send(one * 200 + HELD + b"x: y")
        answers = [await browser.hear() for _ in range(200)]
        browser.send(b"\r\n\r\n")

        assert {answer.status for answer in answers} == {200}
        assert (await browser.hear()).status == 200


async def test_what_follows_a_body_in_chunks_is_no_header(http: Place) -> None:
    browser = await http.browser()
    chunks = b'd\r\n{"text": "a"}\r\n0\r\nhost: evil.com\r\nidempotency-key: k\r\n\r\n'
    for _ in range(2):
        browser.send(HEAD.encode() + b"transfer-encoding: chunked\r\n\r\n" + chunks)

    answers = [await browser.hear() for _ in range(2)]

    assert [(answer.status, answer.json["duplicate"]) for answer in answers] == [(200, False)] * 2


async def test_a_client_that_asks_before_it_sends_is_told_before_it_does(http: Place) -> None:
    browser = await http.browser()
    browser.send(HEAD.encode() + b"expect: 100-continue\r\ncontent-length: 13\r\n\r\n")
    assert await browser.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    browser.send(b'{"text": "a"}')
    assert (await browser.hear()).status == 200

    browser.send(HEAD.encode() + b"expect: 100-continue\r\ncontent-length: 999999999\r\n\r\n")

    assert (await browser.hear()).code == "REQUEST_TOO_LARGE"


# Paths.


@pytest.mark.parametrize(
    "path",
    [
        "/v1/topics/..%2f..%2fetc%2fpasswd", "/v1/topics/%2e%2e/orders",
        "/v1/topics/orders/../orders", "/v1//topics",
        "/ui/../serve.py", "/ui/..%2f..%2ferrors.py", "/ui/%2e%2e/errors.py", "/ui//etc/passwd", "/ui/%00",
        "/docs/../v1/topics", "*", "/%", "/v1/topics%3f", "/v1;/topics", "/V1/topics",
    ],
)  # fmt: skip
async def test_a_path_leads_nowhere_but_to_its_route(http: Place, path: str) -> None:
    answer = await http.ask("GET", path)

    assert (answer.status, answer.code) == (404, "ROUTE_NOT_FOUND")


@pytest.mark.parametrize("method", ["HEAD", "TRACE", "PURGE", "PROPFIND", "PATCH", "QUERY"])
async def test_a_method_that_is_not_there_does_nothing(http: Place, method: str) -> None:
    answer = await http.ask(method, PUBLISH, {"text": "a"})

    assert answer.status == 405
    assert await http.broker.depth("orders") == 0


# Time.


@pytest.mark.parametrize("request_", [HELD + b"x: " + b"y" * 10_000, HEAD.encode() + b"x: " + b"y" * 10_000])
async def test_a_head_has_one_time_for_all_of_it_however_often_a_byte_comes(request_: bytes) -> None:
    async with place(msgspec.structs.replace(LimitSettings(), http_timeout_ms=100)) as http:
        browser = await http.browser()

        async def dribble() -> None:
            for byte in request_:
                browser.send(bytes([byte]))
                await browser.writer.drain()
                await http.ask("GET", "/livez")

        dribbling = asyncio.ensure_future(dribble())
        answer = await browser.hear()
        dribbling.cancel()

        assert (answer.status, answer.code) == (408, "REQUEST_TIMEOUT")


@pytest.mark.slow
async def test_a_body_that_keeps_coming_is_waited_for() -> None:
    async with place(msgspec.structs.replace(LimitSettings(), http_timeout_ms=1000)) as http:
        browser = await http.browser()
        body = b'{"text": "' + b"a" * 50 + b'"}'
        browser.send(HEAD.encode() + b"content-length: %d\r\n\r\n" % len(body))
        started = asyncio.get_running_loop().time()
        for position in range(len(body)):  # Each within the time, all together not.
            await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=0.025)
            browser.send(body[position : position + 1])

        answer = await browser.hear()

        assert asyncio.get_running_loop().time() - started > 1
        assert answer.status == 200


async def test_connections_that_say_nothing_make_room_for_others() -> None:
    limits = msgspec.structs.replace(LimitSettings(), http_timeout_ms=50)
    async with place(limits, connections=5) as http:
        silent = [await http.browser() for _ in range(5)]
        for browser in silent:
            assert (await browser.hear()).code == "REQUEST_TIMEOUT"
            await browser.close()
        while http.listener.connections.count:
            await http.listener.emptied.wait()
            http.listener.emptied.clear()

        assert (await http.ask("GET", "/livez")).status == 200


# Noise.

PIECES = [
    HELD, HEAD.encode(), b"\r\n", b"\r\n\r\n", b"content-length: 13\r\n", b"transfer-encoding: chunked\r\n",
    b'{"text": "a"}', b"d\r\n", b"0\r\n\r\n", b"connection: upgrade\r\nupgrade: websocket\r\n", b"\x00",
    b"\xff", b"expect: 100-continue\r\n",
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
    f"GET {GROUP}/ws HTTP/1.1\r\nhost: localhost\r\n".encode(), f"GET {GROUP}/stream HTTP/1.1\r\n".encode(),
    b"\x81\x85\x00\x00\x00\x00hello", b"\x88\x80\x00\x00\x00\x00",
    f"POST {GROUP}/receive HTTP/1.1\r\n".encode(),
]  # fmt: skip


async def disturb(browser: Browser, random: Random) -> bytes:
    """Requests, halves of requests and noise; what came back."""
    for _ in range(random.randint(1, 8)):
        piece = random.choice([*PIECES, random.randbytes(random.randint(0, 200))])
        browser.send(piece if random.random() < 0.8 else piece[: random.randint(0, len(piece))])
    if random.random() < 0.5:
        browser.writer.transport.abort()
        return b""
    browser.writer.write_eof()
    try:
        return await browser.hear_end()
    except ConnectionError:
        return b""


@pytest.mark.parametrize("seed", range(20))
async def test_no_bytes_of_one_client_disturb_another(
    http: Place, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    random = Random(seed)
    other = await http.browser()
    for _ in range(10):
        told = await disturb(await http.browser(), random)
        assert b"HTTP/1.1 5" not in told

    assert (await other.ask("POST", PUBLISH, {"text": "a"})).status == 200
    async with asyncio.timeout(PATIENCE_S):
        while http.listener.connections.count > 1:
            await http.listener.emptied.wait()
            http.listener.emptied.clear()
    while http.listener.state.tasks:
        await asyncio.wait(http.listener.state.tasks)
    assert not caplog.records


# Something that is no HTTP, behind requests that are.

LISTED = b"GET /v1/topics HTTP/1.1\r\nhost: localhost\r\n\r\n"
PUBLISHED = (
    f"POST {PUBLISH} HTTP/1.1\r\nhost: localhost\r\n"
    'content-type: application/json\r\ncontent-length: 12\r\n\r\n{"text":"a"}'
).encode()
SPOILED = (
    f"POST {PUBLISH} HTTP/1.1\r\nhost: localhost\r\n"
    "content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nZZZ\r\n"
).encode()


@pytest.mark.parametrize("requests", [[LISTED], [PUBLISHED], [LISTED, PUBLISHED, PUBLISHED, LISTED]])
@pytest.mark.parametrize("garbage", [b"GARBAGE\r\n\r\n", b"\x16\x03\x01\x02\x00", SPOILED])
async def test_requests_before_garbage_are_answered_and_nothing_is_logged(
    http: Place, requests: list[bytes], garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    browser = await http.browser()

    browser.send(b"".join(requests) + garbage)
    answers = [await browser.hear() for _ in requests]
    refusal = await browser.hear()

    assert [answer.status for answer in answers] == [200] * len(requests)
    assert (refusal.status, refusal.code) == (400, "REQUEST_INVALID")
    assert await browser.hear_end() == b""
    assert await http.broker.depth("orders") == requests.count(PUBLISHED)
    assert not caplog.records


async def test_a_request_that_waits_is_answered_before_the_garbage_behind_it(
    http: Place, caplog: pytest.LogCaptureFixture
) -> None:
    browser = await http.browser()
    body = b'{"wait": 60}'
    head = f"POST {GROUP}/receive HTTP/1.1\r\nhost: localhost\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"

    browser.send(head.encode() + body + b"GARBAGE\r\n\r\n")
    while not http.listener.shared.consumers._waits:
        await http.turn()
    await http.broker.publish("orders", b"here")
    answer, refusal = await browser.hear(), await browser.hear()

    assert [len(answer.json["messages"]), refusal.status] == [1, 400]
    assert not caplog.records
