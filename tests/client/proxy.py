"""A wire between a client and a server that a test can cut, or make swallow what the server says."""

import asyncio
from contextlib import suppress
from random import Random
from types import TracebackType
from typing import Self

from penstock.client.connections.url import server_addresses


class Proxy:
    """Passes bytes on, both ways; use it with ``async with``."""

    def __init__(self, url: str) -> None:
        [self._server] = server_addresses(url)
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self.swallow = False  # What the server answers next is lost, and the connection with it.
        self.stays_away = False  # After that, nobody gets through until ``away`` is False again.
        self.away = False  # New connections are closed at once.
        self.cuts = 0
        self._random: Random | None = None
        self._every = 0

    @property
    def url(self) -> str:
        return f"penstock://127.0.0.1:{self.port}"

    def cut_at_random(self, random: Random, every: int) -> None:
        """From now on, break the connection after about so many bytes, again and again; 0 to stop."""
        self._random = random
        self._every = every

    def cut(self) -> None:
        """Break every connection, without a word."""
        for pair in self._pairs:
            for writer in pair:
                writer.transport.abort()

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._listening.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listening.close()
        while self._pairs:  # Until those who pass on have noticed.
            self.cut()
            await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.away:
            writer.transport.abort()
            return
        pair = (writer, writer)
        self._pairs.add(pair)
        with suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection(self._server.host, self._server.port)
            self._pairs.discard(pair)
            pair = (writer, far_writer)
            self._pairs.add(pair)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._pass_on(reader, far_writer, answers=False))
                tasks.create_task(self._pass_on(far_reader, writer, answers=True))
        self._pairs.discard(pair)

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                if answers and self.swallow:
                    self.swallow = False
                    self.away = self.stays_away
                    self.cuts += 1
                    self.cut()
                    return
                whole = len(data)
                if self._random is not None and self._every and self._random.random() < whole / self._every:
                    whole = self._random.randrange(whole)
                writer.write(data[:whole])
                if whole < len(data):
                    await writer.drain()
                    self.cuts += 1
                    self.cut()
                    return
        writer.close()
