"""Named positions in time: the compacted topic ``__snapshots``.

    key           value (JSON)
    NAME          a ``TopicSnapshot``: its time, and for each topic the end of each partition
    replay:NAME   the plan of an unfinished replay (``plans.py``)

A snapshot copies nothing.  The records from it on are in the log and, below the log's
start, in the lake, so ``penstock consume --from-snapshot NAME`` works as long as the lake
keeps them.  A name cannot be reused.

Topics are queried one after another while others publish, so a snapshot is exact for each
partition but not a consistent cut through all of them.
"""

from typing import TYPE_CHECKING, Final

import msgspec

from penstock.errors import InvalidValue, TopicNotFound
from penstock.spark.runtime import compacted_topic
from penstock.types import check_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.api.broker import Broker

TOPIC: Final = "__snapshots"
REPLAY: Final = "replay:"  # No name of a snapshot begins so.


class TopicSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A position in all partitions of some topics."""

    name: str
    taken_ms: int
    topics: dict[str, dict[int, int]]  # By topic and partition: the offset after the last message.

    def offsets(self, topic: str) -> dict[int, int]:
        """The offsets in a topic, by partition."""
        if topic not in self.topics:
            known = ", ".join(sorted(self.topics)) or "no topics"
            raise InvalidValue(name="snapshot", value=self.name, why=f"it has {known}, but not {topic}")
        return self.topics[topic]


def take(broker: "Broker", name: str, now_ms: int, topics: "Sequence[str] | None" = None) -> TopicSnapshot:
    """Record the current position of these topics, or of all, under a name."""
    check_name("snapshot", name)
    if name in known(broker):
        why = "a snapshot of that name exists, and names cannot be reused"
        raise InvalidValue(name="snapshot", value=name, why=why)
    offsets = {topic: broker.offsets(topic, "latest") for topic in topics or broker.topics()}
    made = TopicSnapshot(name=name, taken_ms=now_ms, topics=offsets)
    compacted_topic.create(broker, TOPIC)
    broker.publish(TOPIC, msgspec.json.encode(made), key=name)
    return made


def known(broker: "Broker") -> dict[str, TopicSnapshot]:
    """All snapshots by name, in the order in which they were taken."""
    found = [
        msgspec.json.decode(value, type=TopicSnapshot)
        for key, value in entries(broker)
        if not key.startswith(REPLAY)
    ]
    return {each.name: each for each in sorted(found, key=lambda each: each.taken_ms)}


def get(broker: "Broker", name: str) -> TopicSnapshot:
    """The snapshot of that name."""
    snapshots = known(broker)
    if name not in snapshots:
        why = f"the snapshots are {', '.join(snapshots)}" if snapshots else "no snapshot was taken yet"
        raise InvalidValue(name="snapshot", value=name, why=f"there is no such snapshot; {why}")
    return snapshots[name]


def entries(broker: "Broker") -> "Iterator[tuple[str, bytes]]":
    """The latest entries of the topic by key, the oldest first; deleted ones are empty."""
    try:
        [partition] = broker.describe_topic(TOPIC).partitions
    except TopicNotFound:
        return
    for message in compacted_topic.messages(broker, TOPIC, partition.start):
        yield (message.key or b"").decode(), message.value
