"""Share groups."""

import time
from typing import Any, Final

from tests.kafka_reference.batches import batch
from tests.kafka_reference.conversations.configs import GROUP, SET
from tests.kafka_reference.conversations.records import Topic
from tests.kafka_reference.talk import Talk, versions

MEMBER: Final = "chosen-a"
OTHER: Final = "chosen-b"
GAP, ACCEPT, RELEASE, REJECT = range(4)


def _beat(talk: Talk, what: str, group: str, member: str, epoch: int, topics: Any = None) -> Any:
    asked: dict[str, Any] = {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "subscribed_topic_names": topics,
    }
    return talk.ask("ShareGroupHeartbeat", 1, what, **asked)


def _early(talk: Talk, group: str) -> None:
    """Let a group begin at the beginning."""
    start = {"name": "share.auto.offset.reset", "config_operation": SET, "value": "earliest"}
    wanted = [{"resource_type": GROUP, "resource_name": group, "configs": [start]}]
    talk.settled("IncrementalAlterConfigs", 1, resources=wanted)


def members(talk: Talk) -> None:
    Topic(talk, "shared", 2)
    first = _beat(talk, "of the first", "shared", MEMBER, 0, ["shared"])
    _beat(talk, "again", "shared", MEMBER, _assigned(talk, "shared", MEMBER, first.member_epoch))
    _beat(talk, "of another epoch", "shared", MEMBER, 77)
    _beat(talk, "of a stranger", "shared", OTHER, 1)
    _beat(talk, "without a group", "", MEMBER, 0, ["shared"])
    _beat(talk, "without a member", "shared", "", 0, ["shared"])
    _beat(talk, "without topics", "shared", OTHER, 0)
    _beat(talk, "of epoch -5", "shared", MEMBER, -5)
    talk.ask("ShareGroupDescribe", 1, "with a member", group_ids=["shared", "shared-none", ""])
    talk.ask("DeleteGroups", 2, "of a share group with members", groups_names=["shared"])
    join: dict[str, Any] = {
        "group_id": "shared",
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "member_id": "",
    }
    talk.ask(
        "JoinGroup", 3, "into a share group", protocol_type="consumer", protocols=[{"name": "range"}], **join
    )
    beat: dict[str, Any] = {
        "group_id": "shared",
        "member_id": OTHER,
        "rebalance_timeout_ms": 1000,
        "subscribed_topic_names": ["shared"],
    }
    talk.ask("ConsumerGroupHeartbeat", 1, "into a share group", topic_partitions=[], **beat)
    _beat(talk, "that leaves", "shared", MEMBER, -1)
    _beat(talk, "that has left", "shared", MEMBER, 5)
    talk.ask("ShareGroupDescribe", 1, "without members", group_ids=["shared"])
    talk.ask("DeleteGroups", 2, "of a share group", groups_names=["shared"])


def _assigned(talk: Talk, group: str, member: str, epoch: int) -> int:
    """Wait until the member has partitions; its epoch."""
    for _ in range(100):
        asked: dict[str, Any] = {"group_id": group, "member_id": member, "member_epoch": epoch}
        found = talk.settled("ShareGroupHeartbeat", 1, subscribed_topic_names=None, **asked)
        epoch = found.member_epoch
        if found.assignment is not None and found.assignment.topic_partitions:
            break
        time.sleep(0.05)
        [described] = talk.settled("ShareGroupDescribe", 1, group_ids=[group]).groups
        if any(each.assignment.topic_partitions for each in described.members):
            break
    return epoch


def delivered(talk: Talk) -> None:
    for version in versions("ShareFetch"):
        name = f"delivered-{version}"
        topic = Topic(talk, name)
        _early(talk, name)
        for values in ((b"a", b"b", b"c"), (b"d",), (b"e",)):
            topic.produce(3, "for ShareFetch", batch(*values, at_ms=talk.started_ms))
        first = _beat(talk, "of the first", name, MEMBER, 0, [name])
        _assigned(talk, name, MEMBER, first.member_epoch)
        mine: dict[str, Any] = {"group_id": name, "member_id": MEMBER}

        def fetch(
            what: str, epoch: int, acks: list[dict[str, Any]] | None = None, *, version: int = version,
            topic: Topic = topic, mine: dict[str, str] = mine, **more: Any,
        ) -> Any:  # fmt: skip
            partition = {"partition_index": 0, "acknowledgement_batches": acks or []}
            wanted = [{"topic_id": topic.id, "partitions": [partition]}]
            asked: dict[str, Any] = {
                "max_wait_ms": 500,
                "min_bytes": 1,
                "max_records": 100,
                "batch_size": 100,
                "topics": wanted,
            }
            return talk.ask("ShareFetch", version, what, **(asked | mine | more))

        def settle(
            what: str, epoch: int, acks: list[dict[str, Any]], *, version: int = version,
            topic: Topic = topic, mine: dict[str, str] = mine, **more: Any,
        ) -> None:  # fmt: skip
            partition = {"partition_index": 0, "acknowledgement_batches": acks}
            asked: dict[str, Any] = {
                "share_session_epoch": epoch,
                "topics": [{"topic_id": topic.id, "partitions": [partition]}],
            }
            talk.ask("ShareAcknowledge", version, what, **(asked | mine | more))

        fetch("without a session", 1, share_session_epoch=1)
        _until(talk, lambda fetch=fetch: fetch("of a session", 0, share_session_epoch=0))
        settle("of some", 1, [_acked(0, 0, ACCEPT), _acked(1, 1, RELEASE), _acked(2, 2, REJECT)])
        settle("of the same again", 2, [_acked(0, 0, ACCEPT)])
        settle("of what was never lent", 3, [_acked(90, 99, ACCEPT)])
        settle("of a bad kind", 4, [_acked(3, 3, 9)])
        settle("backwards", 5, [_acked(3, 2, ACCEPT)])
        settle("of another epoch", 77, [_acked(3, 3, ACCEPT)])
        fetch("of what was released", 6, share_session_epoch=6)
        fetch("with acknowledgements", 7, [_acked(3, 4, ACCEPT)], share_session_epoch=7)
        fetch("of another epoch", 99, share_session_epoch=99)
        fetch("by a stranger", 0, share_session_epoch=0, member_id=OTHER)
        settle("by a stranger", 1, [_acked(1, 1, ACCEPT)], member_id=OTHER)
        fetch("without a group", 0, share_session_epoch=0, group_id=None)
        fetch(
            "of an unknown topic",
            8,
            share_session_epoch=8,
            topics=[{"topic_id": b"x" * 16, "partitions": [{}]}],
        )
        fetch("at its end", -1, [_acked(1, 1, ACCEPT)], share_session_epoch=-1)
        _beat(talk, "that leaves", name, MEMBER, -1)


def _until(talk: Talk, ask: Any) -> None:
    """Ask until there are records: a group has to be loaded first.  Only the last answer counts."""
    for _ in range(20):
        before = len(talk.steps)
        answer = ask()
        if answer is None or any(each.records for topic in answer.responses for each in topic.partitions):
            return
        del talk.steps[before:]
    ask()


def _acked(first: int, last: int, kind: int) -> dict[str, Any]:
    return {"first_offset": first, "last_offset": last, "acknowledge_types": [kind]}


def places(talk: Talk) -> None:
    topic = Topic(talk, "places")
    topic.produce(3, "for share offsets", batch(b"a", b"b", b"c"))

    def move(what: str, start: int, group: str = "places", name: str = "places", partition: int = 0) -> None:
        wanted = [{"topic_name": name, "partitions": [{"partition_index": partition, "start_offset": start}]}]
        talk.ask("AlterShareGroupOffsets", 0, what, group_id=group, topics=wanted)

    def show(what: str, group: str = "places", topics: Any = None) -> None:
        for version in versions("DescribeShareGroupOffsets"):
            talk.ask(
                "DescribeShareGroupOffsets", version, what, groups=[{"group_id": group, "topics": topics}]
            )

    named = [{"topic_name": "places", "partitions": [0]}, {"topic_name": "places-none", "partitions": [0]}]
    show("before", topics=named[:1])
    move("to 1", 1)
    show("of all")
    show("of some", topics=named)
    move("to 9", 9)
    move("of no topic", 0, name="places-none")
    move("of no partition", 0, partition=9)
    move("without a group", 0, "")
    first = _beat(talk, "of the first", "places", MEMBER, 0, ["places"])
    move("with members", 0)
    both = [{"topic_name": "places"}, {"topic_name": "places-none"}]
    talk.ask("DeleteShareGroupOffsets", 0, "with members", group_id="places", topics=both)
    assert first is not None
    _beat(talk, "that leaves", "places", MEMBER, -1)
    talk.ask("DeleteShareGroupOffsets", 0, "of two topics", group_id="places", topics=both)
    talk.ask("DeleteShareGroupOffsets", 0, "of no group", group_id="places-none", topics=both)


CONVERSATIONS = (members, delivered, places)
