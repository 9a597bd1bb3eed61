"""A set of numbers that are mostly close together: bits in chunks.

The schedule remembers which of its entries are waiting, and nothing else about each.
Numbers rise as entries are added, and most entries leave in about that order, so the
members are dense in a moving window, with a few old ones behind:

      .  .  member  .  .  .  .  .  member member  .  member member member
     ------------------------------------------------------------------->
     chunk 0: 0b100       (no chunk 1)      chunk 2: 0b1110110...

Empty chunks are removed.  So memory depends on the members, not on all numbers ever
used: about two bits for each of a dense million, and about 200 bytes for a member that
is alone in its chunk.

``delivery/offsets.py`` does the opposite and keeps settled offsets above a floor: one
entry that is due in a year would hold that floor down.

Costs: ``add``, ``remove`` and ``in`` are O(1); ``first`` is O(chunks).
"""

from collections.abc import Iterator
from typing import Final

CHUNK_SHIFT: Final = 9  # 512 bits: small enough to copy at every change, large enough to carry a dict entry.
CHUNK_SIZE: Final = 1 << CHUNK_SHIFT
CHUNK_MASK: Final = CHUNK_SIZE - 1


class NumberSet:
    """Some numbers, none of them negative."""

    __slots__ = ("_chunks", "count")

    def __init__(self) -> None:
        self.count = 0  # Of members.
        self._chunks: dict[int, int] = {}  # From chunk number to bits, never 0.

    def __contains__(self, number: int) -> bool:
        return self._chunks.get(number >> CHUNK_SHIFT, 0) >> (number & CHUNK_MASK) & 1 == 1

    def add(self, number: int) -> None:
        """Make ``number``, which is none, a member."""
        assert number >= 0, "a number counts from 0"
        assert number not in self, "it is a member already"
        chunk = number >> CHUNK_SHIFT
        self._chunks[chunk] = self._chunks.get(chunk, 0) | 1 << (number & CHUNK_MASK)
        self.count += 1

    def remove(self, number: int) -> None:
        """Let the member ``number`` go."""
        assert number in self, "only a member can go"
        chunk = number >> CHUNK_SHIFT
        bits = self._chunks[chunk] ^ 1 << (number & CHUNK_MASK)
        if bits:
            self._chunks[chunk] = bits
        else:
            del self._chunks[chunk]
        self.count -= 1

    def first(self) -> int:
        """The lowest member, or -1."""
        return next(self.members(0), -1)

    def members(self, start: int) -> Iterator[int]:
        """The members from ``start`` on, lowest first; the set may change meanwhile."""
        for chunk in sorted(chunk for chunk in self._chunks if chunk >= start >> CHUNK_SHIFT):
            for number in range(max(start, chunk << CHUNK_SHIFT), (chunk + 1) << CHUNK_SHIFT):
                if number in self:
                    yield number

    def drop_before(self, number: int) -> None:
        """Let all members below ``number`` go, whole chunks only."""
        for chunk in [chunk for chunk in self._chunks if chunk < number >> CHUNK_SHIFT]:
            self.count -= self._chunks.pop(chunk).bit_count()
