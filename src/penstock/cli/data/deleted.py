"""Restores deleted messages for a group: ``--include-deleted`` and ``--from-snapshot`` of ``consume``.

A snapshot is named, or it is a date or time: the state of the log at any time is known without having taken
a snapshot then.  A snapshot that has a date for its name comes first.

This process reads the lake with Arrow; neither Spark nor Java is needed.  Messages are restored into the log
with their old offsets, so a normal consumer can read them.
"""

from datetime import UTC, datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from penstock.cli import screen
from penstock.cli.progress import ProgressBar
from penstock.cli.text import counted
from penstock.errors import ExtraMissing

if TYPE_CHECKING:
    from penstock.api.broker import Broker


def bring_back(
    broker: "Broker", topic: str, group: str, from_time: datetime | None, snapshot: str | None
) -> None:
    """Move the group to a time, to a snapshot or to the oldest message, in the lake or the log."""
    if find_spec("pyarrow") is None or find_spec("deltalake") is None:
        raise ExtraMissing(what="the library that reads the lake", extra="spark")
    from penstock.spark.replay import snapshots  # Only now: what they need is an extra.
    from penstock.spark.restoring import restore

    where: dict[str, Any] = {"from_time": from_time}
    if snapshot is not None:
        where = {"from_time": _date(snapshot)}
        if where["from_time"] is None or snapshot in snapshots.known(broker):
            where = {"offsets": snapshots.get(broker, snapshot).offsets(topic)}
    with ProgressBar("from the lake") as progress:
        done = restore(broker, topic, group, advance=progress.advance, **where)
    for each in done:
        if each.missing:
            screen.note(
                f"{topic}:{each.partition}: {counted(each.missing, 'message')} before offset {each.start} "
                "are in neither the log nor the lake"
            )
    count = sum(each.records for each in done)
    if count:
        screen.note(f"{counted(count, 'message')} restored from the lake")


def _date(snapshot: str) -> datetime | None:
    """The time that is meant if there is no snapshot of that name, such as 2025-01-01; UTC unless it says."""
    try:
        time = datetime.fromisoformat(snapshot)
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
