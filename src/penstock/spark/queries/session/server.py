"""A warm Spark session behind a Unix socket: the queries of ``penstock sql`` without Spark's start.

    connection ──> thread ──> a session of its own (newSession) ──> result as Arrow
                      │
                      └── watches the socket meanwhile: closed, or too slow ──> cancel the query's jobs

Sessions share one Spark context, so the cost of the start (JVM, Python workers, class loading, code
generation) is paid once, and ``warm_up`` pays it before the first caller.

A query has the permissions of the caller, who sends the address of the broker and credentials.  Credentials
of this process must not replace missing ones, so its environment may not contain any when Spark starts
(``forget_credentials``).  The socket has mode 0600, and callers of other users are refused.  The HTTP API
of the server is such a caller, on behalf of others elsewhere: its sessions are restricted
(``restricted.py``).

Sessions also share Spark's catalog, so a statement that would change it is refused: callers could see
each other's tables.  Queries, temporary views, EXPLAIN, SHOW and DESCRIBE are not affected.

Some queries cannot be cancelled: Spark computes ``repeat('a', 2000000000)`` while it plans one, and Java does
not look up from a regular expression.  Their callers are answered anyway; if such a query does not end within
``STUCK_S``, the JVM is ended, and with it the run, which ``penstock serve --archive`` starts again.

Limits: ``CONNECTIONS_MAX`` connections, ``QUERY_S_MAX`` seconds and ``ROWS_MAX`` rows for a query, ``IDLE_S``
seconds between two requests, and for each piece of a result to be read; Spark limits the bytes of a result
(``spark.driver.maxResultSize``).
"""

import logging
import os
import select
import socket
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec

from penstock.client.connections.login import KEY_VARIABLE
from penstock.clock import Clock
from penstock.errors import PenstockError, QueryFailed, QueryInvalid
from penstock.spark.queries.engine import LocalEngine
from penstock.spark.queries.query_result import QueryResult
from penstock.spark.queries.quick_answers import quick_answer
from penstock.spark.queries.session import protocol, restricted, result_forms
from penstock.spark.queries.views import Tables
from penstock.spark.runtime.connections import SERVERS, Address
from penstock.spark.runtime.error_messages import quoted, unlogged
from penstock.transport.unix import is_same_user
from penstock.wire import sql as wire
from penstock.wire.native_bodies import encode_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("penstock.spark")

CONNECTIONS_MAX: Final = 16
QUERY_S_MAX: Final = 600.0
ROWS_MAX: Final = 5_000_000
IDLE_S: Final = 600.0  # Clients reconnect automatically.
CANCEL_S: Final = 5.0  # How long the caller of a query that was cancelled waits for its end.
STUCK_S: Final = 300.0  # How long others wait; planning a query takes seconds on a busy machine.
LOOK_S: Final = 0.25  # How often a running query's connection is looked at, if nothing happens on it.

# Statements that are commands for Spark, and change nothing that callers share.
HARMLESS: Final = frozenset(
    {
        "ExplainCommand", "DescribeRelation", "DescribeQueryCommand", "DescribeColumn", "DescribeFunction",
        "ShowTables", "ShowViews", "ShowColumns", "ShowFunctions", "ShowNamespaces", "SetCommand",
    }
)  # fmt: skip
PACKAGE: Final = "org.apache.spark.sql.catalyst.plans.logical"
COMMANDS: Final = (f"{PACKAGE}.Command", f"{PACKAGE}.ParsedStatement")

T = TypeVar("T")


def forget_credentials() -> None:
    """Remove the key from the environment of this process, before Spark and its workers inherit it."""
    os.environ.pop(KEY_VARIABLE, None)


class SqlServer:
    """Listens until it is closed; use it with ``with``."""

    def __init__(self, spark: "SparkSession", path: Path, clock: Clock, servers: str = SERVERS) -> None:
        assert KEY_VARIABLE not in os.environ, "call forget_credentials before Spark starts"
        self.path: Final = path
        self.clock: Final = clock
        self.servers: Final = servers  # The broker of callers that do not name one.
        self.used_ms = clock.steady_ms()  # When the last request ended.
        self.spark_ended = False  # Because of a query that could not be cancelled.
        self.closing = False
        self._spark = spark
        self._listener = listening(path)
        self._slots = threading.BoundedSemaphore(CONNECTIONS_MAX)
        self._thread = threading.Thread(target=self._accept, name="sql-server", daemon=True)
        self._unlogged = unlogged()  # For as long as it listens: queries of several threads fail at once.

    def __enter__(self) -> "SqlServer":
        self._unlogged.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing = True
        self._unlogged.__exit__(None, None, None)
        self._listener.shutdown(socket.SHUT_RDWR)  # Ends the wait for the next connection.
        self._thread.join()
        self._listener.close()
        self.path.unlink(missing_ok=True)

    def warm_up(self, address: Address) -> None:
        """Run a query of each kind, so that the first caller does not wait for Spark's initialisation."""
        engine = LocalEngine(Tables(self._spark.newSession(), address))
        engine.ask("select count(*) from __groups", 1)
        topics = [name for name in engine.names() if "__" not in name]
        if topics:
            engine.ask(f"select * from {quoted(topics[0])} limit 1", 1)

    def end_spark(self) -> None:
        """End the JVM: there is no other way to end what does not look whether it is cancelled."""
        if self.spark_ended:
            return
        self.spark_ended = True
        logger.error("a query did not end after it was cancelled; ending the JVM of Spark, and this run")
        context: Any = self._spark.sparkContext
        context._gateway.proc.kill()  # noqa: SLF001 - as ``pipelines/run/jvm.py``.

    def _accept(self) -> None:
        for number in count():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # Closed.
            name = f"penstock-sql-{number}"
            threading.Thread(target=self._serve, args=(connection, name), name=name, daemon=True).start()

    def _serve(self, connection: socket.socket, name: str) -> None:
        with connection:
            if not is_same_user(connection):  # Not every system checks the mode of a socket.
                return
            if not self._slots.acquire(blocking=False):
                with connection.makefile("wb") as out:
                    _refuse(out, QueryFailed(why=f"{CONNECTIONS_MAX} others are connected; try again later"))
                return
            try:
                SqlConnection(self, self._spark, connection, name).serve()
            except Exception:
                logger.exception("a connection for SQL queries failed")
            finally:
                self._slots.release()


def listening(path: Path) -> socket.socket:
    """A socket that only this user may connect to."""
    path.unlink(missing_ok=True)  # Of a process that was killed: the name of the run is taken by this one.
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(before)
    listener.listen(CONNECTIONS_MAX)
    return listener


class SqlConnection:
    """One caller: its session, and its requests one after the other."""

    def __init__(
        self, server: SqlServer, spark: "SparkSession", connection: socket.socket, name: str
    ) -> None:
        self._server = server
        self._clock = server.clock
        self._spark = spark
        self._socket = connection
        self._name = name  # Of its Spark jobs.
        self._engine: LocalEngine | None = None
        self._restricted = False
        self._address = Address()
        self._session: SparkSession | None = None
        self._stuck: Future[Any] | None = None  # What was cancelled and has not ended.

    def serve(self) -> None:
        self._socket.settimeout(IDLE_S)
        # Spark knows whose jobs they are by the thread, so all of them are run by one.
        with (
            self._socket.makefile("rb") as incoming,
            self._socket.makefile("wb") as out,
            ThreadPoolExecutor(1, thread_name_prefix=self._name) as worker,
        ):
            try:
                while self._stuck is None:
                    self._answer(protocol.receive(incoming, wire.REQUESTS), out, worker)
                    self._server.used_ms = self._clock.steady_ms()
            except (EOFError, OSError, ValueError, msgspec.MsgspecError):
                pass  # It has left, says nothing for long, or does not speak this protocol.
            if self._stuck is not None:
                self._end(self._stuck)

    def _answer(self, request: wire.Request, out: Any, worker: ThreadPoolExecutor) -> None:
        try:
            result = self._waited(worker.submit(self._work, request), _seconds(request))
        except PenstockError as error:
            _refuse(out, error)
            return
        if isinstance(result, QueryAnswer):
            protocol.send(out, wire.Completed(truncated=result.truncated))
            writer = protocol.ResultPieceWriter(out)
            result_forms.write(result.rows, result.form, writer, truncated=result.truncated)
            writer.finish()
        else:
            protocol.send(out, result)

    def _waited(self, future: "Future[T]", seconds: float) -> T:
        """The result; cancels the query if it takes too long, or if the caller leaves."""
        until_ms = self._clock.steady_ms() + seconds * 1000
        while not wait([future], LOOK_S).done:
            if self._has_left():
                self._cancel(future, 0)
                raise EOFError
            if self._clock.steady_ms() >= until_ms:
                ending = "" if self._cancel(future, CANCEL_S) else ", and is still ending"
                raise QueryFailed(why=f"it took longer than {seconds:.0f} s{ending}")
        return future.result()

    def _has_left(self) -> bool:
        readable, _, _ = select.select([self._socket], [], [], 0)
        return bool(readable) and not self._socket.recv(1, socket.MSG_PEEK)

    def _cancel(self, future: "Future[Any]", seconds: float) -> bool:
        """Until it has ended, if that is soon: a query that is still planned has no job to cancel yet."""
        until_ms = self._clock.steady_ms() + seconds * 1000
        while not future.done():
            self._spark.sparkContext.cancelJobGroup(self._name)
            wait([future], LOOK_S)
            if self._clock.steady_ms() >= until_ms:
                break
        self._stuck = None if future.done() else future
        return future.done()

    def _end(self, stuck: "Future[Any]") -> None:
        """Go on cancelling what does not end, and then end Spark; its place is taken until then."""
        with suppress(OSError):  # It has left.
            self._socket.shutdown(socket.SHUT_RDWR)  # The caller may ask again on another connection.
        until_ms = self._clock.steady_ms() + STUCK_S * 1000
        while not stuck.done():
            if self._clock.steady_ms() >= until_ms or self._server.closing:
                self._server.end_spark()
                return
            self._spark.sparkContext.cancelJobGroup(self._name)
            wait([stuck], LOOK_S)

    # In the worker's thread.

    def _work(self, request: wire.Request) -> "QueryAnswer | wire.Reply":
        self._spark.sparkContext.setJobGroup(self._name, "penstock sql", interruptOnCancel=True)
        if isinstance(request, wire.OpenSession):
            self._open(request)
            return wire.Completed()
        if self._engine is None or self._session is None:
            raise QueryInvalid(why="open a session first")
        if isinstance(request, wire.RunQuery):
            return self._run(self._engine, self._session, request)
        if isinstance(request, wire.ListTables):
            return wire.TableNames(self._engine.names())
        return wire.TableColumns([(name, kind) for name, kind in self._engine.columns(request.table)])

    def _open(self, request: wire.OpenSession) -> None:
        self._restricted = request.restricted
        self._address = Address(**{"servers": self._server.servers} | request.options)
        self._session = self._spark.newSession()
        if request.restricted:
            restricted.restrict(self._session)
        tables = Tables(self._session, self._address, lake_tables=request.lake_tables)
        self._engine = LocalEngine(tables)

    def _run(self, engine: LocalEngine, session: "SparkSession", request: wire.RunQuery) -> "QueryAnswer":
        wanted = ROWS_MAX if request.rows_max is None else min(request.rows_max, ROWS_MAX)
        result = self._quick(request.query)
        if result is None:
            _check_statement(session, request.query, only_queries=self._restricted)
            result = engine.ask(request.query, wanted + 1)
        if request.rows_max is None and len(result) > ROWS_MAX:
            why = f"its result has more than {ROWS_MAX:,} rows; use --master local[*], or write it with Spark"
            raise QueryFailed(why=why)
        return QueryAnswer(result.first(wanted), request.form, len(result) > wanted)

    def _quick(self, query: str) -> QueryResult | None:
        """The answer of the broker to a query that needs no Spark; local callers have asked it before."""
        if not self._restricted:
            return None
        with self._address.connect() as broker:
            return quick_answer(broker, query)


class QueryAnswer(NamedTuple):
    """A result, and the form in which it is sent."""

    rows: QueryResult
    form: wire.Form
    truncated: bool


def _seconds(request: wire.Request) -> float:
    asked = request.seconds_max if isinstance(request, wire.RunQuery) else None
    return QUERY_S_MAX if asked is None else min(asked, QUERY_S_MAX)


def _refuse(out: Any, error: PenstockError) -> None:
    protocol.send(out, wire.Refused(encode_error(error)))


def _check_statement(session: "SparkSession", query: str, *, only_queries: bool) -> None:
    """Refuse statements that change what all sessions share; Spark reports syntax errors itself."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    internals: Any = session._jsparkSession  # noqa: SLF001 - there is no other way to parse.
    try:
        plan = internals.sessionState().sqlParser().parsePlan(query)
    except (PySparkException, Py4JError):
        return
    if only_queries:
        restricted.check_query(plan)
        return
    kind = plan.getClass().getSimpleName()
    if kind == "CreateViewCommand" and plan.viewType().toString().startswith("LocalTempView"):
        return
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - there is no other way to look at a plan.
    is_a = jvm.py4j.reflection.TypeUtil.isInstanceOf
    if kind not in HARMLESS and any(is_a(name, plan) for name in COMMANDS):
        why = "a warm session runs queries only; for other statements add --master local[*]"
        raise QueryInvalid(why=why)
