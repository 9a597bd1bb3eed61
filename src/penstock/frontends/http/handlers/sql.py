"""SQL on the Spark session that runs beside this server, with the permissions of the caller.

    request ──> SqlSession (warm_sql.py) ──> socket ──> SqlServer (spark/queries), which logs in as the caller

This process knows nothing of Spark: the result arrives in the form that ``Accept`` asks for, and is passed on
piece by piece.  A client that disconnects, or whose key is revoked, cancels its query.  ``QUERIES_MAX`` may
run at a time; the rest of what the other side accepts is for ``penstock sql``.
"""

import socket
from collections.abc import AsyncGenerator
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from penstock.errors import InvalidValue, Overloaded, PenstockError, SqlUnavailable
from penstock.frontends.http.bodies import Gone
from penstock.frontends.http.call import JSON, HttpCall
from penstock.frontends.http.consumers.long_polls import LongPoll
from penstock.frontends.http.warm_sql import SqlSession
from penstock.types import duration_ms
from penstock.wire.sql import (
    Completed,
    Form,
    ListColumns,
    ListTables,
    OpenSession,
    RunQuery,
    TableColumns,
    TableNames,
)

QUERIES_MAX: Final = 8
ROWS_DEFAULT: Final = 1000
ROWS_MAX: Final = 1_000_000
SECONDS_MAX: Final = 600
QUERY_LENGTH_MAX: Final = 100_000

CSV: Final = "text/csv"
ARROW: Final = "application/vnd.apache.arrow.stream"
FORMS: Final[dict[str, Form]] = {JSON: "json", CSV: "csv", ARROW: "arrow"}
NAMES: Final[dict[Form, str]] = {"csv": "result.csv", "arrow": "result.arrows"}
TRUNCATED: Final = b"penstock-truncated"


class SqlQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A query in Spark SQL, the rows to return at most, and how long it may take (10 minutes at most)."""

    query: Annotated[str, Meta(min_length=1, max_length=QUERY_LENGTH_MAX)]
    limit: Annotated[int, Meta(ge=1, le=ROWS_MAX)] = ROWS_DEFAULT
    timeout: str = "1m"


class SqlColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column: its name, and its type as Spark calls it."""

    name: str
    type: str


class SqlResult(msgspec.Struct, frozen=True, kw_only=True):
    """Rows, with a value for each column."""

    columns: list[SqlColumn]
    rows: list[list[Any]]
    truncated: bool  # There are more rows than ``limit``.


class SqlTables(msgspec.Struct, frozen=True):
    """The tables that a query may name."""

    tables: list[str]


class SqlColumns(msgspec.Struct, frozen=True):
    """The columns of a table."""

    columns: list[SqlColumn]


async def run_sql(call: HttpCall) -> AsyncGenerator[bytes, None]:
    """Run a query and return its rows as JSON, CSV or an Arrow stream, as Accept asks."""
    wanted: SqlQuery = call.body
    seconds = duration_ms("timeout", wanted.timeout) / 1000
    if not 0 < seconds <= SECONDS_MAX:
        raise InvalidValue(name="timeout", value=wanted.timeout, why="it is more than 0 and at most 10m")
    kind = accepted(call.header(b"accept"))
    form = FORMS[kind]
    running = await RunningSql.begin(call)
    try:
        done = await running.request(RunQuery(wanted.query, wanted.limit, form, seconds))
    except BaseException:
        running.end()
        raise
    call.kind = kind
    truncated = isinstance(done, Completed) and done.truncated
    call.more = ((TRUNCATED, b"true" if truncated else b"false"),)
    if form in NAMES:
        call.more += ((b"content-disposition", f'attachment; filename="{NAMES[form]}"'.encode()),)
    return _result(running)


async def list_sql_tables(call: HttpCall) -> SqlTables:
    """List the tables that a query may name: topics, and views of the broker's state."""
    running = await RunningSql.begin(call)
    try:
        reply = await running.request(ListTables())
    finally:
        running.end()
    assert isinstance(reply, TableNames)
    return SqlTables(reply.names)


async def list_sql_columns(call: HttpCall) -> SqlColumns:
    """List the columns of a table."""
    running = await RunningSql.begin(call)
    try:
        reply = await running.request(ListColumns(call.path["table"]))
    finally:
        running.end()
    assert isinstance(reply, TableColumns)
    return SqlColumns([SqlColumn(name=name, type=kind) for name, kind in reply.columns])


def accepted(header: str | None) -> str:
    """The first media type of ``Accept`` that there is; JSON, if it names none of them."""
    named = [part.partition(";")[0].strip().lower() for part in (header or "").split(",")]
    return next((kind for kind in named if kind in FORMS), JSON)


class RunningSql:
    """A request that is being answered, from ``begin`` to ``end``."""

    def __init__(self, call: HttpCall, session: SqlSession, long_poll: LongPoll) -> None:
        self._call = call
        self._long_poll = long_poll
        self.session = session

    @classmethod
    async def begin(cls, call: HttpCall) -> "RunningSql":
        shared = call.shared
        if shared.sql_running >= QUERIES_MAX:
            raise Overloaded(what="SQL queries at a time", limit=QUERIES_MAX)
        shared.sql_running += 1
        try:
            await call.run(shared.reports.refresh())
            session = await SqlSession.open(shared.reports.sql_sockets(socket.gethostname()))
        except BaseException:
            shared.sql_running -= 1
            raise
        try:
            running = cls(call, session, call.long_poll().enter())
        except BaseException:
            shared.sql_running -= 1
            session.cut()
            raise
        call.lost.add(session.cut)
        try:
            await running.request(_session_of(call))
        except BaseException:
            running.end()
            raise
        return running

    async def request(self, message: ListTables | ListColumns | RunQuery | OpenSession) -> object:
        try:
            return await self.session.request(message)
        except SqlUnavailable as error:
            raise self.why_cut() or error from None

    def why_cut(self) -> Exception | None:
        """Why this side has ended it, if it has."""
        if self._long_poll.error is not None:
            return self._long_poll.error
        return Gone() if self._call.lost.gone else None

    def end(self) -> None:
        self._call.lost.discard(self.session.cut)
        self.session.cut()
        self._long_poll.leave()
        self._call.shared.sql_running -= 1


async def _result(running: RunningSql) -> AsyncGenerator[bytes, None]:
    try:
        async for piece in running.session.pieces():
            yield piece
    except PenstockError:  # The head is sent: an answer without an end is how the client learns of it.
        raise Gone from None
    finally:
        running.end()


def _session_of(call: HttpCall) -> OpenSession:
    """A session with the credentials of the caller; tables of the lake that are no topic's are for admins."""
    shown = call.credentials
    options = {
        name: text for name in ("key", "user", "password") if (text := getattr(shown, name)) is not None
    }
    required = call.shared.gateway.required
    admin = not required or call.identity.permissions.allows("admin", None, None)
    return OpenSession(options, restricted=True, lake_tables=admin)
