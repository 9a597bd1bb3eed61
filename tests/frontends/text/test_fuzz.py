"""Whatever bytes arrive, the others are served, and nothing is left behind."""

from random import Random
from typing import Any

import pytest

from penstock.frontends.security.gateway import AuthGateway
from penstock.frontends.text.commands import COMMANDS, CommandRefused, TextSession

WORDS = [name.encode() for name in COMMANDS]
WORDS += [b"orders", b"a/b", b"0", b"7", b"-1", b"orders:0:0", b"\xff\x00", b""]
ENDS = [b"\n", b"\r\n", b""]


def blob(random: Random) -> bytes:
    """Requests, halves of requests, and noise."""
    pieces = [
        lambda: (
            b" ".join(random.choices(WORDS, k=random.randint(0, 5))) + random.choice([b"\n", b"\r\n", b""])
        ),
        lambda: random.randbytes(random.randint(0, 200)),
        lambda: b"PRODUCE orders 0 " + random.randbytes(20) + b"\n",
        lambda: b"x" * random.randint(0, 3000),
    ]
    return b"".join(random.choice(pieces)() for _ in range(random.randint(1, 8)))


@pytest.mark.parametrize("seed", range(20))
async def test_no_bytes_of_one_client_disturb_another(opened: Any, seed: int, caplog: Any) -> None:
    random = Random(seed)
    async with opened(text_line_bytes_max=2000) as door:
        other = await door.connect()
        await other.ask("SUB steady")
        for _ in range(10):
            client = await door.connect()
            client.send(blob(random))
            if random.random() < 0.5:
                client.writer.write_eof()
                await client.rest()
            else:
                client.writer.transport.abort()

        published = await other.ask("PUB steady on")
        assert await other.line() == f"MSG steady {published.rsplit(' ', 1)[1]} on"
    assert door.connections.count == 0
    assert "a fault in the server" not in caplog.text


async def test_no_more_messages_are_remembered_than_may_be_held(door: Any) -> None:
    await door.broker.create_topic("orders", partitions=1)
    await door.broker.publish_batch("orders", [b"x"] * 3)
    consumer = await door.broker.consumer("orders")
    session = TextSession(AuthGateway(door.broker), None, None, in_flight_max=2, log_in=None)  # type: ignore[arg-type]
    session.subscriptions["orders", "default"] = consumer

    for message in await consumer.receive(max_messages=3):
        session.hold(message)

    with pytest.raises(CommandRefused):
        session.let_go("orders:0:0")
    assert session.let_go("orders:0:1").id == "orders:0:1"
