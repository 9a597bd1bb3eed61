"""The report on dead letters: plots over time and by error, then each error with samples and keys.

An error is a row of the table ``dead_letters`` (``pipelines/dead_letters.py``), with times
in microseconds since 1970.  A bar of the plot over time is a row of topic, fingerprint,
time in seconds, and count.
"""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from penstock.spark.reports.html_page import SERIES_MAX, Page, bars, shown, stacked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ERRORS_SHOWN: Final = 50  # Each with a section of its own.
SHOWN_CHARACTERS: Final = 300
BARS: Final = 60  # About so many in the plot over time.
STEPS_MINUTES: Final = (1, 5, 15, 60, 180, 360, 720, 1440)  # What a bar may stand for.
OTHERS: Final = "others"

Row = dict[str, Any]


def page_of(errors: list[Row], bars_over_time: list[Row], period: str) -> Page:
    """The report; the errors come with the most frequent first."""
    page = Page("Dead letters", period)
    page.facts(
        {
            "dead letters": f"{total(errors):,}",
            "errors": f"{len(errors):,}",
            "topics": f"{len({each['topic'] for each in errors}):,}",
            "groups": f"{len({group for each in errors for group in each['groups']}):,}",
        }
    )
    if errors:
        page.plot(_plot_over_time(errors, bars_over_time), "When they came (UTC)")
        page.plot(bars(_counts(errors)), "Which errors they are")
    for each in errors[:ERRORS_SHOWN]:
        _add_error(page, each)
    if len(errors) > ERRORS_SHOWN:
        page.note(f"{len(errors) - ERRORS_SHOWN:,} rarer errors are in the table of the lake.")
    return page


def _add_error(page: Page, error: Row) -> None:
    keys = [f"{shown(each['key'], 40)} ({each['count']:,})" for each in error["top_keys"]]
    facts = {
        "count": f"{error['count']:,}",
        "topic": error["topic"],
        "groups": ", ".join(error["groups"]),
        "reason": error["reason"],
        "first": _time_text(error["first"]),
        "last": _time_text(error["last"]),
        "attempts": f"{error['attempts'] or 0:.1f}",
        "keys affected": f"{error['keys']:,}",
        "most affected keys": ", ".join(keys) or "none",
        "fingerprint": error["fingerprint"],
    }
    samples = [
        (
            each["id"],
            _time_text(each["time"]),
            shown(each["key"], 60),
            shown(each["value"], SHOWN_CHARACTERS),
        )
        for each in error["samples"]
    ]
    page.section(name_of(error, SHOWN_CHARACTERS), facts, ("sample", "time (UTC)", "key", "value"), samples)


def _plot_over_time(errors: list[Row], bars_over_time: list[Row]) -> "Figure":
    """The most frequent errors each for itself, the rest together; times without any have no bar."""
    step = step_minutes(errors)
    names = {(each["topic"], each["fingerprint"]): name for each, name in _named(errors)}
    times = sorted({row["time"] for row in bars_over_time})
    series = {name: [0] * len(times) for name in _counts(errors)}
    for row in bars_over_time:
        name = names.get((row["topic"], row["fingerprint"]), OTHERS)
        series[name][times.index(row["time"])] += row["count"]
    return stacked([datetime.fromtimestamp(each, UTC) for each in times], step / 1440, series)


def _named(errors: list[Row]) -> list[tuple[Row, str]]:
    """The errors with their own series in a plot, and their names, which include the topic."""
    shown = errors if len(errors) <= SERIES_MAX else errors[: SERIES_MAX - 1]
    return [(each, f"{each['topic']}: {name_of(each, 200)}") for each in shown]


def _counts(errors: list[Row]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for each, name in _named(errors):
        counts[name] = counts.get(name, 0) + each["count"]
    rest = total(errors) - sum(counts.values())
    return counts | {OTHERS: rest} if rest else counts


def step_minutes(errors: list[Row]) -> int:
    """Minutes that one bar stands for, so that there are not too many."""
    if not errors:
        return STEPS_MINUTES[0]
    first, last = min(each["first"] for each in errors), max(each["last"] for each in errors)
    wanted = (last - first) / 60_000_000 / BARS
    return next((step for step in STEPS_MINUTES if step >= wanted), STEPS_MINUTES[-1])


def name_of(error: Row, characters: int) -> str:
    return shown(error["error"] or error["error_class"] or error["reason"] or "unknown", characters)


def total(errors: list[Row]) -> int:
    """How many dead letters there are."""
    return sum(each["count"] for each in errors)


def period_of(errors: list[Row], begin: datetime | None, end: datetime | None) -> str:
    """The period as text: as requested, or as found."""
    first = begin or (_time(min(each["first"] for each in errors)) if errors else None)
    last = end or (_time(max(each["last"] for each in errors)) if errors else None)
    words = [f"{word} {each:%Y-%m-%d %H:%M}" for word, each in (("from", first), ("to", last)) if each]
    return " ".join([*words, "UTC"]) if words else "at any time"


def _time(time_us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)


def _time_text(time_us: int) -> str:
    return f"{_time(time_us):%Y-%m-%d %H:%M:%S}"
