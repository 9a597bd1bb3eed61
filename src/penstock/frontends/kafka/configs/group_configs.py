"""A group's settings by Kafka's names, in Kafka's units.

    consumer.session.timeout.ms = 45000     how long a member of ``group.protocol=consumer`` may be silent
    share.auto.offset.reset = by_duration:PT1H     where a share group begins on a topic that is new to it

``GROUP_CONFIGS`` is the one table, like that of topics (``topic_configs``)."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from penstock.config.broker import ISOLATIONS
from penstock.errors import InvalidValue
from penstock.frontends.kafka.call import KafkaCall
from penstock.frontends.kafka.configs.entries import OF_DEFAULT, OF_GROUP, config_entry
from penstock.frontends.kafka.configs.stored_configs import INT, STRING
from penstock.frontends.kafka.starts import start_of
from penstock.groups.configs import BOUNDS
from penstock.wire.kafka.messages.admin.configs import DescribeConfigsResourceResult


class GroupEntry(msgspec.Struct, frozen=True):
    kind: int
    field: str  # Of ``GroupConfig``.
    words: str
    choices: tuple[str, ...] = ()


GROUP_CONFIGS: Final = {
    "consumer.heartbeat.interval.ms": GroupEntry(
        INT, "consumer_heartbeat_ms", "Interval between heartbeats of consumer group members."
    ),
    "consumer.session.timeout.ms": GroupEntry(
        INT, "consumer_session_ms", "Session timeout of consumer group members."
    ),
    "share.auto.offset.reset": GroupEntry(
        STRING, "share_start", "Where a share group begins to read a topic."
    ),
    "share.delivery.count.limit": GroupEntry(
        INT, "share_attempts", "Maximum number of deliveries; then the message is a dead letter."
    ),
    "share.heartbeat.interval.ms": GroupEntry(
        INT, "share_heartbeat_ms", "Interval between heartbeats of share group members."
    ),
    "share.isolation.level": GroupEntry(
        STRING,
        "share_isolation",
        "Whether messages of open and aborted transactions are delivered.",
        ISOLATIONS,
    ),
    "share.partition.max.record.locks": GroupEntry(
        INT, "share_locks", "Maximum number of acquired messages per partition of a share group."
    ),
    "share.record.lock.duration.ms": GroupEntry(
        INT, "share_lock_ms", "How long a consumer may hold a message before it is redelivered."
    ),
    "share.session.timeout.ms": GroupEntry(
        INT, "share_session_ms", "Session timeout of share group members."
    ),
}


def group_config_entries(call: KafkaCall[Any], group: str) -> list[DescribeConfigsResourceResult]:
    """All settings of a group, which need not exist."""
    if not group:
        raise InvalidValue(name="resource", value=group, why="a group has a name")
    said, counts = call.operations.group_config(group)
    entries = []
    for name, entry in GROUP_CONFIGS.items():
        value = str(getattr(counts, entry.field))
        source = OF_DEFAULT if getattr(said, entry.field) is None else OF_GROUP
        entries.append(config_entry(name, value, entry.kind, source, entry.words))
    return entries


async def alter_group(call: KafkaCall[Any], group: str, wanted: Mapping[str, str | None], dry: bool) -> None:
    """Change some settings of a group; None resets one to the default."""
    said, _ = call.operations.group_config(group)
    changes = {}
    for name, text in wanted.items():
        entry = GROUP_CONFIGS.get(name)
        if entry is None:
            known = ", ".join(GROUP_CONFIGS)
            raise InvalidValue(name="config", value=name, why=f"there is no such setting; there are {known}")
        changes[entry.field] = None if text is None else _parsed(name, entry, text)
    asked = msgspec.structs.replace(said, **changes)
    if not dry:
        await call.run(call.operations.alter_group_config(group, asked))


def _parsed(name: str, entry: GroupEntry, text: str) -> int | str:
    if entry.choices:
        if text not in entry.choices:
            raise InvalidValue(name=name, value=text, why=f"use one of {', '.join(entry.choices)}")
        return text
    if entry.kind == STRING:
        start_of(text, 0)
        return text
    least, most = BOUNDS[entry.field]
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise InvalidValue(name=name, value=text, why=f"it is a number between {least} and {most}")
    return int(text)
