"""What a broker refuses: the broker that is asked, and the error that is expected."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.model.message import Message
from penstock.testing import TestBroker

BAD_DURATIONS: list[Any] = [
    "",
    "5",
    "soon",
    "5 minutes",
    "-5s",
    "1h-5m",
    "5x",
    "m5",
    "1e3s",
    "٣s",
    None,
    True,
    [],
    float("nan"),
]


def with_orders(broker: TestBroker) -> TestBroker:
    """It gets a topic ``orders`` of two partitions, three messages and a group ``g``."""
    broker.create_topic("orders", partitions=2, message_bytes_max=1000)
    broker.publish_batch("orders", [Message(b"%d" % number, partition=0) for number in range(3)])
    broker.create_group("orders", "g")
    return broker


def refuse(error: type[PenstockError], call: Callable[[], object], *words: str) -> None:
    """The call raises exactly this error, and its sentence has these words and its code."""
    with pytest.raises(PenstockError) as caught:
        call()
    assert type(caught.value) is error, f"{type(caught.value).__name__}: {caught.value}"
    text = str(caught.value)
    assert text.endswith(f"[{error.code}]")
    for word in words:
        assert word in text
