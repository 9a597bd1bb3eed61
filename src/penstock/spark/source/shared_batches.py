"""Makes several streams read the same micro-batches, through the topic ``__batches``.

    query 1    [a───b) [b───c) [c──d)
    query 2    [a───b) [b───c)                  later, with the same ends

The queries of a transform read the same topics, each at its own pace.  Whether a record
is late depends on the batches before it, so the queries agree on that only if their
batches are equal.  The first query that plans a batch publishes its end, and the others
use it.

    key                 value (JSON)
    NAME/VIEW#17        a ``PlannedBatch``: its start and end
    NAME                the generation of a transform, part of the names of its streams: a transform
                        that starts over gets a new one and ignores old batches

If two queries plan at once, the first message in the log wins.  Keys are numbered modulo
``KEPT``, so compaction keeps the last ``KEPT`` batches.  A query that is further behind
plans its own batches until it has caught up.
"""

import hashlib
import uuid
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.spark.records.planning import Reached, distance, within
from penstock.spark.runtime import compacted_topic

if TYPE_CHECKING:
    from penstock.api.broker import Broker

TOPIC: Final = "__batches"
KEPT: Final = 1000


class PlannedBatch(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    start: Reached
    end: Reached


class SharedBatches:
    """The batches of the streams of one name."""

    def __init__(self, broker: "Broker", name: str) -> None:
        self._broker = broker
        self._name = name
        self._read_to = 0  # In the topic.
        self._number = 0  # Of the next batch.
        self._known: OrderedDict[bytes, bytes] = OrderedDict()  # By a digest of the start: the end, as JSON.

    def following(self, start: Reached, latest: Reached, records: float) -> Reached | None:
        """The end of the batch that starts at ``start``, if one was planned."""
        self._refresh()
        known = self._known.get(_key(start))
        if known is not None:
            end = msgspec.json.decode(known, type=Reached)
            return end if _is_between(start, end, latest) else None
        for other in self._known.values():  # Of a stream that has other batches: meet it where it is.
            end = msgspec.json.decode(other, type=Reached)
            if _is_between(start, end, latest) and 0 < distance(start, end) <= records:
                return end
        return None

    def agreed(self, start: Reached, end: Reached) -> Reached:
        """Plan a batch; returns its end, which differs from ``end`` if another query was faster."""
        step = PlannedBatch(number=self._number, start=start, end=end)
        compacted_topic.publish(
            self._broker, TOPIC, f"{self._name}#{step.number % KEPT}", msgspec.json.encode(step)
        )
        self._refresh()
        return msgspec.json.decode(self._known[_key(start)], type=Reached)

    def _refresh(self) -> None:
        prefix = f"{self._name}#".encode()
        for message in compacted_topic.messages(self._broker, TOPIC, self._read_to):
            self._read_to = message.offset + 1
            if message.key is None or not message.key.startswith(prefix):
                continue
            step = msgspec.json.decode(message.value, type=PlannedBatch)
            self._known.setdefault(_key(step.start), msgspec.json.encode(step.end))
            self._number = max(self._number, step.number + 1)
            if len(self._known) > KEPT:
                self._known.popitem(last=False)


def life_of(broker: "Broker", name: str, *, anew: bool) -> str:
    """The generation of a transform: the current one, or a new one if it starts over."""
    lives = [
        each.value.decode() for each in compacted_topic.messages(broker, TOPIC) if each.key == name.encode()
    ]
    if lives and not anew:
        return lives[-1]
    life = uuid.uuid4().hex
    compacted_topic.publish(broker, TOPIC, name, life.encode())
    return life


def _is_between(start: Reached, end: Reached, latest: Reached) -> bool:
    """Whether a position lies between two others."""
    return end.keys() == latest.keys() and within(start, end, latest) == end


def _key(place: Reached) -> bytes:
    """A digest: a place of a thousand partitions is long, and a thousand places are kept."""
    ordered = sorted((topic, sorted(offsets.items())) for topic, offsets in place.items())
    return hashlib.blake2b(msgspec.json.encode(ordered), digest_size=16).digest()
