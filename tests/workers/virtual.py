"""What the tests of workers share."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.testing import AsyncTestBroker
from penstock.types import Duration, duration_ms

TURNS = 30  # Of the loop: enough for a chain of tasks to come to rest.


class VirtualTime:
    """A broker and its clock."""

    def __init__(self, broker: AsyncTestBroker) -> None:
        self.broker = broker

    async def passes(self, duration: Duration, step: Duration = "100ms") -> None:
        """Let time pass in small steps, with turns of the loop for timers between them."""
        left_ms, step_ms = duration_ms("duration", duration), duration_ms("step", step)
        await self.settles()
        while left_ms > 0:
            await self.broker.advance(min(step_ms, left_ms) / 1000)
            left_ms -= step_ms
            await self.settles()

    async def settles(self) -> None:
        """Let every task come to its next wait, without time passing."""
        for _ in range(TURNS):
            await asyncio.sleep(0)


@contextmanager
def clock_of(broker: AsyncTestBroker) -> Iterator[VirtualTime]:
    """The broker's clock is the running loop's too, while the block runs."""
    loop = asyncio.get_running_loop()
    start_ms = broker.clock.steady_ms()  # From 0 on: seconds since 1970 have no room for nanoseconds.
    loop.time = lambda: (broker.clock.steady_ms() - start_ms) / 1000  # type: ignore[method-assign]
    try:
        yield VirtualTime(broker)
    finally:
        del loop.time
