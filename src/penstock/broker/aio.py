"""The embedded broker for asyncio programs; front ends serve it.

A front end does not await an operation, it starts it: a task for every request
would cost more than the request (docs/decisions/0012-one-facade.md).
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Self, TypeVar

from penstock.api.aio import AsyncBroker
from penstock.api.spans import traced
from penstock.api.work import Work
from penstock.broker.core import Core, make_core
from penstock.broker.drivers.loop import LoopDriver
from penstock.broker.operations import LocalOperations
from penstock.broker.program import ProgramOperations
from penstock.config.broker import BrokerConfig
from penstock.errors import PenstockError
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
        """Use these operations, those of a whole cluster, for all clients from now on."""
        self.operations = operations
        self._operations = traced(ProgramOperations(operations))

    def through(self, operations: Any) -> AsyncBroker:
        """The same broker with other operations, such as the guarded ones of an identity."""
        return AsyncBroker(ProgramOperations(operations), self._loop_driver)

    def problems(self) -> list[StorageProblem]:
        """Storage problems, without warnings."""
        return self._core.state.problems.serious()

    def check_storage(self) -> None:
        """Check that the data directory exists, and whether a full disk has room again."""
        self._loop_driver.call(self._core.storage.check)

    def keep_share_member(self, groups: ShareGroups[Any], member: ShareMember) -> None:
        """Give a member of a share group time until its next heartbeat; then it is removed."""
        self._loop_driver.call(self._core.coordination.keep_share_member, groups, member)

    def on_work(self, function: Callable[[], None] | None) -> None:
        """Call a function once, when the next operation begins."""
        self._loop_driver.on_work = function

    async def close_within(self, timeout_ms: int) -> None:
        """Close within a time limit; what is not on disk by then is left to recovery."""
        await self._loop_driver.close(timeout_ms, bounded=True)

    async def run(self, work: Work[T]) -> T:
        """Run an operation to its end, for a front end that awaits it."""
        return await self._loop_driver.run(work)

    async def run_all(self, works: Iterable[Work[T]]) -> list[T | PenstockError]:
        """Run operations at the same time, begun in their order, so that one sync serves all.

        A refusal is one of the results; a bug in any of them is raised.
        """
        started: list[asyncio.Future[T | PenstockError]] = []
        for work in list(works):  # All of them are made before one begins: making one may be refused.
            future: asyncio.Future[T | PenstockError] = asyncio.get_running_loop().create_future()
            started.append(future)
            self.start(work, partial(_set_result, future))
        return [await future for future in started]


def _set_result(future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if future.done():
        return  # The request was cancelled.
    if error is None or isinstance(error, PenstockError):
        future.set_result(result if error is None else error)
    else:
        future.set_exception(error)


async def open_growing(
    directory: str | None, config: BrokerConfig, on_grown: Callable[[], None]
) -> EmbeddedAsyncBroker:
    """For a server: ``on_grown`` is called whenever there are thousands of new objects that stay."""
    core = make_core(directory, config, None, None, None)
    core.state.on_grown = on_grown
    driver = LoopDriver(core)
    await driver.open()
    return EmbeddedAsyncBroker(core, driver)
