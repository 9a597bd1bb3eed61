"""Idempotent producers: numbers, repeats, gaps and fences, over restarts."""

import pytest
from tests.transactional import run

from penstock.errors import InvalidValue, MessageTooLarge, ProducerFenced, SequenceOutOfOrder
from penstock.testing import TestBroker
from penstock.testing.files import CrashDisk
from penstock.wire.records import BatchBuilder


def batch(value: bytes, producer: int, sequence: int, epoch: int = 0, count: int = 1) -> bytes:
    builder = BatchBuilder()
    for _ in range(count):
        builder.add(None, value, [])
    return bytes(builder.build(0, 0, 0, producer, epoch, sequence))


def test_a_producer_publishes_like_the_broker(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=2)
    producer = penstock.producer()

    receipts = [producer.publish("orders", b"x", key="k", headers={"h": "v"}) for _ in range(3)]
    producer.publish("orders", b"y", partition=1 - receipts[0].partition)

    assert [receipt.offset for receipt in receipts] == [0, 1, 2]
    [first, *_] = penstock.read("orders", partition=receipts[0].partition)
    assert (first.key, first.headers) == (b"k", {"h": "v"})


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_producer_may_compress(penstock: TestBroker, compression: str) -> None:
    penstock.create_topic("orders")

    penstock.producer(compression=compression).publish("orders", b"x" * 1000)  # type: ignore[arg-type]

    assert penstock.consumer("orders").receive()[0].value == b"x" * 1000


def test_producers_have_ids_of_their_own_also_after_a_restart() -> None:
    disk = CrashDisk()
    ids = []
    for _ in range(3):
        broker = TestBroker.open("data", files=disk)
        ids += [broker.producer().producer_id for _ in range(2)]
        disk.kill()

    assert len(set(ids)) == 6


def test_a_repeated_batch_is_written_once_and_answered_with_its_place(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    first = penstock.append("orders", 0, batch(b"a", 7, 0, count=3))
    penstock.append("orders", 0, batch(b"b", 7, 3))

    repeat = penstock.append("orders", 0, batch(b"a", 7, 0, count=3))

    assert (repeat.duplicate, repeat.offset) == (True, first.offset)
    assert [message.value for message in penstock.read("orders")] == [b"a", b"a", b"a", b"b"]


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_a_repeat_after_a_restart_is_recognised(how: str) -> None:
    disk = CrashDisk()
    broker = TestBroker.open("data", files=disk)
    broker.create_topic("orders")
    broker.append("orders", 0, batch(b"a", 7, 0))
    broker.append("orders", 0, batch(b"b", 7, 1))
    broker.close() if how == "closed" else disk.kill()

    with TestBroker.open("data", files=disk) as broker:
        repeat = broker.append("orders", 0, batch(b"b", 7, 1))
        assert (repeat.duplicate, repeat.offset) == (True, 1)
        assert not broker.append("orders", 0, batch(b"c", 7, 2)).duplicate
        assert [message.value for message in broker.read("orders")] == [b"a", b"b", b"c"]


def test_a_gap_in_the_numbers_is_refused(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.append("orders", 0, batch(b"a", 7, 0))

    with pytest.raises(SequenceOutOfOrder, match="resend the missing"):
        penstock.append("orders", 0, batch(b"c", 7, 2))

    assert len(penstock.read("orders")) == 1


def test_an_older_epoch_is_fenced(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.append("orders", 0, batch(b"a", 7, 0, epoch=0))
    penstock.append("orders", 0, batch(b"b", 7, 0, epoch=1))

    with pytest.raises(ProducerFenced, match="start a new producer"):
        penstock.append("orders", 0, batch(b"c", 7, 1, epoch=0))


def test_a_fence_holds_after_a_restart() -> None:
    disk = CrashDisk()
    broker = TestBroker.open("data", files=disk)
    broker.create_topic("orders")
    broker.append("orders", 0, batch(b"b", 7, 0, epoch=1))
    disk.kill()

    with TestBroker.open("data", files=disk) as broker:
        with pytest.raises(ProducerFenced):
            broker.append("orders", 0, batch(b"c", 7, 0, epoch=0))


def test_partitions_count_each_for_itself(penstock: TestBroker) -> None:
    penstock.create_topic("orders", partitions=2)

    for partition in (0, 1):
        assert not penstock.append("orders", partition, batch(b"a", 7, 0)).duplicate


def test_a_producer_that_was_refused_may_go_on(penstock: TestBroker) -> None:
    penstock.create_topic("orders", message_bytes_max=100)
    producer = penstock.producer()
    producer.publish("orders", b"a")

    with pytest.raises(MessageTooLarge):
        producer.publish("orders", b"x" * 1000)
    producer.publish("orders", b"b")

    assert [message.value for message in penstock.read("orders")] == [b"a", b"b"]


def test_a_deleted_and_recreated_topic_begins_its_numbers_again(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    producer = penstock.producer()
    producer.publish("orders", b"a")
    penstock.delete_topic("orders")
    penstock.create_topic("orders")

    assert producer.publish("orders", b"b").offset == 0


def test_append_takes_one_whole_batch(penstock: TestBroker) -> None:
    penstock.create_topic("orders")

    receipt = penstock.append("orders", 0, batch(b"a", -1, -1, count=5))
    assert (receipt.offset, receipt.timestamp) == (0, penstock.clock.wall_ms())
    with pytest.raises(InvalidValue, match="one batch"):
        penstock.append("orders", 0, batch(b"a", -1, -1) * 2)

    assert len(penstock.consumer("orders").receive(10)) == 5


def test_a_producer_is_not_forgotten_for_the_age_of_its_records() -> None:
    disk = CrashDisk()
    with TestBroker.open("data", files=disk) as broker:
        broker.create_topic("orders", retention=None)
        run(broker, "append_records", "orders", [(0, batch(b"of 1970", 7, 0))], True)
        broker.advance("5m")
        [repeat] = run(broker, "append_records", "orders", [(0, batch(b"of 1970", 7, 0))], True)
        assert repeat.duplicate

    with TestBroker.open("data", files=disk) as broker:
        broker.advance("5m")
        [repeat] = run(broker, "append_records", "orders", [(0, batch(b"of 1970", 7, 0))], True)
        assert repeat.duplicate
