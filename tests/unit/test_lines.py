"""Appends that wait keep those behind them in order, and let them go on whatever becomes of them."""

import asyncio
from typing import Any

import pytest
from tests.transactional import batch, run

from penstock.broker.aio import EmbeddedAsyncBroker
from penstock.errors import PenstockError, StorageFailed
from penstock.model.message import Receipt
from penstock.testing import TestBroker
from penstock.testing.files import CrashDisk, Fault, FaultyFiles
from penstock.wire.records import encode_values

LARGE = bytes(encode_values([b""] * 20_000, 0))
SMALL = bytes(encode_values([b"small"], 0))


async def opened() -> EmbeddedAsyncBroker:
    broker = await EmbeddedAsyncBroker.open(None)
    await broker.create_topic("orders", partitions=2)
    return broker


def started(broker: EmbeddedAsyncBroker, *batches: tuple[int, bytes]) -> "asyncio.Task[list[Any]]":
    operations = broker.operations
    return asyncio.ensure_future(broker.run(operations.append_records("orders", list(batches), True)))


def offsets(answers: list[Any]) -> list[int | None]:
    return [answer.offset for answer in answers]


async def in_turn() -> list[list[int | None]]:
    broker = await opened()
    tasks = [
        started(broker, (0, LARGE)),
        started(broker, (0, SMALL)),
        started(broker, (1, SMALL)),
        started(broker, (1, SMALL), (0, LARGE)),
        started(broker, (0, SMALL)),
        started(broker, (1, SMALL)),
    ]
    answers = [offsets(await task) for task in tasks]
    await broker.close()
    return answers


def test_what_comes_later_is_written_later_on_each_partition() -> None:
    assert asyncio.run(in_turn()) == [[0], [20_000], [0], [1, 20_001], [40_001], [2]]


async def given_up() -> tuple[list[int | None], dict[int, Any]]:
    broker = await opened()
    first, second = started(broker, (0, LARGE)), started(broker, (0, SMALL))
    await broker.topics()  # By then both have begun.
    first.cancel()
    told = offsets(await second)
    await asyncio.gather(first, return_exceptions=True)
    left = dict(broker._core.state.topics["orders"].appends)
    await broker.close()
    return told, left


def test_one_who_gives_up_lets_the_others_go_on() -> None:
    told, left = asyncio.run(given_up())

    assert told == [0]
    assert left == {}


async def refused() -> list[Any]:
    broker = await opened()
    broken = LARGE[:-1] + b"\x01"
    tasks = [started(broker, (0, broken)), started(broker, (0, SMALL))]
    answers = [(await task)[0] for task in tasks]
    await broker.close()
    return answers


def test_one_who_is_refused_lets_the_others_go_on() -> None:
    first, second = asyncio.run(refused())

    assert isinstance(first, PenstockError)
    assert isinstance(second, Receipt)


def test_a_disk_that_fails_while_somebody_stands_in_line_leaves_nobody_there() -> None:
    disk = CrashDisk()
    broker = TestBroker.open("data", files=disk)
    broker.create_topic("orders")
    number, epoch = run(broker, "init_producer", "p", 60_000, -1, -1)
    broker.close()
    syncs = FaultyFiles(disk)
    broker = TestBroker.open("data", files=syncs)
    count = len(syncs.operations)
    broker.close()
    files = FaultyFiles(disk, at=count + 2, fault=Fault.STUCK)
    broker = TestBroker.open("data", files=files)
    batches = [(0, batch([b"a"], number, epoch, 0))]

    with pytest.raises(StorageFailed):
        run(broker, "append_in_transaction", "orders", batches, True, "p", True)

    assert broker._core.state.topics["orders"].appends == {}
