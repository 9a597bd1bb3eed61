"""The SQS listener in virtual time, and boto3; both are slow to make, so the tests of a module share them."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from tests.frontends.sqs.clients import connect

from penstock.testing.sqs import SqsServer

_numbers = count()


@pytest.fixture(scope="module")
def server() -> Iterator[SqsServer]:
    with SqsServer() as made:
        yield made


@pytest.fixture(scope="module")
def sqs(server: SqsServer) -> Iterator[Any]:
    client = connect(server.url)
    yield client
    client.close()


@pytest.fixture
def name() -> str:
    """Of a queue that no other test has."""
    return f"queue-{next(_numbers)}"


@pytest.fixture
def queue(sqs: Any, name: str) -> str:
    """The URL of a new standard queue."""
    url: str = sqs.create_queue(QueueName=name)["QueueUrl"]
    return url


@pytest.fixture
def fifo(sqs: Any, name: str) -> str:
    """The URL of a new FIFO queue that deduplicates by content."""
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    url: str = sqs.create_queue(QueueName=f"{name}.fifo", Attributes=attributes)["QueueUrl"]
    return url
