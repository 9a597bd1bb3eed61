"""Transactions that an earlier version left on disk are gone on with by this one.

The bytes in tests/data/transactions-1 never change; ``write`` made them.  A version that changes the format
adds a directory of its own, and goes on reading this one:

    python -m tests.crash.test_transaction_format tests/data/transactions-N
"""

import shutil
import sys
from pathlib import Path

import pytest
from tests.transactional import Producer, batch, committed, run

from penstock.errors import LeaseLost, ProducerFenced
from penstock.log.files import SystemFiles
from penstock.testing import ManualClock, TestBroker

STORED = Path(__file__).parents[1] / "data"


def write(directory: Path) -> None:
    """Committed, aborted and open transactions, a fence, places; and then the process is killed."""
    broker = TestBroker.open(str(directory), files=SystemFiles(), clock=ManualClock())
    broker.create_topic("orders", partitions=2, retention=None)
    first = Producer(broker, "anna")
    for number, commit in enumerate((True, False, True)):
        first.write("orders", b"anna %d" % number, partition=0)
        first.write("orders", b"anna %d" % number, partition=1)
        first.commit_place("orders", "workers", number + 1, note="so far")
        first.end(commit)
    Producer(broker, "bert")
    Producer(broker, "bert").write("orders", b"bert", partition=1)
    broker.publish("orders", b"behind", partition=1)
    third = Producer(broker, "carl")
    third.write("orders", b"carl", partition=0)
    third.commit_place("orders", "workers", 9)
    broker.create_topic("payments", partitions=1, retention=None)
    fourth = Producer(broker, "dora", version=2)
    for number, commit in enumerate((True, False, True)):
        fourth.write("payments", b"dora %d" % number)
        fourth.end(commit)
    broker.create_topic("tasks", retention=None)
    broker.publish_batch("tasks", [b"1", b"2"])
    [task] = broker.consumer("tasks", visibility_timeout="10m").receive()
    opened = run(broker, "begin_transaction", "emil", "10m")
    which = "emil", opened.producer_id, opened.epoch
    run(broker, "publish_in_transaction", "tasks", [b"3"], *which)
    acked = (task.partition, task.delivery.lease, task.offset, task.offset + 1)
    run(broker, "ack_in_transaction", "tasks", "default", [acked], *which)
    (directory / "LOCK").unlink()


@pytest.fixture(params=sorted(path.name for path in STORED.glob("transactions-*")))
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> TestBroker:
    shutil.copytree(STORED / request.param, tmp_path / "data")
    return TestBroker.open(str(tmp_path / "data"), files=SystemFiles(), clock=ManualClock())


def producer(broker: TestBroker, name: str, epoch: int) -> Producer:
    """The one that was there, with what it remembers."""
    made = object.__new__(Producer)
    made.broker, made.name, made.epoch = broker, name, epoch
    ledger = broker._core.state.ledger
    assert ledger is not None
    made.id = ledger.by_name[name].producer_id
    made.sequences = {("orders", 0): 1}
    return made


def test_readers_see_what_was_committed_and_stop_at_what_is_open(broker: TestBroker) -> None:
    with broker:
        assert committed(broker, "orders", 0) == committed(broker, "orders", 1) == [b"anna 0", b"anna 2"]
        [place] = broker._core.commits.read("orders", "workers").values()
        assert (place.offset, place.metadata) == (3, "so far")


def test_what_is_open_goes_on(broker: TestBroker) -> None:
    with broker:
        carl = producer(broker, "carl", 0)
        carl.append("orders", b"carl again")
        carl.commit()

        assert committed(broker, "orders", 0)[2:] == [b"carl", b"carl again"]
        [place] = broker._core.commits.read("orders", "workers").values()
        assert place.offset == 9


def test_who_was_fenced_still_is(broker: TestBroker) -> None:
    with broker:
        with pytest.raises(ProducerFenced):
            producer(broker, "bert", 0).enlist("orders")
        producer(broker, "bert", 1).abort()

        assert committed(broker, "orders", 1)[2:] == [b"behind"]


def test_the_end_of_an_epoch_is_known(broker: TestBroker) -> None:
    with broker:
        if "payments" not in broker.topics():
            return  # Version 1 knew nothing of that.
        dora = producer(broker, "dora", 3)
        dora.version, dora.sequences = 2, {}

        assert run(broker, "end_epoch", "dora", dora.id, 2, True) == (dora.id, 3)
        with pytest.raises(ProducerFenced):
            broker.append("payments", 0, batch([b"late"], dora.id, 2, 1))
        dora.write("payments", b"dora 3")
        dora.commit()

        assert committed(broker, "payments") == [b"dora 0", b"dora 2", b"dora 3"]


def test_acks_of_an_open_transaction_are_read_and_their_leases_are_lost(broker: TestBroker) -> None:
    with broker:
        if "tasks" not in broker.topics():
            return  # Versions 1 and 2 knew nothing of that.
        emil = producer(broker, "emil", 0)
        with pytest.raises(LeaseLost):
            run(broker, "commit_transaction", "emil", emil.id, emil.epoch)

        consumer = broker.consumer("tasks")
        received = consumer.receive(5, wait="1h")
        assert sorted(message.value for message in received) == [b"1", b"2"]


if __name__ == "__main__":
    write(Path(sys.argv[1]))
