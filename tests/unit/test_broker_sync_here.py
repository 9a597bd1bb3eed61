"""An event loop syncs by itself while the disk is quick; when it is not, the disk thread does."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.aio import EmbeddedAsyncBroker
from penstock.broker.drivers import loop
from penstock.errors import Closed
from penstock.log import files
from penstock.model.message import Message
from penstock.wire.records import encode_values


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads that synced, in order."""
    threads: list[str] = []
    sync = files._sync_data

    def told(descriptor: int) -> None:
        threads.append(threading.current_thread().name)
        sync(descriptor)

    monkeypatch.setattr(files, "_sync_data", told)
    return threads


async def publish(broker: EmbeddedAsyncBroker, count: int) -> None:
    for _ in range(count):
        await broker.publish("orders", b"x")


async def test_a_quick_disk_is_synced_on_the_loop(
    tmp_path: Path, syncs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "stopwatch_ns", lambda: 0)  # However busy the machine's disk is.
    async with await EmbeddedAsyncBroker.open(str(tmp_path)) as broker:
        await broker.create_topic("orders")
        syncs.clear()  # That waits for the disk in a thread.
        await publish(broker, 5)

        assert set(syncs) == {threading.current_thread().name}
        assert len(await broker.read("orders")) == 5


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> "SlowDisk":
    monkeypatch.setattr(loop, "PAUSE_S_MIN", 60.0)  # For longer than a test.
    slow = SlowDisk()
    monkeypatch.setattr(loop, "stopwatch_ns", slow.stopwatch_ns)
    return slow


class SlowDisk:
    """Syncs take as long as it says; the stopwatch is looked at before each of them and behind."""

    def __init__(self) -> None:
        self.sync_ms = 0.0
        self._looks = 0

    def stopwatch_ns(self) -> int:
        self._looks += 1
        return int(self.sync_ms * 1e6) if self._looks % 2 == 0 else 0


async def test_after_slow_syncs_the_disk_thread_has_the_work_for_a_while(
    tmp_path: Path, syncs: list[str], disk: SlowDisk
) -> None:
    async with await EmbeddedAsyncBroker.open(str(tmp_path)) as broker:
        await broker.create_topic("orders")
        syncs.clear()
        disk.sync_ms = 11
        await publish(broker, 5)

        assert syncs == [*[threading.current_thread().name] * 3, *["penstock-disk"] * 2]
        assert len(await broker.read("orders")) == 5


async def test_a_sync_that_is_slow_by_chance_changes_nothing(
    tmp_path: Path, syncs: list[str], disk: SlowDisk
) -> None:
    async with await EmbeddedAsyncBroker.open(str(tmp_path)) as broker:
        await broker.create_topic("orders")
        syncs.clear()  # That waits for the disk in a thread.
        for slow in (20, 8, 15):  # Beyond what may be only if they came together.
            disk.sync_ms = slow
            await publish(broker, 1)
            disk.sync_ms = 0.4
            await publish(broker, 40)

        assert set(syncs) == {threading.current_thread().name}


async def test_much_at_once_is_for_the_disk_thread(
    tmp_path: Path, syncs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "HERE_NS", 60_000_000_000)
    async with await EmbeddedAsyncBroker.open(str(tmp_path)) as broker:
        await broker.create_topic("orders", partitions=4)
        syncs.clear()
        async with asyncio.TaskGroup() as tasks:
            for partition in range(4):
                tasks.create_task(broker.publish("orders", b"x", partition=partition))

        assert set(syncs) == {"penstock-disk"}


async def test_a_reader_has_the_message_before_the_writer_has_the_receipt(tmp_path: Path) -> None:
    async with await EmbeddedAsyncBroker.open(str(tmp_path)) as broker:
        await broker.create_topic("orders")
        consumer = await broker.consumer("orders", group="g")
        ended: list[str] = []
        both = asyncio.Event()

        def then(name: str) -> Callable[[Any, BaseException | None], None]:
            def told(_: Any, error: BaseException | None) -> None:
                assert error is None
                ended.append(name)
                if len(ended) == 2:
                    both.set()

            return told

        broker.start(consumer._operations.receive(1, 60_000), then("reader"))
        broker.start(broker.operations.publish("orders", Message(b"x")), then("writer"))
        await both.wait()

        assert ended == ["reader", "writer"]


async def test_a_sync_looks_only_at_the_partitions_that_were_written(tmp_path: Path) -> None:
    """With thousands of partitions, a look at all of them would cost more than the publish."""
    async with await EmbeddedAsyncBroker.open(str(tmp_path)) as broker:
        await broker.create_topic("orders", partitions=8)
        state = broker._core.state
        ended = asyncio.Event()

        broker.start(broker.operations.publish("orders", Message(b"x", partition=3)), lambda *_: ended.set())
        unheard = list(state.unheard)
        await ended.wait()

        assert unheard == [state.topics["orders"].partitions[3]]
        assert not state.unheard


async def test_what_was_deleted_before_its_sync_is_not_waited_for(tmp_path: Path) -> None:
    async with await EmbeddedAsyncBroker.open(str(tmp_path)) as broker:
        await broker.create_topic("orders")
        await broker.create_topic("others")
        core = broker._core
        broker.start(broker.operations.publish("orders", Message(b"x")), lambda *_: None)
        [partition] = core.state.unheard
        partition.log.give_up(Closed(what="log"))

        await broker.publish("others", b"y")

        assert not core.state.unheard


async def test_what_nobody_waits_for_shares_the_sync_of_its_turn(
    tmp_path: Path, syncs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``acks="written"``: a sync that started in the middle of the turn would not have the others."""
    monkeypatch.setattr(loop, "stopwatch_ns", lambda: 0)
    async with await EmbeddedAsyncBroker.open(str(tmp_path)) as broker:
        await broker.create_topic("orders")
        [version] = [topic.version for topic in broker._core.state.topics.values()]
        batch = bytes(encode_values([b"x"], 1))
        syncs.clear()

        for wait in (False, False, True, False):
            work = broker._core.publishing.append_batches("orders", version, [(0, batch)], wait)
            broker.start(work, loop.ignore_result)
        assert syncs == []
        turn = asyncio.Event()
        asyncio.get_running_loop().call_soon(turn.set)  # After what was asked for in this turn.
        await turn.wait()

        assert len(await broker.read("orders")) == 4
        assert syncs == [threading.current_thread().name]
