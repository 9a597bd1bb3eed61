"""Receipts: many written and read at once, and none made up."""

import pytest

from penstock.frontends.http.consumers.receipts import LENGTH, ReceiptCodec, ReceiptedLeases

OFFSETS = list(range(998, 1098))


def facts(run: ReceiptedLeases) -> tuple[int, int, int, int, int]:
    return run.consumer, run.partition, run.lease, run.start, run.end


def test_neighbours_are_one_run_in_whatever_order_they_come() -> None:
    receipts = ReceiptCodec()
    written = receipts.write(3, 7, 41, OFFSETS)

    runs, unknown = receipts.read(written[::-1])

    assert [facts(run) for run in runs] == [(3, 7, 41, 998, 1098)]
    assert (runs[0].receipts, unknown) == (written, [])


def test_a_gap_another_lease_and_another_consumer_begin_a_new_run() -> None:
    receipts = ReceiptCodec()
    written = [
        *receipts.write(1, 0, 5, [1, 2, 4]),
        *receipts.write(1, 0, 6, [5]),
        *receipts.write(1, 1, 6, [6]),
        *receipts.write(2, 1, 6, [7]),
    ]

    runs, _ = receipts.read(written)

    assert [facts(run) for run in runs] == [
        (1, 0, 5, 1, 3),
        (1, 0, 5, 4, 5),
        (1, 0, 6, 5, 6),
        (1, 1, 6, 6, 7),
        (2, 1, 6, 7, 8),
    ]


def test_a_run_comes_apart_into_its_messages() -> None:
    receipts = ReceiptCodec()
    [run], _ = receipts.read(receipts.write(1, 0, 5, [7, 8]))

    assert [(facts(one), one.receipts) for one in run.singly()] == [
        ((1, 0, 5, 7, 8), run.receipts[:1]),
        ((1, 0, 5, 8, 9), run.receipts[1:]),
    ]


def test_a_receipt_with_any_character_changed_is_unknown() -> None:
    receipts = ReceiptCodec()
    [written] = receipts.write(1, 0, 5, [7])
    changed = [
        written[:at] + ("A" if written[at] != "A" else "B") + written[at + 1 :] for at in range(LENGTH)
    ]

    runs, unknown = receipts.read(changed)

    assert (runs, unknown) == ([], changed)


def test_neighbours_share_a_hash_and_no_part_of_it() -> None:
    receipts = ReceiptCodec()
    written = receipts.write(1, 0, 5, list(range(8)))
    macs = [receipt[-20:] for receipt in written]
    swapped = [written[at][:-20] + macs[at ^ 1] for at in range(8)]

    runs, unknown = receipts.read(swapped)

    assert len(set(macs)) == 8
    assert (runs, unknown) == ([], swapped)


def test_a_receipt_of_another_process_is_unknown() -> None:
    written = ReceiptCodec().write(1, 0, 5, [7])

    assert ReceiptCodec().read(written) == ([], written)


@pytest.mark.parametrize(
    "wrong", ["", "x", "ü" * LENGTH, "=" * LENGTH, "A" * LENGTH, "+" * LENGTH, "\n" * LENGTH, "A" * 9999]
)
def test_one_that_is_no_receipt_does_not_spoil_the_others(wrong: str) -> None:
    receipts = ReceiptCodec()
    written = receipts.write(1, 0, 5, [7, 8])

    runs, unknown = receipts.read([written[0], wrong, written[1]])

    assert ([facts(run) for run in runs], unknown) == ([(1, 0, 5, 7, 9)], [wrong])


def test_a_receipt_is_written_in_one_way_only() -> None:
    receipts = ReceiptCodec()
    written = receipts.write(1, 0, (1 << 62) - 1, [(1 << 62) - 1])
    plain = written[0].replace("-", "+").replace("_", "/")
    assert plain != written[0]

    assert receipts.read([plain]) == ([], [plain])


def test_no_receipts_are_nothing() -> None:
    assert ReceiptCodec().read([]) == ([], [])
