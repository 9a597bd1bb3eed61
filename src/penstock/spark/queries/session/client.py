"""Runs queries on a warm Spark session of another process on this machine (``server.py``).

Results arrive as Arrow and are held completely in memory, as with a local session.  A connection that the
server closed because it was idle is reopened; closing a connection cancels its query.
"""

import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import BinaryIO, Final, TypeVar, cast

import pyarrow as pa

from penstock.errors import PenstockError, QueryFailed
from penstock.spark.queries.engine import ColumnInfo
from penstock.spark.queries.query_result import QueryResult
from penstock.spark.queries.session import protocol
from penstock.spark.runtime.connections import Address
from penstock.transport.unix import is_same_user
from penstock.wire import sql as wire
from penstock.wire.native_bodies import decode_error

CONNECT_S: Final = 2.0

T = TypeVar("T")


def connected_engine(paths: Iterable[str], address: Address) -> "RemoteEngine | None":
    """An engine at the first of these sockets on which a process listens, if there is one."""
    for path in paths:
        engine = RemoteEngine(path, address)
        try:
            engine.connect()
        except (OSError, EOFError, PenstockError):
            engine.close()
            continue
        return engine
    return None


class RemoteEngine:
    """Queries on the session of another process, with the caller's own permissions."""

    def __init__(self, path: str, address: Address) -> None:
        self._path = path
        self._address = address
        self._socket: socket.socket | None = None

    def connect(self) -> None:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(CONNECT_S)
        try:
            connection.connect(self._path)
        except OSError:
            connection.close()
            raise
        if not is_same_user(connection):  # It must not get our key.
            connection.close()
            raise PermissionError(f"{self._path} belongs to another user")
        connection.settimeout(None)  # A query may take long; the server has a limit.
        self._socket = connection
        self._incoming = cast("BinaryIO", connection.makefile("rb"))
        self._out = cast("BinaryIO", connection.makefile("wb"))
        self._request(wire.OpenSession(self._address.options))

    def close(self) -> None:
        if self._socket is not None:
            with suppress(OSError):  # Discard what was not sent yet.
                self._out.close()
            self._incoming.close()
            self._socket.close()
            self._socket = None

    def ask(self, query: str, rows_max: int | None) -> QueryResult:
        def read() -> QueryResult:
            self._request(wire.RunQuery(query, rows_max))
            content = protocol.ResultPieceReader(self._incoming)
            with pa.ipc.open_stream(content) as reader:
                result = QueryResult(reader.read_all())
            content.finish()
            return result

        return self._again_if_closed(read)

    def names(self) -> list[str]:
        reply = self._again_if_closed(lambda: self._request(wire.ListTables()))
        assert isinstance(reply, wire.TableNames)
        return reply.names

    def columns(self, name: str) -> list[ColumnInfo]:
        reply = self._again_if_closed(lambda: self._request(wire.ListColumns(name)))
        assert isinstance(reply, wire.TableColumns)
        return [ColumnInfo(*each) for each in reply.columns]

    def _again_if_closed(self, work: Callable[[], T]) -> T:
        """Retry once if the connection was closed, because queries change nothing."""
        if self._socket is not None:
            try:
                return work()
            except (EOFError, OSError):
                self.close()
            except BaseException as error:
                if not isinstance(error, PenstockError):
                    self.close()  # Ctrl-C: the server cancels the query.
                raise
        try:
            self.connect()
            return work()
        except (EOFError, OSError) as error:
            self.close()
            raise QueryFailed(why="the process that keeps Spark running has ended; try again") from error

    def _request(self, request: wire.Request) -> wire.Reply:
        with suppress(BrokenPipeError):  # A server that refuses may have sent the reason before it closed.
            protocol.send(self._out, request)
        reply: wire.Reply = protocol.receive(self._incoming, wire.REPLIES)
        if isinstance(reply, wire.Refused):
            raise decode_error(reply.error)
        return reply
