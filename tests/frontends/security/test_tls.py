"""TLS on every listener, and clients that look at the certificate."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.frontends.http.browser import Browser
from tests.frontends.native.peer import both_loops
from websockets.asyncio.client import connect

import penstock
from penstock import aio
from penstock.client.direct import DIRECT_MIN
from penstock.config.server import ListenSettings, SecuritySettings, ServerConfig, ServerSettings, TlsSettings
from penstock.errors import InvalidConfiguration, InvalidValue, ServerUnreachable
from penstock.frontends.security.tls import server_context
from penstock.frontends.serve import Server

# A pair that was made for these tests and is used nowhere else; it is good for localhost until 2126.
FOLDER = Path(__file__).parents[2] / "data" / "tls"
CERTIFICATE = str(FOLDER / "certificate.pem")
TLS = TlsSettings(certificate=CERTIFICATE, key=str(FOLDER / "key.pem"))
PATIENCE_S = 60


@asynccontextmanager
async def encrypted(**sections: Any) -> AsyncIterator[Server]:
    config = ServerConfig(
        server=ServerSettings(data=":memory:"),
        listen=ListenSettings(native="0", text="0", status="0", http="0", kafka="0"),
        **{"tls": TLS, **sections},
    )
    async with await Server.open(config) as server:
        await server.broker.create_topic("orders")
        yield server


def url(server: Server, host: str = "localhost") -> str:
    return f"penstocks://{host}:{server.addresses['native'][1]}"


async def said(server: Server, name: str, lines: str) -> str:
    """All that a listener says to these lines, through TLS."""
    context = ssl.create_default_context(cafile=CERTIFICATE)
    reader, writer = await asyncio.open_connection(*server.addresses[name], ssl=context)
    writer.write(lines.encode())
    async with asyncio.timeout(PATIENCE_S):
        heard = await reader.read()
    writer.close()
    return heard.decode()


@both_loops
async def test_a_client_that_trusts_the_certificate_works_as_without() -> None:
    async with encrypted() as server, aio.connect(url(server), ca=CERTIFICATE) as broker:
        receipts = await broker.publish_batch("orders", [b"x" * 100_000 for _ in range(50)])
        consumer = await broker.consumer("orders")
        messages = await consumer.receive(max_messages=50)
        await consumer.ack(messages)

        assert len(receipts) == 50
        assert {message.value for message in messages} == {b"x" * 100_000}
        assert await broker.depth("orders", "default") == 50 - len(messages)


@both_loops
async def test_lone_publishes_are_encrypted_too() -> None:
    def publish(to: str) -> bool:
        with penstock.connect(to, ca=CERTIFICATE) as broker:
            ids = {broker.publish("orders", b"x").id for _ in range(2 * DIRECT_MIN)}
            assert len(ids) == 2 * DIRECT_MIN
            return broker._direct.channel is not None

    async with encrypted() as server:
        assert await asyncio.to_thread(publish, url(server))


@both_loops
async def test_text_and_status_are_encrypted_too() -> None:
    async with encrypted() as server:
        assert await said(server, "text", "PING\nQUIT\n") == "OK PONG\nOK Bye\n"
        status = await said(server, "status", "GET /metrics HTTP/1.1\r\n\r\n")

    assert status.startswith("HTTP/1.1 200 OK")
    assert "orders-0" in status


@both_loops
async def test_http_is_encrypted_too_and_so_are_its_websockets() -> None:
    async with encrypted() as server:
        context = ssl.create_default_context(cafile=CERTIFICATE)
        host, port = server.addresses["http"]
        browser = Browser(*await asyncio.open_connection(host, port, ssl=context))
        large = {"text": "x" * 500_000}
        published = [await browser.ask("POST", "/v1/topics/orders/publish", large) for _ in range(3)]
        socket = f"wss://localhost:{port}/v1/topics/orders/groups/billing/ws?as=text"
        async with connect(socket, ssl=context, proxy=None) as pushed:
            frames = [json.loads(await pushed.recv()) for _ in range(3)]
            held = await server.broker.describe_group("orders", "billing")
            pushed.transport.abort()  # Without a word.
        while (await server.broker.describe_group("orders", "billing")).consumers:
            await browser.ask("GET", "/livez")
        received = await browser.ask("POST", "/v1/topics/orders/groups/billing/receive", {"max_messages": 3})
        await browser.close()

    assert [answer.status for answer in published] == [200] * 3
    assert [len(frame["messages"][0]["text"]) for frame in frames] == [500_000] * 3
    assert held.in_flight == 3
    assert [message["attempt"] for message in received.json["messages"]] == [2] * 3, (
        "a lost connection counts"
    )


@both_loops
@pytest.mark.parametrize("name", ["http", "status", "native", "text", "kafka"])
async def test_who_speaks_http_without_tls_is_told_so_and_harms_nobody(name: str) -> None:
    async with encrypted() as server:
        plain = Browser(*await asyncio.open_connection(*server.addresses[name]))
        plain.send(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")

        heard = await plain.hear_end()
        assert heard.startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert b"This port uses TLS; connect with https://" in heard
        await plain.close()
        assert "200 OK" in await said(
            server, "http", "GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        )


@both_loops
async def test_a_handshake_may_arrive_in_pieces() -> None:
    outgoing = ssl.MemoryBIO()
    hello = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        hello.do_handshake()
    first_flight = outgoing.read()
    async with encrypted() as server:
        slow = Browser(*await asyncio.open_connection(*server.addresses["http"]))
        slow.send(first_flight[:1])
        assert "PONG" in await said(server, "text", "PING\nQUIT\n")  # Time in which the byte is looked at.
        slow.send(first_flight[1:])

        async with asyncio.timeout(PATIENCE_S):
            assert await slow.reader.read(2) == b"\x16\x03"
        await slow.close()


@both_loops
async def test_last_words_arrive(caplog: pytest.LogCaptureFixture) -> None:
    async with encrypted(security=SecuritySettings(authentication=True)) as server:
        status = await said(server, "status", "GET /metrics HTTP/1.1\r\n\r\nand something that is not read")
        no_http = await said(server, "http", "HELLO\r\n\r\nand something that is not read")
        too_long = await said(server, "http", f"GET /{'a' * 100_000} HTTP/1.1\r\n\r\n")
        with pytest.raises(Exception, match="UNAUTHENTICATED"):
            await aio.connect(url(server), ca=CERTIFICATE, key="pk_1_2").start()

    assert status.startswith("HTTP/1.1 401")
    assert no_http.startswith("HTTP/1.1 400")
    assert too_long.startswith("HTTP/1.1 413")
    assert "has no effect when using ssl" not in caplog.text


async def test_a_certificate_that_nobody_vouches_for_is_refused() -> None:
    async with encrypted() as server:
        with pytest.raises(ServerUnreachable, match=r"certificate is not trusted .*PENSTOCK_CA names one"):
            await aio.connect(url(server)).start()


async def test_a_certificate_for_another_name_is_refused() -> None:
    async with encrypted() as server:
        host = "127.0.0.2"  # The same machine, and not in the certificate.
        listening = await asyncio.start_server(lambda *_: None, host, 0, ssl=server._tls)
        port = listening.sockets[0].getsockname()[1]
        with pytest.raises(ServerUnreachable, match="not trusted"):
            await aio.connect(f"penstocks://{host}:{port}", ca=CERTIFICATE).start()
        listening.close()


async def test_a_client_without_tls_hears_that_it_does_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_CA", CERTIFICATE)
    async with encrypted() as server:
        with pytest.raises(ServerUnreachable):
            await aio.connect(url(server).replace("penstocks", "penstock")).start()
        async with aio.connect(url(server, "127.0.0.1")) as broker:  # By the variable.
            assert await broker.topics() == ["orders"]


async def test_old_versions_of_tls_are_refused() -> None:
    async with encrypted() as server:
        context = ssl.create_default_context(cafile=CERTIFICATE)
        assert server._tls is not None
        assert server._tls.minimum_version == ssl.TLSVersion.TLSv1_2
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"certificate": "missing.pem"}, r"tls.certificate missing.pem: no such file"),
        ({"key": "missing.pem"}, r"tls.key missing.pem: no such file"),
        ({"key": str(FOLDER / "other-key.pem")}, "key values mismatch; both are PEM, a pair"),
        ({"key": CERTIFICATE}, "both are PEM"),
        ({"certificate": __file__}, "both are PEM"),
    ],
)
def test_files_that_cannot_be_used_are_named(change: dict[str, str], words: str) -> None:
    files = {"certificate": TLS.certificate, "key": TLS.key, **change}

    with pytest.raises(InvalidConfiguration, match=words):
        server_context(TlsSettings(**files))


@pytest.mark.parametrize("ca", ["missing.pem", __file__, 5])
def test_certificates_to_trust_that_are_none_are_named(ca: Any) -> None:
    with pytest.raises(InvalidValue, match="ca cannot be"):
        aio.connect("penstocks://localhost", ca=ca)


@pytest.mark.parametrize(
    "login",
    [{"key": 5}, {"user": "anna"}, {"password": "x"}, {"key": "pk_1_2", "user": "anna", "password": "x"}],
)
def test_a_login_is_a_key_or_a_user_with_a_password(login: Any) -> None:
    with pytest.raises(InvalidValue):
        aio.connect("penstock://localhost", **login)


@both_loops
async def test_a_client_without_tls_is_told_that_the_server_may_use_it() -> None:
    async with encrypted() as server:
        plain = f"penstock://localhost:{server.addresses['native'][1]}"

        with pytest.raises(ServerUnreachable, match="if it uses TLS, the address begins with penstocks://"):
            await aio.connect(plain).start()


@both_loops
async def test_a_client_with_tls_is_told_that_the_server_does_not_use_it() -> None:
    async with encrypted(tls=TlsSettings()) as server:
        with pytest.raises(
            ServerUnreachable, match="it does not use TLS there, so the address begins with penstock://"
        ):
            await aio.connect(url(server), ca=CERTIFICATE).start()


@both_loops
async def test_who_types_a_command_without_tls_is_told_so() -> None:
    async with encrypted() as server:
        reader, writer = await asyncio.open_connection(*server.addresses["text"])
        writer.write(b"PING\n")
        async with asyncio.timeout(PATIENCE_S):
            heard = await reader.read()
        writer.close()

    assert heard.startswith(b"ERR This port uses TLS")


@both_loops
async def test_a_connection_that_says_nothing_does_not_keep_a_server_from_ending() -> None:
    async with encrypted() as server:
        silent, writer = await asyncio.open_connection(*server.addresses["native"])
        gone, gone_writer = await asyncio.open_connection(*server.addresses["native"])
        gone_writer.close()
        async with aio.connect(url(server), ca=CERTIFICATE) as broker:
            await broker.publish("orders", b"x")

    async with asyncio.timeout(PATIENCE_S):
        assert await silent.read() == await gone.read() == b""
    writer.close()
