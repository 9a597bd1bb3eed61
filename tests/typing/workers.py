"""Workers as a user writes them.  It is never run: mypy reads it, and that is the test.

A ``type: ignore`` marks what mypy must refuse; strict mode reports one that is not needed.
"""

from datetime import datetime, timedelta
from typing import assert_type

import penstock
import penstock.testing
from penstock import aio

app = penstock.App("penstock://127.0.0.1:7070")
named = penstock.App(name="billing", stop_timeout=timedelta(minutes=1), stall_warning="5m")


@app.worker("orders", group="processors", concurrency=8, max_attempts=5, backoff="exponential", timeout="30s")
async def handle(message: penstock.Message) -> None:
    assert message.value.decode() + message.headers["shop"]


@app.schedule("0 9 * * mon-fri", timezone="Europe/Berlin")
async def report() -> None: ...


@app.worker("orders", group="others", backoff=["1s", 10], ordered=True, visibility_timeout="1m")
def plain(message: penstock.WorkerMessage) -> None:
    assert_type(message.value, bytes)
    assert_type(message.json(dict[str, int]), dict[str, int])
    assert_type(message.text, str)
    assert_type(message.key, bytes | None)
    assert_type(message.headers, dict[str, str])
    assert_type(message.partition, int)
    assert_type(message.attempt, int)
    assert_type(message.id, str)
    assert_type(message.published_at, datetime)
    message.ack(publish=[("invoices", penstock.Message(b"i"))])
    message.nack(delay="1m", error=ValueError("no"))
    message.reject("never")
    message.extend(10)


@app.worker("orders", group="more")
async def awaiting(message: penstock.AsyncWorkerMessage) -> None:
    await message.ack()
    if message.attempt > 2:
        raise penstock.Reject("no such customer")
    raise penstock.Retry("not now", delay=timedelta(minutes=5))


@named.schedule("*/5 * * * *", ttl="1h", name="tick", timeout=60, max_attempts=1)
def tick(message: penstock.Message) -> None: ...


async def decorated_functions_keep_their_types() -> None:
    await handle(penstock.Message(b"x"))
    await report()
    tick(penstock.Message(b"x"))


async def running(broker: aio.AsyncBroker, virtual: penstock.testing.TestBroker) -> None:
    async with app.running() as connected:
        assert_type(connected, aio.AsyncBroker)
    async with app.running(broker):
        pass
    assert_type(app.drain(virtual), int)
    app.run()


@app.worker("orders", group="x")  # type: ignore[type-var]
async def wrong_answers(message: penstock.WorkerMessage) -> None:
    """An async function does not get the message whose answers block."""


@app.worker("orders", group="y")  # type: ignore[type-var]
def two(message: penstock.Message, other: int) -> None:
    """It is called with the message alone."""


@app.worker("orders", group="z", max_atempts=3)  # type: ignore[call-arg]
async def misspelt(message: penstock.Message) -> None: ...
