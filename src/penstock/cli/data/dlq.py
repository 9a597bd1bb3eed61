"""``penstock dlq``: list, show and redrive dead letters.

``list`` counts dead letters by error, so that one bug is one line however many messages it affected.
``show`` and ``redrive`` accept its fingerprint in ``--error``, to work on that bug only.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import connecting, screen
from penstock.cli.arguments import SERVER, MaybeTopic, OutputOption, Server, Topic, group_name
from penstock.cli.commands import example, new_app
from penstock.cli.data import messages
from penstock.cli.progress import ProgressBar
from penstock.cli.text import counted, document_of, safe_bytes, shortened, time_iso, time_text
from penstock.model.info import DeadLetter, DeadLetterErrors

if TYPE_CHECKING:
    from penstock.api.broker import Broker

app = new_app()

TIMES = {"first_seen_ms": "first_seen", "last_seen_ms": "last_seen"}
ALL = 1_000_000

Error = Annotated[
    str | None, typer.Option("--error", metavar="ERROR", help="Only this fingerprint or error class.")
]
OfGroup = Annotated[
    str | None,
    typer.Option(
        "--group", "-g", parser=group_name, metavar="NAME", help="Only messages that failed in this group."
    ),
]


@app.command("list", epilog=example("penstock dlq list", "penstock dlq list orders -o json"))
def list_(topic: MaybeTopic = None, output: OutputOption = "table", server: Server = SERVER) -> None:
    """Count dead letters by error, of one or all topics."""
    with connecting.connected(server) as broker:
        found = broker.dead_letter_errors(topic)
    if output == "json":
        screen.documents(document_of(errors, TIMES) for errors in found)
    elif not found:
        screen.note("there are no dead letters" + ("" if topic is None else f" of {topic}"))
    else:
        for number, errors in enumerate(found):
            if number:
                screen.line("")
            screen.facts(_facts(errors))


def _facts(errors: DeadLetterErrors) -> list[tuple[str, object]]:
    return [
        (f"{errors.count:,} x", screen.styled(shortened(errors.error or errors.reason, 300), "bold red")),
        ("fingerprint", f"{errors.fingerprint} ({errors.reason})"),
        ("topic", f"{errors.topic}, group {', '.join(errors.groups)}"),
        ("seen", f"{time_text(errors.first_seen_ms)} to {time_text(errors.last_seen_ms)} UTC"),
        ("newest", f"{errors.dead_letter}, originally {errors.source}"),
    ]


@app.command(
    epilog=example(
        "penstock dlq show orders",
        "penstock dlq show orders --error ValueError",
        "penstock dlq show orders -o json | jq .value",
    )
)
def show(
    topic: Topic,
    error: Error = None,
    group: OfGroup = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="Maximum number.")] = 20,
    output: OutputOption = "table",
    server: Server = SERVER,
) -> None:
    """Show the dead letters of a topic one by one."""
    with connecting.connected(server) as broker:
        found = _matching(broker, topic, error, group, limit)
    if output == "json":
        screen.documents(map(document, found))
    elif not found:
        screen.note(f"{topic} has no such dead letters")
    else:
        for number, letter in enumerate(found):
            if number:
                screen.line("")
            screen.facts(_letter(letter))


def _matching(
    broker: "Broker", topic: str, error: str | None, group: str | None, limit: int
) -> list[DeadLetter]:
    """The first matches; fetches ever larger pages, because the broker does not filter."""
    asked = limit
    while True:
        letters = broker.dead_letters(topic, asked)
        found = [letter for letter in letters if _matches(letter, error, group)][:limit]
        if len(found) == limit or len(letters) < asked:
            return found
        asked *= 10


def _matches(letter: DeadLetter, error: str | None, group: str | None) -> bool:
    known = error is None or error in (letter.fingerprint, letter.error.partition(":")[0])
    return known and (group is None or group == letter.group)


def _letter(letter: DeadLetter) -> list[tuple[str, object]]:
    message = letter.message
    return [
        ("dead letter", screen.styled(message.id, "bold")),
        ("message", f"{letter.source}, in group {letter.group}, {counted(letter.attempts, 'attempt')}"),
        ("error", screen.styled(letter.error or letter.reason, "red")),
        ("fingerprint", f"{letter.fingerprint} ({letter.reason})"),
        ("failed", f"{time_text(letter.first_failed_ms)} to {time_text(letter.last_failed_ms)} UTC"),
        ("key", "none" if message.key is None else safe_bytes(message.key)),
        ("value", shortened(safe_bytes(message.value), messages.TABLE_VALUE)),
    ]


def document(letter: DeadLetter) -> dict[str, Any]:
    """A dead letter as a document: the message, and its story."""
    return messages.document(letter.message) | {
        "source": letter.source,
        "group": letter.group,
        "attempts": letter.attempts,
        "reason": letter.reason,
        "error": letter.error,
        "fingerprint": letter.fingerprint,
        "first_failed": time_iso(letter.first_failed_ms),
        "last_failed": time_iso(letter.last_failed_ms),
    }


@app.command(
    epilog=example(
        "penstock dlq redrive orders --dry-run",
        "penstock dlq redrive orders --error ValueError --limit 10",
        "penstock dlq redrive orders --rate 50",
    )
)
def redrive(
    topic: Topic,
    error: Error = None,
    group: OfGroup = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="Maximum number.")] = ALL,
    rate: Annotated[float | None, typer.Option(metavar="N", min=0.001, help="Maximum per second.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
    output: OutputOption = "table",
    server: Server = SERVER,
) -> None:
    """Redeliver dead letters to the group in which they failed.  Other groups do not receive them again."""
    with connecting.connected(server) as broker, ProgressBar("redriving", unit=""):
        done = broker.redrive(topic, limit=limit, rate=rate, dry_run=dry_run, error=error, group=group)
    if output == "json":
        screen.documents([document_of(done)])
    elif dry_run:
        screen.line(f"would redrive {counted(done.matched, 'dead letter')}")
    else:
        screen.line(f"redrove {counted(done.redriven, 'dead letter')}")
