import pytest

from penstock.config.backoff import CAP_MS, Backoff
from penstock.errors import InvalidValue

ALMOST_ONE = 1.0 - 2**-53


def test_the_default_doubles_from_a_second_to_a_minute() -> None:
    backoff = Backoff.exponential()

    delays = [backoff.delay_ms(attempt, 0.0) for attempt in range(1, 9)]

    assert delays == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]


def test_jitter_only_shortens_and_at_most_by_its_part() -> None:
    backoff = Backoff.exponential(jitter=0.2)

    assert backoff.delay_ms(1, 0.5) == 900
    assert backoff.delay_ms(1, ALMOST_ONE) == 800
    assert backoff.delay_ms(99, 0.5) == 54_000


def test_an_absurd_attempt_number_is_just_the_cap() -> None:
    assert Backoff.exponential(factor=100.0).delay_ms(10**9, 0.0) == CAP_MS
    assert Backoff.exponential(factor=1.0).delay_ms(10**9, 0.0) == 1_000
    assert Backoff.exponential(base_ms=0).delay_ms(10**9, 0.0) == 0


def test_a_fixed_list_repeats_its_last_delay() -> None:
    backoff = Backoff.fixed([100, 5_000, 5_000, 60_000])

    assert [backoff.delay_ms(attempt, 0.9) for attempt in (1, 2, 3, 4, 5, 6)] == [
        100, 5_000, 5_000, 60_000, 60_000, 60_000,
    ]  # fmt: skip


def test_a_fixed_list_may_have_jitter() -> None:
    assert Backoff.fixed([1_000], jitter=0.5).delay_ms(1, 0.5) == 750


@pytest.mark.parametrize(
    "text",
    [
        "exponential:1000:2:60000:0.2",
        "exponential:250:1.5:250:0",
        "fixed:0",
        "fixed:100,5000,60000",
        "fixed:100,200:0.25",
    ],
)
def test_a_backoff_survives_as_text(text: str) -> None:
    assert Backoff.decode(text).encode() == text


def test_what_is_left_out_of_the_text_is_the_default() -> None:
    assert Backoff.decode("exponential").encode() == "exponential:1000:2:60000:0.2"
    assert Backoff.decode("exponential:500:3").encode() == "exponential:500:3:60000:0.2"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "linear:1",
        "exponential:1:2:3:0.1:5",
        "exponential:x",
        "exponential:-1",
        "exponential:1000:0.5",
        "exponential:1000:nan",
        "exponential:1000:2:10",
        "exponential:1000:2:60000:1.5",
        "exponential:1000:2:99999999999999:0",
        "fixed",
        "fixed:",
        "fixed:1,,2",
        "fixed:1.5",
        "fixed:1:2:3",
        "fixed:1:nan",
    ],
)
def test_a_text_that_describes_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        Backoff.decode(text)


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(InvalidValue):
        Backoff.fixed([])


@pytest.mark.parametrize("delay_ms", [-1, 10**12])
def test_a_delay_that_makes_no_sense_is_refused(delay_ms: int) -> None:
    with pytest.raises(InvalidValue):
        Backoff.fixed([delay_ms])
