"""Asks the Spark session of another process on this machine, through its socket (``wire/sql.py``).

    session = await SqlSession.open(paths)
    await session.request(OpenSession(...))
    await session.request(RunQuery(...))
    async for piece in session.pieces(): ...
    session.cut()

Results are passed on as they come, and never decoded here.  ``cut`` ends the connection at any moment, which
cancels the query on the other side; callers that wait then get ``SqlUnavailable``.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable
from typing import Final, Self

import msgspec

from penstock.errors import SqlUnavailable
from penstock.transport.unix import is_same_user
from penstock.wire.native_bodies import decode_error
from penstock.wire.sql import HEAD, REPLIES, Refused, Reply, Request, frame_of, length_of

CONNECT_S: Final = 2.0


class SqlSession:
    """One connection, with the permissions of one caller."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, paths: Iterable[str]) -> Self:
        """Connect to the first of these sockets that a process listens on."""
        for path in paths:
            try:
                async with asyncio.timeout(CONNECT_S):
                    return cls(*await _connected(path))
            except OSError:  # No process listens any more, or not ours; TimeoutError is an OSError, too.
                continue
        raise SqlUnavailable(why="no Spark session runs on the machine of this server")

    async def request(self, message: Request) -> Reply:
        """Send a request; returns its response, or raises the error in it."""
        self._writer.write(frame_of(message))
        try:
            reply: Reply = REPLIES.decode(await self._frame())
        except (msgspec.MsgspecError, ValueError) as problem:  # Of another version.
            raise SqlUnavailable(why="the Spark session is of another version") from problem
        if isinstance(reply, Refused):
            raise decode_error(reply.error)
        return reply

    async def pieces(self) -> AsyncIterator[bytes]:
        while piece := await self._frame():
            yield piece

    def cut(self) -> None:
        """Close the connection at once, which cancels the query."""
        self._writer.transport.abort()

    async def _frame(self) -> bytes:
        try:
            head = await self._reader.readexactly(HEAD.size)
            return await self._reader.readexactly(length_of(head))
        except (asyncio.IncompleteReadError, OSError, ValueError) as problem:
            raise SqlUnavailable(why="the Spark session has ended") from problem


async def _connected(path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    made = socket.socket(socket.AF_UNIX)
    try:
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, path)
        if not is_same_user(made):  # Others may have reported the path; they do not get our callers' keys.
            raise PermissionError(f"{path} belongs to another user")
        return await asyncio.open_unix_connection(sock=made)
    except BaseException:
        made.close()
        raise
