"""Settings of one Kafka group.

    consumer_...   members of a group in which the broker assigns (``consumers.py``)
    share_...      members of a share group, and the queue groups of the same name

Settings that were not set have their defaults.
"""

from typing import Final

import msgspec

from penstock.config.broker import GroupSettings, Isolation
from penstock.errors import InvalidValue
from penstock.groups.consumers import HEARTBEAT_MS, SESSION_MS

START: Final = "latest"  # Kafka's rule for a share group that is new.
SHARE_ATTEMPTS: Final = 5  # Kafka's default of share.delivery.count.limit.
SHARE_LOCKS: Final = 2000  # Kafka's default of share.partition.max.record.locks.

# The least and the most; a lock and the attempts are those of any queue group.
BOUNDS: Final = {
    "consumer_session_ms": (100, 30 * 60 * 1000),
    "consumer_heartbeat_ms": (10, 60 * 1000),
    "share_session_ms": (100, 30 * 60 * 1000),
    "share_heartbeat_ms": (10, 60 * 1000),
    "share_lock_ms": (1, 12 * 3600 * 1000),
    "share_attempts": (1, 1000),
    "share_locks": (100, 10_000),
}


class GroupConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings that operators have made for a group."""

    consumer_session_ms: int | None = None  # A member that is silent for so long is gone.
    consumer_heartbeat_ms: int | None = None  # How often it is to be heard.
    share_session_ms: int | None = None
    share_heartbeat_ms: int | None = None
    share_lock_ms: int | None = None  # How long a message may be held.
    share_attempts: int | None = None  # Deliveries of a message, in all.
    share_start: str | None = None  # Where the group begins on a topic, in Kafka's words.
    share_isolation: Isolation | None = None
    share_locks: int | None = None  # Messages of a partition that its members may hold together.

    def __post_init__(self) -> None:
        for name, (least, most) in BOUNDS.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise InvalidValue(name=name, value=value, why=f"it is between {least} and {most}")
        rules = with_usual(self, GroupSettings())
        for session_ms, heartbeat_ms in (
            (rules.consumer_session_ms, rules.consumer_heartbeat_ms),
            (rules.share_session_ms, rules.share_heartbeat_ms),
        ):
            if heartbeat_ms >= session_ms:
                why = f"a session, here of {session_ms} ms, has room for more than one"
                raise InvalidValue(name="heartbeat interval", value=heartbeat_ms, why=why)


class GroupRules(msgspec.Struct, frozen=True, kw_only=True):
    """The settings in effect for a group: all of them have a value."""

    consumer_session_ms: int = SESSION_MS
    consumer_heartbeat_ms: int = HEARTBEAT_MS
    share_session_ms: int = SESSION_MS
    share_heartbeat_ms: int = HEARTBEAT_MS
    share_lock_ms: int
    share_attempts: int = SHARE_ATTEMPTS
    share_start: str = START
    share_isolation: Isolation
    share_locks: int = SHARE_LOCKS


def with_usual(said: GroupConfig, usual: GroupSettings) -> GroupRules:
    """The settings in effect, given the defaults of new groups."""
    named = {name: value for name, value in msgspec.structs.asdict(said).items() if value is not None}
    counts = {"share_lock_ms": usual.visibility_timeout_ms, "share_isolation": usual.isolation, **named}
    return GroupRules(**counts)
