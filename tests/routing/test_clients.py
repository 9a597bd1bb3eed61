"""A client of a cluster asks the owners itself, follows moves, and falls back on nodes that forward."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from tests.routing.test_native import NativeServer
from tests.routing.test_routing import PARTITIONS, changed, move, stored, until_waiting
from tests.server.process import until

import penstock
from penstock import aio
from penstock.client import direct, routing
from penstock.client.consume import spanning
from penstock.errors import LeaseLost, ServerUnreachable
from penstock.model.message import Message


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "AGE_S", 0.05)
    monkeypatch.setattr(spanning, "FOLLOW_S", 0.05)


@pytest.fixture
def server() -> Iterator[NativeServer]:
    with NativeServer() as server:
        yield server


def url(server: NativeServer, *nodes: int) -> str:
    addresses = server.nodes[0].table.addresses
    return "penstock://" + ",".join(f"127.0.0.1:{addresses[node].native}" for node in nodes)


@pytest.fixture
def broker(server: NativeServer) -> Iterator[Any]:
    """Connected to node 1, which owns nothing."""
    with penstock.connect(url(server, 1)) as broker:
        broker.create_topic("orders", partitions=PARTITIONS)
        yield broker


def forwarded(server: NativeServer, *operations: str) -> int:
    """Requests that nodes have sent to each other."""
    counts = [node.peers.requests for node in server.nodes]
    return sum(count[name] for count in counts for name in operations or count)


def learn(broker: Any) -> None:
    """Publish until the client can ask both owners."""

    def knows() -> bool:
        broker.publish("orders", b"warm", partition=0)
        route = broker._client.routing._routes.get("orders")
        return route is not None and len(route.versions) == 2

    until(knows)


def test_publishes_go_to_the_owners(server: NativeServer, broker: Any) -> None:
    learn(broker)
    before = forwarded(server)

    for number in range(40):
        broker.publish("orders", b"%d" % number, partition=number % PARTITIONS)
    receipts = broker.publish_batch("orders", [Message(b"x", key=str(key)) for key in range(40)])
    producer = broker.producer()
    producer.publish("orders", b"x", key="a")
    futures = [broker.publish_nowait("orders", b"x", key=str(number)) for number in range(40)]
    broker.flush()

    assert forwarded(server) == before
    assert {receipt.partition for receipt in receipts} == set(range(PARTITIONS))
    assert len({future.result().id for future in futures}) == len(futures)
    assert stored(server, 1) == {}
    assert set(stored(server, 2)) == {0, 2}


def test_threads_publish_directly_on_a_channel_for_each_owner(server: NativeServer, broker: Any) -> None:
    learn(broker)
    for number in range(4 * direct.DIRECT_MIN):
        broker.publish("orders", b"%d" % number)
    before = forwarded(server)

    for number in range(20):
        broker.publish("orders", b"direct-%d" % number, partition=1)

    assert forwarded(server) == before
    channels = [slot.channel for slot in broker._direct._slots.values() if slot.channel is not None]
    assert len(channels) == 2
    values = [message.value for message in broker.read("orders", partition=1, limit=500)]
    assert values[-20:] == [b"direct-%d" % number for number in range(20)]


def test_fetches_go_to_the_owner(server: NativeServer, broker: Any) -> None:
    learn(broker)
    broker.publish("orders", b"x", partition=1)
    before = forwarded(server, "fetch")

    assert broker.fetch("orders", 1, 0).end == stored(server, 3)[1]
    assert forwarded(server, "fetch") == before


def test_reading_a_topic_that_does_not_exist_does_not_create_it(server: NativeServer, broker: Any) -> None:
    with pytest.raises(penstock.errors.TopicNotFound):
        broker.fetch("parcels", 0, 0)

    assert broker.topics() == ["orders"]


def test_a_publish_to_a_former_owner_is_forwarded_until_the_client_follows(
    server: NativeServer, broker: Any
) -> None:
    learn(broker)

    server.run(move(server, 3, 3, 2))

    offsets: list[int | None] = []

    def follows() -> bool:
        before = forwarded(server, "publish")
        offsets.append(broker.publish("orders", b"%d" % len(offsets), partition=3).offset)
        return forwarded(server, "publish") == before

    until(follows)
    assert offsets == list(range(len(offsets)))
    assert stored(server, 2)[3] == len(offsets)
    assert len(offsets) > 1


@pytest.mark.parametrize("prefetch", [0, 100])
def test_a_consumer_of_several_owners_is_one_consumer(
    server: NativeServer, broker: Any, prefetch: int
) -> None:
    consumer = broker.consumer("orders", group="billing", prefetch=prefetch)
    before = forwarded(server, "receive", "ack", "consumer", "extend")
    receipts = broker.publish_batch("orders", [Message(b"%d" % key, key=str(key)) for key in range(40)])

    received: list[Any] = []
    while len(received) < 40:
        messages = consumer.receive(7, wait="10s")
        assert 1 <= len(messages) <= 7
        received += messages
    consumer.ack(received[:20])
    for message in received[20:39]:
        message.ack()
    received[39].nack(delay=0)
    [again] = consumer.receive(1, wait="10s")
    again.reject("no good")

    assert again.id == received[39].id
    assert {message.id for message in received} == {receipt.id for receipt in receipts}
    assert forwarded(server, "receive", "ack", "consumer", "extend") == before
    assert len(broker.describe_group("orders", "billing").consumers) == 1
    assert consumer.in_flight == 0
    consumer.close()
    assert broker.describe_group("orders", "billing").consumers == []


def test_a_stream_consumer_works_on_the_partitions_of_all_owners(server: NativeServer, broker: Any) -> None:
    broker.create_group("orders", "lake", kind="stream", start="earliest")
    consumer = broker.consumer("orders", group="lake")
    broker.publish_batch("orders", [Message(b"x", partition=number) for number in range(PARTITIONS)])

    received: list[Any] = []
    while len(received) < PARTITIONS:
        received += consumer.receive(10, wait="10s")
    consumer.commit()

    assert consumer.assignment == [0, 1, 2, 3]
    assert broker.describe_group("orders", "lake").lag == 0


def test_a_waiting_consumer_follows_a_partition_that_moves(server: NativeServer, broker: Any) -> None:
    consumer = broker.consumer("orders", group="billing")
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(consumer.receive, 5, wait="1h")
        until_waiting(server, 2)
        server.run(move(server, 0, 2, 3))
        server.run(move(server, 2, 2, 1))  # Node 2 owns nothing any more, and node 1 something.

        broker.publish("orders", b"x", partition=2)

        [message] = waiting.result(20)
    message.ack()
    broker.publish("orders", b"y", partition=0)
    [message] = consumer.receive(5, wait="10s")
    message.ack()
    assert broker.describe_group("orders", "billing").lag == 0


def test_a_message_of_a_former_owner_cannot_be_acknowledged(server: NativeServer, broker: Any) -> None:
    consumer = broker.consumer("orders", group="billing")
    broker.publish("orders", b"x", partition=1)
    [message] = consumer.receive(1, wait="10s")

    server.run(give_up(server, 3))

    with pytest.raises(LeaseLost):
        message.ack()
    broker.publish("orders", b"y", partition=0)
    [other] = consumer.receive(1, wait="10s")
    other.ack()


async def give_up(server: NativeServer, number: int) -> None:
    """Partition 1 has no owner any more."""
    for node in server.nodes:
        node.table.place = lambda topic, partition: -1 if partition == 1 else 2 + partition % 2
    core = server.nodes[number - 1].broker
    await core.run(core._core.close_partition("orders", 1, -1, 2))


def test_a_consumer_ends_with_its_topic_and_does_not_create_it_again(
    server: NativeServer, broker: Any
) -> None:
    learn(broker)
    consumer = broker.consumer("orders", group="billing", start="latest")
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(consumer.receive, 5, wait="1h")
        until_waiting(server, 2)
        broker.delete_topic("orders")
        with pytest.raises(penstock.PenstockError):
            waiting.result(20)

    with suppress(penstock.PenstockError):
        consumer.receive(1)
    assert broker.topics() == []


def test_owners_that_a_client_cannot_reach_are_reached_through_its_node(
    server: NativeServer, broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = server.nodes[0].table.addresses
    table[3] = table[3]._replace(native=1)  # Nothing listens there.
    consumer = broker.consumer("orders", group="billing")
    for number in range(100):
        broker.publish("orders", b"%d" % number, partition=number % PARTITIONS)

    received: list[Any] = []
    while len(received) < 100:
        received += consumer.receive(50, wait="10s")
    consumer.ack(received)

    assert broker.describe_group("orders", "billing").lag == 0
    assert forwarded(server, "publish") >= 50
    assert sum(stored(server, 3).values()) == 50


def test_a_consumer_of_a_new_topic_is_opened_through_a_node_and_then_at_the_owners(
    server: NativeServer, broker: Any
) -> None:
    broker.delete_topic("orders")
    with penstock.connect(url(server, 1)) as other:
        consumer = other.consumer("orders", group="billing")
        other.publish("orders", b"x", partition=0)
        [message] = consumer.receive(1, wait="10s")
        message.ack()

        until(lambda: len(other._client.routing.sessions()) > 1)

        other.publish("orders", b"y", partition=0)
        [message] = consumer.receive(1, wait="10s")
        message.ack()
        assert other.describe_group("orders", "billing").lag == 0


# Several addresses.


def test_a_client_connects_to_the_first_node_that_can_be_reached(server: NativeServer, broker: Any) -> None:
    with penstock.connect(["penstock://127.0.0.1:1", url(server, 2, 3)]) as other:
        assert other.topics() == ["orders"]
        assert other._client.session.node == 2

    with pytest.raises(ServerUnreachable, match=r"no answer|refused"):
        penstock.connect("penstock://127.0.0.1:1,127.0.0.1:2")


def test_a_client_whose_node_is_gone_goes_on_with_another_one(server: NativeServer, broker: Any) -> None:
    learn(broker)

    server.run(stop_listening(server, 1))

    for number in range(8):
        broker.publish("orders", b"%d" % number, partition=number % PARTITIONS)
    assert broker.topics() == ["orders"]
    assert broker._client.session.node in (2, 3)


async def stop_listening(server: NativeServer, number: int) -> None:
    listener, listening = server._native[number - 1]
    listening.close()
    listener.abort()


def test_sessions_that_nobody_uses_are_closed(
    server: NativeServer, broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "IDLE_S", 0.1)
    learn(broker)
    assert len(broker._client.routing.sessions()) == 3

    until(lambda: len(broker._client.routing.sessions()) == 1)

    learn(broker)
    assert len(broker._client.routing.sessions()) == 3


def test_the_asyncio_client_asks_the_owners_too(server: NativeServer, broker: Any) -> None:
    async def run() -> list[Any]:
        async with aio.connect(url(server, 1)) as other:
            consumer = await other.consumer("orders", group="billing")
            for number in range(40):
                await other.publish("orders", b"%d" % number, partition=number % PARTITIONS)
            received: list[Any] = []
            while len(received) < 40:
                received += await consumer.receive(10, wait="10s")
            await consumer.ack(received)
            assert len(other._client.routing.sessions()) == 3
            return received

    received = asyncio.run(run())

    for partition in range(PARTITIONS):
        mine = [int(each.value) for each in received if each.partition == partition]
        assert mine == sorted(mine)
    assert broker.describe_group("orders", "billing").lag == 0


@pytest.mark.parametrize("prefetch", [0, 2])
def test_messages_that_a_transaction_has_settled_make_room_for_others(
    server: NativeServer, broker: Any, prefetch: int
) -> None:
    consumer = broker.consumer("orders", group="billing", prefetch=prefetch, heartbeat=False)
    for _ in range(3):
        broker.publish_batch("orders", [Message(b"x", partition=number) for number in range(PARTITIONS)])
        received: list[Any] = []
        while len(received) < PARTITIONS:
            messages = consumer.receive(10, wait="10s")
            assert messages
            with broker.transaction() as transaction:
                transaction.ack(messages)
            received += messages
            assert consumer.in_flight == 0 or prefetch

    assert broker.describe_group("orders", "billing").lag == 0


def spanning_receiver(consumer: Any) -> Any:
    return consumer.operations._receiver


def test_a_commit_leaves_out_what_the_program_has_not_got(server: NativeServer, broker: Any) -> None:
    """Two owners may answer at once; the second answer is kept for the next receive."""
    broker.create_group("orders", "lake", kind="stream", start="earliest")

    async def run() -> list[Any]:
        async with aio.connect(url(server, 1)) as other:
            consumer = await other.consumer("orders", group="lake", prefetch=10)
            receiver = spanning_receiver(consumer)
            await other.publish_batch("orders", [Message(b"0", partition=0), Message(b"1", partition=1)])
            for part in receiver._parts.values():
                await part.receiver._await_push(10_000)
            await receiver._wait(1, 10_000, receiver._changed)
            messages = await consumer.receive(1, wait="10s")
            await consumer.commit()
        return messages

    [first] = asyncio.run(run())
    with broker.consumer("orders", group="lake") as consumer:
        [second] = consumer.receive(10, wait="10s")

    assert {first.partition, second.partition} == {0, 1}


@pytest.mark.parametrize("kind", ["queue", "stream"])
def test_a_receive_that_is_cancelled_at_one_owner_keeps_what_another_has_sent(
    server: NativeServer, broker: Any, kind: str
) -> None:
    options: Any = {"kind": kind, "start": "earliest"}
    broker.create_group("orders", "lake", **options)

    async def run() -> list[Any]:
        async with aio.connect(url(server, 1)) as other:
            consumer = await other.consumer("orders", group="lake")
            receiver = spanning_receiver(consumer)
            await other.publish_batch("orders", [Message(b"0", partition=0), Message(b"1", partition=1)])
            parts = list(receiver._parts.values())
            last = parts[receiver._turn % len(parts)].receiver  # It is asked after the other one.
            take, asked = last.take, asyncio.Event()

            async def hang(*_: int) -> list[Any]:
                asked.set()
                await asyncio.Event().wait()
                return []

            last.take = hang
            waiting = asyncio.create_task(consumer.receive(10, wait="10s"))
            await asked.wait()
            waiting.cancel()
            with suppress(asyncio.CancelledError):
                await waiting
            last.take = take
            received: list[Any] = []
            while len(received) < 2:
                messages = await consumer.receive(10, wait="10s")
                assert messages
                received += messages
            return received

    assert {message.partition for message in asyncio.run(run())} == {0, 1}


def lose_connections_after_a_publish(
    server: NativeServer, monkeypatch: pytest.MonkeyPatch, also: Any
) -> None:
    """Let node 3 write what a client sends it, once, and lose its connections before it responds."""
    operations = server.nodes[2].broker.operations
    append = operations.append_batches
    lost: list[int] = []

    def done_and_lost(*arguments: Any) -> Any:
        if lost:
            return append(*arguments)
        lost.append(1)

        def work() -> Any:
            answers = yield from append(*arguments)
            also()
            listener, listening = server._native[2]
            listening.close()  # Nor does it take new ones.
            listener.abort()
            return answers

        return work()

    monkeypatch.setattr(operations, "append_batches", done_and_lost)


@pytest.mark.parametrize("by", ["thread", "loop", "producer"])
@pytest.mark.parametrize("owned", [True, False])
def test_a_publish_that_may_have_been_written_is_sent_again_with_its_numbers_until_an_owner_answers(
    server: NativeServer, broker: Any, monkeypatch: pytest.MonkeyPatch, owned: bool, by: str
) -> None:
    """Its owner has lost the connection, and the node that is asked next cannot ask the owner for a while."""
    learn(broker)
    publish = broker.producer().publish if by == "producer" else broker.publish
    for _ in range(direct.DIRECT_MIN + 5 if by == "thread" else 1):
        publish("orders", b"before", partition=1)
    before = stored(server, 3)[1]
    table = server.nodes[0].table
    address, place = table.addresses[3], table.place

    def away() -> None:
        if owned:
            table.addresses.pop(3)
        else:
            table.place = lambda topic, partition: -1 if partition == 1 else place(topic, partition)

    lose_connections_after_a_publish(server, monkeypatch, away)
    asked: list[None] = []
    home = server.nodes[0].broker.operations
    append = home.append_batches

    def counted(*arguments: Any) -> Any:
        asked.append(None)
        return append(*arguments)

    monkeypatch.setattr(home, "append_batches", counted)
    with ThreadPoolExecutor() as pool:
        publishing = pool.submit(publish, "orders", b"x", partition=1)
        until(lambda: len(asked) == 1 and table.refreshed > 0)
        server.advance("20s")  # That node gives up, and is asked again.
        until(lambda: len(asked) > 1)
        table.addresses[3] = address
        server.run(changed(table, place))
        server.advance("1s")
        receipt = publishing.result(20)

    assert receipt.offset == before
    assert stored(server, 3)[1] == before + 1
