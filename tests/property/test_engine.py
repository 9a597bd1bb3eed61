"""The delivery engine against a dict from offset to state: obviously right, and slow.

Every rule does one thing to the engine and to the model, and compares what
the engine answered.  After every rule everything that can be asked is compared
too, as equalities.  All changes are written down as a journal would write
them; replaying that from nothing, at any point, must give the same snapshot.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.delivery.engine import HELD, LOST, SETTLED, DeliveryEngine, Lease
from penstock.delivery.retries import PARKED_MS
from penstock.log.lanes import LaneIndex

ATTEMPTS_MAX = 3
LANES = (2, 1, 0, -1, -2)


@dataclass(frozen=True)
class Fresh:
    pass


@dataclass(frozen=True)
class Held:
    number: int


@dataclass(frozen=True)
class Waiting:
    due_ms: int
    attempt: int


@dataclass(frozen=True)
class Exhausted:
    attempt: int


@dataclass(frozen=True)
class Done:
    pass


State = Fresh | Held | Waiting | Exhausted | Done
Call = Callable[[DeliveryEngine], object]


@dataclass
class ModelLease:
    start: int
    end: int
    attempt: int
    deadline_ms: int
    consumer: int
    armed: bool = True  # Its deadline has not been reported yet.


class Model:
    """One state for each offset of the log."""

    def __init__(self, floor: int, weights: dict[int, int] | None) -> None:
        self.base = floor  # Everything below is done.
        self.weights = weights
        self.states: dict[int, State] = {}
        self.lanes: dict[int, int] = {}
        self.leases: dict[int, ModelLease] = {}
        self.exhausted: list[int] = []  # Offsets in the order in which they were given up.
        self.numbers = 0
        self.now_turn = Fraction(0)
        self.turns = dict.fromkeys(LANES, Fraction(0))

    def where(self, *kinds: type) -> list[int]:
        return [offset for offset, state in self.states.items() if isinstance(state, kinds)]

    def held_by(self, number: int) -> list[int]:
        return [offset for offset, state in self.states.items() if state == Held(number)]

    def attempt_and_due(self, offset: int) -> tuple[int, int]:
        state = self.states[offset]
        assert isinstance(state, Waiting)
        return state.attempt, state.due_ms

    # What the engine should hand out.

    def next_retries(self, limit: int, now_ms: int) -> tuple[list[int], int]:
        due = sorted((self.attempt_and_due(offset)[1], offset) for offset in self.where(Waiting))
        due = [entry for entry in due if entry[0] <= now_ms]
        taken: list[int] = []
        attempt = 0
        for _, offset in due:
            its_attempt = self.attempt_and_due(offset)[0]
            if taken and (
                offset != taken[-1] + 1
                or its_attempt != attempt
                or self.lanes[offset] != self.lanes[taken[-1]]
                or len(taken) == limit
            ):
                break
            taken.append(offset)
            attempt = its_attempt
        return taken, attempt

    def next_fresh(self, limit: int, high: int) -> list[int]:
        fresh = [offset for offset in sorted(self.where(Fresh)) if offset < high]
        lanes = [lane for lane in LANES if any(self.lanes[offset] == lane for offset in fresh)]
        if not lanes:
            return []
        lane = lanes[0]
        if self.weights is not None:
            lane = min(lanes, key=lambda lane: (max(self.turns[lane], self.now_turn), -lane))
        taken: list[int] = []
        for offset in [offset for offset in fresh if self.lanes[offset] == lane]:
            if len(taken) == limit or (taken and offset != taken[-1] + 1):
                break
            taken.append(offset)
        if self.weights is not None:
            self.now_turn = max(self.turns[lane], self.now_turn)
            self.turns[lane] = self.now_turn + Fraction(len(taken), self.weights.get(lane, 1))
        return taken

    def lease(self, limit: int, high: int, now_ms: int, deadline_ms: int, consumer: int) -> ModelLease | None:
        taken, attempt = self.next_retries(limit, now_ms)
        if not taken:
            taken, attempt = self.next_fresh(limit, high), 1
        if not taken:
            return None
        return self.grant(taken, attempt, deadline_ms, consumer)

    def grant(self, taken: list[int], attempt: int, deadline_ms: int, consumer: int) -> ModelLease:
        self.numbers += 1
        lease = ModelLease(taken[0], taken[-1] + 1, attempt, deadline_ms, consumer)
        self.leases[self.numbers] = lease
        for offset in taken:
            self.states[offset] = Held(self.numbers)
        return lease

    # Answers.

    def answer(self, number: int, start: int, end: int) -> int:
        lease = self.leases.get(number)
        if lease is None or start < lease.start or end > lease.end or start >= end:
            return LOST
        if all(self.states[offset] == Held(number) for offset in range(start, end)):
            return HELD
        return SETTLED

    def set_states(self, start: int, end: int, state: State) -> None:
        for offset in range(start, end):
            self.states[offset] = state
        self.forget_ended_leases()

    def forget_ended_leases(self) -> None:
        self.leases = {number: lease for number, lease in self.leases.items() if self.held_by(number)}

    def give_back(self, start: int, end: int, attempt: int, due_ms: int) -> None:
        if attempt > ATTEMPTS_MAX:
            self.set_states(start, end, Exhausted(attempt))
            self.exhausted += range(start, end)
        else:
            self.set_states(start, end, Waiting(due_ms, attempt))

    def settle_free(self, start: int, end: int) -> None:
        for offset in range(start, end):
            if not isinstance(self.states[offset], Held):
                self.states[offset] = Done()
        self.exhausted = [offset for offset in self.exhausted if isinstance(self.states[offset], Exhausted)]

    def seek(self, target: int) -> None:
        for offset in self.states:
            self.states[offset] = Done() if offset < target else Fresh()
        self.base = target
        self.leases.clear()
        self.exhausted.clear()
        self.now_turn = Fraction(0)
        self.turns = dict.fromkeys(LANES, Fraction(0))

    def skip_to(self, target: int) -> int:
        unsettled = [offset for offset in self.where(Fresh, Held, Waiting, Exhausted) if offset < target]
        for offset in unsettled:
            self.states[offset] = Done()
        self.base = max(self.base, target)
        self.exhausted = [offset for offset in self.exhausted if offset >= target]
        self.forget_ended_leases()
        return len(unsettled)

    # What can be asked.

    def floor(self) -> int:
        floor = self.base
        while isinstance(self.states.get(floor), Done):
            floor += 1
        return floor

    def next_due_ms(self) -> int:
        times = [lease.deadline_ms for lease in self.leases.values() if lease.armed]
        times += [self.attempt_and_due(offset)[1] for offset in self.where(Waiting)]
        return min((time for time in times if time < PARKED_MS), default=-1)


WAITS_MS = [0, 0, 5, 17, 40, PARKED_MS]
# Around a chunk's edge of the OffsetSet, and where offsets are large.
FLOORS = [0, 1018, 2**40 - 3]
WEIGHTS: list[dict[int, int] | None] = [None, None, {2: 5, 1: 3, 0: 2, -1: 1, -2: 1}, {0: 1}]
PICKS = st.randoms(use_true_random=False)
BATCHES = st.tuples(st.integers(1, 6), st.sampled_from([0, 0, 0, 1, 2, -1, -2]))


class AnyOrderOfCalls(RuleBasedStateMachine):
    """Rules draw small numbers, so that ranges meet, overlap and run out often.

    A rule that could do nothing is not offered, and what wipes the slate clean
    seldom, or hardly any run would get anywhere.
    """

    @initialize(
        floor=st.sampled_from(FLOORS),
        weights=st.sampled_from(WEIGHTS),
        batches=st.lists(BATCHES, max_size=6),
    )
    def begin(self, floor: int, weights: dict[int, int] | None, batches: list[tuple[int, int]]) -> None:
        self.lanes = LaneIndex()
        self.engine = DeliveryEngine(floor, self.lanes, ATTEMPTS_MAX, weights)
        self.model = Model(floor, weights)
        self.first = floor  # Where the engine began.
        self.start = floor  # Of the log.
        self.end = floor
        self.high = floor
        self.now_ms = 1_000
        self.calls: list[Call] = []
        self.lanes_cut = False
        self.checked_calls = 0
        for batch in batches:
            self.append(batch, True)

    def rarely(self) -> bool:
        return len(self.calls) % 8 == 7

    def can_lend(self) -> bool:
        fresh = any(offset < self.high for offset in self.model.where(Fresh))
        return fresh or bool(self.model.next_retries(1, self.now_ms)[0])

    def do(self, call: Call) -> Any:
        """Do it, and write it down for the replay."""
        self.calls.append(call)
        return call(self.engine)

    # The log grows.

    @precondition(lambda self: len(self.model.where(Fresh)) < 20)
    @rule(batch=BATCHES, visible=st.booleans())
    def append(self, batch: tuple[int, int], visible: bool) -> None:
        count, lane = batch
        self.lanes.add(self.end, self.end + count, lane)
        for offset in range(self.end, self.end + count):
            self.model.states[offset] = Fresh()
            self.model.lanes[offset] = lane
        self.end += count
        if visible:
            self.high = self.end

    @precondition(lambda self: self.high < self.end)
    @rule(pick=PICKS)
    def become_durable(self, pick: Random) -> None:
        self.high = pick.randint(self.high, self.end)

    @rule(step_ms=st.integers(0, 30))
    def time_passes(self, step_ms: int) -> None:
        self.now_ms += step_ms

    # Hand out.

    @precondition(lambda self: self.can_lend())
    @rule(limit=st.integers(1, 9), timeout_ms=st.integers(0, 40), consumer=st.integers(1, 3))
    def lease(self, limit: int, timeout_ms: int, consumer: int) -> None:
        self.lend(limit, timeout_ms, consumer)

    @precondition(lambda self: not self.can_lend())
    @rule(limit=st.integers(1, 9))
    def lease_nothing(self, limit: int) -> None:
        assert self.engine.lease(limit, self.high, self.now_ms, 30, 1) is None

    @precondition(lambda self: self.can_lend())
    @rule(limit=st.integers(1, 9))
    def work(self, limit: int) -> None:
        """Lend and settle at once, the usual life of a message."""
        lease = self.lend(limit, 30, 1)
        if lease is not None:
            number, start, end = lease.number, lease.start, lease.end
            assert self.do(lambda engine: engine.settle(number, start, end)) == HELD
            self.model.set_states(start, end, Done())

    def lend(self, limit: int, timeout_ms: int, consumer: int) -> Lease | None:
        expected = self.model.lease(limit, self.high, self.now_ms, self.now_ms + timeout_ms, consumer)
        lease = self.engine.lease(limit, self.high, self.now_ms, timeout_ms, consumer)
        if lease is None or expected is None:
            assert lease is None
            assert expected is None
            return None
        self.check_and_note(lease, expected)
        return lease

    def check_and_note(self, lease: Lease, expected: ModelLease) -> None:
        number, start, end, attempt = lease.number, lease.start, lease.end, lease.attempt
        deadline_ms, consumer = lease.deadline_ms, lease.consumer
        assert number == self.model.numbers
        assert (start, end, attempt) == (expected.start, expected.end, expected.attempt)
        assert (deadline_ms, consumer) == (expected.deadline_ms, expected.consumer)
        self.calls.append(
            lambda engine: engine.restore_lease(number, start, end, attempt, deadline_ms, consumer)
        )

    @precondition(lambda self: self.model.where(Waiting))
    @rule(pick=PICKS)
    def lease_by_name(self, pick: Random) -> None:
        """As an ordered group takes a message whose key has become free."""
        offset = pick.choice(self.model.where(Waiting))
        attempt = self.engine.waiting_attempt(offset)
        assert attempt == self.model.attempt_and_due(offset)[0]
        number = self.engine.next_number

        lease = self.engine.restore_lease(number, offset, offset + 1, attempt, self.now_ms + 20, 1)

        self.check_and_note(lease, self.model.grant([offset], attempt, self.now_ms + 20, 1))

    # Answers.

    def draw_range(self, pick: Random) -> tuple[int, int, int]:
        """A lease, and a range: the whole of it, inside it, or a little outside."""
        number = pick.choice(sorted(self.model.leases))
        lease = self.model.leases[number]
        start, end = lease.start, lease.end
        if pick.randint(0, 3):
            start = pick.randint(start, end - 1)
            end = pick.randint(start + 1, min(end + 1, start + 4))
        return number, start, end

    @precondition(lambda self: self.rarely())
    @rule(back=st.integers(-2, 6), start=st.integers(0, 30), size=st.integers(0, 9))
    def answer_for_a_stranger(self, back: int, start: int, size: int) -> None:
        """A lease that ended, or never was, and offsets that may be anybody's."""
        number = self.model.numbers - back
        start += self.start
        if number not in self.model.leases:
            assert self.do(lambda engine: engine.settle(number, start, start + size)) == LOST
            assert self.do(lambda engine: engine.give_back(number, start, start + size, 2, 0)) == LOST
            assert self.do(lambda engine: engine.extend(number, 5_000)) == LOST
            assert self.do(lambda engine: engine.release(number, 0, True)) == []

    @precondition(lambda self: self.model.leases)
    @rule(pick=PICKS)
    def settle(self, pick: Random) -> None:
        number, start, end = self.draw_range(pick)
        expected = self.model.answer(number, start, end)
        assert self.engine.held(number, start, end) == expected

        assert self.do(lambda engine: engine.settle(number, start, end)) == expected

        if expected == HELD:
            self.model.set_states(start, end, Done())

    @precondition(lambda self: self.model.leases)
    @rule(pick=PICKS, more=st.integers(0, 2), wait_ms=st.sampled_from(WAITS_MS))
    def give_back(self, pick: Random, more: int, wait_ms: int) -> None:
        number, start, end = self.draw_range(pick)
        expected = self.model.answer(number, start, end)
        attempt = self.model.leases[number].attempt + more
        due_ms = min(self.now_ms + wait_ms, PARKED_MS)

        assert self.do(lambda engine: engine.give_back(number, start, end, attempt, due_ms)) == expected

        if expected == HELD:
            self.model.give_back(start, end, attempt, due_ms)

    @precondition(lambda self: self.model.leases)
    @rule(pick=PICKS, wait_ms=st.integers(-5, 40), back=st.booleans(), look=st.booleans())
    def extend(self, pick: Random, wait_ms: int, back: bool, look: bool) -> None:
        """Move a deadline, perhaps back again, and perhaps live on to where it was before."""
        number, _, _ = self.draw_range(pick)
        lease = self.model.leases[number]
        before_ms = lease.deadline_ms
        for deadline_ms in [self.now_ms + wait_ms, before_ms] if back else [self.now_ms + wait_ms]:
            assert self.move_deadline(number, deadline_ms) == HELD
            lease.deadline_ms = deadline_ms
            lease.armed = True
        if look:
            self.expire(max(0, before_ms - self.now_ms), False)

    def move_deadline(self, number: int, deadline_ms: int) -> Any:
        return self.do(lambda engine: engine.extend(number, deadline_ms))

    @precondition(lambda self: self.model.leases)
    @rule(pick=PICKS, counts=st.booleans(), wait_ms=st.integers(0, 20))
    def release(self, pick: Random, counts: bool, wait_ms: int) -> None:
        number, _, _ = self.draw_range(pick)
        due_ms = self.now_ms + wait_ms
        held = self.model.held_by(number)
        lease = self.model.leases[number]

        runs = self.do(lambda engine: engine.release(number, due_ms, counts))

        assert [offset for run in runs for offset in range(*run)] == held
        for start, end in runs:
            self.model.give_back(start, end, lease.attempt + counts, due_ms)

    @precondition(lambda self: self.model.leases)
    @rule(step_ms=st.integers(0, 20), late=st.booleans())
    def expire(self, step_ms: int, late: bool) -> None:
        """Take back what is overdue; a late caller leaves the last one for the consumer to answer yet."""
        self.now_ms += step_ms
        expected = sorted(
            (lease.deadline_ms, number)
            for number, lease in self.model.leases.items()
            if lease.armed and lease.deadline_ms <= self.now_ms
        )

        found = self.engine.expired(self.now_ms)

        assert [(lease.deadline_ms, lease.number) for lease in found] == expected
        for lease in found:
            self.model.leases[lease.number].armed = False
        for lease in found[:-1] if late else found:
            number, attempt, due_ms = lease.number, lease.attempt + 1, self.now_ms
            runs = lease.unsettled()
            assert [offset for run in runs for offset in range(*run)] == self.model.held_by(number)
            for start, end in runs:
                self.back(number, start, end, attempt, due_ms)
                self.model.give_back(start, end, attempt, due_ms)

    def back(self, number: int, start: int, end: int, attempt: int, due_ms: int) -> None:
        assert self.do(lambda engine: engine.give_back(number, start, end, attempt, due_ms)) == HELD

    # Without a lease.

    @precondition(lambda self: self.model.exhausted)
    @rule(part=st.booleans(), fail=st.booleans(), pick=PICKS)
    def bury(self, part: bool, fail: bool, pick: Random) -> None:
        taken = self.engine.take_exhausted()
        if taken is None:
            assert not self.engine.exhausted
            return
        start, end, attempt = taken
        assert self.model.states[start] == Exhausted(attempt)
        if part:
            end = pick.randint(start, end)
        self.free(start, end)
        if fail:
            self.engine.return_exhausted()
            waiting = [offset for start, end, _ in self.engine.exhausted for offset in range(start, end)]
            assert waiting == self.model.exhausted

    @precondition(lambda self: self.rarely())
    @rule(pick=PICKS)
    def purge(self, pick: Random) -> None:
        start = pick.randint(self.start, self.end)
        self.free(start, pick.randint(start, self.end))

    def free(self, start: int, end: int) -> None:
        self.do(lambda engine: engine.settle_free(start, end))
        self.model.settle_free(start, end)

    @precondition(lambda self: self.rarely())
    @rule(pick=PICKS)
    def seek(self, pick: Random) -> None:
        target = pick.randint(self.start, self.end)
        self.do(lambda engine: engine.seek(target))
        self.model.seek(target)

    @precondition(lambda self: self.rarely())
    @rule(pick=PICKS)
    def retention(self, pick: Random) -> None:
        target = pick.randint(self.start, min(self.start + 6, self.high))

        lost = self.do(lambda engine: engine.skip_to(target))

        assert lost == self.model.skip_to(target)
        self.lanes.drop_before(target)
        self.lanes_cut = True
        self.start = target

    # Restart.

    @precondition(lambda self: len(self.calls) > self.checked_calls)
    @rule()
    def restart(self) -> None:
        """From a snapshot that went through msgpack, as the broker stores it."""
        self.checked_calls = len(self.calls) + 5
        stored = msgspec.msgpack.encode(self.engine.snapshot())
        self.engine = DeliveryEngine.restore(msgspec.msgpack.decode(stored), self.lanes)
        assert msgspec.msgpack.encode(self.engine.snapshot()) == stored
        for lease in self.model.leases.values():
            lease.armed = True

    @precondition(lambda self: len(self.calls) > self.checked_calls)
    @rule()
    def replay(self) -> None:
        """The same calls, from nothing."""
        self.checked_calls = len(self.calls) + 5
        engine = DeliveryEngine(self.first, self.lanes, ATTEMPTS_MAX, self.model.weights)
        for call in self.calls:
            call(engine)
        replayed, kept = engine.snapshot(), self.engine.snapshot()
        if self.lanes_cut and self.model.weights is not None:
            # The lanes of deleted offsets are not known any more, so whose turn it is may differ.
            replayed, kept = replayed[:-1], kept[:-1]
        assert replayed == kept

    # What must always hold.

    @invariant()
    def counts_are_exact(self) -> None:
        engine, model = self.engine, self.model
        assert engine.floor == model.floor()
        assert engine.in_flight == len(model.where(Held))
        assert engine.waiting_retry == len(model.where(Waiting))
        below = [offset for offset, state in model.states.items() if offset < self.high]
        assert engine.lag(self.high) == len(below) - sum(model.states[offset] == Done() for offset in below)
        if self.looks():
            assert engine.next_due_ms() == model.next_due_ms()

    def looks(self) -> bool:
        """Not every time: looking tidies up inside, and something could rely on that."""
        return len(self.calls) % 4 == 0

    @invariant()
    def every_offset_is_in_its_one_state(self) -> None:
        engine, model = self.engine, self.model
        for offset, state in model.states.items():
            assert engine.done.contains(offset) == (state == Done())
        assert engine.leases.keys() == model.leases.keys()
        for number, lease in engine.leases.items():
            runs = [offset for run in lease.unsettled() for offset in range(*run)]
            assert runs == model.held_by(number)
            assert lease.left == len(runs)
        waiting = {
            offset: due_ms for start, end, due_ms in engine.waiting_ranges() for offset in range(start, end)
        }
        assert waiting == {offset: model.attempt_and_due(offset)[1] for offset in model.where(Waiting)}
        exhausted = [offset for start, end, _ in engine.snapshot()[5] for offset in range(start, end)]
        assert exhausted == model.exhausted

    @invariant()
    def ready_is_what_lease_would_lend(self) -> None:
        if not self.looks():
            return
        fresh = any(offset < self.high for offset in self.model.where(Fresh))
        due = bool(self.model.next_retries(1, self.now_ms)[0])
        # To look beyond what is durable is allowed, and lends nothing of it.
        assert self.engine.ready(self.end) == bool(self.model.where(Fresh))
        assert self.engine.ready(self.high) == fresh
        assert self.engine.has_ready(self.high, self.now_ms) == (fresh or due)

    @invariant()
    def the_end_is_above_everything_touched(self) -> None:
        touched = self.model.where(Held, Waiting, Exhausted, Done)
        assert self.engine.end() == max([self.model.base, *[offset + 1 for offset in touched]])

    def teardown(self) -> None:
        """Whatever happened, everything is delivered in the end, and nothing twice."""
        if not hasattr(self, "engine"):
            return
        self.replay()
        self.high = self.end
        for number in sorted(self.model.leases):
            held = self.model.held_by(number)
            self.engine.release(number, self.now_ms, False)
            attempt = self.model.leases[number].attempt
            for offset in held:
                self.model.give_back(offset, offset + 1, attempt, self.now_ms)
        for offset in [o for o in self.model.where(Waiting) if self.model.attempt_and_due(o)[1] == PARKED_MS]:
            self.free(offset, offset + 1)
        while self.model.exhausted:
            offset = self.model.exhausted[0]
            self.free(offset, offset + 1)
        self.now_ms += 1_000
        while self.model.where(Fresh, Waiting):
            self.work(7)
        assert self.engine.lease(1, self.high, self.now_ms, 1, 1) is None
        assert self.engine.floor == max(self.end, self.model.base)
        assert self.engine.lag(self.high) == 0


TestAnyOrderOfCalls = AnyOrderOfCalls.TestCase


def walk_one_step(machine: AnyOrderOfCalls, random: Random) -> None:
    """One rule that can do something, the usual ones more often."""
    number = random.randint
    lend, held = machine.can_lend(), bool(machine.model.leases)
    steps: list[tuple[int, bool, Callable[[], None]]] = [
        (6, len(machine.model.where(Fresh)) < 20, lambda: machine.append(random_batch(random), coin(random))),
        (3, True, lambda: machine.become_durable(random)),
        (3, True, lambda: machine.time_passes(number(0, 30))),
        (9, lend, lambda: machine.lease(number(1, 9), number(0, 40), number(1, 3))),
        (3, lend, lambda: machine.work(number(1, 9))),
        (1, not lend, lambda: machine.lease_nothing(5)),
        (2, bool(machine.model.where(Waiting)), lambda: machine.lease_by_name(random)),
        (1, True, lambda: machine.answer_for_a_stranger(number(-2, 6), number(0, 30), number(0, 9))),
        (6, held, lambda: machine.settle(random)),
        (5, held, lambda: machine.give_back(random, number(0, 2), random.choice(WAITS_MS))),
        (3, held, lambda: machine.extend(random, number(-5, 40), coin(random), coin(random))),
        (1, held, lambda: machine.release(random, coin(random), number(0, 20))),
        (5, held, lambda: machine.expire(number(0, 20), coin(random))),
        (4, bool(machine.model.exhausted), lambda: machine.bury(coin(random), coin(random), random)),
        (1, True, lambda: machine.purge(random)),
        (1, coin(random), lambda: machine.seek(random)),
        (1, True, lambda: machine.retention(random)),
        (1, True, machine.restart),
        (1, True, machine.replay),
    ]
    able = [(weight, step) for weight, can, step in steps if can]
    random.choices([step for _, step in able], weights=[weight for weight, _ in able])[0]()


def coin(random: Random) -> bool:
    return random.random() < 0.5


def random_batch(random: Random) -> tuple[int, int]:
    return random.randint(1, 6), random.choice([0, 0, 0, 1, 2, -1, -2])


@given(seed=st.integers(0, 2**32), floor=st.sampled_from(FLOORS), weights=st.sampled_from(WEIGHTS))
def test_a_long_walk(seed: int, floor: int, weights: dict[int, int] | None) -> None:
    """The same rules for many steps, drawn from a seed: it shrinks to nothing, but it gets far."""
    random = Random(seed)
    machine = AnyOrderOfCalls()
    machine.begin(floor, weights, [])
    for _ in range(120):
        walk_one_step(machine, random)
        machine.counts_are_exact()
        machine.every_offset_is_in_its_one_state()
        machine.ready_is_what_lease_would_lend()
        machine.the_end_is_above_everything_touched()
    machine.teardown()
