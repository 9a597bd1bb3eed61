"""Entries due soon: a timing wheel of seconds in memory, and a heap for the current second.

    second ... 12:00:07   12:00:08   12:00:09 ...
               [3 9 5]    [8]        [2 2 7]          slots: not in order, 8 bytes an entry
                  |
                  v  when its time has come
               3 5 9                                  ready: a heap, in order, 50 bytes an entry

An item is a due time and an entry's number.  Items are never searched for: a cancelled
or moved entry leaves its item behind, and ``is_current`` rejects it when its time has
come.  So the same item may occur twice.

In a slot an item is one 64-bit number, milliseconds of the second above 53
bits of entry number.  The lowest is kept in front, which makes ``next_ms`` O(1).

Costs, for n items in a slot: ``add`` O(1), 0.5 us; ``pop`` O(log n), and O(n)
when a slot is opened.
"""

from array import array
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Final

NUMBER_BITS: Final = 53  # With 10 bits for 1,000 milliseconds they fill a signed 64-bit number.
NUMBER_MASK: Final = (1 << NUMBER_BITS) - 1
SECOND_MS: Final = 1000


class NearTimes:
    """Items that are due soon, or were."""

    def __init__(self) -> None:
        self._slots: dict[int, array[int]] = {}  # By second; never empty; the lowest item first.
        self._seconds: list[int] = []  # Heap of the keys of _slots.
        self._ready: list[int] = []  # Heap of items with the whole due time above the number.

    def add(self, due_ms: int, number: int) -> None:
        second, millisecond = divmod(due_ms, SECOND_MS)
        item = millisecond << NUMBER_BITS | number
        slot = self._slots.get(second)
        if slot is None:
            self._slots[second] = array("q", (item,))
            heappush(self._seconds, second)
        elif item < slot[0]:
            slot.append(slot[0])
            slot[0] = item
        else:
            slot.append(item)

    def next_ms(self) -> int:
        """The due time of the earliest item, or -1."""
        ready_ms = self._ready[0] >> NUMBER_BITS if self._ready else -1
        slot_ms = self._first_slot_ms()
        if ready_ms < 0 or slot_ms < 0:
            return max(ready_ms, slot_ms)
        return min(ready_ms, slot_ms)

    def pop(self, now_ms: int, is_current: Callable[[int, int], bool]) -> tuple[int, int] | None:
        """Take the earliest item that is due and current: its due time and number; None if there is none."""
        while True:
            while 0 <= self._first_slot_ms() <= min(self.next_ms(), now_ms):
                self._open_slot(is_current)
            if not self._ready or self._ready[0] >> NUMBER_BITS > now_ms:
                return None
            item = heappop(self._ready)
            due_ms, number = item >> NUMBER_BITS, item & NUMBER_MASK
            if is_current(due_ms, number):
                return due_ms, number

    def _first_slot_ms(self) -> int:
        if not self._seconds:
            return -1
        second = self._seconds[0]
        return second * SECOND_MS + (self._slots[second][0] >> NUMBER_BITS)

    def _open_slot(self, is_current: Callable[[int, int], bool]) -> None:
        """Move the first slot into the heap, leaving out what is known to be void."""
        second = heappop(self._seconds)
        base_ms = second * SECOND_MS
        items = []
        for item in self._slots.pop(second):
            due_ms, number = base_ms + (item >> NUMBER_BITS), item & NUMBER_MASK
            if is_current(due_ms, number):
                items.append(due_ms << NUMBER_BITS | number)
        if len(items) > len(
            self._ready
        ):  # Heapify is faster than pushing; and the usual case is an empty heap.
            items += self._ready
            heapify(items)
            self._ready = items
        else:
            for item in items:
                heappush(self._ready, item)
