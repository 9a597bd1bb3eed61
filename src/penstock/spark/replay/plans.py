"""Plans of unfinished replays, so that a repeated run reads exactly the same.

    __snapshots      key replay:NAME      value (JSON): a ``ReplayPlan``; null when finished

A replay publishes chunks in offset order, each under the replay's id and the chunk's
number (``publish_staged``).  The chunks follow from the plan alone, so after a kill the
next run loads the plan, asks for the last published chunk, and continues after it.

Times are fixed when the replay starts.  A plan of which nothing was published yet may be
replaced.  A finished replay leaves no plan: running the same settings again replays again.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from penstock.errors import InvalidValue, TopicExists, TopicNotFound
from penstock.model.ranges import OffsetRange
from penstock.spark.records.planning import admitted, ranges_between
from penstock.spark.replay.snapshots import REPLAY, TOPIC, entries
from penstock.spark.runtime import compacted_topic

if TYPE_CHECKING:
    from penstock.api.broker import Broker


class ReplayPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay reads, from where to where."""

    name: str  # Of the run.
    id: str  # Its own, for ever.
    what: str  # The settings except times, to recognise other settings under the same name.
    topic: str
    to: str  # The topic that gets it.
    from_ms: int | None
    to_ms: int | None
    start: dict[int, int]  # By partition ...
    end: dict[int, int]  # ... up to before.
    chunk_records: int

    @property
    def application(self) -> str:
        """The application id under which its chunks are published."""
        return f"replay:{self.id}"

    @property
    def records(self) -> int:
        """How many offsets there are to read."""
        return sum(max(end - self.start.get(partition, 0), 0) for partition, end in self.end.items())

    def chunks(self) -> Iterator[list[OffsetRange]]:
        """What is read and published together, in order."""
        reached, end = {self.topic: self.start}, {self.topic: self.end}
        while some := ranges_between(reached, following := admitted(reached, end, self.chunk_records)):
            yield some
            reached = following


def begun(broker: "Broker", wanted: ReplayPlan) -> ReplayPlan:
    """The replay of that name that was not finished; if there is none, the wanted one, from now on."""
    known = _under_way(broker, wanted.name)
    if known is None or published(broker, known) is None:
        compacted_topic.create(broker, TOPIC)
        broker.publish(TOPIC, msgspec.json.encode(wanted), key=REPLAY + wanted.name)
        return wanted
    if known.what != wanted.what:
        why = "an unfinished replay of that name has other settings; finish it, or use another name"
        raise InvalidValue(name="name", value=wanted.name, why=why)
    return known


def published(broker: "Broker", replay: ReplayPlan) -> int | None:
    """The number of the last chunk that was published; None if none was."""
    try:
        return broker.published_version(replay.to, replay.application)
    except TopicNotFound:
        return None


def finished(broker: "Broker", replay: ReplayPlan) -> None:
    """The replay has finished: delete its plan."""
    broker.publish(TOPIC, None, key=REPLAY + replay.name)


def _under_way(broker: "Broker", name: str) -> ReplayPlan | None:
    values = [value for key, value in entries(broker) if key == REPLAY + name]
    return msgspec.json.decode(values[-1], type=ReplayPlan) if values and values[-1] else None


def make_target(broker: "Broker", topic: str, like: str) -> None:
    """Create the target topic of a replay if it is missing, with as many partitions as the source."""
    with suppress(TopicExists):
        broker.create_topic(topic, partitions=len(broker.describe_topic(like).partitions))
