"""Stands in for the Spark session beside a server: speaks its protocol, and answers what a test says.

The real one is in tests/spark/test_sql_over_http.py; here a JVM would take longer than all tests together.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from penstock.api.aio import AsyncBroker
from penstock.clock import SystemClock
from penstock.errors import PenstockError, QueryInvalid
from penstock.model.info import PIPELINES_TOPIC, PipelineRun
from penstock.wire import sql as wire
from penstock.wire.native_bodies import encode_error

Result = dict[str, Any] | bytes
Answering = Callable[[wire.RunQuery], Awaitable[Result]]


class SqlStandIn:
    """Queries that were asked, and what is answered to them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tables: dict[str, list[tuple[str, str]]] = {}
        self.sessions: list[wire.OpenSession] = []
        self.queries: list[wire.RunQuery] = []
        self.left = asyncio.Event()  # A client has left while its query was running.
        self.ends_early = False  # Leaves in the middle of the next result.
        self.answer: Answering = self._unknown

    async def _unknown(self, _: wire.RunQuery) -> Result:
        raise QueryInvalid(why="there is no topic or view 'oders'; did you mean orders?")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readexactly(wire.HEAD.size)
                request = wire.REQUESTS.decode(await reader.readexactly(wire.length_of(head)))
                await self._reply(request, reader, writer)
        except (EOFError, OSError):
            pass
        finally:
            writer.close()

    async def _reply(self, request: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if isinstance(request, wire.OpenSession):
            self.sessions.append(request)
            writer.write(wire.frame_of(wire.Completed()))
        elif isinstance(request, wire.ListTables):
            writer.write(wire.frame_of(wire.TableNames(sorted(self.tables))))
        elif isinstance(request, wire.ListColumns):
            columns = self.tables.get(request.table)
            unknown = QueryInvalid(why=f"there is no topic or view {request.table!r}")
            writer.write(
                wire.frame_of(
                    wire.Refused(encode_error(unknown)) if columns is None else wire.TableColumns(columns)
                )
            )
        else:
            self.queries.append(request)
            await self._result(request, reader, writer)

    async def _result(
        self, request: wire.RunQuery, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        answer = asyncio.ensure_future(self.answer(request))
        leaving = asyncio.ensure_future(reader.read(1))
        await asyncio.wait([answer, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            answer.cancel()
            self.left.set()
            raise EOFError
        leaving.cancel()
        await asyncio.wait([leaving])
        try:
            found = answer.result()
        except PenstockError as error:
            writer.write(wire.frame_of(wire.Refused(encode_error(error))))
            return
        truncated = isinstance(found, dict) and found["truncated"]
        writer.write(wire.frame_of(wire.Completed(truncated=truncated)))
        content = found if isinstance(found, bytes) else msgspec.json.encode(found)
        writer.write(wire.framed(content))
        if self.ends_early:
            raise EOFError
        writer.write(wire.END)


@asynccontextmanager
async def sql_stand_in(broker: AsyncBroker, folder: Path) -> AsyncIterator[SqlStandIn]:
    """One that this broker's server finds."""
    made = SqlStandIn(folder / "sql.sock")
    server = await asyncio.start_unix_server(made.serve, made.path)
    await broker.create_topic(PIPELINES_TOPIC, partitions=1, exist_ok=True)
    await announce(broker, made.path)
    try:
        yield made
    finally:
        server.close()


async def announce(broker: AsyncBroker, path: Path, **changed: Any) -> None:
    """What a run reports while it answers queries; once, so it says that it has just done so for an hour."""
    now_ms = SystemClock().wall_ms()
    facts: dict[str, Any] = {
        "name": "archive", "pipeline": "archive", "run": "1", "state": "running",
        "host": socket.gethostname(), "pid": os.getpid(), "master": "local[*]",
        "started_ms": now_ms, "updated_ms": now_ms + 3_600_000,
        "sql_socket": str(path),
    }  # fmt: skip
    run = PipelineRun(**(facts | changed))
    await broker.publish(PIPELINES_TOPIC, msgspec.json.encode(run), key=run.name)
