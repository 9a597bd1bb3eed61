"""Groups in which the broker assigns (KIP-848), with confluent-kafka and request by request."""

from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType
from confluent_kafka.admin import AdminClient
from tests.frontends.kafka.clients import publish, receive, values
from tests.frontends.kafka.conftest import PARTITIONS, Server
from tests.frontends.kafka.raw import Raw
from tests.frontends.kafka.test_groups import WAIT_S, Seen, Stream, Worker, assigned, member, places

from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.groups import consumer_groups, group_admin, offsets
from penstock.wire.kafka.messages.groups import membership as groups


def subscribed(kafka: Server, topic: str = "orders", **settings: Any) -> Consumer:
    consumer = member(kafka, group_protocol="consumer", **settings)
    consumer.subscribe([topic])
    return consumer


def test_a_group_goes_on_where_it_was(kafka: Server) -> None:
    contents = [b"%d" % number for number in range(100)]
    publish(kafka, contents[:50])
    first = subscribed(kafka)
    assert values(receive(first, 50)) == sorted(contents[:50])
    first.commit(asynchronous=False)
    first.close()
    publish(kafka, contents[50:])

    second = subscribed(kafka)
    assert values(receive(second, 50)) == sorted(contents[50:])
    second.close()


def test_topics_by_a_pattern_that_the_broker_matches(kafka: Server) -> None:
    publish(kafka, [b"eu"], "orders-eu")
    publish(kafka, [b"us"], "orders-us")
    publish(kafka, [b"no"], "invoices")

    consumer = subscribed(kafka, "^orders-.*")

    assert values(receive(consumer, 2)) == [b"eu", b"us"]
    consumer.close()


def test_several_patterns_that_librdkafka_joins_to_one(kafka: Server) -> None:
    for name in ("abc", "xbx", "other"):
        publish(kafka, [name.encode()], name)

    consumer = member(kafka, group_protocol="consumer")
    consumer.subscribe(["^.*a.*", "^.*b.*", "^.*c.*d.*e.*f.*"])

    assert values(receive(consumer, 2)) == [b"abc", b"xbx"]
    consumer.close()


@pytest.mark.parametrize("pattern", ["(a|aa)*b", "(.|..)*[!]", "(a?b?){1000}c"])
def test_a_hostile_pattern_stops_nobody(kafka: Server, pattern: str) -> None:
    for number in range(20):
        kafka.run(kafka.broker.create_topic("a" * 198 + f"{number:02}"))
    beat = consumer_groups.ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_regex=pattern,
        topic_partitions=[],
    )

    with Raw(kafka) as raw, Raw(kafka) as other:
        raw.send(beat, 1)
        listed = other.ask(group_admin.ListGroupsRequest(), group_admin.ListGroupsResponse, 4)
        assert listed.error_code == Code.NONE
        assert raw.hear(consumer_groups.ConsumerGroupHeartbeatResponse).error_code == Code.NONE


@pytest.mark.slow
def test_three_members_come_and_go_and_nothing_is_lost_doubled_or_out_of_order(kafka: Server) -> None:
    kafka.run(kafka.broker.create_topic("orders", partitions=12))
    seen, stream = Seen(), Stream(kafka, partitions=12, least=10_000)

    first = Worker(kafka, "first", seen, group_protocol="consumer")
    seen.until(lambda: len(first.owned) == 12)
    second = Worker(kafka, "second", seen, group_protocol="consumer")
    seen.until(lambda: len(first.owned) == len(second.owned) == 6)
    third = Worker(kafka, "third", seen, group_protocol="consumer")
    seen.until(lambda: len(first.owned) == len(second.owned) == len(third.owned) == 4)
    second.stop()
    seen.until(lambda: len(first.owned) == len(third.owned) == 6)
    count = stream.stop()
    seen.until(lambda: seen.count() >= count)
    first.stop()
    third.stop()

    assert count >= 10_000
    assert seen.numbers == {partition: list(range(count // 12)) for partition in range(12)}
    never_moved = set(range(12)).difference(*first.taken[:-1])
    assert len(never_moved) >= 4
    for partition in never_moved:
        assert set(seen.readers[partition]) == {"first"}
        assert sum(partition in given for given in first.given) == 1


def test_operators_see_the_group(kafka: Server) -> None:
    publish(kafka, [b"%d" % number for number in range(10)])
    consumer = subscribed(kafka, client_id="invoices")
    receive(consumer, 10)
    consumer.commit(asynchronous=False)
    admin = AdminClient({"bootstrap.servers": kafka.address})

    [listed] = admin.list_consumer_groups().result(WAIT_S).valid
    assert (listed.group_id, listed.type) == ("billing", ConsumerGroupType.CONSUMER)
    described = admin.describe_consumer_groups(["billing"])["billing"].result(WAIT_S)
    assert (described.state, described.partition_assignor) == (ConsumerGroupState.STABLE, "uniform")
    [one] = described.members
    assert (one.client_id, len(one.assignment.topic_partitions)) == ("invoices", PARTITIONS)
    info = kafka.run(kafka.broker.describe_group("orders", "billing"))
    assert (info.lag, info.consumers) == (0, ["invoices"])
    consumer.close()
    assert sum(commit.offset for commit in places(kafka).values()) == 10


def test_a_static_member_that_comes_back_has_its_share(kafka: Server) -> None:
    publish(kafka, [b"x"])
    first = subscribed(kafka, group_instance_id="host-1")
    share = assigned(first)
    first.close()

    again = subscribed(kafka, group_instance_id="host-1")

    assert assigned(again) == share == set(range(PARTITIONS))
    again.close()


# Request by request.


def beat(raw: Raw, version: int = 1, **fields: Any) -> consumer_groups.ConsumerGroupHeartbeatResponse:
    asked = consumer_groups.ConsumerGroupHeartbeatRequest(group_id="billing", **fields)
    return raw.ask(asked, consumer_groups.ConsumerGroupHeartbeatResponse, version)


def joined(raw: Raw, version: int = 1, **fields: Any) -> consumer_groups.ConsumerGroupHeartbeatResponse:
    told = {"member_id": "m", "rebalance_timeout_ms": 10_000, "subscribed_topic_names": ["orders"]}
    return beat(raw, version, **{**told, "topic_partitions": [], **fields})


def test_an_old_client_is_given_an_id(kafka: Server) -> None:
    kafka.run(kafka.broker.create_topic("orders"))
    with Raw(kafka) as raw:
        answer = joined(raw, 0, member_id="")

    assert answer.error_code == Code.NONE
    assert len(answer.member_id or "") == 36
    assert answer.assignment is not None
    assert answer.assignment.topic_partitions[0].partitions == list(range(PARTITIONS))


def test_the_two_kinds_of_groups_do_not_mix(kafka: Server) -> None:
    protocol = groups.JoinGroupRequestProtocol(name="range", metadata=b"")
    asked = groups.JoinGroupRequest(
        group_id="billing", session_timeout_ms=6000, protocol_type="consumer", protocols=[protocol]
    )
    with Raw(kafka) as raw:
        joined(raw)
        refused = raw.ask(asked, groups.JoinGroupResponse, 3)
        assert refused.error_code == Code.INCONSISTENT_GROUP_PROTOCOL
        beat(raw, member_id="m", member_epoch=-1)
        assert raw.ask(asked, groups.JoinGroupResponse, 3).error_code == Code.NONE

        assert joined(raw).error_code == Code.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(("member", "epoch", "code"), [("m", 1, 0), ("m", 0, 113), ("other", 1, 25)])
def test_places_are_read_and_told_at_the_epoch_of_a_member(
    kafka: Server, member: str, epoch: int, code: int
) -> None:
    kafka.run(kafka.broker.create_topic("orders"))
    part = offsets.OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    told = offsets.OffsetCommitRequest(
        group_id="billing",
        member_id=member,
        generation_id_or_member_epoch=epoch,
        topics=[offsets.OffsetCommitRequestTopic(name="orders", partitions=[part])],
    )
    asked = offsets.OffsetFetchRequestGroup(
        group_id="billing",
        member_id=member,
        member_epoch=epoch,
        topics=[offsets.OffsetFetchRequestTopics(name="orders", partition_indexes=[0])],
    )
    with Raw(kafka) as raw:
        joined(raw)

        commit = raw.ask(told, offsets.OffsetCommitResponse, 9)
        found = raw.ask(offsets.OffsetFetchRequest(groups=[asked]), offsets.OffsetFetchResponse, 9)

    assert commit.topics[0].partitions[0].error_code == code
    assert found.groups[0].error_code == code


def test_a_group_that_is_not_there_is_not_described_and_its_members_join_again(kafka: Server) -> None:
    with Raw(kafka) as raw:
        asked = consumer_groups.ConsumerGroupDescribeRequest(group_ids=["billing"])
        [found] = raw.ask(asked, consumer_groups.ConsumerGroupDescribeResponse, 1).groups

        assert found.error_code == Code.GROUP_ID_NOT_FOUND
        assert beat(raw, member_id="m", member_epoch=7).error_code == Code.UNKNOWN_MEMBER_ID
