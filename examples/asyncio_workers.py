"""The same broker for asyncio: the same names, to be awaited.

Four workers share one queue, ordered by key: messages with equal keys are never in flight together, so
each account's changes are made in order, while the accounts do not wait for each other.

Prints:

    anna: deposit, withdraw, close
    bert: deposit, withdraw, close
    carl: deposit, withdraw, close
"""

import asyncio
from collections import defaultdict

import penstock

done: dict[str, list[str]] = defaultdict(list)


async def work(broker: penstock.aio.AsyncBroker) -> None:
    async with await broker.consumer("accounts", group="bank", ordered=True) as consumer:
        while messages := await consumer.receive(wait="100ms"):
            for message in messages:
                async with message:
                    await asyncio.sleep(0)  # The work.
                    done[(message.key or b"").decode()].append(message.value.decode())


async def main() -> None:
    async with penstock.aio.open() as broker:
        await broker.create_topic("accounts")
        for change in (b"deposit", b"withdraw", b"close"):
            for account in ("anna", "bert", "carl"):
                await broker.publish("accounts", change, key=account)
        async with asyncio.TaskGroup() as workers:
            for _ in range(4):
                workers.create_task(work(broker))
    for account, changes in sorted(done.items()):
        print(f"{account}: {', '.join(changes)}")


if __name__ == "__main__":
    asyncio.run(main())
