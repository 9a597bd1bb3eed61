"""Loads the configuration of a server from file, environment and flags, and reports all problems at once.

    penstock.toml                 <   PENSTOCK_TOPIC__RETENTION=7d   <   --native 127.0.0.1:0
    [topic]
    retention = "14d"

This module does no I/O: it takes the text, the environment and the flags as arguments, and returns a
validated ``ServerConfig`` with the origin of every value that is not a default.  A value that a later source
overrides is validated too.

Every entry is parsed separately and its problems are collected with their origin (file and line, variable,
flag); then ``InvalidConfiguration`` is raised with all of them.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from penstock.config.server import MEMORY, OFF, ServerConfig, address, is_loopback
from penstock.config.settings import PREFIX, Setting, all_settings
from penstock.errors import InvalidConfiguration, InvalidValue, PenstockError

SETTINGS: Final[dict[str, Setting]] = {setting.key: setting for setting in all_settings()}
# Names that settings had before; they are read as the new ones.
ALIASES: Final = {"kafka.auto_create_topics": "topic.auto_create"}
SECTIONS: Final = ServerConfig.__struct_fields__
DEFAULT: Final = "default"
# The first must not be larger than the second, because of the third.
ORDER: Final = (
    ("topic.message_bytes_max", "limits.frame_bytes_max", "no frame could hold the largest message"),
    ("limits.frame_bytes_max", "limits.publish_bytes_max", "the largest publish would always be refused"),
    ("limits.text_in_flight_max", "broker.in_flight_max", "no consumer may hold so many messages"),
)

_TABLE: Final = re.compile(r"\s*\[\s*([\w.-]+)\s*\]")
_PAIR: Final = re.compile(r"""\s*["']?([\w.-]+)["']?\s*=""")


@dataclass(frozen=True, slots=True)
class Entry:
    """One value from one source."""

    key: str  # Section and name, as written.
    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration and the origins of its values."""

    config: ServerConfig
    origins: Mapping[str, str]  # By key; a key that is not here has its default.

    def rows(self) -> list[tuple[str, str, str]]:
        """Key, value and origin of every setting, as one would write them."""
        return [
            (key, setting.show(value_of(self.config, setting)), self.origins.get(key, DEFAULT))
            for key, setting in SETTINGS.items()
        ]


def value_of(config: ServerConfig, setting: Setting) -> Any:
    """What a configuration says for one setting."""
    return getattr(getattr(config, setting.section), setting.field)


def load(
    *,
    text: str = "",
    file: str = "",
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
) -> Loaded:
    """Read ``text`` (of ``file``), ``environ`` and ``flags`` (by key), in this order.

    Raises ``InvalidConfiguration`` with all problems, if there are any.
    """
    problems: list[str] = []
    entries = [
        *_from_file(text, file, problems),
        *_from_environment(environ or {}, problems),
        *(Entry(key, value, SETTINGS[key].flag) for key, value in (flags or {}).items()),
    ]
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for entry in entries:
        key = ALIASES.get(entry.key, entry.key)
        try:
            values[key] = _setting(key).read(entry.value)
            origins[key] = entry.origin
        except PenstockError as error:
            problems.append(f"{entry.origin}: {_words(entry, error)}")
    config = _build(values, problems)
    problems += _contradictions(config, origins)
    if problems:
        raise InvalidConfiguration(problems="\n".join(f"  {problem}" for problem in problems))
    return Loaded(config, origins)


def _from_file(text: str, file: str, problems: list[str]) -> Iterator[Entry]:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problems.append(f"{file}: {error}")
        return
    lines = key_lines(text)
    for section, table in tables.items():
        if not isinstance(table, dict):
            problems.append(f"{_location(file, lines, section)}: {section} is in no section; {_sections()}")
            continue
        if section not in SECTIONS and not table:
            problems.append(
                f"{_location(file, lines, section)}: there is no section {section}; {_sections()}"
            )
        for name, value in table.items():
            key = f"{section}.{name}"
            yield Entry(key, value, _location(file, lines, key))


def key_lines(text: str) -> dict[str, int]:
    """The line of each key in a TOML file; keys written in an unusual way are left out."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _TABLE.match(line):
            table = header[1]
            lines.setdefault(table, number)
        elif pair := _PAIR.match(line):
            lines.setdefault(f"{table}.{pair[1]}" if table else pair[1], number)
    return lines


def _location(file: str, lines: Mapping[str, int], key: str) -> str:
    return f"{file}, line {lines[key]}" if key in lines else file


def _from_environment(environ: Mapping[str, str], problems: list[str]) -> Iterator[Entry]:
    for variable, value in sorted(environ.items()):
        if not variable.startswith(PREFIX):
            continue
        name = variable.removeprefix(PREFIX).lower()
        section, marker, rest = name.partition("__")
        if marker:
            yield Entry(f"{section}.{rest}", value, variable)
        elif (section := name.partition("_")[0]) in SECTIONS and section != name:
            meant = f"{PREFIX}{section}__{name.partition('_')[2]}".upper()
            problems.append(f"{variable}: the section is followed by two underscores; did you mean {meant}?")


def _setting(key: str) -> Setting:
    """The setting of that name; the error suggests one if there is none."""
    if key in SETTINGS:
        return SETTINGS[key]
    section, _, name = key.partition(".")
    names = [setting.name for setting in SETTINGS.values() if setting.section == section]
    near = _near(section, name.removesuffix("_ms"), names)
    if near:
        why = f"did you mean {near[0]}?"
    elif names:
        why = f"section {section} has {', '.join(names)}"
    else:
        why = _sections()
    raise InvalidValue(name="settings", value=key, why=why)


def _near(section: str, name: str, names: list[str]) -> list[str]:
    """Settings that may have been meant, the likeliest first."""
    same = [key for key, setting in SETTINGS.items() if setting.name == name]  # In another section.
    similar = [f"{section}.{near}" for near in get_close_matches(name, names)]
    return same + similar if names else same + get_close_matches(f"{section}.{name}", SETTINGS)


def _words(entry: Entry, error: PenstockError) -> str:
    """The problem, in terms of the entry as it was written."""
    if ALIASES.get(entry.key, entry.key) not in SETTINGS:
        return f"there is no setting {entry.key}; {error.facts['why']}"
    if isinstance(error, InvalidValue):
        return f"{entry.key} cannot be {entry.value!r}: {error.why}"
    return f"{entry.key}: {_sentence(error)}"


def _sentence(error: PenstockError) -> str:
    return str(error).removesuffix(f" [{error.code}]")


def _build(values: Mapping[str, Any], problems: list[str]) -> ServerConfig:
    """Build a configuration from values that are each valid on their own."""
    sections: dict[str, Any] = {}
    for section in SECTIONS:
        mine = [key for key in values if SETTINGS[key].section == section]
        try:
            sections[section] = msgspec.structs.replace(
                getattr(ServerConfig(), section), **{SETTINGS[key].field: values[key] for key in mine}
            )
        except PenstockError as error:
            problems.append(f"section {section}: {_sentence(error)}")
    return ServerConfig(**sections)


def _contradictions(config: ServerConfig, origins: Mapping[str, str]) -> Iterator[str]:
    """Problems of values that are valid on their own."""
    taken: dict[tuple[str, int], str] = {}
    for name in config.listen.__struct_fields__:
        endpoint = address(name, getattr(config.listen, name))
        if endpoint is not None and endpoint[1] and taken.setdefault(endpoint, name) != name:
            yield f"listen.{taken[endpoint]} and listen.{name} are the same address; each needs its own"
    if all(getattr(config.listen, name) == OFF for name in config.listen.__struct_fields__):
        yield "every listener is off, so no client could connect; turn one on, such as listen.native"
    yield from _exposed(config, origins)
    yield from _incomplete_cluster(config)
    if bool(config.tls.certificate) != bool(config.tls.key):
        yield "tls.certificate and tls.key belong together: set both, or neither"
    for small, large, why in ORDER:
        if value_of(config, SETTINGS[small]) > value_of(config, SETTINGS[large]):
            yield f"{_named(small, origins)} is larger than {_named(large, origins)}: {why}"
    if (
        config.server.data == MEMORY
        and origins.get("topic.durability")
        and config.topic.durability != "memory"
    ):
        yield f"{_named('topic.durability', origins)} must be 'memory', since server.data is '{MEMORY}'"


def _incomplete_cluster(config: ServerConfig) -> Iterator[str]:
    """A cluster needs a name, a store and a number of the node; one of them alone is a mistake."""
    given = {
        "cluster.name (--cluster NAME)": config.cluster.name,
        "cluster.store (--store URL)": config.cluster.store,
        "cluster.node (--node N)": config.cluster.node,
    }
    missing = [name for name, value in given.items() if not value]
    if 0 < len(missing) < len(given):
        yield f"a node of a cluster needs a name, a store and a number; set {' and '.join(missing)}"
    if not missing and config.server.data == MEMORY:
        yield f"a node of a cluster needs a directory for its cache: server.data must not be '{MEMORY}'"


def _exposed(config: ServerConfig, origins: Mapping[str, str]) -> Iterator[str]:
    """Listeners that other machines can reach without authentication."""
    if config.security.authentication or config.security.insecure:
        return
    for name in config.listen.__struct_fields__:
        endpoint = address(name, getattr(config.listen, name))
        if endpoint is not None and not is_loopback(endpoint[0]):
            yield (
                f"{_named(f'listen.{name}', origins)} can be reached from other machines, and "
                "security.authentication is off, so anyone could use it; turn authentication on, or allow "
                "this with --insecure (security.insecure)"
            )


def _named(key: str, origins: Mapping[str, str]) -> str:
    return f"{key} ({origins.get(key, DEFAULT)})"


def _sections() -> str:
    return f"the sections are {', '.join(SECTIONS)}"
