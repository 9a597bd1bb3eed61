"""Small values that all layers share: durations, names, lanes.

    duration     ``timedelta``, seconds, or text such as ``250ms``, ``30s``, ``5m``, ``2h``, ``7d``, ``1h30m``
    instant      ``datetime`` with a time zone, seconds since 1970, or RFC 3339 text
    size         a number of bytes, or text such as ``64MiB`` or ``1.5GB``
    name         of a topic, group or consumer; safe as a file name, because topics are folders
    lane         a priority class: critical 2, high 1, normal 0, low -1, background -2

All of them are parsed here and nowhere else, and inside the package a
duration or an instant is always an ``int`` of milliseconds (``_ms``).
"""

import math
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.errors import (
    InvalidName,
    InvalidValue,
    MessageExpired,
    RequestError,
    TopicNotFound,
    UnknownPriority,
)

if TYPE_CHECKING:
    from mypy_extensions import i32 as i32
    from mypy_extensions import i64 as i64
    from mypy_extensions import mypyc_attr as mypyc_attr
    from mypy_extensions import u8 as u8
else:
    i32 = i64 = u8 = int  # Compiled, a machine word or a byte.

    def mypyc_attr(**_: Any) -> Any:
        """The attributes that mypyc reads of a class; at run time without effect and without the package.

        ``acyclic=True``: its objects are never part of a cycle, so the garbage collector need not
        look at them.  A hundred messages are a hundred objects less to look at, again and again.
        """
        return lambda described: described


Duration = timedelta | float | int | str
Instant = datetime | float | int | str
Priority = str | int


class Unchecked(Protocol):
    """In a union of types: the callee checks the argument itself.

    A compiled function checks its arguments against their annotations and
    raises a TypeError that names no argument.  Nothing is of this type, so for
    a type checker the union is as if it were not there; compiled, the argument
    is any object, and is refused where the interpreted one is, in our words.
    """

    def nothing_is_unchecked(self) -> None: ...


NAME_LENGTH_MAX: Final = 200  # With ".dlq" and a suffix it stays under the 255 bytes of a file name.
DURATION_MS_MAX: Final = 1000 * 365 * 24 * 3600 * 1000  # A thousand years: beyond it, a mistake.
INSTANT_S_MAX: Final = 1e304  # Beyond it, its milliseconds are infinite.
EXTENSION_MS_MAX: Final = 12 * 3600 * 1000  # As long as a visibility timeout may be.

LANES: Final[dict[str, int]] = {"critical": 2, "high": 1, "normal": 0, "low": -1, "background": -2}
LANE_NAMES: Final[dict[int, str]] = {number: name for name, number in LANES.items()}
LANE_LOWEST: Final = -2
LANE_HIGHEST: Final = 2
NORMAL: Final = 0

# The broker's own: they can be read like any other, and `topics()` does not list them.
INTERNAL_TOPICS: Final = frozenset({"__batches", "__gaps", "__pipelines", "__snapshots", "__staging"})
TRANSACTIONS: Final = "__transactions"  # A cluster's transaction log: no operation of a client reaches it.

_NAME: Final = re.compile(r"(?!\.|__)[A-Za-z0-9._-]+\Z")
_UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PIECE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)")
_UNIT_BYTES: Final = {
    "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
}  # fmt: skip
_PASSWORD: Final = re.compile(r"\A((?:[\w+.-]+://)?[^:@/]*):.*@", re.DOTALL)
_SECRET_OPTION: Final = re.compile(
    r"([?&][^=&]*(?:password|secret|key|token|signature|sas)[^=&]*=)[^&]*", re.IGNORECASE
)
_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([KMGT]i?B|B)")


def extension_ms(duration: Duration) -> int:
    """How long from now a lease is kept, in milliseconds."""
    wanted_ms = duration_ms("duration", duration)
    if not 1 <= wanted_ms <= EXTENSION_MS_MAX:
        why = "it must be above 0 and at most 12 hours"
        raise InvalidValue(name="duration", value=duration, why=why)
    return wanted_ms


def duration_ms(name: str, value: Duration) -> int:
    """A duration in milliseconds; ``name`` is the argument's, for the error."""
    number = signed_duration_ms(name, value)
    if not 0 <= number <= DURATION_MS_MAX:
        raise InvalidValue(name=name, value=value, why="a duration is not negative and at most 1,000 years")
    return round(number)


def signed_duration_ms(name: str, value: Duration) -> float:
    """A duration of any size and sign, for a caller with limits of its own."""
    match value:
        case timedelta():
            number = value / timedelta(milliseconds=1)
        case bool():
            number = math.nan
        case int() | float():
            # What is too large for a float on the way is infinite; what is no number stays none.
            number = math.copysign(math.inf, value) if abs(value) > DURATION_MS_MAX else value * 1000.0
        case str():
            number = _duration_text_ms(name, value)
        case _:
            number = math.nan
    if math.isnan(number):
        raise InvalidValue(
            name=name, value=value, why="a duration is a timedelta, seconds or text like '30s'"
        )
    return number


def _duration_text_ms(name: str, text: str) -> float:
    compact = text.strip().replace(" ", "")
    pieces = _PIECE.findall(compact)
    if not pieces or "".join(number + unit for number, unit in pieces) != compact:
        raise InvalidValue(
            name=name, value=text, why="write it like '250ms', '30s', '5m', '2h', '7d' or '1h30m'"
        )
    return sum(float(number) * _UNIT_MS[unit] for number, unit in pieces)


def ttl_ms(value: Duration) -> int:
    """A time to live, which must be above 0."""
    if signed_duration_ms("ttl", value) <= 0:
        raise MessageExpired(name="ttl", value=value, why="it must be above 0")
    return duration_ms("ttl", value)


def duration_text(number: int) -> str:
    """Milliseconds as one would write them, exactly: ``7d``, ``90s``, ``250ms``."""
    for unit in ("d", "h", "m", "s"):
        if number and number % _UNIT_MS[unit] == 0:
            return f"{number // _UNIT_MS[unit]}{unit}"
    return f"{number}ms"


def size_bytes(name: str, value: int | str) -> int:
    """A size in bytes; ``name`` is the argument's, for the error."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise InvalidValue(
            name=name, value=value, why="a size is a number of bytes or text like '64KiB', '1MiB' or '10GiB'"
        )
    return round(float(match[1]) * _UNIT_BYTES[match[2]])


def size_text(number: int) -> str:
    """Bytes as one would write them, exactly: ``64MiB``, ``1000``."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if number and number % _UNIT_BYTES[unit] == 0:
            return f"{number // _UNIT_BYTES[unit]}{unit}"
    return str(number)


def shown_url(url: str) -> str:
    """A URL for people and logs: without its password, and without options that may be secrets.

    Wrong ones are shown, too, so it is not parsed as a valid one.
    """
    return _SECRET_OPTION.sub(r"\1***", _PASSWORD.sub(r"\1:***@", url))


def instant_ms(name: str, value: Instant) -> int:
    """A point in time in milliseconds since 1970."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidValue(name=name, value=value, why="write it like '2026-11-14T15:00:00Z'") from None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidValue(
                name=name, value=value, why="a time needs a time zone, such as datetime.now(UTC)"
            )
        return round(value.timestamp() * 1000)
    known = not isinstance(value, bool) and isinstance(value, int | float)
    if not known or not abs(value) <= INSTANT_S_MAX:  # What is no number is not smaller, either.
        raise InvalidValue(
            name=name, value=value, why="a time is a datetime, seconds since 1970 or RFC 3339 text"
        )
    return round(value * 1000)


def whole_number(name: str, value: int, low: int, high: int | None = None) -> int:
    """Return ``value`` if it is a whole number within its limits; ``name`` is the argument's."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if whole and low <= value and (high is None or value <= high):
        return value
    limit = f"at least {low}" if high is None else f"from {low} to {high}"
    raise InvalidValue(name=name, value=value, why=f"it is a whole number, {limit}")


def missing_topic(name: Any) -> RequestError:
    """The error for a missing topic, or for a value that is not a topic name."""
    if isinstance(name, str):
        return TopicNotFound(topic=name)
    return InvalidName(
        kind="topic",
        name=repr(name),
        why="it is not text; give the name of one topic, or use consumer_of_topics",
    )


def check_name(kind: str, name: str) -> str:
    """Return ``name`` if it may name a topic, group or consumer (``kind``)."""
    if not isinstance(name, str):
        raise InvalidName(kind=kind, name=repr(name), why="it is not text")
    if not name:
        raise InvalidName(kind=kind, name=name, why="it is empty")
    if len(name) > NAME_LENGTH_MAX:
        raise InvalidName(kind=kind, name=name[:20] + "...", why=f"it has {len(name)} characters")
    if not _NAME.match(name) and not (kind == "topic" and name in INTERNAL_TOPICS):
        raise InvalidName(
            kind=kind, name=name, why="it has a character or a beginning that names may not have"
        )
    return name


def lane_number(priority: Priority) -> int:
    """The lane of a priority, given by name or number; numbers above 2 are critical, below -2 background."""
    if isinstance(priority, str) and priority in LANES:
        return LANES[priority]
    if isinstance(priority, int) and not isinstance(priority, bool):
        return max(LANE_LOWEST, min(LANE_HIGHEST, priority))
    known = ", ".join(f"{name} ({number})" for name, number in LANES.items())
    raise UnknownPriority(priority=priority, known=known)


def check_fetch(partition: int, offset: int, max_bytes: int) -> None:
    """Refuse numbers that no fetch can have; the log checks whether there is such an offset."""
    whole_number("partition", partition, 0, 2**31 - 1)
    whole_number("offset", offset, 0, 2**63 - 1)
    whole_number("max_bytes", max_bytes, 1)
