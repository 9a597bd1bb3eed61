"""Settings under the names of other systems: GoQueue's configuration file and GoMQ's environment variables.

    broker.listeners.http: ":8080"     listen.http = ":8080"
    defaults.delivery.maxRetries: 3    group.max_attempts = 4        it counts the first delivery too
    defaults.priority.lanes: 3         no effect; a note says why
    GOMQ_STORAGE=hybrid                topic.durability = "os"

Nothing is ignored in silence: a name is translated, has no effect and a reason (``Translated.note``), or is
unknown.  ``penstock config show`` lists translated values with the name and the line they come from.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from penstock.config.broker import DURABILITY_NAMES
from penstock.errors import InvalidValue

GOMQ: Final = "GOMQ_"
LANES_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Translated:
    """A value as one of our settings; without a key it has no effect, and ``note`` says why."""

    key: str = ""
    value: Any = None
    note: str = ""


Translate = Callable[[Any], Translated]


def translated(name: str, value: Any) -> Translated | None:
    """The setting that another system's name stands for; None if it is not one.

    Raises ``InvalidValue`` for a value that we cannot do.
    """
    found = NAMES.get(name)
    return None if found is None else found(value)


def _same(key: str) -> Translate:
    return lambda value: Translated(key, value)


def _retries(value: Any) -> Translated:
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidValue(name="retries", value=value, why="it must be a whole number")
    return Translated("group.max_attempts", value + 1)


def _hours(value: Any) -> Translated:
    return Translated("topic.retention", f"{value}h")


def _storage(value: Any) -> Translated:
    if value not in ("memory", "disk", "hybrid"):
        raise InvalidValue(name="storage", value=value, why="use one of memory, disk, hybrid")
    return Translated("topic.durability", DURABILITY_NAMES.get(value, value))


def _lanes(value: Any) -> Translated:
    if not isinstance(value, int) or not 1 <= value <= LANES_MAX:
        raise InvalidValue(name="lanes", value=value, why=f"there are {LANES_MAX} lanes")
    return Translated(note=f"there are always {LANES_MAX} lanes, and unused ones cost nothing")


def _delays(value: Any) -> Translated:
    if value is not True:
        raise InvalidValue(
            name="enabled", value=value, why="delays cannot be turned off; limit topic.delay_max"
        )
    return Translated(note="delayed messages are always possible")


def _without_effect(note: str) -> Translate:
    return lambda _: Translated(note=note)


NAMES: Final[dict[str, Translate]] = {
    # GoQueue's file.
    "broker.nodeId": _without_effect("a server alone has no number; nodes of a cluster have cluster.node"),
    "broker.dataDir": _same("server.data"),
    "broker.listeners.http": _same("listen.http"),
    "broker.listeners.grpc": _same("listen.grpc"),
    "defaults.topic.partitions": _same("topic.partitions"),
    "defaults.topic.replicationFactor": _without_effect("copies are kept by the store of a cluster"),
    "defaults.topic.retention.hours": _hours,
    "defaults.topic.retention.bytes": _same("topic.retention_bytes"),
    "defaults.delivery.visibilityTimeout": _same("group.visibility_timeout"),
    "defaults.delivery.maxRetries": _retries,
    "defaults.delivery.dlqEnabled": _same("group.dead_letter"),
    "defaults.delay.enabled": _delays,
    "defaults.delay.maxDelay": _same("topic.delay_max"),
    "defaults.priority.lanes": _lanes,
    # GoMQ's environment.
    "GOMQ_STORAGE": _storage,
    "GOMQ_DATA_DIR": _same("server.data"),
    "GOMQ_DEFAULT_TTL": _same("topic.ttl"),
    "GOMQ_MAX_MESSAGE_SIZE": _same("topic.message_bytes_max"),
    "GOMQ_MAX_QUEUE_DEPTH": _same("topic.depth_max"),
    "GOMQ_MAX_RETRIES": _retries,
    "GOMQ_LISTEN_ADDR": _same("listen.native"),
}
