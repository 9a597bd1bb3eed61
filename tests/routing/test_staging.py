"""Staged publishes where the staging log, the intents and the partitions have different owners."""

import time
from typing import Any

import pytest
from tests.routing.kafka_cluster import PARTITIONS, KafkaCluster, place
from tests.server.process import until
from tests.staged import batch

from penstock.errors import InvalidName, NotOwner, PartitionNotFound, QueueFull, StagedMissing
from penstock.model.info import StagedPublish
from penstock.wire.headers import STAGED_DELAY
from penstock.wire.records import SCHEDULED
from penstock.wire.staged import STAGING, encode_staged

STAGING_AT = 2
INTENTS_AT = place("orders", 0)
ASKED = 3
Staged = dict[str, list[tuple[int, int]]]


class Job:
    """Stages and publishes at a node that has neither the staging log nor the intents."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster = cluster
        for node in cluster.nodes:
            node.table.change(lambda topic, number: STAGING_AT if topic == STAGING else place(topic, number))

    def call(self, operation: str, *arguments: Any, node: int = ASKED) -> Any:
        asked = self.cluster.nodes[node - 1]

        async def work() -> Any:
            return await asked.broker.run(getattr(asked.broker.operations, operation)(*arguments))

        return self.cluster.run(work())

    def stage(self, token: str, *parts: tuple[int, bytes], topic: str = "orders") -> Staged:
        first = self.call("stage", topic, encode_staged(token, list(parts)))
        return {token: [(first, first + len(parts))]}

    def publish(self, version: int, staged: Staged, topic: str = "orders") -> StagedPublish:
        done: StagedPublish = self.call("publish_staged", topic, "job", version, staged)
        return done

    def values(self, topic: str = "orders") -> list[bytes]:
        broker = self.cluster.nodes[ASKED - 1].broker
        found = self.cluster.run(broker.read(topic, limit=1000))
        return sorted(message.value or b"" for message in found)


@pytest.fixture
def job(cluster: KafkaCluster) -> Job:
    return Job(cluster)


EVERYWHERE = [(number, batch([b"%d" % number])) for number in range(PARTITIONS)]
VALUES = [b"%d" % number for number in range(PARTITIONS)]


def test_what_is_staged_at_one_node_is_published_once_by_the_owners_of_all_partitions(job: Job) -> None:
    staged = job.stage("task", *EVERYWHERE)
    before = job.values()

    first, again = job.publish(3, staged), job.publish(3, staged)

    assert (before, job.values()) == ([], VALUES)
    assert (first.published, first.duplicate) == (PARTITIONS, False)
    assert (again.published, again.duplicate) == (0, True)
    assert job.call("published_version", "orders", "job") == 3
    assert job.cluster.nodes[STAGING_AT - 1].broker._core.state.topics[STAGING].partitions[0].log.end > 0


def test_an_intent_whose_partitions_cannot_be_reached_is_finished_later(job: Job) -> None:
    staged = job.stage("task", *EVERYWHERE)
    state = job.cluster.nodes[INTENTS_AT - 1].broker._core.state
    peers: Any = state.staging_peers
    place_all, calls = peers.place, 0

    def place_some(topic: str, batches: Any, *arguments: Any) -> Any:
        """At first only a part is placed; then what was placed is placed again."""
        nonlocal calls
        calls += 1
        if calls == 1:
            yield from place_all(topic, {number: batches[number] for number in (0, 1, 2)}, *arguments)
            raise NotOwner(topic=topic, partition=3, owner=-1, epoch=0)
        yield from place_all(topic, batches, *arguments)

    peers.place = place_some
    done = job.publish(3, staged)

    assert (done.published, done.duplicate) == (0, True)  # The router has repeated it.
    assert job.values() == VALUES
    assert calls == 2


def test_an_intent_is_finished_without_anybody_asking(job: Job) -> None:
    staged = job.stage("task", *EVERYWHERE)
    state = job.cluster.nodes[INTENTS_AT - 1].broker._core.state
    peers: Any = state.staging_peers
    place_all = peers.place

    def fail(topic: str, *_: Any) -> Any:
        peers.place = place_all
        yield from ()
        raise PartitionNotFound(topic=topic, partition=3, last=2)

    peers.place = fail
    with pytest.raises(PartitionNotFound):
        job.publish(3, staged)

    until(lambda: not state.topics["orders"].intents.pending)
    assert job.values() == VALUES


def test_a_delayed_message_that_is_placed_again_is_scheduled_once(job: Job) -> None:
    delayed = batch([b"later"], SCHEDULED, [(STAGED_DELAY, b"3600000")])
    batches = {1: [(0, delayed), (1, batch([b"now"]))]}

    for _ in range(2):
        job.call("place_staged", "orders", batches, 77, int(1000 * time.time()), node=2)

    assert job.values() == [b"now"]
    assert job.call("scheduled_count", "orders") == 1


def test_what_is_not_staged_or_refused_by_a_partition_publishes_nothing(job: Job) -> None:
    staged = job.stage("task", *EVERYWHERE)
    wrong = job.stage("wrong", (PARTITIONS, batch([b"x"])))

    with pytest.raises(StagedMissing, match="'other'"):
        job.publish(4, {"other": staged["task"]})
    with pytest.raises(StagedMissing, match="offset 99"):
        job.publish(4, {"task": [(0, 99)]})
    with pytest.raises(PartitionNotFound):
        job.publish(4, {**staged, **wrong})
    with pytest.raises(InvalidName):
        job.stage("task", *EVERYWHERE, topic="a/b")

    assert job.values() == []
    assert job.call("published_version", "orders", "job") is None


def test_a_full_partition_of_another_node_refuses_a_staged_publish(job: Job) -> None:
    broker = job.cluster.nodes[0].broker
    job.cluster.run(broker.create_topic("bounded", partitions=3, depth_max=6))
    job.cluster.run(broker.create_group("bounded", "g"))
    for _ in range(2):
        job.cluster.run(broker.publish("bounded", b"x", partition=1))

    with pytest.raises(QueueFull):
        job.publish(0, job.stage("task", (1, batch([b"y"])), topic="bounded"), topic="bounded")
    done = job.publish(0, job.stage("task", (2, batch([b"y"])), topic="bounded"), topic="bounded")

    assert (done.published, job.values("bounded")) == (1, [b"x", b"x", b"y"])


def test_staging_keeps_what_intents_of_other_nodes_may_need_for_an_hour_after_a_takeover(job: Job) -> None:
    job.stage("task", *EVERYWHERE)
    staging = job.cluster.nodes[STAGING_AT - 1].broker._core.staging
    clock = staging._state.clock

    assert staging.needed_from(6) == 0
    staging._taken_over = (staging._taken_over[0], clock.steady_ms() - 3_600_000)
    assert staging.needed_from(6) == 6
