"""Transactions of both versions."""

from typing import Any

from tests.kafka_reference.batches import batch
from tests.kafka_reference.conversations.records import COMMITTED, Topic
from tests.kafka_reference.talk import Talk, versions

TRANSACTIONAL = 0x10


def _begin(talk: Talk, name: str, version: int = 4, what: str = "of a name", **more: Any) -> tuple[int, int]:
    got = talk.ask(
        "InitProducerId", version, what, transactional_id=name, transaction_timeout_ms=60_000, **more
    )
    return got.producer_id, got.producer_epoch


def _add(
    talk: Talk, version: int, what: str, name: str, producer: tuple[int, int], *topics: str, number: int = 0
) -> None:
    asked: dict[str, Any] = {
        "v3_and_below_transactional_id": name, "v3_and_below_producer_id": producer[0],
        "v3_and_below_producer_epoch": producer[1],
        "v3_and_below_topics": [{"name": topic, "partitions": [number]} for topic in topics],
    }  # fmt: skip
    talk.ask("AddPartitionsToTxn", version, what, **asked)


def _end(talk: Talk, version: int, what: str, name: str, producer: tuple[int, int], commit: bool) -> Any:
    asked: dict[str, Any] = {
        "transactional_id": name,
        "producer_id": producer[0],
        "producer_epoch": producer[1],
        "committed": commit,
    }
    return talk.ask("EndTxn", version, what, **asked)


def _offsets(name: str, group: str, producer: tuple[int, int], topic: str, **more: Any) -> dict[str, Any]:
    partition = {"partition_index": more.pop("partition", 0), "committed_offset": 1}
    return {
        "transactional_id": name, "group_id": group, "producer_id": producer[0],
        "producer_epoch": producer[1], "topics": [{"name": topic, "partitions": [partition]}], **more,
    }  # fmt: skip


def names(talk: Talk) -> None:
    for version in versions("InitProducerId"):
        first = _begin(talk, f"names-{version}", version)
        _begin(talk, f"names-{version}", version, "of a name again")
        for timeout_ms in (-1, 0, 100_000_000):
            asked: dict[str, Any] = {"transactional_id": "names", "transaction_timeout_ms": timeout_ms}
            talk.ask("InitProducerId", version, f"with a timeout of {timeout_ms}", **asked)
        if version >= 3:
            old: dict[str, Any] = {"producer_id": first[0], "producer_epoch": first[1]}
            _begin(talk, f"names-{version}", version, "of a fenced producer", **old)
            now = _begin(talk, f"names-{version}", version, "of a name once more")
            mine: dict[str, Any] = {"producer_id": now[0], "producer_epoch": now[1]}
            _begin(talk, f"names-{version}", version, "of the producer itself", **mine)
            _begin(
                talk,
                f"names-{version}",
                version,
                "of another producer",
                producer_id=now[0] + 50,
                producer_epoch=0,
            )
            _begin(talk, f"names-{version}", version, "of half a producer", producer_id=now[0])


def first_version(talk: Talk) -> None:
    for version in versions("AddPartitionsToTxn"):
        name = f"first-{version}"
        topic = Topic(talk, name)
        producer = _begin(talk, name)
        end = min(version, 4)

        def send(what: str, sequence: int, epoch: int, pid: int = producer[0], **more: Any) -> None:
            topic, name = more["to"]
            records = batch(
                b"a", at_ms=talk.started_ms, producer=(pid, epoch, sequence), attributes=TRANSACTIONAL
            )
            topic.produce(11, what, records, transactional_id=name)

        to: dict[str, Any] = {"to": (topic, name)}
        _end(talk, end, "of nothing", name, producer, True)
        send("before the partition was added", 0, producer[1], **to)
        _add(talk, version, "of a partition", name, producer, name)
        _add(talk, version, "of a partition again", name, producer, name)
        _add(talk, version, "of no topic", name, producer, "first-none")
        _add(talk, version, "of no partition", name, producer, name, number=9)
        _add(talk, version, "of both", name, producer, name, "first-none")
        _add(talk, version, "of a later epoch", name, (producer[0], producer[1] + 5), name)
        _add(talk, version, "of another producer", name, (producer[0] + 50, 0), name)
        _add(talk, version, "of no name", "first-none", producer, name)
        send("in a transaction", 0, producer[1], **to)
        talk.ask("DescribeTransactions", 0, "of an open one", transactional_ids=[name, "first-none"])
        topic.fetch(11, "of an open transaction", 0, isolation_level=COMMITTED)
        topic.fetch(11, "of an open transaction, uncommitted", 0)
        listed = [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
        talk.ask("ListOffsets", 5, "of an open transaction", replica_id=-1, isolation_level=1, topics=listed)
        _end(talk, end, "of another epoch", name, (producer[0], producer[1] + 5), True)
        _end(talk, end, "of another producer", name, (producer[0] + 50, 0), True)
        _end(talk, end, "of no name", "first-none", producer, True)
        _end(talk, end, "that commits", name, producer, True)
        _end(talk, end, "that commits again", name, producer, True)
        _end(talk, end, "that aborts what was committed", name, producer, False)
        _add(talk, version, "of the next transaction", name, producer, name)
        send("to be aborted", 1, producer[1], **to)
        _end(talk, end, "that aborts", name, producer, False)
        _end(talk, end, "that aborts again", name, producer, False)
        _seen(talk, topic)
        second = _begin(talk, name, what="that fences")
        send("of a fenced producer", 2, producer[1], **to)
        _add(talk, version, "of a fenced producer", name, producer, name)
        _end(talk, end, "of a fenced producer", name, producer, True)
        _add(talk, version, "of the new producer", name, second, name)
        send("of the new producer", 0, second[1], **to)
        _begin(talk, name, what="that aborts")
        _seen(talk, topic)


def _seen(talk: Talk, topic: Topic) -> None:
    """Wait until nothing is open, and show the log."""
    for _ in range(200):
        asked = [{"name": topic.name, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
        ends = [
            talk.settled("ListOffsets", 5, replica_id=-1, isolation_level=level, topics=asked)
            for level in (0, 1)
        ]
        first, second = (each.topics[0].partitions[0].offset for each in ends)
        if first == second:
            break
    topic.fetch(11, "of ended transactions", 0, isolation_level=COMMITTED)


def second_version(talk: Talk) -> None:
    topic = Topic(talk, "second")
    producer = _begin(talk, "second", 5)

    def send(what: str, sequence: int, version: int = 12, **more: Any) -> None:
        records = batch(
            b"a",
            at_ms=talk.started_ms,
            producer=(*more.get("by", producer), sequence),
            attributes=TRANSACTIONAL,
        )
        topic.produce(version, what, records, transactional_id="second")

    send("that begins a transaction", 0)
    send("that goes on", 1)
    talk.ask("DescribeTransactions", 0, "of version 2", transactional_ids=["second"])
    ended = _end(talk, 5, "that commits", "second", producer, True)
    _end(talk, 5, "that commits again", "second", producer, True)
    send("of the last epoch", 2)
    producer = (ended.producer_id, ended.producer_epoch)
    send("of the next epoch", 0, 13, by=producer)
    ended = _end(talk, 5, "that aborts", "second", producer, False)
    producer = (ended.producer_id, ended.producer_epoch)
    _end(talk, 5, "that aborts nothing", "second", producer, False)
    _end(talk, 5, "that commits nothing", "second", producer, True)
    _seen(talk, topic)


def offsets_sent(talk: Talk) -> None:
    topic = Topic(talk, "sent")
    topic.produce(3, "for offsets", batch(b"a", b"b"))
    for version in versions("TxnOffsetCommit"):
        name, group = f"sent-{version}", f"sent-group-{version}"
        producer = _begin(talk, name)
        added: dict[str, Any] = {
            "transactional_id": name,
            "producer_id": producer[0],
            "producer_epoch": producer[1],
        }
        if version < 5:
            talk.ask(
                "TxnOffsetCommit",
                version,
                "before the group was added",
                **_offsets(name, group, producer, "sent"),
            )
            talk.ask("AddOffsetsToTxn", version, "of a group", group_id=group, **added)
            talk.ask("AddOffsetsToTxn", version, "without a group", group_id="", **added)
            late: dict[str, Any] = added | {"producer_epoch": producer[1] + 5}
            talk.ask("AddOffsetsToTxn", version, "of a later epoch", group_id=group, **late)
            talk.ask(
                "AddOffsetsToTxn",
                version,
                "of no name",
                group_id=group,
                **(added | {"transactional_id": "sent-none"}),
            )
        talk.ask("TxnOffsetCommit", version, "of a partition", **_offsets(name, group, producer, "sent"))
        talk.ask(
            "TxnOffsetCommit",
            version,
            "of no partition",
            **_offsets(name, group, producer, "sent", partition=9),
        )
        talk.ask("TxnOffsetCommit", version, "of no topic", **_offsets(name, group, producer, "sent-none"))
        if version >= 3:
            more: dict[str, Any] = {"member_id": "stranger", "generation_id": 3}
            talk.ask(
                "TxnOffsetCommit", version, "of a stranger", **_offsets(name, group, producer, "sent", **more)
            )
        asked = [{"group_id": group, "topics": [{"name": "sent", "partition_indexes": [0]}]}]
        talk.ask("OffsetFetch", 8, "of open offsets", groups=asked)
        _end(talk, 5 if version == 5 else min(version, 4), "with offsets", name, producer, True)
        stable = talk.settled("OffsetFetch", 8, groups=asked, require_stable=True)
        for _ in range(200):
            if not stable.groups[0].topics[0].partitions[0].error_code:
                break
            stable = talk.settled("OffsetFetch", 8, groups=asked, require_stable=True)
        talk.note("OffsetFetch", 8, "of committed offsets", stable)


def seen(talk: Talk) -> None:
    """Only this conversation's own are compared."""
    topic = Topic(talk, "seen")
    producer = _begin(talk, "seen-open")
    _begin(talk, "seen-empty")
    _add(talk, 3, "to be seen", "seen-open", producer, "seen")
    records = batch(b"a", at_ms=talk.started_ms, producer=(*producer, 0), attributes=TRANSACTIONAL)
    topic.produce(11, "to be seen", records, transactional_id="seen-open")
    talk.ask(
        "DescribeTransactions", 0, "of three", transactional_ids=["seen-open", "seen-empty", "seen-none", ""]
    )
    talk.ask("DescribeProducers", 0, "of an open one", topics=[{"name": "seen", "partition_indexes": [0]}])
    for version in versions("ListTransactions"):
        for what, states in (("of all", []), ("that are open", ["Ongoing", "Nonsense"])):
            answer = talk.settled("ListTransactions", version, state_filters=states)
            answer.transaction_states = [
                each for each in answer.transaction_states if each.transactional_id.startswith("seen-")
            ]
            talk.note("ListTransactions", version, what, answer)
    talk.ask("ListTransactions", 2, "by a pattern", transactional_id_pattern="seen-o.*")
    talk.ask("ListTransactions", 2, "by a bad pattern", transactional_id_pattern="(")
    talk.ask("ListTransactions", 0, "of a producer", producer_id_filters=[producer[0]])
    _end(talk, 4, "of what was seen", "seen-open", producer, False)


CONVERSATIONS = (names, first_version, second_version, offsets_sent, seen)
