"""Queue semantics over one partition, for one group: range leases.

The log is append-only and knows nothing of consumers.  This module adds the other
half of a queue: which consumer holds which offsets, until when, and what happens when
it does not answer.  An offset below ``high`` is always in exactly one state:

                      lease                     settle
      FRESH  -----------------> LEASED ------------------------> DONE
        (at or after the         |  ^                             ^
         cursor of its lane)     |  | lease, when due             | settle_free
                       give_back |  |                             |
                                 v  |                             |
                               WAITING        EXHAUSTED ----------'
                          (retry queue, parked)   ^  give_back, attempt > attempts_max

      LEASED -- hold --> HELD -- settle_free --> DONE, or -- let_go --> WAITING

HELD offsets wait for the decision of a transaction, and are not delivered before.  In a cluster that may take
as long as a node is away, so it is also journaled and in snapshots (``durably``): it is *prepared*.

It works on ranges.  A lease is one contiguous range of one lane with one attempt
number and one deadline, so that 100 messages cost one object, and the usual
acknowledgement of all of them costs one dictionary look-up.  Only a partial
acknowledgement gives the lease a bit mask.  Offsets that are DONE are an ``OffsetSet``:
one number (the floor) if settled in order, one bit per offset otherwise.

There is a cursor for each lane.  The cursor of the normal lane skips the ranges that
``LaneIndex`` lists for the others.  Due retries go before fresh offsets, by due time.
Fresh offsets come from the highest lane that has any (strict), or from the lanes in
proportion to their weights (see ``_charge``), so that no lane starves.

It is a plain state machine.  It does no I/O and reads no clock: time is passed in as
``now_ms``.  Every change is also a call that can be journaled and replayed:
``lease`` replays as ``restore_lease``, the others as themselves, and the same
calls give the same ``snapshot``.

Invariants:

    E1  every offset in [floor, high) is in exactly one of the states above
    E2  ``in_flight`` counts the offsets LEASED, ``waiting_retry`` those WAITING and HELD
    E3  a lease number is never used twice, so a late answer or a stale timer
        can never touch a newer lease
    E4  an offset of lane L is FRESH exactly if it is not DONE and not below the
        cursor of L

Cost: a lease and a full acknowledgement are O(1) in ranges (a heap push each); a partial
one is O(size of the lease / 64); a retry is O(log retries); whatever is done to a
range that is HELD as a whole is O(1).  ``seek``,
``skip_to`` and a ``settle_free`` below the cursors are linear in the leases
and retries.  Memory is about 3 bytes per message in leases of 100.

Not handled here: when leases expire (the caller polls ``expired`` and journals), how
long to wait before a retry (``config/backoff.py``), order by key (``ordering.py``), and
the messages themselves.
"""

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from math import lcm
from typing import Any, Final

from penstock.delivery.offsets import OffsetSet, bit_runs
from penstock.delivery.retries import Exhausted, RetryQueue, cut, without
from penstock.log.lanes import LaneIndex

HELD: Final = 0  # Done as asked.
LOST: Final = 1  # There is no such lease, or it does not hold that range.
SETTLED: Final = 2  # Some offset of the range was settled or released before; nothing changed.

HIGHEST: Final = 2  # The lanes.
LOWEST: Final = -2
LANE_SHIFT: Final = 2  # A lane's slot in a list is lane + 2.
LANE_COUNT: Final = 5

TIMERS_SPARE: Final = 64  # Stale timers allowed beside the live ones before they are swept.
EXPIRED_POPS: Final = 16  # Up to this many, popping the heap is cheaper than sorting it.


class Lease:
    """Offsets [start, end) in the hands of one consumer until ``deadline_ms``."""

    __slots__ = ("attempt", "consumer", "deadline_ms", "end", "left", "number", "settled", "start")

    def __init__(
        self, number: int, start: int, end: int, attempt: int, deadline_ms: int, consumer: int
    ) -> None:
        self.number = number
        self.start = start
        self.end = end
        self.attempt = attempt  # 1 for the first delivery.
        self.deadline_ms = deadline_ms
        self.consumer = consumer  # The broker's number for it; the engine only keeps it.
        self.settled = 0  # Bit i: offset start + i was settled or released.
        self.left = end - start  # Zero bits in ``settled``.

    @property
    def size(self) -> int:
        """How many offsets the lease was made for."""
        return self.end - self.start

    def unsettled(self) -> list[tuple[int, int]]:
        """The runs that are neither settled nor released."""
        if not self.settled:
            return [(self.start, self.end)]
        return bit_runs(self.settled ^ ((1 << (self.end - self.start)) - 1), self.start)


class DeliveryEngine:
    """Hands out the offsets of one partition to one group, at least once each.

    ``high`` is the end of what consumers may see; it only grows, and ``lanes``
    must know every range below it.  ``now_ms`` never goes back.  The caller
    makes settlements durable before it answers.
    """

    def __init__(
        self, floor: int, lanes: LaneIndex, attempts_max: int, weights: dict[int, int] | None = None
    ) -> None:
        self.lanes = lanes
        self.attempts_max = attempts_max
        self.done = OffsetSet(floor)
        self.leases: dict[int, Lease] = {}
        self.exhausted: deque[Exhausted] = deque()  # In the order in which they were given up.
        self.in_flight = 0
        self.next_number = 1  # Of the next lease.
        self._weights = weights
        self._burying: deque[Exhausted] = deque()  # Taken by take_exhausted, not yet settled.
        self._cursors = [floor] * LANE_COUNT
        self._scans = [floor] * LANE_COUNT  # From the cursor to here nothing is fresh (a cache).
        self._run_ends = [floor] * LANE_COUNT  # From there to here all is of that lane (a cache).
        self._retries = RetryQueue()
        # Acked by a decision to come: ranges, and of each the attempt, the lease, and whether it is prepared.
        self._held: dict[tuple[int, int], tuple[int, int, bool]] = {}
        self._timers: list[tuple[int, int]] = []  # Heap of (deadline, lease number); may hold stale entries.
        self._latest_ms = 0  # No timer is later.
        self._strides = _strides(weights)  # Empty: strict lanes.
        self._credits = [0] * LANE_COUNT  # See _charge.

    # Hand out.

    def lease(self, limit: int, high: int, now_ms: int, timeout_ms: int, consumer: int) -> Lease | None:
        """Lend at most ``limit`` offsets: due retries first, then fresh ones below ``high``."""
        assert limit > 0
        attempt = 1
        if self._retries.is_due(now_ms):
            start, end, attempt = self._take_retry(limit, now_ms)
        else:
            lane = HIGHEST
            start, end = self._find(lane, limit, high)
            while start >= end and lane > LOWEST:
                lane -= 1
                start, end = self._find(lane, limit, high)
            if start >= end:
                return None
            if self._strides:
                lane = self._choose(lane, high)
                start, end = self._find(lane, limit, high)
            self._take_fresh(lane, start, end)
        number = self.next_number
        self.next_number = number + 1
        return self._grant(Lease(number, start, end, attempt, now_ms + timeout_ms, consumer))

    # Answers.

    def settle(self, number: int, start: int, end: int) -> int:
        """[start, end) of a lease is acked, dead-lettered, expired or skipped: done forever."""
        answer = self._answer(number, start, end)
        if answer == HELD:
            self.done.add(start, end)
        return answer

    def give_back(self, number: int, start: int, end: int, attempt: int, due_ms: int) -> int:
        """[start, end) of a lease will be delivered again as ``attempt`` when due, or is exhausted."""
        answer = self._answer(number, start, end)
        if answer == HELD:
            if attempt > self.attempts_max:
                self.exhausted.append((start, end, attempt))
            else:
                self._retries.put(start, end, attempt, due_ms)
        return answer

    def hold(self, number: int, start: int, end: int, durably: bool = False) -> int:
        """Do not deliver [start, end) of a lease until it is settled or let go, however long that takes."""
        lease = self.leases.get(number)
        answer = self._answer(number, start, end)
        if answer == HELD and lease is not None:
            self._held[start, end] = (lease.attempt, number, durably)
        return answer

    def let_go(self, number: int, start: int, end: int, due_ms: int) -> None:
        """[start, end), which was held of this lease, is delivered again after all."""
        attempt = self.held_attempt(number, start, end)
        if attempt:
            del self._held[start, end]
            for at, stop in self.done.gaps(start, end):
                self._retries.put(at, stop, attempt, due_ms)

    def held_attempt(self, number: int, start: int, end: int) -> int:
        """The attempt of [start, end) if it is held by this lease; 0 if it is not."""
        attempt, lease, _ = self._held.get((start, end), (0, 0, False))
        return attempt if lease == number else 0

    def prepared_ranges(self) -> list[tuple[int, int, int, int]]:
        """What is prepared, and not settled otherwise: start, end, attempt and lease."""
        return sorted(
            (start, end, attempt, lease)
            for (start, end), (attempt, lease, prepared) in self._held.items()
            if prepared and self.done.first_missing(start) < end
        )

    def held(self, number: int, start: int, end: int) -> int:
        """What settle or give_back would return, without doing it."""
        lease = self.leases.get(number)
        if lease is None or start < lease.start or end > lease.end or start >= end:
            return LOST
        if lease.settled and lease.settled >> (start - lease.start) & ((1 << (end - start)) - 1):
            return SETTLED
        return HELD

    def extend(self, number: int, deadline_ms: int) -> int:
        """Move the deadline of a lease, either way."""
        lease = self.leases.get(number)
        if lease is None:
            return LOST
        lease.deadline_ms = deadline_ms
        self._set_timer(lease)
        return HELD

    def release(self, number: int, due_ms: int, attempt_counts: bool) -> list[tuple[int, int]]:
        """Give back what is left of a lease; return those runs (none if there is no such lease)."""
        lease = self.leases.get(number)
        if lease is None:
            return []
        attempt = lease.attempt + 1 if attempt_counts else lease.attempt
        runs = lease.unsettled()
        for start, end in runs:
            self.give_back(number, start, end, attempt, due_ms)
        return runs

    def expired(self, now_ms: int) -> list[Lease]:
        """The leases whose deadline has passed, each once per deadline, earliest first.

        Nothing is given back: the caller journals, and then gives back what
        ``unsettled()`` says.  Until it does, the consumer may still answer.
        """
        found: list[Lease] = []
        last = (-1, -1)
        for timer in self._due_timers(now_ms):
            lease = self.leases.get(timer[1])
            # A timer is stale if its lease is gone or was extended since; moving
            # a deadline there and back leaves two equal timers, side by side.
            if lease is not None and lease.deadline_ms == timer[0] and timer != last:
                found.append(lease)
            last = timer
        return found

    def take_exhausted(self) -> Exhausted | None:
        """The next range that used up its attempts; after its burial the caller calls settle_free."""
        if not self.exhausted:
            return None
        taken = self.exhausted.popleft()
        self._burying.append(taken)
        return taken

    def return_exhausted(self) -> None:
        """Burying failed: what was taken and not settled is taken again, first."""
        self.exhausted.extendleft(reversed(self._burying))
        self._burying.clear()

    def settle_free(self, start: int, end: int) -> None:
        """Settle the offsets of [start, end) that are not leased, wherever they wait."""
        if self._held.pop((start, end), None) is not None:
            self.done.add(start, end)
            return
        if self._cut_head(self._burying, start, end) or self._cut_head(self.exhausted, start, end):
            self.done.add(start, end)
            return
        if start >= max(self._cursors):
            self.done.add(start, end)
            return
        held: list[tuple[int, int]] = []
        for lease in self.leases.values():
            if lease.start < end and lease.end > start:
                held += lease.unsettled()
        held.sort()
        for piece_start, piece_end in without(start, end, held):
            self._forget_waiting(piece_start, piece_end)
            self.done.add(piece_start, piece_end)

    def seek(self, offset: int) -> None:
        """Start again at ``offset``: leases are lost, retries and settled offsets forgotten."""
        self.done = OffsetSet(offset)
        self.leases.clear()
        self.exhausted.clear()
        self.in_flight = 0
        self._burying.clear()
        self._retries.clear()
        self._held.clear()
        self._timers.clear()
        for slot in range(LANE_COUNT):
            self._cursors[slot] = offset
            self._scans[slot] = offset
            self._run_ends[slot] = offset
            self._credits[slot] = 0

    def skip_to(self, offset: int) -> int:
        """Retention deleted everything below ``offset``; return how many unsettled messages that lost."""
        floor = self.done.floor
        lost = max(0, offset - floor - self.done.count_below(offset))
        self._forget_waiting(0, offset)
        for lease in [lease for lease in self.leases.values() if lease.start < offset]:
            for start, end in lease.unsettled():
                if start < offset:
                    self._answer(lease.number, start, min(end, offset))
        self.done.raise_floor(offset)
        for slot in range(LANE_COUNT):
            self._cursors[slot] = max(self._cursors[slot], offset)
        return lost

    # Times and counts.

    @property
    def floor(self) -> int:
        """Every offset below it is done."""
        return self.done.floor

    @property
    def waiting_retry(self) -> int:
        """How many offsets wait to be delivered again, or for a decision."""
        count = self._retries.count
        for start, end in self._held:
            for at, stop in self.done.gaps(start, end):
                count += stop - at
        return count

    def end(self) -> int:
        """One past the highest offset that this engine has handed out or settled."""
        return max(self.done.end, max(self._cursors))

    def next_due_ms(self, after_ms: int = -1) -> int:
        """When the earliest lease ends or retry is due, or -1; retries due by ``after_ms`` do not count.

        Those are ready already: there is nothing to wait for.
        """
        timers = self._timers
        while timers:
            lease = self.leases.get(timers[0][1])
            if lease is not None and lease.deadline_ms == timers[0][0]:
                break
            heappop(timers)
        due_ms = self._retries.next_due_ms()
        if due_ms <= after_ms:
            due_ms = -1
        if timers and (due_ms < 0 or timers[0][0] < due_ms):
            return timers[0][0]
        return due_ms

    def ready(self, high: int) -> bool:
        """Whether some fresh offset below ``high`` could be leased."""
        for lane in range(HIGHEST, LOWEST - 1, -1):
            start, end = self._find(lane, 1, high)
            if start < end:
                return True
        return False

    def has_ready(self, high: int, now_ms: int) -> bool:
        """Whether ``lease`` would return anything."""
        return self._retries.is_due(now_ms) or self.ready(high)

    def lag(self, high: int) -> int:
        """How many offsets below ``high`` are not done."""
        return max(0, high - self.done.floor - self.done.count_below(high))

    def waiting_attempt(self, offset: int) -> int:
        """The attempt that a waiting offset will be delivered as; 0 if it does not wait."""
        return self._retries.attempt_of(offset)

    def oldest_waiting(self) -> tuple[int, int, int] | None:
        """The lowest offset that waits for a time, not parked: offset, attempt and due time."""
        return self._retries.lowest()

    def waiting_ranges(self) -> list[tuple[int, int, int]]:
        """Everything that waits to be delivered again: start, end and due time (PARKED_MS if parked)."""
        return sorted((start, end, due_ms) for due_ms, start, end, _ in self._retries.entries())

    # Replay and snapshots.

    def restore_lease(
        self, number: int, start: int, end: int, attempt: int, deadline_ms: int, consumer: int
    ) -> Lease:
        """Make exactly this lease: in a replay as ``lease`` made it, or for offsets chosen by name."""
        taken = self._retries.take(start, end)
        if taken < end:
            # By its last offset: retention may since have cut the lane index above the first one.
            lane = self._lane_of(end - 1)
            if taken == start and start >= self._cursors[lane + LANE_SHIFT]:
                self._take_fresh(lane, start, end)
            else:
                self._forget_waiting(taken, end)
        self.next_number = max(self.next_number, number + 1)
        return self._grant(Lease(number, start, end, attempt, deadline_ms, consumer))

    def snapshot(self) -> tuple[Any, ...]:
        """Everything but the lane index, as plain values: ints, bytes, and lists of tuples of them.

        What is held, and not prepared, waits there: a replay settles it, or it is delivered again.
        """
        held = [
            (0, start, end, attempt)
            for (start, end), (attempt, _, prepared) in sorted(self._held.items())
            if not prepared
        ]
        prepared_ranges = self.prepared_ranges()
        leases = [
            (
                lease.number,
                lease.start,
                lease.end,
                lease.attempt,
                lease.deadline_ms,
                lease.consumer,
                lease.settled.to_bytes((lease.settled.bit_length() + 7) // 8, "little"),
            )
            for lease in self.leases.values()
        ]
        return (
            self.attempts_max,
            None if self._weights is None else sorted(self._weights.items()),
            self.done.to_bytes(),
            # Below the floor a cursor says nothing; a replay after retention, which finds the lanes of
            # deleted offsets forgotten, may leave it elsewhere down there.
            [max(cursor, self.done.floor) for cursor in self._cursors],
            self._retries.entries() + held,
            list(self._burying) + list(self.exhausted),
            sorted(leases),
            self.next_number,
            list(self._credits),
            *([prepared_ranges] if prepared_ranges else []),
        )

    @staticmethod
    def restore(snapshot: Sequence[Any], lanes: LaneIndex) -> "DeliveryEngine":
        """The engine that a snapshot was taken of; lists may stand for tuples, as msgpack leaves them."""
        attempts_max, weights, done, cursors, retries, exhausted, leases, next_number, credits_ = snapshot[:9]
        engine = DeliveryEngine(0, lanes, attempts_max, None if weights is None else dict(weights))
        engine.done = OffsetSet.from_bytes(done)
        engine._cursors = list(cursors)
        engine._scans = list(cursors)
        engine._run_ends = list(cursors)
        engine._credits = list(credits_)
        engine.next_number = next_number
        for due_ms, start, end, attempt in retries:
            engine._retries.put(start, end, attempt, due_ms)
        for start, end, attempt, lease_number in snapshot[9] if len(snapshot) > 9 else ():
            engine._held[start, end] = (attempt, lease_number, True)
        for start, end, attempt in exhausted:
            engine.exhausted.append((start, end, attempt))
        for number, start, end, attempt, deadline_ms, consumer, settled in leases:
            lease = Lease(number, start, end, attempt, deadline_ms, consumer)
            lease.settled = int.from_bytes(settled, "little")
            lease.left -= lease.settled.bit_count()
            engine._grant(lease)
        return engine

    # Fresh offsets.

    def _choose(self, highest: int, high: int) -> int:
        """Weighted lanes: the one whose turn it is, of those that have something; ``highest`` has."""
        best = highest
        best_credit = self._credits[highest + LANE_SHIFT]
        for lane in range(highest - 1, LOWEST - 1, -1):
            credit = self._credits[lane + LANE_SHIFT]
            if credit < best_credit:
                start, end = self._find(lane, 1, high)
                if start < end:
                    best = lane
                    best_credit = credit
        return best

    def _find(self, lane: int, limit: int, high: int) -> tuple[int, int]:
        """The first fresh run of a lane, at most ``limit`` long; empty if there is none."""
        slot = lane + LANE_SHIFT
        first = max(self._cursors[slot], self._scans[slot])
        scan = first
        done = self.done
        while scan < high:
            if scan < done.end:  # Some of it may be done: purged, or settled before it was delivered.
                scan = done.first_missing(scan)
            start = scan
            end = self._run_ends[slot]
            if start + limit > min(end, high):
                start, end = self.lanes.next_range(lane, scan, high)
                self._run_ends[slot] = end
            if start >= end:
                self._scans[slot] = high
                return high, high
            if start == scan:
                if scan > first:
                    self._scans[slot] = scan
                end = min(end, start + limit)
                if start < done.end:
                    end = done.first_present(start, end)
                return start, end
            scan = start  # The run begins later, and may be done there.
        return high, high

    def _take_fresh(self, lane: int, start: int, end: int) -> None:
        slot = lane + LANE_SHIFT
        self._cursors[slot] = end
        if self._strides:
            self._charge(slot, end - start)

    def _charge(self, slot: int, size: int) -> None:
        """Weighted lanes: note that a lane was served.

        Each lane has a virtual time, at which it may be served next, and the
        earliest one that has something goes.  Serving a lane moves the present
        up to that time, and its own next time on by size / weight.  A credit is
        a lane's time relative to the present; a lane that had nothing to give
        is not owed for it.  It depends on the lane served and nothing else, so
        a replay, which cannot know who else was ready, comes to the same.
        """
        waited = self._credits[slot]
        if waited:
            for other in range(LANE_COUNT):
                self._credits[other] = max(0, self._credits[other] - waited)
        self._credits[slot] = size * self._strides[slot]

    def _lane_of(self, offset: int) -> int:
        for lane in range(HIGHEST, LOWEST - 1, -1):
            if lane and self.lanes.next_range(lane, offset, offset + 1)[0] == offset:
                return lane
        return 0

    # Offsets that wait.

    def _take_retry(self, limit: int, now_ms: int) -> tuple[int, int, int]:
        """Take the retry that is due first, with those that continue it: start, end, attempt."""
        retries = self._retries
        start, end, attempt = retries.pop(limit)
        while end - start < limit and retries.continues(end, attempt, now_ms) and self._same_lane(end):
            end = retries.pop(limit - (end - start))[1]
        return start, end, attempt

    def _same_lane(self, offset: int) -> bool:
        """Whether ``offset`` is in the lane of the offset before it."""
        return self._lane_of(offset) == self._lane_of(offset - 1)

    def _forget_waiting(self, start: int, end: int) -> None:
        """Take [start, end) out of the retries, the exhausted and what is held, as far as it is there."""
        self._retries.forget(start, end)
        if self._held:  # Of a range that is held only in part, ``let_go`` leaves out what is done.
            self._held = {
                place: held for place, held in self._held.items() if place[0] < start or place[1] > end
            }
        self._burying = cut(self._burying, start, end)
        self.exhausted = cut(self.exhausted, start, end)

    def _cut_head(self, waiting: deque[Exhausted], start: int, end: int) -> bool:
        """Take [start, end) off the front of the first entry, if it is exactly there."""
        if not waiting or waiting[0][0] != start or waiting[0][1] < end:
            return False
        _, stop, attempt = waiting[0]
        if stop == end:
            waiting.popleft()
        else:
            waiting[0] = (end, stop, attempt)
        return True

    # Leases.

    def _grant(self, lease: Lease) -> Lease:
        self.leases[lease.number] = lease
        self.in_flight += lease.left
        self._set_timer(lease)
        return lease

    def _answer(self, number: int, start: int, end: int) -> int:
        """Take [start, end) out of a lease, all of it or nothing."""
        lease = self.leases.get(number)
        if lease is None:
            return LOST
        size = end - start
        if start == lease.start and end == lease.end and not lease.settled:
            self._end(number)
            self.in_flight -= size
            return HELD
        if start < lease.start or end > lease.end or size <= 0:
            return LOST
        mask = ((1 << size) - 1) << (start - lease.start)
        settled = lease.settled
        if settled & mask:
            return SETTLED
        lease.settled = settled | mask
        lease.left -= size
        self.in_flight -= size
        if not lease.left:
            self._end(number)
        return HELD

    def _end(self, number: int) -> None:
        del self.leases[number]
        if not self.leases:  # Then every timer is stale; a consumer that works alone leaves none behind.
            self._timers.clear()
            self._latest_ms = 0

    def _set_timer(self, lease: Lease) -> None:
        timers = self._timers
        deadline_ms = lease.deadline_ms
        newest = lease.number + 1 == self.next_number
        # As good as always; and a heap stays one when its maximum is put at the end.
        if deadline_ms > self._latest_ms or (deadline_ms == self._latest_ms and newest):
            self._latest_ms = deadline_ms
            timers.append((deadline_ms, lease.number))
        else:
            heappush(timers, (deadline_ms, lease.number))
        if len(timers) > 2 * len(self.leases) + TIMERS_SPARE:
            self._sweep_timers()

    def _sweep_timers(self) -> None:
        """Drop the stale timers; done once per as many pushes as there are timers, so O(1) each."""
        live: set[tuple[int, int]] = set()  # A deadline moved there and back has two timers.
        for timer in self._timers:
            lease = self.leases.get(timer[1])
            if lease is not None and lease.deadline_ms == timer[0]:
                live.add(timer)
        self._timers = sorted(live)  # A sorted list is a heap.

    def _due_timers(self, now_ms: int) -> list[tuple[int, int]]:
        """Take the timers that are due, in order."""
        timers = self._timers
        due: list[tuple[int, int]] = []
        while timers and timers[0][0] <= now_ms:
            if len(due) < EXPIRED_POPS:
                due.append(heappop(timers))
                continue
            timers.sort()  # Many at once: sorting what is nearly sorted beats popping one by one.
            count = 0
            while count < len(timers) and timers[count][0] <= now_ms:
                count += 1
            due += timers[:count]
            del timers[:count]
        return due


def _strides(weights: dict[int, int] | None) -> list[int]:
    """How far serving one message moves each lane on: the inverse of its weight, in whole numbers."""
    if weights is None:
        return []
    shares = [weights.get(slot - LANE_SHIFT, 1) for slot in range(LANE_COUNT)]
    assert min(shares) > 0, "a weight is at least 1"
    whole = 1
    for share in shares:
        whole = lcm(whole, share)
    return [whole // share for share in shares]
