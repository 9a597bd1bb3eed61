"""Workers in virtual time: the broker's clock is the event loop's too.

So timeouts, heartbeats and pauses, which are asyncio's, pass with the broker's
time and not with ours.  Nothing sleeps; ``time.passes`` moves the clock.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.workers.virtual import VirtualTime

from penstock.config import DAY_MS, BrokerConfig
from penstock.testing import AsyncTestBroker

# Days pass in some of these tests, and nobody looks at retention in them.
QUIET = BrokerConfig(maintenance_ms=7 * DAY_MS, clock_check_ms=365 * DAY_MS)


@pytest.fixture
async def time() -> AsyncIterator[VirtualTime]:
    """A broker, and time that passes when the test says so."""
    loop = asyncio.get_running_loop()
    async with await AsyncTestBroker.open(config=QUIET) as broker:
        start_ms = broker.clock.steady_ms()  # From 0 on: seconds since 1970 have no room for nanoseconds.
        loop.time = lambda: (broker.clock.steady_ms() - start_ms) / 1000  # type: ignore[method-assign]
        yield VirtualTime(broker)
        del loop.time
