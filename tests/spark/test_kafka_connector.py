"""Spark's own Kafka connector reads and writes our Kafka port, where Maven has its jars."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.server.process import Server
from tests.spark import kafka_connector

import penstock

pytestmark = [
    pytest.mark.slow,
    pytest.mark.jvm,
    pytest.mark.skipif(
        not kafka_connector.JARS.exists(), reason="no Kafka connector of Spark; scripts/install-spark-kafka"
    ),
]

RECORDS = 1000
PATIENCE_S = 300.0  # A JVM of its own.


def test_sparks_kafka_connector_finds_what_ours_finds_and_its_sink_loses_nothing(tmp_path: Path) -> None:
    with (
        Server(tmp_path, listeners=("native", "kafka")) as server,
        penstock.connect(server.url) as broker,
    ):
        for topic in ("orders", "copy", "streamed"):
            broker.create_topic(topic, partitions=2)
        values = [b"%d" % number for number in range(RECORDS - 1)]
        broker.publish_batch("orders", values)
        broker.publish("orders", b"last", key="anna", headers={"a": b"1"})

        program = subprocess.run(
            [
                sys.executable,
                kafka_connector.__file__,
                server.url,
                f"127.0.0.1:{server.ports['kafka']}",
                str(tmp_path),
            ],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert program.returncode == 0, program.stderr[-3000:]
        found = json.loads(program.stdout.splitlines()[-1])

        assert sum(found.pop("batches")) == RECORDS
        assert found == {"records": RECORDS, "only theirs": 0, "only ours": 0, "headers": [["a1"]]}
        for topic in ("copy", "streamed"):
            assert sorted(everything(broker, topic)) == sorted([*values, b"last"])


def everything(broker: penstock.Broker, topic: str) -> list[bytes]:
    """The values of a topic of two partitions."""
    return [
        message.value or b""
        for partition in range(2)
        for message in broker.read(topic, partition=partition, offset=0, limit=RECORDS)
    ]
