"""PUBLISH requests: encoded once, numbered, and sent again as they are.  No I/O and no waiting.

A number is used up when its batch was written.  So a request that was refused leaves
no gap, and one that was perhaps written is repeated with the same bytes, by which the server
knows it.  The loop's senders (``sender.py``), the publishes of a program's own thread (``../direct.py``) and
explicit producers (``producer.py``) have numbers of their own, and share the rest.
"""

from penstock.client.publish.units import PublishBatch, Unit, batches_of
from penstock.errors import ProtocolViolation
from penstock.model.message import receipts_from
from penstock.wire.native import REFUSED, PublishOutcome, decode_published, encode_publish
from penstock.wire.native_bodies import Metadata, decode_error


class Numbers:
    """A producer id, and the next sequence number of each partition of a topic under it."""

    __slots__ = ("following", "producer_id")

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id  # -1: there is none, and nothing is numbered.
        self.following: dict[int, int] = {}

    def forget(self) -> None:
        """A number was perhaps used: it must never be used for something else."""
        self.producer_id = -1
        self.following.clear()


class PublishRequest:
    """The bytes of one PUBLISH, and how often they were sent."""

    def __init__(self, topic: str, version: int, acks: int, encoded: list[tuple[int, bytes]]) -> None:
        self.topic = topic
        self.version = version
        self.acks = acks
        self._encoded = encoded  # A record batch for each partition.
        self.tries = 0

    def encode(self, correlation: int) -> bytes:
        self.tries += 1
        return encode_publish(correlation, self.topic, self.version, self.acks, self._encoded)


class UnitsRequest(PublishRequest):
    """The request that some units share."""

    def __init__(
        self,
        topic: str,
        metadata: Metadata,
        units: list[Unit],
        anywhere: int,
        now_ms: int,
        numbers: Numbers,
        codec: int,
    ) -> None:
        self.units = units
        self.numbers = numbers
        self.batches = batches_of(units, anywhere % metadata.settings.partitions)
        producer_id, following = (
            numbers.producer_id,
            dict(numbers.following),
        )  # Used up when they are written.
        encoded: list[tuple[int, bytes]] = []
        for batch in self.batches:
            partition, attributes = batch.partition, batch.attributes | codec
            if producer_id < 0:
                data = batch.builder.build(now_ms, now_ms, attributes)
            else:
                batch.sequence = following.get(partition, 0)
                following[partition] = batch.following
                data = batch.builder.build(now_ms, now_ms, attributes, producer_id, 0, batch.sequence)
            encoded.append((partition, bytes(data)))
        super().__init__(topic, metadata.version, units[0].acks, encoded)
        self.unasked = 0  # How many requests that are not answered are before it.
        self.deadline = 0.0  # On the loop's clock.
        self.failed: Exception | None = None  # What became of a first try.
        self.routed = False  # That was at the owner of its partition.

    def share(self, batches: list[int], version: int) -> PublishRequest:
        """Some of the batches, for a server that counts versions in its own way."""
        return PublishRequest(self.topic, version, self.acks, [self._encoded[number] for number in batches])

    def take_written(self, batch: PublishBatch, outcome: PublishOutcome) -> None:
        """A batch is in the log: its numbers are used, and its units have their receipts."""
        self.numbers.following[batch.partition] = batch.following
        offset = outcome.offset
        for unit, index, count in batch.owners:
            receipts = receipts_from(self.topic, batch.partition, offset, outcome.timestamp, count)
            if count == len(unit.messages):
                unit.receipts = receipts
            else:
                if not unit.receipts:
                    unit.receipts = [None] * len(unit.messages)
                unit.receipts[index : index + count] = receipts
            offset += count


def only_outcome(body: bytes) -> PublishOutcome:
    """Where the one batch of a request was written; raises why it was not."""
    outcomes = decode_published(body)[0]
    if len(outcomes) != 1:
        raise ProtocolViolation(why=f"{len(outcomes)} outcomes for one batch")
    if outcomes[0].state == REFUSED:
        raise decode_error(outcomes[0].error)
    return outcomes[0]
