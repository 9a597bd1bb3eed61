"""Opening and closing: locks, deadlines, leases that are let go, threads, tasks that give up."""

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import penstock
from penstock.broker.topic.topics import partition_logs
from penstock.errors import Closed, DirectoryInUse, DirectoryUnusable, DiskFull, TopicNotFound
from penstock.log.files import MemoryFiles
from penstock.model.access import Grant
from penstock.testing import AsyncTestBroker, TestBroker
from penstock.testing.files import Fault, FaultyFiles


def test_a_directory_is_made_if_it_is_not_there(tmp_path: Path) -> None:
    with penstock.open(str(tmp_path / "some" / "where")) as broker:
        broker.create_topic("orders")
        broker.publish("orders", b"x")

    with penstock.open(str(tmp_path / "some" / "where")) as broker:
        assert [message.value for message in broker.read("orders")] == [b"x"]


def test_a_second_broker_of_the_same_process_is_told_who_has_the_directory(tmp_path: Path) -> None:
    with penstock.open(str(tmp_path)):
        with pytest.raises(DirectoryInUse, match=f"pid {os.getpid()}"):
            penstock.open(str(tmp_path))
    penstock.open(str(tmp_path)).close()


def test_a_second_process_is_told_who_has_the_directory(tmp_path: Path) -> None:
    program = (
        "import sys, penstock\n"
        "try:\n"
        "    penstock.open(sys.argv[1])\n"
        "except penstock.PenstockError as error:\n"
        "    print(type(error).__name__, error.facts['pid'])\n"
    )
    with penstock.open(str(tmp_path)):
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )

    assert done.stdout.split() == ["DirectoryInUse", str(os.getpid())]


def test_a_path_that_cannot_be_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")

    with pytest.raises(DirectoryUnusable):
        penstock.open(str(tmp_path / "file"))
    with pytest.raises(DirectoryUnusable):
        penstock.open(str(tmp_path / "file" / "below"))


def test_a_close_writes_down_what_has_changed_and_leaves_the_rest_alone(tmp_path: Path) -> None:
    def written(topic: str) -> tuple[int, int]:
        partition = tmp_path / "topics" / topic / "0"
        index = partition / "journal" / f"{0:020}.index"
        return (partition / "digest").stat().st_mtime_ns, index.stat().st_mtime_ns

    with penstock.open(str(tmp_path)) as broker:
        for topic in ("still", "busy"):
            broker.create_topic(topic)
            broker.publish_batch(topic, [b"a", b"b", b"c"])
            with broker.consumer(topic) as consumer:
                consumer.ack(consumer.receive(1))
    still, busy = written("still"), written("busy")

    with penstock.open(str(tmp_path)) as broker, broker.consumer("busy") as consumer:
        broker.publish("busy", b"d")
        consumer.ack(consumer.receive(1))

    assert written("still") == still
    assert all(after > before for after, before in zip(written("busy"), busy, strict=True))
    with penstock.open(str(tmp_path)) as broker:
        assert (broker.depth("still", "default"), broker.depth("busy", "default")) == (2, 2)


def test_a_closed_broker_refuses_everything_and_closing_again_is_fine() -> None:
    broker = TestBroker.open()
    broker.create_topic("orders")
    consumer = broker.consumer("orders")
    producer = broker.producer()
    broker.close()
    broker.close()

    calls = [
        lambda: broker.create_topic("other"),
        lambda: broker.topics(),
        lambda: broker.publish("orders", b"x"),
        lambda: broker.publish_batch("orders", [b"x"]),
        lambda: broker.consumer("orders"),
        lambda: broker.describe_topic("orders"),
        lambda: broker.read("orders"),
        lambda: broker.trace("orders", 0, 0),
        lambda: broker.scheduled("orders"),
        lambda: broker.cancel("orders:0:s0"),
        lambda: broker.redrive("orders"),
        lambda: broker.producer(),
        lambda: consumer.receive(),
        lambda: producer.publish("orders", b"x"),
    ]
    for call in calls:
        with pytest.raises(Closed, match="broker is closed; open a new one"):
            call()  # type: ignore[no-untyped-call]
    consumer.close()


def test_a_message_of_a_closed_broker_cannot_be_acked() -> None:
    with TestBroker.open() as broker:
        broker.create_topic("orders")
        broker.publish("orders", b"x")
        [message] = broker.consumer("orders").receive()

    with pytest.raises(Closed):
        message.ack()


def test_a_loop_over_a_consumer_ends_when_another_thread_closes_it() -> None:
    with penstock.open() as broker:
        broker.create_topic("orders")
        broker.publish_batch("orders", [b"0", b"1"])
        consumer = broker.consumer("orders")
        seen: list[bytes] = []
        waiting = threading.Event()

        def work() -> None:
            for message in consumer:
                with message:
                    seen.append(message.value)
                if len(seen) == 2:
                    waiting.set()

        thread = threading.Thread(target=work)
        thread.start()
        assert waiting.wait(60)
        consumer.close()
        thread.join(60)

        assert not thread.is_alive()
        assert seen == [b"0", b"1"]


def test_loops_and_waiting_receives_end_when_the_broker_is_closed() -> None:
    broker = penstock.open()
    broker.create_topic("orders")
    ended: list[str] = []

    def loop() -> None:
        for _ in broker.consumer("orders"):
            pass
        ended.append("loop")

    def receive() -> None:
        with pytest.raises(Closed):
            broker.consumer("orders").receive(wait="1h")
        ended.append("receive")

    def stream() -> None:
        with pytest.raises(Closed):
            broker.consumer("orders", group="s", kind="stream").receive(wait="1h")
        ended.append("stream")

    threads = [threading.Thread(target=work) for work in (loop, receive, stream)]
    for thread in threads:
        thread.start()
    while len(broker._core.state.topics["orders"].waiters) < 3:
        pass
    broker.close()
    for thread in threads:
        thread.join(60)

    assert sorted(ended) == ["loop", "receive", "stream"]


def test_a_publish_that_waits_for_room_ends_when_the_broker_is_closed() -> None:
    broker = penstock.open()
    broker.create_topic("orders", depth_max=1, depth_policy="wait", depth_wait="1h")
    broker.publish("orders", b"0")
    ended: list[str] = []

    def publish() -> None:
        with pytest.raises(Closed):
            broker.publish("orders", b"1")
        ended.append("publish")

    thread = threading.Thread(target=publish)
    thread.start()
    while not broker._core.state.topics["orders"].waiters:
        pass
    broker.close()
    thread.join(60)

    assert ended == ["publish"]


def test_a_publish_that_waits_for_room_ends_when_the_topic_is_deleted() -> None:
    with penstock.open() as broker:
        broker.create_topic("orders", depth_max=1, depth_policy="wait", depth_wait="1h")
        broker.publish("orders", b"0")
        ended: list[str] = []

        def publish() -> None:
            with pytest.raises(TopicNotFound):
                broker.publish("orders", b"1")
            ended.append("publish")

        thread = threading.Thread(target=publish)
        thread.start()
        while not broker._core.state.topics["orders"].waiters:
            pass
        broker.delete_topic("orders")
        thread.join(60)

    assert ended == ["publish"]


def test_a_redrive_at_a_rate_ends_when_the_broker_is_closed() -> None:
    broker = penstock.open()
    broker.create_topic("orders")
    broker.publish_batch("orders", [b"0", b"1"])
    for message in broker.consumer("orders").receive(2):
        message.reject("no")
    ended: list[str] = []

    def redrive() -> None:
        with pytest.raises(Closed):
            broker.redrive("orders", rate=0.0001)
        ended.append("redrive")

    thread = threading.Thread(target=redrive)
    thread.start()
    while not broker._core.state.topics["orders"].waiters:
        pass
    broker.close()
    thread.join(60)

    assert ended == ["redrive"]


@pytest.mark.slow
@pytest.mark.parametrize("on_disk", [False, True])
def test_threads_publish_and_consume_at_once_and_nothing_is_lost(tmp_path: Path, on_disk: bool) -> None:
    with penstock.open(str(tmp_path) if on_disk else None) as broker:
        broker.create_topic("orders", partitions=3)
        total = 4 * 100
        seen: list[bytes] = []

        def publish(number: int) -> None:
            for index in range(50):
                broker.publish("orders", b"%d-%d" % (number, index), key=str(index))
            broker.publish_batch("orders", [b"%d-%d" % (number, index) for index in range(50, 100)])

        def consume() -> None:
            with broker.consumer("orders") as consumer:
                while len(seen) < total:
                    messages = consumer.receive(7, wait="100ms")
                    consumer.ack(messages)
                    seen.extend(message.value for message in messages)

        threads = [threading.Thread(target=publish, args=(number,)) for number in range(4)]
        threads += [threading.Thread(target=consume) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

        assert sorted(seen) == sorted(b"%d-%d" % (n, i) for n in range(4) for i in range(100))
        assert broker.depth("orders", "default") == 0


def test_closing_waits_for_a_disk_thread_that_has_something_to_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = penstock.open(str(tmp_path / "data"))
    broker.create_topic("t", durability="os")
    commit = broker._core.state.commit
    closing = threading.Event()
    synced = threading.Event()

    def tell_late() -> None:
        synced.set()
        closing.wait(60)

    commit.listeners.insert(0, tell_late)
    broker.publish("t", b"x")
    commit.mark(broker._core.state.topics["t"].partitions[0].log)
    commit.kick()
    assert synced.wait(60)
    disk_thread = commit._disk_thread
    assert disk_thread is not None
    join = disk_thread.join

    def join_late() -> None:
        closing.set()  # Now the disk thread goes on to what it tells the broker, which takes its lock.
        join()

    monkeypatch.setattr(disk_thread, "join", join_late)
    closer = threading.Thread(target=broker.close, daemon=True)
    closer.start()
    closer.join(60)
    assert not closer.is_alive(), "close and the disk thread wait for each other"


def test_a_real_broker_keeps_real_time() -> None:
    with penstock.open() as broker:
        broker.create_topic("orders")
        broker.publish("orders", b"later", delay=0.02)
        consumer = broker.consumer("orders", visibility_timeout=0.05, backoff=[0.01])

        [message] = consumer.receive(wait="10s")
        message.nack()
        [again] = consumer.receive(wait="10s")
        [third] = consumer.receive(wait="10s")

        assert [message.attempt, again.attempt, third.attempt] == [1, 2, 3]


async def test_a_real_async_broker_keeps_real_time(tmp_path: Path) -> None:
    async with penstock.aio.open(str(tmp_path)) as broker:
        await broker.create_topic("orders")
        await broker.publish("orders", b"later", delay=0.02)
        consumer = await broker.consumer("orders", visibility_timeout=0.2, backoff=[0.01])

        [message] = await consumer.receive(wait="10s")
        await message.nack()
        [again] = await consumer.receive(wait="10s")
        [third] = await consumer.receive(wait="10s")
        await third.ack()

        assert [message.attempt, again.attempt, third.attempt] == [1, 2, 3]
        assert await broker.depth("orders", "default") == 0


async def test_many_tasks_publish_at_once_on_disk(tmp_path: Path) -> None:
    async with penstock.aio.open(str(tmp_path)) as broker:
        await broker.create_topic("orders")
        receipts = await asyncio.gather(*(broker.publish("orders", b"%d" % number) for number in range(100)))

        assert sorted(receipt.offset or 0 for receipt in receipts) == list(range(100))
        assert len(await broker.read("orders", limit=1000)) == 100


async def test_a_cancelled_publish_has_happened_or_not_and_breaks_nothing(tmp_path: Path) -> None:
    async with penstock.aio.open(str(tmp_path)) as broker:
        await broker.create_topic("orders")
        tasks = [asyncio.ensure_future(broker.publish("orders", b"%d" % number)) for number in range(20)]
        await asyncio.wait(tasks, timeout=0)
        for task in tasks[::2]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        receipts = [result for result in done if isinstance(result, penstock.Receipt)]
        await broker.publish("orders", b"last")

        stored = {message.offset: message.value for message in await broker.read("orders", limit=100)}
        assert len(receipts) >= 10
        assert all(receipt.offset in stored for receipt in receipts)
        assert stored[max(stored)] == b"last"


async def test_a_cancelled_receive_loses_nothing() -> None:
    broker = await AsyncTestBroker.open()
    async with broker:
        await broker.create_topic("orders")
        consumer = await broker.consumer("orders")
        tasks = [asyncio.ensure_future(consumer.receive(10, wait="1h")) for _ in range(3)]
        await asyncio.wait(tasks, timeout=0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert [task.cancelled() for task in tasks] == [True, True, True]
        await broker.publish_batch("orders", [b"0", b"1"])

        assert [message.value for message in await consumer.receive(10)] == [b"0", b"1"]
        assert consumer.in_flight == 2


async def test_a_receive_cancelled_as_its_message_arrives_gives_it_to_another() -> None:
    broker = await AsyncTestBroker.open()
    async with broker:
        await broker.create_topic("orders")
        consumer = await broker.consumer("orders")
        task = asyncio.ensure_future(consumer.receive(wait="1h"))
        await asyncio.wait([task], timeout=0)
        await broker.publish("orders", b"x")  # Wakes the task, which has not run yet.
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert [message.value for message in await consumer.receive()] == [b"x"]


async def test_a_cancelled_ack_is_done_all_the_same(tmp_path: Path) -> None:
    async with penstock.aio.open(str(tmp_path)) as broker:
        await broker.create_topic("orders")
        await broker.publish("orders", b"x")
        consumer = await broker.consumer("orders", max_attempts=1)
        [message] = await consumer.receive()
        task = asyncio.ensure_future(consumer.nack(message, error="no"))
        await asyncio.wait([task], timeout=0)
        task.cancel()
        await asyncio.wait([task])
        await broker.publish("orders", b"y")

        assert [letter.error for letter in await broker.dead_letters("orders")] == ["no"]


async def test_an_async_loop_ends_when_its_consumer_is_closed() -> None:
    broker = await AsyncTestBroker.open()
    async with broker:
        await broker.create_topic("orders")
        await broker.publish_batch("orders", [b"0", b"1"])
        consumer = await broker.consumer("orders")
        seen = []

        async def work() -> None:
            async for message in consumer:
                async with message:
                    seen.append(message.value)

        task = asyncio.ensure_future(work())
        await broker.advance("1m")
        await consumer.close()
        await asyncio.wait_for(task, 60)

        assert seen == [b"0", b"1"]


async def test_a_consumer_with_full_hands_goes_on_when_another_task_acks() -> None:
    broker = await AsyncTestBroker.open()
    async with broker:
        await broker.create_topic("orders")
        await broker.publish_batch("orders", [b"0", b"1"])
        consumer = await broker.consumer("orders", max_in_flight=1)
        [first] = await consumer.receive()
        task = asyncio.ensure_future(consumer.receive(wait="1h"))
        await asyncio.wait([task], timeout=0)

        await first.ack()

        assert [message.value for message in await asyncio.wait_for(task, 60)] == [b"1"]


async def test_an_async_close_ends_who_waits() -> None:
    broker = await penstock.aio.open().start()
    await broker.create_topic("orders", depth_max=1, depth_policy="wait", depth_wait="1h")
    await broker.create_group("orders", "slow")
    await broker.publish("orders", b"x")
    consumer = await broker.consumer("orders", group="late", start="latest")
    tasks = [
        asyncio.ensure_future(consumer.receive(wait="1h")),
        asyncio.ensure_future(broker.publish("orders", b"y")),
    ]
    await asyncio.wait(tasks, timeout=0.01)

    await asyncio.wait_for(broker.close(), 60)

    for task in tasks:
        with pytest.raises(Closed):
            await task


async def test_an_async_broker_may_be_opened_without_with() -> None:
    broker = await penstock.aio.open().start()
    await broker.create_topic("orders")
    await broker.close()
    await broker.close()

    with pytest.raises(Closed):
        await broker.publish("orders", b"x")


def test_a_full_disk_refuses_a_publish_and_consumers_go_on() -> None:
    files = FaultyFiles(MemoryFiles())
    with TestBroker.open("data", files=files) as broker:
        broker.create_topic("orders")
        broker.publish_batch("orders", [b"0", b"1"])
        consumer = broker.consumer("orders")
        [message] = consumer.receive()

        files.fail_next(Fault.FULL, lasting=True)
        with pytest.raises(DiskFull) as caught:
            broker.publish("orders", b"2")
        assert caught.value.retryable
        with pytest.raises(DiskFull):
            message.ack()
        assert [other.value for other in consumer.receive()] == [b"1"]
        files.heal()

        message.ack()
        assert broker.publish("orders", b"2").offset == 2
        assert broker.depth("orders", "default") == 2


# Other users of the machine.


def modes(directory: Path) -> dict[str, int]:
    """Of all that is in a directory, and of itself."""
    return {str(path): path.stat().st_mode & 0o777 for path in [directory, *directory.rglob("*")]}


@pytest.mark.slow
def test_everything_on_disk_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with penstock.open(str(tmp_path / "data")) as broker:
            broker.create_topic("orders")
            broker.publish("orders", b"a", delay="1h")
            broker.consumer("orders", group="billing").receive()
            broker.set_user("ada", "correct horse battery", [Grant(role="admin")])
    finally:
        os.umask(before)

    found = modes(tmp_path / "data")
    assert f"{tmp_path}/data/access.json" in found
    assert [path for path, mode in found.items() if mode & 0o077] == []


@pytest.mark.slow
def test_what_older_versions_left_open_is_closed_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with penstock.open(str(tmp_path / "data")) as broker:
        broker.set_user("ada", "correct horse battery", [Grant(role="admin")])
    (tmp_path / "data").chmod(0o755)
    (tmp_path / "data" / "access.json").chmod(0o644)

    penstock.open(str(tmp_path / "data")).close()

    assert {mode & 0o077 for mode in modes(tmp_path / "data").values()} == {0}
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "was open to other users (mode 755); its mode is now 700" in caplog.text


@pytest.mark.slow
def test_a_directory_that_is_not_only_ours_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    tmp_path.chmod(0o755)

    penstock.open(str(tmp_path)).close()

    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "topics").stat().st_mode & 0o777 == 0o700


def test_a_topic_with_thousands_of_logs_is_closed_with_one_error() -> None:
    """Each log needs its turn at once, so an error of its own for each would stop the event loop."""
    with TestBroker.open() as broker:
        broker.create_topic("orders", partitions=50)
        broker.create_group("orders", "billing")
        partitions = list(broker._core.state.topics["orders"].partitions)
        logs = [log for partition in partitions for log in partition_logs(partition)]

        broker.delete_topic("orders")

        assert len(logs) == 100
        assert {str(log.failed) for log in logs} == {"the topic orders is closed; open a new one [CLOSED]"}
        assert len({id(log.failed) for log in logs}) == 1
