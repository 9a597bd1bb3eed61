"""Connections of the text protocol: their limits, and how they end."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.aio import EmbeddedAsyncBroker
from penstock.config.server import LimitSettings
from penstock.frontends import lines
from penstock.frontends.listener import Connections
from penstock.frontends.text import commands
from penstock.frontends.text.server import TextListener
from penstock.log import files

LONG = b"PRODUCE orders 0 " + b"x" * 10_000


async def test_a_line_of_the_limit_is_fine_and_a_longer_one_ends_the_connection(opened: Any) -> None:
    async with opened(text_line_bytes_max=len(LONG)) as door:
        client = await door.connect()

        client.send(LONG + b"\n")
        fine = await client.line()
        client.send(LONG + b"x\nPING\n")

        assert fine == "OK Published orders:0:0"
        assert (
            await client.rest()
            == f"ERR Line too long: more than {len(LONG)} bytes (limits.text_line_bytes_max)\n"
        )


async def test_a_line_without_an_end_is_refused_before_it_is_kept(opened: Any) -> None:
    """The client goes on sending while it is refused, and reads the answer all the same."""
    async with opened(text_line_bytes_max=1000) as door:
        client = await door.connect()

        for _ in range(100):
            client.send(b"x" * 100_000)
        answer = await client.line()
        [connection] = door.listener._tasks

        assert answer.startswith("ERR Line too long: more than 1000 bytes")
        assert len(connection._buffer) == 0


async def test_no_more_than_a_line_and_one_read_is_kept_of_a_client_that_is_ahead(opened: Any) -> None:
    """Nothing is read while a request waits; here, because the disk of the broker does not answer."""
    async with opened(text_line_bytes_max=1000) as door:
        client = await door.connect()
        await client.ask("PING")
        [connection] = door.listener._tasks
        release = asyncio.Event()

        async def wait(session: Any, words: Any) -> str:
            await release.wait()
            return "waited"

        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(commands.COMMANDS, "WAIT", commands.Command("", 0, 0, "", wait))
            client.send("WAIT\n" + ("x" * 900 + "\n") * 1000)
            for _ in range(200):
                await asyncio.sleep(0)

            assert len(connection._buffer) <= 1000 + 256 * 1024
            release.set()
            assert await client.line() == "OK waited"
            client.writer.transport.abort()


async def test_half_a_line_is_no_request(door: Any) -> None:
    client = await door.connect()

    client.send("PRODUCE orders 0 whole\nPRODUCE orders 0 hal")
    client.writer.write_eof()

    assert await client.rest() == "OK Published orders:0:0\n"
    assert len(await door.broker.read("orders")) == 1


async def test_a_client_that_does_not_wait_for_its_answers_has_its_lines_done(door: Any) -> None:
    client = await door.connect()
    await client.ask("PING")

    client.send("PRODUCE orders 0 one\nPRODUCE orders 0 two\n")
    await client.close()
    await door.gone()

    assert [message.value for message in await door.broker.read("orders")] == [b"one", b"two"]


async def test_one_connection_more_than_the_limit_is_told_so(opened: Any) -> None:
    async with opened(connections_max=2) as door:
        first, second = await door.connect(), await door.connect()
        await first.ask("PING")
        await second.ask("PING")

        third = await door.connect()

        assert "the limit is 2 connections" in await third.rest()
        await first.ask("QUIT")
        await first.rest()
        fourth = await door.connect()
        assert await fourth.ask("PING") == "OK PONG"


async def test_a_fault_of_the_server_ends_one_connection_and_no_other(
    door: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fault(session: Any, words: Any) -> str:
        raise ZeroDivisionError

    monkeypatch.setitem(commands.COMMANDS, "FAULT", commands.Command("", 0, 0, "", fault))
    other, client = await door.connect(), await door.connect()

    client.send("FAULT\n")

    assert await client.rest() == ""
    assert await other.ask("PING") == "OK PONG"
    assert "a fault in the server" in caplog.text


async def test_draining_does_what_has_arrived_and_closes(door: Any) -> None:
    client, idle = await door.connect(), await door.connect()
    await client.ask("SUB orders")
    await client.ask("PUB orders one", 2)
    await idle.ask("PING")

    client.send("".join(f"PRODUCE other 0 {number}\n" for number in range(20)))
    first = await client.line()  # All of it has arrived then: it was one packet.
    await asyncio.wait_for(door.listener.drain(), 60)

    answers = [first, *(await client.rest()).splitlines()]
    assert answers == [f"OK Published other:0:{number}" for number in range(20)]
    assert await idle.rest() == ""
    assert door.connections.count == 0
    assert (await door.broker.describe_group("orders", "default")).in_flight == 0


async def test_draining_waits_for_what_is_in_hand(door: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def wait(session: Any, words: Any) -> str:
        begun.set()
        await release.wait()
        return "waited"

    monkeypatch.setitem(commands.COMMANDS, "WAIT", commands.Command("", 0, 0, "", wait))
    client = await door.connect()
    client.send("WAIT\nPRODUCE orders 0 one\n")
    await asyncio.wait_for(begun.wait(), 60)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(door.listener.drain())
        await asyncio.sleep(0)
        release.set()

    assert await client.rest() == "OK waited\nOK Published orders:0:0\n"


async def test_what_does_not_end_can_be_cut(door: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(session: Any, words: Any) -> str:
        await asyncio.Event().wait()
        return "never"

    monkeypatch.setitem(commands.COMMANDS, "HANG", commands.Command("", 0, 0, "", hang))
    client = await door.connect()
    client.send("HANG\n")
    await asyncio.sleep(0)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(door.listener.drain(), 0.01)
    door.listener.abort()

    await asyncio.wait_for(door.listener.drain(), 60)
    assert door.connections.count == 0


@pytest.mark.slow
async def test_a_client_that_never_reads_the_rest_is_cut(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "LINGER_S", 0.01)
    async with opened(write_buffer_bytes_max=100_000_000) as door:
        await door.broker.create_topic("orders", partitions=1)
        await door.broker.publish_batch("orders", [b"x" * 500_000] * 40)
        client = await door.connect(limit=1)
        client.send("CONSUME orders 0\n")
        await client.reader.readexactly(3)
        [connection] = door.listener._tasks

        client.writer.write_eof()
        await door.gone()

        await asyncio.wait_for(connection._gone.wait(), 60)
        assert door.connections.count == 0


async def test_publishes_that_arrive_together_wait_for_the_disk_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixty-four at a time: a wait for each of them would make a file of lines take minutes."""
    rounds = 0
    sync = files._sync_data

    def counted(descriptor: int) -> None:
        nonlocal rounds
        rounds += 1
        sync(descriptor)

    connections = Connections(10)
    async with await EmbeddedAsyncBroker.open(str(tmp_path)) as broker:
        await broker.create_topic("orders", partitions=1)
        monkeypatch.setattr(files, "_sync_data", counted)
        listener = TextListener(broker, LimitSettings(), connections)
        server = await asyncio.get_running_loop().create_server(listener.connect, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())

        writer.write(b"".join(b"PRODUCE orders 0 %d\n" % number for number in range(640)) + b"QUIT\n")
        answers = await asyncio.wait_for(reader.read(), 60)

        writer.close()
        server.close()
        await listener.drain()
    expected = [*(f"OK Published orders:0:{number}" for number in range(640)), "OK Bye"]
    assert answers.decode().splitlines() == expected
    assert 0 < rounds <= 40
