"""Queries on a session that another process keeps: the same answers, the caller's permissions, its end."""

import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.server.process import until
from tests.spark.guarded import Guarded

import penstock
from penstock.clock import SystemClock
from penstock.errors import QueryFailed, QueryInvalid, Unauthenticated
from penstock.spark.queries.engine import ColumnInfo, LocalEngine
from penstock.spark.queries.query_result import result_of
from penstock.spark.queries.session import protocol as sql_protocol
from penstock.spark.queries.session import server as sql_server
from penstock.spark.queries.session.client import RemoteEngine, connected_engine
from penstock.spark.queries.session.server import SqlServer
from penstock.spark.queries.views import Tables
from penstock.spark.runtime.connections import Address
from penstock.wire import sql as wire

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEADLINE_S = 60.0
FOREVER = "select count(*) from range(0, 100000000000000, 1, 2000) where id % 7 = 3"


@pytest.fixture(scope="module")
def warm(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlServer]:
    with SqlServer(spark, tmp_path_factory.mktemp("warm") / "sql.sock", SystemClock()) as server:
        yield server


@pytest.fixture
def engine(warm: SqlServer, servers: str) -> Iterator[RemoteEngine]:
    with closing(RemoteEngine(str(warm.path), Address(servers))) as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def _orders(served: object, request: pytest.FixtureRequest) -> None:
    port = request.getfixturevalue("served").ports["native"]
    with penstock.connect(f"127.0.0.1:{port}") as broker:
        broker.create_topic("warm", partitions=1)
        for number in range(5):
            broker.publish("warm", b"%d" % number, key="anna" if number % 2 else "bob")


def test_answers_are_those_of_a_session_of_ones_own(engine: RemoteEngine) -> None:
    counted = engine.ask("select key, count(*) as n from warm group by key order by key", None)
    first = engine.ask("select offset from warm order by offset", 2)

    assert counted.rows() == [[b"anna", 2], [b"bob", 3]]
    assert first.rows() == [[0], [1]]
    assert "warm" in engine.names()
    assert engine.columns("warm")[0] == ColumnInfo("topic", "string")


def test_a_session_registers_its_sources_whichever_is_active(spark: "SparkSession", servers: str) -> None:
    first, second = spark.newSession(), spark.newSession()
    Tables(first, Address(servers))
    first.createDataFrame([(1,)], "n int")  # Makes it the active session of this thread.

    tables = Tables(second, Address(servers))

    assert result_of(tables.sql("select count(*) as n from __gaps")).columns == ["n"]


def test_an_error_is_the_same_sentence_and_the_connection_stays(engine: RemoteEngine) -> None:
    with pytest.raises(QueryInvalid, match="there is no column 'kye'; did you mean key"):
        engine.ask("select kye from warm", None)
    with pytest.raises(QueryInvalid, match="syntax error"):
        engine.ask("selct 1", None)

    assert engine.ask("select 1 as one", None).rows() == [[1]]


def test_sessions_do_not_see_each_others_views(warm: SqlServer, engine: RemoteEngine, servers: str) -> None:
    engine.ask("create temporary view mine as select 7 as n", None)
    with closing(RemoteEngine(str(warm.path), Address(servers))) as other:
        with pytest.raises(QueryInvalid, match="there is no topic or view 'mine'"):
            other.ask("select n from mine", None)

    assert engine.ask("select n from mine", None).rows() == [[7]]


@pytest.mark.parametrize(
    "statement",
    [
        "create table shared as select 1 as n",
        "create global temporary view everybody as select 1 as n",
        "create view everybody as select 1 as n",
        "drop table if exists shared",
        "insert into shared values (1)",
        "create database theirs",
        "cache table warm",
    ],
)
def test_what_sessions_share_is_not_changed(engine: RemoteEngine, statement: str) -> None:
    with pytest.raises(QueryInvalid, match="runs queries only"):
        engine.ask(statement, None)


def test_a_query_has_the_permissions_of_its_caller(warm: SqlServer, guarded: Guarded) -> None:
    for topic in ("open", "secret"):
        guarded.admin.create_topic(topic, partitions=1)
    reader = Address(guarded.servers, key=guarded.key("consumer:open"))
    with closing(RemoteEngine(str(warm.path), reader)) as engine:
        assert engine.ask("select count(*) as n from open", None).rows() == [[0]]
        with pytest.raises(QueryInvalid, match="there is no topic or view 'secret'"):
            engine.ask("select count(*) from secret", None)

    without = RemoteEngine(str(warm.path), Address(guarded.servers))
    with closing(without), pytest.raises(Unauthenticated):
        without.ask("select count(*) from open", None)


def test_a_caller_that_leaves_cancels_its_query(engine: RemoteEngine, spark: "SparkSession") -> None:
    tracker = spark.sparkContext.statusTracker()
    engine.connect()
    sql_protocol.send(engine._out, wire.RunQuery(FOREVER))
    until(lambda: len(tracker.getActiveJobsIds()) > 0)

    engine.close()

    until(lambda: not tracker.getActiveJobsIds())


def test_a_query_that_takes_too_long_is_cancelled(
    engine: RemoteEngine, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_server, "QUERY_S_MAX", 2.0)

    with pytest.raises(QueryFailed, match="it took longer than 2 s"):
        engine.ask(FOREVER, None)

    until(lambda: not spark.sparkContext.statusTracker().getActiveJobsIds())


def test_a_query_that_is_cancelled_before_its_first_job_does_not_run(
    engine: RemoteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancelling what Spark has not begun does nothing, and the next query would wait for this one."""
    engine.connect()
    monkeypatch.setattr(sql_server, "LOOK_S", 0.001)
    monkeypatch.setattr(sql_server, "QUERY_S_MAX", 0.001)
    with pytest.raises(QueryFailed, match="it took longer than 0 s"):
        engine.ask(FOREVER, None)
    monkeypatch.setattr(sql_server, "QUERY_S_MAX", DEADLINE_S)

    assert len(engine.ask("select 1", None)) == 1


def test_a_query_that_cannot_be_cancelled_ends_the_jvm_and_nobody_waits_for_it(
    engine: RemoteEngine, warm: SqlServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Java does not look whether it is cancelled while it matches a regular expression."""
    ended = Event()
    engine.connect()
    monkeypatch.setattr(sql_server, "CANCEL_S", 0.0)
    monkeypatch.setattr(sql_server, "STUCK_S", 3.0)
    monkeypatch.setattr(LocalEngine, "ask", lambda *_: ended.wait())
    monkeypatch.setattr(warm._spark.sparkContext._gateway, "proc", FakeProcess(ended))
    monkeypatch.setattr(warm, "spark_ended", False)

    with pytest.raises(QueryFailed, match="it took longer than 0 s, and is still ending"):
        engine._request(wire.RunQuery("select 1", seconds_max=0.1))
    assert "__groups" in engine.names()  # On another connection.
    assert not ended.is_set()

    until(ended.is_set)
    engine.close()
    until(lambda: warm._slots._value == sql_server.CONNECTIONS_MAX)
    assert warm.spark_ended
    assert "ending the JVM of Spark, and this run" in caplog.text


class FakeProcess(NamedTuple):
    """The JVM: what it does ends with it."""

    ended: Event

    def kill(self) -> None:
        self.ended.set()


def test_the_name_of_a_table_is_only_a_name(engine: RemoteEngine) -> None:
    with pytest.raises(QueryInvalid):
        engine.columns("warm` union all select * from `warm")


def test_a_result_with_too_many_rows_is_refused(
    engine: RemoteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_server, "ROWS_MAX", 3)

    with pytest.raises(QueryFailed, match="more than 3 rows"):
        engine.ask("select * from warm", None)

    assert len(engine.ask("select * from warm limit 3", None)) == 3


def test_an_idle_connection_is_opened_again(engine: RemoteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_server, "IDLE_S", 0.1)
    engine.connect()
    time.sleep(0.5)  # Longer than the server waits for the next request.

    assert engine.ask("select 1 as one", None).rows() == [[1]]


def test_only_the_same_user_may_connect(
    warm: SqlServer, monkeypatch: pytest.MonkeyPatch, servers: str
) -> None:
    assert stat.S_IMODE(os.stat(warm.path).st_mode) == 0o600

    monkeypatch.setattr(os, "getuid", lambda: 12345)

    assert connected_engine([str(warm.path)], Address(servers)) is None


def test_more_callers_than_the_limit_are_refused(spark: "SparkSession", tmp_path: Path, servers: str) -> None:
    with SqlServer(spark, tmp_path / "sql.sock", SystemClock()) as server:
        for _ in range(sql_server.CONNECTIONS_MAX):
            server._slots.acquire()
        engine = RemoteEngine(str(server.path), Address(servers))

        with closing(engine), pytest.raises(QueryFailed, match="16 others are connected"):
            engine.connect()


def test_garbage_ends_the_connection(warm: SqlServer) -> None:
    for garbage in (b"GET / HTTP/1.1\r\n\r\n" * 4, b"\0\0\0\3abc", b"\xff" * 100):
        with socket.socket(socket.AF_UNIX) as raw:
            raw.settimeout(DEADLINE_S)
            raw.connect(str(warm.path))
            raw.sendall(garbage)
            raw.shutdown(socket.SHUT_WR)
            assert raw.recv(100) == b""


def test_the_socket_is_gone_with_the_server(spark: "SparkSession", tmp_path: Path, servers: str) -> None:
    with SqlServer(spark, tmp_path / "sql.sock", SystemClock()) as server:
        server.warm_up(Address(servers))
        with closing(RemoteEngine(str(server.path), Address(servers))) as engine:
            assert engine.ask("select 1 as one", None).rows() == [[1]]

    assert list(tmp_path.iterdir()) == []
    assert connected_engine([str(tmp_path / "sql.sock")], Address(servers)) is None
