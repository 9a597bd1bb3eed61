"""Clients of a server that is measured, each in a process of its own.

    python -m benchmarks.clients WORK URL TOPIC SIZE NUMBER

A client connects, prints ``ready``, waits for a line, works, and prints what it measured as JSON.
Times are of the monotonic clock, which all processes of a machine share.
"""

import asyncio
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import uvloop

import penstock.aio
from penstock.aio import AsyncBroker, AsyncReceivedMessage
from penstock.client.aio import RemoteAsyncBroker

VALUE = b"x" * 100
RECEIVE = 500
PREFETCH = 1000
ACK = 100  # A follower acks so many together, beside receiving.
CONSUMERS = 5  # Groups that one process reads for.


def ready() -> None:
    """Tell the parent, and wait for its word."""
    print("ready", flush=True)
    sys.stdin.readline()


async def drain(broker: AsyncBroker, topic: str, size: int, number: int) -> dict[str, Any]:
    """Five groups, each of which gets every message of the backlog and acks it."""
    consumers = [await broker.consumer(topic, group=f"group-{number}-{index}") for index in range(CONSUMERS)]
    await asyncio.get_running_loop().run_in_executor(None, ready)
    started = time.monotonic()

    async def work(consumer: penstock.aio.AsyncConsumer) -> None:
        left = size
        while left > 0:
            messages = await consumer.receive(RECEIVE, wait="5s")
            assert messages, "the backlog is there before"
            await consumer.ack(messages)
            left -= len(messages)

    async with asyncio.TaskGroup() as tasks:
        for consumer in consumers:
            tasks.create_task(work(consumer))
    return {"started": started, "ended": time.monotonic(), "cpu": time.process_time()}


async def publish(broker: AsyncBroker, topic: str, size: int, rate: int) -> dict[str, Any]:
    """Publish at an even rate; each carries when it should have been sent, and when that was asked for."""
    remote = cast(RemoteAsyncBroker, broker)

    def send(due: float, now: float) -> None:
        remote.publish_nowait(topic, b"%.9f %.9f" % (due, now))

    return {"seconds": await at_rate(remote, size, rate, send)}


async def answers(broker: AsyncBroker, topic: str, size: int, rate: int) -> dict[str, Any]:
    """Publish at an even rate; in ms, how long each took from the call to its answer."""
    remote = cast(RemoteAsyncBroker, broker)
    took: list[float] = []

    def send(_: float, now: float) -> None:
        answer = remote.publish_nowait(topic, VALUE)
        answer.add_done_callback(lambda _: took.append((time.monotonic() - now) * 1000))

    await at_rate(remote, size, rate, send)
    return {"took": took}


async def at_rate(
    remote: RemoteAsyncBroker, size: int, rate: int, send: Callable[[float, float], None]
) -> float:
    """Send so many, whether those before were answered or not; the seconds until all are."""
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, ready)
    start = time.monotonic() + 0.2
    ended = asyncio.Event()
    sent = 0

    def tick() -> None:
        nonlocal sent
        while sent < size and (now := time.monotonic()) >= (due := start + sent / rate):
            send(due, now)
            sent += 1
        if sent == size:
            ended.set()

    # A timer of the kernel: those of the event loop know no less than a millisecond.
    loop.add_signal_handler(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, start - time.monotonic(), 1 / rate)
    await ended.wait()
    signal.setitimer(signal.ITIMER_REAL, 0)
    await remote.flush()
    return time.monotonic() - start


async def follow(broker: AsyncBroker, topic: str, size: int, number: int) -> dict[str, Any]:
    """Receive what ``publish`` sends; in ms, how long each took from either time it carries."""
    consumer = await cast(RemoteAsyncBroker, broker).consumer(
        topic, group=f"follower-{number}", prefetch=PREFETCH
    )
    await asyncio.get_running_loop().run_in_executor(None, ready)
    from_intended: list[float] = []
    from_call: list[float] = []
    unacked: list[AsyncReceivedMessage] = []
    async with asyncio.TaskGroup() as tasks:
        while len(from_call) < size:
            messages = await consumer.receive(100, wait="5s")
            now = time.monotonic()
            assert messages, "the publisher has gone"
            for message in messages:
                intended, called = map(float, message.value.split())
                from_intended.append((now - intended) * 1000)
                from_call.append((now - called) * 1000)
            unacked += messages
            if len(unacked) >= ACK or len(from_call) >= size:
                tasks.create_task(consumer.ack(unacked))
                unacked = []
    return {"from_intended": from_intended, "from_call": from_call}


WORK: dict[str, Callable[[AsyncBroker, str, int, int], Awaitable[dict[str, Any]]]] = {
    "answers": answers,
    "drain": drain,
    "follow": follow,
    "publish": publish,
}


async def main(work: str, url: str, topic: str, size: str, number: str) -> None:
    """Do one piece of work."""
    async with penstock.aio.connect(url) as broker:
        print(json.dumps(await WORK[work](broker, topic, int(size), int(number))), flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(*sys.argv[1:]))
