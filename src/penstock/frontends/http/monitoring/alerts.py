"""Which groups need attention, each problem once.

A verdict describes a moment.  An alert asks for a person's attention, so it needs more:

    blocked, failing, stalled    at once: these verdicts wait for their own time limits
    falling behind               the server has seen it ``LOOKS`` times in a row
    no consumers                 a message has waited for ``ALONE_SECONDS``

Groups of one name with the same verdict are one alert: an archive that is late is late on
all its topics, and that is one problem.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from penstock.broker.frontend import duration
from penstock.model.info import GroupState, VerdictWord

LOOKS: Final = 3
ALONE_SECONDS: Final = 10.0
WORST_FIRST: Final[tuple[VerdictWord, ...]] = (
    "blocked", "failing", "stalled", "falling behind", "no consumers",
)  # fmt: skip


class GroupLine(msgspec.Struct, frozen=True, kw_only=True):
    """A group, and since when it has its verdict."""

    state: GroupState
    since_ms: int | None  # None: not for long.
    looks: int  # How many times in a row the server has seen this verdict.
    pipeline: str | None  # The name of the pipeline that reads as this group.


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """A group that needs attention, with all topics on which it does for the same reason."""

    group: str
    word: VerdictWord
    topics: list[str]
    text: str
    since_ms: int | None
    pipeline: str | None


def alerts(lines: Iterable[GroupLine]) -> list[Alert]:
    """The alerts for these groups, the worst and oldest first."""
    equal: dict[tuple[str, str], list[GroupLine]] = {}
    for line in lines:
        if is_alert(line):
            equal.setdefault((line.state.group, line.state.verdict.word), []).append(line)
    worst_first = sorted(equal.values(), key=lambda found: (_rank(found[0]), -_oldest(found)))
    return [_alert(found) for found in worst_first]


def is_alert(line: GroupLine) -> bool:
    """Whether this group needs attention."""
    word = line.state.verdict.word
    if word == "falling behind":
        return line.looks >= LOOKS
    if word == "no consumers":
        return line.state.lag_seconds >= ALONE_SECONDS
    return word in WORST_FIRST


def _rank(line: GroupLine) -> int:
    return WORST_FIRST.index(line.state.verdict.word)


def _oldest(lines: list[GroupLine]) -> float:
    return max(line.state.lag_seconds for line in lines)


def _alert(lines: list[GroupLine]) -> Alert:
    first = lines[0]
    return Alert(
        group=first.state.group,
        word=first.state.verdict.word,
        topics=[line.state.topic for line in lines],
        text=first.state.verdict.text if len(lines) == 1 else _together(lines),
        since_ms=min((line.since_ms for line in lines if line.since_ms is not None), default=None),
        pipeline=first.pipeline,
    )


def _together(lines: list[GroupLine]) -> str:
    lag = sum(line.state.lag for line in lines)
    return f"{lag:,} messages are waiting, the oldest for {duration(_oldest(lines))}"
