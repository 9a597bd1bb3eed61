"""The broker for other people's tests: virtual time, and the fixture the package registers."""

import asyncio
import time

import pytest

import penstock.testing
from penstock.log.files import MemoryFiles
from penstock.testing import AsyncTestBroker, ManualClock, TestBroker

pytest_plugins = ["pytester"]

START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z


def test_a_manual_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock()

    assert (clock.wall_ms(), clock.steady_ms()) == (START_MS, START_MS)
    clock.move_to(START_MS + 5)
    assert (clock.wall_ms(), clock.steady_ms()) == (START_MS + 5, START_MS + 5)


def test_the_wall_clock_may_be_set_without_time_passing() -> None:
    clock = ManualClock(1000)

    clock.step_wall("5s")
    assert (clock.wall_ms(), clock.steady_ms()) == (6000, 1000)
    clock.step_wall("6s", back=True)
    assert (clock.wall_ms(), clock.steady_ms()) == (0, 1000)


def test_steady_time_does_not_go_back() -> None:
    clock = ManualClock()

    with pytest.raises(AssertionError):
        clock.move_to(START_MS - 1)


def test_advance_lets_everything_happen_at_once_and_in_order() -> None:
    began = time.process_time()
    with penstock.testing.open() as broker:
        broker.create_topic("reports", retention="2d")
        broker.publish("reports", b"old")
        consumer = broker.consumer("reports", visibility_timeout="1h", max_attempts=2, backoff=["1h"])
        consumer.receive()
        broker.publish("reports", b"monthly", delay="3d")

        broker.advance("3d")

        assert [message.value for message in broker.read("reports")] == [b"monthly"]
        info = broker.describe_group("reports", "default")
        assert (info.timed_out, info.lost, info.lag) == (1, 1, 1)
    assert time.process_time() - began < 5, "three days take no time"


def test_two_runs_are_the_same_to_the_millisecond() -> None:
    def run() -> str:
        with penstock.testing.open(seed=3) as broker:
            broker.create_topic("orders", partitions=2)
            broker.publish_batch("orders", [b"%d" % number for number in range(5)])
            consumer = broker.consumer("orders")
            for _ in range(8):
                for message in consumer.receive(3, wait="5s"):
                    message.nack(error="no")
            return "\n".join(
                str(broker.trace("orders", partition.partition, offset))
                for partition in broker.describe_topic("orders").partitions
                for offset in range(partition.end)
            )

    assert run() == run()


def test_a_receive_that_waits_moves_the_clock_to_what_is_due_and_no_further() -> None:
    with penstock.testing.open() as broker:
        broker.create_topic("orders")
        broker.publish("orders", b"x", delay="10m")
        consumer = broker.consumer("orders")

        assert len(consumer.receive(wait="1h")) == 1
        assert broker.clock.steady_ms() == START_MS + 600_000
        assert consumer.receive(wait="10s") == []
        assert broker.clock.steady_ms() == START_MS + 610_000


def test_a_test_may_bring_its_own_clock_and_files() -> None:
    clock, files = ManualClock(1_000_000), MemoryFiles()
    with penstock.testing.open("data", files=files, clock=clock) as broker:
        broker.create_topic("orders")
        assert broker.publish("orders", b"x").timestamp == 1_000_000

    with TestBroker.open("data", files=files, clock=clock) as broker:
        assert len(broker.read("orders")) == 1


def test_advance_by_nothing_does_what_is_due_now(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x", delay=0)

    penstock.advance(0)

    assert len(penstock.read("orders")) == 1


def test_the_fixture_is_an_open_broker(penstock: TestBroker) -> None:
    assert isinstance(penstock, TestBroker)
    assert penstock.topics() == []


def test_the_package_registers_the_fixture_for_everybody(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_three_days(penstock):
            penstock.create_topic("reports")
            penstock.publish("reports", b"monthly", delay="3d")
            penstock.advance("3d")
            assert penstock.consumer("reports").receive()[0].value == b"monthly"

        def test_every_test_has_its_own(penstock):
            assert penstock.topics() == []
        """
    )

    pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", "-p", "no:randomly").assert_outcomes(
        passed=2
    )


async def test_the_async_broker_lives_in_virtual_time_too() -> None:
    async with await AsyncTestBroker.open() as broker:
        await broker.create_topic("reports")
        await broker.publish("reports", b"monthly", delay="3d")
        consumer = await broker.consumer("reports", visibility_timeout="1m")

        await broker.advance("3d")

        [message] = await consumer.receive()
        assert (message.value, message.timestamp) == (b"monthly", START_MS + 3 * 86_400_000)
        await broker.advance("1m")
        assert [again.attempt for again in await consumer.receive()] == [2]


async def test_tasks_that_wait_run_as_their_time_comes() -> None:
    async with await AsyncTestBroker.open() as broker:
        await broker.create_topic("orders")
        for seconds in (10, 20, 30):
            await broker.publish("orders", b"%d" % seconds, delay=seconds)
        consumer = await broker.consumer("orders")
        seen: list[tuple[bytes, int]] = []

        async def work() -> None:
            async for message in consumer:
                async with message:
                    seen.append((message.value, broker.clock.steady_ms() - START_MS))

        task = asyncio.ensure_future(work())
        await broker.advance("1m")
        await consumer.close()
        await asyncio.wait_for(task, 60)

        assert seen == [(b"10", 10_000), (b"20", 20_000), (b"30", 30_000)]


async def test_a_wait_ends_after_its_virtual_time() -> None:
    async with await AsyncTestBroker.open() as broker:
        await broker.create_topic("orders")
        consumer = await broker.consumer("orders")
        task = asyncio.ensure_future(consumer.receive(wait="10s"))

        await broker.advance("9s")
        assert not task.done()
        await broker.advance("1s")
        assert await asyncio.wait_for(task, 60) == []


async def test_the_async_broker_may_have_a_disk() -> None:
    files, clock = MemoryFiles(), ManualClock()
    async with await AsyncTestBroker.open("data", files=files, clock=clock) as broker:
        await broker.create_topic("orders")
        await broker.publish("orders", b"x")
        await broker.publish("orders", b"later", delay="1h")
        await broker.advance("1h")

    async with await AsyncTestBroker.open("data", files=files, clock=clock) as broker:
        assert [message.value for message in await broker.read("orders")] == [b"x", b"later"]
