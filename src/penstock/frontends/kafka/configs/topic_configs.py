"""A topic's settings by Kafka's names, in Kafka's units.

    retention.ms = 604800000        retention_ms          -1 is no limit
    cleanup.policy = compact        compact; retention is stored, and applies only with compact,delete
    message.timestamp.type          append_time
    segment.ms                      stored, and not used (``stored_configs.py``)

``CONFIGS`` is the one table.  What is not in it is refused by its name: it is none of Kafka's.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec

from penstock.config.broker import TopicOptions, TopicSettings, settings_with
from penstock.errors import InvalidValue
from penstock.frontends.kafka.configs.stored_configs import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    STORED,
    STRING,
    flag,
    stored_value,
    stored_with,
    whole,
)

CODECS: Final = ("gzip", "snappy", "lz4", "zstd")
AS_IT_COMES: Final = ("producer", "uncompressed")
TIMESTAMPS: Final = ("CreateTime", "LogAppendTime")


class Config(msgspec.Struct, frozen=True):
    """One setting: how it is reported, and which setting it changes."""

    kind: int
    words: str
    read: Callable[[TopicSettings], str]
    write: Callable[[str], Mapping[str, Any]] | None = None  # None: it is only stored.


def _limit(name: str, text: str) -> int | None:
    """A number where -1 means no limit."""
    number = _number(name, text)
    return None if number == -1 else number


def _number(name: str, text: str) -> int:
    return whole(name, text, -1, LONG_MAX)


def _duration(name: str, text: str) -> str | None:
    limit = _limit(name, text)
    return None if limit is None else f"{limit}ms"


def _policy(text: str) -> dict[str, Any]:
    words = {word.strip() for word in text.split(",")} - {""}
    if not words <= {"compact", "delete"}:
        raise InvalidValue(name="cleanup.policy", value=text, why="use delete, compact, or both")
    if words == {"compact", "delete"}:
        return {"compact": True, "retention_applies": "always"}
    return {"compact": "compact" in words, "retention_applies": "auto" if words else "never"}


def _policy_text(settings: TopicSettings) -> str:
    words = {"compact": settings.compact, "delete": settings.deletes}
    return ",".join(word for word, holds in words.items() if holds)


def _compression(text: str) -> dict[str, Any]:
    if text not in (*CODECS, *AS_IT_COMES):
        known = ", ".join((*CODECS, *AS_IT_COMES))
        raise InvalidValue(name="compression.type", value=text, why=f"use one of {known}")
    return {"compression": text if text in CODECS else "none"}


def _timestamps(text: str) -> dict[str, Any]:
    if text not in TIMESTAMPS:
        raise InvalidValue(name="message.timestamp.type", value=text, why=f"use {' or '.join(TIMESTAMPS)}")
    return {"append_time": text == TIMESTAMPS[1]}


def _shown(limit: int | None) -> str:
    return "-1" if limit is None else str(limit)


def _stored(name: str, settings: TopicSettings) -> str:
    return stored_value(settings.kafka_configs, name)


CONFIGS: Final[dict[str, Config]] = {
    "cleanup.policy": Config(
        LIST, "Whether old records are deleted, or compacted by key.", _policy_text, _policy
    ),
    "compression.type": Config(
        STRING,
        "Compression of records that are not published by Kafka clients.",
        lambda settings: "producer" if settings.compression == "none" else settings.compression,
        _compression,
    ),
    "delete.retention.ms": Config(
        LONG,
        "How long compaction keeps a tombstone.",
        lambda settings: str(settings.tombstone_retention_ms),
        lambda text: {"tombstone_retention": f"{_number('delete.retention.ms', text)}ms"},
    ),
    "max.message.bytes": Config(
        INT,
        "Maximum size of a message.",
        lambda settings: str(settings.message_bytes_max),
        lambda text: {"message_bytes_max": _number("max.message.bytes", text)},
    ),
    "message.timestamp.type": Config(
        STRING,
        "Whether timestamps are set by producers, or by the broker on append.",
        lambda settings: TIMESTAMPS[settings.append_time],
        _timestamps,
    ),
    "penstock.headers": Config(
        BOOLEAN,
        "Whether x-delay-ms, x-deliver-at, x-priority, x-ttl-ms and x-dedup-id have an effect.",
        lambda settings: str(settings.kafka_headers).lower(),
        lambda text: {"kafka_headers": flag("penstock.headers", text)},
    ),
    "penstock.validation": Config(
        STRING,
        "Whether values must match the topic's schema: off, reject or dead-letter.",
        lambda settings: settings.validation,
        lambda text: {"validation": text},
    ),
    "retention.bytes": Config(
        LONG,
        "Size at which the oldest segments of a partition are deleted.",
        lambda settings: _shown(settings.retention_bytes),
        lambda text: {"retention_bytes": _limit("retention.bytes", text)},
    ),
    "retention.ms": Config(
        LONG,
        "Age at which segments are deleted.",
        lambda settings: _shown(settings.retention_ms),
        lambda text: {"retention": _duration("retention.ms", text)},
    ),
    "segment.bytes": Config(
        INT,
        "Size at which a new segment file is begun.",
        lambda settings: str(settings.segment_bytes),
        lambda text: {"segment_bytes": _number("segment.bytes", text)},
    ),
}
CONFIGS.update(
    (
        name,
        Config(stored.kind, "Stored and returned, but without effect in Penstock.", partial(_stored, name)),
    )
    for name, stored in STORED.items()
)


def options_of(
    wanted: Mapping[str, str | None],
    defaults: TopicSettings,
    before: Mapping[str, str] = MappingProxyType({}),
    replication: bool = False,
) -> TopicOptions:
    """The topic options that Kafka settings stand for; None is the default.

    ``before`` is what was stored for the topic, ``replication`` whether settings that need more brokers are
    accepted.
    """
    options: dict[str, Any] = {}
    for name, text in wanted.items():
        config = CONFIGS.get(name)
        if config is None:
            known = ", ".join(CONFIGS)
            raise InvalidValue(name="config", value=name, why=f"there is no such setting; there are {known}")
        if config.write is not None:
            options |= config.write(config.read(defaults) if text is None else text.strip())
    stored = stored_with(before, wanted, replication)
    if stored != before:
        options["kafka_configs"] = stored
    checked = cast("TopicOptions", options)
    settings_with(defaults, checked)  # Refuses what is out of its bounds.
    return checked
