"""Answers: acks together, and a broker that cannot take one is asked again."""

import asyncio
from typing import Any, cast

import pytest
from tests.workers.virtual import VirtualTime

import penstock
from penstock.errors import DiskFull, LeaseLost, PenstockError
from penstock.workers.functions import WorkerFunction
from penstock.workers.outcome import DONE, Failed, Rejected
from penstock.workers.settling import CallSettler, FunctionCall


class Message:
    """As much of a message as an answer needs."""

    def __init__(self, number: int) -> None:
        self.id = f"orders:0:{number}"
        self.attempt = 1
        self.settled = False


class Consumer:
    """Writes down what it is told; says no as often as it was told to, and yes when the gate is open."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[str]]] = []
        self.refusals: list[PenstockError] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def ack(self, messages: list[Message]) -> None:
        await self._hear("ack", messages)

    async def nack(self, message: Message, **_: Any) -> None:
        await self._hear("nack", [message])

    async def reject(self, message: Message, reason: str) -> None:
        await self._hear("reject", [message])

    async def _hear(self, answer: str, messages: list[Message]) -> None:
        self.told.append((answer, [message.id for message in messages]))
        await self.gate.wait()
        if self.refusals:
            raise self.refusals.pop(0)
        for message in messages:
            message.settled = True


def function() -> WorkerFunction:
    app = penstock.App()
    app.worker("orders")(print)
    return app.functions[0]


def calls(consumer: Consumer, count: int) -> list[FunctionCall]:
    return [FunctionCall(cast("Any", consumer), cast("Any", Message(number))) for number in range(count)]


async def test_what_is_done_while_an_ack_is_on_its_way_is_acked_together() -> None:
    consumer, heard, done = Consumer(), list[int](), asyncio.Event()

    def hear() -> None:
        heard.append(answering.unacked)
        if not answering.unacked:
            done.set()

    answering = CallSettler(function(), hear)
    first, *others = calls(consumer, 4)
    consumer.gate.clear()

    async with asyncio.TaskGroup() as tasks:
        acking = tasks.create_task(answering.ack_on())
        await answering.settle(first, DONE)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for call in others:
            await answering.settle(call, DONE)
        assert answering.unacked == 4
        consumer.gate.set()
        await done.wait()
        acking.cancel()

    assert consumer.told == [("ack", ["orders:0:0"]), ("ack", ["orders:0:1", "orders:0:2", "orders:0:3"])]
    assert heard == [3, 0]


async def test_what_has_failed_does_not_wait_for_acks() -> None:
    consumer = Consumer()
    answering = CallSettler(function(), lambda: None)
    failed, rejected = calls(consumer, 2)

    await answering.settle(failed, Failed(ValueError("no")))
    await answering.settle(rejected, Rejected("no good"))

    assert consumer.told == [("nack", ["orders:0:0"]), ("reject", ["orders:0:1"])]


async def test_what_was_answered_by_its_function_is_not_answered_again() -> None:
    consumer = Consumer()
    answering = CallSettler(function(), lambda: None)
    before, between = calls(consumer, 2)
    cast("Any", before.message).settled = True

    await answering.settle(before, Failed(ValueError("no")))
    await answering.settle(between, DONE)
    cast("Any", between.message).settled = True  # By a task that the function has left behind.
    await answering.ack_all()

    assert consumer.told == []


async def test_a_broker_that_cannot_take_the_answer_now_is_asked_again(time: VirtualTime) -> None:
    consumer = Consumer()
    consumer.refusals = [DiskFull(path="data"), DiskFull(path="data")]
    answering = CallSettler(function(), lambda: None)
    [call] = calls(consumer, 1)
    await answering.settle(call, DONE)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(answering.ack_all())
        await time.passes("1s")

    assert consumer.told == [("ack", ["orders:0:0"])] * 3
    assert answering.unacked == 0


async def test_an_answer_that_is_refused_for_good_is_said(caplog: pytest.LogCaptureFixture) -> None:
    consumer = Consumer()
    consumer.refusals = [LeaseLost(topic="orders", partition=0, offset=0)]
    answering = CallSettler(function(), lambda: None)
    [call] = calls(consumer, 1)
    await answering.settle(call, DONE)

    await answering.ack_all()

    assert len(consumer.told) == 1
    assert "print: no answer for orders:0:0" in caplog.text
