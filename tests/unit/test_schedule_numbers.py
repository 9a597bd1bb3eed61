"""The set of waiting numbers: bits that come and go."""

from penstock.schedule.numbers import CHUNK_SIZE, NumberSet


def numbers(*members: int) -> NumberSet:
    found = NumberSet()
    for member in members:
        found.add(member)
    return found


def test_members_are_found_and_counted() -> None:
    found = numbers(3, 700, CHUNK_SIZE - 1, CHUNK_SIZE)

    assert [number in found for number in (2, 3, 700, CHUNK_SIZE, 701)] == [False, True, True, True, False]
    assert found.count == 4
    assert list(found.members(0)) == [3, CHUNK_SIZE - 1, CHUNK_SIZE, 700]


def test_members_can_be_listed_from_anywhere() -> None:
    found = numbers(3, 5, 2_000)

    assert list(found.members(4)) == [5, 2_000]
    assert list(found.members(2_001)) == []


def test_a_chunk_that_becomes_empty_is_forgotten() -> None:
    found = numbers(3, 1_000_000)

    found.remove(1_000_000)

    assert len(found._chunks) == 1
    assert found.first() == 3
    found.remove(3)
    assert found.first() == -1
    assert found.count == 0


def test_old_members_are_dropped_by_the_chunk() -> None:
    found = numbers(3, CHUNK_SIZE, CHUNK_SIZE + 7, 5 * CHUNK_SIZE)

    found.drop_before(CHUNK_SIZE + 7)

    assert list(found.members(0)) == [CHUNK_SIZE, CHUNK_SIZE + 7, 5 * CHUNK_SIZE]
    assert found.count == 3


def test_listing_goes_on_while_members_leave() -> None:
    found = numbers(1, 2, 3, 900)
    listing = found.members(0)
    assert next(listing) == 1

    found.remove(2)
    found.remove(900)

    assert list(listing) == [3]
