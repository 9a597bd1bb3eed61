"""Messages pushed over a WebSocket, and answered on it: with a client of others, and byte by byte."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from tests.frontends.http.browser import CUTS, PATIENCE_S, Browser, Place, cut, place
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode

from penstock.config.server import LimitSettings
from penstock.errors import PenstockError
from penstock.frontends.http.connections import sockets
from penstock.frontends.http.handlers.messages import websocket
from penstock.model.access import Grant, Quota

GROUP = "/v1/topics/orders/groups/billing"
HANDSHAKE = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
KEY = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"


class Client:
    """One WebSocket."""

    def __init__(self, inner: ClientConnection) -> None:
        self.inner = inner

    async def say(self, **frame: Any) -> None:
        await self.inner.send(msgspec.json.encode(frame).decode())

    async def hear(self) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            return msgspec.json.decode(await self.inner.recv())

    async def messages(self, count: int) -> list[Any]:
        found: list[Any] = []
        while len(found) < count:
            frame = await self.hear()
            assert frame["type"] == "messages", frame
            found += frame["messages"]
        return found

    async def end(self) -> tuple[int, str]:
        """The code and the reason with which the server closes."""
        with pytest.raises(ConnectionClosed):
            await self.hear()
        return self.inner.close_code or 0, self.inner.close_reason or ""


@asynccontextmanager
async def opened(http: Place, query: str = "as=text", key: str = "") -> AsyncIterator[Client]:
    header = {"authorization": f"Bearer {key}"} if key else {}
    url = f"ws://127.0.0.1:{http.port}{GROUP}/ws?{query}"
    async with connect(url, additional_headers=header, compression="deflate", proxy=None) as inner:
        yield Client(inner)


async def fill(http: Place, count: int) -> None:
    for number in range(count):
        await http.broker.publish("orders", b"%d" % number, partition=0)


def texts(messages: list[Any]) -> list[str]:
    return [message["text"] for message in messages]


def receipts(messages: list[Any]) -> list[str]:
    return [message["receipt"] for message in messages]


async def until_given_back(http: Place) -> None:
    """Every consumer is gone, and nothing is held."""
    async with asyncio.timeout(PATIENCE_S):
        while (await http.broker.describe_group("orders", "billing")).consumers:
            await http.turn()
    assert (await http.broker.describe_group("orders", "billing")).in_flight == 0
    assert not http.listener.shared.consumers._by_number


async def test_messages_are_pushed_in_order_and_acked_on_the_same_socket(http: Place) -> None:
    async with opened(http) as client:
        await fill(http, 3)
        messages = await client.messages(3)
        await client.say(type="ack", receipts=receipts(messages), id=7)
        answer = await client.hear()

    assert texts(messages) == ["0", "1", "2"]
    assert (answer["type"], answer["id"]) == ("answered", 7)
    assert [result["ok"] for result in answer["results"]] == [True] * 3
    assert (await http.broker.describe_group("orders", "billing")).lag == 0


async def test_a_socket_that_comes_and_goes_is_not_worth_a_line_of_the_log(
    http: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    browser = await upgraded(http)
    await browser.close()
    await until_given_back(http)

    assert {record.name for record in caplog.records} <= {"uvicorn.access"}  # That is off without pytest.


async def test_a_nack_a_reject_and_an_extend_do_what_the_requests_do(http: Place) -> None:
    await fill(http, 3)
    async with opened(http) as client:
        first, second, third = await client.messages(3)
        await client.say(type="extend", receipt=third["receipt"], duration="5m", id="x")
        await client.say(type="reject", receipt=second["receipt"], reason="no good", id="r")
        answers = {(await client.hear())["id"] for _ in range(2)}
        await client.say(type="nack", receipt=first["receipt"], delay=0, error="no price")
        [again] = await client.messages(1)

    assert answers == {"x", "r"}
    assert (again["id"], again["attempt"]) == (first["id"], 2)
    assert [letter.error for letter in await http.broker.dead_letters("orders")] == ["no good"]


async def test_a_frame_without_an_id_is_answered_only_if_it_failed(http: Place) -> None:
    await fill(http, 1)
    async with opened(http) as client:
        [message] = await client.messages(1)
        await client.say(type="ack", receipt=message["receipt"])
        await client.say(type="ack", receipt=message["receipt"])
        one = await client.hear()
        await client.say(type="ack", receipts=["none"])
        many = await client.hear()

    assert (one["type"], one["id"], one["problem"]["code"]) == ("problem", None, "ALREADY_SETTLED")
    assert (many["type"], many["results"][0]["problem"]["code"]) == ("answered", "RECEIPT_UNKNOWN")


async def test_no_more_is_pushed_than_may_be_unanswered(http: Place) -> None:
    await fill(http, 3)
    async with opened(http, "max_in_flight=2&as=text") as client:
        first, _ = await client.messages(2)
        assert (await http.broker.describe_group("orders", "billing")).in_flight == 2

        await client.say(type="ack", receipt=first["receipt"])

        assert texts(await client.messages(1)) == ["2"]


async def test_no_more_is_pushed_than_there_is_credit_for(http: Place) -> None:
    await fill(http, 6)
    async with opened(http, "credit=2&as=text") as client:
        first = await client.messages(2)
        await client.say(type="ack", receipts=receipts(first), id=1)
        assert (await client.hear())["id"] == 1  # And no message before it.
        assert (await http.broker.describe_group("orders", "billing")).in_flight == 0

        await client.say(type="credit", messages=1)
        await client.say(type="credit", messages=2)

        assert texts(first + await client.messages(3)) == ["0", "1", "2", "3", "4"]


async def test_nothing_is_pushed_before_the_first_credit(http: Place) -> None:
    await fill(http, 1)
    async with opened(http, "credit=0&as=text") as client:
        await client.say(type="ack", receipts=[], id=1)
        assert (await client.hear())["id"] == 1

        await client.say(type="credit", messages=1)

        assert texts(await client.messages(1)) == ["0"]


@pytest.mark.parametrize(
    "frame",
    [
        "", "{", "[]", "null", '"ack"', "{}", '{"type": "publish"}', '{"type": "ack", "x": 1}',
        '{"type": "credit", "messages": 1}', '{"type": "credit", "messages": -1}', b"\xff\x00", "[" * 100_000,
        '{"type": "ack"}', '{"type": "reject", "receipt": "a"}', '{"type": "extend", "receipt": 5}',
    ],
    ids=lambda frame: repr(frame)[:40],
)  # fmt: skip
async def test_a_frame_that_makes_no_sense_is_told_why_and_the_socket_goes_on(
    http: Place, frame: str | bytes
) -> None:
    async with opened(http) as client:
        await client.inner.send(frame)
        answer = await client.hear()
        await client.say(type="ack", receipts=[], id=1)

        assert (answer["type"], answer["problem"]["code"]) == ("problem", "REQUEST_INVALID")
        assert (await client.hear())["id"] == 1


async def test_messages_that_are_large_come_in_several_frames(http: Place) -> None:
    for size in (200_000, 100_000, 900_000, 10, 10):
        await http.broker.publish("orders", b"x" * size, partition=0)
    async with opened(http, "as=text") as client:
        frames = [await client.hear() for _ in range(4)]

    sizes = [[len(message["text"]) for message in frame["messages"]] for frame in frames]
    assert sizes == [[200_000], [100_000], [900_000], [10, 10]]


async def test_many_frames_at_once_are_all_answered(http: Place) -> None:
    count = 5 * websocket.FRAMES_MAX
    await fill(http, count)
    async with opened(http, f"as=text&max_in_flight={count}") as client:
        messages = await client.messages(count)
        for number, message in enumerate(messages):
            await client.say(type="ack", receipt=message["receipt"], id=number)
        answers = [await client.hear() for _ in messages]

    assert {answer["id"] for answer in answers} == set(range(count))
    assert all(answer["type"] == "answered" for answer in answers)
    assert (await http.broker.describe_group("orders", "billing")).lag == 0


# The end of a socket.


async def test_a_client_that_says_goodbye_gives_back_what_it_held(http: Place) -> None:
    await fill(http, 1)
    async with opened(http) as client:
        [message] = await client.messages(1)

    await until_given_back(http)
    [again] = (await http.ask("POST", f"{GROUP}/receive", {})).json["messages"]
    assert (again["id"], again["attempt"]) == (message["id"], 1)
    assert (await http.ask("POST", f"{GROUP}/ack", {"receipt": message["receipt"]})).code == "LEASE_LOST"
    assert http.listener.connections.count == len(http.listener.state.connections)


@pytest.mark.parametrize("way", CUTS)
@pytest.mark.parametrize("credit", ["", "&credit=1"])
async def test_a_client_that_vanishes_gives_back_what_it_held_at_once_and_counts_an_attempt(
    http: Place, way: str, credit: str
) -> None:
    await fill(http, 1)
    browser = await upgraded(http, f"as=text{credit}")
    await frame_of(browser)
    assert (await http.broker.describe_group("orders", "billing")).in_flight == 1

    cut(browser, way)

    await until_given_back(http)
    [again] = (await http.ask("POST", f"{GROUP}/receive", {})).json["messages"]
    assert again["attempt"] == 2


async def test_a_client_that_answers_no_pings_is_cut_and_gives_back_what_it_held(http: Place) -> None:
    http.listener.config.ws_ping_interval = 0.05
    http.listener.config.ws_ping_timeout = 0.05
    await fill(http, 1)
    browser = await upgraded(http, "as=text")

    rest = await browser.hear_end()  # It reads, and says nothing.

    assert b"\x89\x04" in rest  # A ping.
    await until_given_back(http)


@pytest.mark.slow
async def test_a_client_that_does_not_read_is_sent_no_more_than_fits_and_cut_in_the_end() -> None:
    async with place(msgspec.structs.replace(LimitSettings(), write_buffer_bytes_max=100_000)) as http:
        http.listener.config.ws_ping_interval = 0.1
        http.listener.config.ws_ping_timeout = 0.1
        for _ in range(200):
            await http.broker.publish("orders", b"x" * 100_000, partition=0)
        browser = await upgraded(http, "max_in_flight=1000")
        [connection] = http.listener.state.connections
        browser.writer.transport.pause_reading()  # type: ignore[attr-defined]
        while not connection.transport.get_write_buffer_size():
            await http.turn()

        kept = connection.transport.get_write_buffer_size()
        await until_given_back(http)

        assert kept < 100_000 + 2 * websocket.FRAME_BYTES
        assert http.listener.connections.count == len(http.listener.state.connections)


async def test_a_revoked_key_ends_its_socket_with_the_reason() -> None:
    async with place(authentication=True) as http:
        made = await http.broker.create_key("mine", [Grant(role="consumer")])
        await fill(http, 1)
        async with opened(http, key=made.key) as client:
            await client.messages(1)

            await http.broker.revoke_key(made.id)
            trouble = await client.hear()

            assert (trouble["type"], trouble["problem"]["code"]) == ("problem", "UNAUTHENTICATED")
            assert await client.end() == (4401, "UNAUTHENTICATED")
        await until_given_back(http)


async def test_a_deleted_group_ends_its_socket_with_the_reason(http: Place) -> None:
    async with opened(http) as client:
        await http.broker.delete_group("orders", "billing")

        assert (await client.hear())["problem"]["code"] == "CLOSED"
        assert await client.end() == (4503, "CLOSED")


async def test_the_end_of_the_server_answers_what_it_has_heard_and_closes_the_socket(http: Place) -> None:
    await fill(http, 1)
    async with opened(http) as client:
        [message] = await client.messages(1)
        await client.say(type="ack", receipt=message["receipt"], id=1)
        assert (await client.hear())["id"] == 1

        await asyncio.wait_for(http.listener.drain(), PATIENCE_S)

        assert (await client.end())[0] == 1012
    assert http.listener.connections.count == 0


async def test_a_server_about_to_end_opens_no_socket(http: Place) -> None:
    http.listener.shared.draining = True

    with pytest.raises(InvalidStatus) as refused:
        async with opened(http):
            pass

    assert refused.value.response.status_code == 503


async def test_a_client_that_does_not_say_goodbye_does_not_hold_up_the_end(
    http: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "CLOSE_S", 0.05)
    browser = await upgraded(http)

    await asyncio.wait_for(http.listener.drain(), PATIENCE_S)

    assert (await browser.hear_end())[:1] == b"\x88"


# Who may.


async def test_a_socket_needs_a_login_and_the_right_to_consume() -> None:
    async with place(authentication=True) as http:
        reader = await http.broker.create_key("reader", [Grant(role="reader")])
        told = []
        for key in ("", "pk_1_2", reader.key):
            with pytest.raises(InvalidStatus) as refused:
                async with opened(http, key=key):
                    pass
            problem = msgspec.json.decode(refused.value.response.body)
            told.append((refused.value.response.status_code, problem["code"]))

        assert told == [(401, "UNAUTHENTICATED")] * 2 + [(403, "FORBIDDEN")]


async def test_a_socket_counts_as_a_connection_of_its_key() -> None:
    async with place(authentication=True) as http:
        made = await http.broker.create_key("mine", [Grant(role="consumer")], quota=Quota(connections=1))
        async with opened(http, key=made.key):
            with pytest.raises(InvalidStatus) as refused:
                async with opened(http, key=made.key):
                    pass

        assert refused.value.response.status_code == 429
        assert refused.value.response.headers["content-type"] == "application/problem+json"
        async with opened(http, key=made.key) as again:
            await again.say(type="ack", receipts=[], id=1)
            assert (await again.hear())["id"] == 1


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        (f"{GROUP}/ws?max_in_flight=0", 400, "REQUEST_INVALID"),
        (f"{GROUP}/ws?credit=-1", 400, "REQUEST_INVALID"),
        (f"{GROUP}/ws?visibility=soon", 400, "VALUE_INVALID"),
        ("/v1/topics/__new/groups/billing/ws", 400, "NAME_INVALID"),
        ("/v1/topics", 404, "ROUTE_NOT_FOUND"),
        ("/ws", 404, "ROUTE_NOT_FOUND"),
    ],
)
async def test_a_socket_that_cannot_be_is_refused_with_a_problem(
    http: Place, path: str, status: int, code: str
) -> None:
    browser = await http.browser()
    browser.send(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n{HANDSHAKE}{KEY}\r\n".encode())

    answer = await browser.hear()

    assert (answer.status, answer.code) == (status, code)
    assert await browser.hear_end() == b""
    assert not http.listener.shared.consumers._by_number


# Byte by byte.


async def upgraded(http: Place, query: str = "as=text") -> Browser:
    """A socket whose client does nothing by itself."""
    browser = await http.browser()
    browser.send(f"GET {GROUP}/ws?{query} HTTP/1.1\r\nhost: localhost\r\n{HANDSHAKE}{KEY}\r\n".encode())
    answer = await browser.hear()
    assert (answer.status, answer.headers["sec-websocket-accept"]) == (101, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    return browser


async def frame_of(browser: Browser) -> bytes:
    """The next frame of the server, which is a short one."""
    async with asyncio.timeout(PATIENCE_S):
        first, length = await browser.reader.readexactly(2)
        assert first & 0x0F in (1, 8)
        size = int.from_bytes(await browser.reader.readexactly(2)) if length == 126 else length
        return await browser.reader.readexactly(size)


@pytest.mark.parametrize(
    "handshake",
    [
        "",
        HANDSHAKE,
        HANDSHAKE + "sec-websocket-key: short\r\n",
        HANDSHAKE + "sec-websocket-key: !\r\n",
        HANDSHAKE.replace("13", "12") + KEY,
        HANDSHAKE.replace("websocket\r\n", "h2c\r\n") + KEY,
    ],
)
async def test_a_request_that_asks_for_no_socket_is_told_to(http: Place, handshake: str) -> None:
    browser = await http.browser()
    browser.send(f"GET {GROUP}/ws HTTP/1.1\r\nhost: localhost\r\n{handshake}\r\n".encode())

    answer = await browser.hear()

    assert (answer.status, answer.code) == (426, "UPGRADE_REQUIRED")
    assert answer.headers["upgrade"] == "websocket"
    assert (await browser.ask("GET", "/livez")).status == 200  # The connection goes on.


async def test_a_head_with_too_many_headers_for_a_socket_is_told_so(http: Place) -> None:
    more = "".join(f"x-{number}: y\r\n" for number in range(300))
    browser = await http.browser()
    browser.send(f"GET {GROUP}/ws HTTP/1.1\r\nhost: localhost\r\n{HANDSHAKE}{KEY}{more}\r\n".encode())

    answer = await browser.hear()

    assert (answer.status, answer.code) == (400, "REQUEST_INVALID")
    assert await browser.hear_end() == b""


async def test_a_socket_asked_for_behind_a_request_that_waits_is_cut(http: Place) -> None:
    browser = await http.browser()
    body = b'{"wait": 60}'
    head = f"POST {GROUP}/receive HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
    browser.send(head.encode() + body)
    while not http.listener.shared.consumers._waits:
        await http.turn()

    browser.send(f"GET {GROUP}/ws HTTP/1.1\r\nhost: localhost\r\n{HANDSHAKE}{KEY}\r\n".encode())

    with pytest.raises((ConnectionError, AssertionError)):
        assert await browser.hear_end()
    while http.listener.state.tasks:
        await asyncio.wait(http.listener.state.tasks)


def masked(data: bytes, opcode: Opcode = Opcode.TEXT, *, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin=fin).serialize(mask=True)


EARLY = [
    masked(b"", Opcode.CLOSE),
    masked(b"", Opcode.PING),
    masked(b'{"type": "credit", "messages": 1}'),
    b"\x83\x80\x00\x00\x00\x00",
    b"GARBAGE",
]


@pytest.mark.parametrize("early", EARLY, ids=["close", "ping", "text", "no opcode", "garbage"])
@pytest.mark.parametrize("way", [None, *CUTS])
async def test_frames_that_come_before_the_handshake_is_answered_wait_for_it(
    early: bytes, way: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """A password takes its time to check, so the frames are there before the answer."""
    async with place(authentication=True) as http:
        await http.broker.set_user("ada", "correct horse battery", [Grant(role="admin")])
        login = b64encode(b"ada:correct horse battery").decode()
        asked = f"GET {GROUP}/ws HTTP/1.1\r\nhost: localhost\r\n{HANDSHAKE}{KEY}"
        asked += f"authorization: Basic {login}\r\n\r\n"
        browser = await http.browser()
        browser.send(asked.encode())
        while not http.listener.state.tasks:
            await http.turn()

        browser.send(early)
        if way is None:
            assert (await browser.hear()).status == 101
            await browser.close()
        else:
            cut(browser, way)
        while http.listener.state.tasks:
            await asyncio.wait(http.listener.state.tasks)

        assert not caplog.records
        assert not http.listener.shared.consumers._by_number


@pytest.mark.parametrize(
    ("noise", "code"),
    [
        (b"\x81\x05hello", 1002),  # Not masked.
        (b"\x83\x80\x00\x00\x00\x00", 1002),  # No such opcode.
        (b"\xc1\x80\x00\x00\x00\x00", 1002),  # Compressed, which was not agreed.
        (b"\x89\xfe\x00\x7e" + bytes(130), 1002),  # A ping that is too long.
        (b"\x80\x80\x00\x00\x00\x00", 1002),  # Goes on where nothing was begun.
        (masked(b"\xff"), 1007),  # No text.
        (b"\x81\xff\x00\x00\x00\x00\x7f\x00\x00\x00\x00\x00\x00\x00", 1009),  # 2 GB are coming.
        (masked(b"", fin=False) + masked(b"", Opcode.CONT, fin=False) * 2000, 1009),
        (masked(b"x" * 600_000, fin=False) + masked(b"x" * 600_000, Opcode.CONT), 1009),
    ],
    ids=[
        "unmasked", "opcode", "compressed", "ping", "continuation", "text", "announced", "fragments", "long",
    ],
)  # fmt: skip
async def test_what_is_no_websocket_is_closed_with_the_code_for_it(noise: bytes, code: int) -> None:
    async with place(msgspec.structs.replace(LimitSettings(), http_body_bytes_max=1_000_000)) as http:
        browser = await upgraded(http)
        browser.send(noise)

        told = await frame_of(browser)
        await browser.close()

        assert int.from_bytes(told[:2]) == code
        await until_given_back(http)


async def test_a_fault_of_the_server_is_logged_and_not_shown(
    http: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(websocket.HANDLERS, websocket.AckFrame, lambda _: 1 / 0)
    async with opened(http) as client:
        await client.say(type="ack", receipts=[], id=1)
        trouble = await client.hear()

    assert (trouble["id"], trouble["problem"]["code"]) == (1, PenstockError.code)
    assert "ZeroDivisionError" in caplog.text
