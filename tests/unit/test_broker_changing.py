"""Changes of one topic that are asked for at once, or given up half-way: one comes after the other."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import penstock.aio
from penstock.aio import AsyncBroker
from penstock.broker.state import Partition
from penstock.broker.steps import exhaust
from penstock.broker.topic.groups import SYNCED_SLICE
from penstock.config.broker import BrokerConfig
from penstock.errors import (
    GroupKindMismatch,
    InvalidValue,
    LimitReached,
    PenstockError,
    StorageFailed,
    TopicExists,
)
from penstock.log.files import MemoryFiles
from penstock.testing import AsyncTestBroker, TestBroker
from penstock.testing.files import FaultyFiles


async def give_up(change: Coroutine[Any, Any, None]) -> None:
    """Begin a change, and cancel it when it has given way to others."""
    loop = asyncio.get_running_loop()
    changing = asyncio.ensure_future(change)
    loop.call_soon(lambda: loop.call_soon(changing.cancel))
    with pytest.raises(asyncio.CancelledError):
        await changing


async def settled(broker: AsyncBroker, partitions: int) -> int:
    """How many messages a group gets and acknowledges, of one for each partition."""
    for number in range(partitions):
        await broker.publish("orders", b"x", partition=number)
    count = 0
    async with await broker.consumer("orders", group="work") as consumer:
        while messages := await consumer.receive(1000):
            await consumer.ack(messages)
            count += len(messages)
    return count


async def test_a_topic_that_two_let_grow_at_once_has_working_groups_on_all_partitions(tmp_path: Path) -> None:
    async with penstock.aio.open(str(tmp_path)) as broker:
        await broker.create_topic("orders")
        await broker.create_group("orders", "work")

        results = await asyncio.gather(
            broker.alter_topic("orders", partitions=60),
            broker.alter_topic("orders", partitions=40),
            broker.alter_topic("orders", partitions=60),
            return_exceptions=True,
        )

        assert [type(result) for result in results] == [type(None), InvalidValue, type(None)]
        assert await settled(broker, 60) == 60

    async with penstock.aio.open(str(tmp_path)) as broker:
        assert len((await broker.describe_topic("orders")).partitions) == 60
        assert (await broker.describe_group("orders", "work")).lag == 0


async def test_a_setting_that_is_changed_while_a_topic_grows_stays_changed() -> None:
    async with await AsyncTestBroker.open() as broker:
        await broker.create_topic("orders")

        await asyncio.gather(
            broker.alter_topic("orders", partitions=500), broker.alter_topic("orders", retention="1d")
        )

        assert (await broker.describe_topic("orders")).settings.retention_ms == 86_400_000


async def test_topics_that_grow_at_once_stay_within_the_limit_of_partitions() -> None:
    async with await AsyncTestBroker.open(config=BrokerConfig(partitions_max=1000)) as broker:
        await broker.create_topic("a")
        await broker.create_topic("b")

        results = await asyncio.gather(
            broker.alter_topic("a", partitions=600),
            broker.alter_topic("b", partitions=600),
            return_exceptions=True,
        )

        assert [type(result) for result in results] == [type(None), LimitReached]


async def test_a_group_that_two_make_at_once_is_as_the_first_wants_it(tmp_path: Path) -> None:
    async with penstock.aio.open(str(tmp_path)) as broker:
        await broker.create_topic("orders", partitions=50)

        results = await asyncio.gather(
            broker.create_group("orders", "work", kind="queue"),
            broker.create_group("orders", "work", kind="stream"),
            return_exceptions=True,
        )

        assert [type(result) for result in results] == [type(None), GroupKindMismatch]
        assert await settled(broker, 50) == 50

    async with penstock.aio.open(str(tmp_path)) as broker:
        assert (await broker.describe_group("orders", "work")).kind == "queue"


async def test_a_group_whose_creation_was_given_up_is_nowhere(tmp_path: Path) -> None:
    async with penstock.aio.open(str(tmp_path)) as broker:
        await broker.create_topic("orders", partitions=50)
        await give_up(broker.create_group("orders", "work"))

    async with penstock.aio.open(str(tmp_path)) as broker:
        assert await broker.groups("orders") == []


async def test_a_group_that_is_deleted_while_its_settings_change_does_not_come_back(tmp_path: Path) -> None:
    async with penstock.aio.open(str(tmp_path)) as broker:
        await broker.create_topic("orders", partitions=50)
        await broker.create_group("orders", "work")

        await asyncio.gather(
            broker.create_group("orders", "work", max_attempts=3),
            broker.delete_group("orders", "work"),
            return_exceptions=True,
        )

    async with penstock.aio.open(str(tmp_path)) as broker:
        assert await broker.groups("orders") == []


async def test_a_topic_that_is_made_anew_has_no_group_that_was_meant_for_the_old_one(tmp_path: Path) -> None:
    async def anew(broker: AsyncBroker) -> None:
        await broker.delete_topic("orders")
        await broker.create_topic("orders", partitions=50)

    async with penstock.aio.open(str(tmp_path)) as broker:
        await broker.create_topic("orders", partitions=50)

        made, _ = await asyncio.gather(
            broker.create_group("orders", "work"), anew(broker), return_exceptions=True
        )

        assert isinstance(made, PenstockError)

    async with penstock.aio.open(str(tmp_path)) as broker:
        assert await broker.groups("orders") == []


class FailingOnce(MemoryFiles):
    """Files whose next sync of the names of topics fails, after something else was done."""

    def __init__(self) -> None:
        super().__init__()
        self.first: Callable[[], object] | None = None

    def sync_directory(self, path: str) -> None:
        first = self.first
        if first is not None and path.endswith("/topics"):
            self.first = None
            first()
            raise StorageFailed(path=path, why="sync")
        super().sync_directory(path)


def test_a_topic_whose_creation_fails_stays_if_others_have_published_to_it() -> None:
    files = FailingOnce()
    with TestBroker.open("data", files=files) as broker:
        files.first = lambda: broker.publish("orders", b"acknowledged")

        with pytest.raises(StorageFailed):
            broker.create_topic("orders")
        with pytest.raises(TopicExists):
            broker.create_topic("orders")

        assert [message.value for message in broker.read("orders")] == [b"acknowledged"]


def test_a_topic_whose_creation_fails_and_that_nobody_has_used_can_be_created_again() -> None:
    files = FailingOnce()
    with TestBroker.open("data", files=files) as broker:
        files.first = lambda: None

        with pytest.raises(StorageFailed):
            broker.create_topic("orders")
        broker.create_topic("orders")
        broker.publish("orders", b"x")


async def test_partitions_that_come_to_nothing_are_freed_without_the_garbage_collector() -> None:
    async with await AsyncTestBroker.open() as broker:
        await broker.create_topic("old")
        await broker.create_group("old", "work")
        gc.collect()
        gc.disable()
        try:
            before = partitions_in_memory()
            await asyncio.gather(
                *(broker.create_topic("new", partitions=300) for _ in range(3)), return_exceptions=True
            )
            await give_up(broker.alter_topic("old", partitions=50))
            exhaust(broker._core.state.forget_gone())

            assert partitions_in_memory() == before + 300
        finally:
            gc.enable()


def partitions_in_memory() -> int:
    return sum(isinstance(each, Partition) for each in gc.get_objects())


def test_whoever_publishes_waits_for_few_journals_while_a_topic_of_many_partitions_changes() -> None:
    files = FaultyFiles(MemoryFiles())
    with TestBroker.open("data", files=files) as broker:
        broker.create_topic("orders")
        broker.create_group("orders", "work")
        files.operations.clear()

        broker.alter_topic("orders", partitions=301)
        assert most_unsynced(files) <= SYNCED_SLICE
        broker.create_group("orders", "more")
        assert most_unsynced(files) <= SYNCED_SLICE


def most_unsynced(files: FaultyFiles) -> int:
    """How many files were written at most and not synced, at a time."""
    most = 0
    unsynced = set()
    for done in files.operations:
        operation, _, path = done.partition(" ")
        if operation == "append":
            unsynced.add(path)
        elif operation == "sync":
            unsynced.discard(path)
        most = max(most, len(unsynced))
    return most
