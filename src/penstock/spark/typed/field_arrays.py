"""Converts Python values to an Arrow array: in bulk, or one by one where a representation differs.

The libraries give dates, times, decimals and UUIDs as objects, JSON gives them as text.  In a column of
text, other values are written as JSON.  A value that does not fit raises one of ``UNFIT``.
"""

import datetime
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import msgspec
import pyarrow as pa

UNFIT: Final = (pa.ArrowException, ValueError, TypeError, OverflowError, ArithmeticError, AttributeError)
_MIDNIGHT: Final = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - only differences are taken.


def field_array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """The values as an array."""
    try:
        if pa.types.is_timestamp(kind) and any(isinstance(each, str) for each in values):
            return pa.array(values, pa.string()).cast(kind)
        return pa.array(values, kind)
    except UNFIT:
        return pa.array([_fitted(each, kind) for each in values], kind)


def _fitted(value: Any, kind: pa.DataType) -> Any:
    """A value in the form that Arrow accepts for a type."""
    if value is None:
        return None
    for matches, fit in _FITS:
        if matches(kind):
            return fit(value, kind)
    return value


def _text(value: Any, _: pa.DataType) -> str:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, UUID) else msgspec.json.encode(value).decode()


def _instant(value: Any, kind: pa.DataType) -> Any:
    if not isinstance(value, str):
        return value
    at = datetime.datetime.fromisoformat(value)
    return at if at.tzinfo or not kind.tz else at.replace(tzinfo=datetime.UTC)


def _day(value: Any, _: pa.DataType) -> Any:
    return datetime.date.fromisoformat(value) if isinstance(value, str) else value


def _whole(value: Any, kind: pa.DataType) -> Any:
    """Times of the day, which Spark does not have, as the number that Avro stores."""
    if not isinstance(value, datetime.time):
        return value
    since = datetime.datetime.combine(_MIDNIGHT, value) - _MIDNIGHT
    return since // datetime.timedelta(milliseconds=1 if kind.bit_width == 32 else 0.001)


def _struct(value: Any, kind: pa.DataType) -> dict[str, Any]:
    return {each.name: _fitted(value.get(each.name), each.type) for each in kind}


def _list(value: Any, kind: pa.DataType) -> list[Any]:
    return [_fitted(each, kind.value_type) for each in value]


def _map(value: Any, kind: pa.DataType) -> list[tuple[str, Any]]:
    return [(name, _fitted(each, kind.item_type)) for name, each in value.items()]


_FITS: Final[list[tuple[Callable[[pa.DataType], bool], Callable[[Any, pa.DataType], Any]]]] = [
    (pa.types.is_string, _text),
    (pa.types.is_timestamp, _instant),
    (pa.types.is_date, _day),
    (pa.types.is_integer, _whole),
    (pa.types.is_struct, _struct),
    (pa.types.is_map, _map),
    (pa.types.is_list, _list),
]
