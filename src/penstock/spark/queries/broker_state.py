"""The rows of the views ``__groups`` and ``__schedules``, requested from the broker.

Imports no PySpark: ``quick_answers.py`` uses them without Spark, ``broker_tables.py`` in its tasks.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from penstock.api.broker import Broker
from penstock.errors import GroupNotFound, QueryFailed, TopicNotFound
from penstock.model.info import GroupInfo, ScheduledMessage

SCHEDULED_MAX: Final = 1_000_000  # Messages of one topic that are requested at most.
TRIES: Final = 3
_TEXT: Final = pa.string()
_COUNT: Final = pa.int64()
_SECONDS: Final = pa.float64()

GROUPS: Final = pa.schema(
    {
        "topic": _TEXT, "group": _TEXT, "kind": _TEXT, "verdict": _TEXT, "why": _TEXT, "lag": _COUNT,
        "lag_seconds": _SECONDS, "drain_seconds": _SECONDS, "in_flight": _COUNT, "waiting_retry": _COUNT,
        "oldest_unacked": _TEXT, "oldest_unacked_seconds": _SECONDS, "consumers": pa.int32(), "lost": _COUNT,
        "delivered": _COUNT, "acked": _COUNT, "nacked": _COUNT, "timed_out": _COUNT, "dead_lettered": _COUNT,
        "expired": _COUNT,
    }
)  # fmt: skip
SCHEDULES: Final = pa.schema(
    {
        "id": _TEXT, "topic": _TEXT, "partition": pa.int32(), "due": pa.timestamp("us", "UTC"),
        "key": pa.binary(), "value": pa.binary(), "headers": pa.map_(_TEXT, pa.binary()), "priority": _TEXT,
        "cron": _TEXT, "timezone": _TEXT,
    }
)  # fmt: skip


def group_rows(broker: Broker) -> Iterator[dict[str, Any]]:
    """Every group of every topic; those that are deleted in the meantime are skipped."""
    for topic in broker.topics():
        try:
            groups = broker.groups(topic)
        except TopicNotFound:
            continue
        for group in groups:
            try:
                yield _group_row(broker.describe_group(topic, group))
            except (TopicNotFound, GroupNotFound):
                continue


def _group_row(info: GroupInfo) -> dict[str, Any]:
    same = (
        "topic", "group", "kind", "lag", "lag_seconds", "drain_seconds", "in_flight", "waiting_retry", "lost",
        "delivered", "acked", "nacked", "timed_out", "dead_lettered", "expired",
    )  # fmt: skip
    oldest = info.oldest_unacked
    return {name: getattr(info, name) for name in same} | {
        "verdict": info.verdict.word,
        "why": info.verdict.text,
        "oldest_unacked": None if oldest is None else oldest.id,
        "oldest_unacked_seconds": None if oldest is None else oldest.age_seconds,
        "consumers": len(info.consumers),
    }


def schedule_rows(broker: Broker) -> Iterator[dict[str, Any]]:
    """Every scheduled message."""
    for topic in broker.topics():
        try:
            yield from map(_schedule_row, _scheduled(broker, topic))
        except TopicNotFound:
            continue


def _scheduled(broker: Broker, topic: str) -> list[ScheduledMessage]:
    """All scheduled messages of a topic; an error if the broker's bounded answer has only a part."""
    for _ in range(TRIES):  # Between list and count another may have been added.
        found = broker.scheduled(topic, SCHEDULED_MAX)
        waiting = broker.scheduled_count(topic)
        if waiting <= len(found):
            return found
    raise QueryFailed(
        why=f"{topic} has {waiting:,} scheduled messages, but the broker lists at most {len(found):,}"
    )


def _schedule_row(message: ScheduledMessage) -> dict[str, Any]:
    same = ("id", "topic", "partition", "key", "value", "priority", "cron", "timezone")
    return {name: getattr(message, name) for name in same} | {
        "due": time_of(message.due_ms),
        "headers": {name: text.encode("utf-8", "surrogateescape") for name, text in message.headers.items()},
    }


def time_of(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)
