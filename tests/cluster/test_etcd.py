"""A node on etcd, whose objects have up to 1 MiB."""

import shutil
from pathlib import Path

import pytest
from tests.cluster.nodes import TOPIC, Nodes
from tests.store import stores

from penstock.store.etcd import OBJECT_BYTES_MAX


@pytest.mark.slow
def test_a_commit_may_be_larger_than_an_object_of_the_store(tmp_path: Path) -> None:
    values = [bytes([number]) * (OBJECT_BYTES_MAX * 6 // 10) for number in range(6)]
    (tmp_path / "etcd").mkdir()
    with stores.etcd(tmp_path / "etcd") as url, Nodes(tmp_path, url, count=1) as nodes:
        with nodes.connect(1) as broker:
            broker.create_topic(TOPIC, partitions=1)
            broker.publish_batch(TOPIC, values)
            broker.publish(TOPIC, b"and goes on")
        nodes.servers[0].kill()
        shutil.rmtree(nodes.servers[0].data)
        nodes.servers[0].start()
        with nodes.connect(1) as broker:
            found = [message.value for message in broker.read(TOPIC, partition=0)]

    assert found == [*values, b"and goes on"]
