"""Whatever the expression and whatever the hour: the next occurrence is later, or there is none."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidValue
from penstock.schedule.cron import next_ms

NEW_YEAR_MS = 1_767_222_000_000  # 2026 in Berlin: a year with both changes of the clock before it.

PIECES = st.sampled_from([*"0123456789*/,-L#W?", "MON", "JAN", "59", " "])


@given(st.lists(PIECES, max_size=24).map("".join))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    try:
        found_ms = next_ms(text, "UTC", 1_000)
    except InvalidValue:
        return
    assert found_ms > 1_000


@given(
    st.sampled_from(["30 2 * * *", "0 3 * * *", "*/20 * * * *", "0 2,3 * * *"]), st.integers(0, 366 * 24 * 60)
)
def test_an_occurrence_is_always_in_the_future(expression: str, minutes: int) -> None:
    after_ms = NEW_YEAR_MS + minutes * 60_000

    assert after_ms < next_ms(expression, "Europe/Berlin", after_ms) <= after_ms + 25 * 3600 * 1000
