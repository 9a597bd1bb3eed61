"""The status of a group in one word and one sentence.

A pure function from facts to a verdict.  The first matching row decides.  *Fresh*
messages could be delivered now: they are neither leased nor waiting for their next
attempt or for their key.

       word            when
    1  idle            nothing is left, and nothing arrived or was acked recently
    2  keeping up      nothing is left
    3  keeping up      the reader commits in batches, and the oldest message is at most a minute old
    4  no consumers    the group has no consumers
    5  draining        the reader commits in batches, and more is acked than published
    6  falling behind  the reader commits in batches
    7  blocked         the oldest has failed twice or more, others with its key wait behind it, and
                       beside them there is no more than a second's work

       and if nothing was acked recently:
    8  keeping up      all that is left arrived within the last second, and nothing became a dead letter
    9  blocked         all that is left is the oldest and the messages behind it, and it has failed, or
                       it has been leased for a visibility timeout without an answer
   10  failing         some failed, or became dead letters
   11  blocked         all that is left waits for its next attempt
   12  stalled         nothing was acked for a visibility timeout, or for ten seconds with nothing leased
   13  working         otherwise

       and if something was:
   14  keeping up      at most a second's work is left, or publish and ack rates differ by a tenth at most
   15  draining        more is acked than published
   16  falling behind  more is published than acked, and the oldest message is more than ten seconds old
   17  working         more is published than acked, but not for long

*Recently* is the window of the rates, ten seconds (``rates.py``).  The limits are the
constants below.

A reader that *commits in batches* tracks its own position, as a Spark stream does.  It
is not a member of the group, and between two commits nothing seems to happen, so rates
and members say little about it, and the age of the oldest message decides.  If it is a
pipeline that reports its state, ``judge_pipeline`` takes that into account.
"""

from typing import Final

import msgspec

from penstock.model.info import (
    PIPELINE_LIVE,
    PIPELINE_LOST,
    GroupInfo,
    GroupRates,
    GroupState,
    PipelineRun,
    Unacked,
    Verdict,
)

AGAIN: Final = 2  # From this many failures on, a message counts as failing repeatedly.
MOMENT_SECONDS: Final = 1.0  # Less work than this is not a backlog.
IDLE_CONSUMERS_SECONDS: Final = 10.0  # Consumers without leases should have received something by then.
ERROR_LENGTH: Final = 60  # Characters of an error in a verdict, which is one line.
BALANCE: Final = 0.1  # Rates that differ by less are equal.
BATCH_SECONDS: Final = 60.0  # A message may wait this long for the next batch.
BEHIND_SECONDS: Final = 10.0  # A group whose oldest message is younger is not falling behind.


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that a verdict is based on."""

    lag: int
    lag_seconds: float  # Age of the oldest message that is not settled.
    in_flight: int  # Leased; for a stream group, read but not committed.
    waiting: int  # Released: until their next attempt, or until their key is free.
    consumers: int
    rates: GroupRates
    oldest: Unacked | None
    quiet_seconds: float  # How long there have been consumers without any ack.
    visibility_seconds: float
    batches: bool = False  # The reader is not a member and commits in batches.

    @property
    def fresh(self) -> int:
        """Messages that could be delivered now."""
        return max(self.lag - self.in_flight - self.waiting, 0)

    @property
    def settled_rate(self) -> float:
        return self.rates.acked + self.rates.dead_lettered

    @property
    def net_rate(self) -> float:
        """Messages per second by which the lag shrinks; 0 if within the noise."""
        net = self.settled_rate - self.rates.published
        return net if abs(net) > BALANCE * self.rates.published else 0.0

    @property
    def last(self) -> bool:
        """Whether the oldest message, with those behind it, is all that is left."""
        return self.oldest is not None and self.lag <= 1 + self.oldest.behind


def judge(standing: Standing) -> Verdict:
    """The verdict; the table is at the top."""
    if standing.lag == 0:
        return _all_done(standing)
    if standing.batches:
        return _in_batches(standing)
    if standing.consumers == 0:
        return alone(standing.lag)
    oldest = standing.oldest
    if (
        oldest is not None
        and oldest.failures >= AGAIN
        and oldest.behind > 0
        and standing.fresh <= standing.settled_rate * MOMENT_SECONDS
    ):
        return _blocked(standing, oldest)
    if standing.rates.acked > 0:
        return _flowing(standing)
    return _still(standing)


def judge_pipeline(group: GroupInfo | GroupState, run: PipelineRun, state: str) -> Verdict:
    """The verdict on a pipeline's group, by the age of its oldest message and the state of its last run."""
    if group.lag == 0:
        return group.verdict
    waits = f"{_wait(group.lag)}, the oldest for {duration(group.lag_seconds)}"
    if state == "failed":
        return Verdict(word="failing", text=f"{waits}; pipeline {run.name} has failed")
    if state == PIPELINE_LOST:
        return Verdict(word="stalled", text=f"{waits}; pipeline {run.name} has stopped reporting")
    if state not in PIPELINE_LIVE:
        return Verdict(word="idle", text=f"{waits}; pipeline {run.name} is {state}")
    if group.lag_seconds <= BATCH_SECONDS:
        return Verdict(
            word="keeping up", text=f"{_wait(group.lag)} for the next batch of pipeline {run.name}"
        )
    behind = group.rates.acked <= group.rates.published
    return Verdict(
        word="falling behind" if behind else "draining",
        text=f"{waits}; pipeline {run.name} is {state}; {_flow(group.rates)}",
    )


def drain_seconds(standing: Standing) -> float | None:
    """Seconds until the lag is 0 at the current rates; None if it never is."""
    if standing.lag == 0:
        return 0.0
    return standing.lag / standing.net_rate if standing.net_rate > 0 else None


def alone(lag: int) -> Verdict:
    """The verdict on a group without consumers; in a cluster also that of all owners together."""
    return Verdict(word="no consumers", text=f"{_wait(lag)}; no consumer is connected")


def _all_done(standing: Standing) -> Verdict:
    rates = standing.rates
    if rates.published == 0 and rates.acked == 0:
        return Verdict(word="idle", text="no messages are waiting")
    return Verdict(word="keeping up", text=f"no messages are waiting; {_flow(rates)}")


def _still(standing: Standing) -> Verdict:
    oldest, rates, quiet = standing.oldest, standing.rates, standing.quiet_seconds
    if standing.lag_seconds < MOMENT_SECONDS and rates.dead_lettered == 0:
        return Verdict(word="keeping up", text=f"{_messages(standing.lag)} arrived within the last second")
    overdue = standing.in_flight > 0 and quiet >= standing.visibility_seconds
    if oldest is not None and standing.last and (oldest.failures > 0 or overdue):
        return _blocked(standing, oldest)
    if rates.failed > 0 or rates.dead_lettered > 0:
        return _failing(standing)
    if oldest is not None and standing.in_flight == 0 and standing.fresh == 0:
        return _blocked(standing, oldest)
    if overdue or (standing.in_flight == 0 and quiet >= IDLE_CONSUMERS_SECONDS):
        return _stalled(standing)
    return Verdict(word="working", text=_left(standing))


def _flowing(standing: Standing) -> Verdict:
    net = standing.net_rate
    text = f"{_left(standing)}; {_flow(standing.rates)}"
    if standing.oldest is not None and standing.oldest.failures >= AGAIN:
        text += f"; {standing.oldest.id} has failed {_times(standing.oldest.failures)}"
    if net == 0 or standing.lag <= standing.settled_rate * MOMENT_SECONDS:
        return Verdict(word="keeping up", text=text)
    if net > 0:
        return Verdict(word="draining", text=text)
    late = standing.lag_seconds > BEHIND_SECONDS
    return Verdict(word="falling behind" if late else "working", text=text)


def _in_batches(standing: Standing) -> Verdict:
    """The reader commits in batches."""
    if standing.lag_seconds <= BATCH_SECONDS:
        return Verdict(word="keeping up", text=f"{_wait(standing.lag)} for the next batch")
    if standing.consumers == 0:  # It has not committed for a session timeout.
        return alone(standing.lag)
    text = f"{_wait(standing.lag)}, the oldest for {duration(standing.lag_seconds)}; {_flow(standing.rates)}"
    return Verdict(word="draining" if standing.net_rate > 0 else "falling behind", text=text)


def _blocked(standing: Standing, oldest: Unacked) -> Verdict:
    text = f"{_story(oldest)}; {_beside(standing, oldest)}"
    return Verdict(word="blocked", text=text, message=oldest.id)


def _story(oldest: Unacked) -> str:
    if oldest.consumer is not None and not oldest.failures:
        return f"{oldest.id} is leased to {oldest.consumer}, which has not acked it"
    story = (
        f"{oldest.id} failed {_times(oldest.failures)}" if oldest.failures else f"{oldest.id} was released"
    )
    if oldest.error:
        story += f" ({_short(oldest.error)})"
    if oldest.consumer is not None:
        return f"{story} and is now leased to {oldest.consumer}"
    return (
        f"{story} and will be redelivered in {duration(oldest.due_seconds)}" if oldest.due_seconds else story
    )


def _beside(standing: Standing, oldest: Unacked) -> str:
    if oldest.behind:
        return f"{_wait(oldest.behind, 'message', ' with its key')} behind it"
    others = standing.lag - 1
    return f"{_wait(others, 'other')}, too" if others else "everything else is settled"


def _failing(standing: Standing) -> Verdict:
    rates = standing.rates
    text = f"nothing acked, {_rate(rates.failed)} failed"
    if rates.dead_lettered > 0:
        text += f", {_rate(rates.dead_lettered)} dead-lettered"
    if standing.oldest is not None and standing.oldest.error:
        text += f"; {standing.oldest.id}: {_short(standing.oldest.error)}"
    return Verdict(word="failing", text=text)


def _stalled(standing: Standing) -> Verdict:
    there = f"{_count(standing.consumers, 'consumer')} {'is' if standing.consumers == 1 else 'are'} connected"
    text = f"{_left(standing)}, {there}, and nothing was acked for {duration(standing.quiet_seconds)}"
    if standing.oldest is not None and standing.oldest.consumer is not None:
        text += f"; {standing.oldest.id} is leased to {standing.oldest.consumer}"
    return Verdict(word="stalled", text=text)


# Wording.


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _messages(count: int) -> str:
    return _count(count, "message")


def _wait(count: int, noun: str = "message", which: str = "") -> str:
    return f"{_count(count, noun)}{which} {'is' if count == 1 else 'are'} waiting"


def _left(standing: Standing) -> str:
    """The unsettled messages in words: 7 messages are waiting, 3 are in flight."""
    in_flight = min(standing.in_flight, standing.lag)
    waiting = standing.lag - in_flight
    if not in_flight:
        return _wait(waiting)
    are = f"{'is' if in_flight == 1 else 'are'} in flight"
    return f"{_wait(waiting)}, {in_flight:,} {are}" if waiting else f"{_messages(in_flight)} {are}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _flow(rates: GroupRates) -> str:
    return f"{_rate(rates.published)} published, {_rate(rates.acked)} acked"


def _rate(rate: float) -> str:
    """A rate with at most three digits: 0.4/s, 12.5/s, 480/s, 12,000/s."""
    if rate >= 100 or rate == 0:
        return f"{rate:,.0f}/s"
    return f"{rate:.1f}/s" if rate >= 0.1 else "under 0.1/s"


def _short(error: str) -> str:
    line = error.partition("\n")[0]
    return line if len(line) <= ERROR_LENGTH else line[: ERROR_LENGTH - 1] + "…"


def duration(seconds: float) -> str:
    """Rounded for people: 800 ms, 12 s, 5 min, 3 h, 4 d."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for limit, unit, size in ((120, "s", 1), (7200, "min", 60), (172_800, "h", 3600)):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"
