from penstock.delivery.retries import PARKED_MS, RetryQueue, without


def test_the_earliest_goes_first_and_at_the_same_time_the_lowest() -> None:
    queue = RetryQueue()
    queue.put(20, 22, 2, 500)
    queue.put(9, 10, 3, 500)
    queue.put(30, 31, 2, 400)

    assert queue.next_due_ms() == 400
    assert [queue.pop(10), queue.pop(10), queue.pop(10)] == [(30, 31, 2), (9, 10, 3), (20, 22, 2)]
    assert (queue.count, queue.next_due_ms()) == (0, -1)


def test_the_rest_of_a_range_keeps_its_place() -> None:
    queue = RetryQueue()
    queue.put(0, 10, 2, 500)
    queue.put(40, 41, 2, 501)

    assert queue.pop(4) == (0, 4, 2)
    assert queue.entries() == [(500, 4, 10, 2), (501, 40, 41, 2)]
    assert queue.count == 7


def test_what_is_due_and_continues_a_range_is_known() -> None:
    queue = RetryQueue()
    queue.put(4, 6, 2, 500)

    assert not queue.is_due(499)
    assert queue.is_due(500)
    assert queue.continues(4, 2, 500)
    assert not queue.continues(4, 2, 499)
    assert not queue.continues(4, 3, 500)
    assert not queue.continues(3, 2, 500)


def test_parked_offsets_are_listed_as_ranges_of_one_attempt() -> None:
    queue = RetryQueue()
    queue.put(3, 5, 1, PARKED_MS)
    queue.put(5, 6, 2, PARKED_MS + 1)
    queue.put(1, 3, 1, PARKED_MS)
    queue.put(9, 10, 1, PARKED_MS)

    assert queue.entries() == [(PARKED_MS, 1, 5, 1), (PARKED_MS, 5, 6, 2), (PARKED_MS, 9, 10, 1)]
    assert (queue.count, queue.next_due_ms()) == (6, -1)


def test_a_range_is_taken_from_the_first_retries_and_the_parked() -> None:
    queue = RetryQueue()
    queue.put(0, 2, 2, 500)
    queue.put(2, 4, 2, PARKED_MS)
    queue.put(4, 9, 2, 600)
    queue.put(9, 12, 2, 550)

    assert queue.take(0, 6) == 4  # Not on to 4: at 550, 9 is due before it.
    assert queue.take(9, 10) == 10
    assert queue.entries() == [(550, 10, 12, 2), (600, 4, 9, 2)]
    assert queue.count == 7


def test_a_range_is_forgotten_wherever_it_is() -> None:
    queue = RetryQueue()
    queue.put(0, 10, 2, 500)
    queue.put(10, 14, 1, PARKED_MS)
    queue.put(20, 30, 2, 400)

    queue.forget(8, 22)

    assert queue.entries() == [(400, 22, 30, 2), (500, 0, 8, 2)]
    assert queue.count == 16
    assert queue.pop(1) == (22, 23, 2)


def test_the_attempt_of_a_waiting_offset_is_known() -> None:
    queue = RetryQueue()
    queue.put(0, 2, 2, 500)
    queue.put(2, 3, 7, PARKED_MS)

    assert [queue.attempt_of(offset) for offset in range(4)] == [2, 2, 7, 0]


def test_after_clear_nothing_waits() -> None:
    queue = RetryQueue()
    queue.put(0, 2, 2, 500)
    queue.put(2, 3, 7, PARKED_MS)

    queue.clear()

    assert (queue.count, queue.entries(), queue.attempt_of(2)) == (0, [], 0)


def test_without_leaves_the_gaps() -> None:
    assert without(0, 10, []) == [(0, 10)]
    assert without(0, 10, [(2, 3), (5, 12), (20, 30)]) == [(0, 2), (3, 5)]
    assert without(4, 10, [(0, 2), (3, 5), (9, 10)]) == [(5, 9)]
    assert without(4, 10, [(0, 20)]) == []


def test_the_lowest_offset_that_waits_for_a_time_is_known() -> None:
    queue = RetryQueue()
    assert queue.lowest() is None
    queue.put(3, 4, 1, PARKED_MS)
    assert queue.lowest() is None

    queue.put(40, 60, 2, 5000)
    queue.put(7, 8, 3, 9000)

    assert queue.lowest() == (7, 3, 9000)
    queue.forget(0, 45)
    assert queue.lowest() == (45, 2, 5000)
