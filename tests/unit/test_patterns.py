"""Regular expressions of clients: what is accepted, and how long a hostile one may take."""

import time
from collections.abc import Callable

import pytest

from penstock.groups.patterns import LENGTH_MAX, PatternError, compiled, problem_of, try_all

NAME = "a" * 200  # The longest that a topic may have.
RUNS = 5


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("orders", "orders"),
        ("orders-.*", "orders-eu"),
        ("^(eu|us)-[a-z]+$", "us-east"),
        (r"\w+\.v\d{1,2}", "orders.v12"),
        ("^.*a.*|^.*b.*", "orders-b"),  # As librdkafka joins two patterns.
        (".*a.*b.*c.*d.*e", "abcde"),
        ("(?i)ORDERS", "orders"),
        ("(?:a|b)+?", "abab"),
        (r"\Qa.b\E", "a.b"),
        (r"\p{L}+", "größe"),
        ("", ""),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, name: str) -> None:
    assert compiled(pattern)(name)
    assert not compiled(pattern)(name + "\n")


@pytest.mark.parametrize(
    "pattern",
    [r"(a)\1", "(?=a)", "(?<!a)b", "(", "a**", "[z-a]", "a{1001}", "a" * (LENGTH_MAX + 1), "(.{500}){500}"],
)
def test_a_pattern_that_is_none_or_too_large_is_refused_with_the_reason(pattern: str) -> None:
    with pytest.raises(PatternError):
        compiled(pattern)
    assert "pattern" in problem_of(pattern)


def test_names_that_were_tried_are_known_and_others_are_matched() -> None:
    tried = try_all({"a.*": ["ab", "ba"]}, lambda: False)

    assert tried is not None
    assert [tried.matches("a.*", name) for name in ("ab", "ba", "abc", "c")] == [True, False, True, False]
    assert tried.matches("b", "b")


def fastest_s(work: Callable[[], object]) -> float:
    times = []
    for _ in range(RUNS):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


@pytest.mark.parametrize(
    "pattern",
    [
        "(a|aa)*b",
        "(.|..)*[!]",
        "(a+)+b",
        "((a*)*)*b",
        "(a|a?)+b",
        ".*.*.*.*.*.*b",
        "(.*a){20}b",
        "(a?){100}a{100}b",
        "|".join(["(a|aa)*b"] * 20),
    ],
)
def test_a_hostile_pattern_takes_about_as_long_as_a_benign_one(pattern: str) -> None:
    hostile, benign = compiled(pattern), compiled(".*orders.*")

    # RE2 takes up to 600 us for the largest of them and 2 us for a benign one; for most, re needs
    # more than the age of the universe.
    assert fastest_s(lambda: hostile(NAME)) < 5_000 * fastest_s(lambda: benign(NAME))


@pytest.mark.parametrize("pattern", ["(a?b?){1000}c", "(.*){900}c", "(a{0,30}){0,30}b", ".*a.{800}c"])
def test_the_largest_programs_take_milliseconds(pattern: str) -> None:
    names = ["ab" * 100, NAME, "b" * 199 + "a"]

    assert fastest_s(lambda: try_all({pattern: names}, lambda: False)) < 0.1


def test_work_that_is_over_is_given_up_before_the_next_name() -> None:
    asked: list[bool] = []

    def is_over() -> bool:
        asked.append(len(asked) == 2)
        return asked[-1]

    assert try_all({"a": ["x", "y", "z"]}, is_over) is None
    assert asked == [False, False, True]
