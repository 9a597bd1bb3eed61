"""Transactions of our own clients over several nodes: what is kept for a commit, late or repeated."""

from typing import Any

import pytest
from tests.routing.kafka_cluster import NODES, PARTITIONS, KafkaCluster, place

from penstock.errors import (
    LeaseLost,
    MessageTooLarge,
    NotOwner,
    ServerUnreachable,
    StorageFailed,
    TransactionBusy,
    TransactionNotOpen,
)
from penstock.groups.transactions import ANYBODY, AckedRun, Decision, log_partition
from penstock.model.info import OpenTransaction
from penstock.model.message import AsyncReceivedMessage, Message

NAMES = {place("", log_partition(name)): name for name in "abcdefghijkl"}  # By coordinator.
GROUP = "workers"


class Program:
    """Asks one node, has received a message of every partition, and has a transaction open."""

    def __init__(self, cluster: KafkaCluster, node: int = 3, coordinator: int = 1) -> None:
        self.cluster = cluster
        self.node = node
        self.name = NAMES[coordinator]
        self.messages = cluster.run(self._receive())
        self.opened: OpenTransaction = self.call("begin_transaction", self.name, "5m")
        self.which = (self.name, self.opened.producer_id, self.opened.epoch)

    async def _receive(self) -> list[AsyncReceivedMessage]:
        broker = self.cluster.nodes[self.node - 1].broker
        self.consumer = await broker.consumer("orders", group=GROUP)
        for partition in range(PARTITIONS):
            await broker.publish("orders", b"%d" % partition, partition=partition)
        messages: list[AsyncReceivedMessage] = []
        while len(messages) < PARTITIONS:
            messages += await self.consumer.receive(PARTITIONS, wait=20)
        return sorted(messages, key=lambda message: message.partition)

    def call(self, operation: str, *arguments: Any, node: int | None = None, local: bool = False) -> Any:
        asked = self.cluster.nodes[(node or self.node) - 1]
        operations = asked.local if local else asked.broker.operations

        async def work() -> Any:
            return await asked.broker.run(getattr(operations, operation)(*arguments))

        return self.cluster.run(work())

    def ack(self) -> None:
        runs = [(run.partition, run.lease, run.start, run.end) for run in self.runs]
        self.call("ack_in_transaction", "orders", GROUP, runs, *self.which)

    def commit(self) -> None:
        self.call("commit_transaction", *self.which)

    @property
    def runs(self) -> list[AckedRun]:
        return [
            AckedRun("orders", GROUP, each.partition, each.delivery.lease, each.offset, each.offset + 1)
            for each in self.messages
        ]

    def decision(self, *, commit: bool = True, number: int = 1) -> Decision:
        return Decision(
            self.opened.producer_id, self.opened.epoch, number, commit, log_partition(self.name), 1
        )

    def at_owner(self, partition: int, operation: str, *arguments: Any) -> Any:
        return self.call(operation, *arguments, node=place("", partition), local=True)

    def hold(self, partition: int, *, epoch: int = 1) -> None:
        self.at_owner(partition, "hold_acks", self.decision(), [(epoch, self.runs[partition])])

    def depth(self) -> int:
        found: int = self.call("describe_group", "orders", GROUP).lag
        return found

    def received_again(self) -> set[int]:
        """What another consumer gets at once, by partition."""

        async def receive() -> set[int]:
            broker = self.cluster.nodes[self.node - 1].broker
            consumer = await broker.consumer("orders", group=GROUP)
            found: set[int] = set()
            while messages := await consumer.receive(PARTITIONS, wait=1.5):
                found |= {message.partition for message in messages}
            await consumer.close()
            return found

        return self.cluster.run(receive())


@pytest.mark.parametrize("coordinator", NODES)
def test_messages_and_acks_over_all_nodes_take_effect_together(
    cluster: KafkaCluster, coordinator: int
) -> None:
    program = Program(cluster, coordinator=coordinator)
    broker = cluster.nodes[1].broker
    cluster.run(broker.create_topic("bills", partitions=PARTITIONS))
    ends = [
        program.call("publish_in_transaction", "bills", [b"%d" % each], *program.which)[0].partition
        for each in range(PARTITIONS)
    ]
    program.ack()
    before = len(cluster.run(broker.read("bills"))), program.depth()
    program.commit()
    program.commit()  # The answer to the first one got lost.

    assert before == (0, PARTITIONS)
    assert len(set(map(place, [""] * len(ends), ends))) == len(NODES)
    assert (len(cluster.run(broker.read("bills"))), program.depth()) == (PARTITIONS, 0)


def test_a_commit_fails_as_a_whole_if_one_owner_has_lost_a_lease(cluster: KafkaCluster) -> None:
    program = Program(cluster)
    program.call("publish_in_transaction", "orders", [b"output"], *program.which)
    program.ack()

    cluster.run(program.consumer.nack(program.messages[2], delay="1h"))
    with pytest.raises(LeaseLost):
        program.commit()
    with pytest.raises(TransactionNotOpen):
        program.commit()
    cluster.run(program.consumer.close())

    assert program.received_again() == set(range(PARTITIONS)) - {2}
    assert program.depth() == PARTITIONS


def test_what_is_kept_for_a_commit_is_given_to_nobody_and_an_abort_returns_it(cluster: KafkaCluster) -> None:
    program = Program(cluster)
    program.ack()
    program.hold(1)
    program.hold(1)  # Its answer got lost.
    cluster.run(program.consumer.close())

    assert program.received_again() == set(range(PARTITIONS)) - {1}
    program.call("abort_transaction", *program.which)
    assert program.received_again() == set(range(PARTITIONS))


def test_a_message_that_is_kept_is_acked_by_a_commit_that_is_tried_again(cluster: KafkaCluster) -> None:
    program = Program(cluster)
    program.ack()
    program.hold(4)  # The coordinator was lost after this.

    program.commit()

    assert program.depth() == 0


def test_a_late_request_to_keep_a_message_is_refused(cluster: KafkaCluster) -> None:
    program = Program(cluster)
    program.ack()
    program.call("abort_transaction", *program.which)

    with pytest.raises(TransactionNotOpen):  # Its decision was there before: nobody would return it.
        program.hold(1)
    with pytest.raises(NotOwner):
        program.hold(2, epoch=7)
    cluster.run(program.consumer.close())

    assert program.received_again() == set(range(PARTITIONS))


def test_acks_that_are_added_while_others_are_kept_are_not_lost(cluster: KafkaCluster) -> None:
    """A commit is refused until every message that it acks is kept for it."""
    program = Program(cluster)
    acks = program.runs
    program.call("stage_acks", acks[:1], *program.which, ANYBODY, node=1, local=True)
    peers = cluster.nodes[0].broker._core.state.transaction_peers
    hold = peers.hold

    def hold_and_add(decision: Decision, some: Any) -> Any:
        yield from hold(decision, some)
        core = cluster.nodes[0].broker._core
        peers.hold = hold
        yield from core.client_transactions.stage_acks(acks[1:], *program.which, ANYBODY)

    peers.hold = hold_and_add
    with pytest.raises(TransactionBusy):
        program.commit()
    program.commit()

    assert program.depth() == 0


def test_a_publish_after_the_end_is_in_no_transaction(cluster: KafkaCluster) -> None:
    """One that is late or repeated must not begin another transaction, which would hold readers up."""
    program = Program(cluster)
    program.call("publish_in_transaction", "orders", [b"output"], *program.which)
    program.commit()
    before = len(cluster.run(cluster.nodes[0].broker.read("orders")))

    with pytest.raises(TransactionNotOpen, match="committed"):
        program.call("publish_in_transaction", "orders", [b"late"], *program.which)
    program.commit()

    assert len(cluster.run(cluster.nodes[0].broker.read("orders"))) == before


def test_a_publish_that_some_owners_have_refused_cannot_be_committed(cluster: KafkaCluster) -> None:
    program = Program(cluster)
    before = len(cluster.run(cluster.nodes[0].broker.read("orders")))
    limit = cluster.nodes[0].broker._core.state.topics["orders"].settings.message_bytes_max
    large = b"x" * (limit + 1)
    both = [Message(b"small", partition=0), Message(large, partition=1)]

    with pytest.raises(MessageTooLarge):
        program.call("publish_in_transaction", "orders", both, *program.which)
    with pytest.raises(TransactionNotOpen, match="aborted"):
        program.commit()

    assert len(cluster.run(cluster.nodes[0].broker.read("orders"))) == before


def test_a_publish_that_an_owner_has_written_in_part_cannot_be_committed(cluster: KafkaCluster) -> None:
    program = Program(cluster, node=2, coordinator=1)
    log = cluster.nodes[1].broker._core.state.topics["orders"].partition(4).log
    both = [Message(b"first", partition=1), Message(b"second", partition=4)]

    log.reject(StorageFailed(path="orders", why="input/output error"))
    with pytest.raises(StorageFailed):
        program.call("publish_in_transaction", "orders", both, *program.which)

    with pytest.raises(TransactionNotOpen, match="aborted"):
        program.commit()


def test_a_commit_that_is_decided_is_waited_for_until_it_is_finished(cluster: KafkaCluster) -> None:
    """An owner is away for a moment: the program must not be told that nothing was committed."""
    program = Program(cluster, coordinator=1)
    program.ack()
    peers = cluster.nodes[0].broker._core.state.transaction_peers
    finish = peers.finish

    def away(*_: object) -> Any:
        peers.finish = finish
        raise ServerUnreachable(server="node 2", why="it is being restarted")

    peers.finish = away
    program.commit()

    assert program.depth() == 0
