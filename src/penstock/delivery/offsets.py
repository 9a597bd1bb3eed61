"""A set of offsets that fills from below: a floor, and bits above it.

Every offset below ``floor`` is a member.  Above it, members are bits in
chunks of 1,024, kept in a dict from chunk number to a Python int:

      member   member   .  member member  .   .  member  .   .   .
     ----------------- ^ ---------------------------------------->
                     floor    chunk 7: 0b...0110     chunk 8: 0b...1

It holds a group's settled messages: almost all of them are settled in order, and then
only ``floor`` changes; the few others cost one bit each, not a dict entry each.

Invariants:

    O1  ``floor`` itself is not a member (adding it moves the floor past the run)
    O2  no chunk is zero, and none has a bit below the floor: equal sets have
        equal chunks, so equal bytes
    O3  ``_count`` is the number of bits

Cost: ``add`` at the floor is O(1) while nothing is above it, otherwise every
call is O(chunks touched).  Memory is one bit for each offset between the
floor and the highest member, about two in practice (dict entry, int header).

Removal is not supported: settled offsets stay settled.  A seek creates a new set.
"""

from typing import Final

CHUNK_SHIFT: Final = 10  # 1,024 bits: an operation copies 140 bytes, a dict entry costs a bit an offset.
CHUNK_SIZE: Final = 1 << CHUNK_SHIFT
CHUNK_MASK: Final = CHUNK_SIZE - 1
CHUNK_BYTES: Final = CHUNK_SIZE // 8
FULL: Final = (1 << CHUNK_SIZE) - 1  # One shared object, so that a long settled run costs dict entries only.


def bit_runs(bits: int, base: int) -> list[tuple[int, int]]:
    """The runs of one-bits, lowest first, as ranges; bit 0 is ``base``.

    By way of text, because shifting a large int once per run would be quadratic.
    """
    text = bin(bits)[:1:-1]
    runs: list[tuple[int, int]] = []
    start = text.find("1")
    while start >= 0:
        end = text.find("0", start)
        if end < 0:
            end = len(text)
        runs.append((base + start, base + end))
        start = text.find("1", end)
    return runs


class OffsetSet:
    """Offsets below ``floor``, and some above it."""

    __slots__ = ("_chunks", "_count", "end", "floor")

    def __init__(self, floor: int) -> None:
        self.floor = floor  # The lowest offset that is not a member.
        self.end = floor  # Nothing at or above it is a member.
        self._chunks: dict[int, int] = {}
        self._count = 0

    def add(self, start: int, end: int) -> None:
        """Make every offset of [start, end) a member; those that are already stay."""
        if start <= self.floor:
            if end > self.floor:
                self._raise(end)
            return
        if start >= end:
            return
        if end > self.end:
            self.end = end
        first = start >> CHUNK_SHIFT
        last = (end - 1) >> CHUNK_SHIFT
        if first == last:
            self._set(first, ((1 << (end - start)) - 1) << (start & CHUNK_MASK), end - start)
            return
        head = CHUNK_SIZE - (start & CHUNK_MASK)
        self._set(first, ((1 << head) - 1) << (start & CHUNK_MASK), head)
        for chunk in range(first + 1, last):
            self._set(chunk, FULL, CHUNK_SIZE)
        tail = ((end - 1) & CHUNK_MASK) + 1
        self._set(last, (1 << tail) - 1, tail)

    def raise_floor(self, offset: int) -> None:
        """Make every offset below ``offset`` a member."""
        if offset > self.floor:
            self._raise(offset)

    def contains(self, offset: int) -> bool:
        """Whether ``offset`` is a member."""
        if offset < self.floor:
            return True
        bits = self._chunks.get(offset >> CHUNK_SHIFT, 0)
        return bits >> (offset & CHUNK_MASK) & 1 == 1

    def count_above(self) -> int:
        """How many members are above the floor."""
        return self._count

    def count_below(self, end: int) -> int:
        """How many members are in [floor, end)."""
        if end >= self.end or not self._count:
            return self._count
        last = end >> CHUNK_SHIFT
        below = (1 << (end & CHUNK_MASK)) - 1
        total = 0
        for chunk, bits in self._chunks.items():
            if chunk < last:
                total += bits.bit_count()
            elif chunk == last:
                total += (bits & below).bit_count()
        return total

    def first_missing(self, offset: int) -> int:
        """The lowest offset at or above ``offset`` that is not a member."""
        if offset <= self.floor:
            return self.floor
        if offset >= self.end:
            return offset
        while True:
            bits = self._chunks.get(offset >> CHUNK_SHIFT, 0) >> (offset & CHUNK_MASK)
            ones = _trailing_ones(bits)
            offset += ones
            if not ones or offset & CHUNK_MASK:
                return offset

    def first_present(self, offset: int, end: int) -> int:
        """The lowest member in [offset, end), or ``end``."""
        if offset < self.floor:
            return min(offset, end)
        stop = min(end, self.end)
        while offset < stop:
            bits = self._chunks.get(offset >> CHUNK_SHIFT, 0) >> (offset & CHUNK_MASK)
            if bits:
                return min(offset + _trailing_zeros(bits), end)
            offset = ((offset >> CHUNK_SHIFT) + 1) << CHUNK_SHIFT
        return end

    def runs(self, start: int, end: int) -> list[tuple[int, int]]:
        """The members in [start, end), as rising ranges that do not touch."""
        found: list[tuple[int, int]] = []
        present = self.first_present(start, end)
        while present < end:
            missing = min(self.first_missing(present), end)
            found.append((present, missing))
            present = self.first_present(missing, end)
        return found

    def gaps(self, start: int, end: int) -> list[tuple[int, int]]:
        """The offsets of [start, end) that are not members, as rising ranges."""
        found: list[tuple[int, int]] = []
        missing = self.first_missing(start)
        while missing < end:
            present = self.first_present(missing, end)
            found.append((missing, present))
            missing = self.first_missing(present)
        return found

    def ranges(self) -> list[tuple[int, int]]:
        """All members above the floor, as rising ranges that do not touch."""
        found: list[tuple[int, int]] = []
        for chunk in sorted(self._chunks):
            for start, end in bit_runs(self._chunks[chunk], chunk << CHUNK_SHIFT):
                if found and found[-1][1] == start:
                    found[-1] = (found[-1][0], end)
                else:
                    found.append((start, end))
        return found

    def to_bytes(self) -> bytes:
        """The set as bytes, equal for equal sets.

        Variable-length numbers (seven bits a byte, lowest first): the floor;
        then for each group of chunks the chunk numbers skipped since the last
        one, and how many full chunks follow; 0 means one chunk of 128 bytes,
        bit 0 of byte 0 being its lowest offset.
        """
        out = bytearray()
        _put(out, self.floor)
        expected = self.floor >> CHUNK_SHIFT
        chunks = sorted(self._chunks)
        at = 0
        while at < len(chunks):
            chunk = chunks[at]
            _put(out, chunk - expected)
            full = 0
            while at < len(chunks) and chunks[at] == chunk + full and self._chunks[chunks[at]] == FULL:
                full += 1
                at += 1
            _put(out, full)
            if not full:
                out += self._chunks[chunk].to_bytes(CHUNK_BYTES, "little")
                at += 1
            expected = chunk + max(full, 1)
        return bytes(out)

    @staticmethod
    def from_bytes(data: bytes) -> "OffsetSet":
        """The set that ``to_bytes`` wrote."""
        floor, at = _get(data, 0)
        made = OffsetSet(floor)
        chunk = floor >> CHUNK_SHIFT
        while at < len(data):
            skipped, at = _get(data, at)
            chunk += skipped
            full, at = _get(data, at)
            for _ in range(full):
                made._put_chunk(chunk, FULL)
                chunk += 1
            if not full:
                made._put_chunk(chunk, int.from_bytes(data[at : at + CHUNK_BYTES], "little"))
                at += CHUNK_BYTES
                chunk += 1
        return made

    def _put_chunk(self, chunk: int, bits: int) -> None:
        self._chunks[chunk] = bits
        self._count += bits.bit_count()
        self.end = (chunk << CHUNK_SHIFT) + bits.bit_length()

    def _set(self, chunk: int, bits: int, amount: int) -> None:
        """Set ``bits``, which has ``amount`` ones, in a chunk."""
        old = self._chunks.get(chunk, 0)
        if old:
            both = old & bits
            if both:
                amount -= both.bit_count()
            bits |= old
        self._count += amount
        self._chunks[chunk] = FULL if bits == FULL else bits

    def _raise(self, offset: int) -> None:
        """Move the floor up to ``offset``, and on over the members that follow."""
        old = self.floor
        self.floor = offset
        if offset > self.end:
            self.end = offset
        if not self._count:
            return
        self._drop_chunks(old >> CHUNK_SHIFT, offset >> CHUNK_SHIFT)
        chunks = self._chunks
        while True:
            chunk = offset >> CHUNK_SHIFT
            bits = chunks.get(chunk, 0)
            if not bits:
                return
            shift = offset & CHUNK_MASK
            left = bits >> shift
            ones = _trailing_ones(left) if left & 1 else 0
            offset += ones
            self.floor = offset
            left = left >> ones << (shift + ones)
            if left != bits:
                self._count -= bits.bit_count() - left.bit_count()
                if left:
                    chunks[chunk] = left
                else:
                    del chunks[chunk]
            if not ones or offset & CHUNK_MASK:
                return

    def _drop_chunks(self, first: int, end: int) -> None:
        """Forget the chunks [first, end), which lie below the new floor."""
        chunks = self._chunks
        if end - first <= len(chunks):
            numbers = list(range(first, end))
        else:
            numbers = [chunk for chunk in chunks if chunk < end]
        for chunk in numbers:
            bits = chunks.pop(chunk, 0)
            self._count -= bits.bit_count()


def _trailing_ones(bits: int) -> int:
    return (~bits & (bits + 1)).bit_length() - 1


def _trailing_zeros(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _put(out: bytearray, number: int) -> None:
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)


def _get(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
