"""Idempotent producers: a publish that is repeated after an unknown outcome is written once.

A producer has its own id and numbers its batches for each partition.  The partition
remembers the last numbers (``delivery/dedup.py``, rebuilt from the log), so a repeated
batch is answered with the offset of the first one, even after a restart of the broker.
"""

from penstock.broker.core import Core
from penstock.broker.publish.preparing import prepare
from penstock.broker.steps import Steps
from penstock.config.broker import Compression
from penstock.errors import InvalidValue
from penstock.model.message import Message, Receipt
from penstock.model.placing import CODECS
from penstock.wire.records import SEQUENCES, BatchBuilder


class ProducerSteps:
    """The numbering of one producer, without the waiting."""

    def __init__(self, core: Core, compression: Compression) -> None:
        if compression not in CODECS:
            raise InvalidValue(name="compression", value=compression, why=f"use one of {', '.join(CODECS)}")
        self._core = core
        self._codec = CODECS[compression]
        self.producer_id = core.state.registry.new_producer_id()
        self.epoch = 0
        self._sequences: dict[tuple[str, int], int] = {}  # Next number, for each topic and partition.

    def publish(self, name: str, message: Message) -> Steps[Receipt]:
        """Publish one message under the next number of its partition."""
        if message.delay is not None or message.deliver_at is not None or message.dedup_id is not None:
            why = "a producer numbers its messages itself; use the broker's publish for delay and dedup_id"
            raise InvalidValue(name="message", value=message, why=why)
        state = self._core.state
        topic = state.find(name)
        if topic is None:
            topic = yield from self._core.missing.create(name, message.partition)
        wall_ms = state.clock.wall_ms()
        item = prepare(topic, message, wall_ms)
        target = (name, item.partition)
        sequence = self._sequences.get(target, 0)
        builder = BatchBuilder()
        builder.add(item.key, item.value, item.headers)
        attributes = item.attributes | self._codec
        batch = builder.build(wall_ms, wall_ms, attributes, self.producer_id, self.epoch, sequence)
        receipt = yield from self._core.publishing.append(name, item.partition, bytes(batch))
        self._sequences[target] = (sequence + 1) % SEQUENCES
        return receipt
