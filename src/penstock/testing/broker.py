"""The real broker in memory, in virtual time, for tests.

    with penstock.testing.open() as broker:
        broker.create_topic("reports")
        broker.publish("reports", b"monthly", delay="3d")
        broker.advance("3d")                       # schedules, timeouts, retries and retention happen now
        assert broker.consumer("reports").receive()

It is the same engine, without a disk, a thread or a real clock, so a test
lives through three days in a millisecond and always in the same way: the
random jitter of retries comes from a seed.  A ``receive(wait=...)`` that would
wait moves the clock instead, to the next thing that is due.
"""

from random import Random
from typing import Self

from penstock.broker.aio import EmbeddedAsyncBroker
from penstock.broker.core import Core, make_core
from penstock.broker.embedded import EmbeddedBroker
from penstock.config.broker import BrokerConfig
from penstock.log.files import Files
from penstock.testing.clock import ManualClock
from penstock.testing.driver import VirtualDriver, VirtualLoopDriver
from penstock.types import Duration, duration_ms

# Virtual clocks do not jump by themselves, so the schedule need not look every second.
VIRTUAL = BrokerConfig(clock_check_ms=365 * 24 * 3600 * 1000)


def _core(
    directory: str | None, config: BrokerConfig | None, files: Files | None, clock: ManualClock, seed: int
) -> Core:
    return make_core(directory, config or VIRTUAL, clock, files, Random(seed))


class TestBroker(EmbeddedBroker):
    """A ``Broker`` whose time a test moves."""

    __test__ = False  # Not a test, whatever its name says to pytest.

    def __init__(self, core: Core, driver: VirtualDriver, clock: ManualClock) -> None:
        super().__init__(core, driver)
        self._virtual = driver
        self.clock = clock

    @classmethod
    def open(
        cls,
        directory: str | None = None,
        *,
        config: BrokerConfig | None = None,
        files: Files | None = None,
        clock: ManualClock | None = None,
        seed: int = 0,
    ) -> Self:
        """Open a broker in virtual time: in memory, or on ``directory`` of the given ``files``."""
        clock = clock or ManualClock()
        core = _core(directory, config, files, clock, seed)
        driver = VirtualDriver(core, clock)
        driver.open()
        return cls(core, driver, clock)

    def advance(self, duration: Duration) -> None:
        """Let time pass, and everything happen that becomes due on the way, in order."""
        self._virtual.advance(duration_ms("duration", duration))


class AsyncTestBroker(EmbeddedAsyncBroker):
    """An ``AsyncBroker`` whose time a test moves."""

    def __init__(self, core: Core, driver: VirtualLoopDriver, clock: ManualClock) -> None:
        super().__init__(core, driver)
        self._virtual = driver
        self.clock = clock

    @classmethod
    async def open(
        cls,
        directory: str | None = None,
        *,
        config: BrokerConfig | None = None,
        files: Files | None = None,
        clock: ManualClock | None = None,
        seed: int = 0,
    ) -> Self:
        """Open a broker in virtual time on the running loop: in memory, or on ``directory`` of ``files``."""
        clock = clock or ManualClock()
        core = _core(directory, config, files, clock, seed)
        driver = VirtualLoopDriver(core, clock)
        await driver.open()
        return cls(core, driver, clock)

    async def advance(self, duration: Duration) -> None:
        """Let time pass; tasks that wait for messages run as they become due."""
        await self._virtual.advance(duration_ms("duration", duration))
