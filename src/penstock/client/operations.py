"""The operations of a broker at the end of a connection.

    RemoteOperations ──> CALL by name (``calls.py``, generated) ──┐
                    ├──> Publisher                                ├──> ClientSession ──> NativeConnection
                    └──> RemoteConsumer                           ┘

Written by hand is what has a request of its own, or needs more than a call.
Whether a call may be repeated after a lost connection is in ``operations/spec.py``.
"""

from collections.abc import Iterable

from penstock.api.operations import ConsumerOperations, ProducerOperations, Wrap
from penstock.client.calling import encodable
from penstock.client.calls import RemoteCalls
from penstock.client.consume.consumer import RemoteConsumer
from penstock.client.consume.receiver import Receiver
from penstock.client.consume.spanning import SpanningReceiver
from penstock.client.publish.producer import RemoteProducer, check_compression
from penstock.client.publish.publisher import Publisher
from penstock.client.routing import OwnerRouting
from penstock.client.work import work
from penstock.config.broker import PARTITIONS_MAX, Compression, GroupOptions
from penstock.model.info import Fetched
from penstock.model.message import Message, Receipt
from penstock.model.placing import placed
from penstock.operations.codec import receipt_of, wire_message
from penstock.types import check_fetch, check_name, missing_topic, whole_number
from penstock.wire.native import ACKS_DURABLE, UINT32_MAX, decode_fetched, encode_fetch
from penstock.wire.native_bodies import OpenConsumer, WireReceipt


class RemoteOperations(RemoteCalls):
    def __init__(self, routing: OwnerRouting, publisher: Publisher) -> None:
        super().__init__(routing.home)
        self.routing = routing
        self.publisher = publisher

    @work
    async def publish(self, topic: str, message: Message, acks: int = ACKS_DURABLE) -> Receipt:
        [receipt] = await self.publisher.start(topic, [message], acks)
        return receipt

    @work
    async def publish_batch(
        self, topic: str, messages: Iterable[Message | bytes], acks: int = ACKS_DURABLE
    ) -> list[Receipt]:
        batch = list(messages)
        if not batch:
            await self.publisher.metadata(topic)  # The topic must exist all the same.
            return []
        return await self.publisher.start(topic, batch, acks)

    @work
    async def flush(self) -> None:
        """Wait until everything published so far is answered."""
        await self.publisher.flush()

    @work
    async def append(self, topic: str, partition: int, batch: bytes) -> Receipt:
        """A record batch as it is."""
        return await self.publisher.append(topic, partition, batch)

    @work
    async def producer(self, compression: Compression) -> ProducerOperations:
        check_compression(compression)
        return RemoteProducer(self.publisher, await self.publisher.server.new_producer_id(), compression)

    @work
    async def consumer(
        self,
        topic: str,
        group: str,
        consumer_id: str | None,
        max_in_flight: int | None,
        options: GroupOptions,
        wrap: Wrap,
        prefetch: int = 0,
        heartbeat: bool = True,
    ) -> ConsumerOperations:
        """A consumer of a group, which is made at first use."""
        whole_number("prefetch", prefetch, 0)
        if not isinstance(topic, str):
            raise missing_topic(topic)
        check_name("group", group)
        if consumer_id is not None:
            check_name("consumer", consumer_id)
        if max_in_flight is not None and type(max_in_flight) is not int:
            whole_number("max_in_flight", max_in_flight, 1)  # The limit is the server's to say.
        request = OpenConsumer(
            topic=topic,
            group=group,
            consumer_id=consumer_id,
            max_in_flight=max_in_flight,
            options=encodable("options", dict(options)),
            assignments=True,
        )
        receiver: Receiver | SpanningReceiver
        if self.session.node:
            receiver = SpanningReceiver(self.routing, request, wrap, prefetch, heartbeat)
        else:
            receiver = Receiver(self.session, request, wrap, prefetch, heartbeat)
        await receiver.open()
        return RemoteConsumer(receiver)

    @work
    async def fetch(self, topic: str, partition: int, offset: int, max_bytes: int, journal: bool) -> Fetched:
        """Batches as they lie in the log."""
        if not isinstance(topic, str) or not topic.isascii():
            raise missing_topic(topic)
        check_fetch(partition, offset, max_bytes)
        most = min(max_bytes, UINT32_MAX)
        body = await self.routing.read(
            topic,
            partition,
            "fetch",
            lambda correlation: encode_fetch(correlation, topic, partition, offset, most, bool(journal)),
        )
        start, end, following, batches = decode_fetched(body)
        return Fetched(start=start, end=end, next_offset=following, batches=batches)

    @work
    async def publish_in_transaction(
        self, topic: str, messages: list[Message], transactional_id: str, producer_id: int, epoch: int
    ) -> list[Receipt]:
        """Messages that the server encodes, as it numbers them."""
        for message in messages:
            placed(topic, message, PARTITIONS_MAX)
        receipts: list[WireReceipt] = await self._call(
            "publish_in_transaction",
            topic=topic,
            messages=[wire_message(message) for message in messages],
            transactional_id=transactional_id,
            producer_id=producer_id,
            epoch=epoch,
        )
        return [receipt_of(topic, receipt) for receipt in receipts]

    @work
    async def schedule(self, topic: str, message: Message, cron: str, timezone: str) -> str:
        """Publish a message again and again."""
        placed(topic, message, PARTITIONS_MAX)
        schedule_id: str = await self._call(
            "schedule", topic=topic, message=wire_message(message), cron=cron, timezone=timezone
        )
        return schedule_id
