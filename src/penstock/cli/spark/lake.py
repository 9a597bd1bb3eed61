"""``penstock lake``: shows what is archived, and verifies that nothing is missing.

Both commands read the tables directly, without Spark, at the location that the broker
reports.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import connecting, screen
from penstock.cli.arguments import SERVER, MaybeTopic, OutputOption, Server
from penstock.cli.commands import example, new_app
from penstock.cli.progress import ProgressBar
from penstock.cli.screen import Column
from penstock.cli.spark import snapshots
from penstock.cli.text import counted, document_of, rounded_size, time_text
from penstock.errors import ExtraMissing, TopicNotFound

if TYPE_CHECKING:
    from penstock.api.broker import Broker
    from penstock.spark.lake.summary import ArchivedTopic
    from penstock.spark.lake.table import LakeTable
    from penstock.spark.lake.verification import PartitionCheck

app = new_app()

TIMES = {"last_batch_ms": "last_batch"}

Lake = Annotated[
    str, typer.Option("--lake", metavar="PATH", help="Directory or URI; default: the lake of the broker.")
]


@app.command(epilog=example("penstock lake info", "penstock lake info orders", "penstock lake info -o json"))
def info(
    topic: MaybeTopic = None, lake: Lake = "", output: OutputOption = "table", server: Server = SERVER
) -> None:
    """Show what is archived of one topic or of all.

    Files, bytes, offsets and the last batch.
    """
    with connecting.connected(server) as broker:
        found = list(_summaries(broker, lake, topic))
    if output == "json":
        screen.documents(document_of(each, TIMES if each.last_batch_ms else None) for each in found)
    elif not found:
        screen.note("nothing is archived; to archive topics, run: penstock pipeline run archive")
    elif topic is None:
        numbers = ("records", "files", "bytes", "lag", "lost")
        columns = [Column("topic"), *(Column(name, right=True) for name in numbers), Column("last batch")]
        screen.table(columns, map(_row, found))
    else:
        _show(found[0])


def _row(archived: "ArchivedTopic") -> list[object]:
    return [
        archived.topic, f"{archived.records:,}", f"{archived.files:,}", rounded_size(archived.bytes),
        f"{archived.lag:,}", f"{archived.lost:,}", _last_batch(archived),
    ]  # fmt: skip


def _show(archived: "ArchivedTopic") -> None:
    screen.facts(
        [
            ("table", archived.path),
            ("has", f"{counted(archived.records, 'record')} in {counted(archived.files, 'file')}"),
            ("bytes", rounded_size(archived.bytes)),
            ("last batch", _last_batch(archived)),
        ]
    )
    screen.line("")
    names = ("partition", "first", "next", "records", "files", "bytes", "lag", "lost")
    screen.table(
        [Column(name, right=True) for name in names],
        [
            [each.partition, each.first, each.next, f"{each.records:,}", each.files, rounded_size(each.bytes),
             f"{each.lag:,}", f"{each.lost:,}"]
            for each in archived.partitions
        ],
    )  # fmt: skip


def _last_batch(archived: "ArchivedTopic") -> str:
    if archived.last_batch_ms is None:
        return "none" if archived.version < 0 else "long ago"
    return f"{time_text(archived.last_batch_ms)} UTC"


@app.command(epilog=example("penstock lake check", "penstock lake check orders"))
def check(
    topic: MaybeTopic = None, lake: Lake = "", output: OutputOption = "table", server: Server = SERVER
) -> int:
    """Verify that log and lake have every offset once.  Reads all files; exit code 1 if not."""
    wrong = 0
    with connecting.connected(server) as broker:
        for table in _tables(broker, lake, topic):
            checks = list(_checks(broker, table))
            wrong += sum(len(each.findings) for each in checks)
            if output == "json":
                screen.documents(map(document_of, checks))
            else:
                _tell(table.topic, checks)
    return min(wrong, 1)


def _checks(broker: "Broker", table: "LakeTable") -> Iterator["PartitionCheck"]:
    from penstock.spark.lake.log_comparison import checked  # Only now, as in _tables.

    size = sum(file.bytes for file in table.files())
    with ProgressBar(f"checking {table.topic}", total=size, unit="bytes") as progress:
        for each in checked(broker, table):
            progress.advance(sum(file.bytes for file in table.files(each.partition)))
            yield each


def _tell(topic: str, checks: list["PartitionCheck"]) -> None:
    from penstock.spark.lake.offset_ranges import offsets_text  # Only now, as in _tables.

    records, files = sum(each.rows for each in checks), sum(each.files for each in checks)
    findings = [f"partition {each.partition}: {finding}" for each in checks for finding in each.findings]
    verdict = f"{counted(len(findings), 'problem')}" if findings else "every offset exists once"
    colour = "bold red" if findings else "green"
    facts: list[tuple[str, object]] = [(topic, screen.styled(verdict, colour))]
    facts.append(("lake", f"{counted(records, 'record')} in {counted(files, 'file')}"))
    log = sum(each.log_end - max(each.log_start, each.next) for each in checks)
    facts.append(("log", f"{counted(log, 'offset')} that {'is' if log == 1 else 'are'} not archived yet"))
    absent = sum(each.absent for each in checks)
    if absent:
        facts.append(("absent", f"{counted(absent, 'offset')} without a record, as in the log"))
    facts += [
        ("lost", f"partition {each.partition}: {offsets_text(*lost)}: deleted before they were archived")
        for each in checks
        for lost in each.lost
    ]
    facts += [("problem", screen.styled(finding, "red")) for finding in findings]
    screen.facts(facts)


def _summaries(broker: "Broker", lake: str, topic: str | None) -> Iterator["ArchivedTopic"]:
    tables = _tables(broker, lake, topic)
    from penstock.spark.lake.summary import summary_of  # Only now, as in _tables.

    for table in tables:
        yield summary_of(table, broker)


def _tables(broker: "Broker", lake: str, topic: str | None) -> list["LakeTable"]:
    """The tables of topics; of one that was never archived only if it was named."""
    if find_spec("deltalake") is None:
        raise ExtraMissing(what="the lake reader", extra="spark")
    from penstock.spark.lake.table import LakeTable, tables_in  # Only now: it needs the extra.

    where = lake or broker.stats().lake
    if topic is None:
        tables = [LakeTable.open(where, name) for name in tables_in(where)]
        return [table for table in tables if table.next_offsets()]
    table = LakeTable.open(where, topic)
    if not table.exists and topic not in broker.topics():
        raise TopicNotFound(topic=topic)
    return [table]


snapshots.add_to(app)
