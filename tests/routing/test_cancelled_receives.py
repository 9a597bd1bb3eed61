"""A receive that spans several owners and is cancelled: what one of them has sent is not lost."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from tests.routing.kafka_cluster import PARTITIONS, KafkaCluster

from penstock.broker.steps import Arrival, Steps
from penstock.model.message import Message


@pytest.mark.parametrize("kind", ["queue", "stream"])
def test_what_the_first_owner_has_sent_is_for_the_next_receive(cluster: KafkaCluster, kind: str) -> None:
    broker: Any = cluster.nodes[2].broker

    async def work() -> list[Any]:
        await broker.create_group("orders", "lake", kind=kind, start="earliest")
        consumer = await broker.consumer("orders", group="lake")
        inner = consumer.operations._inner
        messages = [Message(b"x", partition=number) for number in range(PARTITIONS)]
        await broker.publish_batch("orders", messages)

        shares = list(inner._shares.values())
        last = shares[inner._turn % len(shares)]  # It is asked after the other ones.
        receive, asked = last.receive, asyncio.Event()

        def hang(*_: int) -> Steps[list[Any]]:
            asked.set()
            while True:
                yield Arrival(inner, inner._router.now_ms + 60_000)

        last.receive = hang
        waiting = asyncio.create_task(consumer.receive(2 * PARTITIONS, wait="10s"))
        await asked.wait()
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        last.receive = receive

        received: list[Any] = []
        while len(received) < PARTITIONS and (found := await consumer.receive(2 * PARTITIONS, wait="5s")):
            received += found
        await consumer.close()
        return received

    assert {message.partition for message in cluster.run(work())} == set(range(PARTITIONS))
