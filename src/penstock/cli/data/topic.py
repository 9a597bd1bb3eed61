"""``penstock topic``: create, list, describe, alter and delete topics.

The most common settings have options; ``--set name=value`` accepts every setting of docs/configuration.md.
The server's defaults apply to the rest.
"""

from collections.abc import Callable
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from penstock.cli import connecting, screen
from penstock.cli.arguments import (
    SERVER,
    OutputOption,
    Server,
    Topic,
    Yes,
    agreed,
    duration,
    maybe,
    pairs,
    size,
)
from penstock.cli.commands import WrongUse, example, new_app
from penstock.cli.data import creating
from penstock.cli.screen import Column
from penstock.cli.text import counted, document_of, rounded_duration, rounded_size
from penstock.config.broker import Compression, Durability, TopicSettings
from penstock.errors import TopicExists
from penstock.model.info import TopicInfo

app = new_app()

ALWAYS_SHOWN = ("partitions", "durability", "retention_ms", "retention_bytes", "message_bytes_max")

Partitions = Annotated[int | None, typer.Option(min=1, metavar="N", help="Number of partitions.")]
DurabilityOption = Annotated[
    Durability | None,
    typer.Option(help="When a publish is acknowledged: on disk, in the page cache, or in memory."),
]
CompressionOption = Annotated[Compression | None, typer.Option(help="Compression of batches.")]
Retention = Annotated[
    str | None, typer.Option(metavar="DURATION|none", help="How long messages are kept, such as 7d.")
]
RetentionBytes = Annotated[
    str | None, typer.Option(metavar="BYTES|none", help="Maximum size of a partition.")
]
TimeToLive = Annotated[
    str | None,
    typer.Option("--ttl", metavar="DURATION|none", help="Age at which undelivered messages expire."),
]
DepthMax = Annotated[
    str | None, typer.Option(metavar="N|none", help="Pending messages above which a publish is refused.")
]
Compact = Annotated[
    bool | None, typer.Option("--compact/--no-compact", help="Keep only the last value of every key.")
]
More = Annotated[
    list[str],
    typer.Option("--set", metavar="NAME=VALUE", help="Any other setting; see docs/configuration.md."),
]


@app.command(
    epilog=example(
        "penstock topic create orders --partitions 6 --retention 30d",
        "penstock topic create prices --compact --set tombstone_retention=2d",
    )
)
def create(
    topic: Topic,
    partitions: Partitions = None,
    durability: DurabilityOption = None,
    retention: Retention = None,
    retention_bytes: RetentionBytes = None,
    compression: CompressionOption = None,
    compact: Compact = None,
    ttl: TimeToLive = None,
    depth_max: DepthMax = None,
    more: More = [],  # noqa: B006 - typer reads it, nobody writes to it
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Do nothing if the topic exists.")
    ] = False,
    server: Server = SERVER,
) -> None:
    """Create a topic; other settings have the server's defaults."""
    options = _options(
        more, partitions=partitions, durability=durability, compression=compression, compact=compact,
        retention=retention, retention_bytes=retention_bytes, ttl=ttl, depth_max=depth_max,
    )  # fmt: skip
    with connecting.connected(server) as broker:
        try:
            broker.create_topic(topic, **options)
        except TopicExists:
            if not if_not_exists:
                raise
            screen.note(f"topic {topic} already exists")
        else:
            creating.tell(broker, topic)


@app.command("list", epilog=example("penstock topic list", "penstock topic list -o json | jq .messages"))
def list_(output: OutputOption = "table", server: Server = SERVER) -> None:
    """List all topics with their sizes."""
    with connecting.connected(server) as broker:
        found = [broker.describe_topic(name) for name in broker.topics()]
    if output == "json":
        screen.documents(_document(info) for info in found)
        return
    if not found:
        screen.note("there are no topics yet; create one with: penstock topic create NAME")
        return
    numbers = ("partitions", "messages", "size", "waiting", "scheduled", "groups")
    columns = [Column("topic"), *(Column(number, right=True) for number in numbers)]
    screen.table(columns, map(_row, found))


def _row(info: TopicInfo) -> list[object]:
    return [
        info.topic, info.settings.partitions, f"{info.messages:,}", rounded_size(info.bytes),
        f"{info.depth:,}", f"{info.scheduled:,}", len(info.groups),
    ]  # fmt: skip


@app.command(epilog=example("penstock topic describe orders"))
def describe(topic: Topic, output: OutputOption = "table", server: Server = SERVER) -> None:
    """Show sizes, settings and partitions of a topic."""
    with connecting.connected(server) as broker:
        info = broker.describe_topic(topic)
    if output == "json":
        screen.documents([_document(info)])
        return
    screen.facts(
        [
            ("topic", info.topic),
            ("messages", f"{info.messages:,} ({rounded_size(info.bytes)})"),
            ("waiting", f"{info.depth:,} for the slowest group"),
            ("scheduled", f"{info.scheduled:,} not due yet"),
            ("groups", ", ".join(info.groups) or "none"),
            ("published", f"{info.published:,} since the server started, {info.duplicates:,} duplicates"),
        ]
    )
    screen.line("")
    screen.facts(_settings(info.settings))
    screen.line("")
    columns = [Column(name, right=True) for name in ("partition", "start", "end", "size", "scheduled")]
    screen.table(
        columns,
        (
            [
                part.partition,
                f"{part.start:,}",
                f"{part.end:,}",
                rounded_size(part.bytes),
                f"{part.scheduled:,}",
            ]
            for part in info.partitions
        ),
    )


def _document(info: TopicInfo) -> dict[str, Any]:
    return document_of(info)


def _settings(settings: TopicSettings) -> list[tuple[str, object]]:
    """The most common settings, and those that differ from the defaults."""
    default = TopicSettings()
    return [
        (name.removesuffix("_ms"), _words(name, getattr(settings, name)))
        for name in settings.__struct_fields__
        if name in ALWAYS_SHOWN or getattr(settings, name) != getattr(default, name)
    ]


def _words(name: str, value: object) -> str:
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return rounded_duration(value) if name.endswith("_ms") else f"{value:,}"
    return str(value)


@app.command(epilog=example("penstock topic alter orders --partitions 12 --retention 90d"))
def alter(
    topic: Topic,
    partitions: Partitions = None,
    durability: DurabilityOption = None,
    retention: Retention = None,
    retention_bytes: RetentionBytes = None,
    compression: CompressionOption = None,
    compact: Compact = None,
    ttl: TimeToLive = None,
    depth_max: DepthMax = None,
    more: More = [],  # noqa: B006 - typer reads it, nobody writes to it
    server: Server = SERVER,
) -> None:
    """Change settings of a topic; partitions can only be added."""
    options = _options(
        more, partitions=partitions, durability=durability, compression=compression, compact=compact,
        retention=retention, retention_bytes=retention_bytes, ttl=ttl, depth_max=depth_max,
    )  # fmt: skip
    if not options:
        raise WrongUse("nothing to change; use an option such as --retention 30d")
    with connecting.connected(server) as broker:
        broker.alter_topic(topic, **options)
    screen.note(f"changed topic {topic}: {', '.join(options)}")


@app.command(epilog=example("penstock topic delete orders", "penstock topic delete orders --yes"))
def delete(topic: Topic, yes: Yes = False, server: Server = SERVER) -> int:
    """Delete a topic with all its messages and groups.  Asks for confirmation on a terminal."""
    with connecting.connected(server, progress=False) as broker:
        messages = broker.describe_topic(topic).messages
        if not agreed(f"Delete {topic} with {counted(messages, 'message')}?", yes):
            return 1
        broker.delete_topic(topic)
    screen.note(f"deleted topic {topic}, {counted(messages, 'message')}")
    return 0


# Settings.


def _options(more: list[str], **named: Any) -> Any:
    """The options of ``create_topic``: those that were given, by their own option or by ``--set``."""
    given = {name: str(value) for name, value in maybe(**named).items()} | pairs("--set", more)
    return {name: setting(name, text) for name, text in given.items()}


def setting(name: str, text: str) -> object:
    """The value of a setting, of the type that it has."""
    default = TopicSettings()
    if f"{name}_ms" in default.__struct_fields__:
        return None if text == "none" else _hinted(name, duration, text)
    if name not in default.__struct_fields__:
        known = [field.removesuffix("_ms") for field in default.__struct_fields__]
        near = get_close_matches(name, known, 1)
        advice = f"did you mean {near[0]}?" if near else f"the settings are {', '.join(known)}"
        raise typer.BadParameter(f"there is no setting {name!r}; {advice}", param_hint="'--set'")
    known_value = getattr(default, name)
    if isinstance(known_value, bool):
        return _yes_or_no(name, text)
    if isinstance(known_value, str):
        return text
    if text == "none" and known_value is None:
        return None
    if "bytes" in name:
        return _hinted(name, size, text)
    if not text.isdigit():
        raise typer.BadParameter(
            f"{text!r} is not a whole number", param_hint=f"'--{name.replace('_', '-')}'"
        )
    return int(text)


def _hinted(name: str, read: Callable[[str], object], text: str) -> object:
    """Read a value; an error names the setting as it is written on the command line."""
    try:
        return read(text)
    except typer.BadParameter as error:
        error.param_hint = f"'--{name.replace('_', '-')}'"
        raise


def _yes_or_no(name: str, text: str) -> bool:
    if text.lower() not in ("true", "yes", "false", "no"):
        raise typer.BadParameter(f"{name} must be yes or no, not {text!r}", param_hint="'--set'")
    return text.lower() in ("true", "yes")
