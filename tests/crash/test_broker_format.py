"""Directories that earlier versions wrote are read by this one: messages, groups, schedules, dead letters.

The bytes are in tests/data and never change; ``scripts/make_test_data.py``
says what is in them.  A version that changes the format adds a directory of its
own, and goes on reading these.
"""

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.config.broker import BrokerConfig
from penstock.log.files import SystemFiles
from penstock.testing import ManualClock, TestBroker
from penstock.testing.clock import START_MS

STORED = Path(__file__).parents[1] / "data"
CONFIG = BrokerConfig(clock_check_ms=24 * 3600 * 1000)
WRITTEN_MS = START_MS + 65_000  # The clock of the process that wrote them, at its end.


@pytest.fixture(params=sorted(path.relative_to(STORED).as_posix() for path in STORED.glob("format-*/*")))
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestBroker]:
    shutil.copytree(STORED / request.param, tmp_path / "data")
    clock = ManualClock(WRITTEN_MS + 1000)
    with TestBroker.open(str(tmp_path / "data"), config=CONFIG, files=SystemFiles(), clock=clock) as broker:
        yield broker


def test_messages_are_read_with_everything_that_belongs_to_them(broker: TestBroker) -> None:
    stored = broker.read("orders", limit=100)
    orders = [message for message in stored if message.value.startswith(b"order ")]
    assert Counter(message.partition for message in orders) == {0: 6, 1: 7}  # One was redriven.
    for number, message in enumerate(sorted(orders[:12], key=lambda m: int(m.headers["number"]))):
        assert message.value == b"order %d " % number * 100
        assert message.key == b"customer-%d" % (number % 3)
        assert message.headers["content-type"] == "text/plain"
        assert message.priority == ("normal", "normal", "high", "low")[number % 4]
        assert message.timestamp == START_MS
        assert (message.partition, message.offset) == (number % 2, number // 2)
    others = [message for message in stored if not message.value.startswith(b"order ")]
    assert [message.value for message in others] == [b"short-lived", b"", b"in half a minute"]
    assert others[1].is_tombstone
    assert others[2].timestamp == START_MS + 30_000
    packed = [message.value for message in broker.read("packed")]
    assert packed == [b"packed %d " % number * 20 for number in range(10)]
    out = [message.value for message in broker.read("out")]
    assert out == [b"numbered 0", b"numbered 1", b"numbered 2", b"invoice"]


def test_settings_are_as_they_were(broker: TestBroker) -> None:
    assert broker.topics() == ["orders", "orders.dlq", "out", "packed"]
    assert broker.describe_topic("orders").settings.segment_bytes == 4096
    assert broker.describe_topic("packed").settings.compression == "gzip"
    groups = broker._core.state.topics["orders"].groups
    assert sorted(groups) == ["flow", "moved", "ordered", "work"]
    assert (groups["moved"].settings.max_attempts, groups["moved"].settings.backoff) == (
        7,
        "fixed:1000,60000",
    )
    assert groups["ordered"].settings.ordered


def test_groups_go_on_where_they_were(broker: TestBroker) -> None:
    work = broker.describe_group("orders", "work")
    # 12 orders, two more, one that was due, one redriven; of these 2 + 1 + 1 + 2 are settled.
    assert work.lag == 16 - 6
    assert [lag.floor for lag in broker.describe_group("orders", "moved").partitions] == [3, 0]
    flow = broker.describe_group("orders", "flow")
    assert sum(lag.floor for lag in flow.partitions) == 5
    seen = broker._core.state.topics["orders"].partitions
    failures = [failure for p in seen for failure in p.groups["work"].failures.values()]
    assert "no such customer 17" in {failure.error_message for failure in failures}


def test_everything_left_is_delivered_once(broker: TestBroker) -> None:
    settled = broker.describe_group("orders", "work").lag
    broker.advance("3h")
    delivered: Counter[str] = Counter()
    consumer = broker.consumer("orders", group="work", consumer_id="later")
    while messages := consumer.receive(100):
        delivered.update(message.id for message in messages)
        consumer.ack(messages)
    assert set(delivered.values()) == {1}
    # What expired is not delivered; what was due in an hour and moved to three came meanwhile.
    assert len(delivered) == settled - 1 + 2
    assert broker.describe_group("orders", "work").lag == 0


def test_what_is_scheduled_comes_in_its_time(broker: TestBroker) -> None:
    waiting = {entry.value: entry for entry in broker.scheduled("orders")}
    assert sorted(value or b"" for value in waiting) == [
        b"every morning", b"in a week", b"in an hour", b"moved",
    ]  # fmt: skip
    assert waiting[b"in an hour"].priority == "critical"
    assert waiting[b"moved"].due_ms == START_MS + 3 * 3600 * 1000
    assert (waiting[b"every morning"].cron, waiting[b"every morning"].timezone) == (
        "0 7 * * *",
        "Europe/Berlin",
    )
    before = len(broker.read("orders", limit=1000))
    broker.advance("8d")
    values = Counter(message.value for message in broker.read("orders", limit=1000)[before:])
    assert values == {b"in an hour": 1, b"moved": 1, b"in a week": 1, b"every morning": 8}


def test_dead_letters_and_repeats_are_known(broker: TestBroker) -> None:
    [letter] = broker.read("orders.dlq")
    assert letter.headers["x-death-reason"] == "rejected"
    assert letter.headers["x-error"] == "not an order"
    assert broker.dead_letters("orders") == []  # It was redriven.
    assert broker.publish("orders", b"again", dedup_id="order-3", partition=1).duplicate
    assert broker.producer().producer_id > 1


def test_the_story_of_a_message_can_still_be_told(broker: TestBroker) -> None:
    events = {event.event for event in broker.trace("orders", 1, 4).events}
    assert {"published", "delivered", "acked", "sent"} <= events
