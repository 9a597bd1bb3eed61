"""A broker in virtual time behind a port, on a loop in a thread of its own.

The code under test may block or have a loop, and needs no change.  Clients live in real time: they wait and
poll by their own clocks.  So that they do not wait for a clock that stands, a request that waits is answered
after ``WAIT_S`` with what there is.  The clock begins at the time of day, because clients send their own.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar

from penstock.clock import SystemClock
from penstock.frontends.listener import Listener
from penstock.testing.broker import AsyncTestBroker
from penstock.testing.clock import ManualClock
from penstock.types import Duration

WAIT_S: Final = 0.1  # In real time: the longest wait of a request.
CALL_S: Final = 60  # A call that takes longer never ends.

T = TypeVar("T")


class HurryingListener(Listener, Protocol):
    def hurry(self) -> None:
        """Let requests that wait respond with what there is."""


class ServedBroker:
    """Listens from the beginning, until it is closed."""

    name = ""  # Of its thread.

    def __init__(self) -> None:
        self.broker: AsyncTestBroker
        self.address = ""  # HOST:PORT.
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name=self.name, daemon=True)
        self._thread.start()
        ready.result(CALL_S)

    def listener(self) -> HurryingListener:
        """The front end, over ``broker``."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run an operation of the broker on its own loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_S)

    def advance(self, duration: Duration) -> None:
        """Let time pass, and everything happen that becomes due on the way."""
        self.run(self.broker.advance(duration))

    def close(self) -> None:
        """End all connections, and forget everything."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(CALL_S)

    def _run(self, ready: "Future[None]") -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve(ready))

    async def _serve(self, ready: "Future[None]") -> None:
        self.broker = await AsyncTestBroker.open(clock=ManualClock(SystemClock().wall_ms()))
        listener = self.listener()
        accepting = await self._loop.create_server(listener.connect, "127.0.0.1", 0)
        host, port = accepting.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"
        ready.set_result(None)
        while not self._stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), WAIT_S)
            listener.hurry()
        accepting.close()
        await listener.drain()
        await self.broker.close()
