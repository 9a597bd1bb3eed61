"""Processes in virtual time, and a store that loses, delays and repeats requests.

Each process is an asyncio event loop of its own, and all of them share one queue of events:
``asyncio.sleep``, tasks and task groups of the code under test work as they are.  A process can die
between any two callbacks, or stand still for a while.  Everything random comes from one seed, so a run
can be repeated exactly.
"""

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from contextvars import Context, copy_context
from random import Random
from typing import Any

from penstock.cluster.core.metadata import FORMAT
from penstock.errors import StoreUnavailable

START_MS = 1_767_225_600_000
EVENTS_MAX = 500_000  # A seed has some 40,000.
GIVE_UP_S = 1.0  # A request without an answer has an unknown outcome after so long.


_set_running: Callable[[Any], None] = asyncio.events._set_running_loop


class Violation(Exception):  # noqa: N818 - it is what a run is searched for
    """What must never be seen."""


class Handle:
    __slots__ = ("args", "callback", "context")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = context

    def cancel(self) -> None:
        self.callback = None

    def cancelled(self) -> bool:
        return self.callback is None

    def run(self) -> None:
        if self.callback is None:
            return
        if self.context is None:
            self.callback(*self.args)
        else:
            self.context.run(self.callback, *self.args)


class Simulation:
    """Events in the order of their time."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.random = Random(seed)
        self.failure: BaseException | None = None
        self.events = 0
        self._queue: list[tuple[float, int, Process, Handle]] = []
        self._number = 0
        self.processes: list[Process] = []
        self.connect: Callable[..., Coroutine[Any, Any, Any]]  # See ``connections.py``.
        self._closing = False

    def push(self, delay_s: float, process: "Process", handle: Handle) -> Handle:
        self._number += 1
        if not self._closing or not delay_s:
            heapq.heappush(self._queue, (self.now + delay_s, self._number, process, handle))
        return handle

    def run(self, until_s: float) -> None:
        queue = self._queue
        try:
            while queue and queue[0][0] <= until_s:
                when, number, process, handle = heapq.heappop(queue)
                self.now = max(self.now, when)
                if process.dead:
                    process.dropped.append(handle)
                    continue
                if process.paused_s > self.now:
                    heapq.heappush(queue, (process.paused_s, number, process, handle))
                    continue
                process.count_down()
                if process.dead:
                    process.dropped.append(handle)
                else:
                    self.events += 1
                    if self.events > EVENTS_MAX:
                        raise Violation("it goes on and on")
                    _set_running(process)
                    handle.run()
                    if self.failure is not None:
                        raise self.failure
        finally:
            _set_running(None)
        self.now = max(self.now, until_s)

    def close(self) -> None:
        """Cancel every task, also those of the dead, so that no coroutine is left in the middle."""
        self._closing = True
        for process in self.processes:
            for handle in process.dropped:
                self.push(0, process, handle)
        try:
            for _ in range(3):  # What is cancelled may cancel others, or start something.
                for process in self.processes:
                    _set_running(process)
                    process.cancel_all()
                while self._queue:
                    _, _, process, handle = heapq.heappop(self._queue)
                    _set_running(process)
                    handle.run()
        finally:
            _set_running(None)


class Process:
    """One process of a machine: what tasks and futures need of an event loop, and a clock."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self.simulation = simulation
        self.name = name
        self.dead = False
        self.dropped: list[Handle] = []  # What it did not do any more.
        self.paused_s = 0.0  # Until then nothing runs.
        self.dies_in: int | None = None  # Callbacks.
        self.wall_step_ms = 0
        self._tasks: list[
            asyncio.Task[Any]
        ] = []  # Also those of a dead process: nothing of it runs any more.
        self._context = copy_context()
        self._loop: Any = self
        simulation.processes.append(self)

    def count_down(self) -> None:
        if self.dies_in is not None:
            self.dies_in -= 1
            self.dead = self.dies_in <= 0

    def cancel_all(self) -> None:
        for task in self._tasks:
            task.cancel()

    # A clock of Penstock.

    def steady_ms(self) -> int:
        return START_MS + int(self.simulation.now * 1000)

    def wall_ms(self) -> int:
        return self.steady_ms() + self.wall_step_ms

    # An event loop of asyncio.

    def time(self) -> float:
        return self.simulation.now

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        return self.simulation.push(0, self, Handle(callback, args, context))

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Any:
        return self.simulation.push(max(delay, 0), self, Handle(callback, args, context))

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Any:
        return self.call_later(when - self.simulation.now, callback, *args, context=context)

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self._loop)

    def create_task(self, coro: Any, *, name: object = None, context: Context | None = None) -> Any:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self._loop, context=context or self._context)
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self._tasks.append(task)
        if len(self._tasks) > 1000:
            self._tasks = [each for each in self._tasks if not each.done()]
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """A thread that takes a moment."""

        async def work() -> Any:
            await asyncio.sleep(0.001)
            return func(*args)

        return self.create_task(work())

    async def create_connection(self, make: Callable[[], Any], _: str, port: int, ssl: None = None) -> Any:
        """A connection to another process."""
        return await self.simulation.connect(self, make, port)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.simulation.failure = context.get("exception") or Violation(str(context))

    # For a simulation.

    def spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run something in this process; what it raises ends the simulation."""
        task: asyncio.Task[Any] = self.create_task(work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self.simulation.failure = task.exception()

    def call(
        self, delay_s: float, work: Callable[[], Coroutine[Any, Any, Any]], then: Callable[..., None]
    ) -> None:
        """Have this process do something for another one; ``then(result, error)`` unless it dies before."""

        def begin() -> None:
            task = self.create_task(work())
            task.add_done_callback(ended)

        def ended(task: "asyncio.Task[Any]") -> None:
            if not task.cancelled():
                error = task.exception()
                then(None if error else task.result(), error)

        self.call_later(delay_s, begin)


class Machine:
    """Where processes of one node run, one after the other, and how it reaches the store."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.slow = 1.0
        self.cut_s = 0.0  # Until then requests to the store are lost ...
        self.cut_loss = 1.0  # ... with this probability.
        self.lives = 0
        self.format = FORMAT  # Of the metadata log, that the release which is installed understands.


class SimulatedStore:
    """Linearizable objects; LIST may show an old state."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.world = Process(simulation, "store")  # Requests on their way outlive who sent them.
        self.objects: dict[str, bytes] = {}
        self.faults = 0.0
        self.late_list = False
        self.object_bytes_max = 4 << 20
        self.seen: Counter[str] = Counter()
        self._born: dict[str, float] = {}

    def create(self, name: str, data: bytes) -> bool:
        if len(data) > self.object_bytes_max and name.startswith(("wal/", "base/")):
            raise Violation(f"{name} has {len(data)} bytes")
        if name in self.objects:
            return False
        self.seen["names created again after a deletion"] += name in self._born
        self.objects[name] = data
        self._born[name] = self.simulation.now
        return True

    def names(self, prefix: str) -> list[str]:
        late_s = self.simulation.random.uniform(0, 5) if self.late_list else 0
        shown = self.simulation.now - late_s
        return [name for name in self.objects if name.startswith(prefix) and self._born[name] <= shown]

    def overwrite(self, name: str, data: bytes) -> None:
        self.objects[name] = data
        self._born.setdefault(name, self.simulation.now)

    def delete(self, name: str) -> None:
        self.objects.pop(name, None)


class StoreClient:
    """The store, as one process reaches it."""

    def __init__(self, store: SimulatedStore, machine: Machine, process: Process) -> None:
        self.object_bytes_max = store.object_bytes_max
        self._store = store
        self._machine = machine
        self._process = process

    async def create(self, name: str, data: bytes) -> bool:
        created: bool = await self._request(name, lambda: self._store.create(name, data))
        return created

    async def get(self, name: str) -> bytes | None:
        data: bytes | None = await self._request(name, lambda: self._store.objects.get(name))
        return data

    async def list(self, prefix: str) -> Iterable[str]:
        names: list[str] = await self._request(prefix, lambda: self._store.names(prefix))
        return names

    async def delete(self, name: str) -> None:
        await self._request(name, lambda: self._store.delete(name))

    async def overwrite(self, name: str, data: bytes) -> None:
        await self._request(name, lambda: self._store.overwrite(name, data))

    async def _request(self, name: str, operation: Callable[[], Any]) -> Any:
        answer = self._process.create_future()
        self._store.seen["requests"] += 1

        def reply(result: Any) -> None:
            if not answer.done():
                answer.set_result(result)

        def give_up() -> None:
            if not answer.done():
                answer.set_exception(StoreUnavailable(store="sim", why=name))

        if self._send(operation, reply) >= GIVE_UP_S:
            self._store.world.call_later(GIVE_UP_S, give_up)
        return await answer

    def _send(self, operation: Callable[[], Any], reply: Callable[[Any], None]) -> float:
        """Returns when there will be an answer."""
        world, random, slow = self._store.world, self._store.simulation.random, self._machine.slow
        delay_s, reply_s = (0.004 + random.expovariate(80)) * slow, random.expovariate(150) * slow
        if self._is_lost():
            when_s = random.choice((None, delay_s, delay_s, random.uniform(1, 4), random.uniform(1, 30)))
            if when_s is not None:
                self._store.seen["carried out, but not answered"] += 1
                world.call_later(when_s, operation)
            return GIVE_UP_S
        if random.random() < 0.02:  # A library that repeats what was carried out already.
            world.call_later(delay_s, operation)
            delay_s += random.expovariate(10)
        world.call_later(delay_s, lambda: world.call_later(reply_s, reply, operation()))
        return delay_s + reply_s

    def _is_lost(self) -> bool:
        store, random = self._store, self._store.simulation.random
        cut = self._machine.cut_s > store.simulation.now and random.random() < self._machine.cut_loss
        return cut or random.random() < store.faults
