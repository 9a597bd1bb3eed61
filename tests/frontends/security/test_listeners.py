"""The same permissions through every listener, and what each says to those who have none."""

import asyncio
import base64
from typing import Any

import pytest
from tests.frontends.native.peer import Peer
from tests.frontends.security.secured import PATIENCE_S, secured

from penstock import aio
from penstock.errors import (
    Forbidden,
    FrameTooLarge,
    LeaseLost,
    PenstockError,
    ProtocolViolation,
    QuotaExceeded,
    Unauthenticated,
)
from penstock.frontends.kqueue import opcodes as kqueue_opcodes
from penstock.frontends.native.commands import TABLE
from penstock.frontends.native.server import NativeListener
from penstock.model.access import Grant, Quota
from penstock.transport.frames import plain_frame
from penstock.wire import native
from penstock.wire.native_bodies import (
    Hello,
    OpenConsumer,
    OpenedConsumer,
    decode_body,
    decode_error_frame,
    encode_body,
)

# Native, by the client.


async def test_a_client_with_a_key_may_do_what_the_key_may() -> None:
    async with secured() as place:
        key = await place.key("producer", "orders")

        async with aio.connect(place.url, key=key) as broker:
            assert (await broker.publish("orders", b"two books")).offset == 0
            assert await broker.topics() == ["orders"]
            with pytest.raises(Forbidden, match=r"producer\) is not allowed to publish to topic invoices"):
                await broker.publish("invoices", b"bill")
            with pytest.raises(Forbidden, match="needs the consumer role"):
                await broker.consumer("orders")
            with pytest.raises(Forbidden, match="needs the admin role"):
                await broker.create_key("more", [Grant(role="admin")])


async def test_a_client_takes_its_key_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with secured() as place:
        monkeypatch.setenv("PENSTOCK_KEY", await place.key("reader"))

        async with aio.connect(place.url) as broker:
            assert await broker.topics() == ["invoices", "orders"]


async def test_a_user_comes_in_with_a_password() -> None:
    async with secured() as place:
        await place.broker.set_user("anna", "correct horse", [Grant(role="admin")])

        async with aio.connect(place.url, user="anna", password="correct horse") as broker:
            made = await broker.create_key("billing", [Grant(role="reader")], quota=Quota(connections=1))
            await broker.set_user("eve", "battery staple", [Grant(role="reader", topics=["orders"])])

            assert [info.name for info in await broker.keys()] == ["billing"]
            assert [info.name for info in await broker.users()] == ["anna", "eve"]
            await broker.revoke_key(made.id)
            await broker.delete_user("eve")
            assert await broker.keys() == []


@pytest.mark.parametrize("login", [{}, {"key": "pk_1_2"}, {"user": "anna", "password": "x"}], ids=repr)
async def test_a_client_without_a_valid_login_is_refused_at_once(login: Any) -> None:
    async with secured() as place:
        with pytest.raises(Unauthenticated):
            await aio.connect(place.url, **login).start()


async def test_a_client_whose_key_is_revoked_is_told_so() -> None:
    async with secured() as place:
        key = await place.key("consumer")
        async with aio.connect(place.url, key=key) as broker:
            await place.broker.publish("orders", b"two books")
            consumer = await broker.consumer("orders", group="billing")
            [message] = await consumer.receive()

            await place.broker.revoke_key(key.split("_")[1])

            with pytest.raises(Unauthenticated):
                await broker.topics()
            with pytest.raises((LeaseLost, Unauthenticated, PenstockError)):
                await message.ack()
            other = await place.broker.consumer("orders", group="billing")
            assert [again.value for again in await other.receive(wait=5)] == [b"two books"]  # Given back.


async def test_a_client_that_publishes_too_much_is_slowed_and_not_refused() -> None:
    async with secured() as place:
        key = await place.key("producer", quota=Quota(messages_per_second=10))
        async with aio.connect(place.url, key=key) as broker:
            await broker.publish_batch("orders", [b"x"] * 20)

            waiting = asyncio.get_running_loop().create_task(broker.publish("orders", b"later"))
            done, _ = await asyncio.wait([waiting], timeout=0.2)
            place.clock.move_to(place.clock.steady_ms() + 2000)

            assert not done
            assert (await waiting).offset is not None


async def test_publishes_that_a_quota_refuses_do_not_count_as_unanswered() -> None:
    async with secured() as place:
        key = await place.key("producer", quota=Quota(messages_per_second=10))
        async with aio.connect(place.url, key=key) as broker:
            await broker.publish_batch("orders", [b"x"] * 20)
            waiting = asyncio.get_running_loop().create_task(broker.publish("orders", b"too much"))
            await asyncio.wait([waiting], timeout=0.2)  # It is refused, and tried again later.
            place.clock.move_to(place.clock.steady_ms() + 2000)
            await waiting

        assert isinstance(place.listener, NativeListener)
        assert place.listener.shared.publish_bytes == 0


async def test_one_connection_too_many_is_refused() -> None:
    async with secured() as place:
        key = await place.key("reader", quota=Quota(connections=1))
        async with aio.connect(place.url, key=key):
            with pytest.raises(QuotaExceeded, match="1 connections"):
                await aio.connect(place.url, key=key).start()
        async with aio.connect(place.url, key=key) as broker:  # The first has left.
            await broker.topics()


# Native, byte by byte.


def hello(correlation: int = 1, **login: str) -> bytes:
    return encode_body(native.HELLO, correlation, Hello(versions=[1], client="test", **login))


async def last_words(peer: Peer) -> PenstockError:
    opcode, body = await peer.frame()
    assert opcode == native.ERROR
    assert await peer.rest() == b""
    return decode_error_frame(body)


async def test_nothing_is_done_before_the_login_is_answered() -> None:
    async with secured() as place:
        key = await place.key("admin")
        peer = await place.peer()

        peer.send(hello(key=key) + native.frame(native.PING, 2))

        assert isinstance(await last_words(peer), ProtocolViolation)


@pytest.mark.parametrize("opcode", sorted(set(TABLE) - {native.HELLO}))
async def test_no_command_is_done_for_a_stranger(opcode: int) -> None:
    async with secured() as place:
        peer = await place.peer()

        peer.send(encode_body(native.HELLO, 1, Hello(versions=[99], client="test")))  # It may be said again.
        assert (await peer.frame())[0] == native.ERROR
        peer.send(native.frame(opcode, 2))

        assert isinstance(await last_words(peer), ProtocolViolation)


async def test_a_stranger_sends_no_large_frames() -> None:
    async with secured() as place:
        peer = await place.peer()

        peer.send(bytes([native.HELLO]) + (1024 * 1024).to_bytes(4))
        peer.send(b"x" * 100)

        assert isinstance(await last_words(peer), FrameTooLarge)


async def test_a_stranger_who_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.frontends.framed.LOGIN_S", 0.05)
    async with secured() as place:
        peer = await place.peer()

        assert isinstance(await last_words(peer), Unauthenticated)


async def test_a_client_of_kqueue_is_refused_in_its_own_words() -> None:
    async with secured() as place:
        peer = await place.peer()

        peer.send(plain_frame(kqueue_opcodes.PUB, b'{"Topic":"orders","Payload":"x"}'))

        assert (await peer.rest()).startswith(b"ERR this server requires a login")
        assert await place.broker.depth("orders") == 0


async def test_a_consumer_is_resumed_by_nobody_but_its_owner() -> None:
    async with secured() as place:
        keys = [await place.key("consumer") for _ in range(2)]
        wish = OpenConsumer(topic="orders", group="billing")
        opened: list[OpenedConsumer] = []
        for key, token in ((keys[0], None), (keys[1], 0), (keys[0], 0)):
            peer = await place.peer()
            peer.send(hello(key=key))
            await peer.frame()
            resume = None if token is None else opened[token].token
            again = OpenConsumer(topic=wish.topic, group=wish.group, resume=resume)
            peer.send(encode_body(native.OPEN_CONSUMER, 2, again))
            _, body = await peer.frame()
            opened.append(decode_body(body, OpenedConsumer))

        assert [one.resumed for one in opened] == [False, False, True]


# Text.


async def test_the_text_protocol_asks_for_a_key() -> None:
    async with secured("text") as place:
        key = await place.key("producer", "orders")

        strange = await place.lines("PUB orders x", "TOPICS", "PING", "AUTH pk_1_2", "QUIT")
        known = await place.lines(
            f"AUTH {key}", "PUB orders x", "PUB invoices x", "SUB orders", "TOPICS", "QUIT"
        )

    words = "ERR You are not logged in: AUTH <key>, with a key that is valid here"
    assert strange == [words, words, "OK PONG", words, "OK Bye"]
    assert known[0] == "OK Welcome"
    assert known[1].startswith("OK Published orders:")
    assert "is not allowed to publish to topic invoices" in known[2]
    assert "needs the consumer role" in known[3]
    assert known[4:] == ["TOPIC orders 1", "OK END 1", "OK Bye"]


async def test_a_consumer_by_text_needs_no_right_to_make_topics_that_exist() -> None:
    async with secured("text") as place:
        key = await place.key("consumer")

        told = await place.lines(f"AUTH {key}", "SUB orders", "SUB missing", "QUIT")

    assert told[1] == "OK Subscribed to orders"
    assert "needs the admin role" in told[2]


async def test_a_text_connection_ends_with_its_key() -> None:
    async with secured("text") as place:
        key = await place.key("consumer")
        reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
        writer.write(f"AUTH {key}\n".encode())
        assert await reader.readline() == b"OK Welcome\n"

        await place.broker.revoke_key(key.split("_")[1])
        async with asyncio.timeout(PATIENCE_S):
            rest = await reader.read()

        writer.close()
        assert rest.startswith(b"ERR ")


async def test_a_text_stranger_who_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.frontends.text.server.LOGIN_S", 0.05)
    async with secured("text") as place:
        assert (await place.lines())[0].startswith("ERR You are not logged in")


# Status.


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (None, "401 Unauthorized"),
        ("Authorization: Bearer pk_1_2", "401 Unauthorized"),
        ("Authorization: Basic " + base64.b64encode(b"anna:wrong").decode(), "401 Unauthorized"),
        ("Authorization: Basic anna:wrong", "401 Unauthorized"),
        ("Authorization: Digest x", "401 Unauthorized"),
    ],
    ids=repr,
)
async def test_the_status_page_asks_for_a_key(header: str | None, status: str) -> None:
    async with secured("status") as place:
        told = await place.lines("GET /metrics HTTP/1.1", *([header] if header else []), "")

    assert told[0] == f"HTTP/1.1 {status}"
    assert "WWW-Authenticate: Bearer" in told
    assert "UNAUTHENTICATED" in told[-1]


async def test_the_status_page_tells_of_what_a_key_may_see() -> None:
    async with secured("status") as place:
        key = await place.key("reader", "orders")

        told = await place.lines("GET /metrics HTTP/1.1", f"authorization: bearer {key}", "")
        await place.broker.set_user("anna", "correct: horse", [Grant(role="reader")])
        basic = base64.b64encode(b"anna:correct: horse").decode()
        by_user = await place.lines("GET /metrics HTTP/1.1", f"Authorization: Basic {basic}", "")

    assert told[0] == by_user[0] == "HTTP/1.1 200 OK"
    assert "orders-0" in told[-1]
    assert "invoices" not in told[-1]
