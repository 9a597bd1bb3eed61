"""SQL over HTTP: a real server, a warm Spark session beside it, and callers that may do this and not that."""

import http.client
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest
from tests.server.process import LISTENERS, Server, until
from tests.spark.archived import half_deleted

import penstock
from penstock.clock import SystemClock
from penstock.model.access import Role
from penstock.model.info import PipelineRun
from penstock.spark.pipelines.run import states
from penstock.spark.queries.session.server import SqlServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOREVER = "select count(*) from range(0, 100000000000000, 1, 2000) where id % 7 = 3"
DEADLINE_S = 180.0  # The machine may be very busy.
LONG = {"timeout": "3m"}


class Place(NamedTuple):
    """A server that asks for keys, and its admin."""

    server: Server
    admin: penstock.Broker
    key: str
    socket: Path  # Of the warm session.

    def reader(self, *topics: str, role: Role = "reader") -> str:
        return self.admin.create_key("test", [penstock.Grant(role=role, topics=list(topics))]).key

    def send(
        self, method: str, path: str, key: str, body: Any = None, **headers: str
    ) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.ports["http"], timeout=DEADLINE_S)
        told = {"authorization": f"Bearer {key}", "content-type": "application/json", **headers}
        connection.request(method, path, None if body is None else json.dumps(body), told)
        return connection

    def ask(
        self, method: str, path: str, key: str, body: Any = None, **headers: str
    ) -> tuple[int, Any, bytes]:
        connection = self.send(method, path, key, body, **headers)
        try:
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def sql(self, query: str, key: str = "", **more: Any) -> Any:
        status, _, body = self.ask("POST", "/v1/sql", key or self.key, LONG | {"query": query, **more})
        assert status == 200, body
        return json.loads(body)

    def refused(self, query: str, key: str = "", **more: Any) -> tuple[str, str]:
        status, _, body = self.ask("POST", "/v1/sql", key or self.key, LONG | {"query": query, **more})
        assert status >= 400, body
        problem = json.loads(body)
        return problem["code"], problem["detail"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, spark: "SparkSession") -> Iterator[Place]:
    asking = {"PENSTOCK_SECURITY__AUTHENTICATION": "true", "PENSTOCK_BROKER__MAINTENANCE": "50ms"}
    folder = tmp_path_factory.mktemp("over-http")
    with Server(folder, settings=asking, listeners=(*LISTENERS, "http")) as server:
        key = server.facts["key"]
        with penstock.connect(server.url, key=key) as admin:
            made = Place(server, admin, key, folder / "sql.sock")
            for topic in ("open", "secret"):
                admin.create_topic(topic, partitions=1)
                admin.publish_batch(topic, [b'{"n": %d}' % number for number in range(5)])
            servers = f"127.0.0.1:{server.ports['native']}"
            with SqlServer(spark, made.socket, SystemClock(), servers):
                announce(admin, made.socket)
                yield made


def announce(admin: penstock.Broker, path: Path, **changed: Any) -> None:
    """What a run reports while it answers queries."""
    now_ms = SystemClock().wall_ms()
    facts: dict[str, Any] = {
        "name": "sql", "pipeline": "sql", "run": "1", "state": "running", "host": socket.gethostname(),
        "pid": os.getpid(), "master": "local[2]", "started_ms": now_ms, "updated_ms": now_ms + 3_600_000,
        "sql_socket": str(path),
    }  # fmt: skip
    states.report(admin, PipelineRun(**(facts | changed)))


def test_rows_come_as_json_with_their_columns(place: Place) -> None:
    found = place.sql("select offset, value:n::int as n, key from open order by offset", limit=3)

    assert found["columns"] == [
        {"name": "offset", "type": "bigint"},
        {"name": "n", "type": "int"},
        {"name": "key", "type": "binary"},
    ]
    assert found["rows"] == [[0, 0, None], [1, 1, None], [2, 2, None]]
    assert found["truncated"] is True
    assert place.sql("select 1 as one where false") == {
        "columns": [{"name": "one", "type": "int"}], "rows": [], "truncated": False,
    }  # fmt: skip


def test_the_same_comes_as_csv_and_as_an_arrow_stream(place: Place) -> None:
    query = {"query": "select offset, value from open order by offset", "limit": 2}

    _, head, csv = place.ask("POST", "/v1/sql", place.key, query, accept="text/csv")
    _, _, arrow = place.ask("POST", "/v1/sql", place.key, query, accept="application/vnd.apache.arrow.stream")

    assert csv.decode() == 'offset,value\n0,"{""n"": 0}"\n1,"{""n"": 1}"\n'
    assert head["content-type"] == "text/csv"
    assert head["penstock-truncated"] == "true"
    assert head["content-disposition"] == 'attachment; filename="result.csv"'
    assert pa.ipc.open_stream(arrow).read_all().to_pydict() == {
        "offset": [0, 1], "value": [b'{"n": 0}', b'{"n": 1}'],
    }  # fmt: skip


def test_numbers_that_a_browser_would_round_are_text(place: Place) -> None:
    found = place.sql(
        "select 9007199254740993 as a, 9007199254740991 as b, array(9007199254740993) as c, true as d"
    )

    assert found["rows"] == [["9007199254740993", 9007199254740991, ["9007199254740993"], True]]


def test_a_large_result_arrives_in_pieces_and_complete(place: Place) -> None:
    found = place.sql("select id, repeat('x', 100) as x from range(20000)", limit=20_000)

    assert [row[0] for row in found["rows"]] == list(range(20_000))
    assert found["truncated"] is False


def test_tables_and_columns_are_listed(place: Place) -> None:
    _, _, tables = place.ask("GET", "/v1/sql/tables", place.key)
    _, _, columns = place.ask("GET", "/v1/sql/tables/open", place.key)
    status, _, _ = place.ask("GET", "/v1/sql/tables/nothing", place.key)

    assert {"open", "open__journal", "secret", "__groups"} <= set(json.loads(tables)["tables"])
    assert {"name": "offset", "type": "bigint"} in json.loads(columns)["columns"]
    assert status == 400


def test_a_query_has_the_permissions_of_its_caller(place: Place) -> None:
    key = place.reader("open")

    assert place.sql("select count(*) from open", key)["rows"] == [[5]]
    assert place.sql("select max(offset) from open", key)["rows"] == [[4]]
    assert place.refused("select count(*) from secret", key)[0] == "QUERY_INVALID"
    _, _, tables = place.ask("GET", "/v1/sql/tables", key)
    assert "secret" not in json.loads(tables)["tables"]
    assert place.ask("POST", "/v1/sql", "pk_unknown_key", {"query": "select 1"})[0] == 401


def test_who_may_see_a_topic_and_not_read_it_gets_none_of_its_messages(place: Place) -> None:
    """Not from the log, and not from the lake, whose files the session can read."""
    grants = [penstock.Grant(role="producer"), penstock.Grant(role="reader", topics=["open"])]
    key = place.admin.create_key("test", grants).key
    half_deleted(place.admin, "halves", str(place.server.data / "lake"))

    for query in ("select value from secret", "select value from halves where offset < 10"):
        assert place.sql(query, limit=1)["rows"]
        assert "is not allowed to read topic" in place.refused(query, key)[1]


def test_a_table_of_the_lake_that_is_no_topics_is_for_admins(place: Place) -> None:
    table = pa.table({"n": [1]})
    folder = place.server.data / "lake" / "gone"
    from deltalake import write_deltalake

    write_deltalake(str(folder), table)

    assert place.sql("select n from gone")["rows"] == [[1]]
    assert place.refused("select n from gone", place.reader("*"))[0] == "QUERY_INVALID"


@pytest.mark.parametrize(
    "statement",
    [
        "select * from text.`/etc/hosts`",
        "select * from identifier('text.`/etc/hosts`')",
        "select transform(1) using 'cat /etc/hosts' as x",
        "with q as (select transform(1) using 'cat' as x) select * from q",
        "select (select count(*) from (select transform(1) using 'cat' as x)) as n",
        "select reflect('java.lang.System', 'getProperty', 'user.home')",
        "select builtin.java_method('java.lang.System', 'getProperty', 'user.home')",
        "select identifier('try_reflect')('java.lang.System', 'getProperty', 'user.home')",
        "select from_xml('<a>1</a>', 'a int', map('rowValidationXSDPath', '/etc/hosts'))",
        "select xpath_string('<!DOCTYPE a SYSTEM \"http://127.0.0.1:9/\"><a>b</a>', 'a')",
        "select xpath(concat('<!DOCTYPE a SYSTEM \"file:///etc/hosts\"><a>', key, '</a>'), 'a') from open",
        "insert overwrite local directory 'somewhere' using csv select 1",
        "with q as (select 1 as n) insert into t select * from q",
        "create temporary view v using text options (path '/etc/hosts')",
        "execute immediate 'create table t as select 1 as n'",
        "begin select 1; end",
        "set spark.sql.runSQLOnFiles = true",
        "add jar '/tmp/x.jar'",
        "explain select 1",
        "show tables",
    ],
)
def test_nothing_but_queries_on_tables_is_run(place: Place, statement: str) -> None:
    code, detail = place.refused(statement)

    assert code == "QUERY_INVALID", detail


@pytest.mark.parametrize(
    "query",
    [
        "with a as (select 1 as n union all select 2) select sum(n) over (partition by n) from a order by 1",
        "select * from (values ('x', 1), ('y', 2)) as v(k, n) pivot (sum(n) for k in ('x', 'y'))",
        "select n from open lateral view explode(array(1)) t as n where offset in (select 4 as offset)",
        "select distinct a.key from open a join open b using (offset) where exists (select 1) limit 5",
        "from open |> where offset > 2 |> select offset",
        "select count(*) as n from open group by grouping sets ((partition), ()) having n > 1",
        "select /*+ repartition(2) */ offset from open tablesample (50 percent)",
        "select sum(offset) over w from open window w as (order by offset)",
        "with recursive r(n) as (select 1 union all select n + 1 from r where n < 3) select * from r",
        "select 1 intersect select 1 except select 2",
        "values (1, 'a')",
        "table open",
    ],
)
def test_queries_of_all_kinds_are_run(place: Place, query: str) -> None:
    assert place.sql(query)["columns"]


@pytest.mark.parametrize("name", ["env:PATH", "system:user.home", "spark.app.name", "sparkconf:spark.master"])
def test_variables_of_the_process_are_not_put_into_a_query(place: Place, name: str) -> None:
    """Settings and the environment have the passwords of stores and keys of brokers."""
    text = f"${{{name}}}"

    assert place.sql(f"select '{text}' as text")["rows"] == [[text]]


def test_a_client_that_disconnects_cancels_its_query(place: Place, spark: "SparkSession") -> None:
    tracker = spark.sparkContext.statusTracker()
    connection = place.send("POST", "/v1/sql", place.key, {"query": FOREVER})
    until(lambda: len(tracker.getActiveJobsIds()) > 0)

    connection.close()

    until(lambda: not tracker.getActiveJobsIds())


def test_a_revoked_key_ends_its_query(place: Place, spark: "SparkSession") -> None:
    tracker = spark.sparkContext.statusTracker()
    made = place.admin.create_key("short", [penstock.Grant(role="reader")])
    connection = place.send("POST", "/v1/sql", made.key, {"query": FOREVER})
    until(lambda: len(tracker.getActiveJobsIds()) > 0)

    place.admin.revoke_key(made.id)

    assert connection.getresponse().status == 401
    connection.close()
    until(lambda: not tracker.getActiveJobsIds())


def test_a_query_ends_at_the_time_it_was_given(place: Place) -> None:
    code, detail = place.refused(FOREVER, timeout="2s")

    assert code == "QUERY_FAILED"
    assert "longer than 2 s" in detail


def test_errors_say_what_is_wrong(place: Place) -> None:
    assert place.refused("select kye from open")[1].startswith(
        "this query is invalid: there is no column 'kye'"
    )
    assert place.refused("selct 1")[0] == "QUERY_INVALID"
    assert place.refused("select 1", timeout="11m")[0] == "VALUE_INVALID"
    assert place.refused("select 1", limit=0)[0] == "REQUEST_INVALID"


def test_a_login_of_the_dashboard_is_enough(place: Place) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", place.server.ports["http"], timeout=DEADLINE_S)
    told = {"content-type": "application/json", "x-penstock-guard": "page"}
    connection.request("POST", "/ui/session", json.dumps({"key": place.reader("open")}), told)
    answer = connection.getresponse()
    cookie = answer.headers["set-cookie"].partition(";")[0]
    told |= {"cookie": cookie, "x-penstock-guard": json.loads(answer.read())["guard"]}

    connection.request("POST", "/v1/sql", json.dumps({"query": "select count(*) from open"}), told)

    found = json.loads(connection.getresponse().read())
    connection.close()
    assert found["rows"] == [[5]]


def test_without_a_session_the_error_says_which_command_starts_one(place: Place, tmp_path: Path) -> None:
    for changed in ({"host": "elsewhere"}, {"state": "stopped"}, {"sql_socket": str(tmp_path / "none")}):
        announce(place.admin, tmp_path, **changed)

        code, detail = place.refused("select 1")

        assert code == "SQL_UNAVAILABLE"
        assert "penstock serve --archive" in detail
    announce(place.admin, place.socket)
    assert place.sql("select 1 as one")["rows"] == [[1]]
