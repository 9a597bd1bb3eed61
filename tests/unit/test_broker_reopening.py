"""What it costs to open a broker again after a crash."""

from collections import Counter

from penstock.model.message import Message
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk, FaultyFiles

PARTITIONS = 50


def test_a_directory_is_not_synced_for_each_log_below_it() -> None:
    disk = CrashDisk()
    before = TestBroker.open("data", files=disk, clock=ManualClock())
    before.create_topic("orders", partitions=PARTITIONS, durability="os")
    before.publish_batch("orders", [Message(b"x", partition=number) for number in range(PARTITIONS)])
    disk.kill()
    files = FaultyFiles(disk)

    with TestBroker.open("data", files=files, clock=ManualClock()) as broker:
        syncs = Counter(each for each in files.operations if each.startswith("sync_directory data/topics"))

        assert len(syncs) >= PARTITIONS
        assert max(syncs.values()) <= 2
        assert syncs.total() <= PARTITIONS + 4  # Those of the topic, and of all topics.
        assert len(broker.read("orders", limit=1000)) == PARTITIONS
