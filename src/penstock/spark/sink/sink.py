"""Writes a DataFrame to a topic, or to the topics that its column ``topic`` names, exactly once.

    task 0   rows ──> record batches ──> stage            offsets ──┐
    task 1   rows ──> record batches ──> stage            offsets ──┼──> commit: publish_staged
    task 1   (a second attempt: staged too, never named)            ┘    all of them, under one version

A task encodes its rows and stages them on the broker, where they are invisible, and
returns their staging offsets.  The driver publishes the offsets of the tasks that Spark
counts, atomically (``broker/publish/staging.py``).  A task that failed or ran twice adds
nothing; a failed job leaves only staged bytes, which expire after a day.

Identity of a write, by which the broker detects repetitions:

    stream   application = the query's id, version = the batch's id; both survive a restart
    batch    application = the option ``write_id``; without it every write is a new one

With a column ``topic``, each topic is published by a call of its own, and each recognises a
repetition by itself.  A job that fails between two of them and is repeated adds to the
others only; for that, a repeated row must go to the same topic.

Cost per row: see ``wire/gathering.py``.  Every byte is sent once and written twice, to
staging and to the topic.
"""

import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock.clock import SystemClock
from penstock.errors import InvalidValue, OutcomeUnknown, PenstockError
from penstock.model.placing import CODECS
from penstock.spark.runtime.connections import LOGIN, Address, address_of, broker_at
from penstock.spark.runtime.option_names import unknown_option
from penstock.spark.sink.columns import TOPIC, by_topic, check_columns, sink_rows
from penstock.types import check_name
from penstock.wire.gathering import Gathering, Rows
from penstock.wire.staged import encode_staged

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.api.broker import Broker

logger = logging.getLogger("penstock")

STAGE_BYTES: Final = 1 << 20  # Staged at a time: a request of the usual size.
TRIES_MAX: Final = 5  # Each waits for a server that is away as long as a client does: half a minute.
WRITE_ID_LENGTH_MAX: Final = 150
QUERY_ID: Final = "sql.streaming.queryId"  # A property that Spark gives the tasks of a query.
NAMES: Final = ("servers", *LOGIN, "topic", "write_id")
# What Spark adds to the options of a writer.
SPARKS: Final = frozenset({"checkpointlocation", "path", "queryname", "outputmode", "truncate"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The options of one writer."""

    address: Address
    topic: str | None  # None: the column says.
    write_id: str | None  # Of a batch write.


def sink_options(given: Mapping[str, str], *, stream: bool) -> SinkOptions:
    """The options as a program wrote them, checked."""
    texts = {name.lower(): value for name, value in given.items()}
    for name in texts:
        if name not in NAMES and name not in SPARKS:
            raise unknown_option(name, NAMES)
    write_id = texts.get("write_id")
    if write_id is not None and stream:
        why = "a stream has its own id, in its checkpoint; remove this option"
        raise InvalidValue(name="write_id", value=write_id, why=why)
    if write_id is not None and not 0 < len(write_id) <= WRITE_ID_LENGTH_MAX:
        why = f"it must have 1 to {WRITE_ID_LENGTH_MAX} characters"
        raise InvalidValue(name="write_id", value=write_id, why=why)
    topic = check_name("topic", texts["topic"]) if "topic" in texts else None
    return SinkOptions(address=address_of(texts), topic=topic, write_id=write_id)


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What one task has staged."""

    application: str
    token: str
    ranges: dict[str, list[tuple[int, int]]]  # By topic.
    rows: int


class TopicWriter(DataSourceArrowWriter):
    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        self._options = sink_options(options, stream=False)
        _prepare(self._options, schema, overwrite=overwrite)
        self._application = f"write:{self._options.write_id or uuid.uuid4().hex}"

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> Staged:
        return stage(self._options, self._application, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, when all tasks are done."""
        done = publish(self._options, messages, self._application, 0)
        if done is False:
            logger.warning("write_id %r was written before; nothing was added", self._options.write_id)


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of one query."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        self._options = sink_options(options, stream=True)
        _prepare(self._options, schema, overwrite=overwrite)

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> Staged:
        context = TaskContext.get()
        query = context.getLocalProperty(QUERY_ID) if context is not None else None
        if query is None:
            raise InvalidValue(name="query id", value=None, why="Spark did not pass it to the task")
        return stage(self._options, f"query:{query}", iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver, when all tasks of a batch are done; perhaps again, after a restart."""
        written = [message for message in messages if isinstance(message, Staged)]
        if written:  # Else the batch had no task, and so no row.
            publish(self._options, messages, written[0].application, batchId)


def _prepare(options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
    """On the driver, before anything runs: check the options and the topic."""
    if overwrite:
        raise InvalidValue(
            name="mode", value="overwrite", why='a topic can only be appended to; use mode("append")'
        )
    check_columns(schema)
    if options.topic is not None:
        broker_at(options.address).describe_topic(options.topic)
    elif TOPIC not in schema.fieldNames():
        raise InvalidValue(name="topic", value=None, why="set the option topic, or add a column topic")


# In a task.


def stage(options: SinkOptions, application: str, batches: Iterable["pa.RecordBatch"]) -> Staged:
    """Stage rows on the broker, where they are invisible."""
    clock = SystemClock()
    staging = Staging(broker_at(options.address))
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        parts = by_topic(batch) if options.topic is None else [(options.topic, batch)]
        for topic, part in parts:
            staging.add(topic, sink_rows(part, clock.wall_ms()))
    return Staged(application, staging.token, staging.finish(), rows)


class Staging:
    """What one task stages, by topic; ``STAGE_BYTES`` are held in memory, for all topics together."""

    def __init__(self, broker: "Broker") -> None:
        self.token: Final = uuid.uuid4().hex
        self._broker = broker
        self._gatherings: dict[str, Gathering] = {}
        self._ranges: dict[str, list[tuple[int, int]]] = {}

    def add(self, topic: str, rows: Rows) -> None:
        """Add rows, and stage if there are many."""
        gathering = self._gatherings.get(topic) or self._opened(topic)
        gathering.add(rows)
        if gathering.size >= STAGE_BYTES or self._size() >= STAGE_BYTES:
            self.finish()

    def finish(self) -> dict[str, list[tuple[int, int]]]:
        """Stage the rest; returns where everything is, by topic."""
        for topic, gathering in self._gatherings.items():
            self._ranges[topic] += _staged(self._broker, topic, self.token, gathering.take())
        return self._ranges

    def _size(self) -> int:
        return sum(gathering.size for gathering in self._gatherings.values())

    def _opened(self, topic: str) -> Gathering:
        settings = self._broker.describe_topic(topic).settings
        self._ranges[topic] = []
        self._gatherings[topic] = Gathering(
            topic,
            settings.partitions,
            int(self.token[:8], 16),  # Anywhere, so that tasks do not all begin with partition 0.
            CODECS[settings.compression],
            settings.message_bytes_max,
        )
        return self._gatherings[topic]


def _staged(
    broker: "Broker", topic: str, token: str, parts: list[tuple[int, bytes]]
) -> list[tuple[int, int]]:
    """Where some batches are staged; staged twice does no harm, because only the last time is named."""
    if not parts:
        return []
    data = encode_staged(token, parts)
    tries = 0
    while True:
        tries += 1
        try:
            first = broker.stage(topic, data)
        except PenstockError as error:
            if tries == TRIES_MAX or not (error.retryable or isinstance(error, OutcomeUnknown)):
                raise
        else:
            return [(first, first + len(parts))]


# On the driver.


def publish(
    options: SinkOptions, messages: Iterable[WriterCommitMessage | None], application: str, version: int
) -> bool:
    """Publish what the tasks have staged; False if all of it was published before."""
    topics: dict[str, dict[str, list[tuple[int, int]]]] = {} if options.topic is None else {options.topic: {}}
    for message in messages:
        if isinstance(message, Staged):
            for topic, ranges in message.ranges.items():
                if ranges:
                    topics.setdefault(topic, {})[message.token] = ranges
    broker = broker_at(options.address)
    done = [
        not broker.publish_staged(topic, application, version, staged).duplicate
        for topic, staged in topics.items()
    ]
    return any(done) or not done
