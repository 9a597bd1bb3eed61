from collections.abc import Iterator

import pytest
from tests.routing.kafka_cluster import KafkaCluster


@pytest.fixture
def cluster() -> Iterator[KafkaCluster]:
    made = KafkaCluster()
    yield made
    made.close()
