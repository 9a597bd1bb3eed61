"""``penstock schema``: the schema of a topic's values, the subject ``<topic>-value`` of the registry.

The broker parses and compares: no library for schemas is needed here.
"""

import difflib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from penstock.cli import connecting, screen
from penstock.cli.arguments import SERVER, MaybeTopic, OutputOption, Server, Topic
from penstock.cli.commands import WrongUse, example, new_app
from penstock.cli.screen import Column
from penstock.cli.text import counted, safe
from penstock.model.message import StoredMessage
from penstock.model.schemas import Compatibility, NewSchema, SchemaInfo, SchemaType, value_subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.api.broker import Broker

app = new_app()

TYPES: Final[dict[str, SchemaType]] = {
    ".avsc": "AVRO",
    ".avro": "AVRO",
    ".json": "JSON",
    ".proto": "PROTOBUF",
}
LEVELS: Final[tuple[Compatibility, ...]] = ("BACKWARD", "FORWARD", "FULL")
SHOWN_MAX: Final = 20  # Invalid messages that are listed.
PAGE_MESSAGES: Final = 500  # Read, and validated, at a time.

SchemaFile = Annotated[
    Path,
    typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="A .avsc, .json or .proto file."),
]
Kind = Annotated[
    SchemaType | None, typer.Option("--type", help="Type of the schema; default: by the file's name.")
]
Limit = Annotated[
    int, typer.Option("--limit", "-n", metavar="N", min=1, help="Number of messages to check, oldest first.")
]


@app.command("set", epilog=example("penstock schema set orders order.avsc"))
def set_(topic: Topic, file: SchemaFile, kind: Kind = None, server: Server = SERVER) -> None:
    """Register a schema as the next version of a topic."""
    new = _new(file, kind)
    with connecting.connected(server) as broker:
        made = broker.register_schema(value_subject(topic), new)
        screen.note(f"version {made.version} of {made.subject}, id {made.id}")
        if broker.topic_exists(topic) and broker.describe_topic(topic).settings.validation == "off":
            screen.note(f"validation is off; see: penstock topic alter {topic} --set validation=reject")


@app.command(
    epilog=example("penstock schema get orders", "penstock schema get orders --version 1 > order.avsc")
)
def get(
    topic: Topic,
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", min=1, help="Default: the latest.")
    ] = None,
    output: OutputOption = "table",
    server: Server = SERVER,
) -> None:
    """Print the schema of a topic."""
    with connecting.connected(server) as broker:
        found = broker.schema(value_subject(topic), "latest" if version is None else version)
    if output == "json":
        screen.documents([_document(found)])
    else:
        screen.line(_pretty(found.schema))


@app.command("list", epilog=example("penstock schema list", "penstock schema list orders -o json"))
def list_(topic: MaybeTopic = None, output: OutputOption = "table", server: Server = SERVER) -> None:
    """List the versions of a topic, or the latest of all subjects."""
    with connecting.connected(server) as broker:
        if topic is None:
            found = list({each.subject: each for each in broker.schemas()}.values())
        else:
            found = broker.schema_versions(value_subject(topic))
    if output == "json":
        screen.documents(map(_document, found))
    elif not found:
        screen.note("there are no schemas yet; register one with: penstock schema set TOPIC FILE")
    else:
        columns = [Column("subject"), Column("version", right=True), Column("id", right=True), Column("type")]
        screen.table(columns, ([each.subject, each.version, each.id, each.type] for each in found))


@app.command(
    epilog=example("penstock schema check orders order.avsc", "penstock schema check orders --limit 10000")
)
def check(
    topic: Topic,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", exists=True, dir_okay=False, help="Default: check the messages."),
    ] = None,
    kind: Kind = None,
    limit: Limit = 1000,
    server: Server = SERVER,
) -> int:
    """Check a schema, or the messages of a topic against theirs.

    With FILE: whether this schema could be registered. Without: whether the messages match their schema.
    The exit code is 1 if not.
    """
    new = None if file is None else _new(file, kind)
    with connecting.connected(server) as broker:
        if new is not None:
            return _check_schema(broker, topic, new)
        return _check_messages(broker, topic, limit)


def _check_schema(broker: "Broker", topic: str, new: NewSchema) -> int:
    subject = value_subject(topic)
    verdict = broker.check_schema(subject, new)
    level = broker.schema_settings(subject).compatibility
    if verdict.compatible:
        screen.line(f"compatible ({level})")
        return 0
    for message in verdict.messages:
        screen.line(safe(message))
    screen.note(f"not compatible ({level}): {counted(len(verdict.messages), 'difference')}")
    return 1


def _check_messages(broker: "Broker", topic: str, limit: int) -> int:
    broker.schema(value_subject(topic))  # Raises if there is none.
    seen = invalid = 0
    for page in _pages(broker, topic, limit):
        values = [message.value for message in page]
        for message, value in zip(page, broker.read_values(topic, values), strict=True):
            if value.json is None:
                invalid += 1
                if invalid <= SHOWN_MAX:
                    screen.line(f"{message.id}: {safe(value.problem)}")
        seen += len(page)
    screen.note(f"{counted(seen, 'message')} checked, {invalid:,} invalid")
    return 1 if invalid else 0


@app.command(epilog=example("penstock schema diff orders order.avsc"))
def diff(topic: Topic, file: SchemaFile, kind: Kind = None, server: Server = SERVER) -> None:
    """Compare a schema with the latest version of a topic.

    Shows the differences, and with which levels it is compatible.
    """
    new = _new(file, kind)
    subject = value_subject(topic)
    with connecting.connected(server) as broker:
        current = broker.schema(subject)
        verdicts = [broker.check_schema(subject, new, "latest", level=level) for level in LEVELS]
    before, after = (_pretty(each.schema, sort_keys=True).splitlines() for each in (current, new))
    names = f"{subject} version {current.version}", file.name
    for line in difflib.unified_diff(before, after, *names, lineterm=""):
        screen.line(safe(line))
    for level, verdict in zip(LEVELS, verdicts, strict=True):
        screen.line(f"{level}: {'compatible' if verdict.compatible else 'not compatible'}")
        for message in verdict.messages:
            screen.line(f"  {safe(message)}")


@app.command(epilog=example("penstock schema infer orders > order.json"))
def infer(topic: Topic, limit: Limit = 1000, server: Server = SERVER) -> int:
    """Print a JSON Schema that describes the messages of a topic."""
    from penstock.schemas import inference

    place, count, others = inference.Place(), 0, 0
    with connecting.connected(server) as broker:
        for page in _pages(broker, topic, limit):
            for message in page:
                try:
                    place.see(msgspec.json.decode(message.value))
                    count += 1
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    others += 1
    if not count:
        screen.note(f"{topic} has no messages in JSON")
        return 1
    screen.line(json.dumps(inference.document(place), indent=2, ensure_ascii=False))
    screen.note(f"from {counted(count, 'message')}; {others:,} not JSON")
    return 0


def _pages(broker: "Broker", topic: str, limit: int) -> "Iterator[list[StoredMessage]]":
    """The oldest messages of a topic, of each partition in turn, without tombstones."""
    for part in broker.describe_topic(topic).partitions:
        offset = part.start
        while limit and offset < part.end:
            found = broker.read(
                topic, partition=part.partition, offset=offset, limit=min(limit, PAGE_MESSAGES)
            )
            if not found:
                break
            limit -= len(found)
            offset = found[-1].offset + 1
            yield [message for message in found if not message.is_tombstone]


def _new(file: Path, kind: SchemaType | None) -> NewSchema:
    found = kind or TYPES.get(file.suffix)
    if found is None:
        raise WrongUse(f"{file.name}: use --type, or a name that ends in {', '.join(TYPES)}")
    try:
        return NewSchema(schema=file.read_text(), type=found)
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUse(f"{file.name}: {error}") from None


def _pretty(text: str, *, sort_keys: bool = False) -> str:
    """A schema in several lines, if it is JSON."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False, sort_keys=sort_keys)
    except ValueError:
        return text.rstrip()


def _document(info: SchemaInfo) -> dict[str, object]:
    return {
        "subject": info.subject,
        "version": info.version,
        "id": info.id,
        "type": info.type,
        "schema": info.schema,
    }
