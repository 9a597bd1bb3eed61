"""Stream groups: assigned partitions, order, commits, cooperative join and leave."""

import pytest

from penstock import Consumer, Message
from penstock.errors import Closed, GroupKindMismatch, InvalidValue, MemberUnknown, NotAssigned
from penstock.log.files import MemoryFiles
from penstock.testing import ManualClock, TestBroker
from penstock.testing.files import CrashDisk


def fill(broker: TestBroker, partitions: int, each: int) -> None:
    broker.create_topic("events", partitions=partitions)
    for partition in range(partitions):
        broker.publish_batch("events", [Message(b"%d" % n, partition=partition) for n in range(each)])


def join(broker: TestBroker, name: str) -> Consumer:
    return broker.consumer("events", group="s", kind="stream", consumer_id=name)


def settle(*consumers: Consumer) -> list[list[int]]:
    """Let every consumer be heard often enough for all moves; what each one owns then."""
    for _ in range(3):
        for consumer in consumers:
            consumer.receive(1)
    return [consumer.assignment for consumer in consumers]


def test_a_single_consumer_reads_every_partition_in_order(penstock: TestBroker) -> None:
    fill(penstock, partitions=3, each=5)
    consumer = join(penstock, "a")

    seen: dict[int, list[int]] = {0: [], 1: [], 2: []}
    while messages := consumer.receive(4):
        for message in messages:
            seen[message.partition].append(message.offset)
            assert (message.attempt, message.group) == (1, "s")

    assert seen == {0: [0, 1, 2, 3, 4], 1: [0, 1, 2, 3, 4], 2: [0, 1, 2, 3, 4]}
    assert consumer.assignment == [0, 1, 2]


def test_the_partitions_are_shared_out_evenly_and_each_has_one_owner(penstock: TestBroker) -> None:
    fill(penstock, partitions=6, each=1)

    owned = settle(join(penstock, "a"), join(penstock, "b"), join(penstock, "c"))

    assert sorted(map(len, owned)) == [2, 2, 2]
    assert sorted(partition for mine in owned for partition in mine) == [0, 1, 2, 3, 4, 5]


def test_a_join_moves_only_what_must_move_and_nobody_stops(penstock: TestBroker) -> None:
    fill(penstock, partitions=4, each=100)
    first = join(penstock, "a")
    first.receive(1)
    before = set(first.assignment)

    second = join(penstock, "b")
    assert len(first.receive(1)) == 1, "the first goes on in the middle of the change"
    owned = settle(first, second)

    assert len(owned[0]) == len(owned[1]) == 2
    assert set(owned[0]) < before
    assert sorted(owned[0] + owned[1]) == [0, 1, 2, 3]


def test_a_leave_gives_the_partitions_to_the_others_at_once(penstock: TestBroker) -> None:
    fill(penstock, partitions=4, each=1)
    first, second = join(penstock, "a"), join(penstock, "b")
    before = set(settle(first, second)[0])

    second.close()
    first.receive(1)

    assert first.assignment == [0, 1, 2, 3]
    assert before < set(first.assignment)


def test_a_silent_member_loses_its_partitions_after_the_session_timeout(penstock: TestBroker) -> None:
    fill(penstock, partitions=2, each=1)
    first, second = join(penstock, "a"), join(penstock, "b")
    settle(first, second)

    penstock.advance("20s")
    first.receive(1)
    penstock.advance("10s")
    first.receive(1)

    assert first.assignment == [0, 1]
    with pytest.raises(MemberUnknown, match="join again"):
        second.commit()


def test_who_was_put_out_joins_again_with_the_next_receive(penstock: TestBroker) -> None:
    fill(penstock, partitions=2, each=1)
    first, second = join(penstock, "a"), join(penstock, "b")
    settle(first, second)
    penstock.advance("20s")
    first.receive(1)
    penstock.advance("15s")

    owned = settle(first, second)

    assert sorted(map(len, owned)) == [1, 1]


def test_a_waiting_consumer_stays_a_member(penstock: TestBroker) -> None:
    penstock.create_topic("events")
    consumer = join(penstock, "a")

    assert consumer.receive(wait="10m") == []
    consumer.commit()

    assert consumer.assignment == [0]


def test_what_was_not_committed_is_read_again_by_the_next_owner(penstock: TestBroker) -> None:
    fill(penstock, partitions=1, each=10)
    first = join(penstock, "a")
    first.receive(4)
    first.commit()
    first.receive(3)
    first.close()

    assert [message.offset for message in join(penstock, "b").receive(100)] == [4, 5, 6, 7, 8, 9]


def test_acking_a_message_commits_up_to_and_including_it(penstock: TestBroker) -> None:
    fill(penstock, partitions=2, each=5)
    consumer = join(penstock, "a")
    messages = consumer.receive(100)

    consumer.ack([message for message in messages if message.offset == 2 and message.partition == 0])
    next(message for message in messages if message.offset == 4 and message.partition == 1).ack()

    info = penstock.describe_group("events", "s")
    assert [lag.floor for lag in info.partitions] == [3, 5]
    assert (info.kind, info.lag) == ("stream", 2)


def test_a_commit_never_goes_back(penstock: TestBroker) -> None:
    fill(penstock, partitions=1, each=5)
    consumer = join(penstock, "a")
    messages = consumer.receive(5)
    messages[3].ack()
    messages[1].ack()

    assert penstock.describe_group("events", "s").partitions[0].floor == 4


def test_a_message_block_commits_and_an_error_in_it_does_not(penstock: TestBroker) -> None:
    fill(penstock, partitions=1, each=2)
    consumer = join(penstock, "a")
    [first, second] = consumer.receive(2)

    with first:
        pass
    with pytest.raises(ValueError, match="work failed"):
        with second:
            raise ValueError("work failed")

    assert penstock.describe_group("events", "s").partitions[0].floor == 1


def test_only_the_owner_may_commit(penstock: TestBroker) -> None:
    fill(penstock, partitions=2, each=5)
    first = join(penstock, "a")
    messages = first.receive(100)
    second = join(penstock, "b")
    settle(first, second)
    lost = second.assignment[0]

    with pytest.raises(NotAssigned):
        first.ack([message for message in messages if message.partition == lost])


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_a_committed_position_survives_a_restart(how: str) -> None:
    disk = CrashDisk()
    broker = TestBroker.open("data", files=disk)
    fill(broker, partitions=2, each=5)
    consumer = join(broker, "a")
    consumer.receive(100)
    consumer.commit()
    broker.publish("events", b"new", partition=1)
    broker.close() if how == "closed" else disk.kill()

    with TestBroker.open("data", files=disk) as broker:
        assert [m.value for m in join(broker, "a").receive(100)] == [b"new"]


def test_nack_reject_and_extend_are_refused(penstock: TestBroker) -> None:
    fill(penstock, partitions=1, each=1)
    [message] = join(penstock, "a").receive()

    with pytest.raises(GroupKindMismatch, match="nack"):
        message.nack()
    with pytest.raises(GroupKindMismatch, match="reject"):
        message.reject("no")
    with pytest.raises(GroupKindMismatch, match="extend"):
        message.extend("1m")


def test_a_queue_group_has_nothing_to_commit(penstock: TestBroker) -> None:
    fill(penstock, partitions=1, each=1)
    consumer = penstock.consumer("events", group="q")

    with pytest.raises(GroupKindMismatch, match="commit"):
        consumer.commit()


def test_a_group_is_of_one_kind(penstock: TestBroker) -> None:
    fill(penstock, partitions=1, each=1)
    join(penstock, "a")

    with pytest.raises(GroupKindMismatch):
        penstock.consumer("events", group="s", kind="queue")
    penstock.create_group("events", "q")
    with pytest.raises(GroupKindMismatch):
        penstock.consumer("events", group="q", kind="stream")
    with pytest.raises(InvalidValue, match="always ordered"):
        penstock.consumer("events", group="new", kind="stream", ordered=True)


def test_a_seek_moves_the_readers_too(penstock: TestBroker) -> None:
    fill(penstock, partitions=1, each=5)
    consumer = join(penstock, "a")
    consumer.receive(5)
    consumer.commit()

    penstock.seek("events", "s", 2)

    assert [message.offset for message in consumer.receive(100)] == [2, 3, 4]
    assert penstock.depth("events", "s") == 3


def test_a_stream_group_may_begin_at_the_end(penstock: TestBroker) -> None:
    fill(penstock, partitions=2, each=5)
    consumer = penstock.consumer("events", group="s", kind="stream", start="latest")
    assert consumer.receive(10) == []

    penstock.publish("events", b"new")

    assert [message.value for message in consumer.receive(10)] == [b"new"]


def test_lag_counts_what_is_not_committed(penstock: TestBroker) -> None:
    fill(penstock, partitions=2, each=5)
    consumer = join(penstock, "a")
    consumer.receive(10)
    penstock.advance("3s")

    assert penstock.describe_group("events", "s").lag_seconds == 3
    assert penstock.depth("events", "s") == 10
    consumer.receive()
    consumer.commit()
    assert penstock.depth("events", "s") == 0
    assert penstock.describe_group("events", "s").lag_seconds == 0


def test_new_partitions_are_taken_up(penstock: TestBroker) -> None:
    fill(penstock, partitions=1, each=1)
    consumer = join(penstock, "a")
    consumer.receive(10)

    penstock.alter_topic("events", partitions=3)
    penstock.publish("events", b"new", partition=2)

    assert [message.partition for message in consumer.receive(10)] == [2]
    assert consumer.assignment == [0, 1, 2]


def test_two_consumers_of_one_name_are_refused(penstock: TestBroker) -> None:
    fill(penstock, partitions=2, each=1)
    first = join(penstock, "a")

    with pytest.raises(InvalidValue, match="consumer_id"):
        join(penstock, "a")
    first.close()
    join(penstock, "a")


def test_more_consumers_than_partitions_leaves_some_without(penstock: TestBroker) -> None:
    fill(penstock, partitions=1, each=3)
    first, second = join(penstock, "a"), join(penstock, "b")

    assert sorted(map(len, settle(first, second))) == [0, 1]


def test_a_closed_stream_consumer_refuses_everything(penstock: TestBroker) -> None:
    fill(penstock, partitions=1, each=1)
    consumer = join(penstock, "a")
    [message] = consumer.receive()
    consumer.close()

    with pytest.raises(Closed):
        consumer.receive()
    with pytest.raises(Closed):
        consumer.commit()
    with pytest.raises(Closed):
        message.ack()


def test_retention_moves_a_reader_to_where_the_log_begins_now() -> None:
    files, clock = MemoryFiles(), ManualClock()
    with TestBroker.open("data", files=files, clock=clock) as broker:
        broker.create_topic("events", retention="1h")
        consumer = join(broker, "a")
        broker.publish_batch("events", [b"old"] * 3)
        broker.advance("2h")
        broker.publish("events", b"new")

        assert [message.value for message in consumer.receive(10)] == [b"new"]
        assert broker.describe_group("events", "s").lost == 3
