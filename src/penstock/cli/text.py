"""Formats bytes, times and numbers as text for people and as JSON for programs.

Messages may contain terminal control sequences, so ``safe`` escapes control characters, direction marks and
bytes that are not text before anything from a broker is printed on a terminal.  JSON output:

    bytes        ``"value": "text"``, or ``"value_base64": "..."`` if they are not UTF-8
    times        ISO 8601, UTC, to the millisecond: ``"2026-11-15T10:30:00.000Z"``
    durations    milliseconds, in fields that end in ``_ms``

Times are UTC everywhere, whatever the time zone of the terminal.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

# What a terminal acts on (C0, DEL, C1), what changes the direction of text, and halves of characters.
_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSAFE_JSON: Final = re.compile("[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_NAMED: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ENCODER: Final = msgspec.json.Encoder()
_SIZES: Final = ("B", "kB", "MB", "GB", "TB")


def safe(text: str) -> str:
    """The text on one line, with control characters escaped."""
    return _UNSAFE.sub(_escape, text)


def safe_bytes(value: bytes) -> str:
    """Bytes as text: valid UTF-8 as it is, other bytes as ``\\xNN``."""
    return safe(value.decode("utf-8", "backslashreplace"))


def shortened(text: str, width: int) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= width else text[: width - 1] + "…"


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if "\udc80" <= character <= "\udcff":  # A byte that was no text, by way of surrogateescape.
        return f"\\x{ord(character) - 0xDC00:02x}"
    number = ord(character)
    return _NAMED.get(character) or (f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}")


# Times, durations, sizes, counts.


def time_text(time_ms: int) -> str:
    """A time for people: ``2026-11-15 10:30:00``."""
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def time_iso(time_ms: int) -> str:
    """A time for programs: ``2026-11-15T10:30:00.000Z``."""
    return f"{_second(time_ms // 1000)}.{time_ms % 1000:03d}Z"


@lru_cache(maxsize=8)  # Messages that are printed together are often of the same second.
def _second(time_s: int) -> str:
    return f"{datetime.fromtimestamp(time_s, UTC):%Y-%m-%dT%H:%M:%S}"


def rounded_duration(duration_ms: float) -> str:
    """A duration with the unit that suits it: ``0.4 ms``, ``31.2 s``, ``5 min``, ``3.4 h``, ``12 d``."""
    if duration_ms < 1000:
        places = 0 if duration_ms >= 10 or duration_ms == 0 else 1 if duration_ms >= 0.1 else 2
        return f"{duration_ms:.{places}f} ms"
    seconds = duration_ms / 1000
    for unit, size, limit in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < limit:
            return f"{seconds / size:.1f}".removesuffix(".0") + f" {unit}"
    return f"{seconds / 86_400:.1f}".removesuffix(".0") + " d"


def rounded_size(size_bytes: float) -> str:
    """A size with its unit: ``999 B``, ``1.5 MB``."""
    for unit in _SIZES:
        if size_bytes < 1000 or unit == _SIZES[-1]:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    raise AssertionError("the last unit has no limit")


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


# Documents.


def json_lines(documents: Iterable[object]) -> str:
    """Documents, each on a line of its own, safe on a terminal too."""
    found = list(documents)
    try:
        text = _ENCODER.encode_lines(found).decode()
    except UnicodeEncodeError:  # Bytes that were no text, by way of surrogateescape: rare, and slower.
        text = "".join(json.dumps(document, separators=(",", ":")) + "\n" for document in found)
    return _UNSAFE_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def bytes_field(name: str, value: bytes | None) -> dict[str, str | None]:
    """Bytes as a field of a document: as text if they are UTF-8, otherwise in base64."""
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def document_of(value: Any, times: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A struct as a document; ``times`` are fields of milliseconds since 1970 and their names as times."""
    fields: dict[str, Any] = {}
    for name in value.__struct_fields__:
        field = getattr(value, name)
        if times and name in times:
            fields[times[name]] = time_iso(field)
        elif isinstance(field, bytes):
            fields |= bytes_field(name, field)
        else:
            fields[name] = msgspec.to_builtins(field)
    return fields
