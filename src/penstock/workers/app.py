"""``penstock.App``: functions, what they work on, and how they are run.

    app = penstock.App("penstock://127.0.0.1:7070")

    @app.worker("orders", group="processors", concurrency=8, max_attempts=5, timeout="30s")
    async def handle(message: penstock.Message) -> None: ...

    @app.schedule("0 9 * * mon-fri", timezone="Europe/Berlin")
    async def report() -> None: ...

An app is a list of declarations and does nothing by itself.  It is run by

    penstock worker module:app     as a process, with signals, logs and --reload
    app.run()                      the same from a program of your own
    async with app.running():      beside something else, such as a web server, on its event loop
    app.drain(broker)              in a test, or as a batch job: work on what is there, and return

Nothing is connected when a module with an app is imported, so tests import it
like any other.
"""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, Unpack

from penstock.config.broker import GroupOptions
from penstock.errors import InvalidValue, PenstockError
from penstock.types import Duration, check_name, duration_ms
from penstock.workers.draining import drain
from penstock.workers.functions import (
    SCHEDULE_GROUP,
    CronSchedule,
    WorkerFunction,
    check_called,
    declare,
    name_of,
    name_part,
)
from penstock.workers.loop_watchdog import LoopWatchdog
from penstock.workers.message import AsyncWorkerMessage, WorkerMessage
from penstock.workers.source import SAY_AGAIN_MS, Pauses
from penstock.workers.stalls import LogThrottle
from penstock.workers.worker import Worker

if TYPE_CHECKING:
    from penstock.api.aio import AsyncBroker
    from penstock.api.broker import Broker

DEFAULT_SERVER: Final = "penstock://127.0.0.1:7070"
SERVER_VARIABLE: Final = "PENSTOCK_SERVER"
AT_ONCE: Final = 128 + signal.SIGINT  # The exit code of a process that a second Ctrl-C ended.
OVERTIME_S: Final = 5  # After the stop's deadline: for cancelled functions to end, and for the last answers.

# What a handler may be: what it takes may be declared wider (penstock.Message), never narrower.
AsyncHandler = Callable[[AsyncWorkerMessage], Coroutine[Any, Any, None]]
PlainHandler = Callable[[WorkerMessage], None]
Handler = TypeVar("Handler", bound=AsyncHandler | PlainHandler)
Scheduled = TypeVar(
    "Scheduled",
    bound=AsyncHandler | PlainHandler | Callable[[], Coroutine[Any, Any, None]] | Callable[[], None],
)

logger = logging.getLogger("penstock.workers")


class App:
    """Functions that work on messages of a server."""

    def __init__(
        self,
        server: str | None = None,
        *,
        name: str = "",
        stop_timeout: Duration = "30s",
        stall_warning: Duration = "60s",
    ) -> None:
        """``server`` may be left out: then it is $PENSTOCK_SERVER, or this machine's default port.

        ``name`` keeps scheduled functions of different apps on one server apart.  ``stop_timeout`` is how
        long a stop waits for running calls, ``stall_warning`` how long nothing may move while messages wait.
        """
        self._server = server
        self._name = check_name("app", name) if name else ""
        self._stop_timeout_ms = duration_ms("stop_timeout", stop_timeout)
        self._stall_warning_ms = max(duration_ms("stall_warning", stall_warning), 1)
        self._functions: list[WorkerFunction] = []

    # Declaring.

    def worker(
        self,
        topic: str,
        *,
        group: str = "default",
        concurrency: int = 1,
        timeout: Duration | None = None,
        name: str | None = None,
        **options: Unpack[GroupOptions],
    ) -> Callable[[Handler], Handler]:
        """Call the function for each message of the group; it stays a function like any other.

        ``concurrency`` calls run at once in this process; a call that takes longer than ``timeout`` has
        failed.  ``options`` are those of the group (``GroupOptions``).
        """
        check_called("@app.worker", "topic", "orders", topic)

        def register(function: Handler) -> Handler:
            self._add(
                declare(
                    function,
                    name=name,
                    topic=topic,
                    group=group,
                    concurrency=concurrency,
                    timeout=timeout,
                    options=options,
                )
            )
            return function

        return register

    def schedule(
        self,
        cron: str,
        *,
        timezone: str = "UTC",
        timeout: Duration | None = None,
        ttl: Duration | None = None,
        name: str | None = None,
        **options: Unpack[GroupOptions],
    ) -> Callable[[Scheduled], Scheduled]:
        """Call the function at the times of a cron expression, once over all processes of the app.

        The server keeps the time.  A call that is due while no worker runs waits for one, up to ``ttl``.  The
        function takes the message, or nothing.
        """
        check_called("@app.schedule", "cron", "0 9 * * mon-fri", cron)

        def register(function: Scheduled) -> Scheduled:
            called = name or name_of(function)
            ttl_ms = None if ttl is None else duration_ms("ttl", ttl)
            self._add(
                declare(
                    function,
                    name=called,
                    topic=self._schedule_topic(called),
                    group=SCHEDULE_GROUP,
                    concurrency=1,
                    timeout=timeout,
                    options=options,
                    recurring=CronSchedule(cron=cron, timezone=timezone, ttl_ms=ttl_ms),
                )
            )
            return function

        return register

    @property
    def functions(self) -> list[WorkerFunction]:
        """What was declared, in that order."""
        return list(self._functions)

    @property
    def server(self) -> str:
        """Where the app connects to."""
        return self._server or os.environ.get(SERVER_VARIABLE) or DEFAULT_SERVER

    @property
    def stop_timeout_ms(self) -> int:
        """How long a stop waits for running calls."""
        return self._stop_timeout_ms

    def use_server(self, url: str) -> None:
        """Connect to another server than the one that was declared."""
        self._server = url

    def _schedule_topic(self, called: str) -> str:
        return ".".join(part for part in ("schedule", self._name, name_part(called)) if part)

    def _add(self, function: WorkerFunction) -> None:
        for known in self._functions:
            if (known.topic, known.group) == (function.topic, function.group):
                why = f"{known.name} works on {known.topic!r} in group {known.group!r} already; " + (
                    "give one of them a name="
                    if function.recurring
                    else "they would share the messages: use another group"
                )
                raise InvalidValue(name="function", value=function.name, why=why)
        self._functions.append(function)

    # Running.

    @asynccontextmanager
    async def running(self, broker: "AsyncBroker | None" = None) -> "AsyncIterator[AsyncBroker]":
        """Run all functions while the block runs; leaving it stops them gracefully, an error at once.

        The block begins when the topics and groups of all functions exist.  Without a broker the app
        connects to its server, and tries until it can.
        """
        async with AsyncExitStack() as stack:
            given = broker
            if broker is None:
                broker = await self._connect()
                stack.push_async_exit(broker)
            workers = [self._new_worker(function, broker, given is not None) for function in self._functions]
            with _alone(), LoopWatchdog():
                async with asyncio.TaskGroup() as tasks:
                    for worker in workers:
                        tasks.create_task(worker.run())
                    for worker in workers:  # One that fails ends the group, and this wait with it.
                        await worker.opened()
                    yield broker
                    for worker in workers:
                        worker.stop()

    def run(self) -> None:
        """Run until SIGTERM or SIGINT, then stop gracefully; a second SIGINT ends the process at once."""
        asyncio.run(self._run())

    def drain(self, broker: "Broker") -> int:
        """Work on everything that can be delivered now, and return how many calls that were.

        In the caller's thread and in order; topics, groups and schedules are made as in a real run.  With
        the fixture ``penstock`` that is a test of the functions without a server and without waiting.
        """
        return drain(broker, self._functions)

    async def _run(self) -> None:
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._heard, number, stopping)
        async with self.running():
            await stopping.wait()
        logger.info("stopped")

    def _heard(self, number: signal.Signals, stopping: asyncio.Event) -> None:
        if stopping.is_set():
            if number == signal.SIGINT:
                logger.warning("stopped at once; unfinished messages are delivered again")
                _exit(AT_ONCE)
            return
        stopping.set()
        seconds = self._stop_timeout_ms / 1000
        logger.info("stopping: running functions have %g s to finish; Ctrl-C again stops at once", seconds)
        asyncio.get_running_loop().call_later(seconds + OVERTIME_S, _give_up)

    async def _connect(self) -> "AsyncBroker":
        from penstock.aio import connect  # Only now: declaring functions needs no client.

        pauses, throttle = Pauses(), LogThrottle(SAY_AGAIN_MS)
        while True:
            try:
                broker: AsyncBroker = await connect(self.server).start()
            except PenstockError as error:
                if not error.retryable:
                    raise
                if throttle.allows(round(asyncio.get_running_loop().time() * 1000)):
                    logger.warning("cannot reach %s; trying again: %s", self.server, error)
            else:
                logger.info("connected to %s", self.server)
                return broker
            await pauses.wait()

    def _new_worker(self, function: WorkerFunction, broker: "AsyncBroker", keeps_leases: bool) -> Worker:
        return Worker(
            function,
            broker,
            consumer_id=name_part(f"{socket.gethostname()}-{os.getpid()}-{function.name}")[:200],
            stop_timeout_ms=self._stop_timeout_ms,
            stall_warning_ms=self._stall_warning_ms,
            keeps_leases=keeps_leases,
        )


def _give_up() -> None:
    """End the process, because a function ignores its cancellation or a server does not respond."""
    logger.error("could not stop in time; unfinished messages are delivered again")
    _exit(1)


def _exit(code: int) -> NoReturn:
    logging.shutdown()
    os._exit(code)


@contextmanager
def _alone() -> Iterator[None]:
    """One error instead of a group of one: there is mostly a single cause, and a user reads it."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None
