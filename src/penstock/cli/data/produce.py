"""``penstock produce TOPIC [[PARTITION] VALUE]``: publish one message, or a stream of them.

    produce orders "two books"          the one value; prints the message's id
    produce orders 0 "two books"        the same, to partition 0
    ... | produce orders                stdin: a message for each line
    produce orders --file dump.jsonl --format json

A stream is published in batches as it arrives: the command never waits to fill a batch, and keeps at most
``BATCH_BYTES`` and one line in memory.  A missing topic is created with the server's defaults.

The command reports a message only after it is stored with the durability of its topic.  If a stream fails,
the error says how many messages were published before.
"""

import sys
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Annotated, Any, BinaryIO, Final, Literal

import msgspec
import typer

from penstock.cli import connecting, screen
from penstock.cli.arguments import SERVER, Server, Topic, duration, instant, pairs, partition_number
from penstock.cli.arguments import priority as lane
from penstock.cli.commands import WrongUse, example, new_app
from penstock.cli.data import creating
from penstock.cli.data.messages import Template
from penstock.cli.progress import ProgressBar
from penstock.cli.text import counted, time_iso
from penstock.errors import PenstockError, TopicNotFound
from penstock.model.message import Message, Receipt

if TYPE_CHECKING:
    from penstock.api.broker import Broker

app = new_app()

InputFormat = Literal["lines", "json", "raw"]
BATCH_BYTES: Final = 1 << 20  # Read at a time, and so the most that is published at once.
LINE_BYTES_MAX: Final = 64 << 20  # No topic takes a larger message.


Values = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[[PARTITION] VALUE]", help="The message, after its partition; default: read --file or stdin."
    ),
]
Key = Annotated[
    str | None, typer.Option("--key", "-k", help="Message key; messages with the same key keep their order.")
]
Header = Annotated[list[str], typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header.")]
Priority = Annotated[
    Any, typer.Option(parser=lane, metavar="LANE", help="critical, high, normal, low or background.")
]
Delay = Annotated[
    str | None,
    typer.Option(parser=duration, metavar="DURATION", help="Deliver after this delay, such as 30m."),
]
DeliverAt = Annotated[
    Any,
    typer.Option(parser=instant, metavar="TIME", help="Deliver at this time, such as 2026-11-14T15:00:00Z."),
]
TimeToLive = Annotated[
    str | None, typer.Option(parser=duration, metavar="DURATION", help="Age at which the message expires.")
]
DedupId = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Deduplication id: a second message with the same id is not stored."),
]
Into = Annotated[
    int | None, typer.Option("--partition", "-p", metavar="N", min=0, help="Publish to this partition.")
]
Source = Annotated[
    typer.FileBinaryRead | None, typer.Option("--file", "-f", help="Read this file instead of stdin.")
]
Reads = Annotated[
    InputFormat,
    typer.Option(
        "--format", help="Input: a message per line, a JSON document per line, or everything as one message."
    ),
]
Create = Annotated[bool, typer.Option("--create/--no-create", help="Create the topic if it does not exist.")]
Receipts = Annotated[
    Literal["id", "json"],
    typer.Option("--output", "-o", help="Print the id of VALUE, or a receipt for each message."),
]


@app.command(
    epilog=example(
        'penstock produce orders "two books" --key anna',
        'penstock produce user-signups 0 "new user: alex"',
        'penstock produce orders "a reminder" --delay 30m',
        "penstock produce orders < lines.txt",
        "penstock consume orders -o json | penstock produce copy --format json",
    )
)
def produce(
    topic: Topic,
    values: Values = None,
    key: Key = None,
    header: Header = [],  # noqa: B006 - typer reads it, nobody writes to it
    priority: Priority = None,
    delay: Delay = None,
    deliver_at: DeliverAt = None,
    ttl: TimeToLive = None,
    dedup_id: DedupId = None,
    partition: Into = None,
    file: Source = None,
    input_format: Reads = "lines",
    create: Create = True,
    output: Receipts = "id",
    server: Server = SERVER,
) -> int:
    """Publish a message, or one per line of input."""
    value, partition = _placed(values or [], partition)
    if value is not None and (file is not None or input_format != "lines"):
        raise WrongUse("use either VALUE, or a stream with --file and --format")
    if dedup_id is not None and value is None and input_format != "raw":
        raise WrongUse("--dedup-id needs VALUE: of a stream, only the first line would be stored")
    if delay is not None and deliver_at is not None:
        raise WrongUse("use either --delay or --deliver-at")
    template = Template(
        key=key, headers=pairs("--header", header) or None, priority=priority, ttl=ttl, delay=delay,
        deliver_at=deliver_at, dedup_id=dedup_id, partition=partition,
    )  # fmt: skip
    one = value is not None or input_format == "raw"
    show = _show_receipts if output == "json" else _show_ids if one else _show_nothing
    with connecting.connected(server, progress=False) as broker:
        publisher = BatchPublisher(broker, topic, create=create)
        if value is not None:
            show(publisher.publish([template.message(value.encode("utf-8", "surrogateescape"))]))
            return 0
        return _publish_stream(publisher, _opened(file), template, input_format, show)


def _placed(values: list[str], partition: int | None) -> tuple[str | None, int | None]:
    """The message and its partition, which may come before it."""
    if len(values) < 2:
        return (values[0] if values else None), partition
    if len(values) > 2 or partition is not None:
        raise WrongUse("give TOPIC, a partition and one message; quote a message that has spaces")
    return values[1], partition_number(values[0])


def _opened(file: IO[bytes] | None) -> Any:
    if file is not None:
        return file
    if sys.stdin.isatty():
        screen.note("one message per line; Ctrl-D ends the input")
    return sys.stdin.buffer


class BatchPublisher:
    """Publishes to one topic, which the first publish may create."""

    def __init__(self, broker: "Broker", topic: str, *, create: bool) -> None:
        self._broker = broker
        self._topic = topic
        self._create = create
        self.published = 0

    def publish(self, messages: list[Message | bytes]) -> list[Receipt]:
        is_new = not self.published and creating.is_missing(self._broker, self._topic)
        if is_new and not self._create:
            raise TopicNotFound(topic=self._topic)
        receipts = self._broker.publish_batch(self._topic, messages)
        if is_new:
            creating.tell(self._broker, self._topic)
        self.published += len(receipts)
        return receipts


Show = Callable[[list[Receipt]], None]


def _publish_stream(
    publisher: BatchPublisher,
    source: BinaryIO,
    template: Template,
    input_format: InputFormat,
    show: Show,
) -> int:
    size = _size(source)
    with ProgressBar("publishing", total=size, unit="messages" if size is None else "bytes") as progress:
        try:
            for messages, read in _batches(source, template, input_format):
                show(publisher.publish(messages))
                progress.advance(len(messages) if size is None else read)
        except (PenstockError, BadInputError) as error:
            progress.stop()
            screen.note(
                f"penstock produce: {error}; {counted(publisher.published, 'message')} published before it"
            )
            return 1
    if input_format != "raw":
        screen.note(f"published {counted(publisher.published, 'message')}")
    return 0


def _size(source: BinaryIO) -> int | None:
    """How much there is to read, of a file."""
    try:
        if not source.seekable():
            return None
        start = source.tell()
        end = source.seek(0, 2)
        source.seek(start)
    except (OSError, ValueError):
        return None
    return end - start


# Reading.


class BadInputError(Exception):
    """A line is not a message."""


Batch = tuple[list[Message | bytes], int]  # The messages, and how many bytes they were read from.


def _batches(source: BinaryIO, template: Template, input_format: InputFormat) -> Iterator[Batch]:
    if input_format == "raw":
        data = source.read(LINE_BYTES_MAX + 1)
        if len(data) > LINE_BYTES_MAX:
            raise BadInputError(
                f"the input is larger than {LINE_BYTES_MAX:,} bytes, more than one message may have"
            )
        yield [template.message(data)], len(data)
        return
    make = template.message if input_format == "lines" else template.message_of
    number = 0
    for lines, read in _lines(source):
        messages: list[Message | bytes] = []
        for line in lines:
            number += 1
            try:
                messages.append(make(line))
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                if messages:
                    yield messages, 0
                raise BadInputError(f"line {number} is not a message: {error}") from None
        yield messages, read


def _lines(source: Any) -> Iterator[tuple[list[bytes], int]]:
    """The complete lines of each read; never waits for more input than needed."""
    begun = b""
    while chunk := source.read1(BATCH_BYTES):
        lines = (begun + chunk).split(b"\n")
        begun = lines.pop()
        if len(begun) > LINE_BYTES_MAX:
            raise BadInputError(
                f"a line is longer than {LINE_BYTES_MAX:,} bytes, more than any topic accepts"
            )
        if lines:
            yield [line.removesuffix(b"\r") for line in lines], len(chunk)
    if begun:
        yield [begun], 0


# Printing.


def _show_ids(receipts: list[Receipt]) -> None:
    for receipt in receipts:
        screen.line(receipt.id)


def _show_nothing(receipts: list[Receipt]) -> None:
    """Ids of a stream are printed only on request, because there are many."""


def _show_receipts(receipts: list[Receipt]) -> None:
    screen.documents(
        {
            "id": receipt.id,
            "topic": receipt.topic,
            "partition": receipt.partition,
            "offset": receipt.offset,
            "timestamp": time_iso(receipt.timestamp),
            "schedule_id": receipt.schedule_id,
            "duplicate": receipt.duplicate,
        }
        for receipt in receipts
    )
