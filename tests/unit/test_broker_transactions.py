"""Transactions of the broker: what readers see of them, fences, times, places, restarts."""

from random import Random

import msgspec
import pytest
from tests.transactional import Producer, batch, committed, run

from penstock.broker.journal.ledger import Ledger
from penstock.config.broker import BrokerConfig
from penstock.errors import (
    InvalidBatch,
    InvalidValue,
    OffsetOutOfRange,
    PartitionNotFound,
    ProducerFenced,
    ProducerUnknown,
    SequenceReused,
    TransactionNotOpen,
)
from penstock.groups.commits import Commit
from penstock.groups.rebalance import Committer
from penstock.groups.transactions import EPOCH_MAX, end_epoch
from penstock.log.transactions import IN_TRANSACTION
from penstock.model.message import Receipt
from penstock.operations.consumers import ConsumerOptions
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk
from penstock.wire.kafka.codes import Code
from penstock.wire.records import TRANSACTIONAL, decode_batch, read_header


@pytest.fixture
def broker(penstock: TestBroker) -> TestBroker:
    penstock.create_topic("orders", partitions=2)
    return penstock


def fetched(broker: TestBroker, topic: str = "orders") -> list[bytes | None]:
    data = broker.fetch(topic, 0, 0).batches
    at, values = 0, []
    while at < len(data):
        values += [record.value for record in decode_batch(data, at)]
        at += read_header(data, at).size
    return values


def ledger_of(broker: TestBroker) -> Ledger:
    ledger = broker._core.state.ledger
    assert ledger is not None
    return ledger


# What readers see.


def test_nobody_sees_a_message_before_its_transaction_is_committed(broker: TestBroker) -> None:
    queue = broker.consumer("orders", group="queue")
    stream = broker.consumer("orders", group="stream", kind="stream")
    producer = Producer(broker)
    producer.write("orders", b"a")
    broker.publish("orders", b"behind", partition=0)

    assert [queue.receive(), stream.receive(), committed(broker, "orders"), fetched(broker)] == [[]] * 4
    assert broker.peek("orders") == []
    for offset in (0, 1):
        with pytest.raises(OffsetOutOfRange):
            broker.trace(f"orders:0:{offset}")
    assert broker.describe_topic("orders").partitions[0].end == 0

    producer.commit()

    both = [b"a", b"behind"]
    assert committed(broker, "orders") == fetched(broker) == both
    for consumer in (queue, stream):
        assert [message.value for message in consumer.receive(max_messages=10)] == both


def test_nobody_ever_sees_a_message_of_an_aborted_transaction(broker: TestBroker) -> None:
    queue = broker.consumer("orders", group="queue")
    stream = broker.consumer("orders", group="stream", kind="stream")
    producer = Producer(broker)
    producer.write("orders", *[b"aborted"] * 10)
    broker.publish("orders", b"behind", partition=0)

    producer.abort()

    assert committed(broker, "orders") == fetched(broker) == [b"behind"]
    for consumer in (queue, stream):
        messages = consumer.receive(max_messages=100)
        assert [message.value for message in messages] == [b"behind"]
        consumer.ack(messages)
        assert consumer.receive() == []


def test_markers_and_aborts_are_settled_on_the_way(broker: TestBroker) -> None:
    producer = Producer(broker)
    for number in range(6):
        producer.write("orders", b"%d" % number)
        producer.end(commit=number % 2 == 0)
    consumer = broker.consumer("orders", group="workers")

    values = []
    while messages := consumer.receive(max_messages=1):
        values += [message.value for message in messages]
        consumer.ack(messages)

    assert values == [b"0", b"2", b"4"]
    assert broker.describe_group("orders", "workers").lag == 0


def test_an_ordered_group_passes_over_aborts(broker: TestBroker) -> None:
    producer = Producer(broker)
    producer.write("orders", b"aborted")
    producer.abort()
    broker.publish("orders", b"x", key="k", partition=0)
    consumer = broker.consumer("orders", group="ordered", ordered=True)

    assert [message.value for message in consumer.receive(max_messages=10)] == [b"x"]


def test_a_consumer_of_batches_is_lent_no_aborts(broker: TestBroker) -> None:
    producer = Producer(broker)
    producer.write("orders", *[b"aborted"] * 20)
    producer.abort()
    producer.write("orders", *[b"committed"] * 20)
    producer.commit()
    consumer = run(broker, "batch_consumer", "orders", "g", ConsumerOptions())

    lent = broker._driver.run(consumer.receive(100, 0))

    assert [record.value for part in lent for record in decode_batch(part.data)] == [b"committed"] * 20


def test_a_transaction_is_whole_over_partitions(broker: TestBroker) -> None:
    producer = Producer(broker)
    producer.write("orders", b"a", partition=0)
    producer.write("orders", b"b", partition=1)

    producer.commit()

    assert [committed(broker, "orders", number) for number in (0, 1)] == [[b"a"], [b"b"]]


def test_a_group_that_begins_at_the_end_gets_what_is_not_decided_yet(broker: TestBroker) -> None:
    producer = Producer(broker)
    producer.write("orders", b"a")
    consumer = broker.consumer("orders", group="late", start="latest")

    producer.commit()

    assert [message.value for message in consumer.receive()] == [b"a"]


def test_a_transaction_that_wrote_nothing_leaves_nothing(broker: TestBroker) -> None:
    producer = Producer(broker)
    producer.enlist("orders")

    producer.commit()

    assert broker.describe_topic("orders").partitions[0].end == 0


def test_retention_waits_for_what_is_not_decided() -> None:
    with TestBroker.open(config=BrokerConfig(maintenance_ms=1000)) as broker:
        broker.create_topic("orders", retention="1s")
        producer = Producer(broker, timeout_ms=900_000)
        producer.write("orders", b"a")

        broker.advance("60s")
        producer.commit()

        assert committed(broker, "orders") == [b"a"]


def test_whoever_waits_is_woken_by_the_commit(broker: TestBroker) -> None:
    consumer = broker.consumer("orders", group="g")
    producer = Producer(broker, timeout_ms=5000)
    producer.write("orders", b"a")
    broker.publish("orders", b"behind", partition=0)

    # The clock moves to what is due next: the timeout, which aborts.
    assert [message.value for message in consumer.receive(wait="10s")] == [b"behind"]


# Rules.


def test_the_next_producer_of_that_name_fences_the_one_before(broker: TestBroker) -> None:
    first = Producer(broker)
    first.write("orders", b"of the first")

    second = Producer(broker)

    assert second.id == first.id
    assert second.epoch > first.epoch
    for late in (lambda: first.append("orders", b"late"), first.commit, lambda: first.enlist("orders")):
        with pytest.raises(ProducerFenced):
            late()
    second.write("orders", b"of the second")
    second.commit()
    assert committed(broker, "orders") == [b"of the second"]


def test_a_producer_that_names_its_epoch_gets_the_next_and_again_the_same(broker: TestBroker) -> None:
    producer = Producer(broker)
    mine = (producer.id, producer.epoch)

    following = run(broker, "init_producer", "p", 60_000, *mine)
    again = run(broker, "init_producer", "p", 60_000, *mine)

    assert following == again == (producer.id, producer.epoch + 1)
    run(broker, "init_producer", "p", 60_000, -1, -1)
    for stale in (mine, following, (99, 0)):
        with pytest.raises(ProducerFenced):
            run(broker, "init_producer", "p", 60_000, *stale)


def test_a_producer_without_a_name_gets_a_new_id_each_time(broker: TestBroker) -> None:
    ids = [run(broker, "init_producer", None, 0, -1, -1) for _ in range(3)]

    assert len({producer_id for producer_id, _ in ids}) == 3
    assert {epoch for _, epoch in ids} == {0}


def test_epochs_do_not_run_out(broker: TestBroker) -> None:
    producer = Producer(broker)
    ledger = ledger_of(broker)
    known = ledger.by_name["p"]
    ledger.put("p", type(known)(known.producer_id, 32_766, 60_000, known.used_ms))

    following = run(broker, "init_producer", "p", 60_000, -1, -1)

    assert following[1] == 0
    assert following[0] != producer.id


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_that_is_repeated_is_answered_like_the_first(broker: TestBroker, commit: bool) -> None:
    producer = Producer(broker)
    producer.write("orders", b"a")
    producer.end(commit)

    producer.end(commit)

    with pytest.raises(TransactionNotOpen):
        producer.end(not commit)


def test_a_batch_is_taken_only_where_its_transaction_is_open(broker: TestBroker) -> None:
    producer = Producer(broker)
    with pytest.raises(TransactionNotOpen):
        producer.append("orders", b"a")
    with pytest.raises(TransactionNotOpen):
        producer.commit()
    producer.enlist("orders", 1)
    with pytest.raises(TransactionNotOpen):
        producer.append("orders", b"a", partition=0)
    with pytest.raises(PartitionNotFound):
        producer.enlist("orders", 2)
    producer.append("orders", b"a", partition=1)
    producer.commit()
    with pytest.raises(TransactionNotOpen):
        producer.append("orders", b"b", partition=1)


def test_a_producer_that_nobody_knows_is_told_so(broker: TestBroker) -> None:
    with pytest.raises(ProducerUnknown):
        broker.append("orders", 0, batch([b"a"], 99, 0, 0))
    producer = Producer(broker)
    producer.id += 1
    for unknown in (producer.commit, lambda: producer.enlist("orders")):
        with pytest.raises(ProducerUnknown):
            unknown()


@pytest.mark.parametrize(("producer", "attributes"), [(7, IN_TRANSACTION), (-1, TRANSACTIONAL)])
def test_nobody_but_the_broker_writes_markers(broker: TestBroker, producer: int, attributes: int) -> None:
    with pytest.raises(InvalidBatch):
        broker.append("orders", 0, batch([b"a"], producer, 0, 0, attributes))


@pytest.mark.parametrize(("name", "timeout_ms"), [("", 1000), ("x" * 1001, 1000), ("p", 0), ("p", 900_001)])
def test_a_name_and_a_timeout_have_their_limits(broker: TestBroker, name: str, timeout_ms: int) -> None:
    with pytest.raises(InvalidValue):
        Producer(broker, name, timeout_ms)


def test_a_batch_that_comes_again_in_its_transaction_is_answered_with_its_place(broker: TestBroker) -> None:
    producer = Producer(broker)
    first = producer.write("orders", b"a")
    producer.append("orders", b"b")

    again = broker.append("orders", 0, batch([b"a"], producer.id, producer.epoch, 0))

    assert (again.duplicate, again.offset) == (True, first.offset)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("value", [b"a", b"other"])
@pytest.mark.parametrize("anew", [True, False])
def test_a_number_of_a_transaction_that_has_ended_is_no_repeat(
    commit: bool, value: bytes, anew: bool
) -> None:
    """To answer it as one would lose a message: what it would be a repeat of does not count here."""
    disk, clock = CrashDisk(), ManualClock()
    broker = TestBroker.open("data", files=disk, clock=clock)
    broker.create_topic("orders", partitions=2)
    producer = Producer(broker)
    producer.write("orders", b"a")
    producer.end(commit)
    if anew:
        disk.kill()
        producer.broker = broker = TestBroker.open("data", files=disk, clock=clock)
    producer.enlist("orders")

    with pytest.raises(SequenceReused, match="has ended"):
        broker.append("orders", 0, batch([value], producer.id, producer.epoch, 0))

    producer.append("orders", b"next")
    producer.commit()
    assert committed(broker, "orders") == [b"a"] * commit + [b"next"]


def test_a_number_of_the_open_transaction_under_other_records_is_no_repeat(broker: TestBroker) -> None:
    """It is a late batch of the transaction before, which was taken for one of this."""
    producer = Producer(broker)
    producer.write("orders", b"late")

    with pytest.raises(SequenceReused, match="other records"):
        broker.append("orders", 0, batch([b"wanted"], producer.id, producer.epoch, 0))


# Version 2: each transaction ends the epoch.


def at_epoch(broker: TestBroker, epoch: int) -> Producer:
    """A producer that has used up all epochs before."""
    producer = Producer(broker, version=2)
    ledger = ledger_of(broker)
    ledger.put("p", msgspec.structs.replace(ledger.by_name["p"], epoch=epoch))
    producer.epoch = epoch
    return producer


@pytest.mark.parametrize("commit", [True, False])
def test_each_transaction_of_version_2_has_an_epoch_of_its_own(broker: TestBroker, commit: bool) -> None:
    producer = Producer(broker, version=2)
    for epoch in range(3):
        assert producer.epoch == epoch
        producer.write("orders", b"%d" % epoch)
        producer.end(commit)

    assert committed(broker, "orders") == [b"0", b"1", b"2"] * commit


def test_behind_its_last_epoch_a_producer_gets_another_id(broker: TestBroker) -> None:
    producer = at_epoch(broker, EPOCH_MAX)
    before = producer.id
    producer.write("orders", b"a")
    producer.commit()

    assert (producer.id != before, producer.epoch) == (True, 0)
    producer.end_again(commit=True)
    with pytest.raises(ProducerFenced):
        broker.append("orders", 0, batch([b"late"], before, EPOCH_MAX, 1))
    producer.write("orders", b"b")
    producer.commit()
    assert producer.epoch == 1
    assert committed(broker, "orders") == [b"a", b"b"]


def test_an_answer_with_another_id_that_got_lost_is_given_again_by_init_producer(broker: TestBroker) -> None:
    producer = at_epoch(broker, EPOCH_MAX)
    before = producer.id
    producer.write("orders", b"a")
    producer.commit()

    told = run(broker, "init_producer", "p", 60_000, before, EPOCH_MAX)

    assert told == (producer.id, 0)


def test_another_id_is_decided_with_the_end_and_survives_a_crash() -> None:
    disk, clock = CrashDisk(), ManualClock()
    broker = TestBroker.open("data", files=disk, clock=clock)
    broker.create_topic("orders")
    producer = at_epoch(broker, EPOCH_MAX)
    producer.write("orders", b"a")
    known = ledger_of(broker).by_name["p"]
    decided = end_epoch(known, producer.id, EPOCH_MAX, True, broker._core.catalogue.new_producer_id, 0)
    ledger_of(broker).put("p", decided)
    ledger_of(broker).log.sync()
    disk.kill()

    broker = TestBroker.open("data", files=disk, clock=clock)

    told = run(broker, "end_epoch", "p", producer.id, EPOCH_MAX, True)
    assert told == (decided.next_producer_id, 0)
    assert committed(broker, "orders") == [b"a"]
    broker.close()


def test_what_is_of_a_transaction_is_durable_when_it_is_answered_also_in_topics_that_are_flushed() -> None:
    """Or a power cut takes it, and its producer, which is still there, commits the rest."""
    disk, clock = CrashDisk(), ManualClock()
    broker = TestBroker.open("data", files=disk, clock=clock)
    broker.create_topic("orders", partitions=2, durability="os")
    producer = Producer(broker)
    producer.write("orders", b"a")
    producer.write("orders", b"b", partition=1)
    disk.power_cut(Random(1))

    producer.broker = broker = TestBroker.open("data", files=disk, clock=clock)
    producer.commit()

    assert [committed(broker, "orders", number) for number in (0, 1)] == [[b"a"], [b"b"]]
    broker.close()


def test_an_id_that_cannot_be_enlisted_is_refused_batch_by_batch(broker: TestBroker) -> None:
    producer = Producer(broker, version=2)
    batches = [(0, batch([b"a"], producer.id, producer.epoch, 0)), (1, b"garbage")]

    first, second = run(broker, "append_in_transaction", "orders", batches, True, "p", True)
    [third] = run(broker, "append_in_transaction", "orders", batches[:1], True, "stranger", True)

    assert isinstance(first, Receipt)
    assert isinstance(second, InvalidBatch)
    assert isinstance(third, ProducerUnknown)


# Time.


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(broker: TestBroker) -> None:
    producer = Producer(broker, timeout_ms=5000)
    producer.write("orders", b"a")
    broker.publish("orders", b"behind", partition=0)

    broker.advance("4s")
    assert committed(broker, "orders") == []
    broker.advance("1s")

    assert committed(broker, "orders") == [b"behind"]
    for late in (producer.commit, lambda: producer.append("orders", b"late")):
        with pytest.raises(ProducerFenced):
            late()


def test_a_name_that_nobody_used_for_a_week_is_forgotten(broker: TestBroker) -> None:
    producer = Producer(broker)
    broker.advance("4d")
    other = Producer(broker, "other")
    broker.advance("4d")
    broker.advance("2m")

    with pytest.raises(ProducerUnknown):
        producer.enlist("orders")
    other.enlist("orders")


# Places of groups.


def test_a_place_counts_when_the_transaction_is_committed(broker: TestBroker) -> None:
    broker.publish_batch("orders", [b"in"] * 10)
    producer = Producer(broker)
    producer.write("orders", b"out", partition=1)
    producer.commit_place("orders", "g", 5, note="n")
    commits = broker._core.commits

    assert commits.unsettled("orders", "g", 0)
    assert commits.read("orders", "g") == {}
    producer.commit()

    assert not commits.unsettled("orders", "g", 0)
    assert commits.read("orders", "g")[0].offset == 5
    assert broker.describe_group("orders", "g").partitions[0].floor == 5


def test_a_place_of_an_aborted_transaction_never_counts(broker: TestBroker) -> None:
    broker.publish_batch("orders", [b"in"] * 10)
    producer = Producer(broker)
    producer.commit_place("orders", "g", 5)
    producer.commit_place("orders", "g", 7)

    producer.abort()

    commits = broker._core.commits
    assert commits.read("orders", "g") == {}
    assert not commits.unsettled("orders", "g", 0)


def test_a_place_belongs_to_a_group_that_was_enlisted(broker: TestBroker) -> None:
    producer = Producer(broker)
    producer.enlist("orders")
    with pytest.raises(TransactionNotOpen):
        run(broker, "enlist_commits", "orders", "g", {}, "p", producer.id, producer.epoch, Committer(), False)


def test_a_place_is_told_by_a_member_of_the_group(broker: TestBroker) -> None:
    producer = Producer(broker)
    run(broker, "enlist_group", "p", producer.id, producer.epoch, "g")
    stranger = Committer(member="gone", generation=3, transactional=True)

    answer = run(
        broker,
        "enlist_commits",
        "orders",
        "g",
        {0: Commit(1)},
        "p",
        producer.id,
        producer.epoch,
        stranger,
        False,
    )

    assert answer == Code.ILLEGAL_GENERATION
    producer.commit()
    assert broker._core.commits.read("orders", "g") == {}


def test_a_place_that_could_not_be_committed_is_refused_at_once(broker: TestBroker) -> None:
    producer = Producer(broker)
    run(broker, "enlist_group", "p", producer.id, producer.epoch, "g")
    by = Committer(transactional=True)
    long = Commit(0, 0, "x" * 5000)
    with pytest.raises(InvalidValue):
        run(broker, "enlist_commits", "orders", "g", {0: long}, "p", producer.id, producer.epoch, by, False)


def test_a_place_that_cannot_be_set_holds_nobody_up(broker: TestBroker) -> None:
    producer = Producer(broker)
    producer.write("orders", b"a")
    producer.commit_place("orders", "g", 1)
    broker.create_group("orders", "g", kind="queue")

    producer.commit()

    assert committed(broker, "orders") == [b"a"]


# Restarts.


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_a_producer_goes_on_with_its_transaction_after_a_restart(how: str) -> None:
    disk = CrashDisk()
    broker = TestBroker.open("data", files=disk)
    broker.create_topic("orders")
    producer = Producer(broker)
    producer.write("orders", b"a")
    producer.commit_place("orders", "g", 3, note="n")
    broker.close() if how == "closed" else disk.kill()

    with TestBroker.open("data", files=disk) as broker:
        assert committed(broker, "orders") == []
        assert broker._core.commits.unsettled("orders", "g", 0)
        producer.broker = broker
        producer.append("orders", b"b")
        producer.commit()
        assert committed(broker, "orders") == [b"a", b"b"]
        commits = broker._core.commits
        assert [(place.offset, place.metadata) for place in commits.read("orders", "g").values()] == [
            (3, "n")
        ]


@pytest.mark.parametrize("how", ["closed", "killed"])
@pytest.mark.parametrize("lost", ["nothing", "digest"])
def test_what_was_aborted_stays_hidden_after_a_restart(how: str, lost: str) -> None:
    disk = CrashDisk()
    broker = TestBroker.open("data", files=disk)
    broker.create_topic("orders")
    producer = Producer(broker)
    for commit in (False, True, False):
        producer.write("orders", b"%d" % commit)
        producer.end(commit)
    broker.close() if how == "closed" else disk.kill()
    if lost == "digest":
        disk.remove("data/topics/orders/0/digest")

    with TestBroker.open("data", files=disk) as broker:
        assert committed(broker, "orders") == fetched(broker) == [b"1"]
        producer.broker = broker
        producer.write("orders", b"more")
        producer.commit()
        assert committed(broker, "orders") == [b"1", b"more"]


def test_the_time_of_a_transaction_begins_anew_after_a_restart() -> None:
    disk = CrashDisk()
    broker = TestBroker.open("data", files=disk)
    broker.create_topic("orders")
    Producer(broker, timeout_ms=5000).write("orders", b"a")
    broker.publish("orders", b"behind")
    disk.kill()

    with TestBroker.open("data", files=disk) as broker:
        broker.advance("4s")
        assert committed(broker, "orders") == []
        broker.advance("1s")
        assert committed(broker, "orders") == [b"behind"]


def test_what_was_restored_counts_whatever_becomes_of_its_marker() -> None:
    disk, clock = CrashDisk(), ManualClock()
    broker = TestBroker.open("data", files=disk, clock=clock)
    broker.create_topic("orders", retention="1h", segment_bytes=4096)
    broker.create_group("orders", "again")
    producer = Producer(broker)
    for commit in (True, False):
        producer.write("orders", b"%d" % commit)
        producer.end(commit)
    copy = broker.fetch("orders", 0, 0).batches
    broker.advance("3h")
    begun = broker.begin_restore("orders", 0, 0)
    broker.restore("orders", 0, begun.restore, copy)
    broker.finish_restore("orders", 0, begun.restore, "again", hold="1h")
    disk.kill()
    disk.remove("data/topics/orders/0/digest")

    with TestBroker.open("data", files=disk, clock=clock) as broker:
        assert committed(broker, "orders") == [b"1"]
        assert broker._core.state.topics["orders"].partitions[0].log.transactions.open == {}


def test_the_trace_of_what_is_kept_outlives_an_abort_at_the_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.broker.journal.journal.SEGMENT_BYTES", 100)
    with TestBroker.open(config=BrokerConfig(maintenance_ms=1000)) as broker:
        broker.create_topic("orders", retention="1h", segment_bytes=4096)
        broker.publish("orders", bytes(4000))
        producer = Producer(broker, timeout_ms=900_000)
        broker.advance("55m")
        producer.write("orders", b"a", bytes(4000))  # In the second segment ...
        producer.abort()  # ... and so is its marker.
        place = broker.publish("orders", b"seen").offset
        with broker.consumer("orders", group="g") as consumer:
            consumer.ack(consumer.receive(10))
        broker.create_group("orders", "other")  # One more in the journal, and a segment of its own.

        broker.advance("10m")

        assert broker.describe_topic("orders").partitions[0].start > 0
        assert "acked" in str(broker.trace(f"orders:0:{place}"))


def test_a_fence_holds_after_a_restart() -> None:
    disk = CrashDisk()
    broker = TestBroker.open("data", files=disk)
    broker.create_topic("orders")
    first = Producer(broker)
    Producer(broker)
    disk.kill()

    with TestBroker.open("data", files=disk) as broker:
        first.broker = broker
        with pytest.raises(ProducerFenced):
            first.enlist("orders")


def test_a_transaction_that_nobody_knows_of_is_aborted_when_the_broker_opens() -> None:
    disk = CrashDisk()
    broker = TestBroker.open("data", files=disk)
    broker.create_topic("orders")
    Producer(broker).write("orders", b"a")
    broker.publish("orders", b"behind")
    broker.close()
    disk.remove_tree("data/transactions")

    with TestBroker.open("data", files=disk) as broker:
        assert committed(broker, "orders") == [b"behind"]


def test_a_transaction_over_a_topic_that_was_deleted_ends(broker: TestBroker) -> None:
    broker.create_topic("other")
    producer = Producer(broker)
    producer.write("orders", b"a")
    producer.write("other", b"b")
    broker.delete_topic("other")

    producer.commit()

    assert committed(broker, "orders") == [b"a"]


def test_the_ledger_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.broker.journal.ledger.SEGMENT_BYTES", 2048)
    disk = CrashDisk()
    broker = TestBroker.open("data", files=disk)
    broker.create_topic("orders")
    producers = [Producer(broker, f"p{number}") for number in range(5)]
    for _ in range(10):
        for producer in producers:
            producer.write("orders", b"a")
            producer.commit()
    ledger = ledger_of(broker)
    assert ledger.log.size_bytes < 6000
    before = ledger.by_name
    disk.kill()

    with TestBroker.open("data", files=disk) as broker:
        assert ledger_of(broker).by_name == before
        assert len(committed(broker, "orders")) == 50


def test_the_name_that_was_not_used_for_longest_makes_room(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.broker.journal.ledger.IDS_MAX", 2)
    busy = Producer(broker, "busy")
    busy.enlist("orders")
    idle, last = Producer(broker, "idle"), Producer(broker, "last")

    busy.append("orders", b"a")
    busy.commit()
    last.enlist("orders")
    with pytest.raises(ProducerUnknown):
        idle.enlist("orders")


def test_the_newest_message_is_none_of_the_markers(broker: TestBroker) -> None:
    producer = Producer(broker)
    producer.write("orders", b"a")
    broker.advance("1s")
    producer.commit()

    assert run(broker, "position", "orders", 0, "newest", True).offset == 0


def test_who_has_read_everything_does_not_lag_by_a_marker(broker: TestBroker) -> None:
    producer = Producer(broker)
    for commit in (True, False):
        producer.write("orders", b"a")
        producer.end(commit)
    stream = broker.consumer("orders", group="stream", kind="stream")

    assert broker.describe_group("orders", "stream").lag == 1
    stream.ack(stream.receive(10))

    info = broker.describe_group("orders", "stream")
    assert (info.lag, [lag.lag for lag in info.partitions]) == (0, [0, 0])


# Groups that read uncommitted messages.


def test_a_group_of_uncommitted_messages_that_begins_at_the_end_gets_only_what_comes(
    broker: TestBroker,
) -> None:
    producer = Producer(broker)
    producer.write("orders", b"before")
    broker.create_group("orders", "all", start="latest", isolation="read_uncommitted")
    producer.write("orders", b"after")

    consumer = broker.consumer("orders", group="all")

    assert [message.value for message in consumer.receive(10)] == [b"after"]


@pytest.mark.parametrize("ordered", [False, True])
def test_an_aborted_message_that_a_group_could_not_process_is_a_dead_letter(
    broker: TestBroker, ordered: bool
) -> None:
    producer = Producer(broker)
    producer.write("orders", b"a")
    consumer = broker.consumer(
        "orders", group="all", isolation="read_uncommitted", max_attempts=2, ordered=ordered, backoff=["1s"]
    )
    [message] = consumer.receive(10)
    consumer.nack(message, error="too early")
    producer.abort()
    broker.advance("2s")
    [message] = consumer.receive(10)
    assert (message.value, message.attempt) == (b"a", 2)
    consumer.nack(message, error="too late")

    [letter] = broker.dead_letters("orders")
    assert letter.message.value == b"a"
    assert consumer.receive(10) == []
    assert broker.describe_group("orders", "all").lag == 0


@pytest.mark.parametrize("ordered", [False, True])
def test_a_group_that_no_longer_reads_uncommitted_messages_gets_the_others_meanwhile(
    broker: TestBroker, ordered: bool
) -> None:
    broker.publish("orders", b"before", partition=0)
    producer = Producer(broker)
    producer.write("orders", b"a", b"b")
    with broker.consumer("orders", group="g", isolation="read_uncommitted", ordered=ordered) as consumer:
        assert len(consumer.receive(10)) == 3

    consumer = broker.consumer("orders", group="g", isolation="read_committed")

    assert [message.value for message in consumer.receive(10)] == [b"before"]
    assert consumer.receive(10) == []
    producer.commit()
    broker.advance("1s")
    assert [(message.value, message.attempt) for message in consumer.receive(10)] == [(b"a", 1), (b"b", 1)]


def test_a_stream_group_reads_committed_messages_whatever_is_set(broker: TestBroker) -> None:
    producer = Producer(broker)
    producer.write("orders", b"a")
    consumer = broker.consumer(
        "orders", group="g", kind="stream", start="latest", isolation="read_uncommitted"
    )
    assert consumer.receive(10) == []
    assert broker.describe_group("orders", "g").lag == 0
    producer.commit()

    assert [message.value for message in consumer.receive(10)] == [b"a"]
