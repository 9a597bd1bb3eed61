r"""``penstock sql``: queries topics in SQL, one statement or in a shell.

    check the broker ──┬──> one of a few small questions: the broker answers it (``quick_answers.py``)
                       ├──> a run on this machine keeps Spark warm: ask it (within a second)
                       └──> start Spark (some 20 seconds) ──> create the named views ──> result

The result goes to stdout, everything else to stderr.  Queries are Spark SQL
(docs/decisions explains why there is no second engine).  Errors are one sentence, without
Spark's stack trace.

The shell reads statements up to a ``;``, keeps a history, and has three commands: ``\d``
(with a name: its columns), ``\?`` and ``\q``.  Input that is not a terminal is run as a
script, up to the first error.
"""

import os
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli import connecting, screen
from penstock.cli.arguments import SERVER, Server
from penstock.cli.commands import WrongUse, example, new_app
from penstock.cli.progress import ProgressBar
from penstock.cli.spark import pipeline, rows
from penstock.cli.spark.rows import Output
from penstock.cli.text import counted, rounded_duration
from penstock.errors import PenstockError
from penstock.spark import session
from penstock.spark.pipelines.run import states
from penstock.spark.queries.views import Tables
from penstock.spark.runtime.connections import address_of
from penstock.spark.runtime.error_messages import silence_spark_log
from penstock.spark.session import CONNECT, LOCAL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.api.broker import Broker
    from penstock.spark.queries.engine import QueryEngine
    from penstock.spark.queries.query_result import QueryResult

app = new_app()

TABLE_ROWS: Final = 1000  # Rows that a person looks at; the other forms have all.
HISTORY_LINES: Final = 1000
PROMPT: Final = "penstock> "
PROMPT_MORE: Final = "     ...> "
HELP: Final = r"""A statement ends with ; and may span several lines.
  \d          list the tables: topics, and views of the broker's state
  \d orders   show the columns of a table
  \q          quit, as does Ctrl-D
Names with dots or dashes need backticks: select * from `web.clicks`;"""


@app.command(
    epilog=example(
        'penstock sql "select key, count(*) from orders group by key"',
        "penstock sql 'select * from `web.clicks` limit 5' -o json",
        "penstock sql \"select date_trunc('hour', timestamp), count(*) from orders",
        '             group by 1" --plot orders.png',
        "penstock sql",
    )
)
def sql(
    query: Annotated[
        str | None, typer.Argument(metavar="[QUERY]", help="Spark SQL; default: start a shell.")
    ] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="Output format.")] = "table",
    plot: Annotated[
        str | None,
        typer.Option(metavar="FILE.png", help="Also draw a chart of two columns, the second numeric."),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where Spark runs: local[*], spark://..., sc://...; default: a session that is kept on this "
            "machine, otherwise local[*].",
        ),
    ] = None,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep", help="Keep Spark running for later queries; ends after 30 minutes without one."
        ),
    ] = False,
    server: Server = SERVER,
) -> int:
    """Query topics in SQL; every topic is a view over lake and log.

    orders__journal has the delivery events of orders, orders__dlq its dead letters; __groups, __schedules
    and __gaps show the state of the broker. Names with dots or dashes need backticks.
    """
    _check(query, output, plot)
    if keep:
        if query is not None:
            raise WrongUse("--keep only keeps Spark running; run the query in another terminal")
        return pipeline.run("sql", master=master, server=server)
    if query is not None and master is None and plot is None:
        answer = _quick(query, server)
        if answer is not None:
            show(answer, output)
            return 0
    with _engine(master, server) as engine:
        shell = Shell(engine, output, plot)
        if query is not None:
            shell.ask(query)
            return 0
        return shell.talk() if sys.stdin.isatty() else shell.run(sys.stdin)


def _quick(query: str, server: str) -> "QueryResult | None":
    """The answer to a question that needs no Spark; None for all others."""
    if find_spec("pyarrow") is None:
        return None
    from penstock.spark.queries.quick_answers import quick_answer  # Only now: it needs the extra.

    with connecting.connected(server) as broker:
        return quick_answer(broker, query)


def show(answer: "QueryResult", output: Output) -> None:
    """Print an answer; a table for people has its first rows."""
    if output == "table" and len(answer) > TABLE_ROWS:
        screen.note(f"showing the first {TABLE_ROWS:,} rows; -o csv, -o json and -o parquet have all")
        answer = answer.first(TABLE_ROWS)
    rows.show(answer, output)


@contextmanager
def _engine(master: str | None, server: str) -> Iterator["QueryEngine"]:
    """A session that is kept on this machine, if none is asked for and there is one; or one of our own."""
    with connecting.connected(server) as broker:  # Fails early if the broker is unreachable.
        sockets = [] if master is not None else _kept(broker)
    address = address_of({"servers": server})
    if sockets:
        from penstock.spark.queries.session.client import connected_engine  # Only now: it needs the extra.

        kept = connected_engine(sockets, address)
        if kept is not None:
            with closing(kept):
                yield kept
            return
    with started(master or LOCAL) as spark:
        from penstock.spark.queries.engine import LocalEngine

        yield LocalEngine(Tables(spark, address))


def _kept(broker: "Broker") -> list[str]:
    """The sockets of runs on this machine that answer queries."""
    try:
        runs = states.runs(broker).values()
    except PenstockError:  # Such as a key that may not read the states.
        return []
    now_ms = connecting.clock().wall_ms()
    here = socket.gethostname()
    return [
        run.sql_socket for run in runs if run.sql_socket and run.host == here and states.is_live(run, now_ms)
    ]


def _check(query: str | None, output: Output, plot: str | None) -> None:
    if query is not None and not query.strip():
        raise WrongUse("the query is empty")
    if output == "parquet" and sys.stdout.isatty():
        raise WrongUse("cannot print Parquet to a terminal; redirect it to a file: ... -o parquet > FILE")
    if plot is not None and not plot.endswith(".png"):
        raise WrongUse(f"charts are PNG files, but {plot!r} does not end in .png")
    if plot is not None and query is None:
        raise WrongUse("--plot needs a query")


@contextmanager
def started(master: str) -> Iterator["SparkSession"]:
    """A quiet session, until the end of the block."""
    with TemporaryDirectory(prefix="penstock-sql-") as warehouse:
        # Otherwise Spark makes a folder for tables of its own where the command was given.
        config = {} if master.startswith(CONNECT) else {"spark.sql.warehouse.dir": warehouse}
        with ProgressBar("starting Spark", unit=""):
            spark = session(master, app="penstock sql", config=config)
        silence_spark_log(spark)
        try:
            yield spark
        finally:
            spark.stop()


class Shell:
    def __init__(self, engine: "QueryEngine", output: Output, plot: str | None) -> None:
        self._engine = engine
        self._output = output
        self._plot = plot

    def ask(self, query: str) -> "QueryResult":
        """Run one statement, and print its answer."""
        people = self._output == "table"
        with ProgressBar("asking", unit=""):
            answer = self._engine.ask(query, TABLE_ROWS + 1 if people and self._plot is None else None)
        if self._plot is not None:
            from penstock.spark.queries import plot  # Only now: it loads Matplotlib.

            plot.check(answer)
            with Path(self._plot).open("wb") as file:
                plot.draw(answer, file, title=query)
            screen.note(f"wrote the chart to {self._plot}")
        show(answer, self._output)
        return answer

    def run(self, lines: Iterable[str]) -> int:
        """Run a script, up to its first mistake."""
        statement = ""
        for line in lines:
            statement += line
            if line.rstrip().endswith(";"):
                self.ask(statement)
                statement = ""
        if statement.strip():
            self.ask(statement)
        return 0

    # At a terminal.

    def talk(self) -> int:
        """Read and answer until the person has enough."""
        with history():
            screen.note(r"Spark SQL over the topics of this broker; \d lists them, \? shows help, \q quits.")
            statement = ""
            while True:
                try:
                    line = input(PROMPT_MORE if statement else PROMPT)
                except EOFError:
                    screen.note("")
                    return 0
                except KeyboardInterrupt:
                    screen.note("")
                    statement = ""
                    continue
                if not statement and line.lstrip().startswith("\\"):
                    if line.split()[0] == r"\q":
                        return 0
                    self._answered(line, self._command)
                    continue
                statement += line + "\n"
                if line.rstrip().endswith(";"):
                    self._answered(statement, self._timed)
                    statement = ""
                elif not statement.strip():
                    statement = ""

    def _answered(self, text: str, work: Callable[[str], None]) -> None:
        """Run one interactive command; errors are printed, and Ctrl-C cancels the command, not the shell."""
        try:
            work(text)
        except PenstockError as error:
            screen.note(str(error).removesuffix(f" [{error.code}]"))
        except KeyboardInterrupt:
            screen.note("cancelled")

    def _timed(self, statement: str) -> None:
        clock = connecting.clock()
        begun_ms = clock.steady_ms()
        answer = self.ask(statement)
        screen.note(f"({counted(len(answer), 'row')}, {rounded_duration(clock.steady_ms() - begun_ms)})")

    def _command(self, line: str) -> None:
        command, *names = line.split()
        if command == r"\d" and not names:
            for name in self._engine.names():
                screen.line(name)
        elif command == r"\d" and len(names) == 1:
            columns = self._engine.columns(names[0].strip("`;"))
            screen.table([screen.Column("column"), screen.Column("type")], columns)
        else:
            screen.note(HELP)
        screen.flush()


@contextmanager
def history() -> Iterator[None]:
    """Lines can be edited and come back with the arrow keys, also those of another day."""
    try:
        import readline
    except ImportError:  # A Python that was built without it.
        yield
        return
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    path = Path(state) / "penstock" / "sql_history"
    readline.set_history_length(HISTORY_LINES)
    with suppress(OSError):  # The first time there is none, and without one it works as well.
        readline.read_history_file(path)
    try:
        yield
    finally:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(path)
        except OSError as error:
            screen.note(f"cannot save the history: {path}: {error.strerror}")
