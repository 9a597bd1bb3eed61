"""Names are matched by one thread at a time, and not for ever."""

from collections.abc import AsyncIterator

import pytest

from penstock.broker.kafka import matching
from penstock.broker.kafka.matching import MATCH_MS_MAX, Matching
from penstock.broker.steps import Arrival, Aside
from penstock.errors import Closed, Overloaded
from penstock.testing import AsyncTestBroker

WORK = {"a.*": ["ab", "ba"]}


@pytest.fixture
async def broker() -> AsyncIterator[AsyncTestBroker]:
    async with await AsyncTestBroker.open() as opened:
        yield opened


@pytest.fixture
def queue(broker: AsyncTestBroker) -> Matching:
    return broker.operations._core.matching


async def test_who_comes_second_waits_for_the_first(queue: Matching) -> None:
    first, second, third = (queue.match(WORK) for _ in range(3))
    step = next(first)
    assert isinstance(step, Aside)
    assert isinstance(next(second), Arrival)
    assert isinstance(next(third), Arrival)

    second.close()  # It does not want to wait any longer.
    step.result = step.function()
    with pytest.raises(StopIteration) as end:
        next(first)

    assert end.value.value.matches("a.*", "ab")
    assert isinstance(next(third), Aside)
    third.close()
    assert isinstance(next(queue.match(WORK)), Aside)


async def test_work_that_nobody_waits_for_any_more_is_given_up(queue: Matching) -> None:
    work = queue.match(WORK)
    step = next(work)
    assert isinstance(step, Aside)

    work.close()

    assert step.function() is None


async def test_work_that_takes_too_long_is_given_up(broker: AsyncTestBroker, queue: Matching) -> None:
    step = next(queue.match(WORK))
    assert isinstance(step, Aside)

    await broker.advance(MATCH_MS_MAX / 1000)

    assert step.function() is None


async def test_so_much_work_waits_and_no_more(queue: Matching, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "WAITING_MAX", 2)
    waiting = [queue.match(WORK) for _ in range(2)]
    for each in waiting:
        next(each)

    with pytest.raises(Overloaded, match="patterns that wait"):
        next(queue.match(WORK))


async def test_who_waits_when_the_broker_closes_is_told_so(broker: AsyncTestBroker, queue: Matching) -> None:
    first, second = queue.match(WORK), queue.match(WORK)
    next(first)
    next(second)

    await broker.close()

    with pytest.raises(Closed):
        next(second)
    first.close()
