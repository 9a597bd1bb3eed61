"""Loads the configuration of a server from file, environment and flags, and reports all problems at once.

    penstock.toml                 <   PENSTOCK_TOPIC__RETENTION=7d   <   --native 127.0.0.1:0
    [topic]
    retention = "14d"

A file may also be YAML or JSON (``files.py``), and GoQueue's names of settings and GoMQ's environment
variables are read as ours (``foreign.py``); GOMQ_... comes before PENSTOCK_....

This module does no I/O: it takes the text, the environment and the flags as arguments, and returns a
validated ``ServerConfig`` with the origin of every value that is not a default.  A value that a later source
overrides is validated too.

Every entry is parsed separately and its problems are collected with their origin (file and line, variable,
flag); then ``InvalidConfiguration`` is raised with all of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from penstock.config.files import UnreadableError, read
from penstock.config.foreign import GOMQ, NAMES, translated
from penstock.config.server import EVERY_HOST, LOCALHOST, MEMORY, OFF, ServerConfig, address, is_loopback
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


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One value from one source."""

    key: str  # Section and name, as written.
    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration and the origins of its values."""

    config: ServerConfig
    origins: Mapping[str, str]  # By key; a key that is not here has its default.
    notes: Sequence[tuple[str, str, str]] = ()  # Name, origin and reason of what has no effect.

    def rows(self) -> list[tuple[str, str, str]]:
        """Key, value and origin of every setting, as one would write them."""
        return [
            (key, setting.show(value_of(self.config, setting)), self.origins.get(key, DEFAULT))
            for key, setting in SETTINGS.items()
        ]

    def unused(self) -> list[tuple[str, str, str]]:
        """Name, reason and origin of settings of another system that were given and have no effect."""
        return [(name, f"no effect: {why}", origin) for name, origin, why in self.notes]


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
        *(ConfigEntry(key, value, SETTINGS[key].flag) for key, value in (flags or {}).items()),
    ]
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    notes: list[tuple[str, str, str]] = []
    for entry in entries:
        try:
            key, value, note = _ours(entry)
            if note:
                notes.append((entry.key, entry.origin, note))
                continue
            values[key] = _setting(key).read(value)
            origins[key] = entry.origin
        except PenstockError as error:
            problems.append(f"{entry.origin}: {_words(entry, error)}")
    config = _with_hosts(_build(values, problems))
    problems += _contradictions(config, origins)
    if problems:
        raise InvalidConfiguration(problems="\n".join(f"  {problem}" for problem in problems))
    return Loaded(config, origins, notes)


def _ours(entry: ConfigEntry) -> tuple[str, Any, str]:
    """Key and value of one of our settings, or why the entry has no effect."""
    found = translated(entry.key, entry.value)
    if found is None:
        return ALIASES.get(entry.key, entry.key), entry.value, ""
    if found.key and found.key not in SETTINGS:
        return "", None, f"this version has no setting {found.key}"
    return found.key, found.value, found.note


def _with_hosts(config: ServerConfig) -> ServerConfig:
    """With ":8080" every interface is meant; without authentication it is only this machine."""
    open_to_all = config.security.authentication or config.security.insecure
    host = EVERY_HOST if open_to_all else LOCALHOST
    listen = msgspec.structs.asdict(config.listen)
    ports = {name: f"{host}{port}" for name, port in listen.items() if port.startswith(":")}
    return msgspec.structs.replace(config, listen=msgspec.structs.replace(config.listen, **ports))


def _from_file(text: str, file: str, problems: list[str]) -> Iterator[ConfigEntry]:
    try:
        written = read(text, file)
    except UnreadableError as error:
        problems.append(f"{file}: {error}")
        return
    for each in written:
        origin = file if each.line is None else f"{file}, line {each.line}"
        if "." not in each.key and each.empty and each.key not in SECTIONS:
            problems.append(f"{origin}: there is no section {each.key}; {_sections()}")
        elif "." not in each.key and not each.empty:
            problems.append(f"{origin}: {each.key} is in no section; {_sections()}")
        elif not each.empty:
            yield ConfigEntry(each.key, each.value, origin)


def _from_environment(environ: Mapping[str, str], problems: list[str]) -> Iterator[ConfigEntry]:
    for variable, value in sorted(environ.items()):
        if variable in NAMES:
            yield ConfigEntry(variable, value, variable)
        elif variable.startswith(GOMQ):
            known = ", ".join(name for name in NAMES if name.startswith(GOMQ))
            problems.append(f"{variable}: GoMQ has no such variable; it has {known}")
        if not variable.startswith(PREFIX):
            continue
        name = variable.removeprefix(PREFIX).lower()
        section, marker, rest = name.partition("__")
        if marker:
            yield ConfigEntry(f"{section}.{rest}", value, variable)
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


def _words(entry: ConfigEntry, error: PenstockError) -> str:
    """The problem, in terms of the entry as it was written."""
    if entry.key not in NAMES and ALIASES.get(entry.key, entry.key) not in SETTINGS:
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
