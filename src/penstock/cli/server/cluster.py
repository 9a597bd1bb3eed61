"""``penstock cluster``: operate a cluster, run one on this machine, check a store.

The commands for operators talk to any node; docs/cluster.md explains what they do.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from penstock.cli import connecting, screen
from penstock.cli.arguments import SERVER, OutputOption, Server, topic_name
from penstock.cli.commands import example, new_app
from penstock.cli.screen import Column
from penstock.cli.server.cluster_convert import convert, leave
from penstock.cli.server.cluster_dev import DevCluster, DevNode
from penstock.cli.text import counted, rounded_duration
from penstock.clock import SystemClock
from penstock.config.server import shown
from penstock.model.cluster import ClusterInfo, ClusterNode, Moved
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
    """Check whether a store is safe to commit to.

    The exit code is 1 if it is not.
    """
    report = probe(lambda: open_store(url, SystemClock()))
    if output == "json":
        checks = {check.name: check.problem or "ok" for check in report.checks}
        screen.documents(
            [{"store": report.url, "safe": report.safe, "create_ms": round(report.create_ms, 3), **checks}]
        )
        return 0 if report.safe else 1
    screen.table(COLUMNS, [(check.name, _result(check)) for check in report.checks])
    verdict = "safe to use" if report.safe else "NOT safe: a cluster refuses it"
    screen.line(f"{report.url}: {verdict}; one create takes {report.create_ms:.1f} ms (median)")
    return 0 if report.safe else 1


def _result(check: Check) -> str:
    return "ok" if check.problem is None else check.problem


@app.command("dev", epilog=example("penstock cluster dev", "penstock cluster dev --nodes 5 --data ./dev"))
def dev(
    nodes: Annotated[int, typer.Option(min=1, max=9, help="How many nodes.")] = 3,
    data: Annotated[
        str, typer.Option(metavar="DIR", help="The store and the caches of the nodes.")
    ] = "dev-cluster",
) -> int:
    """Run a cluster on this machine until Ctrl-C.

    Its store is a directory.
    """
    directory = Path(data)
    directory.mkdir(parents=True, exist_ok=True)
    return DevCluster([DevNode(number, directory) for number in range(1, nodes + 1)]).run()


_CLUSTER = "--data data --cluster shop --store s3://bucket/penstock --node 1"
app.command(epilog=example(f"penstock cluster convert {_CLUSTER}"))(convert)
app.command(epilog=example(f"penstock cluster leave {_CLUSTER}"))(leave)


# Operating a cluster.

Node = Annotated[int, typer.Argument(metavar="NODE", min=1, help="Number of the node.")]

NODES: Final = (
    Column("NODE", right=True), Column("STATE"), Column("NATIVE"), Column("KAFKA"),
    Column("PARTITIONS", right=True), Column("COMMIT P50", right=True), Column("P99", right=True),
    Column("WAL", right=True), Column("UP FOR", right=True), Column("VERSION"),
)  # fmt: skip
STYLES: Final = {"up": "green", "draining": "yellow", "silent": "red", "stopped": "dim"}


@app.command(epilog=example("penstock cluster status", "penstock cluster status -o json"))
def status(output: OutputOption = "table", server: Server = SERVER) -> None:
    """Show a cluster: its nodes, and who owns which partitions."""
    with connecting.connected(server) as broker:
        found = broker.cluster_info()
    if output == "json":
        screen.documents([msgspec.to_builtins(found)])
        return
    up = [node for node in found.nodes if node.state in ("up", "draining")]
    orphans = sum(each.node < 0 for each in found.partitions)
    without = f"{orphans} without an owner" if orphans else "all have an owner"
    screen.facts(
        [
            ("cluster", found.name),
            ("store", found.store),
            ("nodes", f"{len(up)} of {len(found.nodes)} up"),
            ("partitions", f"{len(found.partitions)}, {without}"),
        ]
    )
    if found.partitions:
        screen.line("")
        numbers = sorted({node.node for node in up} | {each.node for each in found.partitions} - {-1})
        titles = [Column(f"NODE {number}", text=True) for number in numbers]
        screen.table((Column("TOPIC"), *titles), [*_owner_rows(found, numbers)])


def _owner_rows(found: ClusterInfo, numbers: list[int]) -> Iterator[tuple[str, ...]]:
    for topic in sorted({each.topic for each in found.partitions}):
        owned = {
            number: [
                each.partition for each in found.partitions if (each.topic, each.node) == (topic, number)
            ]
            for number in numbers
        }
        yield topic, *(_ranges(owned[number]) for number in numbers)


def _ranges(partitions: list[int]) -> str:
    """0-3, 7: ascending numbers as ranges."""
    parts: list[list[int]] = []
    for number in partitions:
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ", ".join("-".join(map(str, part)) for part in parts) or "-"


@app.command(epilog=example("penstock cluster nodes", "penstock cluster nodes -o json"))
def nodes(output: OutputOption = "table", server: Server = SERVER) -> None:
    """List the nodes of a cluster: state, addresses, commit latency."""
    with connecting.connected(server) as broker:
        found = broker.cluster_info()
    if output == "json":
        screen.documents(msgspec.to_builtins(node) for node in found.nodes)
    else:
        screen.table(NODES, [_node_row(node) for node in found.nodes])


def _node_row(node: ClusterNode) -> tuple[object, ...]:
    report = node.report
    facts: tuple[object, ...] = ("-",) * 5
    if report is not None:
        facts = (
            _latency(report.commit_seconds_p50), _latency(report.commit_seconds_p99),
            report.wal_entries, rounded_duration(report.uptime_seconds * 1000), report.version,
        )  # fmt: skip
    return (
        node.node, screen.styled(node.state, STYLES[node.state]), _address(node.host, node.native),
        _address(node.host, node.kafka), node.partitions, *facts,
    )  # fmt: skip


def _latency(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds else "-"


def _address(host: str, port: int) -> str:
    return shown(host, port) if port else "off"


@app.command(epilog=example("penstock cluster drain 2", "penstock cluster drain 2 --undo"))
def drain(
    node: Node,
    undo: Annotated[bool, typer.Option("--undo", help="Let it have partitions again.")] = False,
    server: Server = SERVER,
) -> int:
    """Move all partitions away from a node, and keep new ones away."""
    with connecting.connected(server) as broker:
        moved = broker.drain_node(node, undo=undo)
    if undo:
        screen.note(f"node {node} may own partitions again; they move back within a minute")
        return 0
    return _report(moved, f"moved away from node {node}")


@app.command(epilog=example("penstock cluster remove 3"))
def remove(node: Node, server: Server = SERVER) -> None:
    """Forget a node that has been stopped for good."""
    with connecting.connected(server) as broker:
        broker.remove_node(node)
    screen.note(f"removed node {node}")


@app.command(epilog=example("penstock cluster move orders:0 2"))
def move(
    partition: Annotated[
        str, typer.Argument(metavar="TOPIC:PARTITION", help="The partition, such as orders:0.")
    ],
    node: Node,
    server: Server = SERVER,
) -> int:
    """Move a partition to a node; it stays there while the node is up."""
    topic, _, number = partition.rpartition(":")
    if not topic or not number.isascii() or not number.isdecimal():
        raise typer.BadParameter(f"{partition!r} is not TOPIC:PARTITION", param_hint="'TOPIC:PARTITION'")
    with connecting.connected(server) as broker:
        moved = broker.move_partition(topic_name(topic), int(number), node)
    if not moved.moved and not moved.left:
        screen.note(f"{partition} is on node {node}, and stays there")
        return 0
    return _report(moved, f"moved to node {node}")


@app.command(epilog=example("penstock cluster balance", "penstock cluster balance --dry-run"))
def balance(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would move.")] = False,
    server: Server = SERVER,
) -> int:
    """Move partitions so that each node owns about as many."""
    with connecting.connected(server) as broker:
        moved = broker.balance_partitions(dry_run=dry_run)
    if dry_run:
        screen.note(f"{counted(moved.left, 'partition')} would move")
        return 0
    return _report(moved, "moved")


def _report(moved: Moved, verb: str) -> int:
    """Print how many partitions have moved; exit code 1 if some have not."""
    screen.note(f"{counted(moved.moved, 'partition')} {verb}")
    if moved.left:
        screen.note(f"{counted(moved.left, 'partition')} still to move; see: penstock cluster status")
    return 1 if moved.left else 0
