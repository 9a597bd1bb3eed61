"""A link with a delay, where the kernel has no netem: a relay that passes every piece on after a while.

    client ──> relay ── 75 ms ──> server        and the same on the way back: a round trip of 150 ms

The delay is that of distance, not of a narrow link: pieces in flight do not wait for each other.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

ONE_WAY_S: Final = 0.075
PIECE_BYTES: Final = 1 << 16


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    loop = asyncio.get_running_loop()
    while piece := await source.read(PIECE_BYTES):
        loop.call_later(ONE_WAY_S, target.write, piece)  # Equal delays keep their order.
    loop.call_later(ONE_WAY_S, target.close)


def delayed(host: str, port: int, work: Callable[[int], None]) -> None:
    """Call ``work`` with a port that leads to the server by the slow link."""
    ready = threading.Event()
    ports: list[int] = []
    stop = asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, port)
        with suppress(asyncio.CancelledError):  # The benchmark is over.
            await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer), return_exceptions=True)

    async def relay() -> None:
        loops.append(asyncio.get_running_loop())
        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
        ready.set()
        await stop.wait()
        server.close()

    thread = threading.Thread(target=asyncio.run, args=(relay(),), daemon=True)
    thread.start()
    ready.wait()
    try:
        work(ports[0])
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join()
