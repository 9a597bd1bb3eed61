"""Recurring times, and what they do when clocks are changed."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from penstock.errors import InvalidValue
from penstock.schedule.cron import next_ms

BERLIN = "Europe/Berlin"  # 2026: 29 March 2:00 becomes 3:00, 25 October 3:00 becomes 2:00.


def at_ms(text: str, zone: str = BERLIN, *, again: bool = False) -> int:
    moment = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=again)
    return round(moment.timestamp() * 1000)


def utc_text(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%m-%d %H:%M:%S")


def next_texts(expression: str, after_ms: int, count: int, zone: str = BERLIN) -> list[str]:
    texts = []
    for _ in range(count):
        after_ms = next_ms(expression, zone, after_ms)
        texts.append(utc_text(after_ms))
    return texts


def test_the_next_occurrence_is_in_the_zone_that_was_given() -> None:
    assert next_ms("0 9 * * *", BERLIN, at_ms("2026-07-01T08:00")) == at_ms("2026-07-01T07:00", "UTC")


def test_an_occurrence_is_strictly_later() -> None:
    noon_ms = at_ms("2026-07-01T12:00", "UTC")

    assert next_ms("0 12 * * *", "UTC", noon_ms) == noon_ms + 24 * 3600 * 1000
    assert next_ms("0 12 * * *", "UTC", noon_ms - 1) == noon_ms
    assert next_ms("* * * * * *", "UTC", noon_ms + 1) == noon_ms + 1000


@pytest.mark.parametrize("expression", ["30 2 * * *", "0 30 2 * * *", "30 1-2/5,2 * * *"])
def test_a_time_that_does_not_exist_comes_once(expression: str) -> None:
    assert next_ms(expression, BERLIN, at_ms("2026-03-29T01:45")) == at_ms("2026-03-29T03:00")
    assert next_ms(expression, BERLIN, at_ms("2026-03-29T03:00")) > at_ms("2026-03-30T00:00")


@pytest.mark.parametrize("expression", ["30 2 * * *", "0 30 2 * * *"])
def test_a_time_that_exists_twice_comes_once(expression: str) -> None:
    first_ms = at_ms("2026-10-25T02:30")

    assert next_ms(expression, BERLIN, at_ms("2026-10-25T01:00")) == first_ms
    assert next_ms(expression, BERLIN, first_ms) == at_ms("2026-10-26T02:30")


def test_in_the_repeated_hour_the_next_time_of_day_is_tomorrows() -> None:
    """The first 2:30 has passed; naming it again would fire at once, and for ever."""
    second_quarter_past_two_ms = at_ms("2026-10-25T02:15", again=True)

    assert next_ms("30 2 * * *", BERLIN, second_quarter_past_two_ms) == at_ms("2026-10-26T02:30")


def test_an_interval_goes_on_through_the_repeated_hour() -> None:
    texts = next_texts("*/30 * * * *", at_ms("2026-10-25T01:30"), 5)

    assert texts == ["10-25 00:00:00", "10-25 00:30:00", "10-25 01:00:00", "10-25 01:30:00", "10-25 02:00:00"]


def test_an_interval_goes_on_through_the_skipped_hour() -> None:
    texts = next_texts("0 * * * *", at_ms("2026-03-29T00:30"), 3)

    assert texts == ["03-29 00:00:00", "03-29 01:00:00", "03-29 02:00:00"]


def test_six_fields_begin_with_seconds() -> None:
    assert next_texts("15,45 * * * * *", at_ms("2026-07-01T00:00", "UTC"), 3, "UTC") == [
        "07-01 00:00:15",
        "07-01 00:00:45",
        "07-01 00:01:15",
    ]


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "   ",
        "* * * *",
        "61 * * * *",
        "* * * * FRI#2/3",
        "a b c d e",
        "* * 31 2 *",
        "1," * 200 + "1 * * * *",
    ],
)
def test_what_is_no_expression_is_refused(expression: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        next_ms(expression, "UTC", 0)

    assert caught.value.facts["name"] == "cron"


def test_a_time_that_never_comes_is_refused() -> None:
    with pytest.raises(InvalidValue, match="does not come"):
        next_ms("0 0 */30 2 MON#5", "UTC", 0)


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "../etc/passwd", "Europe", "/etc", "A" * 500, "\0"])
def test_what_is_no_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        next_ms("* * * * *", zone, 0)

    assert caught.value.facts["name"] == "timezone"
