"""Every row of the verdict's table, and its boundaries."""

from typing import Any

import pytest

from penstock.broker.health.verdict import Standing, drain_seconds, judge, judge_pipeline
from penstock.model.info import GroupInfo, GroupRates, PipelineRun, Unacked, Verdict

QUIET = GroupRates(published=0, delivered=0, acked=0, failed=0, dead_lettered=0)


def rates(**values: float) -> GroupRates:
    return GroupRates(
        **{"published": 0, "delivered": 0, "acked": 0, "failed": 0, "dead_lettered": 0, **values}
    )


def unacked(**values: Any) -> Unacked:
    usual = {
        "id": "orders:0:7", "age_seconds": 60, "attempts": 1, "failures": 0, "error": "", "consumer": None,
        "due_seconds": 12.0, "behind": 0,
    }  # fmt: skip
    return Unacked(**{**usual, **values})


def standing(**values: Any) -> Standing:
    """A group that has had ten messages before it for a minute, and a consumer; ``values`` change that."""
    usual = {
        "lag": 10, "lag_seconds": 60, "in_flight": 0, "waiting": 0, "consumers": 1, "rates": QUIET,
        "oldest": None, "quiet_seconds": 0, "visibility_seconds": 30,
    }  # fmt: skip
    return Standing(**{**usual, **values})


def verdict(**values: Any) -> Verdict:
    return judge(standing(**values))


def word(**values: Any) -> str:
    return verdict(**values).word


# Rows 1, 2 and 4.


def test_a_group_with_nothing_left_is_idle_or_keeping_up() -> None:
    assert str(verdict(lag=0)) == "idle: no messages are waiting"
    assert str(verdict(lag=0, rates=rates(published=12.34, acked=480))) == (
        "keeping up: no messages are waiting; 12.3/s published, 480/s acked"
    )
    assert word(lag=0, rates=rates(published=0.1)) == "keeping up"
    assert word(lag=0, rates=rates(acked=0.1)) == "keeping up"


def test_an_empty_group_is_idle_with_or_without_consumers() -> None:
    assert word(lag=0, consumers=0) == "idle"


def test_where_messages_wait_somebody_should_be_there() -> None:
    assert str(verdict(consumers=0)) == "no consumers: 10 messages are waiting; no consumer is connected"
    assert verdict(consumers=0, lag=1).text == "1 message is waiting; no consumer is connected"
    assert verdict(consumers=0, lag=1_234_567).text.startswith("1,234,567 messages are waiting")


def test_that_nobody_is_there_is_said_before_what_failed() -> None:
    assert word(consumers=0, rates=rates(failed=3), oldest=unacked(failures=5, behind=3)) == "no consumers"


# Row 7: a key of an ordered group.


def test_a_key_whose_first_message_fails_again_and_again_is_blocked() -> None:
    oldest = unacked(attempts=3, failures=3, error="ValueError: bad", behind=9)

    found = verdict(lag=10, waiting=10, oldest=oldest, rates=rates(published=2, acked=5))

    assert (found.word, found.message) == ("blocked", "orders:0:7")
    assert found.text == (
        "orders:0:7 failed 3 times (ValueError: bad) and will be redelivered in 12 s; "
        "9 messages with its key are waiting behind it"
    )


def test_one_failure_does_not_block_a_key_while_others_flow() -> None:
    flowing = {"lag": 10, "waiting": 10, "rates": rates(published=2, acked=2)}

    assert word(oldest=unacked(failures=1, behind=9), **flowing) == "keeping up"
    assert word(oldest=unacked(failures=2, behind=9), **flowing) == "blocked"


def test_a_blocked_key_beside_a_backlog_is_not_what_the_group_waits_for() -> None:
    oldest = unacked(failures=2, behind=9)

    assert word(lag=15, waiting=10, oldest=oldest, rates=rates(acked=5)) == "blocked"
    assert word(lag=16, waiting=10, oldest=oldest, rates=rates(acked=5)) == "draining"
    assert word(lag=16, waiting=10, oldest=oldest, rates=rates(acked=4, dead_lettered=2)) == "blocked"
    assert word(lag=12, waiting=10, in_flight=2, oldest=oldest, rates=rates(failed=1)) == "blocked"


def test_a_message_that_fails_again_and_again_blocks_only_those_behind_it() -> None:
    flowing = {"lag": 10, "waiting": 10, "rates": rates(published=2, acked=2)}

    assert word(oldest=unacked(failures=2, behind=1), **flowing) == "blocked"
    assert word(oldest=unacked(failures=2, behind=0), **flowing) == "keeping up"


# Rows 9 and 11: what is left.


def test_the_last_message_that_fails_is_in_the_way() -> None:
    oldest = unacked(attempts=1, failures=1)

    found = verdict(lag=1, waiting=1, oldest=oldest, rates=rates(failed=0.1))

    assert (
        str(found)
        == "blocked: orders:0:7 failed once and will be redelivered in 12 s; everything else is settled"
    )


def test_the_last_message_is_in_the_way_while_somebody_tries_it_again() -> None:
    oldest = unacked(attempts=3, failures=2, consumer="worker-1", error="KeyError: 'x'")

    assert verdict(lag=1, in_flight=1, oldest=oldest).text == (
        "orders:0:7 failed 2 times (KeyError: 'x') and is now leased to worker-1; everything else is settled"
    )


def test_a_message_that_somebody_holds_for_too_long_is_in_the_way() -> None:
    held = {"lag": 1, "in_flight": 1, "oldest": unacked(consumer="worker-1")}

    assert word(quiet_seconds=29.9, **held) == "working"
    found = verdict(quiet_seconds=30, **held)
    assert (
        str(found)
        == "blocked: orders:0:7 is leased to worker-1, which has not acked it; everything else is settled"
    )
    assert found.message == "orders:0:7"


def test_those_behind_its_key_do_not_hide_that_it_is_the_last() -> None:
    oldest = unacked(failures=1, behind=1)

    assert verdict(lag=2, waiting=2, oldest=oldest).text.endswith(
        "1 message with its key is waiting behind it"
    )
    assert word(lag=3, waiting=2, oldest=oldest, quiet_seconds=5) == "working"
    tried = unacked(attempts=2, failures=1, consumer="worker-1", behind=2)
    assert word(lag=3, waiting=2, in_flight=1, oldest=tried) == "blocked"
    assert word(lag=4, waiting=2, in_flight=1, oldest=tried) == "working"


def test_where_all_wait_for_their_next_attempt_the_oldest_is_named() -> None:
    oldest = unacked(failures=1, attempts=1, due_seconds=300)

    found = verdict(lag=10, waiting=10, oldest=oldest)

    assert (
        str(found)
        == "blocked: orders:0:7 failed once and will be redelivered in 5 min; 9 others are waiting, too"
    )
    assert verdict(lag=2, waiting=2, oldest=oldest).text.endswith("1 other is waiting, too")
    assert word(lag=10, waiting=9, oldest=oldest) == "working"
    assert word(lag=10, waiting=9, in_flight=1, oldest=oldest) == "working"


def test_what_was_given_back_without_a_failure_is_not_called_one() -> None:
    assert verdict(lag=10, waiting=10, oldest=unacked(attempts=0)).text == (
        "orders:0:7 was released and will be redelivered in 12 s; 9 others are waiting, too"
    )


def test_what_is_due_now_has_no_time_to_wait() -> None:
    oldest = unacked(failures=1, due_seconds=0.0)

    assert (
        verdict(lag=1, waiting=1, oldest=oldest).text == "orders:0:7 failed once; everything else is settled"
    )


# Row 10.


def test_a_group_that_only_fails_is_failing() -> None:
    oldest = unacked(failures=1, error="TimeoutError: no answer\nTraceback ...")

    found = verdict(waiting=4, oldest=oldest, rates=rates(failed=2.5, delivered=2.5))

    assert str(found) == ("failing: nothing acked, 2.5/s failed; orders:0:7: TimeoutError: no answer")


def test_dead_letters_alone_are_failing_too() -> None:
    found = verdict(rates=rates(dead_lettered=3))

    assert str(found) == "failing: nothing acked, 0/s failed, 3.0/s dead-lettered"
    assert word(rates=rates(failed=0.1, acked=0.1)) != "failing"
    assert "0.5/s dead-lettered" in verdict(rates=rates(dead_lettered=0.5)).text


def test_a_long_error_is_cut() -> None:
    oldest = unacked(failures=1, error="x" * 100)

    assert verdict(rates=rates(failed=1), oldest=oldest).text.endswith(": " + "x" * 59 + "…")
    oldest = unacked(failures=1, error="x" * 60)
    assert verdict(rates=rates(failed=1), oldest=oldest).text.endswith(": " + "x" * 60)


# Rows 12 and 13, and 8: what has just come.


def test_consumers_that_take_nothing_are_stalled_after_ten_seconds() -> None:
    assert str(verdict(quiet_seconds=10)) == (
        "stalled: 10 messages are waiting, 1 consumer is connected, and nothing was acked for 10 s"
    )
    assert str(verdict(quiet_seconds=9.9)) == "working: 10 messages are waiting"
    assert "2 consumers are connected" in verdict(quiet_seconds=10, consumers=2).text
    assert word(quiet_seconds=9.9, visibility_seconds=1) == "working"


def test_consumers_with_work_in_hand_have_a_visibility_timeout() -> None:
    busy = {"in_flight": 3, "oldest": unacked(consumer="worker-1")}

    assert str(verdict(quiet_seconds=29.9, **busy)) == "working: 7 messages are waiting, 3 are in flight"
    assert str(verdict(quiet_seconds=7200, **busy)) == (
        "stalled: 7 messages are waiting, 3 are in flight, 1 consumer is connected, "
        "and nothing was acked for 2 h; orders:0:7 is leased to worker-1"
    )
    assert word(quiet_seconds=30, **busy) == "stalled"
    assert word(quiet_seconds=30, visibility_seconds=31, **busy) == "working"


def test_work_in_hand_alone_is_said_alone() -> None:
    assert verdict(lag=1, in_flight=1, oldest=unacked(consumer="w")).text == "1 message is in flight"


def test_what_has_just_come_is_no_backlog() -> None:
    assert str(verdict(lag=3, lag_seconds=0.9)) == "keeping up: 3 messages arrived within the last second"
    assert word(lag=3, lag_seconds=1.0) == "working"
    assert word(lag=1, waiting=1, lag_seconds=0.9, oldest=unacked(failures=1)) == "keeping up"
    assert word(lag=3, lag_seconds=0.9, rates=rates(dead_lettered=1)) == "failing"


# Rows 14 to 17.


@pytest.mark.parametrize(
    ("published", "acked", "expected"),
    [
        (100, 100, "keeping up"),
        (100, 110, "keeping up"),
        (100, 111, "draining"),
        (100, 90, "keeping up"),
        (100, 89, "falling behind"),
        (0, 0.1, "draining"),
    ],
)
def test_the_balance_of_what_comes_and_goes_decides(published: float, acked: float, expected: str) -> None:
    assert word(lag=1000, rates=rates(published=published, acked=acked)) == expected


def test_less_than_a_second_of_work_is_keeping_up() -> None:
    assert word(lag=50, rates=rates(published=100, acked=50)) == "keeping up"
    assert word(lag=51, rates=rates(published=100, acked=50)) == "falling behind"
    assert word(lag=50, rates=rates(published=1, acked=50)) == "keeping up"
    assert word(lag=51, rates=rates(published=1, acked=50)) == "draining"


def test_dead_letters_drain_a_group_too() -> None:
    assert word(lag=1000, rates=rates(published=100, acked=60, dead_lettered=60)) == "draining"


def test_a_flowing_group_tells_both_rates_and_who_fails_again_and_again() -> None:
    assert verdict(lag=12_000, rates=rates(published=100, acked=1234)).text == (
        "12,000 messages are waiting; 100/s published, 1,234/s acked"
    )
    failing = verdict(lag=12_000, rates=rates(acked=0.05), oldest=unacked(failures=4))
    assert failing.text.endswith("0/s published, under 0.1/s acked; orders:0:7 has failed 4 times")
    assert "orders" not in verdict(rates=rates(acked=1), oldest=unacked(failures=1)).text
    assert verdict(rates=rates(acked=0.1), oldest=unacked(failures=2)).text.endswith(
        "published, 0.1/s acked; orders:0:7 has failed 2 times"
    )


# Time to drain.


def test_time_to_drain_is_known_only_while_more_goes_than_comes() -> None:
    assert drain_seconds(standing(lag=0)) == 0
    assert drain_seconds(standing(lag=1000, rates=rates(published=100, acked=150))) == 20
    assert drain_seconds(standing(lag=1000, rates=rates(acked=25, dead_lettered=25))) == 20
    assert drain_seconds(standing(lag=10, rates=rates(acked=0.5))) == 20
    assert drain_seconds(standing(lag=1000, rates=rates(published=100, acked=110))) is None
    assert drain_seconds(standing(lag=1000, rates=rates(published=100, acked=10))) is None
    assert drain_seconds(standing(lag=1000)) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.25, "250 ms"), (1, "1 s"), (119, "119 s"), (120, "2 min"), (7199, "120 min"), (7200, "2 h"),
     (172_799, "48 h"), (172_800, "2 d")],
)  # fmt: skip
def test_times_are_said_as_a_person_would(seconds: float, text: str) -> None:
    assert (
        f"will be redelivered in {text};"
        in verdict(lag=1, waiting=1, oldest=unacked(failures=1, due_seconds=seconds)).text
    )


def test_a_group_whose_oldest_message_is_young_is_not_falling_behind() -> None:
    growing = {"lag": 1000, "rates": rates(published=100, acked=50)}

    assert word(lag_seconds=10, **growing) == "working"
    assert word(lag_seconds=10.1, **growing) == "falling behind"


# Rows 3 to 6: readers that commit in batches.


def test_a_reader_that_commits_in_batches_is_judged_by_age() -> None:
    between = {"batches": True, "rates": rates(published=100)}  # Two commits, more than a window apart.

    assert str(verdict(lag_seconds=60, **between)) == "keeping up: 10 messages are waiting for the next batch"
    assert word(lag_seconds=60, consumers=0, **between) == "keeping up"
    assert str(verdict(lag_seconds=61, **between)) == (
        "falling behind: 10 messages are waiting, the oldest for 61 s; 100/s published, 0/s acked"
    )
    assert word(lag_seconds=61, batches=True, rates=rates(published=100, acked=500)) == "draining"
    assert word(lag_seconds=61, batches=True, rates=rates(published=100, acked=100)) == "falling behind"
    assert word(lag_seconds=61, consumers=0, **between) == "no consumers"


def info(**values: Any) -> GroupInfo:
    usual = {
        "topic": "orders", "group": "archive", "kind": "stream", "lag": 10, "lag_seconds": 61,
        "verdict": Verdict(word="no consumers", text=""), "drain_seconds": None, "in_flight": 0,
        "waiting_retry": 0, "oldest_unacked": None, "rates": QUIET, "consumers": [], "lost": 0,
        "delivered": 0, "acked": 0, "nacked": 0, "timed_out": 0, "dead_lettered": 0, "expired": 0,
        "partitions": [],
    }  # fmt: skip
    return GroupInfo(**{**usual, **values})


WAIT = "10 messages are waiting, the oldest for"


@pytest.mark.parametrize(
    ("state", "group", "expected"),
    [
        (
            "running",
            {"lag_seconds": 60},
            "keeping up: 10 messages are waiting for the next batch of pipeline nightly",
        ),
        (
            "starting",
            {"lag_seconds": 60},
            "keeping up: 10 messages are waiting for the next batch of pipeline nightly",
        ),
        (
            "running",
            {},
            f"falling behind: {WAIT} 61 s; pipeline nightly is running; 0/s published, 0/s acked",
        ),
        (
            "running",
            {"rates": rates(acked=3)},
            f"draining: {WAIT} 61 s; pipeline nightly is running; 0/s published, 3.0/s acked",
        ),
        ("failed", {"lag_seconds": 5}, f"failing: {WAIT} 5 s; pipeline nightly has failed"),
        ("lost", {}, f"stalled: {WAIT} 61 s; pipeline nightly has stopped reporting"),
        ("stopped", {}, f"idle: {WAIT} 61 s; pipeline nightly is stopped"),
        ("done", {}, f"idle: {WAIT} 61 s; pipeline nightly is done"),
    ],
)
def test_the_group_of_a_pipeline_is_judged_by_age_and_by_its_run(
    state: str, group: dict[str, Any], expected: str
) -> None:
    run = PipelineRun(
        name="nightly", pipeline="archive", run="1", state="running", host="here", pid=1, master="local",
        started_ms=0, updated_ms=0,
    )  # fmt: skip

    assert str(judge_pipeline(info(**group), run, state)) == expected
    empty = info(lag=0, verdict=Verdict(word="idle", text="no messages are waiting"))
    assert judge_pipeline(empty, run, state) is empty.verdict
