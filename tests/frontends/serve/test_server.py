"""A server in this process: all of it or nothing, what it hands on, and the order of its end."""

import asyncio
import resource
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest

import penstock
from penstock.config.broker import GroupSettings
from penstock.config.server import (
    LimitSettings,
    ListenSettings,
    ServerConfig,
    ServerSettings,
    TopicDefaults,
    shown,
)
from penstock.errors import AddressUnusable, DirectoryInUse
from penstock.frontends.serve import Server, bound, loop_factory, raise_file_limit

FREE = ListenSettings(native="0", text="0", status="0", http="off", kafka="0")


def config(data: Path | str = ":memory:", **sections: Any) -> ServerConfig:
    return ServerConfig(**{"server": ServerSettings(data=str(data)), "listen": FREE, **sections})


async def ask(place: tuple[str, int], line: str) -> str:
    """One line of the text protocol, and its answer."""
    reader, writer = await asyncio.open_connection(*place)
    writer.write(f"{line}\n".encode())
    answer = await asyncio.wait_for(reader.readline(), 60)
    writer.close()
    return answer.decode().rstrip("\n")


async def test_every_listener_is_there_and_off_is_off(tmp_path: Path) -> None:
    listen = ListenSettings(native="0", text="127.0.0.1:0", status="off", http="off", kafka="off")

    async with await Server.open(config(tmp_path, listen=listen)) as server:
        assert list(server.addresses) == ["native", "text"]
        assert {host for host, _ in server.addresses.values()} == {"127.0.0.1"}
        assert await ask(server.addresses["text"], "PING") == "OK PONG"


@pytest.mark.parametrize("listener", ["native", "text", "status"])
async def test_a_port_that_is_taken_leaves_nothing_behind(tmp_path: Path, listener: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        listen = msgspec.structs.replace(FREE, **{listener: place})

        with pytest.raises(AddressUnusable) as refusal:
            await Server.open(config(tmp_path / "data", listen=listen))

    assert refusal.value.facts == {"listener": listener, "address": place, "why": "address already in use"}
    assert not (tmp_path / "data").exists()


async def test_a_directory_that_is_taken_frees_the_ports(tmp_path: Path) -> None:
    with bound("text", "127.0.0.1", 0) as probe:
        port = probe.getsockname()[1]
    listen = msgspec.structs.replace(FREE, text=str(port))

    with penstock.open(str(tmp_path)):
        with pytest.raises(DirectoryInUse):
            await Server.open(config(tmp_path, listen=listen))

    async with await Server.open(config(tmp_path, listen=listen)) as server:
        assert server.addresses["text"] == ("127.0.0.1", port)


async def test_who_listens_first_wins_where_two_bind_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both may bind, since neither listens yet; the second is told when it begins to."""
    with bound("text", "127.0.0.1", 0) as rival:
        listen = msgspec.structs.replace(FREE, text=str(rival.getsockname()[1]))
        opening = Server._accept

        async def later(server: Server) -> None:
            rival.listen()
            await opening(server)

        monkeypatch.setattr(Server, "_accept", later)
        with pytest.raises(AddressUnusable, match=r"listen\.text"):
            await Server.open(config(tmp_path, listen=listen))

    with penstock.open(str(tmp_path)):
        pass  # The directory was let go.


def test_a_host_that_does_not_exist_is_told_so() -> None:
    with pytest.raises(AddressUnusable, match=r"cannot listen on nowhere\.invalid:7070: .*--native"):
        bound("native", "nowhere.invalid", 7070)


async def test_topics_and_groups_are_made_as_the_server_was_told() -> None:
    topic = TopicDefaults(partitions=3, message_bytes_max=10)
    group = GroupSettings(max_attempts=2)

    async with await Server.open(config(topic=topic, group=group)) as server:
        await ask(server.addresses["text"], "PRODUCE orders 2 x")
        await ask(server.addresses["text"], "SUB orders")
        too_large = await ask(server.addresses["text"], "PUB orders 0123456789x")

        made = (await server.broker.describe_topic("orders")).settings
        assert made == msgspec.structs.replace(topic.settings, durability="memory")
        assert server.broker._core.state.topics["orders"].groups["default"].settings == group
        assert too_large.endswith("[MESSAGE_TOO_LARGE]")


async def test_connections_are_counted_and_limited_over_all_listeners() -> None:
    limits = msgspec.structs.replace(LimitSettings(), connections_max=2)

    async with await Server.open(config(limits=limits)) as server:
        native = await asyncio.open_connection(*server.addresses["native"])
        text = await asyncio.open_connection(*server.addresses["text"])
        text[1].write(b"PING\n")
        await text[0].readline()

        assert (await server.broker.stats()).connections == 2
        assert "the limit is 2 connections" in await ask(server.addresses["text"], "PING")
        for _, writer in (native, text):
            writer.close()


async def test_the_end_is_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody new, then the listeners, then the broker: no answer is given that is not true."""
    server = await Server.open(config(tmp_path))
    order: list[str] = []
    place = server.addresses["text"]
    drain, close = server._listeners["text"].drain, server.broker.close_within

    async def draining() -> None:
        with pytest.raises(OSError, match=r".*"):
            await asyncio.open_connection(*place)
        order.append("refused")
        await drain()
        order.append("drained")

    async def closing(timeout_ms: int) -> None:
        order.append("closing")
        await close(timeout_ms)

    monkeypatch.setattr(server._listeners["text"], "drain", draining)
    monkeypatch.setattr(server.broker, "close_within", closing)
    await server.stop()

    assert order == ["refused", "drained", "closing"]
    with penstock.open(str(tmp_path)):
        pass  # The lock was let go.


async def test_a_listener_with_a_fault_does_not_keep_the_broker_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = await Server.open(config(tmp_path))

    async def fault() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(server._listeners["status"], "drain", fault)
    await server.stop()

    assert "a listener failed while it was closed" in caplog.text
    with penstock.open(str(tmp_path)):
        pass


async def test_who_does_not_end_is_cut(tmp_path: Path) -> None:
    settings = config(server=ServerSettings(data=str(tmp_path), stop_timeout_ms=50))
    server = await Server.open(settings)
    await server.broker.create_topic("orders", partitions=1)
    await server.broker.publish_batch("orders", [b"x" * 1_000_000] * 20)
    reader, writer = await asyncio.open_connection(*server.addresses["text"], limit=1)
    writer.write(b"CONSUME orders 0\n")
    await reader.readexactly(1)

    await server.stop()

    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await asyncio.wait_for(reader.readexactly(20_000_000), 60)
    writer.close()


def test_the_limit_of_open_files_is_raised_as_far_as_the_system_lets_us() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))

        raise_file_limit(512)
        raised = resource.getrlimit(resource.RLIMIT_NOFILE)
        raise_file_limit(300)

        assert raised == resource.getrlimit(resource.RLIMIT_NOFILE) == (512, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_address_is_shown_as_one_writes_it() -> None:
    assert (shown("127.0.0.1", 3000), shown("::1", 3000)) == ("127.0.0.1:3000", "[::1]:3000")


def test_uvloop_is_used_where_it_is_installed() -> None:
    factory = loop_factory()

    assert factory is not None
    loop = factory()
    assert type(loop).__module__.startswith("uvloop")
    loop.close()


async def test_the_http_listener_is_served_and_ended_with_the_others() -> None:
    listen = msgspec.structs.replace(FREE, http="0")

    async with await Server.open(config(listen=listen)) as server:
        reader, writer = await asyncio.open_connection(*server.addresses["http"])
        writer.write(b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n")
        first = await asyncio.wait_for(reader.readline(), 60)
        assert (await server.broker.stats()).connections == 1

    assert first == b"HTTP/1.1 200 OK\r\n"
    assert (await asyncio.wait_for(reader.read(), 60)).endswith(b"}")
    writer.close()
    await writer.wait_closed()
