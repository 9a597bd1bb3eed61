"""Groups of both protocols, and their offsets."""

from typing import Any, Final

from tests.kafka_reference.batches import batch
from tests.kafka_reference.conversations.records import Topic
from tests.kafka_reference.talk import Talk, versions

NOTHING: Final = b"\0\0\0\0\0\0\xff\xff\xff\xff"  # A subscription or an assignment of no topics.
PROTOCOLS: Final = [{"name": "range", "metadata": NOTHING}]
TIMES: Final = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000}


def coordinators(talk: Talk) -> None:
    for version in versions("FindCoordinator"):
        for kind in (0, 1, 2, 9)[: 4 if version else 1]:
            if version < 4:
                keyed: dict[str, Any] = {"key": "coordinators"}
            else:
                keyed = {"coordinator_keys": ["coordinators", "another"]}
            if version >= 1:
                keyed["key_type"] = kind
            talk.ask("FindCoordinator", version, f"of kind {kind}", **keyed)


def _join(talk: Talk, version: int, what: str, group: str, member: str = "", **more: Any) -> Any:
    asked = {"group_id": group, "member_id": member, "protocol_type": "consumer", "protocols": PROTOCOLS}
    return talk.ask("JoinGroup", version, what, **(asked | TIMES | more))


def classic(talk: Talk) -> None:
    """Each version of joining with a version of the rest."""
    for version in versions("JoinGroup"):
        group = f"classic-{version}"
        joined = _join(talk, version, "first", group)
        if version >= 4:
            joined = _join(talk, version, "with the id given", group, joined.member_id)
        member, generation = joined.member_id, joined.generation_id
        rest: dict[str, Any] = {"group_id": group, "member_id": member, "generation_id": generation}
        sync, beat = min(version, 5), min(version, 4)
        shares = [{"member_id": member, "assignment": NOTHING}]
        named: dict[str, Any] = {"protocol_type": "consumer", "protocol_name": "range"} if sync >= 5 else {}
        talk.ask("SyncGroup", sync, "before it was told", **(rest | {"generation_id": 99}), **named)
        talk.ask("SyncGroup", sync, "of the leader", assignments=shares, **rest, **named)
        talk.ask("SyncGroup", sync, "again", **rest, **named)
        talk.ask("SyncGroup", sync, "of a stranger", **(rest | {"member_id": "stranger"}), **named)
        if sync >= 5:
            talk.ask("SyncGroup", sync, "of another protocol", **rest, **(named | {"protocol_name": "x"}))
        talk.ask("Heartbeat", beat, "of the member", **rest)
        talk.ask("Heartbeat", beat, "of a stranger", **(rest | {"member_id": "stranger"}))
        talk.ask("Heartbeat", beat, "of another generation", **(rest | {"generation_id": 99}))
        talk.ask("Heartbeat", beat, "of no group", **(rest | {"group_id": "classic-none"}))
        talk.ask("Heartbeat", beat, "without a group", **(rest | {"group_id": ""}))
        for described in versions("DescribeGroups") if version == 9 else (min(version, 6),):
            talk.ask("DescribeGroups", described, "with a member", groups=[group, "classic-none"])
        leave = min(version, 5)
        if leave < 3:
            talk.ask("LeaveGroup", leave, "of a stranger", group_id=group, member_id="stranger")
            talk.ask("LeaveGroup", leave, "of the member", group_id=group, member_id=member)
        else:
            both = [{"member_id": "stranger"}, {"member_id": member}]
            talk.ask("LeaveGroup", leave, "of both", group_id=group, members=both)
        talk.ask("DescribeGroups", min(version, 6), "without members", groups=[group])
        talk.ask("Heartbeat", beat, "of a member that has left", **rest)


def refused(talk: Talk) -> None:
    """What cannot be joined."""
    for version in versions("JoinGroup"):
        group = f"refused-{version}"
        _join(talk, version, "without a group", "")
        _join(talk, version, "by an unknown id", group, "unknown")
        _join(talk, version, "without protocols", group, protocols=[])
        _join(talk, version, "without a type", group, protocol_type="")
        _join(talk, version, "with a short session", group, session_timeout_ms=1)
        _join(talk, version, "with a long session", group, session_timeout_ms=100_000_000)


def two_members(talk: Talk) -> None:
    """A rebalance; the second joins while the first is there."""
    group = "two"
    asked = {"group_id": group, "protocol_type": "consumer", "protocols": PROTOCOLS, **TIMES}
    first = _join(talk, 3, "of the first", group)
    mine: dict[str, Any] = {
        "group_id": group,
        "member_id": first.member_id,
        "generation_id": first.generation_id,
    }
    talk.ask(
        "SyncGroup",
        3,
        "of the first",
        assignments=[{"member_id": first.member_id, "assignment": NOTHING}],
        **mine,
    )
    talk.begin("JoinGroup", 3, by="second", member_id="", **asked)
    beat = talk.settled("Heartbeat", 3, **mine)
    for _ in range(100):
        if beat.error_code:
            break
        beat = talk.settled("Heartbeat", 3, **mine)
    talk.note("Heartbeat", 3, "in a rebalance", beat)
    talk.ask(
        "OffsetCommit", 8, "in a rebalance", **_commit(group, "two", first.member_id, first.generation_id)
    )
    talk.begin("JoinGroup", 3, by="", member_id=first.member_id, **asked)
    again = talk.finish("JoinGroup", 3, "of the first again", by="")
    second = talk.finish("JoinGroup", 3, "of the second", by="second")
    theirs: dict[str, Any] = {
        "group_id": group,
        "member_id": second.member_id,
        "generation_id": second.generation_id,
    }
    talk.begin("SyncGroup", 3, by="second", **theirs)
    shares = [
        {"member_id": first.member_id, "assignment": NOTHING},
        {"member_id": second.member_id, "assignment": NOTHING},
    ]
    talk.ask(
        "SyncGroup", 3, "of the leader", assignments=shares, **(mine | {"generation_id": again.generation_id})
    )
    talk.finish("SyncGroup", 3, "of the follower", by="second")
    talk.ask("DescribeGroups", 5, "with two", groups=[group])
    other = asked | {"protocols": [{"name": "other", "metadata": b""}]}
    talk.ask("JoinGroup", 3, "with other protocols", by="third", member_id="", **other)
    kind = asked | {"protocol_type": "connect"}
    talk.ask("JoinGroup", 3, "of another type", by="third", member_id="", **kind)
    talk.ask("DeleteGroups", 2, "with members", groups_names=[group])


def static_members(talk: Talk) -> None:
    """An instance that comes again, and one that takes its place."""
    group = "static"
    instance: dict[str, Any] = {"group_instance_id": "one"}
    first = _join(talk, 5, "of an instance", group, **instance)
    mine: dict[str, Any] = {
        "group_id": group,
        "member_id": first.member_id,
        "generation_id": first.generation_id,
    }
    talk.ask(
        "SyncGroup",
        3,
        "of an instance",
        assignments=[{"member_id": first.member_id, "assignment": NOTHING}],
        **mine,
        **instance,
    )
    again = _join(talk, 5, "of the instance again", group, **instance)
    talk.ask("Heartbeat", 3, "of the fenced", **mine, **instance)
    talk.ask("Heartbeat", 3, "of the new", **(mine | {"member_id": again.member_id}), **instance)
    talk.ask("OffsetCommit", 8, "of the fenced", **_commit(group, "static", first.member_id, 1), **instance)
    talk.ask("DescribeGroups", 5, "with an instance", groups=[group])
    talk.ask("LeaveGroup", 4, "of the instance", group_id=group, members=[{"member_id": "", **instance}])
    talk.ask(
        "LeaveGroup",
        4,
        "of no instance",
        group_id=group,
        members=[{"member_id": "", "group_instance_id": "no"}],
    )


def _commit(group: str, topic: str, member: str = "", generation: int = -1, **more: Any) -> dict[str, Any]:
    partition = {
        "partition_index": 0,
        "committed_offset": 1,
        "committed_metadata": "note",
        **more.pop("at", {}),
    }
    named: dict[str, Any] = {"name": topic, "partitions": [partition], **more}
    return {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": member,
        "topics": [named],
    }


def offsets(talk: Talk) -> None:
    topic = Topic(talk, "offsets")
    topic.produce(3, "for offsets", batch(b"a", b"b"))
    for version in versions("OffsetCommit"):
        group = f"offsets-{version}"
        by_id: dict[str, Any] = {"topic_id": topic.id}
        talk.ask("OffsetCommit", version, "without a member", **_commit(group, "offsets", **by_id))
        talk.ask(
            "OffsetCommit",
            version,
            "behind the end",
            **_commit(group, "offsets", at={"committed_offset": 99}, **by_id),
        )
        talk.ask(
            "OffsetCommit",
            version,
            "of -1",
            **_commit(group, "offsets", at={"committed_offset": -1}, **by_id),
        )
        talk.ask(
            "OffsetCommit", version, "of a stranger", **_commit(group, "offsets", "stranger", 1, **by_id)
        )
        talk.ask("OffsetCommit", version, "of a generation", **_commit(group, "offsets", "", 5, **by_id))
        talk.ask("OffsetCommit", version, "without a group", **_commit("", "offsets", **by_id))
        talk.ask(
            "OffsetCommit",
            version,
            "of no partition",
            **_commit(group, "offsets", at={"partition_index": 9}, **by_id),
        )
        talk.ask("OffsetCommit", version, "of no topic", **_commit(group, "offsets-none", topic_id=b"x" * 16))
        long = {"committed_metadata": "x" * 5000}
        talk.ask("OffsetCommit", version, "of long metadata", **_commit(group, "offsets", at=long, **by_id))
    for version in versions("OffsetFetch"):
        wanted = {"name": "offsets", "topic_id": topic.id, "partition_indexes": [0, 9]}
        other = {"name": "offsets-none", "topic_id": b"x" * 16, "partition_indexes": [0]}

        def ask(what: str, group: str, topics: Any, version: int = version, **more: Any) -> None:
            if version < 8:
                talk.ask("OffsetFetch", version, what, group_id=group, topics=topics, **more)
            else:
                talk.ask("OffsetFetch", version, what, groups=[{"group_id": group, "topics": topics}], **more)

        plain = [
            {name: value for name, value in each.items() if version >= 8 or name != "topic_id"}
            for each in (wanted, other)
        ]
        ask("of a group", "offsets-8", plain)
        ask("of no group", "offsets-none", plain)
        ask("without a group", "", plain)
        ask("of no topics", "offsets-8", [])
        if version >= 2:
            ask("of all", "offsets-8", None)
        if version >= 7:
            ask("of stable ones", "offsets-8", plain, require_stable=True)
        if version >= 9:
            member = {"group_id": "offsets-8", "member_id": "stranger", "member_epoch": 1, "topics": plain}
            talk.ask("OffsetFetch", version, "of a stranger", groups=[member])


def removed(talk: Talk) -> None:
    topic = Topic(talk, "removed")
    topic.produce(3, "for groups", batch(b"a", b"b"))
    for version in versions("DeleteGroups"):
        group = f"removed-{version}"
        talk.ask("OffsetCommit", 8, "to be removed", **_commit(group, "removed"))
        wanted = [
            {"name": "removed", "partitions": [{"partition_index": 0}, {"partition_index": 9}]},
            {"name": "removed-none", "partitions": [{"partition_index": 0}]},
        ]
        talk.ask("OffsetDelete", 0, "of a group", group_id=group, topics=wanted)
        talk.ask("OffsetDelete", 0, "of no group", group_id="removed-none", topics=wanted)
        talk.ask("OffsetCommit", 8, "to be removed", **_commit(group, "removed"))
        talk.ask("DeleteGroups", version, "of two", groups_names=[group, "removed-none"])
        talk.ask("DescribeGroups", 5, "that was removed", groups=[group])
    talk.ask("ListGroups", 4, "of a bad state", states_filter=["Nonsense"])
    talk.ask("ListGroups", 5, "of a bad type", types_filter=["nonsense"])


def listed(talk: Talk) -> None:
    """Only what begins with this conversation's name is compared: others are there, too."""
    Topic(talk, "listed-groups").produce(3, "for groups", batch(b"a"))
    talk.settled("OffsetCommit", 8, **_commit("listed-simple", "listed-groups"))
    _join(talk, 3, "to be listed", "listed-member")
    _beat(talk, 1, "to be listed", "listed-new", "chosen-m", 0, ["listed-groups"])
    for version in versions("ListGroups"):
        answer = talk.settled("ListGroups", version)
        answer.groups = [each for each in answer.groups if each.group_id.startswith("listed-")]
        talk.note("ListGroups", version, "of all", answer)


def _beat(
    talk: Talk, version: int, what: str, group: str, member: str, epoch: int, topics: Any, **more: Any
) -> Any:
    asked = {"group_id": group, "member_id": member, "member_epoch": epoch, "subscribed_topic_names": topics}
    first = {"rebalance_timeout_ms": 30_000, "topic_partitions": []} if epoch == 0 else {}
    return talk.ask("ConsumerGroupHeartbeat", version, what, **(asked | first | more))


def new_protocol(talk: Talk) -> None:
    """Members of group.protocol=consumer."""
    topic = Topic(talk, "consumers", 2)
    for version in versions("ConsumerGroupHeartbeat"):
        group = f"consumers-{version}"
        member = "" if version == 0 else "chosen-a"
        first = _beat(talk, version, "of the first", group, member, 0, ["consumers"])
        member = first.member_id
        _beat(talk, version, "again", group, member, first.member_epoch, None)
        owned = [{"topic_id": topic.id, "partitions": [0, 1]}]
        _beat(
            talk,
            version,
            "with its partitions",
            group,
            member,
            first.member_epoch,
            None,
            topic_partitions=owned,
        )
        talk.ask("ConsumerGroupDescribe", version, "with a member", group_ids=[group, "consumers-none", ""])
        _beat(talk, version, "of another epoch", group, member, 77, None)
        _beat(talk, version, "of a stranger", group, "stranger", 1, None)
        _beat(talk, version, "without a group", "", member, 0, ["consumers"])
        _beat(talk, version, "without topics", group, "chosen-b", 0, None)
        _beat(
            talk, version, "with a bad assignor", group, "chosen-c", 0, ["consumers"], server_assignor="none"
        )
        _beat(talk, version, "of epoch -5", group, member, -5, None)
        commit = _commit(group, "consumers", member, first.member_epoch, topic_id=topic.id)
        talk.ask("OffsetCommit", 9, "of a new member", **commit)
        talk.ask("OffsetCommit", 9, "of another epoch", **(commit | {"generation_id_or_member_epoch": 77}))
        asked = {
            "group_id": group,
            "member_id": member,
            "topics": [{"name": "consumers", "topic_id": topic.id, "partition_indexes": [0]}],
        }
        talk.ask("OffsetFetch", 9, "of a new member", groups=[asked | {"member_epoch": first.member_epoch}])
        talk.ask("OffsetFetch", 9, "of another epoch", groups=[asked | {"member_epoch": 77}])
        if version:
            regex: dict[str, Any] = {"subscribed_topic_regex": "consum.*"}
            _beat(talk, version, "with a pattern", f"{group}-regex", "chosen-d", 0, None, **regex)
            bad: dict[str, Any] = {"subscribed_topic_regex": "("}
            _beat(talk, version, "with a bad pattern", f"{group}-regex", "chosen-e", 0, None, **bad)
        talk.ask("DeleteGroups", 2, "of a new group with members", groups_names=[group])
        _beat(talk, version, "that leaves", group, member, -1, None)
        talk.ask("ConsumerGroupDescribe", version, "without members", group_ids=[group])
        static: dict[str, Any] = {"instance_id": "one"}
        last = _beat(
            talk,
            version,
            "of an instance",
            f"{group}-static",
            "" if not version else "chosen-f",
            0,
            ["consumers"],
            **static,
        )
        _beat(
            talk,
            version,
            "of the same instance",
            f"{group}-static",
            "" if not version else "chosen-g",
            0,
            ["consumers"],
            **static,
        )
        _beat(
            talk, version, "of an instance that pauses", f"{group}-static", last.member_id, -2, None, **static
        )
        _beat(
            talk,
            version,
            "of the instance again",
            f"{group}-static",
            "" if not version else "chosen-h",
            0,
            ["consumers"],
            **static,
        )
    for version in versions("ConsumerGroupHeartbeat"):
        _join(talk, 3, "into a new group", f"consumers-{version}-static")


def streams(talk: Talk) -> None:
    talk.ask("StreamsGroupDescribe", 0, "of no group", group_ids=["streams-none"])
    topology = {"epoch": 0, "subtopologies": [{"subtopology_id": "0", "source_topics": ["streams"]}]}
    talk.ask(
        "StreamsGroupHeartbeat", 0, "of the first", group_id="streams", member_id="chosen-m",
        rebalance_timeout_ms=1000, topology=topology, active_tasks=[], standby_tasks=[], warmup_tasks=[],
        process_id="p", client_tags=[],
    )  # fmt: skip


CONVERSATIONS = (
    coordinators, classic, refused, two_members, static_members, offsets, removed, listed, new_protocol,
    streams,
)  # fmt: skip
