"""Topics and partitions: created, deleted, grown, moved."""

from typing import Any

from tests.kafka_reference.batches import batch
from tests.kafka_reference.talk import Talk, versions


def _topic(name: str, partitions: int = 1, replication: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": replication, **more}


def created(talk: Talk) -> None:
    for version in versions("CreateTopics"):

        def ask(what: str, *topics: dict[str, Any], version: int = version, **more: Any) -> None:
            talk.ask("CreateTopics", version, what, topics=list(topics), **more)

        name = f"created-{version}"
        ask("only checked", _topic(name, 2), validate_only=True)
        ask("with two partitions", _topic(name, 2))
        talk.known(name, 2)
        ask("again", _topic(name, 2))
        ask("again, only checked", _topic(name, 2), validate_only=True)
        ask("twice at once", _topic(f"{name}-x"), _topic(f"{name}-x"))
        ask("without a name", _topic(""))
        ask("with a dot as name", _topic("."))
        ask("with a bad name", _topic("a b"))
        ask("with a name of 250", _topic("n" * 250))
        ask("with a name of 249, only checked", _topic("n" * 249), validate_only=True)
        ask("with an internal name, only checked", _topic("__internal"), validate_only=True)
        ask("with a leading dot, only checked", _topic(".hidden"), validate_only=True)
        ask("with no partitions", _topic(f"{name}-0", 0))
        ask("with -2 partitions", _topic(f"{name}-0", -2))
        ask("replicated twice", _topic(f"{name}-r", 1, 2))
        ask("replicated by 0", _topic(f"{name}-r", 1, 0))
        ask("by a colliding name", _topic(name.replace("-", "_")), validate_only=True)
        placed = [{"partition_index": 0, "broker_ids": [0]}, {"partition_index": 1, "broker_ids": [0]}]
        ask("placed by hand", _topic(f"{name}-p", -1, -1, assignments=placed))
        ask("placed elsewhere", _topic(f"{name}-q", -1, -1, assignments=[placed[0] | {"broker_ids": [9]}]))
        ask("placed with a gap", _topic(f"{name}-q", -1, -1, assignments=placed[1:]))
        ask("placed and counted", _topic(f"{name}-q", 2, 1, assignments=placed))
        ask("with settings", _topic(f"{name}-s", configs=[{"name": "retention.ms", "value": "1000"}]))
        ask("with an unknown setting", _topic(f"{name}-t", configs=[{"name": "what.ever", "value": "1"}]))
        ask("with a bad setting", _topic(f"{name}-t", configs=[{"name": "retention.ms", "value": "soon"}]))
        ask("with an empty setting", _topic(f"{name}-t", configs=[{"name": "retention.ms", "value": None}]))
        ask("with none")
        if version >= 4:
            ask("as the server likes", _topic(f"{name}-d", -1, -1))


def deleted(talk: Talk) -> None:
    for version in versions("DeleteTopics"):
        name = f"deleted-{version}"
        made = talk.topic(name)
        if version < 6:
            talk.ask("DeleteTopics", version, "by name", topic_names=[name, "deleted-none"], timeout_ms=9000)
            talk.ask("DeleteTopics", version, "of a bad name", topic_names=["a b", ""], timeout_ms=9000)
            talk.ask("DeleteTopics", version, "twice the same", topic_names=["deleted-no", "deleted-no"])
        else:
            talk.ask("DeleteTopics", version, "by id", topics=[{"topic_id": made}], timeout_ms=9000)
            talk.ask("DeleteTopics", version, "by no id", topics=[{"topic_id": b"x" * 16}], timeout_ms=9000)
            both = [{"topic_id": b"x" * 16, "name": "deleted-none"}]
            talk.ask("DeleteTopics", version, "by id and name", topics=both, timeout_ms=9000)
            talk.ask("DeleteTopics", version, "by neither", topics=[{}], timeout_ms=9000)
            twice = [{"name": "deleted-no"}, {"name": "deleted-no"}]
            talk.ask("DeleteTopics", version, "twice the same", topics=twice, timeout_ms=9000)


def grown(talk: Talk) -> None:
    for version in versions("CreatePartitions"):
        name = f"grown-{version}"
        talk.topic(name, 2)

        def ask(what: str, *topics: dict[str, Any], version: int = version, **more: Any) -> None:
            talk.ask("CreatePartitions", version, what, topics=list(topics), timeout_ms=9000, **more)

        auto: dict[str, Any] = {"name": name, "assignments": None}
        ask("only checked", auto | {"count": 3}, validate_only=True)
        ask("to three", auto | {"count": 3})
        talk.known(name, 3)
        ask("to as many", auto | {"count": 3})
        ask("to fewer", auto | {"count": 1})
        ask("to none", auto | {"count": 0})
        ask("of none", auto | {"name": "grown-none", "count": 3})
        ask("twice at once", auto | {"count": 4}, auto | {"count": 5})
        ask("placed", {"name": name, "count": 4, "assignments": [{"broker_ids": [0]}]}, validate_only=True)
        ask("placed elsewhere", {"name": name, "count": 4, "assignments": [{"broker_ids": [9]}]})
        ask("placed too few", {"name": name, "count": 5, "assignments": [{"broker_ids": [0]}]})


def moved(talk: Talk) -> None:
    talk.topic("moved", 2)
    named: dict[str, Any] = {"topic": "moved", "partitions": [0, 1, 9]}
    other: dict[str, Any] = {"topic": "moved-none", "partitions": [0]}
    for version in versions("ElectLeaders"):
        talk.ask("ElectLeaders", version, "of three", topic_partitions=[named, other])
        talk.ask("ElectLeaders", version, "of all", topic_partitions=None)
        if version:
            talk.ask("ElectLeaders", version, "unclean", election_type=1, topic_partitions=[named])
    for version in versions("DescribeLogDirs"):
        talk.ask("DescribeLogDirs", version, "of three", topics=[named, other])
    for version in versions("AlterReplicaLogDirs"):
        there = [{"path": "/nowhere", "topics": [{"name": "moved", "partitions": [0, 9]}]}]
        talk.ask("AlterReplicaLogDirs", version, "to nowhere", dirs=there)

    def reassigned(what: str, replicas: list[int] | None, name: str = "moved", number: int = 0) -> None:
        wanted = [{"name": name, "partitions": [{"partition_index": number, "replicas": replicas}]}]
        talk.ask("AlterPartitionReassignments", 0, what, topics=wanted)

    reassigned("to where it is", [0])
    reassigned("elsewhere", [9])
    reassigned("to nowhere", [])
    reassigned("twice the same", [0, 0])
    reassigned("cancelled", None)
    reassigned("of no partition", [0], number=9)
    reassigned("of no topic", [0], "moved-none")
    some = [{"name": "moved", "partition_indexes": [0, 9]}, {"name": "moved-none", "partition_indexes": [0]}]
    talk.ask("ListPartitionReassignments", 0, "of some", topics=some)


def records_deleted(talk: Talk) -> None:
    for version in versions("DeleteRecords"):
        name = f"trimmed-{version}"
        talk.topic(name)
        data = {"name": name, "partition_data": [{"index": 0, "records": batch(b"a", b"b", b"c")}]}
        talk.settled("Produce", 3, acks=-1, timeout_ms=9000, topic_data=[data])

        def ask(
            what: str, offset: int, topic: str = name, partition: int = 0, version: int = version
        ) -> None:
            wanted = [{"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}]
            talk.ask("DeleteRecords", version, what, topics=wanted, timeout_ms=9000)

        ask("before 1", 1)
        ask("before 1 again", 1)
        ask("before 0", 0)
        ask("before 9", 9)
        ask("before -2", -2)
        ask("of all", -1)
        ask("of no topic", 0, "trimmed-none")
        ask("of no partition", 0, partition=9)
        ends = [{"partition_index": 0, "timestamp": at} for at in (-2,)]
        talk.ask("ListOffsets", 5, "after deletion", topics=[{"name": name, "partitions": ends}])


CONVERSATIONS = (created, deleted, grown, moved, records_deleted)
