"""Workers in virtual time: the broker's clock is the event loop's too.

So timeouts, heartbeats and pauses, which are asyncio's, pass with the broker's
time and not with ours.  Nothing sleeps; ``time.passes`` moves the clock.
"""

from collections.abc import AsyncIterator

import pytest
from tests.workers.virtual import VirtualTime, clock_of

from penstock.config.broker import DAY_MS, BrokerConfig
from penstock.testing import AsyncTestBroker

# Days pass in some of these tests, and nobody looks at retention in them.
QUIET = BrokerConfig(maintenance_ms=7 * DAY_MS, clock_check_ms=365 * DAY_MS)


@pytest.fixture
async def time() -> AsyncIterator[VirtualTime]:
    """A broker, and time that passes when the test says so."""
    async with await AsyncTestBroker.open(config=QUIET) as broker:
        with clock_of(broker) as virtual:
            yield virtual
