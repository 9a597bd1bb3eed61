"""``penstock cluster``: tools for running on more than one machine."""

from pathlib import Path
from typing import Annotated, Final

import typer

from penstock.cli import screen
from penstock.cli.arguments import OutputOption
from penstock.cli.commands import example, new_app
from penstock.cli.screen import Column
from penstock.cli.server.cluster_dev import DevCluster, DevNode
from penstock.clock import SystemClock
from penstock.store.opening import open_store
from penstock.store.probe import Check, probe

app = new_app(group=True)

COLUMNS: Final = (Column("CHECK"), Column("RESULT", text=True))


@app.command(
    "probe",
    epilog=example(
        "penstock cluster probe file:///mnt/shared/penstock",
        "penstock cluster probe 's3://bucket/penstock?region=eu-central-1'",
    ),
)
def probe_store(
    url: Annotated[str, typer.Argument(metavar="URL", help="The store: file://, s3://, gs://, az://, ...")],
    output: OutputOption = "table",
) -> int:
    """Check whether a store is safe to commit to; exit code 1 if it is not."""
    report = probe(lambda: open_store(url, SystemClock()))
    if output == "json":
        checks = {check.name: check.problem or "ok" for check in report.checks}
        screen.documents(
            [{"store": report.url, "safe": report.safe, "create_ms": round(report.create_ms, 3), **checks}]
        )
        return 0 if report.safe else 1
    screen.table(COLUMNS, [(check.name, _shown(check)) for check in report.checks])
    verdict = "safe to use" if report.safe else "NOT safe: a cluster refuses it"
    screen.line(f"{report.url}: {verdict}; one create takes {report.create_ms:.1f} ms (median)")
    return 0 if report.safe else 1


def _shown(check: Check) -> str:
    return "ok" if check.problem is None else check.problem


@app.command("dev", epilog=example("penstock cluster dev", "penstock cluster dev --nodes 5 --data ./dev"))
def dev(
    nodes: Annotated[int, typer.Option(min=1, max=9, help="How many nodes.")] = 3,
    data: Annotated[
        str, typer.Option(metavar="DIR", help="The store and the caches of the nodes.")
    ] = "dev-cluster",
) -> int:
    """Run a cluster on this machine until Ctrl-C, with a directory as its store."""
    directory = Path(data)
    directory.mkdir(parents=True, exist_ok=True)
    return DevCluster([DevNode(number, directory) for number in range(1, nodes + 1)]).run()
