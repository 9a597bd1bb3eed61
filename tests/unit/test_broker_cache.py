"""A broker some of whose segments are only in an archive: readers wait for them, and lose nothing."""

import pytest
from tests.movable import core_of
from tests.unit.test_log_archive import DictArchive

from penstock.log.files import MemoryFiles
from penstock.log.log import Log
from penstock.log.segment import LOG, segment_name
from penstock.testing import TestBroker

SEGMENTS = 3


class Evicting:
    """A broker with a topic of two partitions, each of some segments with ten messages."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.archive = self.files.archive = DictArchive(self.files)
        self.broker = TestBroker.open("data", files=self.files)
        self.broker.create_topic("orders", partitions=2)
        for partition in (0, 1):
            self.log(partition).archive = self.archive  # As in a cluster, whose logs commit to a store.
            for segment in range(SEGMENTS):
                for number in range(10):
                    self.broker.publish("orders", b"%d" % (10 * segment + number), partition=partition)
                self.log(partition).roll()

    def log(self, partition: int) -> Log:
        return core_of(self.broker).state.topic("orders").partitions[partition].log

    def evict(self, partition: int, base: int) -> None:
        log = self.log(partition)
        path = f"{log.path}/{segment_name(base)}{LOG}"
        self.archive.copies[path] = self.files.read_file(path)
        log.evict(base)
        assert not self.files.exists(path)


@pytest.fixture
def evicting() -> Evicting:
    return Evicting()


def test_a_stream_consumer_loses_nothing_where_a_read_reaches_an_evicted_segment(evicting: Evicting) -> None:
    consumer = evicting.broker.consumer("orders", group="s", kind="stream", start="earliest")
    evicting.evict(0, 10)
    early = consumer.receive(1000)

    evicting.archive.put_back()
    late = consumer.receive(1000) + consumer.receive(1000)

    found = [(message.partition, int(message.value)) for message in early + late]
    assert sorted(found) == [(partition, number) for partition in (0, 1) for number in range(10 * SEGMENTS)]


def test_a_group_behind_in_an_evicted_segment_is_described_without_a_fetch(evicting: Evicting) -> None:
    evicting.broker.create_group("orders", "slow", start="earliest")
    evicting.broker.advance("90s")
    evicting.evict(0, 0)

    described = evicting.broker.describe_group("orders", "slow")

    assert described.lag == 2 * 10 * SEGMENTS
    assert described.lag_seconds == 90
