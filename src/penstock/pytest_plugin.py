"""The pytest plugin that the package registers.

pytest imports this module at its start in every project that has Penstock
installed, so it imports nothing of the broker; the fixture does, when a test
asks for it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from penstock.testing.broker import TestBroker
    from penstock.testing.kafka import KafkaServer
    from penstock.testing.sqs import SqsServer


@pytest.fixture
def penstock() -> "Iterator[TestBroker]":
    """A broker in memory and in virtual time; ``penstock.advance("3d")`` lets three days pass."""
    from penstock.testing.broker import TestBroker

    with TestBroker.open() as broker:
        yield broker


@pytest.fixture
def penstock_kafka() -> "Iterator[KafkaServer]":
    """A test broker behind a Kafka port: give ``penstock_kafka.address`` to a Kafka client."""
    from penstock.testing.kafka import KafkaServer

    with KafkaServer() as server:
        yield server


@pytest.fixture
def penstock_sqs() -> "Iterator[SqsServer]":
    """A test broker behind an SQS port: give ``penstock_sqs.url`` to an AWS SDK as ``endpoint_url``."""
    from penstock.testing.sqs import SqsServer

    with SqsServer() as server:
        yield server
