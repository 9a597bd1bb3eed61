"""Values that need no more than a place in a batch, and the receipts of a batch."""

from datetime import timedelta
from typing import Any

import pytest

from penstock.model.message import Message, Receipt, bare_values, receipts_from


def test_values_and_messages_with_nothing_but_a_value_are_bare() -> None:
    assert bare_values([b"a", Message(b"b"), Message(b"", headers={}), b""], 1) == [b"a", b"b", b"", b""]
    assert bare_values([], 1) == []


@pytest.mark.parametrize(
    "more",
    [
        Message(b"a", key="k"),
        Message(b"a", key=""),
        Message(b"a", headers={"h": "v"}),
        Message(b"a", priority="high"),
        Message(b"a", priority="normal"),
        Message(b"a", priority=1),
        Message(b"a", ttl="1h"),
        Message(b"a", ttl=0),
        Message(b"a", delay=timedelta(0)),
        Message(b"a", deliver_at=0),
        Message(b"a", dedup_id=""),
        Message(b"a", partition=0),
        Message(None, key="k"),
        Message(None),
        Message(b"ab"),
        b"ab",
        bytearray(b"a"),
        memoryview(b"a"),
        "a",
        None,
        1,
    ],
    ids=lambda more: type(more).__name__,
)
def test_one_message_that_is_more_makes_the_batch_no_longer_bare(more: Any) -> None:
    assert bare_values([b"a", more], 1) is None
    assert bare_values([more, b"a"], 1) is None


def test_receipts_of_a_batch_are_those_of_its_messages_one_by_one() -> None:
    assert receipts_from("t", 3, 7, 50, 2) == [Receipt("t", 3, 7, 50), Receipt("t", 3, 8, 50)]
    assert receipts_from("t", 3, 7, 50, 0) == []
