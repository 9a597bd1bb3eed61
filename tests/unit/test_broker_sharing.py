"""Consumers that wait share what comes, also if some of them ask for more than they can work on."""

import asyncio
import itertools
from collections import Counter
from typing import Any

import pytest

from penstock.api.aio_handles import AsyncConsumer
from penstock.broker.steps import Arrival
from penstock.errors import InvalidName, InvalidValue
from penstock.testing import AsyncTestBroker


class Taker:
    """A consumer that always asks for more, as one that prefetches does."""

    def __init__(self, consumer: AsyncConsumer, max_messages: int) -> None:
        self.values: list[bytes | None] = []
        self._consumer = consumer
        self._max = max_messages
        self.task = asyncio.ensure_future(self._take())

    async def _take(self) -> None:
        while True:
            self.values += [message.value for message in await self._consumer.receive(self._max, wait="1h")]


async def takers(broker: AsyncTestBroker, count: int, max_messages: int = 10) -> list[Taker]:
    made = [
        Taker(await broker.consumer("orders", consumer_id=f"c{number}"), max_messages)
        for number in range(count)
    ]
    await broker.advance(0)
    return made


@pytest.fixture(params=[1, 6], ids=["one partition", "six partitions"])
async def broker(request: pytest.FixtureRequest) -> AsyncTestBroker:
    made = await AsyncTestBroker.open()
    await made.create_topic("orders", partitions=request.param)
    return made


async def test_a_batch_is_shared_by_those_who_wait(broker: AsyncTestBroker) -> None:
    some = await takers(broker, 3)

    await broker.publish_batch("orders", [b"%d" % number for number in range(9)])
    await broker.advance(0)

    assert [len(taker.values) for taker in some] == [3, 3, 3]


async def test_what_is_published_one_by_one_goes_round(broker: AsyncTestBroker) -> None:
    some = await takers(broker, 3)

    for number in range(9):
        await broker.publish("orders", b"%d" % number)
    await broker.advance(0)

    assert [len(taker.values) for taker in some] == [3, 3, 3]


async def test_whoever_holds_least_gets_the_next_one(broker: AsyncTestBroker) -> None:
    [busy] = await takers(broker, 1)
    await broker.publish_batch("orders", [b"early"] * 4)
    await broker.advance(0)
    assert len(busy.values) == 4

    idle = Taker(await broker.consumer("orders", consumer_id="idle"), 10)
    await broker.advance(0)
    for _ in range(4):
        await broker.publish("orders", b"late")
    await broker.advance(0)

    assert Counter(idle.values) == {b"late": 4}
    assert Counter(busy.values) == {b"early": 4}


async def test_everything_comes_though_fewer_messages_than_consumers_are_there(
    broker: AsyncTestBroker,
) -> None:
    some = await takers(broker, 5)

    await broker.publish_batch("orders", [b"a", b"b"])
    await broker.advance(0)

    assert sorted(len(taker.values) for taker in some) == [0, 0, 0, 1, 1]


async def test_one_that_stops_waiting_does_not_hold_up_the_others(broker: AsyncTestBroker) -> None:
    [busy] = await takers(broker, 1)
    await broker.publish_batch("orders", [b"a", b"b"])
    await broker.advance(0)
    idle = Taker(await broker.consumer("orders", consumer_id="idle"), 10)
    await broker.advance(0)

    idle.task.cancel()
    await broker.publish_batch("orders", [b"c", b"d"])
    await broker.advance(0)

    assert (sorted(filter(None, busy.values)), idle.values) == ([b"a", b"b", b"c", b"d"], [])


async def test_a_backlog_is_not_shared_out_in_advance(broker: AsyncTestBroker) -> None:
    await broker.publish_batch("orders", [b"%d" % number for number in range(20)])

    consumer = await broker.consumer("orders")

    assert len(await consumer.receive(20)) == 20


async def test_consumers_that_take_one_at_a_time_and_ack_at_once_take_turns(broker: AsyncTestBroker) -> None:
    """Though the first could take them all before another had a turn."""
    counts: Counter[str] = Counter()

    async def work(consumer: AsyncConsumer) -> None:
        async for message in consumer:
            await message.ack()
            counts[consumer.consumer_id] += 1

    tasks = [
        asyncio.ensure_future(work(await broker.consumer("orders", consumer_id=f"c{number}")))
        for number in range(3)
    ]
    await broker.advance(0)
    await broker.publish_batch("orders", [b"%d" % number for number in range(12)])
    await broker.advance(0)

    assert counts == {"c0": 4, "c1": 4, "c2": 4}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_nobody_lets_a_consumer_go_first_that_holds_all_it_may(broker: AsyncTestBroker) -> None:
    busy = await broker.consumer("orders", consumer_id="busy")
    full = await broker.consumer("orders", consumer_id="full", max_in_flight=1)
    await broker.publish_batch("orders", [b"1", b"2", b"3"])
    assert (len(await busy.receive(2)), len(await full.receive(1))) == (2, 1)
    waiting, refused = busy.operations.receive(1, 1000), full.operations.receive(1, 1000)
    assert isinstance(next(waiting), Arrival)
    await broker.publish("orders", b"4")

    assert isinstance(next(refused), Arrival)  # It waits, and does not take part in turns.
    with pytest.raises(StopIteration) as end:
        next(waiting)
    assert [message.value for message in end.value.value] == [b"4"]
    refused.close()


async def test_a_consumer_of_several_topics_that_cannot_be_opened_leaves_none_open(
    broker: AsyncTestBroker,
) -> None:
    with pytest.raises(InvalidName):
        await broker.consumer_of_topics(["orders", "no/name"], group="g")

    assert (await broker.describe_group("orders", "g")).consumers == []


async def test_a_consumer_of_several_topics_checks_what_it_is_given(broker: AsyncTestBroker) -> None:
    for topic in ("users", "parcels"):
        await broker.create_topic(topic)
        await broker.publish(topic, b"1")
    other = await broker.consumer("parcels")

    async with await broker.consumer_of_topics(["orders", "users", "orders"]) as consumer:
        assert consumer.topics == ["orders", "users"]
        assert len((await broker.describe_group("orders", "default")).consumers) == 1
        with pytest.raises(InvalidValue, match="max_messages"):
            await consumer.receive(0)
        [message] = await consumer.receive()
        with pytest.raises(InvalidValue, match="'parcels'"):
            await consumer.ack([message, *await other.receive()])
        assert consumer.in_flight == 1
    with pytest.raises(InvalidValue, match="list of names"):
        await broker.consumer_of_topics([["orders"]])  # type: ignore[list-item]


async def test_a_consumer_of_several_topics_loses_nothing_if_one_of_them_is_gone(
    broker: AsyncTestBroker,
) -> None:
    await broker.create_topic("users")
    consumer = await broker.consumer_of_topics(["orders", "users"])
    await broker.publish("orders", b"1")
    await broker.delete_topic("users")

    [message] = await consumer.receive(10)

    assert message.value == b"1"


async def test_an_idle_consumer_of_several_topics_makes_few_requests(
    broker: AsyncTestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = 0
    receive = AsyncConsumer.receive

    async def counted(self: AsyncConsumer, *arguments: Any) -> Any:
        nonlocal requests
        requests += 1
        return await receive(self, *arguments)

    monkeypatch.setattr(AsyncConsumer, "receive", counted)
    for number in range(10):
        await broker.create_topic(f"t{number}")
    consumer = await broker.consumer_of_topics([f"t{number}" for number in range(10)])
    waiting = asyncio.ensure_future(consumer.receive(10, wait="10s"))
    await broker.advance("10s")

    assert await waiting == []
    assert requests < 10 * 10 * 2 + 40  # Two for each topic and second.


@pytest.mark.parametrize("topics", [2, 10, 25])
async def test_a_message_of_one_of_several_idle_topics_comes_within_half_a_second(
    broker: AsyncTestBroker, topics: int
) -> None:
    names = [f"t{number}" for number in range(topics)]
    for name in names:
        await broker.create_topic(name)
    consumer = await broker.consumer_of_topics(names)
    for name in names:
        waiting = asyncio.ensure_future(consumer.receive(1, wait="1h"))
        await broker.advance("5s")
        assert not waiting.done()

        await broker.publish(name, name.encode())
        await broker.advance("500ms")

        assert waiting.done()
        [message] = await waiting
        await message.ack()


async def test_the_time_that_requests_take_counts_against_the_wait_at_several_topics(
    broker: AsyncTestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = itertools.count()
    monkeypatch.setattr("penstock.api.aio_handles.stopwatch_ns", lambda: next(seconds) * 1_000_000_000)
    consumer = await broker.consumer_of_topics(["orders"])
    waiting = asyncio.ensure_future(consumer.receive(10, wait="4s"))
    await broker.advance("1s")

    assert waiting.done()
    assert await waiting == []


async def test_a_consumer_of_several_topics_waits_for_all_of_them(broker: AsyncTestBroker) -> None:
    await broker.create_topic("users")
    consumer = await broker.consumer_of_topics(["orders", "users"])
    waiting = asyncio.ensure_future(consumer.receive(10, wait="1h"))
    await broker.advance("10s")
    assert not waiting.done()

    await broker.publish("users", b"anna")
    await broker.advance("1s")

    [message] = await waiting
    assert (message.topic, message.value) == ("users", b"anna")
    waiting = asyncio.ensure_future(consumer.receive(10, wait="5s"))
    await broker.advance("5s")
    assert await waiting == []
