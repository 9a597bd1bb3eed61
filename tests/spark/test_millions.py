"""Millions of records through archive, check and replay, by the commands of operators: each is there once."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from tests.server.process import Server

import penstock
from penstock.cli.main import main
from penstock.clock import SystemClock
from penstock.model.ranges import OffsetRange
from penstock.spark.records.arrow import decode_rows
from penstock.wire.records import encode_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH = 10_000
PARTITIONS = 4
FETCH_BYTES = 4 << 20


@pytest.mark.slow
@pytest.mark.parametrize("records", [100_000, pytest.param(5_000_000, marks=pytest.mark.soak)])
def test_records_are_archived_checked_and_replayed(
    spark: "SparkSession", tmp_path: Path, capfd: pytest.CaptureFixture[str], records: int
) -> None:
    assert spark.version  # One session for all; the pipelines find it.
    with Server(tmp_path) as server, penstock.connect(server.url) as broker:
        broker.create_topic("in", partitions=PARTITIONS, durability="os")
        for number in range(records // BATCH):
            values = [b"%0100d" % each for each in range(number * BATCH, (number + 1) * BATCH)]
            batch = bytes(encode_values(values, SystemClock().wall_ms()))
            broker.append("in", number % PARTITIONS, batch)

        for command in (
            ["pipeline", "run", "archive", "--once", "--set", "topic=in"],
            ["lake", "check", "in"],
            ["pipeline", "run", "replay", "--set", "topic=in", "--set", "to=out"],
        ):
            assert main([*command, "--server", server.url]) == 0, capfd.readouterr().err

        counts = np.zeros(records, np.uint8)
        for column in columns(broker, "out"):
            np.add.at(counts, np.array(column.to_pylist(), "S100").astype(np.int64), 1)
        assert (counts == 1).all()


def columns(broker: penstock.Broker, topic: str) -> Iterator[pa.Array]:
    """The values of a topic."""
    for place in broker.describe_topic(topic).partitions:
        offset = place.start
        while offset < place.end:
            fetched = broker.fetch(topic, place.partition, offset, max_bytes=FETCH_BYTES)
            for rows in decode_rows(
                fetched.batches, OffsetRange(topic, place.partition, offset, place.end), ["value"]
            ):
                yield rows["value"]
            offset = fetched.next_offset
