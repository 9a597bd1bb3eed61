"""The APIs of groups, request by request, in every version."""

from collections.abc import Iterator

import pytest
from tests.frontends.kafka.conftest import PARTITIONS, Server, serving
from tests.frontends.kafka.raw import Raw, versions

from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.groups import group_admin, offsets
from penstock.wire.kafka.messages.groups import membership as groups

ANY_JOIN = pytest.mark.parametrize("version", versions(groups.JoinGroupRequest))
PLACES = [(0, 5, "a note"), (1, 0, "")]


@pytest.fixture(scope="module")
def kafka() -> Iterator[Server]:
    yield from serving()


@pytest.fixture
def topic(kafka: Server, request: pytest.FixtureRequest) -> str:
    """One for each test, and a name for its group, too."""
    name = f"t{abs(hash(request.node.nodeid))}"
    kafka.run(kafka.broker.create_topic(name))
    return name


def join(
    raw: Raw,
    group: str,
    version: int = 9,
    member: str = "",
    rebalance_timeout_ms: int = 60_000,
    **fields: object,
) -> groups.JoinGroupResponse:
    asked = groups.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id=member,
        protocol_type="consumer",
        protocols=[groups.JoinGroupRequestProtocol(name="range", metadata=b"meta")],
        **fields,  # type: ignore[arg-type]
    )
    return raw.ask(asked, groups.JoinGroupResponse, version)


def joined(raw: Raw, group: str, version: int = 9) -> groups.JoinGroupResponse:
    """In it, with an id that was asked for if there must be one."""
    answer = join(raw, group, version)
    if answer.error_code == Code.MEMBER_ID_REQUIRED:
        answer = join(raw, group, version, answer.member_id)
    assert answer.error_code == Code.NONE
    return answer


def synced(raw: Raw, group: str, of: groups.JoinGroupResponse, version: int = 5) -> groups.SyncGroupResponse:
    given = [groups.SyncGroupRequestAssignment(member_id=of.member_id, assignment=b"yours")]
    asked = groups.SyncGroupRequest(
        group_id=group, generation_id=of.generation_id, member_id=of.member_id, assignments=given
    )
    return raw.ask(asked, groups.SyncGroupResponse, version)


def commit(raw: Raw, group: str, topic: str, version: int, **fields: object) -> list[int]:
    """The codes, by partition."""
    asked = offsets.OffsetCommitRequest(
        group_id=group,
        topics=[
            offsets.OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    offsets.OffsetCommitRequestPartition(
                        partition_index=number, committed_offset=offset, committed_metadata=metadata
                    )
                    for number, offset, metadata in PLACES
                ],
            )
        ],
        **fields,  # type: ignore[arg-type]
    )
    answer = raw.ask(asked, offsets.OffsetCommitResponse, version)
    return [part.error_code for part in answer.topics[0].partitions]


# Members.


@pytest.mark.parametrize("version", versions(groups.FindCoordinatorRequest))
def test_this_broker_coordinates_all(kafka: Server, raw: Raw, version: int) -> None:
    asked = groups.FindCoordinatorRequest(key="billing", coordinator_keys=["billing", "shipping"])

    answer = raw.ask(asked, groups.FindCoordinatorResponse, version)

    found = answer.coordinators if version >= 4 else [answer]
    assert {f"{one.host}:{one.port}" for one in found} == {kafka.address}
    assert [(one.node_id, one.error_code) for one in found] == [(0, 0)] * len(found)
    assert [one.key for one in answer.coordinators] == (["billing", "shipping"] if version >= 4 else [])


def test_there_is_nothing_else_to_coordinate(raw: Raw) -> None:
    asked = groups.FindCoordinatorRequest(key="x", key_type=9)

    assert raw.ask(asked, groups.FindCoordinatorResponse, 3).error_code == Code.INVALID_REQUEST


@ANY_JOIN
def test_a_member_joins_syncs_beats_and_leaves(raw: Raw, version: int) -> None:
    group = f"any-{version}"
    member = joined(raw, group, version)
    assert (member.generation_id, member.leader, member.protocol_name) == (1, member.member_id, "range")
    assert [(one.member_id, one.metadata) for one in member.members] == [(member.member_id, b"meta")]

    assert synced(raw, group, member, min(version, 5)).assignment == b"yours"
    beating = groups.HeartbeatRequest(group_id=group, generation_id=1, member_id=member.member_id)
    assert raw.ask(beating, groups.HeartbeatResponse, min(version, 4)).error_code == Code.NONE

    leaving = groups.LeaveGroupRequest(
        group_id=group,
        member_id=member.member_id,
        members=[groups.MemberIdentity(member_id=member.member_id), groups.MemberIdentity(member_id="x")],
    )
    left = raw.ask(leaving, groups.LeaveGroupResponse, min(version, 5))
    assert left.error_code == Code.NONE
    codes = [one.error_code for one in left.members]
    assert codes == ([Code.NONE, Code.UNKNOWN_MEMBER_ID] if version >= 3 else [])
    assert raw.ask(beating, groups.HeartbeatResponse, 4).error_code == Code.UNKNOWN_MEMBER_ID


def test_a_member_without_time_to_rebalance_has_that_of_its_session(raw: Raw) -> None:
    member = join(raw, "hasty", 1, rebalance_timeout_ms=0)

    assert synced(raw, "hasty", member).error_code == Code.NONE


def test_an_id_is_asked_for_from_version_4_on(raw: Raw) -> None:
    assert join(raw, "old", 3).error_code == Code.NONE
    asked = join(raw, "new", 4)

    assert (asked.error_code, asked.member_id[:4]) == (Code.MEMBER_ID_REQUIRED, "raw-")


def test_a_static_member_needs_no_id_first(raw: Raw) -> None:
    first = join(raw, "static", group_instance_id="host-1")
    synced(raw, "static", first)
    second = join(raw, "static", group_instance_id="host-1")

    assert (first.error_code, second.error_code) == (Code.NONE, Code.NONE)
    assert (second.generation_id, second.skip_assignment) == (1, True)
    beating = groups.HeartbeatRequest(
        group_id="static", generation_id=1, member_id=first.member_id, group_instance_id="host-1"
    )
    assert raw.ask(beating, groups.HeartbeatResponse, 4).error_code == Code.FENCED_INSTANCE_ID


@pytest.mark.parametrize("group", ["", "__own", "x" * 300])
def test_a_group_has_a_name(raw: Raw, group: str) -> None:
    assert join(raw, group).error_code == Code.INVALID_GROUP_ID


def until_two_are_in(kafka: Server, group: str) -> None:
    """Their connections are two, so one may be read after the other."""
    for _ in range(10_000):
        state = kafka.run(kafka.broker.run(kafka.broker.operations.member_group(group)))
        if state is not None and len(state.members) == 2:
            return
    raise AssertionError("nobody came")


def test_a_request_behind_a_join_waits_for_it(kafka: Server, raw: Raw) -> None:
    """One connection has one request under way, as Kafka's clients expect; others go on."""
    first = joined(raw, "queue", 3)
    with Raw(kafka) as other:
        asked = groups.JoinGroupRequest(
            group_id="queue",
            session_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[groups.JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        other.send(asked, 3)
        other.send(groups.FindCoordinatorRequest(key="queue"), 3)
        until_two_are_in(kafka, "queue")
        again = join(raw, "queue", 3, first.member_id)

        assert other.hear(groups.JoinGroupResponse).generation_id == again.generation_id
        assert other.hear(groups.FindCoordinatorResponse).node_id == 0


def test_a_server_that_ends_does_not_wait_for_members() -> None:
    for kafka in serving():
        raw, other = Raw(kafka), Raw(kafka)
        joined(raw, "queue", 3)
        with raw, other:
            asked = groups.JoinGroupRequest(
                group_id="queue",
                session_timeout_ms=10_000,
                protocol_type="consumer",
                protocols=[groups.JoinGroupRequestProtocol(name="range", metadata=b"")],
            )
            other.send(asked, 3)
            until_two_are_in(kafka, "queue")
            kafka.stop()

            assert other.hear(groups.JoinGroupResponse).error_code == Code.COORDINATOR_NOT_AVAILABLE


# Places.


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6, 7, 8, 9])
def test_a_place_is_committed_and_fetched(raw: Raw, topic: str, version: int) -> None:
    assert commit(raw, topic, topic, version) == [Code.NONE, Code.NONE]

    for asked in range(1, 8):
        fetching = offsets.OffsetFetchRequest(
            group_id=topic, topics=[offsets.OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 1, 2])]
        )
        answer = raw.ask(fetching, offsets.OffsetFetchResponse, asked)
        found = [(p.committed_offset, p.metadata, p.error_code) for p in answer.topics[0].partitions]
        assert found == [(5, "a note", 0), (0, "", 0), (-1, "", 0)]
    for asked in (8, 9):
        group = offsets.OffsetFetchRequestGroup(
            group_id=topic, topics=[offsets.OffsetFetchRequestTopics(name=topic, partition_indexes=[0, 2])]
        )
        answer = raw.ask(offsets.OffsetFetchRequest(groups=[group]), offsets.OffsetFetchResponse, asked)
        parts = answer.groups[0].topics[0].partitions
        assert [(p.committed_offset, p.metadata) for p in parts] == [(5, "a note"), (-1, "")]


def test_places_by_the_ids_of_topics(kafka: Server, raw: Raw, topic: str) -> None:
    known = kafka.call(kafka.broker.operations.layout, topic)
    part = offsets.OffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    asked = offsets.OffsetCommitRequest(
        group_id=topic,
        topics=[
            offsets.OffsetCommitRequestTopic(topic_id=known.id, partitions=[part]),
            offsets.OffsetCommitRequestTopic(topic_id=b"x" * 16, partitions=[part]),
        ],
    )

    answer = raw.ask(asked, offsets.OffsetCommitResponse, 10)

    codes = [(one.topic_id, one.partitions[0].error_code) for one in answer.topics]
    assert codes == [(known.id, Code.NONE), (b"x" * 16, Code.UNKNOWN_TOPIC_ID)]
    group = offsets.OffsetFetchRequestGroup(
        group_id=topic, topics=[offsets.OffsetFetchRequestTopics(topic_id=known.id, partition_indexes=[0])]
    )
    fetched = raw.ask(offsets.OffsetFetchRequest(groups=[group]), offsets.OffsetFetchResponse, 10)
    [found] = fetched.groups[0].topics
    assert (found.topic_id, found.partitions[0].committed_offset) == (known.id, 3)


@pytest.mark.parametrize("version", [2, 7, 8, 9])
def test_all_places_of_a_group(raw: Raw, topic: str, version: int) -> None:
    commit(raw, topic, topic, 9)
    group = offsets.OffsetFetchRequestGroup(group_id=topic, topics=None)
    asked = offsets.OffsetFetchRequest(group_id=topic, topics=None, groups=[group])

    answer = raw.ask(asked, offsets.OffsetFetchResponse, version)

    topics = answer.topics if version < 8 else answer.groups[0].topics
    assert [(one.name, [part.partition_index for part in one.partitions]) for one in topics] == [
        (topic, [0, 1])
    ]


def test_a_place_that_makes_no_sense_is_refused_by_itself(raw: Raw, topic: str) -> None:
    parts = [
        offsets.OffsetCommitRequestPartition(partition_index=0, committed_offset=1),
        offsets.OffsetCommitRequestPartition(partition_index=PARTITIONS, committed_offset=1),
        offsets.OffsetCommitRequestPartition(
            partition_index=1, committed_offset=1, committed_metadata="x" * 5000
        ),
        offsets.OffsetCommitRequestPartition(partition_index=2, committed_offset=-2),
    ]
    asked = offsets.OffsetCommitRequest(
        group_id=topic,
        topics=[
            offsets.OffsetCommitRequestTopic(name=topic, partitions=parts),
            offsets.OffsetCommitRequestTopic(name="no-such-topic", partitions=parts[:1]),
        ],
    )

    answer = raw.ask(asked, offsets.OffsetCommitResponse, 9)

    assert [[part.error_code for part in one.partitions] for one in answer.topics] == [
        [
            Code.NONE,
            Code.UNKNOWN_TOPIC_OR_PARTITION,
            Code.OFFSET_METADATA_TOO_LARGE,
            Code.NONE,
        ],
        [Code.UNKNOWN_TOPIC_OR_PARTITION],
    ]


def test_a_topic_that_is_not_there_has_no_places(raw: Raw) -> None:
    asked = offsets.OffsetFetchRequest(
        group_id="g", topics=[offsets.OffsetFetchRequestTopic(name="no-such-topic", partition_indexes=[0])]
    )

    [found] = raw.ask(asked, offsets.OffsetFetchResponse, 7).topics[0].partitions

    assert (found.committed_offset, found.error_code) == (-1, Code.NONE)


def test_only_members_commit_while_there_are_any(raw: Raw, topic: str) -> None:
    member = joined(raw, topic)
    synced(raw, topic, member)

    mine = {"member_id": member.member_id, "generation_id_or_member_epoch": member.generation_id}
    assert commit(raw, topic, topic, 9, **mine) == [Code.NONE] * 2
    assert commit(raw, topic, topic, 9) == [Code.UNKNOWN_MEMBER_ID] * 2
    old = mine | {"generation_id_or_member_epoch": 0}
    assert commit(raw, topic, topic, 9, **old) == [Code.ILLEGAL_GENERATION] * 2


def test_places_are_forgotten(raw: Raw, topic: str) -> None:
    commit(raw, topic, topic, 9)
    parts = [offsets.OffsetDeleteRequestPartition(partition_index=number) for number in (0, 3)]
    asked = offsets.OffsetDeleteRequest(
        group_id=topic,
        topics=[
            offsets.OffsetDeleteRequestTopic(name=topic, partitions=parts),
            offsets.OffsetDeleteRequestTopic(name="no-such-topic", partitions=parts),
        ],
    )

    answer = raw.ask(asked, offsets.OffsetDeleteResponse, 0)

    assert [part.error_code for part in answer.topics[0].partitions] == [Code.NONE] * 2
    missing = offsets.OffsetDeleteRequest(group_id="nobody")
    assert raw.ask(missing, offsets.OffsetDeleteResponse, 0).error_code == Code.GROUP_ID_NOT_FOUND
    everything = offsets.OffsetFetchRequest(group_id=topic, topics=None)
    left = raw.ask(everything, offsets.OffsetFetchResponse, 7).topics[0].partitions
    assert [part.partition_index for part in left] == [1]


# Operators.


@pytest.mark.parametrize("version", versions(group_admin.DescribeGroupsRequest))
def test_groups_are_described(raw: Raw, topic: str, version: int) -> None:
    member = joined(raw, topic)
    synced(raw, topic, member)
    asked = group_admin.DescribeGroupsRequest(groups=[topic, "nobody"])

    found, missing = raw.ask(asked, group_admin.DescribeGroupsResponse, version).groups

    assert (found.group_state, found.protocol_type, found.protocol_data) == ("Stable", "consumer", "range")
    [one] = found.members
    assert (one.member_id, one.client_id, one.client_host) == (member.member_id, "raw", "/127.0.0.1")
    assert (one.member_metadata, one.member_assignment) == (b"meta", b"yours")
    assert missing.group_state == "Dead"
    assert missing.error_code == (Code.GROUP_ID_NOT_FOUND if version >= 6 else Code.NONE)


@pytest.mark.parametrize("version", versions(group_admin.ListGroupsRequest))
def test_groups_are_listed(raw: Raw, topic: str, version: int) -> None:
    joined(raw, f"{topic}-a")
    commit(raw, f"{topic}-b", topic, 9)

    answer = raw.ask(group_admin.ListGroupsRequest(), group_admin.ListGroupsResponse, version)

    found = {one.group_id: (one.protocol_type, one.group_state) for one in answer.groups}
    told = version >= 4
    assert found[f"{topic}-a"] == ("consumer", "CompletingRebalance" if told else "")
    assert found[f"{topic}-b"] == ("", "Empty" if told else "")


def test_groups_are_listed_by_state_and_type(raw: Raw, topic: str) -> None:
    commit(raw, topic, topic, 9)

    def listed(**filters: list[str]) -> bool:
        asked = group_admin.ListGroupsRequest(**filters)
        answer = raw.ask(asked, group_admin.ListGroupsResponse, 5)
        return topic in [one.group_id for one in answer.groups]

    assert listed(states_filter=["empty"], types_filter=["Classic"])
    assert not listed(states_filter=["Stable"])
    assert not listed(types_filter=["consumer"])


@pytest.mark.parametrize("version", versions(group_admin.DeleteGroupsRequest))
def test_groups_are_deleted_if_nobody_is_in(raw: Raw, topic: str, version: int) -> None:
    commit(raw, topic, topic, 9)
    joined(raw, f"{topic}-busy")
    names = [topic, f"{topic}-busy", "nobody"]

    answer = raw.ask(
        group_admin.DeleteGroupsRequest(groups_names=names), group_admin.DeleteGroupsResponse, version
    )

    codes = [one.error_code for one in answer.results]
    assert codes == [Code.NONE, Code.NON_EMPTY_GROUP, Code.GROUP_ID_NOT_FOUND]
    everything = offsets.OffsetFetchRequest(group_id=topic, topics=None)
    assert raw.ask(everything, offsets.OffsetFetchResponse, 7).topics == []
