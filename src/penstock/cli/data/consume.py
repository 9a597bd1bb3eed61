"""``penstock consume TOPIC [PARTITION]``: print messages, by reading the log or as a consumer of a group.

    without --group    reads the log, without affecting any group; by default from the beginning, with all
                       partitions merged by time.
    with --group       leases messages like any other consumer, prints them, and acks them after they are
                       flushed to stdout; the next call continues where this one ended.
                       --from-... moves the group first; --no-ack releases all messages at the end;
                       --include-deleted restores messages that retention deleted (deleted.py).

Both end at ``--limit``, or when no new message has arrived for ``--wait``; ``--follow`` runs until it is
interrupted.  ``--to-time`` is an exclusive end.  Times are UTC.

Delivery is at least once: a message is acked after it was written to stdout, and Ctrl-C waits for that.  If
stdout is closed, messages that were not written stay with the group.
"""

import heapq
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from penstock.cli import connecting, screen
from penstock.cli.arguments import (
    SERVER,
    Partition,
    Server,
    Topic,
    duration,
    group_name,
    known_groups,
    partition_number,
    past,
)
from penstock.cli.commands import WrongUse, example, new_app
from penstock.cli.data import creating, deleted
from penstock.cli.data.messages import FormatOption, printer
from penstock.cli.interrupts import Interrupts
from penstock.cli.progress import ProgressBar
from penstock.errors import OffsetOutOfRange
from penstock.model.message import StoredMessage
from penstock.types import duration_ms, instant_ms

if TYPE_CHECKING:
    from penstock.api.broker import Broker

app = new_app()

ANSWER_BYTES: Final = 1 << 20  # What one answer should hold: enough to be quick, little enough to keep.
ASKED_FIRST: Final = 8  # Messages asked for before their size is known,
ASKED_MAX: Final = 2000  # and at most.
PRINTED_AT_ONCE: Final = 500
POLL_S: Final = 0.1  # A reader at the end of the log looks again this often.
FOLLOW_WAIT: Final = "30s"  # A consumer that follows waits this long at a time, and then again.
Show = Callable[[Sequence[StoredMessage]], None]


PartitionAfterTopic = Annotated[
    int | None,
    typer.Argument(metavar="[PARTITION]", parser=partition_number, help="The same as --partition."),
]
TakeAs = Annotated[
    str | None,
    typer.Option(
        "--group",
        "-g",
        parser=group_name,
        autocompletion=known_groups,
        metavar="NAME",
        help="Consume as this group, and ack.",
    ),
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Wait for new messages until Ctrl-C.")]
FromBeginning = Annotated[bool, typer.Option("--from-beginning", help="Start at the oldest message.")]
FromOffset = Annotated[int | None, typer.Option(metavar="N", min=0, help="Start at this offset.")]
FromTime = Annotated[
    Any,
    typer.Option(
        parser=past,
        metavar="TIME",
        help="Start at this time, such as 2026-11-14T15:00Z, or this long ago: 15m.",
    ),
]
FromSnapshot = Annotated[
    str | None,
    typer.Option(metavar="NAME|TIME", help="Start at a snapshot, or at the end of the log on a date."),
]
IncludeDeleted = Annotated[
    bool, typer.Option("--include-deleted", help="With --group: include messages that only the lake has.")
]
ToTime = Annotated[Any, typer.Option(parser=past, metavar="TIME", help="End before this time.")]
Limit = Annotated[
    int | None, typer.Option("--limit", "-n", metavar="N", min=1, help="Maximum number of messages.")
]
Wait = Annotated[
    str,
    typer.Option(parser=duration, metavar="DURATION", help="End when no message has arrived for this long."),
]
Ack = Annotated[
    bool, typer.Option("--ack/--no-ack", help="With --group: ack printed messages, or release them.")
]


@app.command(
    epilog=example(
        "penstock consume orders --group shipping",
        "penstock consume user-signups 0",
        "penstock consume orders --follow -o json",
        "penstock consume orders --from-time 2026-11-14T15:00Z --to-time 2026-11-14T16:00Z",
        "penstock consume orders --group audit --from-time 15m",
        "penstock consume orders --group audit --from-time 2025-01-01 --include-deleted",
    )
)
def consume(
    topic: Topic,
    number: PartitionAfterTopic = None,
    group: TakeAs = None,
    partition: Partition = None,
    follow: Follow = False,
    from_beginning: FromBeginning = False,
    from_offset: FromOffset = None,
    from_time: FromTime = None,
    from_snapshot: FromSnapshot = None,
    to_time: ToTime = None,
    include_deleted: IncludeDeleted = False,
    limit: Limit = None,
    wait: Wait = "1s",
    ack: Ack = True,
    output: FormatOption = "value",
    server: Server = SERVER,
) -> None:
    """Print messages: read the log, or consume as a group."""
    if number is not None and partition is not None:
        raise WrongUse("give the partition once: after the topic, or with --partition")
    partition = number if partition is None else partition
    starts = [from_beginning or None, from_offset, from_time, from_snapshot]
    if sum(start is not None for start in starts) > 1:
        raise WrongUse("use one of --from-beginning, --from-offset, --from-time and --from-snapshot")
    from_lake = include_deleted or from_snapshot is not None
    if from_lake and (group is None or from_offset is not None):
        raise WrongUse("--include-deleted and --from-snapshot need --group, and exclude --from-offset")
    if group is not None and partition is not None and from_offset is None:
        raise WrongUse("--partition works without --group: a group shares its partitions among its consumers")
    wait_ms = duration_ms("wait", wait)
    quiet = follow or sys.stdout.isatty()  # A person sees the messages themselves.
    with (
        connecting.connected(server, progress=False) as broker,
        ProgressBar("printing", wanted=not quiet) as progress,
    ):
        show = _counting(printer(output, broker), progress)
        if group is None:
            reader = Reader(broker, topic, partition, from_offset, from_time, to_time)
            over = to_time is not None and instant_ms("to_time", to_time) <= connecting.clock().wall_ms()
            read(reader, show, limit=limit, wait_ms=0 if over else None if follow else wait_ms)
            return
        if from_lake:
            deleted.bring_back(broker, topic, group, from_time, from_snapshot)
        else:
            start = "earliest" if from_beginning else _first(from_offset, from_time)
            _move(broker, topic, group, partition, start)
        take(
            broker,
            topic,
            group,
            show,
            limit=limit,
            wait=FOLLOW_WAIT if follow else wait,
            follow=follow,
            ack=ack,
            to_time=to_time,
        )


def _counting(show: Show, progress: ProgressBar) -> Show:
    """Prints, and moves the bar."""

    def shown(messages: Sequence[StoredMessage]) -> None:
        show(messages)
        progress.advance(len(messages))

    return shown


def _first(offset: int | None, time: datetime | None) -> Any:
    return time if offset is None else offset


class AdaptiveBatchSize:
    """How many messages to request, adapted to the size of those received: many small or few large ones."""

    def __init__(self) -> None:
        self.count = ASKED_FIRST

    def adapt(self, messages: Sequence[StoredMessage]) -> None:
        """Adapt to received messages; at most doubles."""
        if messages:
            average = max(1, sum(len(message.value) for message in messages) // len(messages))
            self.count = max(1, min(ANSWER_BYTES // average, 2 * self.count, ASKED_MAX))


# Reading.


class Reader:
    """Reads the log of a topic, all partitions merged by time; call ``read`` again for new messages."""

    def __init__(
        self,
        broker: "Broker",
        topic: str,
        partition: int | None,
        offset: int | None,
        from_time: datetime | None,
        to_time: datetime | None,
    ) -> None:
        self._broker = broker
        self._topic = topic
        self._from_time = from_time
        self._to_time = to_time
        partitions = len(broker.describe_topic(topic).partitions)
        if offset is not None and partition is None and partitions > 1:
            raise WrongUse(f"--from-offset needs --partition: {topic} has {partitions} partitions")
        numbers = range(partitions) if partition is None else [partition]
        self._next: dict[int, int | None] = dict.fromkeys(numbers, offset)  # None: nothing read yet.
        self._batch_size = AdaptiveBatchSize()

    def messages(self) -> Iterator[StoredMessage]:
        """What there is after the last one that was given out."""
        return heapq.merge(
            *map(self._rest, self._next), key=lambda message: (message.timestamp, message.partition)
        )

    def _rest(self, partition: int) -> Iterator[StoredMessage]:
        while some := self._some(partition):
            self._batch_size.adapt(some)
            for message in some:
                yield message
                self._next[partition] = message.offset + 1

    def _some(self, partition: int) -> list[StoredMessage]:
        offset = self._next[partition]
        try:
            return self._broker.read(
                self._topic, partition=partition, offset=offset, limit=self._batch_size.count,
                from_time=self._from_time if offset is None else None, to_time=self._to_time,
            )  # fmt: skip
        except OffsetOutOfRange as error:
            start = error.start
            if offset is None or offset >= start:
                raise
            screen.note(
                f"{self._topic}:{partition}: offsets {offset} to {start - 1} were deleted by retention"
            )
            self._next[partition] = start
            return self._some(partition)


def read(reader: Reader, show: Show, *, limit: int | None, wait_ms: int | None) -> None:
    """Print what the reader finds until no message arrives for ``wait_ms``; None waits forever."""
    clock = connecting.clock()
    left = limit
    quiet_since_ms = clock.steady_ms()
    while left is None or left > 0:
        found = 0
        for some in _grouped(reader.messages(), left):
            show(some)
            found += len(some)
        if found:
            left = None if left is None else left - found
            quiet_since_ms = clock.steady_ms()
        elif wait_ms is not None and clock.steady_ms() - quiet_since_ms >= wait_ms:
            return
        else:
            connecting.pause(POLL_S)


def _grouped(messages: Iterator[StoredMessage], limit: int | None) -> Iterator[list[StoredMessage]]:
    """Lists of messages to print at once, ``limit`` in all."""
    some: list[StoredMessage] = []
    size = 0
    left = limit
    while left != 0 and (message := next(messages, None)) is not None:
        some.append(message)
        size += len(message.value)
        left = None if left is None else left - 1
        if len(some) == PRINTED_AT_ONCE or size >= ANSWER_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


# Taking.


def _move(broker: "Broker", topic: str, group: str, partition: int | None, to: Any) -> None:
    """Move the group if a start was given; a missing group is created."""
    if to is not None:
        broker.create_group(topic, group)
        broker.seek(topic, group, to, partition=partition)


def take(
    broker: "Broker",
    topic: str,
    group: str,
    show: Show,
    *,
    limit: int | None,
    wait: str,
    follow: bool,
    ack: bool,
    to_time: datetime | None,
) -> None:
    """Consume as the group, print and ack; messages that are not acked are released at the end."""
    end_ms = math.inf if to_time is None else instant_ms("to_time", to_time)
    left = limit
    batch_size = AdaptiveBatchSize()
    beyond: set[int] = set()  # Partitions that have reached --to-time.
    is_new = creating.is_missing(broker, topic)
    with broker.consumer(topic, group=group) as consumer, Interrupts() as interrupts:
        if is_new:
            creating.tell(broker, topic)
        while left is None or left > 0:
            asked = batch_size.count if left is None else min(left, batch_size.count)
            with interrupts.welcome():
                received = consumer.receive(max_messages=asked, wait=wait)
            batch_size.adapt(received)
            wanted = [message for message in received if message.timestamp < end_ms]
            show(wanted)
            if ack and wanted:
                consumer.ack(wanted)
            left = None if left is None else left - len(wanted)
            if len(wanted) < len(received):
                beyond |= {message.partition for message in received if message.timestamp >= end_ms}
                if len(beyond) == len(broker.describe_topic(topic).partitions):
                    return
            if not received and not follow:
                return
