"""Kafka's groups in a broker: members that wait for each other, and what they may commit."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.broker.steps import Aside
from penstock.errors import Closed, GroupKindMismatch, InvalidName, InvalidValue, NotAssigned, TopicNotFound
from penstock.groups.commits import Commit
from penstock.groups.heartbeats import JOIN, HeartbeatResult, MemberHeartbeat
from penstock.groups.rebalance import Committer, JoinRequest, JoinResult, SyncRequest, SyncResult
from penstock.log.files import MemoryFiles
from penstock.testing import AsyncTestBroker
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.subscriptions import subscribed

SESSION_MS = 10_000
ORDERS = b"\0\1" + b"\0\0\0\1" + b"\0\6orders" + b"\xff\xff\xff\xff"


@pytest.fixture
async def broker() -> AsyncIterator[AsyncTestBroker]:
    made = await AsyncTestBroker.open()
    await made.create_topic("orders", partitions=2)
    yield made
    await made.close()


async def join(broker: AsyncTestBroker, client: str, member: str = "", group: str = "billing") -> JoinResult:
    told = JoinRequest(
        member=member,
        new_member="",
        client_id=client,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=60_000,
        protocols=(("range", ORDERS),),
        id_first=False,
    )
    return await broker.run(broker.operations.join_group(group, told))


async def sync(broker: AsyncTestBroker, joined: JoinResult, **assignments: bytes) -> SyncResult:
    given = tuple((line.member, assignments[line.member.partition("-")[0]]) for line in joined.roster)
    told = SyncRequest(member=joined.member, generation=joined.generation, assignments=given)
    return await broker.run(broker.operations.sync_group("billing", told))


async def beat(broker: AsyncTestBroker, joined: JoinResult) -> Code:
    return broker.operations.heartbeat_group("billing", joined.member, None, joined.generation)


async def commit(broker: AsyncTestBroker, by: Committer, group: str = "billing") -> Code:
    return await broker.run(broker.operations.commit_group_offsets("orders", group, {0: Commit(0)}, by))


def committer(joined: JoinResult) -> Committer:
    return Committer(member=joined.member, generation=joined.generation)


async def alone(broker: AsyncTestBroker) -> JoinResult:
    """A group of one."""
    joined = await join(broker, "a")
    await sync(broker, joined, a=b"all")
    return joined


# Members.


async def test_members_wait_for_each_other_and_get_what_the_leader_brings(broker: AsyncTestBroker) -> None:
    first = await alone(broker)

    async with asyncio.TaskGroup() as both:
        second = both.create_task(join(broker, "b"))
        await broker.advance(0)
        assert await beat(broker, first) == Code.REBALANCE_IN_PROGRESS
        again = both.create_task(join(broker, "a", first.member))
    follower, leader = second.result(), again.result()
    async with asyncio.TaskGroup() as both:
        waiting = both.create_task(sync(broker, follower))
        brought = both.create_task(sync(broker, leader, a=b"0", b=b"1"))

    assert (brought.result().assignment, waiting.result().assignment) == (b"0", b"1")


async def test_a_member_is_named_by_its_client_and_by_chance(broker: AsyncTestBroker) -> None:
    joined = await alone(broker)

    assert joined.member.startswith("a-")
    assert len(joined.member) == len("a-") + 36


async def test_a_silent_member_is_put_out_when_its_session_ends(broker: AsyncTestBroker) -> None:
    joined = await alone(broker)

    await broker.advance(9)
    assert await beat(broker, joined) == Code.NONE
    await broker.advance(9)
    assert await beat(broker, joined) == Code.NONE
    await broker.advance(10)

    assert await beat(broker, joined) == Code.UNKNOWN_MEMBER_ID


async def test_who_waits_for_a_silent_member_is_answered_when_its_session_ends(
    broker: AsyncTestBroker,
) -> None:
    await alone(broker)

    async with asyncio.TaskGroup() as tasks:
        second = tasks.create_task(join(broker, "b"))
        await broker.advance(9)
        assert not second.done()
        await broker.advance(1)

    assert [line.member for line in second.result().roster] == [second.result().member]


async def test_who_leaves_is_out(broker: AsyncTestBroker) -> None:
    joined = await alone(broker)

    leaving = broker.operations.leave_group("billing", [(joined.member, None), ("other", None)])
    assert leaving == [Code.NONE, Code.UNKNOWN_MEMBER_ID]

    assert await beat(broker, joined) == Code.UNKNOWN_MEMBER_ID
    again = broker.operations.leave_group("billing", [(joined.member, None)])
    assert again == [Code.UNKNOWN_MEMBER_ID]


async def test_a_group_that_nobody_is_in_is_not_kept(broker: AsyncTestBroker) -> None:
    joined = await alone(broker)
    await join(broker, "x", "a stranger", group="other")

    broker.operations.leave_group("billing", [(joined.member, None)])

    assert broker._core.state.kafka_groups == {}
    assert (await sync(broker, joined, a=b"")).error == Code.UNKNOWN_MEMBER_ID


async def test_who_waits_is_told_that_the_broker_closes(broker: AsyncTestBroker) -> None:
    await alone(broker)
    waiting = asyncio.gather(join(broker, "b"), return_exceptions=True)
    await broker.advance(0)

    await broker.close()

    [error] = await waiting
    assert isinstance(error, Closed)


async def test_a_group_is_not_named_like_the_brokers_own(broker: AsyncTestBroker) -> None:
    with pytest.raises(InvalidName):
        await join(broker, "a", group="__mine")


# Commits.


async def test_only_a_member_of_the_generation_commits(broker: AsyncTestBroker) -> None:
    joined = await alone(broker)

    assert await commit(broker, committer(joined)) == Code.NONE
    assert await commit(broker, Committer()) == Code.UNKNOWN_MEMBER_ID
    old = Committer(member=joined.member, generation=joined.generation - 1)
    assert await commit(broker, old) == Code.ILLEGAL_GENERATION


async def test_a_group_that_another_node_coordinates_is_forgotten(broker: AsyncTestBroker) -> None:
    first = await alone(broker)
    epochs = {"billing": 0}
    registry: Any = broker._core.state.registry
    registry.group_epoch = epochs.__getitem__
    waiting = asyncio.gather(join(broker, "b"))
    await broker.advance(0)

    broker._core.coordination.hand_over()
    assert await beat(broker, first) == Code.REBALANCE_IN_PROGRESS  # Nothing has changed.
    epochs["billing"] = 7  # Another node has coordinated it, and now it is this one's again.
    broker._core.coordination.hand_over()

    [answer] = await waiting
    assert answer.error == Code.NOT_COORDINATOR
    assert await beat(broker, first) == Code.UNKNOWN_MEMBER_ID
    assert await commit(broker, committer(first)) == Code.ILLEGAL_GENERATION
    again = await alone(broker)
    assert again.generation > 7 << 20
    assert await commit(broker, committer(first)) == Code.UNKNOWN_MEMBER_ID


async def test_anybody_commits_for_a_group_that_nobody_is_in(broker: AsyncTestBroker) -> None:
    assert await commit(broker, Committer(), "nobody") == Code.NONE
    assert await commit(broker, Committer(member="a", generation=3), "nobody") == Code.ILLEGAL_GENERATION
    with pytest.raises(TopicNotFound):
        await broker.run(broker.operations.commit_group_offsets("no-topic", "nobody", {}, Committer()))


async def test_members_of_the_two_protocols_do_not_share_a_group(broker: AsyncTestBroker) -> None:
    joined = await alone(broker)

    with pytest.raises(InvalidValue, match="Kafka group"):
        await broker.consumer("orders", group="billing", kind="stream")
    broker.operations.leave_group("billing", [(joined.member, None)])
    consumer = await broker.consumer("orders", group="billing", kind="stream")
    await consumer.receive()

    with pytest.raises(NotAssigned):
        await commit(broker, Committer())


# Groups of another kind.


async def beaten(broker: AsyncTestBroker, group: str, **told: Any) -> HeartbeatResult:
    """The answer to a first heartbeat in the newer protocol."""
    asked = MemberHeartbeat(member="m", epoch=JOIN, rebalance_timeout_ms=60_000, **told)
    return await broker.run(broker.operations.consumer_group_heartbeat(group, asked))


async def test_nobody_joins_to_read_what_a_queue_group_of_that_name_works_on(broker: AsyncTestBroker) -> None:
    await broker.create_topic("invoices")
    await broker.create_group("orders", "workers")

    assert (await join(broker, "a", group="workers")).error == Code.INCONSISTENT_GROUP_PROTOCOL
    by_name = await beaten(broker, "workers", topics=frozenset({"orders"}))
    by_pattern = await beaten(broker, "workers", pattern="ord.*")
    elsewhere = await beaten(broker, "workers", topics=frozenset({"invoices"}))

    assert by_name.error == by_pattern.error == Code.INCONSISTENT_GROUP_PROTOCOL
    assert "take another" in by_name.why
    assert elsewhere.error == Code.NONE


async def test_a_member_does_not_take_up_a_topic_that_a_queue_group_of_that_name_works_on(
    broker: AsyncTestBroker,
) -> None:
    await broker.create_topic("invoices")
    await broker.create_group("orders", "workers")
    joined = await beaten(broker, "workers", topics=frozenset({"invoices"}))

    more = MemberHeartbeat(member="m", epoch=joined.epoch, topics=frozenset({"invoices", "orders"}))
    answer = await broker.run(broker.operations.consumer_group_heartbeat("workers", more))

    assert answer.error == Code.INCONSISTENT_GROUP_PROTOCOL


async def test_nobody_begins_a_group_of_that_name_while_a_queue_group_is_at_work_elsewhere(
    broker: AsyncTestBroker,
) -> None:
    await broker.create_topic("invoices")
    consumer = await broker.consumer("invoices", group="workers")

    assert (await join(broker, "a", group="workers")).error == Code.INCONSISTENT_GROUP_PROTOCOL
    await consumer.close()
    assert (await join(broker, "a", group="workers")).error == Code.NONE


@pytest.mark.parametrize("pattern", [None, "ord.*"])
async def test_no_queue_group_is_made_on_a_topic_that_members_of_that_name_read(
    broker: AsyncTestBroker, pattern: str | None
) -> None:
    await (
        join(broker, "a", group="workers") if pattern is None else beaten(broker, "workers", pattern=pattern)
    )
    await broker.create_topic("ordinary")

    with pytest.raises(GroupKindMismatch):
        await broker.create_group("orders", "workers")
    with pytest.raises(GroupKindMismatch):
        await broker.consumer("orders", group="workers")
    await broker.create_topic("invoices")
    await broker.create_group("invoices", "workers")
    if pattern is not None:  # It matches, though the members have not heard of it yet.
        with pytest.raises(GroupKindMismatch):
            await broker.create_group("ordinary", "workers")


async def test_topics_are_matched_in_a_thread_and_only_once(broker: AsyncTestBroker) -> None:
    asked = MemberHeartbeat(
        member="m", epoch=JOIN, rebalance_timeout_ms=60_000, pattern="ord.*", owned=frozenset()
    )
    beating = broker.operations.consumer_group_heartbeat("workers", asked)
    assert isinstance(next(beating), Aside)
    beating.close()

    joined = await broker.run(broker.operations.consumer_group_heartbeat("workers", asked))
    again = MemberHeartbeat(member="m", epoch=joined.epoch, pattern="ord.*")
    with pytest.raises(StopIteration) as end:  # It does not wait.
        next(broker.operations.consumer_group_heartbeat("workers", again))
    assert end.value.value.error == Code.NONE
    await broker.create_topic("ordinary")
    assert isinstance(next(broker.operations.consumer_group_heartbeat("workers", again)), Aside)


# Generations.


async def test_generations_rise_over_restarts_and_when_a_group_begins_anew() -> None:
    files = MemoryFiles()
    generations: list[int] = []
    epochs: list[int] = []
    for _ in range(3):
        broker = await AsyncTestBroker.open("data", files=files)
        if not generations:
            await broker.create_topic("orders", partitions=2)
        for _ in range(2):
            joined = await alone(broker)
            generations.append(joined.generation)
            broker.operations.leave_group("billing", [(joined.member, None)])
            answer = await beaten(broker, "newer", topics=frozenset({"orders"}))
            epochs.append(answer.epoch)
            broker.operations.leave_group("newer", [("m", None)])
        await broker.close()

    assert generations == sorted(set(generations))
    assert epochs == sorted(set(epochs))
    assert generations[0] == 1


async def test_a_commit_from_before_a_restart_is_refused_whatever_the_group_is_at() -> None:
    files = MemoryFiles()
    broker = await AsyncTestBroker.open("data", files=files)
    await broker.create_topic("orders", partitions=2)
    before = await beaten(broker, "billing", topics=frozenset({"orders"}))
    await broker.close()

    broker = await AsyncTestBroker.open("data", files=files)
    zombie = Committer(member="m", generation=before.epoch)
    assert await commit(broker, zombie) == Code.ILLEGAL_GENERATION
    await beaten(broker, "billing", topics=frozenset({"orders"}))

    assert await commit(broker, zombie) == Code.STALE_MEMBER_EPOCH
    await broker.close()


# What operators see.


async def test_a_group_is_described_with_its_members(broker: AsyncTestBroker) -> None:
    joined = await alone(broker)
    await commit(broker, committer(joined))

    state = await broker.run(broker.operations.member_group("billing"))

    assert state is not None
    assert (state.state, state.kind, state.protocol) == ("Stable", "classic", "range")
    assert [(one.client_id, one.assignment) for one in state.members] == [("a", b"all")]


async def test_groups_are_those_with_members_those_with_a_place_and_share_groups(
    broker: AsyncTestBroker,
) -> None:
    await alone(broker)
    await commit(broker, Committer(), "gone")
    await broker.create_group("orders", "workers")

    states = await broker.run(broker.operations.member_groups())

    assert [(state.group, state.state, state.kind) for state in states] == [
        ("billing", "Stable", "classic"),
        ("gone", "Empty", "classic"),
        ("workers", "Empty", "share"),
    ]
    assert await broker.run(broker.operations.member_group("nobody")) is None


async def test_a_queue_group_is_deleted_when_nobody_consumes(broker: AsyncTestBroker) -> None:
    consumer = await broker.consumer("orders", group="workers")
    busy = await broker.run(broker.operations.check_delete_group("workers"))
    await consumer.close()

    assert busy == Code.NON_EMPTY_GROUP
    assert await broker.run(broker.operations.check_delete_group("workers")) == Code.NONE
    assert await broker.run(broker.operations.queued_topics("workers")) == ["orders"]


async def test_a_share_group_has_a_name_that_no_other_type_has(broker: AsyncTestBroker) -> None:
    await alone(broker)
    await commit(broker, Committer(), "gone")
    await broker.create_group("orders", "workers")

    async def check(name: str) -> Code:
        return broker.operations.check_share_group(name)

    assert await check("billing") == await check("gone") == Code.INCONSISTENT_GROUP_PROTOCOL
    assert await check("workers") == await check("new") == Code.NONE


async def test_members_are_the_consumers_of_the_topics_they_read(broker: AsyncTestBroker) -> None:
    joined = await alone(broker)
    await commit(broker, committer(joined))

    info = await broker.describe_group("orders", "billing")

    assert info.consumers == ["a"]
    assert info.verdict.word != "no consumers"


async def test_a_group_with_members_is_not_deleted(broker: AsyncTestBroker) -> None:
    joined = await alone(broker)
    await commit(broker, committer(joined))

    async def deleting(name: str) -> Code:
        return await broker.run(broker.operations.check_delete_group(name))

    assert await deleting("billing") == Code.NON_EMPTY_GROUP
    broker.operations.leave_group("billing", [(joined.member, None)])
    assert await deleting("billing") == Code.NONE
    assert await deleting("nobody") == Code.GROUP_ID_NOT_FOUND


async def test_places_on_a_topic_that_is_read_are_not_forgotten(broker: AsyncTestBroker) -> None:
    joined = await alone(broker)
    await commit(broker, committer(joined))
    forgetting = broker.operations.forget_offsets

    assert await broker.run(forgetting("orders", "billing", [0])) == Code.GROUP_SUBSCRIBED_TO_TOPIC
    broker.operations.leave_group("billing", [(joined.member, None)])
    assert await broker.run(forgetting("orders", "billing", [0])) == Code.NONE

    assert await broker.run(broker.operations.committed_offsets("orders", "billing")) == {}
    assert await broker.run(broker.operations.topics_with_offsets("billing")) == ["orders"]


@pytest.mark.parametrize(
    "metadata",
    [b"", b"\0", ORDERS[:-7], b"\0\1\0\0\0\2\0\1a", b"\0\1\0\0\0\1\xff\xff", b"\0\1\0\0\0\1\0\1\xff"],
)
def test_bytes_that_are_no_subscription_name_no_topics(metadata: bytes) -> None:
    assert subscribed(metadata) == []
    assert subscribed(ORDERS) == ["orders"]
