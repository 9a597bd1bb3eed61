"""``penstock sql`` in this process, on the session that all tests share; as a process, in test_run.py."""

import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Done, Keyboard

import penstock
from penstock.cli.main import main
from penstock.cli.spark import sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Ask = Callable[..., Done]

TOPIC = "web.visits"
BY_KEY = f"select key, count(*) as visits from `{TOPIC}` group by key order by key"


@pytest.fixture(scope="module", autouse=True)
def _visits(served: object, request: pytest.FixtureRequest) -> None:
    """A topic to ask for."""
    port = request.getfixturevalue("served").ports["native"]
    with penstock.connect(f"127.0.0.1:{port}") as broker:
        broker.create_topic(TOPIC, partitions=1)
        for key in ("anna", "bob", "anna", None):
            broker.publish(TOPIC, b"\xff" if key is None else b"hello", key=key)


@pytest.fixture
def ask(
    spark: "SparkSession",
    servers: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> Ask:
    """``ask("select 1", "-o", "json")``: the command as a user types it."""

    @contextmanager
    def started(_master: str) -> Iterator["SparkSession"]:
        yield spark

    monkeypatch.setattr(sql, "started", started)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(*arguments: str, stdin: str = "", keyboard: str | None = None) -> Done:
        typed = (stdin if keyboard is None else keyboard).encode()
        kind = io.TextIOWrapper if keyboard is None else Keyboard
        monkeypatch.setattr(sys, "stdin", kind(io.BytesIO(typed)))
        capfdbinary.readouterr()
        code = main(["sql", *arguments, "--server", f"penstock://{servers}"])
        sys.stdout.flush()
        shown = capfdbinary.readouterr()
        for view in spark.catalog.listTables():  # Each command has a session of its own, as it were.
            spark.catalog.dropTempView(view.name)
        return Done(code, shown.out.decode("utf-8", "surrogateescape"), shown.err.decode())

    return run


def test_an_answer_is_a_table_csv_json_or_parquet(ask: Ask, tmp_path: Path) -> None:
    table = ask(BY_KEY)
    csv = ask(BY_KEY, "-o", "csv")
    documents = ask(f"select key, value, headers, timestamp from `{TOPIC}` where offset > 1", "-o", "json")
    parquet = ask(BY_KEY, "-o", "parquet")

    assert table.lines == ["key visits", "null 1", "anna 2", "bob 1"]
    assert csv.out == "key,visits\n,1\nanna,2\nbob,1\n"
    first, second = documents.documents
    assert (first["key"], first["value"], first["headers"]) == ("anna", "hello", {})
    assert first["timestamp"].endswith("Z")
    assert (second["key"], second["value_base64"]) == (None, "/w==")
    rows = pq.read_table(io.BytesIO(parquet.out.encode("utf-8", "surrogateescape"))).to_pylist()
    assert rows == [{"key": None, "visits": 1}, {"key": b"anna", "visits": 2}, {"key": b"bob", "visits": 1}]
    assert {done.code for done in (table, csv, documents, parquet)} == {0}


def test_a_chart_is_drawn_beside_the_answer(ask: Ask, tmp_path: Path) -> None:
    path = tmp_path / "visits.png"

    done = ask(BY_KEY, "--plot", str(path))

    assert done.code == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    assert done.err == f"wrote the chart to {path}\n"
    assert done.lines[0] == "key visits"


def test_a_mistake_is_one_line_and_code_1(ask: Ask) -> None:
    typo = ask("select kye from `web.visits`")
    no_chart = ask("select key from `web.visits`", "--plot", "x.png")

    assert (typo.code, typo.out) == (1, "")
    assert typo.err.startswith("penstock sql: this query is invalid: there is no column 'kye'; did you mean")
    assert typo.err.count("\n") == 1
    assert no_chart.code == 1
    assert "a chart needs two columns, but the result has 1" in no_chart.err
    assert not Path("x.png").exists()


def test_a_long_table_is_cut_and_says_so(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "TABLE_ROWS", 2)

    done = ask("select id from range(5) order by id")
    whole = ask("select id from range(5) order by id", "-o", "csv")

    assert done.lines == ["id", "0", "1"]
    assert done.err == "showing the first 2 rows; -o csv, -o json and -o parquet have all\n"
    assert len(whole.out.splitlines()) == 6


def test_a_script_runs_up_to_its_first_mistake(ask: Ask) -> None:
    done = ask("-o", "csv", stdin="select 1\n  as one;\nselect 2 as two;\nselekt 3;\nselect 4;\n")

    assert done.code == 1
    assert done.out == "one\n1\ntwo\n2\n"
    assert "there is a syntax error at 'selekt'" in done.err


def test_the_shell_answers_lists_and_goes_on_after_a_mistake(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines = iter(
        [
            "select count(*) as n",
            f"from `{TOPIC}`;",
            "",
            r"\d",
            rf"\d {TOPIC}",
            "selekt 1;",
            r"\?",
            "select",
            "",
        ]
    )
    prompts: list[str] = []

    def typed(prompt: str) -> str:
        prompts.append(prompt)
        line = next(lines, None)
        if line is None:
            raise EOFError
        if line == "":
            raise KeyboardInterrupt  # Ctrl-C: the statement is forgotten, and the shell goes on.
        return line

    monkeypatch.setattr("builtins.input", typed)

    done = ask(keyboard="")

    assert done.code == 0
    assert prompts[:4] == [sql.PROMPT, sql.PROMPT_MORE, sql.PROMPT, sql.PROMPT]
    assert done.lines[:2] == ["n", "4"]
    assert {TOPIC, f"{TOPIC}__dlq", f"{TOPIC}__journal", "__groups"} <= set(done.lines)
    assert "headers map<string,binary>" in done.lines
    assert "(1 row, " in done.err
    assert "there is a syntax error at 'selekt'" in done.err
    assert "[QUERY_INVALID]" not in done.err
    assert sql.HELP in done.err
    assert (tmp_path / "state" / "penstock" / "sql_history").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([" "], "the query is empty"),
        (["select 1", "--plot", "x.pdf"], "charts are PNG files, but 'x.pdf' does not end in .png"),
        (["--plot", "x.png"], "--plot needs a query"),
        (["select 1", "-o", "xml"], "xml"),
    ],
)
def test_a_wrong_command_line_is_told_before_anything_starts(
    arguments: list[str], words: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(_master: str) -> Iterator["SparkSession"]:
        raise AssertionError("Spark has started")

    monkeypatch.setattr(sql, "started", never)

    done = ask(*arguments)

    assert done.code == 2
    assert words in done.err


def test_a_broker_that_is_not_there_is_told_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sql, "started", lambda _master: pytest.fail("Spark has started"))

    code = main(["sql", "select 1", "--server", "penstock://127.0.0.1:1"])

    assert code == 1
    assert "[SERVER_UNREACHABLE]" in capfd.readouterr().err


def test_what_the_decision_about_one_sql_says_of_spark_holds(ask: Ask) -> None:
    query = (
        "select cast(2.5 as int) a, dayofweek(date '2026-11-15') b, substring('abc', 0, 2) c,"
        " cast(encode('café', 'utf-8') as string) d"
    )

    done = ask(query, "-o", "json")

    assert json.loads(done.out) == {"a": 2, "b": 1, "c": "ab", "d": "café"}
    assert ask("select 1/0").code == 1
