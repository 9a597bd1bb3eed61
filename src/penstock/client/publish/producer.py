"""An idempotent producer with an id of its own, over a connection.

Its numbers go up only with an answer, so a publish whose outcome is unknown
may be called again with the same arguments and is written once.
"""

import asyncio
from typing import Any

from penstock.client.publish.publisher import Publisher
from penstock.client.publish.requests import Numbers, UnitsRequest, only_outcome
from penstock.client.publish.server_state import depth_wait_ms
from penstock.client.publish.units import Unit, nobody
from penstock.client.work import work
from penstock.config.broker import Compression
from penstock.errors import InvalidValue, MessageTooLarge, MetadataStale, PartitionNotFound
from penstock.model.message import Message, Receipt
from penstock.model.placing import CODECS
from penstock.wire.native import ACKS_DURABLE, DUPLICATE
from penstock.wire.native_bodies import Metadata


def check_compression(compression: Any) -> None:
    """Refuse a codec that does not exist."""
    if compression not in CODECS:
        raise InvalidValue(name="compression", value=compression, why=f"use one of {', '.join(CODECS)}")


class RemoteProducer:
    """What the facade's producer works with."""

    def __init__(self, publisher: Publisher, producer_id: int, compression: Compression) -> None:
        self.producer_id = producer_id
        self._publisher = publisher
        self._codec = CODECS[compression]
        self._numbers: dict[str, Numbers] = {}  # By topic.
        self._turn = 0
        self._one_at_a_time = asyncio.Lock()

    @work
    async def publish(self, topic: str, message: Message) -> Receipt:
        """Publish one message under the next number of its partition."""
        if message.delay is not None or message.deliver_at is not None or message.dedup_id is not None:
            why = "a producer numbers its messages itself; use the broker's publish for delay and dedup_id"
            raise InvalidValue(name="message", value=message, why=why)
        async with self._one_at_a_time:
            metadata = await self._publisher.metadata(topic)
            try:
                return await self._publish(topic, message, metadata)
            except (MetadataStale, PartitionNotFound, MessageTooLarge):  # Perhaps the topic has changed.
                return await self._publish(topic, message, await self._publisher.server.metadata(topic))

    async def _publish(self, topic: str, message: Message, metadata: Metadata) -> Receipt:
        unit = Unit([message], 0, ACKS_DURABLE, 0.0, nobody)
        unit.prepare(topic, metadata.settings)
        numbers = self._numbers.setdefault(topic, Numbers(self.producer_id))
        now_ms = self._publisher.server.clock.wall_ms()
        request = UnitsRequest(topic, metadata, [unit], self._turn, now_ms, numbers, self._codec)
        wait_ms = depth_wait_ms(metadata.settings)
        partition = request.batches[0].partition
        outcome = only_outcome(await self._publisher.send_batch(request, "publish", partition, wait_ms))
        request.take_written(request.batches[0], outcome)
        self._turn += 1  # Only now: a repeat of the call must go to the same partition.
        receipt: Receipt = unit.receipts[0]
        receipt.duplicate = outcome.state == DUPLICATE and request.tries == 1
        return receipt
