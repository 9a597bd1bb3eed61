"""``penstock group``: create, list, describe, move and delete consumer groups.

``describe`` prints, in this order: the verdict, the lag and its age, the oldest unacked message, the
consumers, the rates, and each partition.
"""

from typing import Annotated, Any, Final, Literal

import typer

from penstock.cli import connecting, screen
from penstock.cli.arguments import (
    SERVER,
    Group,
    MaybeTopic,
    OutputOption,
    Partition,
    Server,
    Topic,
    Yes,
    agreed,
    duration,
    maybe,
    past,
)
from penstock.cli.commands import example, new_app
from penstock.cli.screen import Column
from penstock.cli.text import counted, document_of, rounded_duration
from penstock.config.broker import Isolation, Kind
from penstock.model.info import GroupInfo, GroupRates, PartitionLag, Unacked, Verdict

app = new_app()

# The colour of each verdict; green is fine, yellow needs a look, red needs a hand.
VERDICTS: Final = {
    "idle": "green",
    "keeping up": "green",
    "draining": "green",
    "working": "green",
    "falling behind": "yellow",
    "no consumers": "yellow",
    "failing": "red",
    "blocked": "red",
    "stalled": "red",
}


@app.command("list", epilog=example("penstock group list", "penstock group list orders -o json"))
def list_(topic: MaybeTopic = None, output: OutputOption = "table", server: Server = SERVER) -> None:
    """List groups, of one or all topics, with verdict and lag."""
    with connecting.connected(server) as broker:
        topics = broker.topics() if topic is None else [topic]
        found = [broker.describe_group(name, group) for name in topics for group in broker.groups(name)]
    if output == "json":
        screen.documents(map(document_of, found))
    elif not found:
        screen.note("there are no groups; the first consumer of a group creates it")
    else:
        numbers = ("lag", "oldest", "in flight", "consumers")
        columns = [Column("topic"), Column("group"), *(Column(name, right=True) for name in numbers)]
        screen.table([*columns, Column("verdict", text=True)], map(_row, found))


def _row(info: GroupInfo) -> list[object]:
    oldest = rounded_duration(info.lag_seconds * 1000) if info.lag else "-"
    return [
        info.topic, info.group, f"{info.lag:,}", oldest, f"{info.in_flight:,}", len(info.consumers),
        screen.styled(info.verdict.word, VERDICTS.get(info.verdict.word, "")),
    ]  # fmt: skip


@app.command(epilog=example("penstock group describe orders shipping"))
def describe(topic: Topic, group: Group, output: OutputOption = "table", server: Server = SERVER) -> None:
    """Show verdict, lag, consumers and rates of a group."""
    with connecting.connected(server) as broker:
        info = broker.describe_group(topic, group)
    if output == "json":
        screen.documents([document_of(info)])
        return
    screen.facts(_facts(info))
    screen.line("")
    columns = [
        Column(name, right=True) for name in ("partition", "floor", "end", "lag", "in flight", "retrying")
    ]
    screen.table(columns, map(_partition, info.partitions))


def _partition(part: PartitionLag) -> list[object]:
    numbers = (part.floor, part.end, part.lag, part.in_flight, part.waiting_retry)
    return [part.partition, *(f"{number:,}" for number in numbers)]


def _facts(info: GroupInfo) -> list[tuple[str, object]]:
    oldest = f", the oldest {rounded_duration(info.lag_seconds * 1000)} old" if info.lag else ""
    return [
        ("group", f"{info.group} of {info.topic} ({info.kind})"),
        ("verdict", _verdict(info.verdict)),
        ("lag", f"{counted(info.lag, 'message')}{oldest}"),
        ("drained in", _drain(info)),
        ("in flight", f"{info.in_flight:,}, and {info.waiting_retry:,} waiting for a retry"),
        ("oldest unacked", "none" if info.oldest_unacked is None else _unacked(info.oldest_unacked)),
        ("consumers", ", ".join(info.consumers) or "none"),
        ("per second", _rates(info.rates)),
        ("since start", _counts(info)),
        *([("lost", f"{info.lost:,} deleted by retention before they were settled")] if info.lost else []),
    ]


def _verdict(verdict: Verdict) -> Any:
    return screen.styled(str(verdict), VERDICTS.get(verdict.word, ""))


def _drain(info: GroupInfo) -> str:
    if not info.lag:
        return "nothing to drain"
    return (
        "never at the current rate"
        if info.drain_seconds is None
        else f"about {rounded_duration(info.drain_seconds * 1000)}"
    )


def _unacked(message: Unacked) -> str:
    words = [
        message.id,
        f"{rounded_duration(message.age_seconds * 1000)} old",
        f"after {counted(message.attempts, 'attempt')}" if message.attempts else "released unused",
        _holder(message.consumer, message.due_seconds),
    ]
    if message.behind:
        words.append(f"{counted(message.behind, 'message')} of the same key behind it")
    if message.error:
        words.append(f"failed with {message.error}")
    return ", ".join(words)


def _holder(consumer: str | None, due_seconds: float | None) -> str:
    due = None if due_seconds is None else rounded_duration(max(0.0, due_seconds) * 1000)
    if consumer is not None:
        return f"held by {consumer}" + ("" if due is None else f" for {due} more")
    return "to be redelivered" + (f" in {due}" if due_seconds is not None and due_seconds > 0 else "")


def _rates(rates: GroupRates) -> str:
    words = {
        "published": rates.published,
        "delivered": rates.delivered,
        "acked": rates.acked,
        "failed": rates.failed,
    }
    return ", ".join(f"{_rate(rate)} {word}" for word, rate in words.items())


def _counts(info: GroupInfo) -> str:
    counts = {
        "delivered": info.delivered,
        "acked": info.acked,
        "nacked": info.nacked,
        "timed out": info.timed_out,
        "dead-lettered": info.dead_lettered,
        "expired": info.expired,
    }
    parts = [f"{count:,} {word}" for word, count in counts.items() if count or word in ("delivered", "acked")]
    return ", ".join(parts)


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"


def _position(text: str) -> Any:
    """Where to seek: a word, an offset or a time."""
    if text in ("earliest", "latest"):
        return text
    return int(text) if text.isdigit() else past(text)


def _waits(text: str) -> Any:
    """A backoff: the word, or comma-separated delays."""
    return text if text == "exponential" else [duration(wait.strip()) for wait in text.split(",")]


@app.command(
    epilog=example(
        "penstock group create orders shipping --max-attempts 5 --backoff 1s,10s,1m",
        "penstock group create orders billing --ordered --start latest",
        "penstock group create orders audit --kind stream",
    )
)
def create(
    topic: Topic,
    group: Group,
    kind: Annotated[
        Kind | None,
        typer.Option(help="queue: consumers share messages. stream: consumers are assigned partitions."),
    ] = None,
    start: Annotated[
        Any,
        typer.Option(
            metavar="PLACE",
            parser=_position,
            help="Where it starts: earliest, latest, an offset, a time, or 15m ago.",
        ),
    ] = None,
    ordered: Annotated[
        bool | None,
        typer.Option("--ordered/--no-ordered", help="Deliver messages with the same key one at a time."),
    ] = None,
    max_attempts: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Deliveries before a message becomes a dead letter."),
    ] = None,
    backoff: Annotated[
        Any,
        typer.Option(metavar="WAITS", parser=_waits, help="Delays before retries: 1s,10s,1m or exponential."),
    ] = None,
    visibility_timeout: Annotated[
        str | None,
        typer.Option(parser=duration, metavar="DURATION", help="How long a consumer may hold a message."),
    ] = None,
    delivery: Annotated[
        Literal["at-least-once", "at-most-once"] | None,
        typer.Option(help="Settle messages when acked, or before delivery."),
    ] = None,
    lanes: Annotated[
        Literal["strict", "weighted"] | None,
        typer.Option(help="Strict priority order, or a weighted share for each lane."),
    ] = None,
    isolation: Annotated[
        Isolation | None,
        typer.Option(help="Whether to deliver messages of open and aborted transactions."),
    ] = None,
    dead_letter: Annotated[
        bool | None,
        typer.Option("--dead-letter/--no-dead-letter", help="What to do after --max-attempts."),
    ] = None,
    session_timeout: Annotated[
        str | None,
        typer.Option(parser=duration, metavar="DURATION", help="Heartbeat timeout of stream consumers."),
    ] = None,
    server: Server = SERVER,
) -> None:
    """Create a group, or change the settings of an existing one."""
    options = maybe(
        kind=kind, start=start, ordered=ordered, max_attempts=max_attempts, backoff=backoff,
        visibility_timeout=visibility_timeout, delivery=delivery, lanes=lanes, isolation=isolation,
        dead_letter=dead_letter, session_timeout=session_timeout,
    )  # fmt: skip
    with connecting.connected(server) as broker:
        known = group in broker.groups(topic)
        broker.create_group(topic, group, **options)
        info = broker.describe_group(topic, group)
    done = "changed" if known else "created"
    screen.note(f"{done} {info.kind} group {group} of {topic}; {counted(info.lag, 'message')} to process")


@app.command(
    epilog=example(
        "penstock group seek orders shipping earliest",
        "penstock group seek orders shipping 2026-11-14T15:00:00Z",
        "penstock group seek orders shipping 15m",
        "penstock group seek orders shipping 4711 --partition 2",
    )
)
def seek(
    topic: Topic,
    group: Group,
    to: Annotated[
        Any,
        typer.Argument(
            metavar="TO",
            parser=_position,
            help="earliest, latest, an offset, a time (UTC), or a duration ago: 15m.",
        ),
    ],
    partition: Partition = None,
    server: Server = SERVER,
) -> None:
    """Move a group, to process messages again or to skip them."""
    with connecting.connected(server) as broker:
        broker.seek(topic, group, to, partition=partition)
        lag = broker.describe_group(topic, group).lag
    screen.note(f"moved group {group} of {topic}; {counted(lag, 'message')} to process")


@app.command(epilog=example("penstock group delete orders shipping"))
def delete(topic: Topic, group: Group, yes: Yes = False, server: Server = SERVER) -> int:
    """Delete a group and its position.  Asks for confirmation on a terminal."""
    with connecting.connected(server, progress=False) as broker:
        lag = broker.describe_group(topic, group).lag
        if not agreed(f"Delete group {group} of {topic}, with {counted(lag, 'message')} unsettled?", yes):
            return 1
        broker.delete_group(topic, group)
    screen.note(f"deleted group {group} of {topic}")
    return 0
