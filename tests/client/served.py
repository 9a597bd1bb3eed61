"""The real server in virtual time, on an event loop in a thread of its own.

A test's client waits in real time, the server in virtual time: ``let_pass``
moves the clock while somebody waits at the server, from one thing that is due
to the next, so that a wait of an hour is over at once.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.stalls import watched

from penstock.config.server import LimitSettings
from penstock.frontends.kqueue.server import KQueueProtocol
from penstock.frontends.listener import Connections
from penstock.frontends.native.server import NativeListener
from penstock.frontends.security.gateway import AuthGateway
from penstock.model.access import Grant
from penstock.testing import AsyncTestBroker, ManualClock
from penstock.types import Duration

T = TypeVar("T")

LOOK_S = 0.001  # How often it is looked whether a request has arrived; no clock of the broker's.


class VirtualServer:
    """A native listener over an ``AsyncTestBroker``; use it with ``with``, or call ``close``."""

    def __init__(
        self,
        directory: str | None = None,
        clock: ManualClock | None = None,
        limits: LimitSettings | None = None,
        authentication: bool = False,
    ) -> None:
        self.clock = clock or ManualClock()
        self._directory = directory
        self._limits = limits or LimitSettings()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="server", daemon=True)
        self._thread.start()
        self.port = 0
        self.key: str | None = None  # Of an admin, where keys are asked for.
        self._authentication = authentication
        self._watching = ExitStack()
        self.run(self.start())
        self.run(self._watch())

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"penstock://127.0.0.1:{self.port}"

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _watch(self) -> None:
        self._watching.enter_context(watched())

    async def _end_watch(self) -> None:
        """Fails if the loop stood still."""
        self._watching.close()

    async def start(self) -> None:
        """Open the broker and listen, on the same port as before if there was one."""
        self.broker = await self.open_broker()
        doors = AuthGateway(self.broker, authentication=self._authentication)
        if self._authentication:
            self.key = (await self.broker.create_key("admin", [Grant(role="admin")])).key
        connections = Connections(self._limits.connections_max)
        self.listener = NativeListener(
            self.broker, self._limits, connections, doors, KQueueProtocol(self.broker, doors)
        )
        self._server = await self._loop.create_server(self.listener.connect, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def open_broker(self) -> AsyncTestBroker:
        return await AsyncTestBroker.open(self._directory, clock=self.clock)

    async def stop(self) -> None:
        """Stop listening, cut every connection, close the broker."""
        self._server.close()
        self.listener.abort()
        await self.broker.close()

    def cut(self) -> None:
        """Break every connection, without a word; the server goes on."""

        async def abort() -> None:
            for connection in list(self.listener.connections.open):
                connection.abort()

        self.run(abort())

    @contextmanager
    def deaf(self) -> Iterator[None]:
        """It does nothing meanwhile."""
        hears = threading.Event()
        self._loop.call_soon_threadsafe(hears.wait)
        try:
            yield
        finally:
            hears.set()

    def advance(self, duration: Duration) -> None:
        """Let time pass."""
        self.run(self.broker.advance(duration))

    async def let_pass(self, done: threading.Event, wait_ms: int) -> None:
        """Move the clock, up to ``wait_ms``, while somebody waits at the server and is not done."""
        until_ms = self.clock.steady_ms() + wait_ms
        while not done.is_set():
            left_ms = until_ms - self.clock.steady_ms()
            if left_ms >= 0 and self.broker._virtual._sleepers:
                due_ms = self.broker._core.state.alarms.next_ms() - self.clock.steady_ms()
                await self.broker.advance((left_ms if due_ms < 0 else min(due_ms, left_ms)) / 1000)
            await asyncio.sleep(LOOK_S)

    def close(self) -> None:
        """End it, and its thread."""
        if self._thread.is_alive():
            try:
                self.run(self.stop())
                self.run(self._end_watch())
            finally:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
