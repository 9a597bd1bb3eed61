"""Offsets that wait to be delivered again: until a time, or until they are requested.

      heap      (due 5000, [40, 60), attempt 2)  (due 7000, [7, 8), attempt 3)  ...
      parked    {91: 1, 95: 1}                   offset to attempt

Ranges wait in a heap, earliest first; at the same time, lowest offset first.
An offset that does not wait for a time is *parked*: it never becomes due, and the caller
that parked it takes it explicitly.  An ordered group does that with a message whose key
is held.

Invariants:

    R1  no offset is in two entries
    R2  ``count`` is the number of offsets that wait

Cost: adding a range and taking the first one are O(log entries); taking a parked offset
is O(1); taking, finding or removing anything else is linear.  A range in the heap costs
about 200 bytes, a parked offset 100.
"""

from collections import deque
from heapq import heapify, heappop, heappush
from typing import Final

PARKED_MS: Final = 1 << 53  # A due time that never comes, and that JSON and msgpack can carry.

Retry = tuple[int, int, int, int]  # Due in ms, start, end, attempt: in the order of the heap.
Exhausted = tuple[int, int, int]  # Start, end, the attempt that it will not get.


class RetryQueue:
    """What waits, by due time."""

    def __init__(self) -> None:
        self.count = 0
        self._heap: list[Retry] = []
        self._parked: dict[int, int] = {}

    def put(self, start: int, end: int, attempt: int, due_ms: int) -> None:
        """[start, end) waits until ``due_ms``; from PARKED_MS on, forever."""
        self.count += end - start
        if due_ms < PARKED_MS:
            heappush(self._heap, (due_ms, start, end, attempt))
            return
        for offset in range(start, end):
            self._parked[offset] = attempt

    def next_due_ms(self) -> int:
        """When the first one is due, or -1."""
        return self._heap[0][0] if self._heap else -1

    def is_due(self, now_ms: int) -> bool:
        """Whether ``pop`` would take something that is due."""
        return len(self._heap) > 0 and self._heap[0][0] <= now_ms

    def continues(self, end: int, attempt: int, now_ms: int) -> bool:
        """Whether the first one is due, begins at ``end`` and has the same attempt number."""
        if not self.is_due(now_ms):
            return False
        first = self._heap[0]
        return first[1] == end and first[3] == attempt

    def pop(self, limit: int) -> tuple[int, int, int]:
        """Take at most ``limit`` offsets of the first one: start, end, attempt.  The rest keeps its place."""
        due_ms, start, end, attempt = heappop(self._heap)
        if end - start > limit:
            heappush(self._heap, (due_ms, start + limit, end, attempt))
            end = start + limit
        self.count -= end - start
        return start, end, attempt

    def take(self, start: int, end: int) -> int:
        """Take [start, end) if it is the first one's beginning, or parked; return how far that went."""
        while start < end:
            if self._heap and self._heap[0][1] == start:
                start = self.pop(end - start)[1]
            elif self._parked.pop(start, 0):
                self.count -= 1
                start += 1
            else:
                break
        return start

    def forget(self, start: int, end: int) -> None:
        """Take [start, end) out, as far as it is here."""
        if not self.count:
            return
        kept: list[Retry] = []
        for due_ms, at, stop, attempt in self._heap:
            for piece_start, piece_end in without(at, stop, [(start, end)]):
                kept.append((due_ms, piece_start, piece_end, attempt))
        heapify(kept)
        self._heap = kept
        self._parked = {
            offset: number for offset, number in self._parked.items() if not start <= offset < end
        }
        self.count = len(self._parked) + sum([stop - at for _, at, stop, _ in kept])

    def clear(self) -> None:
        self.count = 0
        self._heap.clear()
        self._parked.clear()

    def attempt_of(self, offset: int) -> int:
        """The attempt that a waiting offset will be delivered as; 0 if it does not wait."""
        attempt = self._parked.get(offset, 0)
        if not attempt:
            for _, start, end, number in self._heap:
                if start <= offset < end:
                    return number
        return attempt

    def lowest(self) -> tuple[int, int, int] | None:
        """The lowest offset that is not parked, its attempt and when it is due; None if all are."""
        found: Retry | None = None
        for entry in self._heap:
            if found is None or entry[1] < found[1]:
                found = entry
        return None if found is None else (found[1], found[3], found[0])

    def entries(self) -> list[Retry]:
        """Everything that waits, in order; equal for equal queues."""
        found = sorted(self._heap)
        start = 0
        end = 0
        attempt = 0
        for offset in sorted(self._parked):
            if offset != end or self._parked[offset] != attempt:
                if start < end:
                    found.append((PARKED_MS, start, end, attempt))
                start = offset
                attempt = self._parked[offset]
            end = offset + 1
        if start < end:
            found.append((PARKED_MS, start, end, attempt))
        return found


def without(start: int, end: int, taken: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What is left of [start, end) without ``taken``, whose ranges rise."""
    left: list[tuple[int, int]] = []
    for taken_start, taken_end in taken:
        if taken_end <= start:
            continue
        if taken_start >= end:
            break
        if start < taken_start:
            left.append((start, taken_start))
        start = taken_end
    if start < end:
        left.append((start, end))
    return left


def cut(waiting: deque[Exhausted], start: int, end: int) -> deque[Exhausted]:
    """The entries without [start, end)."""
    kept: deque[Exhausted] = deque()
    for at, stop, attempt in waiting:
        for piece_start, piece_end in without(at, stop, [(start, end)]):
            kept.append((piece_start, piece_end, attempt))
    return kept
