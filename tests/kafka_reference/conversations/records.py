"""Records: produced, fetched, found by time."""

from typing import Any, Final

from tests.kafka_reference.batches import batch
from tests.kafka_reference.talk import Talk, versions

TIMEOUT_MS: Final = 9000
COMMITTED: Final = 1


class Topic:
    """A topic by name or id, whatever the version wants."""

    def __init__(self, talk: Talk, name: str, partitions: int = 1, **configs: str) -> None:
        self.talk = talk
        self.name = name
        self.id = talk.topic(name, partitions, **configs)

    def produce(self, version: int, what: str, records: bytes | None, **more: Any) -> Any:
        partition, acks = more.pop("partition", 0), more.pop("acks", -1)
        data = {
            "name": self.name,
            "topic_id": self.id,
            "partition_data": [{"index": partition, "records": records}],
        }
        return self.talk.ask(
            "Produce", version, what, acks=acks, timeout_ms=TIMEOUT_MS, topic_data=[data], **more
        )

    def fetch(self, version: int, what: str, offset: int, **more: Any) -> Any:
        asked = {
            "partition": more.pop("partition", 0),
            "fetch_offset": offset,
            "partition_max_bytes": 1 << 20,
        }
        asked |= more.pop("asked", {})
        wanted = [{"topic": self.name, "topic_id": self.id, "partitions": [asked]}]
        return self.talk.ask("Fetch", version, what, topics=wanted, **more)


def produced(talk: Talk) -> None:
    for version in versions("Produce"):
        topic = Topic(talk, f"produced-{version}", max_message_bytes="2000")
        at_ms = talk.started_ms
        topic.produce(version, "two records", batch(b"a", b"b", at_ms=at_ms))
        topic.produce(version, "with acks 1", batch(b"c", at_ms=at_ms), acks=1)
        topic.produce(version, "with acks 2", batch(b"d", at_ms=at_ms), acks=2)
        topic.produce(version, "with a bad checksum", batch(b"e", crc=1))
        topic.produce(version, "of format 1", batch(b"e", magic=1))
        topic.produce(version, "of an empty batch", batch())
        topic.produce(version, "of two batches", batch(b"f") + batch(b"g"))
        topic.produce(version, "that is cut off", batch(b"f")[:-3])
        topic.produce(version, "of nothing", b"")
        if version == 9:  # Kafka gives no answer, and that takes a while.
            topic.produce(version, "of null", None)
        topic.produce(version, "that is too large", batch(b"x" * 3000))
        topic.produce(version, "to no partition", batch(b"f"), partition=9)
        topic.produce(version, "to partition -1", batch(b"f"), partition=-1)
        topic.produce(version, "of a control batch", batch(b"f", attributes=0x20))
        topic.produce(version, "of an unknown codec", batch(b"f", attributes=7))
        topic.produce(version, "in the future", batch(b"f", at_ms=at_ms + 10_000_000))
        topic.produce(version, "without a transaction", batch(b"f", producer=(77, 0, 0), attributes=0x10))
        topic.produce(version, "of an unknown producer", batch(b"f", producer=(77, 0, 5)))
        topic.produce(version, "of a negative epoch", batch(b"f", producer=(78, -1, 0)))
        topic.name, topic.id = "produced-none", b"x" * 16
        topic.produce(version, "to no topic", batch(b"f"))
        talk.ask("Produce", version, "of no topics", acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[])
        topic.name = "a b"
        if version < 13:
            topic.produce(version, "to a bad name", batch(b"f"))


def produced_compacted(talk: Talk) -> None:
    topic = Topic(talk, "compacted", cleanup_policy="compact")
    for version in versions("Produce"):
        topic.produce(version, "to a compacted topic", batch(b"a"))
        topic.produce(version, "without a key", batch(b"a", key=None))
    stamped = Topic(talk, "stamped", message_timestamp_type="LogAppendTime")
    stamped.produce(9, "with the broker's time", batch(b"a", at_ms=talk.started_ms))
    stamped.fetch(12, "with the broker's time", 0)


def idempotent(talk: Talk) -> None:
    for version in versions("InitProducerId"):
        talk.ask(
            "InitProducerId", version, "without a name", transactional_id=None, transaction_timeout_ms=60000
        )
        talk.ask(
            "InitProducerId", version, "with an empty name", transactional_id="", transaction_timeout_ms=60000
        )
    for version in (3, 8, 9, 11, 12, 13):
        topic = Topic(talk, f"idempotent-{version}")
        got = talk.settled("InitProducerId", 4, transactional_id=None, transaction_timeout_ms=60000)
        pid = got.producer_id

        def send(what: str, sequence: int, epoch: int = 0, *values: bytes, **more: Any) -> None:
            topic, version, pid = more.pop("to")
            records = batch(*(values or (b"a", b"b")), producer=(pid, epoch, sequence))
            topic.produce(version, f"of a producer, {what}", records)

        to: dict[str, Any] = {"to": (topic, version, pid)}
        send("first", 0, **to)
        send("second", 2, **to)
        send("second again", 2, **to)
        send("first again", 0, **to)
        send("with a gap", 9, **to)
        send("other records again", 2, 0, b"x", b"y", **to)
        send("with fewer records again", 2, 0, b"a", **to)
        send("of the next epoch with a gap", 5, 1, **to)
        send("of the next epoch", 0, 1, **to)
        send("of the old epoch", 4, 0, **to)
        topic.fetch(12, "of a producer", 0)
    listed = [
        {"name": "idempotent-9", "partition_indexes": [0, 9]},
        {"name": "idempotent-no", "partition_indexes": [0]},
    ]
    talk.ask("DescribeProducers", 0, "of three", topics=listed)


def fetched(talk: Talk) -> None:
    topic = Topic(talk, "fetched", 2)
    for values in ((b"a", b"b"), (b"c",), (b"d" * 500,)):
        topic.produce(3, "for Fetch", batch(*values, at_ms=talk.started_ms))
    for version in versions("Fetch"):
        topic.fetch(version, "from the beginning", 0)
        topic.fetch(version, "from inside a batch", 1)
        topic.fetch(version, "at the end", 4)
        topic.fetch(version, "behind the end", 5)
        topic.fetch(version, "before the beginning", -1)
        topic.fetch(version, "of a transaction", 0, isolation_level=COMMITTED)
        topic.fetch(version, "of a bad isolation", 0, isolation_level=7)
        topic.fetch(version, "of an empty partition", 0, partition=1)
        topic.fetch(version, "of no partition", 0, partition=9)
        topic.fetch(version, "of few bytes", 0, asked={"partition_max_bytes": 1})
        topic.fetch(version, "of few bytes in all", 0, max_bytes=1)
        topic.fetch(version, "of no bytes", 2, asked={"partition_max_bytes": 0}, max_bytes=0)
        topic.fetch(version, "that waits", 4, max_wait_ms=100, min_bytes=1)
        if version >= 9:
            topic.fetch(version, "of a later leader", 0, asked={"current_leader_epoch": 5})
            topic.fetch(version, "of this leader", 3, asked={"current_leader_epoch": 0})
        if version >= 12:
            topic.fetch(version, "after another leader", 3, asked={"last_fetched_epoch": 5})
            topic.fetch(version, "after this leader", 3, asked={"last_fetched_epoch": 0})
        other = [
            {"topic": "fetched-none", "topic_id": b"x" * 16, "partitions": [{"partition_max_bytes": 100}]}
        ]
        talk.ask("Fetch", version, "of no topic", topics=other)
        talk.ask("Fetch", version, "of no topics", topics=[])
        if version >= 7:
            topic.fetch(version, "with an unknown session", 0, session_id=1234, session_epoch=1)
        if version >= 7:
            topic.fetch(version, "of a new session", 0, session_epoch=0)
        if version < 15:
            topic.fetch(version, "of a replica", 0, replica_id=5)


def listed(talk: Talk) -> None:
    topic = Topic(talk, "listed", 2)
    for distance in (0, 200, 100):
        topic.produce(3, "for ListOffsets", batch(b"a", b"b", at_ms=talk.started_ms + distance))
    for version in versions("ListOffsets"):

        def ask(what: str, at: int, version: int = version, **more: Any) -> None:
            wanted = {"partition_index": more.pop("partition", 0), "timestamp": at}
            if "epoch" in more:
                wanted["current_leader_epoch"] = more.pop("epoch")
            topics = [{"name": more.pop("name", "listed"), "partitions": [wanted]}]
            talk.ask("ListOffsets", version, what, replica_id=-1, topics=topics, **more)

        for at in range(-7, 0):
            ask(f"at {at}", at)
        ask("at -1 of an empty partition", -1, partition=1)
        ask("at -3 of an empty partition", -3, partition=1)
        ask("at the start", talk.started_ms)
        ask("at 50", talk.started_ms + 50)
        ask("at 200", talk.started_ms + 200)
        ask("after all", talk.started_ms + 201)
        ask("at 0", 0)
        ask("of no partition", -1, partition=9)
        ask("of no topic", -1, name="listed-none")
        if version >= 2:
            ask("of committed ones", -1, isolation_level=COMMITTED)
        if version >= 4:
            ask("of a later leader", -1, epoch=5)
            ask("of this leader", -1, epoch=0)


def leader_epochs(talk: Talk) -> None:
    topic = Topic(talk, "epochs")
    topic.produce(3, "for OffsetForLeaderEpoch", batch(b"a", b"b"))
    for version in versions("OffsetForLeaderEpoch"):
        for current, epoch in ((-1, 0), (0, 0), (0, 5), (5, 0), (-1, -1), (0, -5)):
            asked = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
            topics = [{"topic": "epochs", "partitions": [asked]}]
            replica: dict[str, Any] = {"replica_id": -1} if version >= 3 else {}
            talk.ask("OffsetForLeaderEpoch", version, f"{epoch}, now {current}", topics=topics, **replica)
        other = [
            {"topic": "epochs-none", "partitions": [{"partition": 0}]},
            {"topic": "epochs", "partitions": [{"partition": 9}]},
        ]
        talk.ask("OffsetForLeaderEpoch", version, "of no partition", topics=other)


CONVERSATIONS = (produced, produced_compacted, idempotent, fetched, listed, leader_epochs)
