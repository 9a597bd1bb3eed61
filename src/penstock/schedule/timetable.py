"""The in-memory state of a schedule: which entries wait, and what is due next.

    live         the numbers of waiting entries: a bit each
    cancelled    numbers of cancelled entries, so that a second cancel gets the same answer
    moved        the due time of entries whose record has another one (rescheduled, recurring)
    near, far    due times with numbers, in memory and on disk

Near and far are never searched.  An item there is *current* if its entry is live and
has that due time; otherwise it is dropped when it comes up.  A waiting entry always has
a current item.

Cost of a waiting entry: about 9 bytes of memory if it is due within two
hours, a fraction of a byte if it is due later (and 16 bytes on disk); about
100 bytes more if it was moved.
"""

from typing import Final

from penstock.log.files import Files
from penstock.schedule.buckets import HOUR_MS, FarTimes
from penstock.schedule.near import NearTimes
from penstock.schedule.numbers import NumberSet

HORIZON_MS: Final = HOUR_MS  # How long before it begins an hour may be read back from disk.
PORTION_PAIRS: Final = 4096  # Read back at a time: about 2 ms.


class Timetable:
    """Entries that wait, by number and by due time."""

    def __init__(self, files: Files, directory: str, now_ms: int) -> None:
        self.live = NumberSet()
        self.cancelled = NumberSet()
        self.moved: dict[int, int] = {}  # By number; only of live entries.
        self._near = NearTimes()
        self._far = FarTimes(files, directory, now_ms + HORIZON_MS)

    def add(self, number: int, due_ms: int) -> None:
        self.live.add(number)
        self.place(number, due_ms)

    def move(self, number: int, due_ms: int) -> None:
        """Change the due time of a waiting entry."""
        self.moved[number] = due_ms
        self.place(number, due_ms)

    def settle(self, number: int) -> None:
        """Remove an entry that waits no longer."""
        self.live.remove(number)
        self.moved.pop(number, None)

    def place(self, number: int, due_ms: int) -> None:
        if due_ms < self._far.near_until_ms:
            self._near.add(due_ms, number)
        else:
            self._far.add(due_ms, number)

    def is_current(self, due_ms: int, number: int) -> bool:
        """Does the entry wait, for that time as far as is known without its record?"""
        return number in self.live and self.moved.get(number, due_ms) == due_ms

    def next_ms(self) -> int:
        """When the next item is due, or -1; that item may turn out not to be current."""
        near_ms, far_ms = self._near.next_ms(), self._far.next_ms()
        if near_ms < 0 or far_ms < 0:
            return max(near_ms, far_ms)
        return min(near_ms, far_ms)

    def pop_due(self, now_ms: int, limit: int) -> list[tuple[int, int]]:
        """Take up to ``limit`` due items, the earliest first: due times and numbers, each number once.

        Everything due must have been loaded.
        """
        found: dict[int, int] = {}  # By number.
        while len(found) < limit:
            item = self._near.pop(now_ms, self.is_current)
            if item is None:
                break
            found.setdefault(item[1], item[0])
        return [(due_ms, number) for number, due_ms in found.items()]

    def load(self, until_ms: int) -> bool:
        """Bring a portion of what is due before ``until_ms`` into memory; False if nothing is left."""
        pairs = self._far.load(until_ms, PORTION_PAIRS)
        if pairs is None:
            return False
        for at in range(0, len(pairs), 2):
            due_ms, number = pairs[at], pairs[at + 1]
            if self.is_current(due_ms, number):
                self._near.add(due_ms, number)
        return True

    def lost_hours(self) -> list[int]:
        """Hours whose items could not be read back; clear the list when their entries are placed again."""
        return self._far.damaged
