"""A broker whose logs are made durable by a commit round into a store, as in a cluster."""

import pytest
from tests.movable import Held, core_of, reopen
from tests.unit.test_log_slices import BYTES_MAX, StoreRound, cached_log

from penstock import Message
from penstock.broker.journal.last_value import Compaction
from penstock.broker.state import Partition
from penstock.broker.steps import Durable, Steps
from penstock.config.broker import BrokerConfig
from penstock.errors import NotOwner
from penstock.log.log import Log, LogConfig, LogSlice
from penstock.schedule.schedule import Schedule
from penstock.schedule.timetable import Timetable
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk
from penstock.wire.records import encode_values


class SlowRound(StoreRound):
    """Commits nothing while it is ``paused``; the logs are marked again, as after a time-out of the store."""

    paused = False

    def commit(self, logs: list[Log]) -> None:
        if not self.paused:
            super().commit(logs)


def cluster_broker(files: CrashDisk, store: StoreRound, config: BrokerConfig | None = None) -> TestBroker:
    """A broker on a disk that is only a cache of what ``store`` has."""
    files.cache = True
    clock = ManualClock()
    broker = TestBroker.open("data", files=files, clock=clock, config=config)
    core_of(broker).state.commit.round = store
    return broker


def confirm(log: Log) -> None:
    taken = log.take_slice(BYTES_MAX)
    if taken is not None:
        log.confirm(taken.written, taken.end)


def stored(store: StoreRound) -> dict[str, list[LogSlice]]:
    """What the store has of each log, by its path."""
    found: dict[str, list[LogSlice]] = {}
    for entry in store.entries:
        for log, piece in entry:
            found.setdefault(log.path, []).append(piece)
    return found


def partition_of(broker: TestBroker, topic: str = "orders", number: int = 0) -> Partition:
    return core_of(broker).state.topics[topic].partitions[number]


def test_everything_acknowledged_is_in_the_store_and_makes_the_same_partition_elsewhere() -> None:
    store = StoreRound()
    first = cluster_broker(CrashDisk(), store)
    first.create_topic("orders")
    consumer = first.consumer("orders", group="workers")
    for number in range(6):
        first.publish("orders", b"%d" % number)
    first.publish("orders", b"later", delay="1h")
    acked, nacked, _ = consumer.receive(3)
    acked.ack()
    nacked.nack(delay="1s", error="no")

    disk = CrashDisk()
    second = cluster_broker(disk, StoreRound())
    second.create_topic("orders")
    second._driver.run(core_of(second).close_partition("orders", 0, 1, 3))
    for path, pieces in stored(store).items():
        log = Log.open(disk, path, LogConfig())
        for piece in pieces:
            log.append_slice(piece.data)
        log.confirm(log.written, log.end)
        log.close()
    reopen(second, "orders", 0, epoch=4)
    second.advance("2h")

    again = second.consumer("orders", group="workers")
    assert [m.value for m in second.read("orders")] == [b"0", b"1", b"2", b"3", b"4", b"5", b"later"]
    assert sorted(m.value for m in again.receive(10)) == [b"1", b"2", b"3", b"4", b"5", b"later"]


def test_nothing_is_synced_to_a_disk_that_is_a_cache() -> None:
    store = StoreRound()
    broker = cluster_broker(CrashDisk(), store)
    broker.create_topic("orders")
    broker.publish("orders", b"a")
    log = partition_of(broker).log
    log.append(encode_values([b"b"], 0))

    log.sync()

    assert (log.high, log.end) == (1, 2)


def test_who_waits_is_told_when_the_store_has_rejected_it() -> None:
    store = SlowRound()
    broker = cluster_broker(CrashDisk(), store)
    broker.create_topic("orders")
    publish = Held(core_of(broker).publishing.publish("orders", Message(b"a")))
    log = partition_of(broker).log
    refusal = NotOwner(topic="orders", partition=0, owner=2, epoch=9)

    log.reject(refusal)

    [wanted] = publish.wanted
    assert isinstance(wanted, Durable)
    with pytest.raises(NotOwner):
        core_of(broker).state.commit.wait(wanted.log, wanted.written)


# Deletions.


def test_a_last_value_log_keeps_the_old_entries_until_the_new_ones_are_durable() -> None:
    log = cached_log()
    log.append(encode_values([b"old"], 0))
    compaction = Compaction(log)

    assert compaction.compact([encode_values([b"new"], 0)])
    compaction.tidy()
    assert log.start == 0
    confirm(log)
    compaction.tidy()

    assert log.start == 1


def test_a_snapshot_of_the_journal_is_written_when_all_it_stands_for_is_durable() -> None:
    store = SlowRound()
    broker = cluster_broker(CrashDisk(), store)
    broker.create_topic("orders")
    broker.create_topic("out")
    consumer = broker.consumer("orders", group="workers")
    broker.publish("orders", b"a")
    [message] = consumer.receive()
    core, partition = core_of(broker), partition_of(broker)
    consumer.ack(message, publish=[("out", Message(b"b"))])
    assert partition.journal is not None
    target = partition_of(broker, "out").log
    target.append(encode_values([b"c"], 0))
    partition.journal.commit([], 0)

    snapshot = Held(core.maintenance._snapshot(partition))

    assert [step.log for step in snapshot.wanted if isinstance(step, Durable)] == [target]
    assert partition.journal.snapshot_end == -1
    assert not core.maintenance.snapshot(partition), "it does not wait"
    confirm(target)
    snapshot.advance()
    if not snapshot.ended:
        confirm(partition.journal.log)
        snapshot.advance()
    assert snapshot.result is True
    assert partition.journal.snapshot_end == partition.journal.log.end
    assert not partition.outbox_targets


def test_a_snapshot_that_nobody_waits_for_forgets_no_target() -> None:
    broker = cluster_broker(CrashDisk(), StoreRound())
    broker.create_topic("orders")
    broker.consumer("orders", group="workers")
    partition = partition_of(broker)
    partition.outbox_targets.add(("orders", 0))
    partition.log.append(encode_values([b"a"], 0))

    snapshot = Held(core_of(broker).maintenance._snapshot(partition))
    snapshot.close()

    assert partition.outbox_targets == {("orders", 0)}


def test_the_schedule_removes_nothing_before_the_data_log_and_its_own_are_durable() -> None:
    data = cached_log(LogConfig())
    own = cached_log(LogConfig(segment_bytes=2048))
    schedule = Schedule(own, data, Timetable(own._files, "far", 0))
    numbers = [schedule.add(1000, None, b"x" * 50, [], 0, 0) for _ in range(60)]
    schedule.take_due(2000, 1000)
    data.append(encode_values([b"x"] * 60, 2000))
    schedule.fired([(number, place) for place, number in enumerate(numbers)], 2000)

    steps = schedule.maintain(2000)
    waited = []
    for log in steps:
        if log is not None:
            assert own.start == 0
            waited.append(log)
            confirm(log)

    assert waited == [data, own]
    assert own.start > 0
    assert schedule.count == 0


def test_an_entry_that_fires_while_the_schedule_is_cleaned_is_kept() -> None:
    data = cached_log(LogConfig())
    own = cached_log(LogConfig(segment_bytes=2048))
    schedule = Schedule(own, data, Timetable(own._files, "far", 0))
    late = schedule.add(5000, None, b"late", [], 0, 0)
    numbers = [schedule.add(1000, None, b"x" * 50, [], 0, 0) for _ in range(60)]
    schedule.take_due(2000, 1000)
    data.append(encode_values([b"x"] * 60, 2000))
    schedule.fired([(number, place) for place, number in enumerate(numbers)], 2000)
    for log in schedule.maintain(2000):
        if log is own:
            schedule.take_due(6000, 10)
            schedule.fired([(late, data.append(encode_values([b"late"], 6000)))], 6000)
        if log is not None:
            confirm(log)

    assert schedule.known(late) is not None, "its message is not durable"


# Outputs for other nodes.


def test_outputs_for_a_partition_of_another_node_are_forwarded_once() -> None:
    broker = TestBroker.open("data", files=CrashDisk())
    other = TestBroker.open("data", files=CrashDisk())
    for each in (broker, other):
        each.create_topic("orders")
        each.create_topic("out")
    broker.publish("orders", b"a")
    broker._driver.run(core_of(broker).close_partition("out", 0, 2, 9))
    sent: list[bytes] = []

    def forward(topic: str, number: int, batch: bytes) -> Steps[None]:
        sent.append(batch)
        for _ in range(2):  # As after a lost response.
            other._driver.run(core_of(other).publishing.append_output(topic, number, batch))
        yield from ()

    core_of(broker).state.forward = forward
    consumer = broker.consumer("orders", group="workers")
    consumer.ack(consumer.receive()[0], publish=[("out", Message(b"b")), ("out", Message(b"c"))])

    assert [m.value for m in other.read("out")] == [b"b", b"c"]
    assert len(sent) == 2
    assert not partition_of(broker).outbox
