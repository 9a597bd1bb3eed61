"""The settings of a server: their names, and parsing and formatting of their values.

    topic.retention            [topic] retention in the file
    PENSTOCK_TOPIC__RETENTION  in the environment
    --native                   a flag; only some settings have one
    TopicSettings.retention_ms the field that stores the value, in milliseconds

All of this derives from the classes in ``broker.py`` and ``server.py``, so a new setting is added only there.
A value is text ("7d", "64MiB", "none") or a number (seconds, bytes); parsing a formatted value gives the same
value, which a test checks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType
from typing import Any, Final, get_args, get_type_hints

import msgspec

from penstock.config.backoff import Backoff
from penstock.config.broker import GroupSettings, backoff_text, durability_name, start_text
from penstock.config.server import ServerConfig
from penstock.errors import InvalidValue
from penstock.types import duration_ms, duration_text, shown_url, size_bytes, size_text

PREFIX: Final = "PENSTOCK_"
NONE: Final = "none"  # TOML has no null; it means no limit, forever or never.
FLAGS: Final = {
    "server.data": "--data",
    "listen.native": "--native",
    "listen.text": "--text",
    "listen.status": "--status",
    "listen.http": "--http",
    "listen.kafka": "--kafka",
    "listen.grpc": "--grpc",
    "listen.sqs": "--sqs",
    "cluster.name": "--cluster",
    "cluster.store": "--store",
    "cluster.node": "--node",
    "cluster.advertise": "--advertise",
    "cluster.peer": "--peer",
    "cluster.cache_bytes": "--cache-bytes",
    "security.insecure": "--insecure",
}
# Settings of the broker that have their own section, or another name, in the file.
ELSEWHERE: Final = frozenset({
    "broker.auto_create_topics", "broker.lake", "broker.consumers_elsewhere", "broker.topic", "broker.group",
    "broker.close_timeout_ms", "topic.kafka_configs", "topic.sqs_attributes",
})  # fmt: skip
BOOLEANS: Final = {
    "true": True, "yes": True, "on": True, "1": True,
    "false": False, "no": False, "off": False, "0": False,
}  # fmt: skip

Read = Callable[[str, Any], Any]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a server."""

    section: str
    field: str  # Of the section's class.
    kind: Any  # The field's annotation.
    default: Any

    @property
    def name(self) -> str:
        """The name within its section."""
        return self.field.removesuffix("_ms")

    @property
    def key(self) -> str:
        """Its full name: section and name."""
        return f"{self.section}.{self.name}"

    @property
    def variable(self) -> str:
        """The name of the environment variable."""
        return f"{PREFIX}{self.section}__{self.name}".upper()

    @property
    def flag(self) -> str:
        """The flag of ``penstock serve``; empty if it has none."""
        return FLAGS.get(self.key, "")

    @property
    def optional(self) -> bool:
        """Whether it may be "none"."""
        return NoneType in get_args(self.kind)

    def read(self, value: object) -> Any:
        """Parse a value; raises ``InvalidValue``, which says what is accepted."""
        if self.optional and value == NONE:
            return None
        found = _reader(self)(self.key, value)
        type_of(self)(**{self.field: found})  # Checks it, apart from all the others.
        return found

    def show(self, value: Any) -> str:
        """Format a value as it is written in the file."""
        if value is None:
            return NONE
        if isinstance(value, bool):
            return str(value).lower()
        if self.field.endswith("_ms"):
            return duration_text(value)
        if "bytes" in self.field:
            return size_text(value)
        return _shown_backoff(value) if self.field == "backoff" else shown_url(str(value))


def type_of(setting: Setting) -> type[msgspec.Struct]:
    """The class of the setting's section."""
    section: type[msgspec.Struct] = type(getattr(DEFAULTS, setting.section))
    return section


def all_settings() -> list[Setting]:
    """Every setting, in the order of the source."""
    found = []
    for section in ServerConfig.__struct_fields__:
        defaults = getattr(DEFAULTS, section)
        for field, kind in get_type_hints(type(defaults)).items():
            if f"{section}.{field}" not in ELSEWHERE:
                found.append(Setting(section, field, kind, getattr(defaults, field)))
    return found


def _reader(setting: Setting) -> Read:
    """How values of a setting are read, by its name and its type."""
    if setting.field in SPECIAL:
        return SPECIAL[setting.field]
    if setting.field.endswith("_ms"):
        return _duration
    if "bytes" in setting.field:
        return _size
    kinds = (setting.kind, *get_args(setting.kind))  # Of "int | None", the int.
    return next((read for kind, read in READERS.items() if kind in kinds), _text)


def _duration(name: str, value: Any) -> int:
    if isinstance(value, str) and _is_number(value):
        value = float(value)  # In the environment everything is text.
    return duration_ms(name, value)


def _size(name: str, value: Any) -> int:
    return size_bytes(name, int(value) if isinstance(value, str) and value.isdecimal() else value)


def _number(name: str, value: Any) -> int:
    if isinstance(value, str) and value.replace("_", "").isdecimal():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidValue(name=name, value=value, why="it must be a whole number")
    return value


def _boolean(name: str, value: Any) -> bool:
    known = BOOLEANS.get(str(value).lower())
    if known is None:
        raise InvalidValue(name=name, value=value, why="it must be true or false")
    return known


def _text(name: str, value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # A port.
    if not isinstance(value, str):
        raise InvalidValue(name=name, value=value, why="it must be text")
    return value


def _backoff(_: str, value: Any) -> str:
    if isinstance(value, str) and ":" not in value and value != "exponential":
        value = [wait.strip() for wait in value.split(",")]
    text = backoff_text(value)
    Backoff.decode(text)  # Here, and not when the first group is made.
    return text


def _shown_backoff(text: str) -> str:
    if text == GroupSettings().backoff:
        return "exponential"
    kind, _, waits = text.partition(":")
    return ",".join(duration_text(int(wait)) for wait in waits.split(",")) if kind == "fixed" else text


def _start(_: str, value: Any) -> str:
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, str) and value.startswith("@") and value[1:].isdecimal():
        return value  # As it is stored, and shown.
    return start_text(value)


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()


READERS: Final[dict[Any, Read]] = {int: _number, bool: _boolean}  # All others are text.
SPECIAL: Final[dict[str, Read]] = {
    "backoff": _backoff,
    "start": _start,
    "durability": lambda _, value: durability_name(value),
}
DEFAULTS: Final = ServerConfig()
