"""Converts values of a query's result to JSON and to text.

Bytes are text, and ``\\xNN`` where they are not UTF-8; times are ISO 8601 with a ``Z``, or without if they
have no time zone.
"""

import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any


def json_value(value: Any) -> Any:
    """A value for JSON."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, date | timedelta | Decimal):
        return str(value)
    if isinstance(value, list):
        return [json_value(each) for each in value]
    if isinstance(value, dict):
        return {str(name): json_value(each) for name, each in value.items()}
    return value


def text_value(value: Any) -> str:
    """Any value as text."""
    if isinstance(value, list | dict):
        return json.dumps(json_value(value), ensure_ascii=False)
    plain = json_value(value)
    return str(plain).lower() if isinstance(value, bool) else str(plain)


def time_text(value: datetime) -> str:
    """To the millisecond, or to the microsecond if it has some; a Z, unless it has no time zone."""
    exact = value.microsecond % 1000 != 0
    text = value.replace(tzinfo=None).isoformat(timespec="microseconds" if exact else "milliseconds")
    return text if value.tzinfo is None else f"{text}Z"
