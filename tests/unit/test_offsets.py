from penstock.delivery.offsets import CHUNK_SIZE, OffsetSet, bit_runs


def test_offsets_added_in_order_only_move_the_floor() -> None:
    settled = OffsetSet(5)

    settled.add(5, 105)
    settled.add(105, 10_000)

    assert settled.floor == 10_000
    assert settled.count_above() == 0
    assert settled.ranges() == []


def test_an_offset_above_the_floor_waits_for_the_gap_to_close() -> None:
    settled = OffsetSet(0)

    settled.add(3, 5)
    assert (settled.floor, settled.count_above(), settled.ranges()) == (0, 2, [(3, 5)])
    settled.add(0, 3)

    assert (settled.floor, settled.count_above(), settled.ranges()) == (5, 0, [])


def test_the_floor_runs_on_over_full_chunks() -> None:
    settled = OffsetSet(0)
    settled.add(1, 5 * CHUNK_SIZE + 7)

    settled.add(0, 1)

    assert settled.floor == 5 * CHUNK_SIZE + 7
    assert settled.count_above() == 0


def test_the_floor_stops_at_the_edge_of_a_chunk_that_is_followed_by_nothing() -> None:
    settled = OffsetSet(0)
    settled.add(1, CHUNK_SIZE)
    settled.add(CHUNK_SIZE + 1, CHUNK_SIZE + 2)

    settled.add(0, 1)

    assert settled.floor == CHUNK_SIZE
    assert settled.ranges() == [(CHUNK_SIZE + 1, CHUNK_SIZE + 2)]


def test_adding_what_is_there_counts_it_once() -> None:
    settled = OffsetSet(0)
    settled.add(10, 20)

    settled.add(5, 25)
    settled.add(12, 13)

    assert settled.count_above() == 20
    assert settled.ranges() == [(5, 25)]


def test_an_empty_range_adds_nothing() -> None:
    settled = OffsetSet(4)

    settled.add(9, 9)
    settled.add(4, 4)
    settled.add(3, 2)

    assert (settled.floor, settled.end, settled.count_above()) == (4, 4, 0)


def test_raising_the_floor_drops_what_lies_below_and_absorbs_what_touches() -> None:
    settled = OffsetSet(0)
    settled.add(10, 20)
    settled.add(3 * CHUNK_SIZE, 3 * CHUNK_SIZE + 5)

    settled.raise_floor(15)
    assert (settled.floor, settled.count_above()) == (20, 5)
    settled.raise_floor(2)
    assert settled.floor == 20
    settled.raise_floor(10 * CHUNK_SIZE)

    assert (settled.floor, settled.end, settled.count_above()) == (10 * CHUNK_SIZE, 10 * CHUNK_SIZE, 0)


def test_a_far_jump_of_the_floor_costs_the_chunks_that_exist() -> None:
    settled = OffsetSet(0)
    settled.add(7, 8)
    settled.add(2**60 + 1, 2**60 + 2)

    settled.raise_floor(2**60)

    assert settled.ranges() == [(2**60 + 1, 2**60 + 2)]


def test_members_and_gaps_are_listed_within_bounds() -> None:
    settled = OffsetSet(2)
    settled.add(4, 6)
    settled.add(CHUNK_SIZE - 1, CHUNK_SIZE + 1)

    assert settled.runs(0, 5) == [(0, 2), (4, 5)]
    assert settled.gaps(0, 5) == [(2, 4)]
    assert settled.runs(5, CHUNK_SIZE + 9) == [(5, 6), (CHUNK_SIZE - 1, CHUNK_SIZE + 1)]
    assert settled.gaps(5, CHUNK_SIZE + 9) == [(6, CHUNK_SIZE - 1), (CHUNK_SIZE + 1, CHUNK_SIZE + 9)]
    assert settled.ranges() == [(4, 6), (CHUNK_SIZE - 1, CHUNK_SIZE + 1)]
    assert settled.first_missing(0) == 2
    assert settled.first_missing(4) == 6
    assert settled.first_present(2, 100) == 4
    assert settled.first_present(6, 100) == 100
    assert settled.count_below(5) == 1
    assert [settled.contains(offset) for offset in range(7)] == [True, True, False, False, True, True, False]


def test_a_set_survives_as_bytes() -> None:
    settled = OffsetSet(700)
    settled.add(702, 703)
    settled.add(2 * CHUNK_SIZE, 9 * CHUNK_SIZE + 3)
    settled.add(20 * CHUNK_SIZE, 21 * CHUNK_SIZE)

    copy = OffsetSet.from_bytes(settled.to_bytes())

    assert copy.ranges() == settled.ranges()
    assert (copy.floor, copy.end, copy.count_above()) == (700, 21 * CHUNK_SIZE, settled.count_above())
    assert copy.to_bytes() == settled.to_bytes()


def test_long_settled_runs_take_few_bytes() -> None:
    settled = OffsetSet(0)
    settled.add(1, 10_000_000)

    assert len(settled.to_bytes()) < 300


def test_runs_of_bits_are_found_in_one_pass() -> None:
    assert bit_runs(0, 10) == []
    assert bit_runs(0b1, 10) == [(10, 11)]
    assert bit_runs(0b1101100, 10) == [(12, 14), (15, 17)]
    assert len(bit_runs(int("01" * 100_000, 2), 0)) == 100_000
