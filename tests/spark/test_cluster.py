"""A real cluster: a master and two workers in processes of their own, to which Penstock is shipped."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from tests.server.process import Server
from tests.spark.cluster import Cluster, bare_python, base_prefix, other_python
from tests.spark.drivers import Driver

import penstock
from penstock.model.schemas import NewSchema
from penstock.spark.lake.table import LakeTable

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

COMMANDS = [
    ["sql", "select count(*) as messages from table", "-o", "csv"],
    ["sql", "select customer, total from typed", "-o", "csv"],
    ["pipeline", "run", "archive", "--once", "--set", "topic=table"],
]


AVRO = (
    '{"type": "record", "name": "Order", "fields": [{"name": "customer", "type": "string"}, '
    '{"name": "total", "type": "double"}]}'
)


def typed_topic(broker: penstock.Broker) -> None:
    """One message, in Avro."""
    broker.create_topic("typed", partitions=1)
    info = broker.register_schema("typed-value", NewSchema(schema=AVRO))
    broker.publish("typed", b"\0" + info.id.to_bytes(4, "big") + b"\x08anna" + struct.pack("<d", 3.5))


def test_the_python_of_the_executors_is_another_one_and_has_no_penstock(tmp_path: Path) -> None:
    python = bare_python(tmp_path)

    def imports(module: str) -> bool:
        return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0

    assert [imports(module) for module in ("pyspark", "pyarrow", "deltalake")] == [True] * 3
    assert [imports(module) for module in ("penstock", "pyspark_penstock", "msgspec", "crc32c")] == [
        False
    ] * 4
    if other_python() is None and "CI" not in os.environ:
        pytest.skip("there is no second installation of this version of Python here")
    assert base_prefix(python) != sys.base_prefix


def test_a_local_spark_whose_python_has_no_penstock_reads_and_writes_topics(tmp_path: Path) -> None:
    variables = {"PYSPARK_PYTHON": str(bare_python(tmp_path))}
    with Server(tmp_path) as server, penstock.connect(server.url) as broker:
        for topic in ("table", "out"):
            broker.create_topic(topic, partitions=2)

        told = Driver("everything", "local[2]", server, tmp_path, variables).finish()

        assert told.splitlines() == [f"1000 {sum(range(1000)):.1f}", "done"]
        assert len(broker.read("out", limit=2000)) == 1000


def test_executors_that_have_no_penstock_and_no_key_read_and_write_topics_and_run_commands(
    cluster: Cluster, tmp_path: Path
) -> None:
    asking = {"PENSTOCK_SECURITY__AUTHENTICATION": "true"}
    with Server(tmp_path, settings=asking) as server:
        with penstock.connect(server.url, key=server.facts["key"]) as broker:
            for topic in ("table", "out"):
                broker.create_topic(topic, partitions=2)
            typed_topic(broker)
            grants = [
                penstock.Grant(role="producer"),
                penstock.Grant(role="consumer", topics=["table", "typed"], groups=["archive"]),
                penstock.Grant(role="admin", topics=["__pipelines"]),
            ]
            own = {"PENSTOCK_KEY": broker.create_key("spark", grants).key, "COMMANDS": json.dumps(COMMANDS)}

            told = Driver("shipped", cluster.url, server, tmp_path, cluster.variables | own).finish()

            read, where, *answer = told.splitlines()
            assert read == f"1000 {sum(range(1000)):.1f}"
            assert where == f"penstock_shipped {base_prefix(cluster.variables['PYSPARK_PYTHON'])}"
            assert answer == ["messages", "1000", "customer,total", "anna,3.5", "done"]
            expected = sorted(b"v%d" % number for number in range(1000))
            for topic in ("table", "out"):
                assert sorted(message.value for message in broker.read(topic, limit=2000)) == expected
            assert sum(LakeTable.open(str(server.data / "lake"), "table").row_counts().values()) == 1000
    places = [tmp_path / "driver.log", *(tmp_path / "checkpoint").rglob("*"), *cluster.folder.rglob("std*")]
    kept = "".join(path.read_text(errors="replace") for path in places if path.is_file())
    assert own["PENSTOCK_KEY"].split("_", 2)[2] not in kept
