from typing import Any

import msgspec
import pytest

from penstock.delivery.dedup import DUPLICATE, NEW, PRODUCER_EXPIRY_MS, DedupWindow, ProducerTable
from penstock.errors import ProducerFenced, SequenceOutOfOrder, SequenceReused
from penstock.wire.records import SEQUENCES


def test_an_id_is_seen_until_its_window_is_over() -> None:
    window = DedupWindow(1_000, 10)
    window.add("order-1", 3, 77, 5_000)

    assert window.seen("order-1", 5_000) == (3, 77, False)
    assert window.seen("order-1", 5_999) == (3, 77, False)
    assert window.seen("order-1", 6_000) is None
    assert window.seen("order-2", 5_000) is None


def test_an_id_may_point_into_the_schedule() -> None:
    window = DedupWindow(1_000, 10)
    window.add("later", 0, 2**62, 5_000, True)

    assert window.seen("later", 5_001) == (0, 2**62, True)


def test_the_largest_place_fits() -> None:
    window = DedupWindow(1_000, 10)
    window.add("edge", 2**20 - 1, 2**63 - 1, 2**45)

    assert window.seen("edge", 2**45) == (2**20 - 1, 2**63 - 1, False)


def test_an_id_published_again_after_its_window_is_known_at_its_new_place() -> None:
    window = DedupWindow(1_000, 10)
    window.add("order-1", 0, 1, 0)

    window.add("order-1", 0, 9, 2_000)

    assert window.seen("order-1", 2_500) == (0, 9, False)
    assert len(window) == 1


def test_the_time_of_an_id_is_known_while_it_is_remembered() -> None:
    window = DedupWindow(1_000, 10)
    window.add("order-1", 0, 1, 700)

    assert (window.time_ms("order-1"), window.time_ms("order-2")) == (700, -1)


def test_at_the_limit_the_oldest_id_goes_early_and_is_counted() -> None:
    window = DedupWindow(1_000, 2)
    window.add("a", 0, 1, 0)
    window.add("b", 0, 2, 1)

    window.add("c", 0, 3, 2)

    assert window.seen("a", 3) is None
    assert window.seen("b", 3) == (0, 2, False)
    assert window.seen("c", 3) == (0, 3, False)
    assert window.forgotten_early == 1


def test_an_id_that_was_too_old_anyway_is_not_forgotten_early() -> None:
    window = DedupWindow(1_000, 1)
    window.add("a", 0, 1, 0)

    window.add("b", 0, 2, 1_000)

    assert window.forgotten_early == 0


def test_old_ids_are_let_go_bit_by_bit() -> None:
    """No call pays for a whole window at once; a few calls do."""
    window = DedupWindow(1_000, 1_000)
    for number in range(100):
        window.add(str(number), 0, number, 0)

    for _ in range(30):
        window.seen("x", 5_000)

    assert len(window) == 0


def test_forget_lets_everything_old_go_at_once() -> None:
    window = DedupWindow(1_000, 1_000)
    for number in range(100):
        window.add(str(number), 0, number, number * 10)

    assert window.forget(1_500) == 51
    assert len(window) == 49


def test_a_window_of_nothing_sees_nothing() -> None:
    window = DedupWindow(0, 10)
    window.add("a", 0, 1, 7)

    assert window.seen("a", 7) is None


def test_times_out_of_order_keep_the_window_exact() -> None:
    """Rebuilding from several partitions adds one partition after the other."""
    window = DedupWindow(1_000, 10)
    window.add("late", 0, 1, 900)
    window.add("early", 1, 1, 100)

    assert window.seen("early", 1_099) == (1, 1, False)
    assert window.seen("early", 1_100) is None
    assert window.seen("late", 1_899) == (0, 1, False)


def table_with(*batches: tuple[int, int, int], epoch: int = 0) -> ProducerTable:
    table = ProducerTable()
    for base_sequence, count, base_offset in batches:
        table.record(7, epoch, base_sequence, count, base_offset, 1_000)
    return table


def test_the_next_sequence_is_new() -> None:
    table = table_with((0, 5, 100))

    assert table.check(7, 0, 5, 1) == (NEW, -1)


def test_a_batch_sent_again_is_a_duplicate_with_its_offset() -> None:
    table = table_with((0, 5, 100), (5, 2, 117))

    assert table.check(7, 0, 0, 5) == (DUPLICATE, 100)
    assert table.check(7, 0, 5, 2) == (DUPLICATE, 117)


def test_a_batch_older_than_those_kept_is_refused() -> None:
    """No client retries more than five, so its number was used again for something else."""
    table = table_with(*[(number, 1, 100 + number) for number in range(6)])

    with pytest.raises(SequenceReused):
        table.check(7, 0, 0, 1)
    assert table.check(7, 0, 1, 1) == (DUPLICATE, 101)


@pytest.mark.parametrize(("base_sequence", "count"), [(3, 4), (0, 1), (0, 4), (6, 4)])
def test_old_numbers_in_other_batches_are_refused(base_sequence: int, count: int) -> None:
    table = table_with((0, 5, 100), (5, 5, 117))

    with pytest.raises(SequenceReused) as caught:
        table.check(7, 0, base_sequence, count)
    assert caught.value.facts["sequence"] == base_sequence


def test_a_batch_that_was_written_in_parts_is_known_by_the_last_of_them() -> None:
    table = table_with((0, 5, 100), (9, 1, 117))

    assert table.check(7, 0, 5, 5) == (DUPLICATE, 117)


@pytest.mark.parametrize(("base_sequence", "count"), [(11, 1), (10 + SEQUENCES // 4, 1), (8, 5)])
def test_a_gap_or_an_overlap_is_out_of_order(base_sequence: int, count: int) -> None:
    table = table_with((0, 10, 100))

    with pytest.raises(SequenceOutOfOrder) as caught:
        table.check(7, 0, base_sequence, count)
    assert caught.value.facts == {"producer_id": 7, "sequence": base_sequence, "expected": 10}


def test_an_unknown_producer_may_start_anywhere() -> None:
    assert ProducerTable().check(7, 3, 4_711, 1) == (NEW, -1)


def test_a_new_epoch_starts_at_zero() -> None:
    table = table_with((0, 5, 100))

    assert table.check(7, 1, 0, 1) == (NEW, -1)
    with pytest.raises(SequenceOutOfOrder):
        table.check(7, 1, 5, 1)


def test_an_older_epoch_is_fenced() -> None:
    table = table_with((0, 5, 100))
    table.record(7, 1, 0, 1, 105, 1_000)

    with pytest.raises(ProducerFenced) as caught:
        table.check(7, 0, 5, 1)
    assert caught.value.facts == {"producer_id": 7, "epoch": 0, "current": 1}
    assert table.check(7, 1, 0, 1) == (DUPLICATE, 105)


def test_sequences_wrap_to_zero() -> None:
    table = table_with((SEQUENCES - 3, 5, 100))

    assert table.check(7, 0, SEQUENCES - 3, 5) == (DUPLICATE, 100)
    with pytest.raises(SequenceReused):
        table.check(7, 0, SEQUENCES - 9, 2)
    assert table.check(7, 0, 2, 1) == (NEW, -1)
    with pytest.raises(SequenceOutOfOrder):
        table.check(7, 0, 3, 1)


def test_the_outbox_may_leave_gaps() -> None:
    table = table_with((0, 5, 100))

    assert table.check_internal(7, 5, 1) == NEW
    assert table.check_internal(7, 900, 3) == NEW
    assert table.check_internal(7, 0, 5) == DUPLICATE
    assert table.check_internal(7, 4, 1) == DUPLICATE
    assert table.check_internal(8, 4, 1) == NEW


def test_an_idle_producer_is_forgotten_after_a_day() -> None:
    table = table_with((0, 5, 100))
    table.record(8, 0, 0, 1, 105, 2_000)

    assert table.expire(1_000 + PRODUCER_EXPIRY_MS - 1) == 0
    assert table.expire(1_000 + PRODUCER_EXPIRY_MS) == 1
    assert len(table) == 1
    assert table.expire(2_000 + PRODUCER_EXPIRY_MS) == 1
    assert table.check(7, 0, 99, 1) == (NEW, -1)


def test_a_producer_that_goes_on_is_not_forgotten() -> None:
    table = table_with((0, 5, 100))
    table.record(7, 0, 5, 1, 105, PRODUCER_EXPIRY_MS)

    assert table.expire(PRODUCER_EXPIRY_MS + 2_000) == 0


def test_a_table_survives_as_plain_values() -> None:
    table = table_with(*[(number, 1, 100 + number) for number in range(6)])
    table.record(3, 2, 0, 1, 106, 2_000)
    stored: Any = msgspec.msgpack.decode(msgspec.msgpack.encode(table.snapshot()))

    copy = ProducerTable()
    copy.restore(stored)

    assert copy.snapshot() == table.snapshot()
    assert copy.check(7, 0, 5, 1) == (DUPLICATE, 105)
    assert copy.expire(1_000 + PRODUCER_EXPIRY_MS) == 1
