"""The embedded broker for asyncio programs; front ends serve it.

A front end does not await an operation, it starts it: a task for every request
would cost more than the request (docs/decisions/0012-one-facade.md).
"""

from collections.abc import Callable
from typing import Any, Self, TypeVar

from penstock.api.aio import AsyncBroker
from penstock.api.spans import traced
from penstock.api.work import Work
from penstock.broker.core import Core
from penstock.broker.drivers.loop import LoopDriver
from penstock.broker.embedded import make_core
from penstock.broker.operations import LocalOperations
from penstock.broker.program import ProgramOperations
from penstock.config.broker import BrokerConfig
from penstock.groups.shares import ShareGroups, ShareMember
from penstock.model.info import StorageProblem

T = TypeVar("T")


class EmbeddedAsyncBroker(AsyncBroker):
    """A broker in this process, on the event loop it was opened on."""

    def __init__(self, core: Core, driver: LoopDriver) -> None:
        self.operations = LocalOperations(core)
        super().__init__(ProgramOperations(self.operations), driver)
        self._core = core
        self._loop_driver = driver
        # By name, without a call between: every request of a front end begins here.
        self.start = driver.start
        self.begin = driver.begin

    @classmethod
    async def open(cls, directory: str | None = None, *, config: BrokerConfig | None = None) -> Self:
        """Open a broker on a directory, or one that keeps all in memory."""
        core = make_core(directory, config, None, None, None)
        driver = LoopDriver(core)
        await driver.open()
        return cls(core, driver)

    def route(self, operations: LocalOperations) -> None:
        """Have its clients call these from now on: those of a whole cluster."""
        self.operations = operations
        self._operations = traced(ProgramOperations(operations))

    def through(self, operations: Any) -> AsyncBroker:
        """The same broker for somebody whose operations these are."""
        return AsyncBroker(ProgramOperations(operations), self._loop_driver)

    def problems(self) -> list[StorageProblem]:
        """What is wrong with its storage, warnings left out."""
        return self._core.state.problems.serious()

    def check_storage(self) -> None:
        """Look whether the data directory is there, and whether there is room if there was none."""
        self._loop_driver.call(self._core.storage.check)

    def keep_share_member(self, groups: ShareGroups[Any], member: ShareMember) -> None:
        """Give a member of a share group time until its next heartbeat; then it is removed."""
        self._loop_driver.call(self._core.coordination.keep_share_member, groups, member)

    def on_work(self, function: Callable[[], None] | None) -> None:
        """Have it called when the next operation begins, and only then."""
        self._loop_driver.on_work = function

    async def close_within(self, timeout_ms: int) -> None:
        """Close; what is not on the disk by then is left to the recovery of the next start."""
        await self._loop_driver.close(timeout_ms, bounded=True)

    async def run(self, work: Work[T]) -> T:
        """Run an operation to its end, for a door that awaits it."""
        return await self._loop_driver.run(work)


async def open_growing(
    directory: str | None, config: BrokerConfig, on_grown: Callable[[], None]
) -> EmbeddedAsyncBroker:
    """For a server: ``on_grown`` is called whenever there are thousands of new objects that stay."""
    core = make_core(directory, config, None, None, None)
    core.state.on_grown = on_grown
    driver = LoopDriver(core)
    await driver.open()
    return EmbeddedAsyncBroker(core, driver)
