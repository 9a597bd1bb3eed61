"""The start of a share group in Kafka's terms: earliest, latest, or a duration."""

import re
from datetime import UTC, datetime
from typing import Final

from penstock.config.broker import Start
from penstock.errors import InvalidValue

BY_DURATION: Final = "by_duration:"
_DURATION: Final = re.compile(  # ISO 8601, as far as Kafka's clients write it.
    r"P(?:(?P<days>\d{1,6})D)?(?:T(?:(?P<hours>\d{1,6})H)?(?:(?P<minutes>\d{1,6})M)?(?:(?P<seconds>\d{1,6})S)?)?"
)
_UNITS_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}


def start_of(text: str, now_ms: int) -> Start:
    """The start option for a share group."""
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    found = _DURATION.fullmatch(text.removeprefix(BY_DURATION)) if text.startswith(BY_DURATION) else None
    parts = {unit: number for unit, number in found.groupdict().items() if number} if found else {}
    if not parts:
        why = "use earliest, latest, or by_duration: and an ISO duration, such as by_duration:PT1H"
        raise InvalidValue(name="share.auto.offset.reset", value=text, why=why)
    before_ms = sum(int(number) * _UNITS_MS[unit] for unit, number in parts.items())
    return datetime.fromtimestamp(max(now_ms - before_ms, 0) / 1000, UTC)
