"""Topic settings of Kafka that have no effect here: checked as Kafka does, stored, and returned.

Scripts and tools create topics with whole lists of settings.  One that tunes what Penstock does otherwise, or
does not have (flushes, segments by time, replicas), does no harm; to refuse it would only break the script.
Names, types, bounds and defaults are those of Kafka's LogConfig.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from penstock.errors import InvalidValue

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7  # Kafka's types.
INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
IN_SYNC: Final = "min.insync.replicas"
_REPLICAS: Final = re.compile(r"\*|(\d+:\d+(\s*,\s*\d+:\d+)*)?")

Check = Callable[[str, str], object]  # Raises if a value cannot be that of a setting.


class StoredConfig(msgspec.Struct, frozen=True):
    kind: int
    default: str
    check: Check


def _refuse(name: str, text: str, why: str) -> None:
    raise InvalidValue(name=name, value=text, why=why)


def whole(name: str, text: str, low: int, high: int) -> int:
    """The number that a text is."""
    try:
        number = int(text) if len(text) <= 20 else high + 1
    except ValueError:
        raise InvalidValue(name=name, value=text[:40], why="it must be a whole number") from None
    if not low <= number <= high:
        raise InvalidValue(name=name, value=text[:40], why=f"it must be from {low} to {high}")
    return number


def flag(name: str, text: str) -> bool:
    """The boolean that a text is."""
    if text.lower() not in ("true", "false"):
        raise InvalidValue(name=name, value=text[:40], why="use true or false")
    return text.lower() == "true"


def _int(default: int, low: int, high: int = INT_MAX) -> StoredConfig:
    return StoredConfig(INT, str(default), lambda name, text: whole(name, text, low, high))


def _long(default: int, low: int) -> StoredConfig:
    return StoredConfig(LONG, str(default), lambda name, text: whole(name, text, low, LONG_MAX))


def _boolean(default: str = "false") -> StoredConfig:
    return StoredConfig(BOOLEAN, default, flag)


def _ratio(name: str, text: str) -> None:
    try:
        number = float(text)
    except ValueError:
        number = -1
    if not 0 <= number <= 1:
        _refuse(name, text[:40], "it must be a number from 0 to 1")


def _false(name: str, text: str) -> None:
    if flag(name, text):
        _refuse(name, text, "there is no remote storage here; the lake keeps what retention deletes")


def _replicas(name: str, text: str) -> None:
    if not _REPLICAS.fullmatch(text.strip()):
        _refuse(name, text[:40], "it must be * or a list of PARTITION:BROKER")


def _version(name: str, text: str) -> None:
    if not re.fullmatch(r"[0-9]+(\.[0-9]+){1,3}(-IV[0-9]+)?", text):
        _refuse(name, text[:40], "it must be a version of Kafka, such as 3.0-IV1")


STORED: Final[Mapping[str, StoredConfig]] = {
    "compression.gzip.level": _int(-1, -1, 9),
    "compression.lz4.level": _int(9, 1, 17),
    "compression.zstd.level": _int(3, -131072, 22),
    "file.delete.delay.ms": _long(60_000, 0),
    "flush.messages": _long(LONG_MAX, 1),
    "flush.ms": _long(LONG_MAX, 0),
    "follower.replication.throttled.replicas": StoredConfig(LIST, "", _replicas),
    "index.interval.bytes": _int(4096, 0),
    "leader.replication.throttled.replicas": StoredConfig(LIST, "", _replicas),
    "local.retention.bytes": _long(-2, -2),
    "local.retention.ms": _long(-2, -2),
    "max.compaction.lag.ms": _long(LONG_MAX, 1),
    "message.downconversion.enable": _boolean("true"),
    "message.format.version": StoredConfig(STRING, "3.0-IV1", _version),
    "message.timestamp.after.max.ms": _long(3600_000, 0),
    "message.timestamp.before.max.ms": _long(LONG_MAX, 0),
    "message.timestamp.difference.max.ms": _long(LONG_MAX, 0),
    "min.cleanable.dirty.ratio": StoredConfig(DOUBLE, "0.5", _ratio),
    "min.compaction.lag.ms": _long(0, 0),
    IN_SYNC: _int(1, 1),
    "preallocate": _boolean(),
    "remote.log.copy.disable": _boolean(),
    "remote.log.delete.on.disable": _boolean(),
    "remote.storage.enable": StoredConfig(BOOLEAN, "false", _false),
    "segment.index.bytes": _int(10 * 1024 * 1024, 4),
    "segment.jitter.ms": _long(0, 0),
    "segment.ms": _long(7 * 24 * 3600_000, 1),
    "unclean.leader.election.enable": _boolean(),
}


def stored_with(
    before: Mapping[str, str], wanted: Mapping[str, str | None], replication: bool
) -> dict[str, str]:
    """The stored settings after a change; None resets one to the default.

    ``replication``: more replicas in sync than there are brokers are accepted, and not waited for.
    """
    stored = dict(before)
    for name, text in wanted.items():
        if name not in STORED:
            continue
        stored.pop(name, None)
        if text is not None:
            STORED[name].check(name, text.strip())
            stored[name] = text.strip()
    if _number(stored, IN_SYNC) > 1 and not replication:
        why = "there is one broker, and it holds the only replica; kafka.accept_replication allows it"
        _refuse(IN_SYNC, stored[IN_SYNC], why)
    shortest, longest = (_number(stored, f"{limit}.compaction.lag.ms") for limit in ("min", "max"))
    if shortest > longest:
        why = f"it must not be above max.compaction.lag.ms, {longest}"
        _refuse("min.compaction.lag.ms", str(shortest), why)
    return stored


def _number(stored: Mapping[str, str], name: str) -> int:
    """A setting that is a number; one that was stored without validation may be invalid."""
    return whole(name, stored_value(stored, name), 0, LONG_MAX)


def stored_value(stored: Mapping[str, str], name: str) -> str:
    """The stored value of a setting, or its default."""
    return stored.get(name, STORED[name].default)
