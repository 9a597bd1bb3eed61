"""The lag of a streaming query, from what Spark tells of its batches."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import penstock
import penstock.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("as_text", [True, False])
def test_offsets_behind_are_the_difference_to_where_the_topics_end(as_text: bool) -> None:
    end, latest = {"a": {"0": 3, "1": 5}}, {"a": {"0": 10, "1": 5, "2": 4}}
    ours = {"endOffset": end, "latestOffset": latest}
    if as_text:
        ours = {name: json.dumps(place) for name, place in ours.items()}  # type: ignore[misc]
    files = {"endOffset": '{"logOffset": 7}', "latestOffset": None}
    rate = {"endOffset": "3", "latestOffset": "null"}

    assert penstock.spark.offsets_behind({"sources": [files, ours, rate]}) == {"a": {0: 7, 1: 0, 2: 4}}


def test_the_progress_of_a_query_tells_how_far_it_is_behind(
    spark: "SparkSession", broker: penstock.Broker, servers: str, tmp_path: Path
) -> None:
    broker.create_topic("behind", partitions=2)
    for number in range(20):
        broker.publish("behind", b"x", partition=number % 2)
    source = spark.readStream.format("penstock").options(
        servers=servers, topic="behind", starting="earliest", max_records_per_trigger=8
    )
    writer = source.load().writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()

    found = [penstock.spark.offsets_behind(each) for each in query.recentProgress]

    assert [sum(each["behind"].values()) for each in found] == [12, 4, 0]
    assert found[0].keys() == {"behind"}
