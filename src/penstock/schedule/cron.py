"""Recurring times: a cron expression and a time zone give the next occurrence.

The expression is parsed by the ``cronsim`` library: five fields (minute, hour,
day of month, month, day of week), or six with seconds first.  This module decides what
happens at daylight-saving changes:

    times of day     neither the minute nor the hour field begins with ``*`` (``30 2 * * *``): follow the
                     wall clock.  A time that exists twice occurs once, the first time; a time that does
                     not exist occurs once, at the first minute that does.
    intervals        all others (``*/15 * * * *``, ``0 * * * *``): follow elapsed time.  They continue
                     through the repeated hour, and nothing is made up for in the skipped one.

cronsim has the same rule, but for five fields only, and may return the first of two
equal wall times while the second one is passing; an occurrence here is always later
than the given time.

Cost: a few hundred microseconds; ten milliseconds for an expression that never
occurs, because cronsim gives up after 50 years.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from penstock.errors import InvalidValue

EXPRESSION_LENGTH_MAX: Final = 256  # Longer than any that lists each of 60 minutes; bounds the parser's work.
ZONE_LENGTH_MAX: Final = 64  # The longest name in the time zone database has 32 characters.


def next_ms(expression: str, timezone: str, after_ms: int) -> int:
    """The first occurrence after ``after_ms``; InvalidValue for what is no expression or no zone."""
    zone = _zone(timezone)
    # Occurrences are whole seconds, so the second that has begun says all.
    after = datetime.fromtimestamp(after_ms // 1000, zone)
    for moment in _moments(expression, after):
        moment_ms = round(moment.timestamp()) * 1000
        if moment_ms > after_ms:
            return moment_ms
    raise InvalidValue(name="cron", value=expression, why="it names a time that does not come")


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo  # Only when there is a schedule: it takes half a megabyte.

    try:
        if not isinstance(name, str) or len(name) > ZONE_LENGTH_MAX:
            raise ValueError(name)
        return ZoneInfo(name)
    except (ValueError, KeyError, OSError):  # By the shape of the name: a path trick, unknown, a directory.
        why = "use a name of the time zone database, such as 'Europe/Berlin' or 'UTC'"
        raise InvalidValue(name="timezone", value=name, why=why) from None


def _moments(expression: str, after: datetime) -> Iterator[datetime]:
    """The occurrences from about ``after`` on, with their zone."""
    from cronsim import CronSim, CronSimError

    zone = after.tzinfo
    assert zone is not None, "a zone was given"
    try:
        if not isinstance(expression, str) or len(expression) > EXPRESSION_LENGTH_MAX:
            raise CronSimError
        times_of_day = not any(field.startswith("*") for field in expression.split()[-5:-3])
        if times_of_day:
            return (_existing(wall, zone) for wall in CronSim(expression, after.replace(tzinfo=None)))
        return CronSim(expression, after)
    except (CronSimError, AssertionError):  # It asserts on some forms, such as 'FRI#2/3'.
        why = (
            "use five fields such as '30 2 * * 1-5' (minute, hour, day, month, weekday), or seconds and five"
        )
        raise InvalidValue(name="cron", value=expression, why=why) from None


def _existing(wall: datetime, zone: tzinfo) -> datetime:
    """A wall time in its zone: the first of two, and the next that exists if it does not."""
    moment = wall.replace(tzinfo=zone, fold=0)
    while moment.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != wall:
        wall = wall.replace(second=0) + timedelta(minutes=1)
        moment = wall.replace(tzinfo=zone, fold=0)
    return moment
