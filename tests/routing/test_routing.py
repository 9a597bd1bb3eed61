"""Requests to a node of a cluster whose partitions are spread over other nodes."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.clustered import ClusterServer
from tests.server.process import until

import penstock
from penstock.errors import Forbidden, LeaseLost, NotOwner, OutcomeUnknown, QueueFull, ServerUnreachable
from penstock.model.access import Grant
from penstock.model.message import Message
from penstock.wire.murmur import partition_of

PARTITIONS = 4


class SpreadServer(ClusterServer):
    """Node 1, which owns nothing, in front of nodes 2 and 3, which own every other partition."""

    node_count = 3

    def place(self, _: str, partition: int) -> int:
        return 2 + partition % 2


@pytest.fixture
def server() -> Iterator[SpreadServer]:
    with SpreadServer() as server:
        yield server


@pytest.fixture
def broker(server: SpreadServer) -> Iterator[Any]:
    with penstock.connect(server.url) as broker:
        broker.create_topic("orders", partitions=PARTITIONS)
        yield broker


def stored(server: SpreadServer, number: int) -> dict[int, int]:
    """Messages by partition at one node."""
    topic = server.nodes[number - 1].broker._core.state.topics["orders"]
    return {
        partition.number: partition.log.high for partition in topic.partitions.owned if partition.log.high
    }


KEYS = [f"key-{number}" for number in range(20)]


def test_messages_go_to_the_owner_of_the_partition_of_their_key(server: SpreadServer, broker: Any) -> None:
    receipts = [broker.publish("orders", b"x", key=key) for key in KEYS]

    assert [receipt.partition for receipt in receipts] == [partition_of(key.encode(), 4) for key in KEYS]
    assert set(stored(server, 2)) == {0, 2}
    assert set(stored(server, 3)) == {1, 3}
    assert stored(server, 1) == {}
    assert sum(stored(server, 2).values()) + sum(stored(server, 3).values()) == len(KEYS)


def test_a_batch_for_several_owners_is_split_and_its_receipts_keep_their_order(broker: Any) -> None:
    # Messages with a time to live are placed by the server, and the others by the client.
    for ttl in (None, "1h"):
        receipts = broker.publish_batch("orders", [Message(key.encode(), key, ttl=ttl) for key in KEYS])

        found = [
            broker.read("orders", partition=each.partition, offset=each.offset, limit=1) for each in receipts
        ]
        assert [message.value.decode() for [message] in found] == KEYS


def test_a_description_is_made_of_those_of_all_owners(broker: Any) -> None:
    broker.publish_batch("orders", [Message(b"x", key) for key in KEYS])
    broker.publish("orders", b"later", delay="1h", partition=1)
    broker.create_group("orders", "billing")

    topic = broker.describe_topic("orders")
    group = broker.describe_group("orders", "billing")

    assert (topic.messages, topic.scheduled, topic.published) == (len(KEYS), 1, len(KEYS))
    assert [each.partition for each in topic.partitions] == [0, 1, 2, 3]
    assert topic.groups == ["billing"]
    assert group.lag == len(KEYS)
    assert [each.partition for each in group.partitions] == [0, 1, 2, 3]
    assert sum(broker.offsets("orders", "latest").values()) == len(KEYS)
    assert broker.stats().partitions == PARTITIONS
    assert len(broker.read("orders", limit=100)) == len(KEYS)
    assert len(broker.peek("orders", 7)) == 7
    assert [each.partition for each in broker.scheduled("orders")] == [1]


def test_a_consumer_gets_the_messages_of_all_owners(server: SpreadServer, broker: Any) -> None:
    broker.publish_batch("orders", [Message(key.encode(), key) for key in KEYS])
    consumer = broker.consumer("orders", group="billing", heartbeat=False)

    received = []
    while messages := consumer.receive(6):
        assert len(messages) <= 6
        received += messages
    consumer.ack(received)

    assert sorted(message.value.decode() for message in received) == sorted(KEYS)
    info = broker.describe_group("orders", "billing")
    assert (info.lag, info.in_flight, info.acked) == (0, 0, len(KEYS))
    assert len(info.consumers) == 1  # The same at both owners.


@pytest.mark.parametrize("partition", range(PARTITIONS))
def test_a_consumer_waits_at_all_owners(server: SpreadServer, broker: Any, partition: int) -> None:
    consumer = broker.consumer("orders", group="billing", heartbeat=False)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(consumer.receive, 5, wait="1h")
        for node in server.nodes[1:]:
            until_waiting(server, node.number)

        broker.publish("orders", b"x", partition=partition)

        [message] = waiting.result(10)
    assert (message.value, message.partition) == (b"x", partition)
    message.ack()
    assert broker.describe_group("orders", "billing").lag == 0


def until_waiting(server: SpreadServer, number: int) -> None:
    """Until a receive waits at a node."""
    topic = server.nodes[number - 1].broker._core.state.topics["orders"]
    looked = threading.Event()
    for _ in range(5000):
        if topic.waiters:
            return
        looked.wait(0.001)
    raise AssertionError("nobody waits")


def test_what_a_closed_consumer_held_comes_again_at_every_owner(broker: Any) -> None:
    broker.publish_batch("orders", [Message(b"x", key) for key in KEYS])
    first = broker.consumer("orders", group="billing", heartbeat=False)
    held = first.receive(100) + first.receive(100)
    assert len(held) == len(KEYS)

    first.close()

    second = broker.consumer("orders", group="billing", heartbeat=False)
    assert len(second.receive(100) + second.receive(100)) == len(KEYS)


def test_nack_reject_and_extend_reach_the_owner_of_the_message(broker: Any) -> None:
    broker.publish_batch("orders", [Message(b"x", partition=number) for number in range(PARTITIONS)])
    consumer = broker.consumer("orders", group="billing", heartbeat=False)
    messages = sorted(consumer.receive(2) + consumer.receive(4), key=lambda message: message.partition)

    messages[0].nack(delay="1h")
    messages[1].nack(delay="1h")
    messages[2].extend("2h")
    messages[3].extend("2h")

    info = broker.describe_group("orders", "billing")
    assert (info.waiting_retry, info.in_flight) == (2, 2)
    messages[2].ack()
    messages[3].ack()
    assert broker.describe_group("orders", "billing").lag == 2


def test_a_stream_group_reads_the_partitions_of_all_owners(broker: Any) -> None:
    broker.publish_batch("orders", [Message(key.encode(), key) for key in KEYS])
    consumer = broker.consumer("orders", group="lake", kind="stream", heartbeat=False)

    received = []
    while messages := consumer.receive(7):
        received += messages
    consumer.commit()

    assert consumer.assignment == [0, 1, 2, 3]

    assert sorted(message.value.decode() for message in received) == sorted(KEYS)
    assert broker.describe_group("orders", "lake").lag == 0
    consumer.close()


def test_a_reader_commits_at_every_owner(broker: Any) -> None:
    broker.publish_batch("orders", [Message(b"x", partition=number) for number in range(PARTITIONS)])

    broker.commit_offsets("orders", "lake", {0: 1, 1: 1, 2: 1})

    assert broker.describe_group("orders", "lake").lag == 1


def test_a_trace_and_a_schedule_are_found_by_their_id(broker: Any) -> None:
    receipts = [broker.publish("orders", b"x", partition=number) for number in range(PARTITIONS)]
    later = [broker.publish("orders", b"x", partition=number, delay="1h") for number in range(PARTITIONS)]

    assert [broker.trace(receipt.id).partition for receipt in receipts] == [0, 1, 2, 3]
    assert [broker.cancel(receipt.id) for receipt in later] == ["cancelled"] * PARTITIONS
    assert broker.scheduled_count("orders") == 0


def test_a_producer_repeats_a_batch_at_the_owner(broker: Any) -> None:
    producer = broker.producer()

    receipts = [producer.publish("orders", b"x", key=key) for key in KEYS]

    assert len({receipt.id for receipt in receipts}) == len(KEYS)
    assert broker.describe_topic("orders").messages == len(KEYS)


# Owners that change.


def test_a_request_to_a_former_owner_is_sent_to_the_owner(server: SpreadServer, broker: Any) -> None:
    table = server.nodes[0].table
    place, table.place = table.place, lambda _, __: 2  # It is behind: node 3 owns partitions 1 and 3.
    with ThreadPoolExecutor() as threads:
        publishing = threads.submit(broker.publish, "orders", b"x", partition=1)
        until(lambda: table.refreshed > 0)
        assert not publishing.done()

        server.run(changed(table, place))

        assert publishing.result(10).partition == 1
    assert stored(server, 3) == {1: 1}
    assert broker.describe_topic("orders").messages == 1


def test_a_request_waits_for_a_node_that_does_not_know_a_new_topic_yet(
    server: SpreadServer, broker: Any
) -> None:
    table, topics = server.nodes[0].table, server.nodes[2].broker._core.state.topics
    topic = topics.pop("orders")
    with ThreadPoolExecutor() as threads:
        describing = threads.submit(broker.describe_topic, "orders")
        until(lambda: table.refreshed > 0)
        assert not describing.done()

        topics["orders"] = topic
        server.run(changed(table, table.place))

        assert len(describing.result(10).partitions) == PARTITIONS


async def changed(table: Any, place: Any) -> None:
    table.change(place)


def test_a_request_waits_for_an_owner_that_cannot_be_reached(server: SpreadServer, broker: Any) -> None:
    table = server.nodes[0].table
    address = table.addresses.pop(3)  # It is fenced, and its partitions are nobody's yet.
    with ThreadPoolExecutor() as threads:
        publishing = threads.submit(broker.publish, "orders", b"x", partition=1)
        until(lambda: table.refreshed > 0)

        table.addresses[3] = address
        server.run(changed(table, table.place))

        assert publishing.result(10).offset == 0


def test_the_wait_for_an_owner_ends(server: SpreadServer, broker: Any) -> None:
    table = server.nodes[0].table
    del table.addresses[3]
    with ThreadPoolExecutor() as threads:
        reading = threads.submit(broker.read, "orders", partition=1)
        until(lambda: table.refreshed > 0)

        server.advance("20s")

        with pytest.raises((ServerUnreachable, NotOwner), match="node 3"):
            reading.result(10)


def test_a_consumer_follows_a_partition_that_moves(server: SpreadServer, broker: Any) -> None:
    consumer = broker.consumer("orders", group="billing", heartbeat=False)
    assert consumer.receive(1) == []

    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(consumer.receive, 5, wait="1h")
        until_waiting(server, 2)
        server.run(move(server, 0, 2, 3))
        server.run(move(server, 2, 2, 3))

        broker.publish("orders", b"x", partition=0)

        [message] = waiting.result(10)
    message.ack()
    assert stored(server, 3) == {0: 1}
    assert broker.describe_group("orders", "billing").lag == 0


async def move(server: SpreadServer, partition: int, source: int, target: int) -> None:
    """An empty partition gets another owner."""
    before = server.nodes[0].table.place
    for node in server.nodes:
        node.table.place = lambda topic, number: target if number == partition else before(topic, number)
    old, new = server.nodes[source - 1].broker, server.nodes[target - 1].broker
    await old.run(old._core.close_partition("orders", partition, target, 2))
    await new.run(new._core.open_partition("orders", partition, 2))
    for node in server.nodes:
        node.table.epochs["orders", partition] = 2
        node.table.change(node.table.place)


def create(broker: Any) -> None:
    broker.create_group("orders", "others")


def seek(broker: Any) -> None:
    broker.seek("orders", "g", "latest")


def delete(broker: Any) -> None:
    broker.delete_group("orders", "g")


def purge(broker: Any) -> None:
    broker.purge("orders", "g")


CHANGES = {
    create: {"groups": {"g", "others"}, "lag": PARTITIONS},
    seek: {"groups": {"g"}, "lag": 0},
    purge: {"groups": {"g"}, "lag": 0},
    delete: {"groups": set(), "lag": 0},
}


def groups(server: SpreadServer) -> list[dict[str, Any]]:
    """What became of the groups at nodes 2 and 3 together, for each partition alike."""
    found = []
    for node in server.nodes[1:]:
        for partition in node.broker._core.state.topics["orders"].partitions.owned:
            cursor = partition.groups.get("g")
            lag = 0 if cursor is None else cursor.engine.lag(cursor.high)
            found.append({"groups": set(partition.groups), "lag": lag * PARTITIONS})
    return found


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_a_whole_group_leaves_out_no_partition_that_moves(
    server: SpreadServer, broker: Any, change: Any
) -> None:
    """The node that is asked does not know yet that node 3 owns partitions 1 and 3."""
    broker.create_group("orders", "g", start="earliest")
    for partition in range(PARTITIONS):
        broker.publish("orders", b"x", partition=partition)
    table = server.nodes[0].table
    place, table.place = table.place, lambda _, __: 2
    with ThreadPoolExecutor() as threads:
        changing = threads.submit(change, broker)
        until(lambda: table.refreshed > 0)
        assert not changing.done()

        server.run(changed(table, place))

        changing.result(10)
    assert groups(server) == [CHANGES[change]] * PARTITIONS


@pytest.mark.parametrize("change", [seek, delete])
def test_a_change_of_a_whole_group_is_repeated_if_a_partition_was_away_meanwhile(
    server: SpreadServer, broker: Any, change: Any
) -> None:
    broker.create_group("orders", "g", start="earliest")
    local: Any = server.nodes[1].local
    name = "seek" if change is seek else "delete_group"
    original, calls = getattr(local, name), []

    def away_and_back(*arguments: Any) -> Any:
        calls.append(arguments)
        yield from original(*arguments)
        if len(calls) == 1:
            server.nodes[1].broker._core.state.topics["orders"].partitions[0].epoch = 2
            for node in server.nodes:
                node.table.epochs["orders", 0] = 2

    setattr(local, name, away_and_back)
    table = server.nodes[0].table
    with ThreadPoolExecutor() as threads:
        changing = threads.submit(change, broker)
        until(lambda: table.refreshed > 0)
        server.run(changed(table, table.place))
        changing.result(10)

    assert len(calls) == 2
    assert [each["groups"] for each in groups(server)] == [CHANGES[change]["groups"]] * PARTITIONS


def test_descriptions_leave_out_no_partition_that_moves(server: SpreadServer, broker: Any) -> None:
    for partition in range(PARTITIONS):
        broker.publish("orders", b"x", partition=partition)
    table = server.nodes[0].table
    place, table.place = table.place, lambda _, __: 2
    with ThreadPoolExecutor() as threads:
        reading = threads.submit(broker.offsets, "orders", "latest")
        until(lambda: table.refreshed > 0)

        server.run(changed(table, place))

        assert reading.result(10) == dict.fromkeys(range(PARTITIONS), 1)


def test_a_lost_connection_to_an_owner_gives_its_messages_back(server: SpreadServer, broker: Any) -> None:
    broker.publish_batch("orders", [Message(b"x", partition=number) for number in range(PARTITIONS)])
    consumer = broker.consumer("orders", group="billing", heartbeat=False)
    held = consumer.receive(2) + consumer.receive(4)
    assert len(held) == PARTITIONS

    server.run(cut(server, 3))

    for message in held:
        if message.partition % 2 == 0:
            message.ack()
        else:
            with pytest.raises((LeaseLost, OutcomeUnknown)):
                message.ack()
    again = consumer.receive(4)
    assert sorted(message.partition for message in again) == [1, 3]
    consumer.ack(again)
    assert broker.describe_group("orders", "billing").lag == 0


async def cut(server: SpreadServer, number: int) -> None:
    for connection in list(server.nodes[number - 1].listener.connections.open):
        connection.abort()


def test_a_batch_that_may_have_been_written_is_sent_again_with_the_same_numbers(
    server: SpreadServer, broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = break_connection_after(server, "append_batches", monkeypatch)
    with ThreadPoolExecutor() as threads:
        publishing = threads.submit(broker.publish, "orders", b"x", partition=1)
        until(lambda: server.nodes[0].table.refreshed > 0)
        server.advance("1s")

        receipt = publishing.result(10)

    assert lost
    assert (receipt.partition, receipt.offset) == (1, 0)
    assert stored(server, 3) == {1: 1}


def test_a_message_without_numbers_that_may_have_been_written_is_not_sent_again(
    server: SpreadServer, broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = break_connection_after(server, "publish_batch", monkeypatch)

    with pytest.raises(OutcomeUnknown):
        broker.publish("orders", b"x", partition=1, ttl="1h")

    assert lost
    assert stored(server, 3) == {1: 1}


def test_a_batch_that_may_have_been_written_is_never_said_to_be_refused(
    server: SpreadServer, broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = server.nodes[0].table
    break_connection_after(server, "append_batches", monkeypatch, lambda: table.addresses.pop(3))
    with ThreadPoolExecutor() as threads:
        publishing = threads.submit(broker.publish, "orders", b"x", partition=1)
        until(lambda: table.refreshed > 0)
        server.advance("20s")  # The owner does not come back.

        with pytest.raises(OutcomeUnknown):
            publishing.result(10)


@pytest.mark.parametrize("whole", [True, False])
def test_a_later_refusal_for_now_says_nothing_of_the_first_attempt(
    server: SpreadServer, broker: Any, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    def refuse(*_: Any) -> Any:
        full = QueueFull(what="the node", limit=1)
        if whole:
            raise full
        return [full]
        yield

    owner = server.nodes[2]
    break_connection_after(
        server,
        "append_batches",
        monkeypatch,
        lambda: monkeypatch.setattr(owner.local, "append_batches", refuse),
    )
    with ThreadPoolExecutor() as threads:
        publishing = threads.submit(broker.publish, "orders", b"x", partition=1)
        until(lambda: server.nodes[0].table.refreshed > 0)
        server.advance("1s")

        with pytest.raises(OutcomeUnknown):
            publishing.result(10)


def test_the_same_is_true_of_operations_that_are_not_publishes(
    server: SpreadServer, broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise QueueFull(what="the node", limit=1)
        yield

    local = server.nodes[2].local
    break_connection_after(
        server, "create_group", monkeypatch, lambda: monkeypatch.setattr(local, "create_group", refuse)
    )
    with ThreadPoolExecutor() as threads:
        creating = threads.submit(broker.create_group, "orders", "billing")
        until(lambda: server.nodes[0].table.refreshed > 0)
        server.advance("1s")

        with pytest.raises(OutcomeUnknown):
            creating.result(10)


def test_of_a_split_batch_only_what_was_not_written_is_sent_again(
    server: SpreadServer, broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = server.nodes[0].table
    address = table.addresses.pop(2)
    lost = break_connection_after(server, "publish_batch", monkeypatch)
    messages = [Message(b"x", partition=number, ttl="1h") for number in range(PARTITIONS)]
    with ThreadPoolExecutor() as threads:
        publishing = threads.submit(broker.publish_batch, "orders", messages)
        until(lambda: table.refreshed > 0)
        table.addresses[2] = address
        server.run(changed(table, table.place))

        with pytest.raises(OutcomeUnknown):
            publishing.result(10)

    assert lost
    assert (stored(server, 2), stored(server, 3)) == ({0: 1, 2: 1}, {1: 1, 3: 1})


def break_connection_after(
    server: SpreadServer, name: str, monkeypatch: pytest.MonkeyPatch, also: Any = lambda: None
) -> list[int]:
    """Let node 3 do what it is asked, once, and lose its connections before it responds."""
    owner = server.nodes[2]
    operation = getattr(owner.local, name)
    lost: list[int] = []

    def done_and_lost(*args: Any) -> Any:
        answers = yield from operation(*args)
        if not lost:
            lost.append(1)
            also()
            for connection in list(owner.listener.connections.open):
                connection.abort()
        return answers

    monkeypatch.setattr(owner.local, name, done_and_lost)
    return lost


# Other protocols, permissions and monitoring.


def test_what_a_client_may_do_is_checked_where_it_is_connected() -> None:
    with SpreadServer(authentication=True) as server, penstock.connect(server.url, key=server.key) as admin:
        admin.create_topic("orders", partitions=PARTITIONS)
        reader = admin.create_key("reader", [Grant(role="reader", topics=["orders"])])
        with penstock.connect(server.url, key=reader.key) as broker:
            assert broker.describe_topic("orders").messages == 0
            with pytest.raises(Forbidden):
                broker.publish("orders", b"x", key="a")
            with pytest.raises(Forbidden):
                broker.consumer("orders", group="billing")


def test_metrics_of_topics_and_groups_are_those_of_the_whole_cluster(
    server: SpreadServer, broker: Any
) -> None:
    broker.publish_batch("orders", [Message(b"x", key) for key in KEYS])
    broker.create_group("orders", "billing")

    node = server.nodes[0].broker
    families = server.run(node.run(node.operations.metrics()))

    found = {family.metric.name: dict(family.samples) for family in families}
    assert found["penstock_topic_messages"] == {("orders",): len(KEYS)}
    assert found["penstock_group_lag"] == {("orders", "billing"): len(KEYS)}
    [latency] = found["penstock_queue_latency_seconds"].values()
    assert latency.sum == 0
    overview = server.run(node.run(node.operations.overview()))
    assert [(line.topic, line.messages, line.partitions) for line in overview.topics] == [
        ("orders", len(KEYS), PARTITIONS)
    ]
    assert [(line.group, line.lag) for line in overview.groups] == [("billing", len(KEYS))]
    waiting = server.run(node.run(node.operations.waiting()))
    assert {place for place in waiting if place[0] == "orders"} == {
        ("orders", each) for each in range(PARTITIONS)
    }


def test_connections_of_a_server_are_counted(server: SpreadServer, broker: Any) -> None:
    server.nodes[0].broker.operations.server_counts.connections = lambda: 3
    server.nodes[1].broker.operations.server_counts.connections = lambda: 4

    assert broker.stats().connections == 7


def test_metrics_leave_out_a_node_that_cannot_be_reached(server: SpreadServer, broker: Any) -> None:
    broker.publish_batch("orders", [Message(b"x", partition=number) for number in range(PARTITIONS)])
    server.run(server.nodes[2].stop())

    node = server.nodes[0].broker
    families = server.run(node.run(node.operations.metrics()))

    assert next(dict(each.samples) for each in families if each.metric.name == "penstock_topic_messages") == {
        ("orders",): 2
    }


def test_dead_letters_of_all_owners_are_listed_counted_and_found(server: SpreadServer, broker: Any) -> None:
    broker.create_topic("orders.dlq", partitions=PARTITIONS)
    broker.publish_batch("orders", [Message(b"x", partition=number) for number in range(PARTITIONS)])
    consumer = broker.consumer("orders", group="billing", heartbeat=False)
    for message in consumer.receive(2) + consumer.receive(4):
        message.reject("no good")

    letters = broker.dead_letters("orders")

    assert len(letters) == PARTITIONS
    [errors] = broker.dead_letter_errors("orders")
    assert errors.count == PARTITIONS
    assert broker.redrive("orders", dry_run=True).matched == PARTITIONS
    assert broker.redrive("orders", dry_run=True, limit=3).matched == 3


class ShiftedServer(SpreadServer):
    """Topics other than orders have their partitions the other way round."""

    def place(self, topic: str, partition: int) -> int:
        return 2 + (partition + (topic != "orders")) % 2


def test_dead_letters_redrives_and_outputs_go_to_the_owners_of_their_targets() -> None:
    with ShiftedServer() as server, penstock.connect(server.url) as broker:
        broker.create_topic("orders", partitions=PARTITIONS)
        broker.create_topic("invoices", partitions=PARTITIONS)
        broker.publish_batch(
            "orders", [Message(b"%d" % number, partition=number) for number in range(PARTITIONS)]
        )
        consumer = broker.consumer("orders", group="billing", heartbeat=False)
        messages = consumer.receive(2) + consumer.receive(4)
        for message in messages[:2]:
            message.reject("no good")
        for message in messages[2:]:
            consumer.ack(
                [message], publish=[("invoices", Message(message.value, partition=message.partition))]
            )

        letters = broker.dead_letters("orders")
        invoices = broker.read("invoices")
        assert {letter.message.value for letter in letters} == {message.value for message in messages[:2]}
        assert {(each.value, each.partition) for each in invoices} == {
            (message.value, message.partition) for message in messages[2:]
        }
        assert broker.redrive("orders").redriven == 2
        again = consumer.receive(2) + consumer.receive(2)
        assert {message.value for message in again} == {message.value for message in messages[:2]}
        consumer.ack(again)
        assert broker.describe_group("orders", "billing").lag == 0


def test_messages_are_handed_out_one_by_one_to_protocols_without_batches(
    server: SpreadServer, broker: Any
) -> None:
    broker.publish_batch("orders", [Message(key.encode(), key) for key in KEYS])

    async def work() -> list[str]:
        consumer = await server.nodes[0].broker.consumer("orders", group="billing")
        received = await consumer.receive(15) + await consumer.receive(15)
        await received[0].nack(delay="1h")
        await received[1].reject("no good")
        await received[2].extend("1h")
        await consumer.ack(received[2:])
        await consumer.close()
        return sorted(message.value.decode() for message in received)

    assert server.run(work()) == sorted(KEYS)
    info = broker.describe_group("orders", "billing")
    assert (info.acked, info.nacked, info.lag) == (len(KEYS) - 2, 1, 1)
