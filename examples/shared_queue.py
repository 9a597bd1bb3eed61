"""Consumers that share a queue: each message goes to one of them, in turn to those that wait.

Nothing has to be declared: the consumers of one group share its messages, and a new one takes its part at
once. What a consumer holds when it ends, even if it crashes, goes to the others.

Prints:

    consumer-1: order 0, order 3, order 6
    consumer-2: order 1, order 4, order 7
    consumer-3: order 2, order 5, order 8
"""

import asyncio
from collections import defaultdict

import penstock.aio

ORDERS = 9


async def main() -> None:
    done: dict[str, list[str]] = defaultdict(list)
    finished = asyncio.Event()

    async def work(consumer: penstock.aio.AsyncConsumer) -> None:
        async for message in consumer:
            async with message:
                done[consumer.consumer_id].append(message.value.decode())
            if sum(map(len, done.values())) == ORDERS:
                finished.set()

    async with penstock.aio.open() as broker:
        queue = await broker.queue("orders")
        consumers = [await queue.subscribe(f"consumer-{number}") for number in (1, 2, 3)]
        tasks = [asyncio.create_task(work(consumer)) for consumer in consumers]
        await asyncio.sleep(0)  # All of them wait now.
        for number in range(ORDERS):
            await queue.publish(b"order %d" % number)
        await finished.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for name, orders in sorted(done.items()):
        print(f"{name}: {', '.join(orders)}")


asyncio.run(main())
