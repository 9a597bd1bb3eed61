"""Kafka transactions over several nodes: with real clients, and with requests that are late or repeated."""

from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from tests.frontends.kafka.raw import Raw
from tests.routing.kafka_cluster import NODES, PARTITIONS, Address, KafkaCluster, place
from tests.transactional import batch

from penstock.errors import (
    NotOwner,
    PenstockError,
    ProducerFenced,
    ProducerUnknown,
    TopicNotFound,
    TransactionNotOpen,
)
from penstock.groups.commits import Commit
from penstock.groups.rebalance import Committer
from penstock.groups.transactions import ANYBODY, Decision, log_partition
from penstock.model.message import Receipt
from penstock.types import TRANSACTIONS
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from penstock.wire.murmur import partition_of

GROUP = "billing"
GROUP_NODE = place("", partition_of(GROUP.encode(), 50))  # Its coordinator.
NAMES = {place("", log_partition(name)): name for name in "abcdefghijkl"}  # By coordinator.


def test_there_is_an_id_for_each_coordinator() -> None:
    assert sorted(NAMES) == list(NODES)


def transactional(cluster: KafkaCluster, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": cluster.address(2), "transactional.id": name})
    producer.init_transactions(20)
    return producer


def write_everywhere(producer: Producer, value: bytes) -> None:
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce("orders", value, partition=partition)


def reader(cluster: KafkaCluster, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.address(3),
            "group.id": group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )


def committed(cluster: KafkaCluster) -> list[tuple[int, bytes]]:
    """What readers of committed records see, by partition."""
    consumer = reader(cluster, "readers")
    ends: set[int] = set()
    found: list[tuple[int, bytes]] = []
    consumer.assign([TopicPartition("orders", number) for number in range(PARTITIONS)])
    while len(ends) < PARTITIONS:
        message = consumer.poll(20)
        assert message is not None
        number, value = message.partition(), message.value()
        assert number is not None
        if message.error() is not None:
            ends.add(number)
        else:
            assert value is not None
            found.append((number, value))
    consumer.close()
    return sorted(found)


# Clients.


@pytest.mark.parametrize("coordinator", NODES)
def test_a_transaction_over_all_nodes_is_seen_as_a_whole_or_not_at_all(
    cluster: KafkaCluster, coordinator: int
) -> None:
    producer = transactional(cluster, NAMES[coordinator])

    write_everywhere(producer, b"kept")
    producer.commit_transaction(20)
    write_everywhere(producer, b"dropped")
    producer.flush(20)
    producer.abort_transaction(20)

    assert committed(cluster) == [(number, b"kept") for number in range(PARTITIONS)]


def test_the_second_producer_of_a_name_ends_the_transaction_of_the_first(cluster: KafkaCluster) -> None:
    first = transactional(cluster, NAMES[1])
    write_everywhere(first, b"first")
    first.flush(20)

    second = transactional(cluster, NAMES[1])
    write_everywhere(second, b"second")
    second.commit_transaction(20)
    with pytest.raises(KafkaException) as refused:
        first.commit_transaction(20)

    assert refused.value.args[0].fatal()
    assert committed(cluster) == [(number, b"second") for number in range(PARTITIONS)]


def test_offsets_of_a_group_count_with_the_transaction(cluster: KafkaCluster) -> None:
    plain = Producer({"bootstrap.servers": cluster.address(1)})
    for partition in range(PARTITIONS):
        plain.produce("orders", b"order", partition=partition)
    assert plain.flush(20) == 0
    consumer = reader(cluster, "billing")
    consumer.subscribe(["orders"])
    seen = 0
    while seen < PARTITIONS:
        message = consumer.poll(20)
        assert message is not None
        seen += message.error() is None
    producer = transactional(cluster, NAMES[3])
    everything = [TopicPartition("orders", number) for number in range(PARTITIONS)]

    for end in (producer.abort_transaction, producer.commit_transaction):
        before = [each.offset for each in consumer.committed(everything, 20)]
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            consumer.position(everything), consumer.consumer_group_metadata(), 20
        )
        end(20)
    after = [each.offset for each in consumer.committed(everything, 20)]
    consumer.close()

    assert all(offset < 0 for offset in before)  # Also after the abort.
    assert after == [1] * PARTITIONS


# Requests.


class Client:
    """Calls the operations of each node as its Kafka front end does, in version 2 of the protocol."""

    def __init__(self, cluster: KafkaCluster, coordinator: int) -> None:
        self.cluster = cluster
        self.name = NAMES[coordinator]
        self.coordinator = coordinator
        self.sequences: dict[int, int] = {}
        self.call(1, "prepare_transactions")
        self.id, self.epoch = self.call(coordinator, "init_producer", self.name, 60_000, -1, -1)

    def call(self, node: int, operation: str, *arguments: Any) -> Any:
        broker = self.cluster.nodes[node - 1].broker

        async def work() -> Any:
            return await broker.run(getattr(broker.operations, operation)(*arguments))

        return self.cluster.run(work())

    def append(self, partition: int, *, add: bool = True, epoch: int | None = None) -> Receipt:
        data = batch([b"x"], self.id, epoch or self.epoch, self.sequences.get(partition, 0))
        batches = [(partition, data)]
        owner = place("", partition)
        [found] = self.call(owner, "append_in_transaction", "orders", batches, True, self.name, add)
        if isinstance(found, PenstockError):
            raise found
        self.sequences[partition] = self.sequences.get(partition, 0) + 1
        assert isinstance(found, Receipt)
        return found

    def end(self, *, commit: bool) -> None:
        self.id, self.epoch = self.call(self.coordinator, "end_epoch", self.name, self.id, self.epoch, commit)
        self.sequences.clear()

    def commit_offset(self, partition: int, offset: int) -> Code:
        by = Committer(member="", instance=None, generation=-1, transactional=True)
        commits = {partition: Commit(offset)}
        asked = "orders", GROUP, commits, self.name, self.id, self.epoch, by, False
        code: Code = self.call(GROUP_NODE, "enlist_commits", *asked)
        return code

    def decision(self, number: int, coordinator_epoch: int = 1) -> Decision:
        return Decision(self.id, self.epoch, number, True, log_partition(self.name), coordinator_epoch)

    def open_on(self, partition: int) -> bool:
        topic = self.cluster.nodes[place("", partition) - 1].broker._core.state.topics["orders"]
        return self.id in topic.partitions[partition].log.transactions.open


def test_a_first_batch_enlists_its_partition_at_another_node(cluster: KafkaCluster) -> None:
    client = Client(cluster, 1)

    for partition in range(PARTITIONS):
        client.append(partition)
    client.end(commit=True)

    assert committed(cluster) == [(number, b"x") for number in range(PARTITIONS)]


def test_a_batch_of_a_partition_that_was_not_added_is_refused(cluster: KafkaCluster) -> None:
    client = Client(cluster, 1)
    client.append(2)

    with pytest.raises(TransactionNotOpen):
        client.append(1, add=False)
    with pytest.raises(ProducerFenced):
        client.append(1, epoch=client.epoch + 1)
    with pytest.raises(ProducerUnknown):  # In a request without a transactional id.
        client.call(2, "append", "orders", 1, batch([b"x"], client.id, client.epoch, 0))

    assert not client.open_on(1)


def test_a_fenced_producer_is_refused_by_every_node(cluster: KafkaCluster) -> None:
    client = Client(cluster, 1)
    client.append(1)
    client.call(1, "init_producer", client.name, 60_000, -1, -1)

    for partition in range(3):
        with pytest.raises((ProducerFenced, PenstockError)) as refused:
            client.append(partition)
        assert isinstance(refused.value, ProducerFenced)

    assert not client.open_on(1)


def test_a_late_decision_does_not_end_the_next_transaction(cluster: KafkaCluster) -> None:
    client = Client(cluster, 1)
    client.append(1)
    client.end(commit=True)
    late = client.decision(1)
    client.append(1)

    client.call(
        2, "finish_transaction", late, [("orders", 1, 1)], [("billing", "orders", {1: Commit(1)})], []
    )

    assert client.open_on(1)
    assert client.call(1, "committed_offsets", "orders", "billing") == {}
    client.end(commit=True)
    assert not client.open_on(1)


def test_a_coordinator_that_was_replaced_decides_nothing(cluster: KafkaCluster) -> None:
    client = Client(cluster, 1)
    client.append(1)
    client.call(2, "finish_transaction", client.decision(0, coordinator_epoch=2), [], [], [])

    with pytest.raises(NotOwner):
        client.call(2, "finish_transaction", client.decision(1), [("orders", 1, 1)], [], [])
    with pytest.raises(NotOwner):  # And a batch that it confirms is not taken.
        client.append(4)

    assert client.open_on(1)


def test_a_decision_for_an_earlier_ownership_of_a_partition_is_refused(cluster: KafkaCluster) -> None:
    client = Client(cluster, 1)
    client.append(1)

    with pytest.raises(NotOwner):
        client.call(2, "finish_transaction", client.decision(1), [("orders", 1, 7)], [], [])

    assert client.open_on(1)


def test_a_batch_that_is_confirmed_after_the_end_is_refused(cluster: KafkaCluster) -> None:
    """Its confirmation was on the way when the transaction ended: no marker would follow."""
    client = Client(cluster, 1)
    client.append(1)
    participants = cluster.nodes[1].broker._core.participants
    confirmed = client.call(
        1, "confirm_enlisted", client.name, client.id, client.epoch, ("orders", 4), "begin", ANYBODY
    )
    client.call(2, "finish_transaction", client.decision(confirmed.number), [("orders", 4, 1)], [], [])

    with pytest.raises(TransactionNotOpen):
        participants._check_confirmed(log_partition(client.name), client.id, confirmed)


def test_offsets_that_a_transaction_may_commit_are_known_at_every_coordinator(
    cluster: KafkaCluster,
) -> None:
    client = Client(cluster, 1)
    client.call(1, "enlist_group", client.name, client.id, client.epoch, GROUP)
    client.commit_offset(4, 3)

    before = client.call(GROUP_NODE, "unsettled_offsets", "orders", GROUP, [3, 4])
    client.end(commit=True)
    after = client.call(GROUP_NODE, "unsettled_offsets", "orders", GROUP, [3, 4])

    assert before == [4]
    assert after == []
    assert client.call(3, "committed_offsets", "orders", GROUP)[4].offset == 3
    for node in set(NODES) - {GROUP_NODE}:  # It may be a former coordinator, whose members were replaced.
        with pytest.raises(NotOwner):
            client.call(node, "unsettled_offsets", "orders", GROUP, [3, 4])


@pytest.mark.parametrize("coordinator", NODES)
def test_an_offset_enlists_its_group_whichever_node_coordinates_the_transaction(
    cluster: KafkaCluster, coordinator: int
) -> None:
    """Clients with KIP-890 send it to the coordinator of the group, without a request before."""
    client = Client(cluster, coordinator)
    offset = TxnOffsetCommitRequestPartition(partition_index=4, committed_offset=3)
    asked = TxnOffsetCommitRequest(
        transactional_id=client.name,
        group_id=GROUP,
        producer_id=client.id,
        producer_epoch=client.epoch,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[offset])],
    )

    with Raw(Address(cluster.address(GROUP_NODE))) as raw:
        [answer] = raw.ask(asked, TxnOffsetCommitResponse, 5).topics
    client.end(commit=True)

    assert answer.partitions[0].error_code == 0

    assert client.call(3, "committed_offsets", "orders", GROUP)[4].offset == 3


def test_offsets_of_a_former_group_coordinator_are_not_part_of_a_transaction(cluster: KafkaCluster) -> None:
    """A member of its successor may have read the offsets that they would replace."""
    client = Client(cluster, 1)
    client.call(1, "enlist_group", client.name, client.id, client.epoch, GROUP)
    staged = "orders", GROUP, {4: Commit(3)}, client.name, client.id, client.epoch, False

    with pytest.raises(NotOwner):
        client.call(1, "stage_commits", *staged, 0, ANYBODY)
    with pytest.raises(NotOwner):
        client.call(1, "held_offsets", "orders", GROUP, [4], [log_partition(client.name)], 0)
    client.end(commit=True)

    assert client.call(3, "committed_offsets", "orders", GROUP) == {}


@pytest.mark.parametrize("node", NODES)
def test_no_client_reaches_the_transaction_log(cluster: KafkaCluster, node: int) -> None:
    client = Client(cluster, 1)

    for operation, *arguments in (
        ("publish_batch", TRANSACTIONS, [b"x"]),
        ("append", TRANSACTIONS, 0, batch([b"x"], -1, -1, -1, 0)),
        ("read", TRANSACTIONS, 0, 0, None, None, 10),
        ("describe_topic", TRANSACTIONS),
        ("delete_topic", TRANSACTIONS),
        ("consumer", TRANSACTIONS, "group", None, None, None, {}),
    ):
        with pytest.raises(TopicNotFound):
            client.call(node, operation, *arguments)
