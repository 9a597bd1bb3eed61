"""What one call publishes, and how calls become record batches.

    publish(m1) ─> Unit ─┐                    ┌─> partition 2, lane normal: one record batch
    publish(m2) ─> Unit ─┼─> batches_of(...) ─┤
    publish_batch([...]) ┘                    └─> partition 4, lane high:   one record batch

A unit is all of one call, or a piece of a large one.  Several units share a
batch where partition and lane are the same; each gets its own receipts back.
Nothing here waits or sends; ``requests.py`` numbers and encodes the batches.
"""

from collections.abc import Callable
from typing import Any, Final

from penstock.config.broker import TopicSettings
from penstock.errors import RequestError, UnavailableError
from penstock.model.message import Message, RawHeaders, Receipt, bare_values
from penstock.model.placing import ANYWHERE, Placed, check_size, dedup_bytes, placed
from penstock.wire.records import SEQUENCES, BatchBuilder

RECORD_BYTES: Final = 32  # Around a record: lengths, deltas, and its share of the batch's header.
BATCH_RECORDS: Final = 1000  # Numbers up to here are encoded ready-made (wire/records.py).
# Of one request: as many batches to a partition as its server recognises when they are sent again.
REQUEST_RECORDS: Final = 4 * BATCH_RECORDS

OnReceipts = Callable[[list[Receipt], BaseException | None], None]


def nobody(receipts: list[Receipt], error: BaseException | None) -> None:
    """Where the caller reads the unit's receipts itself."""


class Unit:
    """Messages of one call that are answered together."""

    __slots__ = (
        "acks", "alone", "deadline", "error", "messages", "placed", "receipts", "renumbered", "size",
        "special", "spread", "then", "values",
    )  # fmt: skip

    def __init__(self, messages: list[Any], size: int, acks: int, deadline: float, then: OnReceipts) -> None:
        self.messages = messages  # ``Message`` or bytes; empty for a mark that only waits for its turn.
        self.size = size  # In bytes, about.
        self.acks = acks
        self.deadline = deadline  # On the loop's clock: when it is not worth another try.
        self.then = then
        self.values: list[bytes] | None = None  # Values without anything else: the quick way.
        self.placed: list[Placed] = []  # Means something only if ``values`` is None.
        self.special = False  # The server must place it: a time to live, a due time, a dedup id.
        self.spread = False  # Its messages belong into several batches.
        self.alone = False  # It was refused with others, and is tried by itself.
        self.renumbered = False  # It was encoded again for another producer id.
        self.receipts: list[Any] = []
        self.error: BaseException | None = None

    def prepare(self, topic: str, settings: TopicSettings) -> None:
        """Check every message against the topic's settings; the first that is refused is raised."""
        self.values = None
        self.placed = []
        self.special = self.spread = False
        if self.messages:
            self.values = bare_values(self.messages, settings.message_bytes_max)
        if self.values is not None:
            return
        for index, each in enumerate(self.messages):
            if not isinstance(each, Message):
                each = self.messages[index] = Message(each)
            self.placed.append(_checked(topic, each, settings))
            self.special = self.special or is_special(each)
        targets = {(item.partition, item.attributes) for item in self.placed}
        self.spread = len(targets) > 1
        if settings.depth_max is not None and self.spread:
            self.special = True  # There is room for all of it or for none, and only the server can say.

    def finish(self) -> None:
        if self.error is None:
            self.then(self.receipts, None)
        else:
            self.then([], self.error)


def is_special(message: Message) -> bool:
    """Whether a message needs more than a record batch can say."""
    return (
        message.ttl is not None
        or message.delay is not None
        or message.deliver_at is not None
        or message.dedup_id is not None
    )


def _checked(topic: str, message: Message, settings: TopicSettings) -> Placed:
    item = placed(topic, message, settings.partitions)
    headers: RawHeaders = item.headers
    if message.dedup_id is not None:
        dedup_bytes(message.dedup_id)
    check_size(item.key, item.value, headers, settings.message_bytes_max)
    return item


def size_of(messages: list[Any]) -> int:
    """About how many bytes messages take on the wire, whatever was given for them."""
    if type(messages[0]) is not Message:
        try:
            return RECORD_BYTES * len(messages) + sum(map(len, messages))
        except TypeError:
            pass  # Not all of them are bytes: a Message has no length.
    return sum(map(_size_of, messages))


def _size_of(message: Any) -> int:
    value = message.value if isinstance(message, Message) else message
    size = RECORD_BYTES + (len(value) if isinstance(value, (bytes, bytearray, memoryview)) else 0)
    if isinstance(message, Message):
        if isinstance(message.key, (str, bytes, bytearray)):
            size += len(message.key)
        if isinstance(message.headers, dict):
            size += RECORD_BYTES * len(message.headers)
    return size


class PublishBatch:
    """One record batch of a request, and whose messages are in it."""

    __slots__ = ("attributes", "builder", "count", "owners", "partition", "sequence")

    def __init__(self, partition: int, attributes: int) -> None:
        self.partition = partition
        self.attributes = attributes
        self.builder = BatchBuilder()
        self.owners: list[tuple[Unit, int, int]] = []  # Unit, index of its first message here, and how many.
        self.count = 0
        self.sequence = -1  # Of its first record, if it is numbered.

    def add(self, unit: Unit, index: int, item: Placed) -> None:
        self.builder.add(item.key, item.value, item.headers)
        self._own(unit, index, 1)

    def add_values(self, unit: Unit, values: list[bytes]) -> None:
        """All of a unit that is nothing but values."""
        self.builder.add_values(values)
        self._own(unit, 0, len(values))

    def _own(self, unit: Unit, index: int, count: int) -> None:
        self.count += count
        if self.owners:
            owner, first, so_far = self.owners[-1]
            if owner is unit and first + so_far == index:
                self.owners[-1] = (unit, first, so_far + count)
                return
        self.owners.append((unit, index, count))

    @property
    def following(self) -> int:
        """The number after its last record's."""
        return (self.sequence + self.count) % SEQUENCES

    def units(self) -> list[Unit]:
        """Whose messages these are, each once, in order."""
        return list(dict.fromkeys(owner for owner, _, _ in self.owners))


def batches_of(units: list[Unit], anywhere: int) -> list[PublishBatch]:
    """The messages of some units by partition and lane; ``anywhere`` is for those that do not mind."""
    if len(units) == 1 and units[0].values is not None:
        only = PublishBatch(anywhere, 0)
        only.add_values(units[0], units[0].values)
        return [only]
    if all(unit.values is not None for unit in units):
        return _batches_of_values(units, anywhere)
    batches: dict[tuple[int, int], PublishBatch] = {}
    for unit in units:
        if unit.values is not None:
            batch = batches.get((anywhere, 0))
            if batch is None:
                batch = batches[anywhere, 0] = PublishBatch(anywhere, 0)
            batch.add_values(unit, unit.values)
            continue
        for index, item in enumerate(unit.placed):
            target = (anywhere if item.partition == ANYWHERE else item.partition, item.attributes)
            batch = batches.get(target)
            if batch is None:
                batch = batches[target] = PublishBatch(*target)
            batch.add(unit, index, item)
    return list(batches.values())


def _batches_of_values(units: list[Unit], partition: int) -> list[PublishBatch]:
    """Batches of about ``BATCH_RECORDS`` each: the first thousand records of a batch are the cheapest."""
    batch = PublishBatch(partition, 0)
    batches = [batch]
    for unit in units:
        if batch.count >= BATCH_RECORDS:
            batch = PublishBatch(partition, 0)
            batches.append(batch)
        batch.add_values(unit, unit.values or [])
    return batches


def is_refusal(error: BaseException) -> bool:
    """Whether the error says for certain that nothing was written."""
    return isinstance(error, (RequestError, UnavailableError))
