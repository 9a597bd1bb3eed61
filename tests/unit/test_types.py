"""Durations, instants, names and lanes: what is read, and what is refused with which words."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidName, InvalidValue, UnknownPriority
from penstock.types import (
    DURATION_MS_MAX,
    LANE_NAMES,
    LANES,
    NAME_LENGTH_MAX,
    NORMAL,
    check_name,
    duration_ms,
    duration_text,
    instant_ms,
    lane_number,
    size_bytes,
    size_text,
)

NOON = datetime(2026, 11, 14, 12, 0, tzinfo=UTC)
NOON_MS = 1_794_657_600_000
NO_DURATION_TEXTS = ["", "soon", "5", "5 parsecs", "-5s", "s5", "5s!", "1h-30m"]
UNSAFE_NAMES = ["", ".", "..", ".hidden", "__internal", "a/b", "../a", "a\\b", "a b", "a\n", "a\0", "ä"]


@pytest.mark.parametrize(
    ("value", "expected_ms"),
    [
        ("250ms", 250),
        ("30s", 30_000),
        ("5m", 300_000),
        ("2h", 7_200_000),
        ("7d", 604_800_000),
        ("1w", 604_800_000),
        ("1h30m", 5_400_000),
        (" 1h 30m ", 5_400_000),
        ("1.5s", 1_500),
        (0, 0),
        (2, 2_000),
        (0.25, 250),
        (timedelta(minutes=1), 60_000),
        (timedelta(microseconds=1_600), 2),
    ],
)
def test_a_duration_is_read_as_milliseconds(value: Any, expected_ms: int) -> None:
    assert duration_ms("delay", value) == expected_ms


def test_the_longest_duration_is_a_thousand_years() -> None:
    assert duration_ms("delay", timedelta(milliseconds=DURATION_MS_MAX)) == DURATION_MS_MAX

    with pytest.raises(InvalidValue, match=r"1,000 years"):
        duration_ms("delay", timedelta(milliseconds=DURATION_MS_MAX + 1))


@pytest.mark.parametrize(
    "value",
    [*NO_DURATION_TEXTS, -1, -0.001, float("nan"), float("inf"), True, None, b"5s"],
)
def test_a_duration_that_makes_no_sense_is_refused_by_name(value: Any) -> None:
    with pytest.raises(InvalidValue) as refusal:
        duration_ms("visibility_timeout", value)

    assert refusal.value.facts["name"] == "visibility_timeout"
    assert refusal.value.facts["value"] is value


@pytest.mark.parametrize(
    "value",
    [
        NOON,
        NOON.astimezone(timezone(timedelta(hours=5, minutes=30))),
        NOON_MS // 1000,
        NOON_MS / 1000,
        "2026-11-14T12:00:00Z",
        "2026-11-14T13:00:00+01:00",
    ],
)
def test_an_instant_is_read_as_milliseconds_since_1970(value: Any) -> None:
    assert instant_ms("deliver_at", value) == NOON_MS


def test_an_instant_keeps_its_milliseconds() -> None:
    assert instant_ms("deliver_at", NOON + timedelta(milliseconds=1)) == NOON_MS + 1


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (NOON.replace(tzinfo=None), "time zone"),
        ("2026-11-14T12:00:00", "time zone"),
        ("tomorrow", "write it like"),
        (float("nan"), "seconds since 1970"),
        (True, "seconds since 1970"),
        (None, "seconds since 1970"),
    ],
)
def test_an_instant_that_makes_no_sense_is_refused_with_advice(value: Any, advice: str) -> None:
    with pytest.raises(InvalidValue, match=advice):
        instant_ms("deliver_at", value)


@pytest.mark.parametrize(
    "name", ["a", "orders", "orders.dlq", "Order_v2-eu", "0", "_x", "-", "a..b", "x" * NAME_LENGTH_MAX]
)
def test_a_good_name_is_returned_as_it_is(name: str) -> None:
    assert check_name("topic", name) == name


@pytest.mark.parametrize(
    "name",
    [*UNSAFE_NAMES, "x" * (NAME_LENGTH_MAX + 1), None, 7, b"a"],
)
def test_a_name_that_is_not_safe_as_a_folder_is_refused(name: Any) -> None:
    with pytest.raises(InvalidName):
        check_name("topic", name)


def test_an_over_long_name_is_cut_in_its_error() -> None:
    with pytest.raises(InvalidName) as refusal:
        check_name("group", "x" * 1_000_000)

    assert "1000000 characters" in str(refusal.value)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize(("name", "number"), LANES.items())
def test_a_lane_is_known_by_name_and_by_number(name: str, number: int) -> None:
    assert (lane_number(name), lane_number(number), LANE_NAMES[number]) == (number, number, name)


@pytest.mark.parametrize(("priority", "lane"), [(3, 2), (10, 2), (2**70, 2), (-3, -2), (-(2**70), -2)])
def test_whole_numbers_of_any_size_are_in_the_outermost_lanes(priority: int, lane: int) -> None:
    assert lane_number(priority) == lane


def test_normal_is_the_lane_of_no_priority() -> None:
    assert lane_number("normal") == NORMAL == 0


@pytest.mark.parametrize("priority", ["urgent", "HIGH", "", "1", "3", 1.0, True, None])
def test_an_unknown_priority_is_refused_and_the_known_ones_are_named(priority: Any) -> None:
    with pytest.raises(
        UnknownPriority, match=r"critical \(2\), high \(1\), normal \(0\), low \(-1\), background \(-2\)"
    ):
        lane_number(priority)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0), (4096, 4096), ("64KiB", 65_536), ("1 MiB", 1_048_576), ("1.5GB", 1_500_000_000), (" 10B ", 10)],
)
def test_a_size_is_a_number_or_text(value: int | str, expected: int) -> None:
    assert size_bytes("x", value) == expected


@pytest.mark.parametrize("value", ["", "1", "big", "1XB", "-1KiB", "1KiB2", True, None, 1.5])
def test_anything_else_is_no_size(value: Any) -> None:
    with pytest.raises(InvalidValue, match="a size is a number of bytes"):
        size_bytes("x", value)


@given(st.integers(min_value=0, max_value=2**50))
def test_a_size_or_duration_as_text_is_the_same_again(number: int) -> None:
    text = size_text(number)

    assert size_bytes("x", int(text) if text.isdecimal() else text) == number
    assert duration_ms("x", duration_text(number % 10**13)) == number % 10**13


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0ms"), (250, "250ms"), (1000, "1s"), (90_000, "90s"), (60_000, "1m"), (7 * 86_400_000, "7d")],
)
def test_a_duration_is_shown_as_one_would_write_it(number: int, text: str) -> None:
    assert duration_text(number) == text
