"""``penstock serve``: runs a server.

The start-up output goes to stdout, because scripts need the addresses (port 0 picks a free one): a table on a
terminal, otherwise one ``name value`` per line, with ``ready`` as the last line.  The log goes to stderr.

    $ penstock serve --native 127.0.0.1:0 --text off --status off
    native penstock://127.0.0.1:40511
    data /home/anna/data
    durability fsync
    ready
"""

import logging
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli import screen
from penstock.cli.commands import WrongUse, example, new_app
from penstock.cli.connecting import DEFAULT_SERVER
from penstock.cli.server.pipeline_process import PipelineBeside
from penstock.config import loading
from penstock.config.loading import Loaded
from penstock.config.server import ServerConfig, shown
from penstock.errors import DirectoryInUse, DirectoryUnusable, InvalidConfiguration
from penstock.frontends.systemd import READY, STOPPING, notify
from penstock.version import version_line

if TYPE_CHECKING:
    from penstock.cluster.member import ClusterMember
    from penstock.frontends.serve import Addresses

app = new_app()

FIRST_TOPIC: Final = "orders"
JOINS_AGAIN: Final = "_PENSTOCK_JOINS_AGAIN"  # Set for a process that takes the place of one that was sealed.
# What is said of each listener on a terminal: the form of its address, and what it is for.
LISTENERS: Final = {
    "native": ("penstock://{}", "Penstock and KQueue clients"),
    "text": ("{}", "netcat; HELP lists the commands"),
    "status": ("http://{}/metrics", "pending messages, as JSON"),
    "http": ("http://{}/ui/", "dashboard and HTTP API; /docs describes the API"),
    "kafka": ("{}", "Kafka clients (bootstrap.servers)"),
    "sqs": ("http://{}", "AWS SDKs (endpoint_url)"),
    "grpc": ("{}", "gRPC clients; reflection is on"),
}
DURABILITY: Final = {
    "fsync": "acknowledged messages are on disk",
    "os": "acknowledged messages reach the disk a second later",
    "memory": "all data is lost when the server ends",
}
FIRST_KEY: Final = "The key of the first admin; it cannot be shown again:"

ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        envvar="PENSTOCK_CONFIG",
        help="Configuration file in TOML, YAML or JSON; see penstock config show.",
    ),
]


_CACHE_BYTES = typer.Option(metavar="BYTES", help="Size of this node's cache of the cluster. [unlimited]")


def _address(words: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(metavar="HOST:PORT|off", help=words)
    return option


@app.command(
    epilog=example(
        "penstock serve",
        "penstock serve --data /var/lib/penstock --config penstock.toml",
        "penstock serve --archive",
        "penstock serve --cluster shop --store s3://bucket/penstock --node 1 --advertise host1",
        "penstock serve --data :memory: --native 127.0.0.1:0 --text off --status off",
    )
)
def serve(
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="Data directory; :memory: keeps nothing on disk.")
    ] = None,
    native: Annotated[str | None, _address("The native protocol. [127.0.0.1:7070]")] = None,
    text: Annotated[str | None, _address("The text protocol, for netcat. [127.0.0.1:3000]")] = None,
    status: Annotated[str | None, _address("Status over HTTP, at /metrics. [127.0.0.1:8081]")] = None,
    http: Annotated[str | None, _address("The HTTP API and the dashboard. [127.0.0.1:8080]")] = None,
    kafka: Annotated[str | None, _address("The Kafka protocol. [127.0.0.1:9092]")] = None,
    sqs: Annotated[str | None, _address("Amazon SQS, usually on port 9324. [off]")] = None,
    grpc: Annotated[str | None, _address("The gRPC API; needs penstock[grpc]. [off]")] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="NAME", help="Run as a node of this cluster.")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The store of the cluster: file://, s3://, postgresql://, ..."),
    ] = None,
    node: Annotated[str | None, typer.Option(metavar="N", help="Number of this node, from 1.")] = None,
    advertise: Annotated[
        str | None, typer.Option(metavar="HOST", help="Host under which others reach this node. [127.0.0.1]")
    ] = None,
    peer: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Listen for other nodes. [127.0.0.1:7071]")
    ] = None,
    cache_bytes: Annotated[str | None, _CACHE_BYTES] = None,
    config: ConfigFile = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Allow access from other machines without authentication.")
    ] = False,
    archive: Annotated[
        bool, typer.Option("--archive", help="Also run the archive pipeline on Spark, in a child process.")
    ] = False,
) -> int:
    """Run a server until Ctrl-C or SIGTERM.

    Flags override environment variables (PENSTOCK_LISTEN__NATIVE=...), which override the file.
    """
    flags = {
        "server.data": data, "listen.native": native, "listen.text": text, "listen.status": status,
        "listen.http": http, "listen.kafka": kafka, "listen.sqs": sqs, "listen.grpc": grpc,
        "cluster.name": cluster, "cluster.store": store, "cluster.node": node, "cluster.advertise": advertise,
        "cluster.peer": peer, "cluster.cache_bytes": cache_bytes,
        "security.insecure": "true" if insecure else None,
    }  # fmt: skip
    return _run(
        load({key: value for key, value in flags.items() if value is not None}, config), archive=archive
    )


def _run(loaded: Loaded, *, archive: bool) -> int:
    """Run a server with these settings, and with ``archive`` the pipeline next to it."""
    if archive:
        _check_archive(loaded.config)
    begin_log(loaded.config)
    _log_unused(loaded)
    beside = PipelineBeside("archive", **_query_socket(loaded.config)) if archive else None
    from penstock.frontends.serve import run  # Only now: configuration errors need no broker.

    def ready(addresses: "Addresses", first_key: str | None) -> None:
        show(loaded.config, addresses, first_key=first_key, archive=archive)
        if beside is not None:
            beside.start(scheme(loaded.config).format(shown(*addresses["native"])))
        notify(READY, os.environ)

    members: list[ClusterMember] = []
    try:
        run(
            loaded.config,
            ready,
            lambda: _stop(beside),
            _membership(loaded.config, members),
        )
    except (DirectoryInUse, DirectoryUnusable) as error:
        words = str(error).removesuffix(f" [{error.code}]")
        screen.note(f"penstock serve: {words}; the setting is server.data (--data DIR) [{error.code}]")
        return 1
    if members and members[0].sealed:
        _restart()
    return 1 if members and members[0].failed else 0


def _log_unused(loaded: Loaded) -> None:
    for name, reason, origin in loaded.unused():
        logging.getLogger("penstock").warning("%s (%s) has %s", name, origin, reason)


def _stop(beside: PipelineBeside | None) -> None:
    """The end has begun: tell the service manager, and end the pipeline while there is a broker for it."""
    notify(STOPPING, os.environ)
    if beside is not None:
        beside.stop()


def _membership(config: ServerConfig, members: "list[ClusterMember]") -> "Callable[[], ClusterMember] | None":
    """What makes the server a node of a cluster, if it is one; it is kept in ``members``."""
    if not config.cluster.name:
        return None
    from penstock.cluster.member import ClusterMember  # Only now: others need not have its packages.

    def member() -> ClusterMember:
        members.append(ClusterMember(config, patient=os.environ.pop(JOINS_AGAIN, None) is not None))
        return members[0]

    return member


def _restart() -> None:
    """Run this command again in place of this process: an incarnation that was sealed never comes back."""
    screen.note("penstock serve: other nodes have taken over this node's partitions; it joins again")
    os.environ[JOINS_AGAIN] = "1"
    os.execv(sys.executable, [sys.executable, "-m", "penstock", *sys.argv[1:]])


def _query_socket(config: ServerConfig) -> dict[str, str]:
    """The setting by which the archive also answers `penstock sql`, on a socket in the data directory."""
    return {"sql_socket": str(Path(config.server.data, "sql.sock").absolute())} if config.server.data else {}


def _check_archive(config: ServerConfig) -> None:
    if config.listen.native == "off":
        raise WrongUse("--archive needs the native listener; do not turn it off")
    if not _lake(config):
        raise WrongUse("--archive needs a lake, but this server keeps nothing on disk; set lake.path")
    if config.security.authentication and not os.environ.get("PENSTOCK_KEY"):
        raise WrongUse("--archive needs a key, because authentication is on; set PENSTOCK_KEY")


def scheme(config: ServerConfig) -> str:
    """The form of the native address."""
    return "penstocks://{}" if config.tls.certificate else "penstock://{}"


def _lake(config: ServerConfig) -> str:
    """Where the lake is; empty if there is none."""
    if config.lake.path != "auto":
        return config.lake.path
    return "" if config.server.data == ":memory:" else os.path.join(config.server.data, "lake")


def load(flags: dict[str, str], file: str | None) -> Loaded:
    """The configuration of this process: its file, its environment and these flags."""
    try:
        text = "" if file is None else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidConfiguration(problems=f"  --config {file}: {why}") from None
    return loading.load(text=text, file=file or "", environ=os.environ, flags=flags)


def begin_log(config: ServerConfig) -> None:
    """Configure the log on stderr."""
    logging.basicConfig(stream=sys.stderr, format=screen.LOG_FORMAT, level=config.server.log_level.upper())


def show(
    config: ServerConfig, addresses: "Addresses", *, first_key: str | None = None, archive: bool = False
) -> None:
    if sys.stdout.isatty():
        _show_table(config, addresses, first_key, archive=archive)
    else:
        for name, value, _ in facts(config, addresses, archive=archive):
            screen.line(f"{name} {value}")
        if first_key is not None:
            screen.line(f"key {first_key}")
        screen.line("ready")
    screen.flush()


def facts(
    config: ServerConfig, addresses: "Addresses", *, archive: bool = False
) -> Iterator[tuple[str, str, str]]:
    """Names, values and descriptions of what clients need to know."""
    for name, address in addresses.items():
        form, words = LISTENERS[name]
        if config.tls.certificate:
            form = form.replace("://", "s://")
        yield name, form.format(shown(*address)), words
    memory = config.server.data == ":memory:"
    data = config.server.data if memory else os.path.abspath(config.server.data)
    yield "data", data, ""
    durability = "memory" if memory else config.topic.durability
    yield "durability", durability, DURABILITY[durability]
    if archive:
        yield "lake", _lake(config), "topics are archived there as soon as Spark has started"


def _show_table(
    config: ServerConfig, addresses: "Addresses", first_key: str | None, *, archive: bool
) -> None:
    from rich.text import Text

    rows = [
        (name, _near(value) if name == "data" else value, words)
        for name, value, words in facts(config, addresses, archive=archive)
    ]
    name_width = max(len(name) for name, _, _ in rows)
    value_width = max(len(value) for _, value, words in rows if words)
    out = screen.console()
    out.print(Text.assemble((version_line(), "bold"), " is ready; press Ctrl-C to stop it.\n"))
    for name, value, words in rows:
        line = Text.assemble("  ", (f"{name:<{name_width}}", "bold"), f"  {value:<{value_width}}  {words}")
        line.rstrip()
        out.print(line, soft_wrap=True)
    out.print()
    first = [] if first_key is None else [(FIRST_KEY, [f"export PENSTOCK_KEY={first_key}"])]
    for title, commands in [*first, *first_commands(addresses, form=scheme(config), archive=archive)]:
        out.print(title)
        for command in commands:
            out.print(Text.assemble("  ", (command, "cyan")), soft_wrap=True)
        out.print()


def first_commands(
    addresses: "Addresses", *, form: str = "penstock://{}", archive: bool = False
) -> Iterator[tuple[str, list[str]]]:
    """Example commands to try next, as typed from the current directory."""
    program = program_name()
    commands = []
    server = ""
    if "native" in addresses:
        url = form.format(shown(*addresses["native"]))
        server = "" if url == DEFAULT_SERVER else f" --server {url}"
        commands = [
            f'{program} produce {FIRST_TOPIC} "two books"{server}',
            f"{program} consume {FIRST_TOPIC}{server}",
        ]
    elif "text" in addresses:
        host, port = addresses["text"]
        lines = f"PRODUCE {FIRST_TOPIC} 0 two books\\nCONSUME {FIRST_TOPIC} 0\\nQUIT\\n"
        commands = [f"printf '{lines}' | nc {host} {port}"]
    if commands:
        yield "Publish and consume a first message in another terminal:", commands
    if archive:
        yield (
            "Query it with SQL, in the log and the lake (Spark takes a few seconds to start):",
            [
                f'{program} sql "select partition, offset, timestamp, value from {FIRST_TOPIC}"{server}',
                f"{program} lake info{server}",
            ],
        )
    yield "Take a one-minute tour:", [f"{program} demo"]


def program_name() -> str:
    """How this program is called from here."""
    called = sys.argv[0]
    if os.path.basename(called) != "penstock":
        return f"{shlex.quote(_near(sys.executable))} -m penstock"
    found = shutil.which("penstock")
    return "penstock" if found and os.path.realpath(found) == os.path.realpath(called) else _near(called)


def _near(path: str) -> str:
    """A path from here, if that is shorter."""
    return min(os.path.relpath(path), path, key=len)
