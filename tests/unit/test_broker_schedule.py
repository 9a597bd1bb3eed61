"""Delayed and recurring messages: when they come, and what becomes of them meanwhile."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from penstock import BrokerConfig, Message
from penstock.errors import DelayOutOfRange
from penstock.log.files import MemoryFiles
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk

BERLIN = ZoneInfo("Europe/Berlin")


def at(moment: datetime) -> ManualClock:
    return ManualClock(int(moment.timestamp() * 1000))


def times(broker: TestBroker, zone: ZoneInfo) -> list[str]:
    """When the messages of the topic came, by the clock on the wall there."""
    return [
        message.published_at.astimezone(zone).strftime("%m-%d %H:%M %Z") for message in broker.read("orders")
    ]


@pytest.mark.parametrize("delay", ["30m", 1800, timedelta(minutes=30), 1800.0])
def test_a_delayed_message_comes_when_it_is_due_and_not_before(
    penstock: TestBroker, delay: timedelta | float | str
) -> None:
    penstock.create_topic("orders")
    receipt = penstock.publish("orders", b"later", key="k", headers={"h": "v"}, delay=delay)
    consumer = penstock.consumer("orders")

    assert (receipt.offset, receipt.schedule_id) == (None, "orders:0:s0")
    assert receipt.id == receipt.schedule_id
    assert consumer.receive(wait="1799999ms") == []
    [message] = consumer.receive(wait="1ms")
    assert (message.value, message.key, message.headers["h"]) == (b"later", b"k", "v")
    assert message.timestamp == receipt.timestamp + 1_800_000


@pytest.mark.parametrize(
    "deliver_at",
    [
        datetime(2026, 1, 2, tzinfo=UTC),
        datetime(2026, 1, 2, 1, tzinfo=BERLIN),
        "2026-01-02T00:00:00Z",
        1767312000,
    ],
)
def test_a_message_may_name_the_time_it_is_due(
    penstock: TestBroker, deliver_at: datetime | str | float
) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x", deliver_at=deliver_at)

    penstock.advance("86399999ms")
    assert penstock.read("orders") == []
    penstock.advance("1ms")
    assert len(penstock.read("orders")) == 1


def test_a_time_that_has_passed_is_due_now(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x", deliver_at=datetime(2020, 1, 1, tzinfo=UTC))
    penstock.publish("orders", b"y", delay=0)

    assert len(penstock.consumer("orders").receive(10, wait="1ms")) == 2


def test_due_messages_come_in_the_order_of_their_due_times(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    for delay in (50, 10, 40, 20, 30, 10):
        penstock.publish("orders", b"%d" % delay, delay=delay)

    penstock.advance("1m")

    assert [m.value for m in penstock.read("orders")] == [b"10", b"10", b"20", b"30", b"40", b"50"]


def test_what_waits_can_be_listed_and_counted(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=2)
    for number in range(3):
        penstock.publish(
            "orders",
            b"%d" % number,
            key="k",
            headers={"h": "v"},
            priority="high",
            delay=f"{number + 1}h",
            partition=number % 2,
        )

    listed = penstock.scheduled("orders")

    assert penstock.scheduled_count("orders") == 3
    assert [(entry.id, entry.value) for entry in listed] == [
        ("orders:0:s0", b"0"),
        ("orders:0:s1", b"2"),
        ("orders:1:s0", b"1"),
    ]
    first = listed[0]
    assert (first.topic, first.partition, first.key, first.headers) == ("orders", 0, b"k", {"h": "v"})
    assert (first.priority, first.cron, first.timezone) == ("high", None, None)
    assert first.due_ms == penstock.clock.wall_ms() + 3_600_000
    assert len(penstock.scheduled("orders", limit=2)) == 2
    penstock.advance("1h")
    assert penstock.scheduled_count("orders") == 2


def test_a_cancel_says_what_became_of_the_message(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    taken_back = penstock.publish("orders", b"x", delay="1h").id
    delivered = penstock.publish("orders", b"y", delay="1m").id
    penstock.advance("1m")

    assert penstock.cancel(taken_back) == "cancelled"
    assert penstock.cancel(taken_back) == "cancelled"
    assert penstock.cancel(delivered) == "delivered"
    assert penstock.cancel("orders:0:s99") == "unknown"
    penstock.advance("2h")
    assert [message.value for message in penstock.read("orders")] == [b"y"]
    assert penstock.scheduled_count("orders") == 0


def test_a_cancel_where_nothing_was_ever_scheduled_is_unknown(penstock: TestBroker) -> None:
    penstock.create_topic("orders")

    assert penstock.cancel("orders:0:s0") == "unknown"
    assert penstock.reschedule("orders:0:s0", delay="1h") is False


def test_a_message_may_be_moved_both_ways(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    sooner = penstock.publish("orders", b"sooner", delay="10h").id
    later = penstock.publish("orders", b"later", delay="1h").id

    assert penstock.reschedule(sooner, delay="1m")
    assert penstock.reschedule(later, deliver_at=datetime(2026, 1, 3, tzinfo=UTC))

    penstock.advance("1m")
    assert [message.value for message in penstock.read("orders")] == [b"sooner"]
    penstock.advance("1d")
    assert len(penstock.read("orders")) == 1
    penstock.advance("1d")
    assert [message.value for message in penstock.read("orders")] == [b"sooner", b"later"]
    assert penstock.reschedule(later, delay="1h") is False


def test_a_schedule_survives_close_and_crash_and_delivers_once() -> None:
    disk, clock = CrashDisk(), ManualClock()
    broker = TestBroker.open("data", files=disk, clock=clock)
    broker.create_topic("orders")
    broker.publish("orders", b"stays", delay="2h")
    cancelled = broker.publish("orders", b"cancelled", delay="1h").id
    moved = broker.publish("orders", b"moved", delay="1h").id
    broker.publish("orders", b"early", delay="1m")
    broker.cancel(cancelled)
    broker.reschedule(moved, delay="3h")
    broker.advance("1m")

    for life in range(4):
        if life % 2:
            broker.close()
        else:
            disk.kill()
        broker = TestBroker.open("data", files=disk, clock=clock)
        assert [message.value for message in broker.read("orders")] == [b"early"]
        assert broker.scheduled_count("orders") == 2
        assert broker.cancel(cancelled) == "cancelled"

    broker.advance("4h")
    assert [message.value for message in broker.read("orders")] == [b"early", b"stays", b"moved"]
    broker.close()


def test_what_became_due_while_the_broker_was_down_comes_at_once() -> None:
    files, clock = MemoryFiles(), ManualClock()
    with TestBroker.open("data", files=files, clock=clock) as broker:
        broker.create_topic("orders")
        broker.publish("orders", b"x", delay="1h")

    clock.move_to(clock.steady_ms() + 86_400_000)
    with TestBroker.open("data", files=files, clock=clock) as broker:
        assert [m.value for m in broker.consumer("orders").receive(10, wait="1ms")] == [b"x"]


def test_a_wall_clock_set_forward_makes_things_due_within_a_second() -> None:
    with TestBroker.open(config=BrokerConfig()) as broker:
        broker.create_topic("orders")
        broker.publish("orders", b"x", delay="1d")
        broker.advance("10s")

        broker.clock.step_wall("1d")
        broker.advance("1s")

        assert len(broker.read("orders")) == 1


@pytest.mark.parametrize(
    "steps", [[("2h", True)], [("2h", False), ("2h", True)], [("30m", True), ("3h", False)]]
)
def test_whatever_the_wall_clock_does_a_message_comes_once(steps: list[tuple[str, bool]]) -> None:
    with TestBroker.open(config=BrokerConfig()) as broker:
        broker.create_topic("orders")
        broker.publish("orders", b"x", delay="1h")
        for step, back in steps:
            broker.advance("10m")
            broker.clock.step_wall(step, back=back)
        broker.advance("1d")

        assert [message.value for message in broker.read("orders")] == [b"x"]
        assert broker.scheduled_count("orders") == 0


def test_a_restart_after_the_clock_was_set_back_does_not_deliver_again() -> None:
    files, clock = MemoryFiles(), ManualClock()
    with TestBroker.open("data", files=files, clock=clock) as broker:
        broker.create_topic("orders")
        broker.publish("orders", b"x", delay="1h")
        broker.advance("1h")

    clock.step_wall("2h", back=True)
    with TestBroker.open("data", files=files, clock=clock) as broker:
        broker.advance("1d")
        assert len(broker.read("orders")) == 1


def test_the_longest_delay_is_a_year_and_can_be_set() -> None:
    # A year has half a million minutes, and upkeep comes every minute; once a day is enough here.
    day_ms = 86_400_000
    with TestBroker.open(config=BrokerConfig(maintenance_ms=day_ms, clock_check_ms=day_ms)) as broker:
        broker.create_topic("orders")
        broker.create_topic("soon", delay_max="1h")
        broker.publish("orders", b"x", delay="365d")
        broker.publish("soon", b"x", delay="1h")

        with pytest.raises(DelayOutOfRange):
            broker.publish("orders", b"x", delay="365d1s")
        with pytest.raises(DelayOutOfRange):
            broker.publish("soon", b"x", deliver_at=datetime(2026, 1, 1, 1, 0, 1, tzinfo=UTC))
        with pytest.raises(DelayOutOfRange):
            broker.reschedule("soon:0:s0", delay="2h")
        broker.advance("365d")
        assert len(broker.read("orders")) == 1


def test_a_batch_may_mix_now_and_later(penstock: TestBroker) -> None:
    penstock.create_topic("orders")

    now, later = penstock.publish_batch("orders", [Message(b"now"), Message(b"later", delay="1m")])

    assert (now.offset, now.schedule_id, later.offset) == (0, None, None)
    assert [message.value for message in penstock.read("orders")] == [b"now"]
    penstock.advance("1m")
    assert [message.value for message in penstock.read("orders")] == [b"now", b"later"]


def test_many_due_at_once_all_come(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish_batch("orders", [Message(b"%d" % number, delay="1m") for number in range(2500)])

    penstock.advance("1m")

    values = [int(message.value) for message in penstock.read("orders", limit=10_000)]
    assert values == list(range(2500))


# Recurring.


def test_a_recurring_message_comes_at_every_time_of_its_expression(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    schedule_id = penstock.schedule("orders", b"tick", cron="*/15 * * * *", key="k", headers={"h": "v"})

    penstock.advance("1h")

    messages = penstock.read("orders")
    assert [message.published_at.minute for message in messages] == [15, 30, 45, 0]
    assert {message.value for message in messages} == {b"tick"}
    assert messages[0].key == b"k"
    assert messages[0].headers["h"] == "v"
    [entry] = penstock.scheduled("orders")
    assert (entry.id, entry.cron, entry.timezone) == (schedule_id, "*/15 * * * *", "UTC")
    assert penstock.scheduled_count("orders") == 1


def test_the_dedup_id_of_a_recurring_message_is_the_schedules_also_after_a_restart() -> None:
    files, clock = MemoryFiles(), at(datetime(2026, 1, 1, tzinfo=UTC))
    message = Message(b"tick", dedup_id="ticks")
    broker = TestBroker.open(files=files, clock=clock)
    broker.create_topic("orders")

    first = broker._driver.run(broker._operations.schedule("orders", message, "0 * * * *", "UTC"))
    again = broker._driver.run(broker._operations.schedule("orders", message, "0 * * * *", "UTC"))
    broker.advance("2h")
    came = broker.read("orders")
    broker.close()
    broker = TestBroker.open(files=files, clock=clock)
    later = broker._driver.run(broker._operations.schedule("orders", message, "0 * * * *", "UTC"))

    assert first == again == later
    assert ["x-dedup-id" in message.headers for message in came] == [False, False]
    assert broker.scheduled_count("orders") == 1
    broker.close()


def test_a_recurring_message_ends_when_it_is_cancelled(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    schedule_id = penstock.schedule("orders", b"tick", cron="0 * * * *")
    penstock.advance("2h")

    assert penstock.cancel(schedule_id) == "cancelled"
    penstock.advance("1d")

    assert len(penstock.read("orders")) == 2


def test_a_rescheduled_recurring_message_goes_on_by_its_expression(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    schedule_id = penstock.schedule("orders", b"tick", cron="0 * * * *")

    assert penstock.reschedule(schedule_id, delay="90m")
    penstock.advance("3h")

    assert [m.published_at.strftime("%H:%M") for m in penstock.read("orders")] == ["01:30", "02:00", "03:00"]


def test_a_daily_time_keeps_to_the_wall_when_clocks_go_forward() -> None:
    with TestBroker.open(clock=at(datetime(2026, 3, 27, 12, tzinfo=BERLIN))) as broker:
        broker.create_topic("orders")
        broker.schedule("orders", b"x", cron="30 2 * * *", timezone="Europe/Berlin")

        broker.advance("4d")

        assert times(broker, BERLIN) == [
            "03-28 02:30 CET",
            "03-29 03:00 CEST",
            "03-30 02:30 CEST",
            "03-31 02:30 CEST",
        ]


def test_a_daily_time_comes_once_when_clocks_go_back() -> None:
    with TestBroker.open(clock=at(datetime(2026, 10, 24, 12, tzinfo=BERLIN))) as broker:
        broker.create_topic("orders")
        broker.schedule("orders", b"x", cron="30 2 * * *", timezone="Europe/Berlin")

        broker.advance("2d")

        assert times(broker, BERLIN) == ["10-25 02:30 CEST", "10-26 02:30 CET"]


def test_a_daily_time_at_noon_stays_at_noon_over_a_change() -> None:
    with TestBroker.open(clock=at(datetime(2026, 3, 28, 0, tzinfo=BERLIN))) as broker:
        broker.create_topic("orders")
        broker.schedule("orders", b"x", cron="0 12 * * *", timezone="Europe/Berlin")

        broker.advance("2d")

        assert times(broker, BERLIN) == ["03-28 12:00 CET", "03-29 12:00 CEST"]


def test_a_recurring_schedule_survives_restarts_and_delivers_each_time_once() -> None:
    disk, clock = CrashDisk(), ManualClock()
    broker = TestBroker.open("data", files=disk, clock=clock)
    broker.create_topic("orders")
    broker.schedule("orders", b"tick", cron="0 * * * *", timezone="Europe/Berlin")
    for life in range(4):
        broker.advance("90m")
        if life % 2:
            broker.close()
        else:
            disk.kill()
        broker = TestBroker.open("data", files=disk, clock=clock)

    assert [m.published_at.hour for m in broker.read("orders")] == [1, 2, 3, 4, 5, 6]
    broker.close()


def test_a_recurring_message_missed_while_down_comes_once_and_goes_on() -> None:
    files, clock = MemoryFiles(), ManualClock()
    with TestBroker.open("data", files=files, clock=clock) as broker:
        broker.create_topic("orders")
        broker.schedule("orders", b"tick", cron="0 * * * *")

    clock.move_to(clock.steady_ms() + int(10.5 * 3_600_000))
    with TestBroker.open("data", files=files, clock=clock) as broker:
        broker.advance("1h")
        assert [m.published_at.strftime("%H:%M") for m in broker.read("orders")] == ["10:30", "11:00"]
