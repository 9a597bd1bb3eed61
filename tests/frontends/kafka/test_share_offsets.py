"""Start offsets of share groups: described, altered and deleted as by Kafka's admin clients."""

import pytest
from tests.frontends.kafka.clients import publish
from tests.frontends.kafka.conftest import Server
from tests.frontends.kafka.raw import Raw, versions
from tests.frontends.kafka.test_share_apis import beat, group, made

from penstock.errors import GroupNotFound
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.groups import share_offsets as offsets


def described(
    raw: Raw, *topics: tuple[str, list[int]], group: str = "billing", version: int = 1
) -> offsets.DescribeShareGroupOffsetsResponseGroup:
    wanted = [offsets.DescribeShareGroupOffsetsRequestTopic(*topic) for topic in topics]
    asked = offsets.DescribeShareGroupOffsetsRequest(
        groups=[offsets.DescribeShareGroupOffsetsRequestGroup(group, wanted or None)]
    )
    [answer] = raw.ask(asked, offsets.DescribeShareGroupOffsetsResponse, version).groups
    return answer


def alter(
    raw: Raw, *places: tuple[int, int], topic: str = "orders", group: str = "billing"
) -> tuple[int, list[int]]:
    """The code of the group, and one for each partition."""
    partitions = [offsets.AlterShareGroupOffsetsRequestPartition(*place) for place in places]
    asked = offsets.AlterShareGroupOffsetsRequest(
        group_id=group, topics=[offsets.AlterShareGroupOffsetsRequestTopic(topic, partitions)]
    )
    answer = raw.ask(asked, offsets.AlterShareGroupOffsetsResponse, 0)
    codes = [part.error_code for response in answer.responses for part in response.partitions]
    return answer.error_code, codes


def delete(raw: Raw, topic: str = "orders", group: str = "billing") -> tuple[int, list[int]]:
    topics = [offsets.DeleteShareGroupOffsetsRequestTopic(topic)]
    asked = offsets.DeleteShareGroupOffsetsRequest(group_id=group, topics=topics)
    answer = raw.ask(asked, offsets.DeleteShareGroupOffsetsResponse, 0)
    return answer.error_code, [response.error_code for response in answer.responses]


def test_offsets_are_described_by_partition(kafka: Server) -> None:
    topic_id = made(kafka, partitions=2)
    for value in (b"a", b"b", b"c"):
        kafka.run(kafka.broker.publish("orders", value, partition=0))
    kafka.run(kafka.broker.seek("orders", "billing", 1, partition=0))
    with Raw(kafka) as raw:
        for version in versions(offsets.DescribeShareGroupOffsetsRequest):
            for answer in (
                described(raw, version=version),
                described(raw, ("orders", [0, 1]), version=version),
            ):
                [topic] = answer.topics
                assert (answer.error_code, topic.topic_id) == (0, topic_id)
                lags = [(part.start_offset, part.lag) for part in topic.partitions]
                assert lags == ([(1, 2), (0, 0)] if version else [(1, -1), (0, -1)])


def test_what_is_not_there_is_told_so(kafka: Server) -> None:
    made(kafka)
    kafka.run(kafka.broker.create_topic("others", partitions=1))
    with Raw(kafka) as raw:
        nobody = described(raw, ("others", [0]), group="nobody")  # As by Kafka: it has no offsets yet.
        assert [part.start_offset for part in nobody.topics[0].partitions] == [-1]
        assert nobody.error_code == 0
        [topic] = described(raw, ("others", [0])).topics
        assert [part.start_offset for part in topic.partitions] == [-1]  # The group is not there.
        [topic] = described(raw, ("nowhere", [0])).topics
        assert [part.error_code for part in topic.partitions] == [Code.UNKNOWN_TOPIC_OR_PARTITION]


def test_an_empty_group_is_moved(kafka: Server) -> None:
    made(kafka)
    publish(kafka, [b"a", b"b", b"c"])
    with Raw(kafka) as raw:
        assert alter(raw, (0, 2)) == (0, [0])
        assert group(kafka).partitions[0].floor == 2

        assert alter(raw, (0, 0), (7, 0)) == (0, [0, Code.UNKNOWN_TOPIC_OR_PARTITION])
        assert group(kafka).lag == 3
        assert alter(raw, (0, 0), topic="nowhere") == (0, [Code.UNKNOWN_TOPIC_OR_PARTITION])
        assert alter(raw, (0, 0), group="") == (Code.INVALID_GROUP_ID, [])


def test_a_group_that_is_moved_before_it_has_members_is_created(kafka: Server) -> None:
    made(kafka)
    publish(kafka, [b"a", b"b", b"c"])
    with Raw(kafka) as raw:
        assert alter(raw, (0, 1), group="new") == (0, [0])
        [topic] = described(raw, ("orders", [0]), group="new").topics
        assert [part.start_offset for part in topic.partitions] == [1]
        assert delete(raw, group="nobody") == (Code.GROUP_ID_NOT_FOUND, [])


def test_a_group_with_members_is_neither_moved_nor_deleted(kafka: Server) -> None:
    made(kafka)
    publish(kafka, [b"a", b"b"])
    with Raw(kafka) as raw:
        assert beat(raw, 0, "orders").error_code == 0

        assert alter(raw, (0, 1)) == (Code.NON_EMPTY_GROUP, [])
        assert delete(raw) == (Code.NON_EMPTY_GROUP, [])

        assert group(kafka).partitions[0].floor == 0


def test_a_group_is_taken_off_a_topic(kafka: Server) -> None:
    made(kafka)
    made(kafka, "bills")
    with Raw(kafka) as raw:
        assert delete(raw) == (0, [0])

        with pytest.raises(GroupNotFound):
            group(kafka)
        assert group(kafka, "bills").lag == 0
        assert delete(raw) == (0, [Code.GROUP_ID_NOT_FOUND])


def test_a_new_share_group_delivers_five_times_as_kafkas_does(kafka: Server) -> None:
    kafka.run(kafka.broker.create_topic("orders", partitions=1))
    with Raw(kafka) as raw:
        assert beat(raw, 0, "orders").error_code == 0

    _, rules = kafka.call(kafka.broker.operations.group_config, "billing")
    assert rules.share_attempts == 5  # The least of its queue groups.
