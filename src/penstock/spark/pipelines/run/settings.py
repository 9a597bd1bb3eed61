"""The settings of a run: a TOML file and ``--set``, validated together.

    # totals.toml              penstock pipeline run transform --config totals.toml --set lake=/mnt/lake
    name = "totals"
    source = "orders"
    sql = "select key, count(*) from orders group by key"

    [spark]
    "spark.executor.memory" = "2g"

``RunSettings`` has the names common to all pipelines; the others are fields of the
pipeline's ``Settings``.  A field that ends in ``_ms`` is written without the suffix and
takes a duration, one with ``bytes`` in its name a size, a ``datetime`` a time or an age,
a list also comma-separated text.  No I/O.
"""

import tomllib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from types import UnionType
from typing import Any, Final, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec

from penstock.errors import InvalidConfiguration, InvalidValue, PenstockError
from penstock.types import check_name, duration_ms, instant_ms, size_bytes

LISTS: Final = (list, tuple)
UNIONS: Final = (Union, UnionType)  # Such as "int | None".
FLAG: Final = "--set"
LOGIN: Final = "login"  # A setting that is not shown.

Kind = TypeVar("Kind", bound=msgspec.Struct)


class RunLogin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Credentials; default: environment variable PENSTOCK_KEY."""

    key: str = ""
    user: str = ""
    password: str = ""

    @property
    def options(self) -> dict[str, str]:
        return {name: text for name, text in msgspec.structs.asdict(self).items() if text}

    def __repr__(self) -> str:
        return "Login(...)"


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings common to all pipelines."""

    # What the run is called in `list`, `status` and `stop`, and in the names of what it keeps; empty: like
    # its pipeline.
    name: str = ""
    # Where Spark runs: local[*], spark://..., yarn, k8s://..., sc://...
    master: str = "local[*]"
    # Where the lake is; empty: where the broker says.
    lake: str = ""
    # Credentials: a key, or a user and a password. They are passed to the executors.
    login: RunLogin = RunLogin()
    # Spark's own page, on port 4040.
    ui: bool = False
    # Settings of Spark.
    spark: dict[str, str] = {}

    def __post_init__(self) -> None:
        if self.name:
            check_name("pipeline", self.name)


class SettingEntry(NamedTuple):
    """A setting and where it was written."""

    name: str
    value: Any
    origin: str


def load(
    kind: type[Kind], *, text: str = "", file: str = "", given: Mapping[str, str], now_ms: int
) -> tuple[RunSettings, Kind]:
    """Read ``text`` (of ``file``), then ``given`` (by name); raises ``InvalidConfiguration``."""
    problems: list[str] = []
    entries = [*_from_file(text, file), *(SettingEntry(name, text, FLAG) for name, text in given.items())]
    common = {_written(field.name) for field in msgspec.structs.fields(RunSettings)}
    mine = [entry for entry in entries if entry.name not in common]
    run = _build(RunSettings, [entry for entry in entries if entry.name in common], problems, now_ms)
    settings = _build(kind, mine, problems, now_ms)
    if run is None or settings is None:
        raise InvalidConfiguration(problems="\n".join(f"  {problem}" for problem in problems))
    return run, settings


def _from_file(text: str, file: str) -> Iterator[SettingEntry]:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidConfiguration(problems=f"  {file}: {error}") from None
    for name, value in table.items():
        yield SettingEntry(name, value, file)


def _value(text: str) -> Any:
    """Text from a command line: a value of TOML if it is one."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _build(kind: type[Kind], entries: list[SettingEntry], problems: list[str], now_ms: int) -> Kind | None:
    """Build settings from entries; None, with problems appended, if any is invalid."""
    before = len(problems)
    fields = {_written(field.name): field for field in msgspec.structs.fields(kind)}
    values: dict[str, Any] = {}
    for name, value, origin in entries:
        if name not in fields:
            problems.append(f"{origin}: unknown setting {name}; {_instead(name, list(fields))}")
            continue
        try:
            values[fields[name].name] = _read(fields[name], name, value, origin == FLAG, now_ms)
        except InvalidValue as error:
            shown = "what it is" if name == LOGIN else repr(value)
            problems.append(f"{origin}: {name} cannot be {shown}: {error.why}")
    written = {entry.name for entry in entries}
    missing = [name for name, field in fields.items() if field.required and name not in written]
    problems += [f"{name} is missing; set it in the file or with --set {name}=..." for name in missing]
    return _made(kind, values, problems) if len(problems) == before else None


def _made(kind: type[Kind], values: dict[str, Any], problems: list[str]) -> Kind | None:
    try:
        return kind(**values)
    except PenstockError as error:  # What is wrong only together.
        problems.append(str(error).removesuffix(f" [{error.code}]"))
        return None


def _written(field: str) -> str:
    """The name of a field as it is written in files."""
    return field.removesuffix("_ms")


def _instead(name: str, names: list[str]) -> str:
    near = get_close_matches(name, names)
    return f"did you mean {near[0]}?" if near else f"the settings are {', '.join(names)}"


def _read(field: msgspec.structs.FieldInfo, name: str, value: Any, is_flag: bool, now_ms: int) -> Any:
    kinds = get_args(field.type) if get_origin(field.type) in UNIONS else (field.type,)
    if is_flag and str not in kinds:
        value = _value(value)
    if field.name.endswith("_ms"):
        return duration_ms(name, value)
    if "bytes" in field.name:
        return size_bytes(name, value)
    if datetime in kinds:
        return _time(name, value, now_ms)
    if isinstance(value, str) and any(get_origin(kind) in LISTS for kind in kinds):
        value = [part.strip() for part in value.split(",")]
    try:
        return msgspec.convert(value, field.type, strict=False)
    except msgspec.ValidationError as error:
        why = str(error).partition(" - at")[0].replace("`", "")
        raise InvalidValue(name=name, value=value, why=why[:1].lower() + why[1:]) from None


def _time(name: str, value: Any, now_ms: int) -> datetime:
    """A time; without a time zone it is UTC; a duration is so long ago."""
    if isinstance(value, str):
        try:
            return datetime.fromtimestamp((now_ms - duration_ms(name, value)) / 1000, UTC)
        except InvalidValue:
            pass
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            why = "write a time as 2026-11-15T10:30:00Z, or an age such as 1h"
            raise InvalidValue(name=name, value=value, why=why) from None
    if isinstance(value, datetime) and value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return datetime.fromtimestamp(instant_ms(name, value) / 1000, UTC)
