"""OffsetSet against a set of ints."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.delivery.offsets import CHUNK_SIZE, OffsetSet

# Small numbers, numbers around the edges of chunks, and all between.
OFFSETS = st.one_of(
    st.integers(0, 40),
    st.builds(lambda chunk, step: max(0, chunk * CHUNK_SIZE + step), st.integers(0, 4), st.integers(-3, 3)),
    st.integers(0, 5 * CHUNK_SIZE),
)
SIZES = st.one_of(st.integers(0, 3), st.integers(0, 3 * CHUNK_SIZE))
STEPS = st.lists(st.tuples(OFFSETS, SIZES, st.integers(0, 9)), max_size=20)
TOP = 9 * CHUNK_SIZE


def runs_of(members: set[int], start: int, end: int) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for offset in range(start, end):
        if offset in members:
            if runs and runs[-1][1] == offset:
                runs[-1] = (runs[-1][0], offset + 1)
            else:
                runs.append((offset, offset + 1))
    return runs


@given(floor=OFFSETS, steps=STEPS, looks=st.lists(st.tuples(OFFSETS, SIZES), max_size=8))
def test_it_is_a_set_of_offsets(
    floor: int, steps: list[tuple[int, int, int]], looks: list[tuple[int, int]]
) -> None:
    offsets = OffsetSet(floor)
    members = set(range(floor))
    for start, size, kind in steps:
        if kind == 0:
            offsets.raise_floor(start)
            members |= set(range(start))
        else:
            offsets.add(start, start + size)
            members |= set(range(start, start + size))

    missing = sorted(set(range(TOP)) - members)
    floor = missing[0]
    assert offsets.floor == floor
    assert offsets.end == max(floor, max(members, default=-1) + 1)
    assert offsets.count_above() == sum(offset > floor for offset in members)
    assert offsets.ranges() == runs_of(members, floor, TOP)
    for start, size in looks:
        end = start + size
        assert offsets.contains(start) == (start in members)
        assert offsets.first_missing(start) == next(offset for offset in missing if offset >= start)
        assert offsets.first_present(start, end) == min(
            (offset for offset in range(start, end) if offset in members), default=end
        )
        assert offsets.runs(start, end) == runs_of(members, start, end)
        assert offsets.gaps(start, end) == runs_of(set(missing), start, end)
        assert offsets.count_below(end) == sum(floor <= offset < end for offset in members)


@given(floor=OFFSETS, steps=STEPS)
def test_equal_sets_have_equal_bytes_however_they_came_about(
    floor: int, steps: list[tuple[int, int, int]]
) -> None:
    there, back = OffsetSet(floor), OffsetSet(floor)
    for start, size, _ in steps:
        there.add(start, start + size)
    for start, size, _ in reversed(steps):
        for offset in range(start + size - 1, start - 1, -1):
            back.add(offset, offset + 1)

    assert there.to_bytes() == back.to_bytes()
    copy = OffsetSet.from_bytes(there.to_bytes())
    assert copy.to_bytes() == there.to_bytes()
    assert (copy.floor, copy.end, copy.count_above()) == (there.floor, there.end, there.count_above())
