"""Transactions of our own clients: what the contract does not show."""

import pytest

from penstock.broker.kafka.transactions import GENERATED_EXPIRY_MS
from penstock.broker.queue.transactional_acks import waits_for_decision
from penstock.broker.storage.replay import snapshot_state
from penstock.config.broker import BrokerConfig
from penstock.errors import (
    AlreadySettled,
    DiskFull,
    GroupKindMismatch,
    InvalidValue,
    LeaseLost,
    LimitReached,
    OutcomeUnknown,
    StorageFailed,
    TransactionAborted,
    TransactionNotOpen,
)
from penstock.groups.transactions import ACKS_MAX, GENERATED, AckedRun
from penstock.model.info import OpenTransaction
from penstock.model.message import Message, ReceivedMessage
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk, Fault, FaultyFiles


@pytest.fixture
def broker(penstock: TestBroker) -> TestBroker:
    penstock.create_topic("orders")
    penstock.create_topic("bills")
    penstock.publish_batch("orders", [b"1", b"2"])
    return penstock


def run_of(message: ReceivedMessage) -> AckedRun:
    place = message.partition, message.delivery.lease, message.offset, message.offset + 1
    return AckedRun(message.topic, message.group, *place)


def prepare(broker: TestBroker, producer_id: int, runs: list[AckedRun]) -> None:
    acks = broker._core.transactions._acks
    broker._driver.run(acks.prepare(producer_id, 1, [(0, run) for run in runs]))


def conclude(broker: TestBroker, producer_id: int, runs: list[AckedRun], commit: bool) -> None:
    broker._driver.run(broker._core.transactions._acks.conclude(producer_id, runs, commit))


def test_nobody_gets_a_message_between_the_decision_and_its_ack(broker: TestBroker) -> None:
    acks = broker._core.transactions._acks
    consumer = broker.consumer("orders", visibility_timeout="30s")
    first, second = consumer.receive(2)

    acks.hold([run_of(first)])
    consumer.close()
    broker.advance("1m")

    assert [message.value for message in broker.consumer("orders").receive(2)] == [second.value]
    acks.settle_now([run_of(first)])
    acks.settle_now([run_of(first)])  # As after a crash in between.
    assert broker.depth("orders", "default") == 1
    assert broker.describe_group("orders", "default").acked == 1


def test_a_message_that_was_held_is_delivered_again_if_there_was_no_decision() -> None:
    disk, clock = CrashDisk(), ManualClock()
    broker = TestBroker.open("data", files=disk, clock=clock)
    broker.create_topic("orders")
    broker.publish("orders", b"1")
    [message] = broker.consumer("orders").receive()
    broker._core.transactions._acks.hold([run_of(message)])

    disk.kill()
    broker = TestBroker.open("data", files=disk, clock=clock)

    assert [again.value for again in broker.consumer("orders").receive(wait="1m")] == [b"1"]


@pytest.mark.parametrize("snapshot", [False, True])
@pytest.mark.parametrize("commit", [False, True])
def test_a_message_that_is_prepared_waits_for_its_decision_through_a_takeover(
    commit: bool, snapshot: bool
) -> None:
    disk, clock = CrashDisk(), ManualClock()
    broker = TestBroker.open("data", files=disk, clock=clock)
    broker.create_topic("orders")
    broker.publish_batch("orders", [b"1", b"2"])
    run = run_of(broker.consumer("orders", visibility_timeout="30s").receive(2)[0])
    broker._driver.run(broker._core.transactions._acks.prepare(7, 1, [(0, run)]))
    if snapshot:
        partition = broker._core.state.topics["orders"].partitions[0]
        journal = partition.journal
        assert journal is not None
        journal.save_snapshot(snapshot_state(partition))

    disk.kill()
    broker = TestBroker.open("data", files=disk, clock=clock)
    consumer = broker.consumer("orders")
    assert [message.value for message in consumer.receive(2, wait="365d")] == [b"2"]
    partition = broker._core.state.topics["orders"].partitions[0]
    assert waits_for_decision(partition)
    for _ in range(2):  # Coordinators repeat it.
        broker._driver.run(broker._core.transactions._acks.conclude(7, [run], commit))
    assert not waits_for_decision(partition)

    assert [message.value for message in consumer.receive(2)] == ([] if commit else [b"1"])
    assert broker.depth("orders", "default") == (1 if commit else 2)
    disk.kill()
    broker = TestBroker.open("data", files=disk, clock=clock)
    assert len(broker.consumer("orders").receive(2)) == (1 if commit else 2)


def test_of_prepared_messages_only_those_that_are_asked_for_are_released(broker: TestBroker) -> None:
    acks = broker._core.transactions._acks
    consumer = broker.consumer("orders", visibility_timeout="30s")
    first, second = consumer.receive(2)
    runs = [run_of(first), run_of(second)]
    broker._driver.run(acks.prepare(7, 1, [(0, runs[0])]))
    broker._driver.run(acks.prepare(8, 1, [(0, runs[1])]))

    with pytest.raises(LeaseLost):  # Of another transaction.
        broker._driver.run(acks.prepare(8, 1, [(0, runs[0])]))
    with pytest.raises(LeaseLost):
        broker._driver.run(acks.prepare(8, 2, [(0, runs[1])]))
    consumer.close()
    broker._driver.run(acks.conclude(8, [runs[1]], False))

    [again] = broker.consumer("orders").receive(2)
    assert (again.value, again.attempt) == (second.value, 1)


def test_a_message_that_is_prepared_is_no_dead_letter_whatever_settings_change() -> None:
    disk, clock = CrashDisk(), ManualClock()
    broker = TestBroker.open("data", files=disk, clock=clock)
    broker.create_topic("orders")
    broker.publish("orders", b"1")
    consumer = broker.consumer("orders")
    consumer.receive()[0].nack(delay=0)
    [message] = consumer.receive()
    assert message.attempt == 2
    broker.consumer("orders", max_attempts=1)
    prepare(broker, 7, [run_of(message)])
    broker.advance("1d")
    assert broker.dead_letters("orders") == []

    disk.kill()
    broker = TestBroker.open("data", files=disk, clock=clock)
    broker.advance("1d")
    assert broker.dead_letters("orders") == []
    assert broker.describe_group("orders", "default").waiting_retry == 1
    conclude(broker, 7, [run_of(message)], commit=False)

    [again] = broker.consumer("orders").receive()
    assert (again.value, again.attempt) == (b"1", 2)


def test_an_abort_releases_nothing_that_another_transaction_has_prepared(broker: TestBroker) -> None:
    late = run_of(broker.consumer("orders", visibility_timeout="30s").receive()[0])
    broker.advance("1m")
    [message] = broker.consumer("orders").receive()
    assert message.offset == late.start
    prepare(broker, 8, [run_of(message)])

    conclude(broker, 7, [late], commit=False)  # It has staged its ack in time, and comes to its end now.

    assert [other.value for other in broker.consumer("orders").receive(2)] == [b"2"]
    conclude(broker, 8, [run_of(message)], commit=True)
    assert broker.describe_group("orders", "default").acked == 1


@pytest.mark.parametrize("commit", [False, True])
def test_many_prepared_ranges_are_one_write_to_the_journal_each_time(commit: bool) -> None:
    broker = TestBroker.open("data", files=CrashDisk())
    broker.create_topic("orders")
    broker.publish_batch("orders", [b"1"] * 200)
    runs = [run_of(message) for message in broker.consumer("orders").receive(200)[::2]]
    broker.advance("2s")  # The lease is written.
    journal = broker._core.state.topics["orders"].partitions[0].journal
    assert journal is not None
    before = journal.log.end

    prepare(broker, 7, runs)
    prepared = journal.log.end
    conclude(broker, 7, runs, commit)

    batches = [[header.count for header in journal.log.headers(start)] for start in (before, prepared)]
    assert batches == [[100, 100], [100]]
    broker.close()


def test_a_snapshot_between_the_decision_and_the_ack_keeps_the_ack() -> None:
    disk, clock = CrashDisk(), ManualClock()
    broker = TestBroker.open("data", files=disk, clock=clock)
    broker.create_topic("orders")
    broker.publish_batch("orders", [b"1", b"2"])
    first, _ = broker.consumer("orders").receive(2)
    acks = broker._core.transactions._acks
    acks.hold([run_of(first)])
    [partition] = broker._core.state.topics["orders"].partitions
    assert partition.journal is not None
    partition.journal.flush()
    partition.journal.save_snapshot(snapshot_state(partition))
    for written in acks.settle_now([run_of(first)]):
        assert written.journal is not None
        written.journal.log.sync()

    disk.kill()
    broker = TestBroker.open("data", files=disk, clock=clock)

    assert [again.value for again in broker.consumer("orders").receive(2, wait="1h")] == [b"2"]


def test_committed_acks_wait_for_a_topic_that_cannot_be_written_and_nobody_gets_them(
    broker: TestBroker,
) -> None:
    first, second = broker.consumer("orders").receive(2)
    bills = broker._core.state.topics["bills"].partitions[0].log

    with pytest.raises(OutcomeUnknown) as raised, broker.transaction() as transaction:
        transaction.publish("bills", b"a")
        transaction.ack(first)
        bills.reject(StorageFailed(path="bills", why="input/output error"))
    assert isinstance(raised.value.__cause__, StorageFailed)

    state = broker._core.transactions.describe(broker._core.transactions.names()[0])
    assert state is not None
    assert state.known.state == "committing"
    broker.advance("1h")
    assert [message.value for message in broker.consumer("orders").receive(2)] == [second.value]


def test_a_commit_that_is_decided_is_not_reported_as_one_that_was_not() -> None:
    """The program would do the work again, and the transaction is committed as soon as there is room."""
    files = FaultyFiles(CrashDisk())
    broker = TestBroker.open("data", files=files)
    broker.create_topic("bills")
    opened = broker._driver.run(broker._local.begin_transaction("t", "1m"))
    which = opened.transactional_id, opened.producer_id, opened.epoch
    broker._driver.run(broker._local.publish_in_transaction("bills", [Message(b"a")], *which))

    log = broker._core.state.topics["bills"].partitions[0].log
    ledger = broker._core.state.ledger
    assert ledger is not None
    written = ledger.log.written
    commit = broker._local.commit_transaction(*which)
    for _ in commit:  # What it waits for is durable at once.
        ledger.log.sync()
        log.sync()
        if ledger.log.written > written:
            files.fail_next(Fault.FULL)  # The marker.
            break
    with pytest.raises(OutcomeUnknown):
        next(commit)
    with pytest.raises(OutcomeUnknown):  # Also if the client has lost its connection, and asks again.
        broker._driver.run(broker._local.commit_transaction(*which))
    assert broker.read("bills") == []

    broker.advance("5s")
    assert [stored.value for stored in broker.read("bills")] == [b"a"]
    broker._driver.run(broker._local.commit_transaction(*which))


def test_a_transaction_whose_time_is_over_is_aborted_when_the_disk_has_room_again() -> None:
    files = FaultyFiles(CrashDisk())
    broker = TestBroker.open("data", files=files)
    broker.create_topic("bills")
    opened = broker._driver.run(broker._local.begin_transaction("t", "1m"))
    which = opened.transactional_id, opened.producer_id, opened.epoch
    broker._driver.run(broker._local.publish_in_transaction("bills", [Message(b"a")], *which))
    broker.publish("bills", b"b")

    files.fail_next(Fault.FULL)  # When its abort is written.
    broker.advance("60500ms")
    assert broker.read("bills") == []
    broker.advance("5s")

    assert [stored.value for stored in broker.read("bills")] == [b"b"]


def test_a_transaction_that_cannot_be_finished_keeps_no_other_from_its_end(broker: TestBroker) -> None:
    names = ["a", "b", "c", "d", "e", "f"]
    for name in names:
        broker.create_topic(name)
        opened = broker._driver.run(broker._local.begin_transaction(name, "1m"))
        which = opened.transactional_id, opened.producer_id, opened.epoch
        broker._driver.run(broker._local.publish_in_transaction(name, [Message(b"x")], *which))
        commit = broker._local.commit_transaction(*which)
        for _ in commit:
            broker._core.state.topics[name].partitions[0].log.sync()
            if broker._core.transactions.is_committing(*which):
                break  # Its caller gives up.
        commit.close()
    broken = broker._core.state.topics["a"].partitions[0].log
    broken.reject(StorageFailed(path="a", why="input/output error"))

    broker.advance("10s")

    assert [len(broker.read(name)) for name in names[1:]] == [1] * 5


def test_without_a_decision_the_messages_are_delivered_again_at_once() -> None:
    files = FaultyFiles(CrashDisk())
    broker = TestBroker.open("data", files=files)
    broker.create_topic("orders")
    broker.publish("orders", b"1")
    consumer = broker.consumer("orders", visibility_timeout="1h")
    [message] = consumer.receive()
    opened = broker._driver.run(broker._local.begin_transaction("t", "1m"))
    which = opened.transactional_id, opened.producer_id, opened.epoch
    run = message.partition, message.delivery.lease, message.offset, message.offset + 1
    broker._driver.run(broker._local.ack_in_transaction("orders", "default", [run], *which))

    files.fail_next(Fault.FULL)
    with pytest.raises(DiskFull):
        broker._driver.run(broker._local.commit_transaction(*which))

    assert [again.value for again in consumer.receive()] == [b"1"]


def test_one_group_that_cannot_be_written_does_not_keep_the_others_from_their_acks() -> None:
    files = FaultyFiles(CrashDisk())
    broker = TestBroker.open("data", files=files)
    messages = []
    for topic in ("bills", "orders"):
        broker.create_topic(topic)
        broker.publish(topic, b"1")
        messages += broker.consumer(topic).receive()
    runs = [run_of(message) for message in messages]
    acks = broker._core.transactions._acks
    acks.hold(runs)

    files.fail_next(Fault.FULL)
    with pytest.raises(DiskFull):
        acks.settle_now(runs)

    assert [broker.describe_group(topic, "default").acked for topic in ("bills", "orders")] == [0, 1]


def test_an_ack_is_durable_also_if_the_first_attempt_did_not_wait_for_that() -> None:
    broker = TestBroker.open("data", files=CrashDisk())
    broker.create_topic("orders")
    broker.publish("orders", b"1")
    [message] = broker.consumer("orders").receive()
    acks = broker._core.transactions._acks
    acks.hold([run_of(message)])
    acks.settle_now([run_of(message)])  # The caller was cancelled here; the alarm repeats it.
    journal = broker._core.state.topics["orders"].partitions[0].journal
    assert journal is not None
    assert journal.log.durable < journal.log.written

    broker._driver.run(acks.settle([run_of(message)]))

    assert journal.log.durable == journal.log.written


def test_a_message_is_acked_once_in_a_transaction(broker: TestBroker) -> None:
    [message] = broker.consumer("orders").receive()
    opened = broker._driver.run(broker._local.begin_transaction("t", "1m"))
    which = opened.transactional_id, opened.producer_id, opened.epoch
    run = message.partition, message.delivery.lease, message.offset, message.offset + 1

    broker._driver.run(broker._local.ack_in_transaction("orders", "default", [run], *which))
    with pytest.raises(AlreadySettled):
        broker._driver.run(broker._local.ack_in_transaction("orders", "default", [run], *which))
    with pytest.raises(LeaseLost):
        broker._driver.run(broker._local.ack_in_transaction("orders", "default", [(0, 5, 1, 2)], *which))
    many = [(0, 5, offset, offset + 1) for offset in range(ACKS_MAX + 1)]
    with pytest.raises(InvalidValue, match="commit more often"):
        broker._driver.run(broker._local.ack_in_transaction("orders", "default", many, *which))


def test_stream_groups_are_not_acked_in_a_transaction(broker: TestBroker) -> None:
    [message] = broker.consumer("orders", group="stream", kind="stream").receive()

    with pytest.raises(GroupKindMismatch), broker.transaction() as transaction:
        transaction.ack(message)


def test_an_id_that_the_broker_chose_is_used_again_and_forgotten_after_an_hour(broker: TestBroker) -> None:
    for _ in range(2):
        with broker.transaction() as transaction:
            transaction.publish("bills", b"a")
    with broker.transaction("billing"):
        pass
    [chosen, named] = broker._core.transactions.names()[::-1]
    assert (chosen[0], named) == (GENERATED, "billing")

    broker.advance(GENERATED_EXPIRY_MS / 1000 + 3600)

    assert broker._core.transactions.names() == ["billing"]
    with broker.transaction() as transaction:
        transaction.publish("bills", b"b")
    assert len(broker.read("bills")) == 3


def test_ids_that_the_broker_chose_do_not_use_up_the_limit() -> None:
    broker = TestBroker.open(config=BrokerConfig(transactional_ids_max=3))

    def begin(name: str | None) -> OpenTransaction:
        opened = broker._driver.run(broker._local.begin_transaction(name, "15m"))
        assert isinstance(opened, OpenTransaction)
        return opened

    for name in ("billing", None, None):
        opened = begin(name)
        which = opened.transactional_id, opened.producer_id, opened.epoch
        broker._driver.run(broker._local.commit_transaction(*which))
    with pytest.raises(LimitReached):
        begin(None)
    broker.advance("2m")

    for _ in range(2):
        begin(None)

    with pytest.raises(LimitReached):  # All that the broker chose are in use.
        begin(None)
    assert "billing" in broker._core.transactions.names()


def test_messages_of_another_broker_are_not_acked(broker: TestBroker) -> None:
    """Their numbers may be those of other messages here, which would be lost."""
    with TestBroker.open() as other:
        other.create_topic("orders")
        other.publish("orders", b"of another broker")
        elsewhere = other.consumer("orders").receive()
        held = broker.consumer("orders").receive()

        with pytest.raises(InvalidValue, match="the same broker object"), broker.transaction() as transaction:
            transaction.ack(elsewhere)

        elsewhere[0].ack()  # It is held as before.
    assert broker.depth("orders", "default") == 2
    held[0].ack()


def test_a_publish_after_the_end_is_in_no_transaction(broker: TestBroker) -> None:
    """One that is late or repeated must not hold readers up, or be committed by a repeated commit."""
    for commit in (True, False):
        opened = broker._driver.run(broker._local.begin_transaction("t", "1m"))
        which = opened.transactional_id, opened.producer_id, opened.epoch
        end = broker._local.commit_transaction if commit else broker._local.abort_transaction
        broker._driver.run(broker._local.publish_in_transaction("bills", [Message(b"a")], *which))
        broker._driver.run(end(*which))

        with pytest.raises(TransactionNotOpen, match="committed" if commit else "aborted"):
            broker._driver.run(broker._local.publish_in_transaction("bills", [Message(b"late")], *which))
        broker._driver.run(end(*which))

    broker.publish("bills", b"b")
    assert [stored.value for stored in broker.read("bills")] == [b"a", b"b"]


def test_a_publish_that_was_written_in_part_cannot_be_committed() -> None:
    files = FaultyFiles(CrashDisk())
    broker = TestBroker.open("data", files=files)
    broker.create_topic("bills", partitions=2)
    opened = broker._driver.run(broker._local.begin_transaction("t", "1m"))
    which = opened.transactional_id, opened.producer_id, opened.epoch
    both = [Message(b"a", partition=0), Message(b"a", partition=1)]
    broker._driver.run(broker._local.publish_in_transaction("bills", both, *which))  # They are enlisted now.

    logs = [partition.log for partition in broker._core.state.topics["bills"].partitions]
    before = [log.end for log in logs]
    files.fail_next(Fault.FULL)
    files._at += 1  # The second append.
    with pytest.raises(DiskFull):
        broker._driver.run(broker._local.publish_in_transaction("bills", both, *which))

    assert [log.end - end for log, end in zip(logs, before, strict=True)] == [2, 1]  # With their markers.
    with pytest.raises(TransactionNotOpen, match="aborted"):
        broker._driver.run(broker._local.commit_transaction(*which))
    assert len(broker.read("bills")) == 0


def test_without_an_answer_to_its_acks_a_transaction_is_aborted(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    [message] = broker.consumer("orders").receive()

    def lost(*_: object) -> None:
        raise OutcomeUnknown(operation="ack_in_transaction", server="the server")

    with pytest.raises(TransactionAborted), broker.transaction() as transaction:
        transaction.publish("bills", b"a")
        transaction.ack(message)
        monkeypatch.setattr(transaction._operations, "ack_in_transaction", lost)

    broker.publish("bills", b"b")
    assert [stored.value for stored in broker.read("bills")] == [b"b"]  # Nobody waits for a timeout.
    message.ack()


def test_a_transaction_ends_once(broker: TestBroker) -> None:
    with broker.transaction() as transaction:
        transaction.publish("bills", b"a")
        transaction.commit()
        with pytest.raises(TransactionNotOpen):
            transaction.abort()
    with pytest.raises(TransactionNotOpen):
        transaction.begin()
    with pytest.raises(InvalidValue, match="15 minutes"), broker.transaction(timeout="16m"):
        pass

    assert [stored.value for stored in broker.read("bills")] == [b"a"]


def test_nor_can_one_whose_abort_finds_no_room_either(monkeypatch: pytest.MonkeyPatch) -> None:
    files = FaultyFiles(CrashDisk())
    broker = TestBroker.open("data", files=files)
    broker.create_topic("bills", partitions=2)
    opened = broker._driver.run(broker._local.begin_transaction("t", "1m"))
    which = opened.transactional_id, opened.producer_id, opened.epoch
    both = [Message(b"a", partition=0), Message(b"a", partition=1)]
    broker._driver.run(broker._local.publish_in_transaction("bills", both, *which))  # They are enlisted now.

    def full(*_: object) -> None:
        raise DiskFull(path="data")

    monkeypatch.setattr(broker._core.state.ledger, "put", full)
    files.fail_next(Fault.FULL)
    files._at += 1  # The second append.
    with pytest.raises(DiskFull):
        broker._driver.run(broker._local.publish_in_transaction("bills", both, *which))
    monkeypatch.undo()

    with pytest.raises(TransactionAborted):
        broker._driver.run(broker._local.publish_in_transaction("bills", both, *which))
    with pytest.raises(TransactionAborted):
        broker._driver.run(broker._local.commit_transaction(*which))
    broker.publish("bills", b"b", partition=0)
    assert [stored.value for stored in broker.read("bills")] == [b"b"]
