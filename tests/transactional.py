"""A producer with transactions, as Kafka's clients have one, on a broker in this process."""

from collections.abc import Generator
from typing import Any

from penstock.broker.embedded import EmbeddedBroker
from penstock.groups.commits import Commit
from penstock.groups.rebalance import Committer
from penstock.model.message import Receipt
from penstock.wire.records import TRANSACTIONAL, BatchBuilder

TIMEOUT_MS = 60_000


def run(broker: EmbeddedBroker, name: str, *arguments: Any) -> Any:
    """An operation that is for front ends."""
    work = getattr(broker._local, name)(*arguments)
    return broker._driver.run(work) if isinstance(work, Generator) else work


def batch(
    values: list[bytes], producer: int, epoch: int, sequence: int, attributes: int = TRANSACTIONAL
) -> bytes:
    builder = BatchBuilder()
    for value in values:
        builder.add(None, value, [])
    return bytes(builder.build(0, 0, attributes, producer, epoch, sequence))


class Producer:
    """Numbers its batches, and enlists what it writes to if it knows version 1 of transactions only."""

    version = 1

    def __init__(
        self, broker: EmbeddedBroker, name: str = "p", timeout_ms: int = TIMEOUT_MS, version: int = 1
    ) -> None:
        self.version = version
        self.broker = broker
        self.name = name
        self.timeout_ms = timeout_ms
        self.id, self.epoch = run(broker, "init_producer", name, timeout_ms, -1, -1)
        self.sequences: dict[tuple[str, int], int] = {}
        self.last: tuple[str, int, bytes] | None = None  # The last batch: topic, partition, bytes.
        self.ended = (-1, -1)  # The id and epoch of the last transaction that has ended.

    def enlist(self, topic: str, partition: int = 0) -> None:
        run(self.broker, "enlist", topic, [partition], self.name, self.id, self.epoch)

    def write(self, topic: str, *values: bytes, partition: int = 0) -> Receipt:
        if self.version == 1:
            self.enlist(topic, partition)
        return self.append(topic, *values, partition=partition)

    def append(self, topic: str, *values: bytes, partition: int = 0) -> Receipt:
        place = (topic, partition)
        sequence = self.sequences.get(place, 0)
        data = batch(list(values), self.id, self.epoch, sequence)
        self.last = (topic, partition, data)
        if self.version == 1:
            receipt: Receipt = self.broker.append(topic, partition, data)
        else:
            [receipt] = run(
                self.broker, "append_in_transaction", topic, [(partition, data)], True, self.name, True
            )
            if not isinstance(receipt, Receipt):
                raise receipt
        self.sequences[place] = sequence + len(values)
        return receipt

    def commit_place(self, topic: str, group: str, offset: int, partition: int = 0, note: str = "") -> None:
        run(self.broker, "enlist_group", self.name, self.id, self.epoch, group)
        commits = {partition: Commit(offset, 0, note)}
        by = Committer(transactional=True)
        run(self.broker, "enlist_commits", topic, group, commits, self.name, self.id, self.epoch, by, False)

    def end(self, commit: bool) -> None:
        if self.version == 1:
            run(self.broker, "end_transaction", self.name, self.id, self.epoch, commit)
        else:
            self.ended = (self.id, self.epoch)
            self.id, self.epoch = run(self.broker, "end_epoch", self.name, self.id, self.epoch, commit)
            self.sequences.clear()

    def end_again(self, commit: bool) -> None:
        """The answer to the last end got lost."""
        if self.version == 1:
            self.end(commit)
        else:
            told = run(self.broker, "end_epoch", self.name, *self.ended, commit)
            assert told == (self.id, self.epoch)

    def commit(self) -> None:
        self.end(commit=True)

    def abort(self) -> None:
        self.end(commit=False)


def committed(broker: EmbeddedBroker, topic: str, partition: int = 0) -> list[bytes | None]:
    """What a reader sees."""
    return [message.value for message in broker.read(topic, partition=partition, limit=10_000)]
