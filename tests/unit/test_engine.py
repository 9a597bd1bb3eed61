from collections.abc import Iterable

import pytest

from penstock.delivery.engine import HELD, LOST, SETTLED, DeliveryEngine, Lease
from penstock.delivery.retries import PARKED_MS
from penstock.log.lanes import LaneIndex

HIGH = 1_000


def engine_at(
    floor: int = 0,
    *,
    attempts_max: int = 3,
    lanes: Iterable[tuple[int, int, int]] = (),
    weights: dict[int, int] | None = None,
) -> DeliveryEngine:
    index = LaneIndex()
    for start, end, lane in lanes:
        index.add(start, end, lane)
    return DeliveryEngine(floor, index, attempts_max, weights)


def lend(engine: DeliveryEngine, limit: int = 10, *, now_ms: int = 0, high: int = HIGH) -> Lease:
    lease = engine.lease(limit, high, now_ms, 1_000, 1)
    assert lease is not None
    return lease


def lent(engine: DeliveryEngine, limit: int = 10, *, now_ms: int = 0, high: int = HIGH) -> tuple[int, int]:
    lease = lend(engine, limit, now_ms=now_ms, high=high)
    return lease.start, lease.end


# Hand out.


def test_leases_follow_each_other_up_to_high() -> None:
    engine = engine_at(5)

    assert [lent(engine, high=20), lent(engine, high=20)] == [(5, 15), (15, 20)]
    assert engine.lease(10, 20, 0, 1_000, 1) is None
    assert lent(engine, high=22) == (20, 22)
    assert engine.in_flight == 17


def test_a_lease_says_what_it_is() -> None:
    engine = engine_at(5)

    lease = engine.lease(10, HIGH, 500, 1_000, 42)

    assert lease is not None
    assert (lease.number, lease.attempt, lease.deadline_ms, lease.consumer) == (1, 1, 1_500, 42)
    assert (lease.size, lease.settled, lease.unsettled()) == (10, 0, [(5, 15)])
    assert engine.leases == {1: lease}


def test_due_retries_go_before_fresh_messages_and_by_due_time() -> None:
    engine = engine_at()
    first, second = lend(engine, 2), lend(engine, 2)
    engine.give_back(first.number, 0, 2, 2, 900)
    engine.give_back(second.number, 2, 4, 2, 800)

    assert lent(engine, 2, now_ms=799) == (4, 6)
    assert lent(engine, 2, now_ms=900) == (2, 4)
    assert lent(engine, 2, now_ms=900) == (0, 2)


def test_a_retry_larger_than_the_limit_is_handed_out_in_pieces() -> None:
    engine = engine_at()
    lease = lend(engine, 10)
    engine.give_back(lease.number, 0, 10, 2, 0)

    pieces = [lend(engine, 4), lend(engine, 4), lend(engine, 4)]

    assert [(piece.start, piece.end, piece.attempt) for piece in pieces] == [(0, 4, 2), (4, 8, 2), (8, 10, 2)]


def test_retries_that_touch_are_handed_out_together() -> None:
    """A consumer that nacks one by one does not get one by one for ever."""
    engine = engine_at()
    lease = lend(engine, 4)
    for offset in range(4):
        engine.give_back(lease.number, offset, offset + 1, 2, offset)

    again = lend(engine, 10, now_ms=3)

    assert (again.start, again.end, again.attempt) == (0, 4, 2)


def test_retries_of_different_attempts_are_not_mixed() -> None:
    engine = engine_at()
    lease = lend(engine, 2)
    engine.give_back(lease.number, 0, 1, 2, 0)
    engine.give_back(lease.number, 1, 2, 1, 0)

    assert [lent(engine), lent(engine)] == [(0, 1), (1, 2)]


def test_retries_of_different_lanes_are_not_mixed() -> None:
    engine = engine_at(lanes=[(2, 4, 1)])
    high_lane, normal = lend(engine), lend(engine)
    assert (high_lane.start, normal.start) == (2, 0)
    engine.give_back(normal.number, 0, 2, 2, 0)
    engine.give_back(high_lane.number, 2, 4, 2, 0)

    assert [lent(engine), lent(engine)] == [(0, 2), (2, 4)]


# Answers.


def test_a_whole_lease_settled_in_order_moves_the_floor() -> None:
    engine = engine_at()
    lease = lend(engine)

    assert engine.settle(lease.number, 0, 10) == HELD

    assert (engine.floor, engine.in_flight, engine.leases) == (10, 0, {})
    assert engine.lag(HIGH) == HIGH - 10


def test_a_part_is_settled_and_the_rest_stays_out() -> None:
    engine = engine_at()
    lease = lend(engine)

    assert engine.settle(lease.number, 3, 5) == HELD

    assert lease.unsettled() == [(0, 3), (5, 10)]
    assert (engine.floor, engine.in_flight, engine.lag(10)) == (0, 8, 8)


def test_the_same_answer_twice_is_settled_before() -> None:
    engine = engine_at()
    lease = lend(engine)
    engine.settle(lease.number, 3, 5)
    engine.give_back(lease.number, 5, 6, 2, 0)

    assert engine.settle(lease.number, 4, 5) == SETTLED
    assert engine.settle(lease.number, 5, 6) == SETTLED
    assert engine.give_back(lease.number, 0, 10, 2, 0) == SETTLED
    assert engine.held(lease.number, 0, 4) == SETTLED
    assert engine.in_flight == 7


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (8, 11), (10, 12), (4, 4), (5, 4)])
def test_offsets_outside_the_lease_are_lost(start: int, end: int) -> None:
    engine = engine_at()
    lease = lend(engine)

    assert engine.settle(lease.number, start, end) == LOST
    assert engine.held(lease.number, start, end) == LOST
    assert engine.in_flight == 10


def test_an_unknown_lease_is_lost() -> None:
    engine = engine_at()

    assert engine.settle(7, 0, 1) == LOST
    assert engine.give_back(7, 0, 1, 2, 0) == LOST
    assert engine.extend(7, 99) == LOST
    assert engine.release(7, 0, True) == []
    assert engine.held(7, 0, 1) == LOST


def test_a_lease_answered_to_the_last_offset_is_gone() -> None:
    engine = engine_at()
    lease = lend(engine, 3)
    engine.settle(lease.number, 0, 2)
    engine.give_back(lease.number, 2, 3, 2, 0)

    assert engine.leases == {}
    assert engine.settle(lease.number, 0, 1) == LOST


def test_an_expired_lease_goes_to_the_next_consumer() -> None:
    """The first consumer stalls; the second gets the messages; the first may not ack them."""
    engine = engine_at()
    first = lend(engine, now_ms=0)

    assert engine.expired(999) == []
    [expired] = engine.expired(1_000)
    assert expired is first
    engine.give_back(first.number, 0, 10, first.attempt + 1, 1_000)
    second = lend(engine, now_ms=1_000)

    assert (second.start, second.end, second.attempt) == (0, 10, 2)
    assert engine.settle(first.number, 0, 10) == LOST
    assert engine.settle(second.number, 0, 10) == HELD


def test_a_stale_deadline_does_not_end_a_newer_lease() -> None:
    """The old lease's timer is still in the heap when the same offsets are out again."""
    engine = engine_at()
    lend(engine, 1)  # Keeps the timers from being swept.
    first = lend(engine, 1)
    engine.give_back(first.number, 1, 2, 2, 500)
    second = lend(engine, 1, now_ms=500)
    assert second.start == 1

    assert second not in engine.expired(1_000)
    assert engine.expired(1_499) == []
    assert engine.expired(1_500) == [second]


def test_an_extended_lease_ends_at_its_new_deadline_only() -> None:
    engine = engine_at()
    lease = lend(engine)

    assert engine.extend(lease.number, 3_000) == HELD

    assert engine.expired(1_000) == []
    assert engine.next_due_ms() == 3_000
    assert engine.expired(3_000) == [lease]


def test_a_shortened_lease_ends_early_and_once() -> None:
    engine = engine_at()
    lease = lend(engine)

    engine.extend(lease.number, 200)

    assert engine.expired(200) == [lease]
    assert engine.expired(5_000) == []


def test_a_deadline_moved_there_and_back_expires_once() -> None:
    engine = engine_at()
    lease = lend(engine)
    engine.extend(lease.number, 2_000)
    engine.extend(lease.number, 1_000)

    assert engine.expired(1_000) == [lease]


def test_a_lease_may_be_answered_and_extended_until_it_is_given_back() -> None:
    engine = engine_at()
    lease = lend(engine)
    engine.expired(1_000)

    assert engine.settle(lease.number, 0, 4) == HELD
    assert engine.next_due_ms() == -1
    assert engine.extend(lease.number, 1_500) == HELD
    assert engine.expired(1_500) == [lease]


def test_a_short_lease_after_a_long_one_that_ended_expires_in_time() -> None:
    engine = engine_at()
    long = engine.lease(1, HIGH, 0, 60_000, 1)
    assert long is not None
    engine.settle(long.number, 0, 1)

    short = lend(engine, 1)

    assert engine.expired(1_000) == [short]


def test_an_older_lease_extended_to_the_deadline_of_a_newer_one_comes_first() -> None:
    engine = engine_at()
    older = lend(engine, 1)
    engine.expired(1_000)  # So that the newer one's timer is the first.
    newer = lend(engine, 1, now_ms=1_000)
    engine.extend(older.number, newer.deadline_ms)

    assert engine.expired(newer.deadline_ms) == [older, newer]


def test_many_leases_expire_in_the_order_of_their_deadlines() -> None:
    engine = engine_at()
    leases = [lend(engine, 1, now_ms=now_ms) for now_ms in range(100)]
    for lease in leases[::3]:
        engine.extend(lease.number, lease.deadline_ms + 17)

    expired = engine.expired(1_080)

    assert [(lease.deadline_ms, lease.number) for lease in expired] == sorted(
        (lease.deadline_ms, lease.number) for lease in leases if lease.deadline_ms <= 1_080
    )


def test_stale_timers_do_not_pile_up() -> None:
    engine = engine_at()
    keeper = lend(engine, 1)
    for _ in range(900):
        lease = lend(engine, 1)
        engine.settle(lease.number, lease.start, lease.end)
        engine.extend(keeper.number, 50_000)

    assert len(engine._timers) < 100
    assert engine.next_due_ms() == 50_000


def test_a_closed_consumer_gives_back_what_is_left() -> None:
    engine = engine_at()
    lease = lend(engine)
    engine.settle(lease.number, 4, 5)

    assert engine.release(lease.number, 0, False) == [(0, 4), (5, 10)]

    again = lend(engine)
    assert (again.start, again.end, again.attempt) == (0, 4, 1)
    assert engine.leases.keys() == {again.number}


def test_a_released_attempt_may_count() -> None:
    engine = engine_at()
    engine.release(lend(engine).number, 0, True)

    assert lend(engine).attempt == 2


def test_single_answers_in_any_order_end_a_large_lease() -> None:
    engine = engine_at()
    lease = lend(engine, 10_000, high=10_000)
    order = sorted(range(10_000), key=lambda offset: offset * 7_919 % 10_007)

    for offset in order:
        assert engine.settle(lease.number, offset, offset + 1) == HELD

    assert (engine.floor, engine.in_flight, engine.leases) == (10_000, 0, {})


# Attempts that run out.


def test_after_the_last_attempt_a_message_is_exhausted() -> None:
    engine = engine_at(attempts_max=2)
    engine.release(lend(engine, 1).number, 0, True)
    engine.release(lend(engine, 1).number, 0, True)

    assert list(engine.exhausted) == [(0, 1, 3)]
    assert engine.waiting_retry == 0
    assert lent(engine, 1) == (1, 2)


def test_burial_settles_what_was_exhausted() -> None:
    engine = engine_at(attempts_max=1)
    engine.release(lend(engine, 3).number, 0, True)

    assert engine.take_exhausted() == (0, 3, 2)
    assert engine.take_exhausted() is None
    assert engine.floor == 0
    engine.settle_free(0, 1)
    assert engine.floor == 1
    engine.settle_free(1, 3)

    assert engine.floor == 3


def test_a_burial_cut_short_by_a_crash_begins_again() -> None:
    engine = engine_at(attempts_max=1)
    engine.release(lend(engine, 3).number, 0, True)
    engine.take_exhausted()
    engine.settle_free(0, 1)

    restored = DeliveryEngine.restore(engine.snapshot(), engine.lanes)

    assert list(restored.exhausted) == [(1, 3, 2)]


def test_what_could_not_be_buried_is_taken_again_first() -> None:
    engine = engine_at(attempts_max=1)
    for _ in range(3):
        engine.release(lend(engine, 2).number, 0, True)
    engine.take_exhausted()
    engine.take_exhausted()
    engine.settle_free(0, 1)

    engine.return_exhausted()

    assert list(engine.exhausted) == [(1, 2, 2), (2, 4, 2), (4, 6, 2)]


# Parked offsets.


def test_a_parked_offset_waits_until_it_is_called() -> None:
    engine = engine_at()
    lease = lend(engine, 3)
    engine.give_back(lease.number, 0, 3, 1, PARKED_MS)

    assert engine.next_due_ms() == -1
    assert not engine.has_ready(3, 2**50)
    assert (engine.waiting_retry, engine.waiting_ranges()) == (3, [(0, 3, PARKED_MS)])
    assert (engine.waiting_attempt(1), engine.waiting_attempt(3)) == (1, 0)
    called = engine.restore_lease(engine.next_number, 1, 2, 1, 5_000, 9)

    assert (called.start, called.end, called.attempt, called.deadline_ms) == (1, 2, 1, 5_000)
    assert engine.waiting_ranges() == [(0, 1, PARKED_MS), (2, 3, PARKED_MS)]
    assert engine.next_due_ms() == 5_000


def test_waiting_attempt_finds_retries_too() -> None:
    engine = engine_at()
    lease = lend(engine, 5)
    engine.give_back(lease.number, 1, 4, 2, 700)

    assert [engine.waiting_attempt(offset) for offset in range(5)] == [0, 2, 2, 2, 0]


# Without a lease.


def test_a_purge_leaves_what_is_out_alone() -> None:
    engine = engine_at(attempts_max=1)
    out, back, lost = lend(engine, 10), lend(engine, 10), lend(engine, 10)
    engine.settle(out.number, 2, 4)
    engine.give_back(back.number, 10, 15, 1, 0)
    engine.give_back(lost.number, 20, 30, 2, 0)

    engine.settle_free(0, 100)

    assert engine.in_flight == 13
    assert (engine.waiting_retry, list(engine.exhausted)) == (0, [])
    assert engine.lag(HIGH) == HIGH - 100 + 13
    assert lent(engine) == (100, 110)
    assert engine.settle(out.number, 0, 2) == HELD
    assert engine.settle(out.number, 4, 10) == HELD
    assert engine.floor == 15


def test_offsets_settled_ahead_are_passed_over() -> None:
    engine = engine_at()
    engine.settle_free(3, 5)
    engine.settle_free(2_000, 5_000)

    assert [lent(engine, high=6_000), lent(engine, 3_000, high=6_000)] == [(0, 3), (5, 2_000)]
    assert lent(engine, high=6_000) == (5_000, 5_010)


def test_lag_counts_only_below_high() -> None:
    engine = engine_at()
    engine.settle_free(8, 20)

    assert (engine.lag(10), engine.lag(20), engine.lag(30), engine.lag(8)) == (8, 8, 18, 8)
    engine.settle_free(0, 8)
    assert (engine.floor, engine.lag(10)) == (20, 0)


def test_a_seek_forgets_everything() -> None:
    engine = engine_at(attempts_max=1, lanes=[(3, 6, 2)])
    lease = lend(engine)
    engine.release(lend(engine).number, 0, True)

    engine.seek(4)

    assert (engine.floor, engine.in_flight, engine.waiting_retry, list(engine.exhausted)) == (4, 0, 0, [])
    assert engine.settle(lease.number, lease.start, lease.end) == LOST
    assert engine.next_due_ms() == -1
    fresh = lend(engine)
    assert (fresh.start, fresh.end, fresh.attempt) == (4, 6, 1)
    assert fresh.number > lease.number


def test_retention_takes_what_was_not_settled() -> None:
    engine = engine_at(attempts_max=1)
    out = lend(engine, 10)
    engine.settle(out.number, 0, 2)
    engine.settle(out.number, 4, 6)
    engine.release(lend(engine, 2).number, 0, True)

    assert engine.skip_to(7) == 3
    assert (engine.floor, engine.in_flight) == (7, 3)
    assert engine.settle(out.number, 3, 4) == SETTLED
    assert engine.skip_to(7) == 0
    assert engine.skip_to(20) == 13

    assert (engine.floor, engine.leases, list(engine.exhausted)) == (20, {}, [])
    assert lent(engine) == (20, 30)


# Lanes.


def test_the_highest_lane_goes_first() -> None:
    engine = engine_at(lanes=[(2, 4, 1), (6, 8, -1), (8, 9, 2), (9, 10, -2)])

    ranges = [lent(engine, high=12) for _ in range(7)]

    assert ranges == [(8, 9), (2, 4), (0, 2), (4, 6), (10, 12), (6, 8), (9, 10)]
    assert engine.lease(10, 12, 0, 1_000, 1) is None


def test_a_higher_lane_that_arrives_late_goes_next() -> None:
    lanes = LaneIndex()
    engine = DeliveryEngine(0, lanes, 3)
    assert lent(engine, 3, high=10) == (0, 3)
    lanes.add(10, 12, 2)

    assert lent(engine, 3, high=10) == (3, 6)
    assert lent(engine, 3, high=11) == (10, 11)
    assert lent(engine, 3, high=12) == (11, 12)
    assert lent(engine, 10, high=14) == (6, 10)
    assert lent(engine, 10, high=14) == (12, 14)


def test_a_run_that_grows_is_lent_to_its_new_end() -> None:
    engine = engine_at()
    assert lent(engine, 10, high=15) == (0, 10)

    assert lent(engine, 10, high=30) == (10, 20)


def test_looking_far_ahead_does_not_lend_far_ahead() -> None:
    engine = engine_at()

    assert engine.ready(1_000)
    assert lent(engine, 10, high=4) == (0, 4)


def test_looking_over_a_purged_stretch_does_not_lend_beyond_high() -> None:
    engine = engine_at()
    assert engine.ready(1_000)
    engine.settle_free(0, 8)

    assert engine.lease(1, 5, 0, 1_000, 1) is None
    assert lent(engine, 5, high=12) == (8, 12)


def test_weighted_lanes_share_in_proportion() -> None:
    engine = engine_at(lanes=[(0, 100, 1), (200, 300, -1)], weights={1: 6, 0: 3, -1: 1})

    starts = [lend(engine, 1, high=300).start for _ in range(100)]

    assert sum(start < 100 for start in starts) == 60
    assert sum(100 <= start < 200 for start in starts) == 30
    assert starts[:10] == [0, 100, 200, 1, 2, 101, 3, 4, 102, 5]


def test_a_large_lease_pays_for_its_messages() -> None:
    engine = engine_at(lanes=[(0, 100, 1)], weights={1: 1, 0: 1})

    assert lent(engine, 50, high=200) == (0, 50)
    assert [lent(engine, 10, high=200)[0] for _ in range(7)] == [100, 110, 120, 130, 140, 50, 150]


def test_a_lane_that_had_nothing_is_not_owed_anything() -> None:
    lanes = LaneIndex()
    engine = DeliveryEngine(0, lanes, 3, {1: 1, 0: 1})
    for _ in range(50):
        lend(engine, 1, high=100)
    lanes.add(100, 200, 1)

    lanes_served = [int(lend(engine, 1, high=200).start >= 100) for _ in range(10)]

    assert lanes_served == [1, 1, 0, 1, 0, 1, 0, 1, 0, 1]


def test_a_weight_below_one_is_a_mistake() -> None:
    with pytest.raises(AssertionError):
        engine_at(weights={1: 0})


# Replay.


def test_a_snapshot_keeps_everything() -> None:
    engine = engine_at(attempts_max=2, lanes=[(5, 9, 1)], weights={1: 2})
    whole, part = lend(engine), lend(engine)
    engine.settle(part.number, part.start + 1, part.start + 2)
    engine.give_back(part.number, part.start + 2, part.start + 3, 2, 70)
    engine.give_back(part.number, part.start + 3, part.start + 4, 3, 70)

    restored = DeliveryEngine.restore(engine.snapshot(), engine.lanes)

    assert restored.snapshot() == engine.snapshot()
    assert restored.in_flight == engine.in_flight
    assert restored.attempts_max == 2
    assert restored.expired(1_000) == list(restored.leases.values())
    assert restored.settle(whole.number, whole.start, whole.end) == HELD
    assert lend(restored).number == lend(engine).number


def test_a_replay_after_retention_finds_the_lane_by_the_last_offset() -> None:
    """The lane index was cut in the middle of a lease that the journal still tells of."""
    lanes = LaneIndex()
    lanes.add(0, 10, 2)
    engine = DeliveryEngine(0, lanes, 3)
    lease = lend(engine, 10, high=20)
    lanes.drop_before(5)

    replayed = DeliveryEngine(0, lanes, 3)
    replayed.restore_lease(lease.number, 0, 10, 1, 1_000, 1)
    replayed.skip_to(5)

    assert lent(replayed, 20, high=20) == (10, 20)


def test_a_replay_after_retention_takes_a_retry_from_where_it_waits() -> None:
    """Its lane is forgotten, so that by its offset it would look fresh in the normal lane."""
    lanes = LaneIndex()
    lanes.add(1, 3, 1)
    lanes.drop_before(2)
    engine = DeliveryEngine(0, lanes, 3)

    engine.restore_lease(1, 1, 3, 1, 1_000, 1)
    engine.give_back(1, 1, 2, 2, 500)
    engine.restore_lease(2, 1, 2, 2, 1_500, 1)

    assert (engine.waiting_retry, engine.in_flight) == (0, 2)


def test_the_end_is_above_everything_the_engine_knows() -> None:
    engine = engine_at(3)
    assert engine.end() == 3
    lend(engine, 4)
    assert engine.end() == 7
    engine.settle_free(9, 11)
    assert engine.end() == 11


# Held for a decision.


def test_nobody_gets_what_is_held_until_it_is_settled_or_let_go() -> None:
    engine = engine_at()
    lease = lend(engine, 4, high=4)

    assert engine.hold(lease.number, 0, 2) == HELD
    assert engine.hold(lease.number, 1, 3) == SETTLED
    assert engine.hold(lease.number, 2, 9) == LOST
    engine.release(lease.number, 0, attempt_counts=True)
    assert lent(engine, now_ms=1 << 40, high=4) == (2, 4)
    assert engine.lease(10, 4, 1 << 40, 1_000, 1) is None

    engine.settle_free(0, 2)
    engine.let_go(lease.number, 0, 2, 0)
    assert (engine.floor, engine.waiting_retry) == (2, 0)


def test_what_is_let_go_is_delivered_with_the_attempt_that_it_had() -> None:
    engine = engine_at(attempts_max=1)
    lease = lend(engine, 4, high=4)
    engine.hold(lease.number, 0, 3)
    engine.attempts_max = 0  # It was changed since: a decision that did not come about buries nothing.
    engine.skip_to(1)

    engine.let_go(lease.number, 0, 3, 7)

    assert engine.waiting_ranges() == [(1, 3, 7)]
    assert engine.waiting_attempt(1) == 1
    assert not engine.exhausted


def test_a_snapshot_has_what_is_held_as_waiting_and_a_seek_forgets_it() -> None:
    engine = engine_at()
    lease = lend(engine, 4, high=4)
    engine.hold(lease.number, 0, 2)

    restored = DeliveryEngine.restore(engine.snapshot(), engine.lanes)
    assert restored.waiting_ranges() == [(0, 2, 0)]
    restored.settle_free(0, 2)
    assert restored.floor == 2

    engine.seek(0)
    engine.let_go(lease.number, 0, 2, 0)
    assert engine.waiting_retry == 0
