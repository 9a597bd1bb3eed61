"""History of the last hour, so that dashboard pages have data when they are opened.

    every LOOK_MS ──> overview of the broker ──> since when each group has its verdict
                                             └─> a row of numbers for the broker, each topic and each group

The broker only reports its current state, so the server samples it and keeps an hour: a row per sample for
the broker, and one per three samples for topics and groups.  An expensive sample is followed by a longer
pause, so that sampling takes less than a fifth of a percent of the time.

The handlers check that the caller may see the topic or group.
Memory: 8 KB for each of ``SERIES_MAX`` topics and groups; what comes after has no history.
"""

import asyncio
import logging
from array import array
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from penstock.api.work import Work
from penstock.broker.frontend import EmbeddedAsyncBroker
from penstock.clock import Clock, SystemClock
from penstock.errors import PenstockError
from penstock.frontends.http.monitoring.alerts import GroupLine
from penstock.frontends.http.monitoring.reports import Reports
from penstock.frontends.security.gateway import AuthGateway
from penstock.model.histogram import quantile
from penstock.model.info import GroupState, Overview

LOOK_MS: Final = 10_000
PAUSES: Final = 500  # A look is followed by a pause of so many times its length, at least.
HOUR_MS: Final = 3_600_000
SELDOM: Final = 3  # Topics and groups have a row for every so many looks.
SERIES_MAX: Final = 1000

# What a row has, beside its time; the first five count since the broker was opened.  The last two are how
# long half and nearly all messages waited for their first delivery since the row before.
COLUMNS: Final = (
    "published", "delivered", "acked", "failed", "dead_lettered", "waiting", "oldest_seconds", "latency_half",
    "latency_most",
)  # fmt: skip
HALF: Final = 0.5
MOST: Final = 0.99
SHORTEST_MS: Final = 0.5  # Waits are measured in whole milliseconds; a shorter one is not nothing.

logger = logging.getLogger("penstock")

Row = tuple[float, ...]
Subject = tuple[str | None, str | None]  # Topic and group; None: all of them.
Waits = tuple[list[int], list[int]]  # Of a histogram: counts and sums.
NO_WAITS: Final[Waits] = ([], [])


class Word(NamedTuple):
    """A verdict on a group, and when it was first seen."""

    word: str
    since_ms: int
    looks: int  # How many in a row have found it.


class Series:
    """Rows of numbers, of which the oldest are forgotten."""

    def __init__(self, rows_max: int) -> None:
        self._rows_max = rows_max
        self.columns = [array("d") for _ in range(len(COLUMNS) + 1)]  # The first has the times.
        self.waited = NO_WAITS  # Deliveries by how long messages had waited, at the last row.

    def add(self, time_ms: int, row: Row) -> None:
        for column, value in zip(self.columns, (time_ms, *row), strict=True):
            column.append(value)
            if len(column) > self._rows_max:
                del column[0]


class OverviewHistory:
    """Samples a broker regularly, between ``start`` and ``stop``."""

    def __init__(
        self, broker: EmbeddedAsyncBroker, gateway: AuthGateway, reports: Reports, clock: Clock | None = None
    ) -> None:
        self._broker = broker
        self._gateway = gateway
        self._reports = reports
        self._clock = clock or SystemClock()
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self._words: dict[tuple[str, str], Word] = {}
        self._series: dict[Subject, Series] = {}
        self._looks = 0

    def start(self) -> None:
        self._broker.start(self._look(), self._looked)

    def _look(self) -> Work[Overview]:
        found = yield from self._gateway.overview()
        yield from self._reports.refresh()
        return self._reports.judged_all(found)

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _looked(self, overview: Any, error: BaseException | None) -> None:
        if self._stopped:
            return
        pause_ms = LOOK_MS
        if error is None:
            self.note(overview)
            pause_ms = max(LOOK_MS, round(overview.cost_ms * PAUSES))
        elif not isinstance(error, PenstockError):
            logger.error("the watch over the broker failed", exc_info=error)
        self._timer = asyncio.get_running_loop().call_later(pause_ms / 1000, self.start)

    def now_ms(self) -> int:
        return self._clock.wall_ms()

    def line(self, group: GroupState) -> GroupLine:
        """The group, with the time since which it has its verdict."""
        known = self._words.get((group.topic, group.group))
        if known is not None and known.word != group.verdict.word:
            known = None  # It has changed after the last look.
        return GroupLine(
            state=group,
            since_ms=known.since_ms if known else None,
            looks=known.looks if known else 0,
            pipeline=self._reports.owner(group),
        )

    def latency(self, overview: Overview) -> tuple[float, float]:
        """Median and 99th percentile of the wait for the first delivery, since the last sample."""
        everything = self._series.get((None, None))
        before = everything.waited if everything else NO_WAITS
        return latency(before, (overview.waited, overview.waited_sums), overview.waited_ms)

    def history(self, topic: str | None, group: str | None) -> list[list[float]]:
        """The columns of a series: the times, and those in ``COLUMNS``."""
        series = self._series.get((topic, group))
        return [[] for _ in range(len(COLUMNS) + 1)] if series is None else [list(c) for c in series.columns]

    def note(self, overview: Overview) -> None:
        now_ms = self._clock.wall_ms()
        before = self._words
        self._words = {}
        for group in overview.groups:
            word, known = group.verdict.word, before.get((group.topic, group.group))
            if known is None or known.word != word:
                known = Word(word, now_ms, 0)
            self._words[group.topic, group.group] = known._replace(looks=known.looks + 1)
        rows = {subject: (row, waited) for subject, row, waited in _rows(overview)}
        everything = rows.pop((None, None))
        self._add((None, None), now_ms, *everything, overview.waited_ms, HOUR_MS // LOOK_MS)
        if self._looks % SELDOM == 0:
            for gone in [
                subject for subject in self._series if subject[0] is not None and subject not in rows
            ]:
                del self._series[gone]
            for subject, (row, waited) in rows.items():
                self._add(subject, now_ms, row, waited, overview.waited_ms, HOUR_MS // LOOK_MS // SELDOM)
        self._looks += 1

    def _add(
        self, subject: Subject, now_ms: int, row: Row, waited: Waits, bounds_ms: list[int], rows_max: int
    ) -> None:
        series = self._series.get(subject)
        if series is None:
            if len(self._series) > SERIES_MAX:
                return
            series = self._series[subject] = Series(rows_max)
        series.add(now_ms, row + latency(series.waited, waited, bounds_ms))
        series.waited = waited


def latency(before: Waits, now: Waits, bounds_ms: list[int]) -> tuple[float, float]:
    """Median and 99th percentile of the wait in seconds; 0 without new messages."""
    if len(before[0]) != len(now[0]):  # The first look, or a topic that had no groups, or has none any more.
        before = ([0] * len(now[0]), [0] * len(now[0]))
    counts = [max(new - old, 0) for old, new in zip(before[0], now[0], strict=True)]
    sums = [max(new - old, 0) for old, new in zip(before[1], now[1], strict=True)]
    if not any(counts):
        return 0.0, 0.0
    half, most = (quantile(bounds_ms, counts, sums, part) for part in (HALF, MOST))
    return max(half, SHORTEST_MS) / 1000, max(most, SHORTEST_MS) / 1000


def _rows(overview: Overview) -> Iterator[tuple[Subject, Row, Waits]]:
    """A row for each group, for each topic, and for all together; and how long messages had waited."""
    by_topic: dict[str, list[GroupState]] = {topic.topic: [] for topic in overview.topics}
    for group in overview.groups:
        by_topic.setdefault(group.topic, []).append(group)
    published = {topic.topic: topic.published for topic in overview.topics}
    waiting = {topic.topic: topic.depth for topic in overview.topics}
    for name, groups in by_topic.items():
        for group in groups:
            row = _row([group], published.get(name, 0), group.lag)
            yield (name, group.group), row, (group.waited, group.waited_sums)
        waited = _total([group.waited for group in groups]), _total([group.waited_sums for group in groups])
        yield (name, None), _row(groups, published.get(name, 0), waiting.get(name, 0)), waited
    backlog = sum(group.lag for group in overview.groups)
    row = _row(overview.groups, sum(published.values()), backlog)
    yield (None, None), row, (overview.waited, overview.waited_sums)


def _total(columns: list[list[int]]) -> list[int]:
    return [sum(values) for values in zip(*columns, strict=True)]


def _row(groups: list[GroupState], published: int, waiting: int) -> Row:
    return (
        published,
        sum(group.delivered for group in groups),
        sum(group.acked for group in groups),
        sum(group.failed for group in groups),
        sum(group.dead_lettered for group in groups),
        waiting,
        max((group.lag_seconds for group in groups), default=0.0),
    )
