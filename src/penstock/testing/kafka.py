"""A broker in virtual time behind a Kafka port, for tests of code that uses Kafka.

    with KafkaServer() as kafka:                                # in pytest: the fixture `penstock_kafka`
        producer = confluent_kafka.Producer({"bootstrap.servers": kafka.address})
        ...
        kafka.advance("1h")                                     # leases time out, delays are over
        kafka.run(kafka.broker.dead_letters("orders"))          # an AsyncTestBroker, on the server's loop

It is the real listener on a loop in a thread of its own, so the code under test may block or have a loop,
and needs no change.  Clients live in real time: they wait, poll and beat by their own clocks.  So that they
do not wait for a clock that stands, a fetch is answered after ``FETCH_S`` with what there is.  Time that a
test lets pass also passes for the members of groups: one that was silent so long joins again by itself, and
goes on from what was committed.

The clock begins at the time of day, because clients put their own time into records.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from penstock.clock import SystemClock
from penstock.config.server import KafkaSettings, LimitSettings
from penstock.frontends.kafka.server import KafkaListener
from penstock.frontends.listener import Connections
from penstock.testing.broker import AsyncTestBroker
from penstock.testing.clock import ManualClock
from penstock.types import Duration

FETCH_S: Final = 0.1  # In real time: the longest wait of a fetch.
CALL_S: Final = 60  # A call that takes longer never ends.

T = TypeVar("T")


class KafkaServer:
    """Listens from the beginning, until it is closed."""

    def __init__(self) -> None:
        self.broker: AsyncTestBroker
        self.address = ""  # For ``bootstrap.servers``.
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="penstock-kafka", daemon=True)
        self._thread.start()
        ready.result(CALL_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What the broker is asked for, on its own loop."""
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
        limits = LimitSettings()
        listener = KafkaListener(
            self.broker,
            limits,
            Connections(limits.connections_max),
            settings=KafkaSettings(initial_rebalance_delay_ms=0),  # The clock stands.
            clock=self.broker.clock,
        )
        accepting = await self._loop.create_server(listener.connect, "127.0.0.1", 0)
        host, port = accepting.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"
        ready.set_result(None)
        while not self._stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), FETCH_S)
            listener.hurry()
        accepting.close()
        await listener.drain()
        await self.broker.close()
