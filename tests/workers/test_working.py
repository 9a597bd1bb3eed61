"""Functions at work on a broker in virtual time: answers, timeouts, concurrency, stopping."""

import asyncio
import logging
import threading
from pathlib import Path

import pytest
from tests.workers.virtual import VirtualTime, clock_of

import penstock
from penstock.errors import InvalidValue
from penstock.log.files import MemoryFiles
from penstock.testing import AsyncTestBroker
from penstock.testing.files import Fault, FaultyFiles


async def test_a_function_that_returns_has_done_its_message(time: VirtualTime) -> None:
    app = penstock.App()
    seen: list[tuple[bytes, bytes | None, dict[str, str], str, int]] = []

    @app.worker("orders", group="processors")
    async def handle(message: penstock.AsyncWorkerMessage) -> None:
        seen.append((message.value, message.key, message.headers, message.id, message.attempt))

    async with app.running(time.broker):
        await time.settles()
        await time.broker.publish("orders", b"two books", key="anna", headers={"shop": "north"})
        await time.passes("1s")
        info = await time.broker.describe_group("orders", "processors")

    assert seen == [(b"two books", b"anna", {"shop": "north"}, "orders:0:0", 1)]
    assert (info.acked, info.lag) == (1, 0)


async def test_what_a_function_gets_is_a_message(time: VirtualTime) -> None:
    app = penstock.App()
    seen: list[object] = []
    app.worker("orders")(seen.append)

    async with app.running(time.broker):
        await time.settles()
        await time.broker.publish("orders", b"x", priority="high")
        await time.passes("1s")

    [message] = seen
    assert isinstance(message, penstock.Message)
    assert isinstance(message, penstock.WorkerMessage)
    assert (message.topic, message.group, message.partition, message.offset) == ("orders", "default", 0, 0)
    assert (message.priority, message.is_tombstone, message.settled, message.raw_headers) == (
        "high",
        False,
        True,
        [],
    )
    assert message.published_at.timestamp() * 1000 == message.timestamp
    assert repr(message) == "<WorkerMessage orders:0:0 attempt=1 key=None 1 bytes>"


async def test_a_function_that_raises_gets_the_message_again_and_the_error_is_kept(
    time: VirtualTime, caplog: pytest.LogCaptureFixture
) -> None:
    app = penstock.App()
    attempts: list[int] = []

    @app.worker("orders", max_attempts=3, backoff=["10s"])
    async def handle(message: penstock.AsyncWorkerMessage) -> None:
        attempts.append(message.attempt)
        raise KeyError(f"price of {message.id}")

    async with app.running(time.broker):
        await time.settles()
        await time.broker.publish_batch("orders", [b"a", b"b"])
        await time.passes("9s")
        assert attempts == [1, 1]
        await time.passes("30s", "1s")
        letters = await time.broker.dead_letters("orders")

    assert sorted(attempts) == [1, 1, 2, 2, 3, 3]
    assert [letter.error for letter in letters] == [
        "KeyError: 'price of orders:0:0'",
        "KeyError: 'price of orders:0:1'",
    ]
    assert len({letter.fingerprint for letter in letters}) == 1, "one bug, whatever its words"
    assert "handle failed on orders:0:0, attempt 1 of 3: KeyError" in caplog.text
    assert "raise KeyError" in caplog.text, "the traceback is in the log"


async def test_reject_is_the_end_of_a_message(time: VirtualTime) -> None:
    app = penstock.App()

    @app.worker("orders", max_attempts=5)
    async def handle(message: penstock.Message) -> None:
        raise penstock.Reject("no such customer")

    async with app.running(time.broker):
        await time.settles()
        await time.broker.publish("orders", b"x")
        await time.passes("1s")
        [letter] = await time.broker.dead_letters("orders")

    assert (letter.attempts, letter.error) == (1, "no such customer")


async def test_retry_says_when(time: VirtualTime) -> None:
    app = penstock.App()
    attempts: list[int] = []

    @app.worker("orders", backoff=["1s"])
    async def handle(message: penstock.AsyncWorkerMessage) -> None:
        attempts.append(message.attempt)
        if message.attempt == 1:
            raise penstock.Retry("the shop is closed", delay="1h")

    async with app.running(time.broker):
        await time.settles()
        await time.broker.publish("orders", b"x")
        await time.passes("59m", "30s")
        assert attempts == [1]
        await time.passes("1m", "1s")

    assert attempts == [1, 2]


async def test_a_function_may_answer_itself(time: VirtualTime) -> None:
    app = penstock.App()
    settled: list[bool] = []

    @app.worker("orders")
    async def handle(message: penstock.AsyncWorkerMessage) -> None:
        match message.value:
            case b"ack":
                await message.ack(publish=[("invoices", penstock.Message(b"invoice"))])
            case b"nack":
                await message.nack(delay="1h", error="later")
            case b"reject":
                await message.reject("no good")
            case _:
                await message.extend("1h")
        settled.append(message.settled)

    await time.broker.create_topic("invoices")
    async with app.running(time.broker):
        await time.settles()
        await time.broker.publish_batch("orders", [b"ack", b"nack", b"reject", b"extend"])
        await time.passes("1s")
        info = await time.broker.describe_group("orders", "default")
        letters = await time.broker.dead_letters("orders")

    assert settled == [True, True, True, False]
    assert (info.acked, info.waiting_retry, len(letters)) == (2, 1, 1)
    assert [message.value for message in await time.broker.read("invoices")] == [b"invoice"]


async def test_a_plain_function_works_in_threads_and_answers_from_there(time: VirtualTime) -> None:
    app = penstock.App()
    threads: set[str] = set()
    together = threading.Barrier(3)
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.worker("orders", concurrency=3)
    def handle(message: penstock.WorkerMessage) -> None:
        threads.add(threading.current_thread().name)
        together.wait(60)  # All three run at once, or this raises.
        match message.value:
            case b"ack":
                message.extend("1m")
                message.ack(publish=[("invoices", penstock.Message(b"invoice"))])
            case b"nack":
                message.nack(delay="1h", error="later")
            case _:
                message.reject("no good")
        loop.call_soon_threadsafe(done.set)

    await time.broker.create_topic("invoices")
    async with app.running(time.broker):
        await time.settles()
        await time.broker.publish_batch("orders", [b"ack", b"nack", b"reject"])
        await done.wait()

    assert threads == {"penstock-handle-1", "penstock-handle-2", "penstock-handle-3"}
    info = await time.broker.describe_group("orders", "default")
    assert (info.acked, info.waiting_retry, info.dead_lettered) == (1, 1, 1)
    assert [message.value for message in await time.broker.read("invoices")] == [b"invoice"]


async def test_an_async_function_in_a_plain_coat_is_awaited(time: VirtualTime) -> None:
    """A decorator that is not async itself hides what it wraps; the message must not be acked unworked."""
    app = penstock.App()
    done: list[bytes] = []

    async def handle(message: penstock.Message) -> None:
        await asyncio.sleep(0)
        done.append(message.value)

    app.worker("orders")(lambda message: handle(message))
    async with app.running(time.broker):
        await time.settles()
        await time.broker.publish("orders", b"x")
        while not done:
            await time.settles()

    assert (await time.broker.describe_group("orders", "default")).acked == 1


async def test_concurrency_is_how_many_run_at_once_and_no_more_are_taken(time: VirtualTime) -> None:
    app = penstock.App()
    gate = asyncio.Event()
    running = most = 0

    @app.worker("orders", concurrency=4)
    async def handle(message: penstock.Message) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1

    async with app.running(time.broker):
        await time.settles()
        await time.broker.publish_batch("orders", [b"x"] * 10)
        await time.passes("1s")
        assert (await time.broker.describe_group("orders", "default")).in_flight == 4
        gate.set()
        await time.passes("1s")

    assert most == 4
    assert (await time.broker.describe_group("orders", "default")).acked == 10


async def test_a_quick_function_has_some_messages_at_hand_and_a_slow_one_none(time: VirtualTime) -> None:
    app = penstock.App(stop_timeout=0)
    pace = 0.0

    running = most = 0

    @app.worker("orders", concurrency=2)
    async def handle(message: penstock.Message) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(pace)
        running -= 1

    async def held() -> int:
        return (await time.broker.describe_group("orders", "default")).in_flight

    async with app.running(time.broker):
        await time.settles()
        await time.broker.publish_batch("orders", [b"x"] * 10)
        await time.passes("1s")
        pace = 100
        await time.broker.publish_batch("orders", [b"x"] * 30)
        await time.passes("1s")
        assert 2 < await held() <= 2 + 2 * 4, "it was quick until now"
        for _ in range(10):
            await time.passes("100s", "10s")
        assert await held() == 2
    assert most == 2


async def test_what_is_at_hand_and_was_taken_back_is_not_begun(time: VirtualTime) -> None:
    app, gate, done = penstock.App(), asyncio.Event(), list[bytes]()

    @app.worker("orders")
    async def handle(message: penstock.Message) -> None:
        if message.value == b"slow":
            await gate.wait()
        done.append(message.value)

    async with app.running(time.broker):
        await time.settles()
        await time.broker.publish_batch("orders", [b"quick", b"slow", b"a", b"b"])
        await time.passes("1s")
        assert (await time.broker.describe_group("orders", "default")).in_flight == 3
        await time.broker.seek("orders", "default", "latest")
        gate.set()
        await time.passes("1s")

    assert done == [b"quick", b"slow"]


async def test_an_async_function_that_takes_too_long_is_cancelled_and_comes_again(
    time: VirtualTime, caplog: pytest.LogCaptureFixture
) -> None:
    app = penstock.App()
    cancelled: list[int] = []

    @app.worker("orders", timeout="5s", max_attempts=2, backoff=["1s"])
    async def handle(message: penstock.AsyncWorkerMessage) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled.append(message.attempt)
            raise

    async with app.running(time.broker):
        await time.settles()
        await time.broker.publish("orders", b"x")
        await time.passes("4s")
        assert cancelled == []
        await time.passes("2s")
        assert cancelled == [1]
        await time.passes("10s")
        [letter] = await time.broker.dead_letters("orders")

    assert letter.error == "TimeoutError: handle did not finish within 5 s"
    assert "handle failed on orders:0:0, attempt 1 of 2: TimeoutError" in caplog.text


async def test_a_thread_that_takes_too_long_keeps_its_slot_and_its_answer_does_not_count(
    time: VirtualTime,
) -> None:
    app = penstock.App()
    gate, entered = threading.Event(), threading.Event()
    attempts: list[int] = []

    @app.worker("orders", timeout="5s", backoff=["1s"])
    def handle(message: penstock.WorkerMessage) -> None:
        attempts.append(message.attempt)
        entered.set()
        gate.wait(60)

    async with app.running(time.broker):
        await time.settles()
        await time.broker.publish("orders", b"x")
        await time.settles()
        await asyncio.to_thread(entered.wait, 10)
        await time.passes("20s", "1s")
        info = await time.broker.describe_group("orders", "default")
        assert (info.nacked, info.acked, attempts) == (1, 0, [1]), "given back, and its slot is taken"

        gate.set()
        while len(attempts) < 2:
            await time.settles()

    assert attempts == [1, 2]
    assert (await time.broker.describe_group("orders", "default")).acked == 1


async def test_long_work_is_not_delivered_twice(time: VirtualTime) -> None:
    app = penstock.App()
    gate = asyncio.Event()
    calls = 0

    @app.worker("orders", concurrency=3, visibility_timeout="6s")
    async def handle(message: penstock.Message) -> None:
        nonlocal calls
        calls += 1
        await gate.wait()

    async with app.running(time.broker):
        await time.settles()
        await time.broker.publish_batch("orders", [b"a", b"b"])
        await time.passes("1m", "1s")
        gate.set()
        await time.passes("1s")

    info = await time.broker.describe_group("orders", "default")
    assert (calls, info.acked, info.timed_out) == (2, 2, 0)


async def test_stopping_waits_for_what_runs_and_takes_nothing_new(time: VirtualTime) -> None:
    app = penstock.App()
    gate = asyncio.Event()
    done: list[bytes] = []

    @app.worker("orders")
    async def handle(message: penstock.Message) -> None:
        await gate.wait()
        done.append(message.value)

    async def work() -> None:
        async with app.running(time.broker):
            await stop.wait()

    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        worker = tasks.create_task(work())
        await time.settles()
        await time.broker.publish_batch("orders", [b"a", b"b"])
        await time.passes("1s")
        stop.set()
        await time.passes("10s")
        assert not worker.done()
        gate.set()

    info = await time.broker.describe_group("orders", "default")
    assert (done, info.acked, info.delivered, info.in_flight, info.consumers) == ([b"a"], 1, 1, 0, [])


@pytest.mark.parametrize("limit", [None, "1h"])
async def test_what_is_not_finished_at_the_deadline_is_given_back_uncounted(
    time: VirtualTime, caplog: pytest.LogCaptureFixture, limit: str | None
) -> None:
    app = penstock.App(stop_timeout="5s")
    attempts: list[int] = []

    @app.worker("orders", timeout=limit)
    async def handle(message: penstock.AsyncWorkerMessage) -> None:
        attempts.append(message.attempt)
        await asyncio.sleep(3600)

    async with asyncio.TaskGroup() as tasks:
        stop = asyncio.Event()

        async def work() -> None:
            async with app.running(time.broker):
                await stop.wait()

        worker = tasks.create_task(work())
        await time.settles()
        await time.broker.publish("orders", b"a")
        await time.passes("1s")
        stop.set()
        await time.passes("4s")
        assert not worker.done()
        await time.passes("2s")

    [again] = await (await time.broker.consumer("orders")).receive()
    assert (again.attempt, attempts) == (1, [1])
    assert "handle: 1 calls did not finish within 5 s and are given back" in caplog.text


async def test_leaving_with_an_error_gives_everything_back_at_once(time: VirtualTime) -> None:
    app = penstock.App()

    @app.worker("orders")
    async def handle(message: penstock.Message) -> None:
        if message.value != b"quick":
            await asyncio.sleep(3600)

    with pytest.raises(ZeroDivisionError):
        async with app.running(time.broker):
            await time.settles()
            await time.broker.publish_batch("orders", [b"quick", b"a", b"b", b"c"])
            await time.passes("1s")
            assert (await time.broker.describe_group("orders", "default")).in_flight == 3, "two are at hand"
            raise ZeroDivisionError

    assert len(await (await time.broker.consumer("orders")).receive(10)) == 3


async def test_a_topic_that_is_missing_is_created_and_said(
    time: VirtualTime, caplog: pytest.LogCaptureFixture
) -> None:
    app = penstock.App()
    app.worker("ordrs")(print)

    async with app.running(time.broker):
        await time.settles()
        assert await time.broker.topics() == ["ordrs"]

    assert "there was no topic 'ordrs', so it was created" in caplog.text


async def test_a_broker_that_cannot_serve_now_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    """Its disk is full when the worker starts, and again when a message has been done."""
    files = FaultyFiles(MemoryFiles())
    async with await AsyncTestBroker.open("data", files=files) as broker:
        with clock_of(broker) as time:
            app, done = penstock.App(), list[bytes]()

            @app.worker("orders")
            async def handle(message: penstock.Message) -> None:
                files.fail_next(Fault.FULL, lasting=True)
                done.append(message.value)

            async def have_room_later() -> None:
                await time.passes("5s")
                assert await broker.topics() == []
                files.heal()
                await time.passes("10s")

            files.fail_next(Fault.FULL, lasting=True)
            later = asyncio.create_task(have_room_later())
            async with app.running(broker):
                assert await broker.groups("orders") == ["default"], "the block begins when they exist"
                await later
                await broker.publish("orders", b"x")
                await time.passes("10s")
                assert (await broker.describe_group("orders", "default")).acked == 0
                files.heal()
                await time.passes("10s")

                assert (await broker.describe_group("orders", "default")).acked == 1
    assert done == [b"x"]
    assert "handle cannot receive messages; trying again: no room on the disk" in caplog.text


async def test_a_stop_waits_for_the_last_acks() -> None:
    """The disk is full when the call has ended and the stop comes, and has room a little later."""
    files = FaultyFiles(MemoryFiles())
    async with await AsyncTestBroker.open("data", files=files) as broker:
        with clock_of(broker) as time:
            app, stop = penstock.App(), asyncio.Event()

            @app.worker("orders")
            async def handle(message: penstock.Message) -> None:
                files.fail_next(Fault.FULL, lasting=True)

            async def work() -> None:
                async with app.running(broker):
                    await stop.wait()

            async with asyncio.TaskGroup() as tasks:
                worker = tasks.create_task(work())
                await time.settles()
                await broker.publish("orders", b"x")
                await time.settles()
                stop.set()
                await time.passes("10s")
                assert not worker.done()
                files.heal()
                await time.passes("10s")

            assert (await broker.describe_group("orders", "default")).acked == 1


@pytest.mark.slow  # The last receive is waited for, in real time: the disk's thread knows no other.
async def test_a_stop_does_not_cut_off_what_is_settled_as_it_is_taken(tmp_path: Path) -> None:
    app, done, begun = penstock.App(), list[bytes](), asyncio.Event()

    @app.worker("orders", delivery="at-most-once")
    async def handle(message: penstock.Message) -> None:
        done.append(message.value)
        begun.set()

    async with penstock.aio.open(str(tmp_path)) as broker:
        await broker.create_topic("orders")
        async with app.running(broker):
            await broker.publish("orders", b"first")
            await begun.wait()
            await broker.publish("orders", b"last")  # The receive has settled it, or is about to.
        left = await (await broker.consumer("orders")).receive()

    assert done + [message.value for message in left] == [b"first", b"last"]


async def test_a_refusal_that_no_waiting_mends_ends_the_run(time: VirtualTime) -> None:
    await time.broker.create_topic("orders")
    await time.broker.create_group("orders", "default", ordered=False)
    app = penstock.App()
    app.worker("orders", ordered=True)(print)

    with pytest.raises(InvalidValue, match="fixed when a group is created"):
        async with app.running(time.broker):
            await asyncio.Event().wait()


async def test_a_topic_that_is_deleted_under_a_worker_is_made_again(
    time: VirtualTime, caplog: pytest.LogCaptureFixture
) -> None:
    app = penstock.App()
    done: list[bytes] = []

    @app.worker("orders")
    async def handle(message: penstock.Message) -> None:
        done.append(message.value)

    async with app.running(time.broker):
        await time.settles()
        await time.broker.delete_topic("orders")
        await time.passes("10s")
        await time.broker.publish("orders", b"x")
        await time.passes("1s")

    assert done == [b"x"]
    assert "handle cannot receive messages; trying again" in caplog.text


async def test_a_group_that_settles_on_delivery_loses_nothing_when_its_worker_stops(
    time: VirtualTime,
) -> None:
    app = penstock.App()
    done: list[bytes] = []

    @app.worker("orders", delivery="at-most-once")
    async def handle(message: penstock.Message) -> None:
        done.append(message.value)
        raise ValueError("it is not tried again")

    async with asyncio.TaskGroup() as tasks:
        stop = asyncio.Event()

        async def work() -> None:
            async with app.running(time.broker):
                await stop.wait()

        tasks.create_task(work())
        await time.settles()
        await time.broker.publish("orders", b"a")
        await time.passes("1m", "1s")
        stop.set()
        await time.broker.publish("orders", b"b")
        await time.passes("3s")

    left = await (await time.broker.consumer("orders")).receive()
    assert sorted(done + [message.value for message in left]) == [b"a", b"b"]


async def test_a_function_that_is_cancelled_from_inside_has_failed(time: VirtualTime) -> None:
    app = penstock.App()

    @app.worker("orders", max_attempts=1)
    async def handle(message: penstock.Message) -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    async with app.running(time.broker):
        await time.settles()
        await time.broker.publish("orders", b"x")
        await time.passes("1s")
        [letter] = await time.broker.dead_letters("orders")

    assert letter.error == "CancelledError"


async def test_a_function_that_wants_to_end_the_process_has_failed(time: VirtualTime) -> None:
    app = penstock.App()

    @app.worker("orders", max_attempts=1)
    async def handle(message: penstock.Message) -> None:
        raise SystemExit(3)

    async with app.running(time.broker):
        await time.settles()
        await time.broker.publish("orders", b"x")
        await time.passes("1s")

        assert [letter.error for letter in await time.broker.dead_letters("orders")] == ["SystemExit: 3"]


async def test_an_answer_that_comes_too_late_is_said_and_nothing_more(
    time: VirtualTime, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    app = penstock.App()
    gate = asyncio.Event()

    @app.worker("orders")
    async def handle(message: penstock.Message) -> None:
        await gate.wait()

    async with app.running(time.broker):
        await time.settles()
        await time.broker.publish("orders", b"x")
        await time.passes("1s")
        await time.broker.seek("orders", "default", "latest")
        gate.set()
        await time.passes("1s")

    assert "handle: no answer for orders:0:0" in caplog.text
