"""One write to many topics, by a column; no session is needed."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import penstock
from penstock.errors import InvalidValue, TopicNotFound
from penstock.spark.runtime import connections
from penstock.spark.sink.sink import SinkOptions, TopicStreamWriter, TopicWriter, publish, sink_options, stage


@pytest.fixture(autouse=True)
def _hang_up() -> Iterator[None]:
    yield
    connections.close_all()


def rows(*pairs: tuple[str | None, str]) -> pa.RecordBatch:
    topics, values = zip(*pairs, strict=True)
    return pa.RecordBatch.from_pydict({"topic": pa.array(topics, pa.string()), "value": [*values]})


def values(broker: penstock.Broker, topic: str) -> list[bytes]:
    return sorted(message.value for message in broker.read(topic))


@pytest.fixture
def options(broker: penstock.Broker, servers: str) -> SinkOptions:
    for topic in ("red", "blue"):
        broker.delete_topic(topic) if topic in broker.topics() else None
        broker.create_topic(topic, partitions=2)
    return sink_options({"servers": servers}, stream=True)


def test_each_row_goes_to_the_topic_that_it_names(broker: penstock.Broker, options: SinkOptions) -> None:
    tasks = [
        stage(options, "query:1", [rows(("red", "a"), ("blue", "b")), rows(("red", "c"))]),
        stage(options, "query:1", [rows(("blue", "d"))]),
    ]

    assert publish(options, tasks, "query:1", 0)

    assert (values(broker, "red"), values(broker, "blue")) == ([b"a", b"c"], [b"b", b"d"])


def test_a_batch_repeated_after_a_failure_between_two_topics_adds_to_the_others_only(
    broker: penstock.Broker, options: SinkOptions
) -> None:
    batch = [rows(("red", "a"), ("blue", "b"))]
    first = stage(options, "query:1", batch)
    broker.publish_staged("red", "query:1", 7, {first.token: first.ranges["red"]})

    assert publish(options, [stage(options, "query:1", batch)], "query:1", 7)

    assert (values(broker, "red"), values(broker, "blue")) == ([b"a"], [b"b"])
    assert not publish(options, [stage(options, "query:1", batch)], "query:1", 7)
    assert (values(broker, "red"), values(broker, "blue")) == ([b"a"], [b"b"])


def test_the_option_overrides_the_column(broker: penstock.Broker, options: SinkOptions, servers: str) -> None:
    one = sink_options({"servers": servers, "topic": "red"}, stream=True)

    publish(one, [stage(one, "query:1", [rows(("blue", "a"), (None, "b"))])], "query:1", 0)

    assert (values(broker, "red"), values(broker, "blue")) == ([b"a", b"b"], [])


def test_a_row_without_a_topic_or_with_an_unknown_one_is_refused(options: SinkOptions) -> None:
    with pytest.raises(InvalidValue, match="a row has no topic"):
        stage(options, "query:1", [rows(("red", "a"), (None, "b"))])
    with pytest.raises(TopicNotFound, match="green"):
        stage(options, "query:1", [rows(("green", "a"))])


def test_a_write_that_names_no_topic_at_all_is_refused_before_it_runs(servers: str) -> None:
    schema = StructType().add("value", "string")

    with pytest.raises(InvalidValue, match="set the option topic, or add a column topic"):
        TopicWriter({"servers": servers}, schema, overwrite=False)
    TopicStreamWriter({"servers": servers}, schema.add("topic", "string"), overwrite=False)
