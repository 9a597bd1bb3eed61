"""Grants of keys and users: parsing and printing.

--grant producer                    a role, on all topics
--grant producer:orders,invoices*   on these topics, and on those with this prefix
--grant consumer:orders:billing     as one of these groups
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final

import typer

from penstock.cli.arguments import size
from penstock.cli.screen import Column
from penstock.cli.text import time_text
from penstock.errors import PenstockError
from penstock.model.access import ANY, Grant, Quota
from penstock.types import size_text

COLUMNS: Final = (Column("grants", text=True), Column("quota", text=True), Column("since (UTC)"))


def grant(text: str) -> Grant:
    """One grant as it was typed."""
    role, *parts = text.split(":")
    if len(parts) > 2:
        raise typer.BadParameter(f"{text!r}: write ROLE, ROLE:TOPICS or ROLE:TOPICS:GROUPS")
    patterns = [part.split(",") if part else [ANY] for part in parts]
    try:
        chosen: Any = role
        return Grant(role=chosen, **dict(zip(("topics", "groups"), patterns, strict=False)))
    except PenstockError as error:
        raise typer.BadParameter("{value!r}: {why}".format(**error.facts)) from None


Grants = Annotated[
    list[Grant],
    typer.Option(
        "--grant",
        "-g",
        metavar="ROLE[:TOPICS[:GROUPS]]",
        parser=grant,
        help="Grant a role: admin, producer, consumer or reader.",
    ),
]
BytesPerSecond = Annotated[
    int | None,
    typer.Option("--bytes", metavar="SIZE", parser=size, help="Maximum bytes published per second."),
]
MessagesPerSecond = Annotated[
    int | None, typer.Option("--messages", metavar="N", min=1, help="Maximum messages published per second.")
]
MostConnections = Annotated[
    int | None, typer.Option("--connections", metavar="N", min=1, help="Maximum number of open connections.")
]


def quota(size: int | None, messages: int | None, connections: int | None) -> Quota:
    """The quota of these options."""
    return Quota(bytes_per_second=size, messages_per_second=messages, connections=connections)


def columns(info: Any) -> tuple[str, str, str]:
    """Grants, quota and creation time of a key or user."""
    return " ".join(map(_grant_text, info.grants)), _quota_text(info.quota), time_text(info.created_ms)


def _grant_text(one: Grant) -> str:
    topics, groups = ",".join(one.topics), ",".join(one.groups)
    if groups != ANY:
        return f"{one.role}:{topics}:{groups}"
    return one.role if topics == ANY else f"{one.role}:{topics}"


def _quota_text(one: Quota) -> str:
    parts = [
        None if one.bytes_per_second is None else f"{size_text(one.bytes_per_second)}/s",
        None if one.messages_per_second is None else f"{one.messages_per_second} messages/s",
        None if one.connections is None else f"{one.connections} connections",
    ]
    return ", ".join(part for part in parts if part is not None)


def documents(infos: Iterable[Any], fields: Sequence[str]) -> Iterable[dict[str, Any]]:
    """Keys or users as documents."""
    for info in infos:
        yield {
            **{field: getattr(info, field) for field in fields},
            "grants": [{"role": one.role, "topics": one.topics, "groups": one.groups} for one in info.grants],
            "quota": {name: getattr(info.quota, name) for name in info.quota.__struct_fields__},
            "created": time_text(info.created_ms),
        }
