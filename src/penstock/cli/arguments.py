"""Arguments shared by several commands.

Values are validated here where that needs no broker, so that a mistake is reported with exit code 2 before
the command connects.
"""

import re
import sys
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import typer

from penstock.cli import connecting
from penstock.cli.connecting import DEFAULT_SERVER
from penstock.cli.screen import Output
from penstock.client.connections.url import server_addresses
from penstock.errors import PenstockError
from penstock.types import check_name, duration_ms, instant_ms, lane_number, size_bytes

PARTITION_DIGITS_MAX: Final = 9

_DURATION: Final = re.compile(r"(\d+(\.\d+)?(ms|s|m|h|d|w))+")


def _refusal(error: PenstockError) -> typer.BadParameter:
    """Our error as typer's: the option's name is typer's to say."""
    words = "{value!r}: {why}" if "value" in error.facts else error.sentence
    return typer.BadParameter(words.format(**error.facts))


def duration(text: str) -> str:
    """A duration, returned as it was written."""
    try:
        duration_ms("", text)
    except PenstockError as error:
        raise _refusal(error) from None
    return text


def size(text: str) -> int:
    """A size in bytes, written as a number or like 1MiB."""
    try:
        return size_bytes("", int(text) if text.isdecimal() else text)
    except PenstockError as error:
        raise _refusal(error) from None


def instant(text: str) -> datetime:
    """A time as ISO 8601; without a time zone it is UTC."""
    try:
        instant_ms("", text)
    except PenstockError as error:
        try:
            return datetime.fromisoformat(text).replace(tzinfo=UTC)
        except ValueError:
            raise _refusal(error) from None
    return datetime.fromisoformat(text)


def past(text: str) -> datetime:
    """A time, or how long ago."""
    if not _DURATION.fullmatch(text):
        return instant(text)
    now = datetime.fromtimestamp(connecting.clock().wall_ms() / 1000, UTC)
    return now - timedelta(milliseconds=duration_ms("", text))


def priority(text: str) -> str | int:
    """The name of a lane, or a number."""
    try:
        lane_number(int(text) if text.lstrip("-").isdigit() else text)
    except PenstockError as error:
        raise _refusal(error) from None
    return int(text) if text.lstrip("-").isdigit() else text


def server_url(text: str) -> str:
    """The address of a server."""
    try:
        server_addresses(text)
    except PenstockError as error:
        raise _refusal(error) from None
    return text


def topic_name(text: str) -> str:
    try:
        return check_name("topic", text)
    except PenstockError as error:
        raise _refusal(error) from None


def group_name(text: str) -> str:
    try:
        return check_name("group", text)
    except PenstockError as error:
        raise _refusal(error) from None


def partition_number(text: str) -> int:
    """Number of a partition, as an argument."""
    if not text.isdecimal() or len(text) > PARTITION_DIGITS_MAX:
        raise typer.BadParameter(f"{text!r} is not a partition; they are numbered from 0")
    return int(text)


def pairs(option: str, given: list[str]) -> dict[str, str]:
    """``name=value``, as often as it was given."""
    found: dict[str, str] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint=f"'{option}'")
        found[name] = value
    return found


# What a shell offers after the Tab key.  A server that does not answer offers nothing, and says nothing.


def known_topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Completion: the topics of the server named on the command line."""
    try:
        with connecting.connected(ctx.params.get("server") or DEFAULT_SERVER) as broker:
            return [name for name in broker.topics() if name.startswith(incomplete)]
    except PenstockError:
        return []


def known_groups(ctx: typer.Context, incomplete: str) -> list[str]:
    """Completion: the groups of the topic on the command line, which may not be parsed yet."""
    topic = ctx.params.get("topic") or next(iter(ctx.args), None)
    if topic is None:
        return []
    try:
        with connecting.connected(ctx.params.get("server") or DEFAULT_SERVER) as broker:
            return [name for name in broker.groups(topic) if name.startswith(incomplete)]
    except PenstockError:
        return []


Server = Annotated[
    str,
    typer.Option(
        "--server", envvar="PENSTOCK_SERVER", metavar="URL", parser=server_url, help="Address of the server."
    ),
]
SERVER: Final = DEFAULT_SERVER
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="Output format.")]
Topic = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC", parser=topic_name, autocompletion=known_topics, help="Name of the topic."
    ),
]
MaybeTopic = Annotated[
    str | None,
    typer.Argument(
        metavar="TOPIC",
        parser=topic_name,
        autocompletion=known_topics,
        help="Name of a topic; default: all topics.",
    ),
]
Group = Annotated[
    str,
    typer.Argument(
        metavar="GROUP", parser=group_name, autocompletion=known_groups, help="Name of the group."
    ),
]
Partition = Annotated[
    int | None, typer.Option("--partition", "-p", metavar="N", min=0, help="Only this partition.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def agreed(question: str, yes: bool) -> bool:
    """Ask for confirmation on a terminal; without a terminal, return True."""
    return yes or not sys.stdin.isatty() or typer.confirm(question, err=True)


def maybe(**options: Any) -> Any:
    """Only those that were given."""
    return {name: value for name, value in options.items() if value is not None}
