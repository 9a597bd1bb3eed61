"""Due times in memory: a wheel of seconds, and a heap for the one that has come."""

from penstock.schedule.near import NearTimes


def always(due_ms: int, number: int) -> bool:
    return True


def drain(near: NearTimes, now_ms: int) -> list[tuple[int, int]]:
    found = []
    while (item := near.pop(now_ms, always)) is not None:
        found.append(item)
    return found


def test_what_is_due_comes_in_the_order_of_time_and_number() -> None:
    near = NearTimes()
    for due_ms, number in [(5_200, 1), (5_100, 2), (1_999, 3), (5_100, 0), (70_000, 4)]:
        near.add(due_ms, number)

    assert drain(near, 5_100) == [(1_999, 3), (5_100, 0), (5_100, 2)]
    assert drain(near, 5_199) == []
    assert drain(near, 100_000) == [(5_200, 1), (70_000, 4)]


def test_the_next_due_time_is_known_whatever_the_order_of_adding() -> None:
    near = NearTimes()
    assert near.next_ms() == -1

    for due_ms, next_ms in [(5_200, 5_200), (5_300, 5_200), (5_100, 5_100), (9_000, 5_100), (4_999, 4_999)]:
        near.add(due_ms, 1)
        assert near.next_ms() == next_ms

    drain(near, 5_150)
    assert near.next_ms() == 5_200


def test_what_is_added_late_is_taken_before_what_was_ready() -> None:
    near = NearTimes()
    near.add(1_500, 1)
    near.add(1_700, 2)
    assert near.pop(1_500, always) == (1_500, 1)

    near.add(1_600, 3)
    near.add(900, 4)

    assert drain(near, 2_000) == [(900, 4), (1_600, 3), (1_700, 2)]


def test_what_is_void_is_dropped() -> None:
    near = NearTimes()
    for number in range(4):
        near.add(1_000, number)

    assert near.pop(1_000, lambda due_ms, number: number != 0) == (1_000, 1)
    assert near.pop(1_000, lambda due_ms, number: number == 3) == (1_000, 3)
    assert near.next_ms() == -1


def test_a_clock_that_goes_back_only_makes_things_wait() -> None:
    near = NearTimes()
    near.add(1_500, 1)
    near.add(1_800, 2)
    assert near.pop(1_500, always) == (1_500, 1)

    assert near.pop(1_000, always) is None
    assert near.pop(1_800, always) == (1_800, 2)


def test_large_numbers_fit() -> None:
    near = NearTimes()
    number = (1 << 53) - 1
    due_ms = 33_000_000_000_999

    near.add(due_ms, number)

    assert near.pop(due_ms, always) == (due_ms, number)


def test_a_second_is_not_put_in_order_before_its_turn() -> None:
    """A long backlog after an outage must not be in the heap at once, where it takes six times the memory."""
    near = NearTimes()
    for second in range(100):
        near.add(second * 1_000, second)

    assert near.pop(100_000, always) == (0, 0)
    assert len(near._slots) == 99
