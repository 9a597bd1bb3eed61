"""Three nodes in real processes: killed, stopped, drained and wiped under load, and nothing is lost."""

import asyncio
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from tests.cluster.load import Load
from tests.cluster.nodes import PARTITIONS, PATIENCE_S, TOPIC, Nodes, settings
from tests.server.process import Server, until

from penstock.clock import SystemClock
from penstock.cluster.core.agreement import MetadataLog
from penstock.cluster.core.metadata import FORMAT, Join
from penstock.cluster.identity import found_or_join
from penstock.cluster.member import ClusterMember
from penstock.cluster.store import ThreadedStore
from penstock.config.broker import BrokerConfig
from penstock.config.server import ClusterSettings, ServerConfig, ServerSettings
from penstock.errors import ClockDifference, ClusterTooNew, LeaseLost
from penstock.model.access import Grant
from penstock.store.opening import open_store

UNAVAILABLE_S_MAX = (
    20.0  # Generous: the machines that run this are busy.  docs/cluster.md has what to expect.
)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with Nodes(tmp_path, f"file://{tmp_path}/store") as nodes:
        with nodes.connect(1) as broker:
            broker.create_topic(TOPIC, partitions=PARTITIONS)
        yield nodes


def test_a_node_is_killed_and_another_takes_over(nodes: Nodes) -> None:
    with Load(nodes, [1, 2]) as load:
        load.wait_for(40)
        nodes.servers[2].kill()
        load.wait_for(40)
        shutil.rmtree(nodes.servers[2].data)  # The disk is only a cache.
        nodes.servers[2].start()
        load.wait_for(40)

    assert load.failures == []
    assert load.longest_s < UNAVAILABLE_S_MAX
    with nodes.connect(3) as broker:
        load.check(broker)


def test_a_node_that_stood_still_is_replaced_and_joins_again(nodes: Nodes) -> None:
    with Load(nodes, [1, 3]) as load:
        load.wait_for(40)
        nodes.servers[1].signal(signal.SIGSTOP)
        load.wait_for(40)
        nodes.servers[1].signal(signal.SIGCONT)
        until(lambda: "it joins again" in nodes.servers[1].log())
        load.wait_for(40)

    assert load.failures == []
    assert load.longest_s < UNAVAILABLE_S_MAX
    load.check(nodes.connect(1))


def test_a_topic_that_was_created_through_one_node_is_known_to_all(nodes: Nodes) -> None:
    with nodes.connect(1) as one, nodes.connect(2) as two, nodes.connect(3) as three:
        for number in range(10):
            name = f"new-{number}"
            one.create_topic(name, partitions=3)
            assert three.topic_exists(name)
            receipts = [two.publish(name, b"first", partition=each) for each in range(3)]
            assert [three.read(name, partition=each.partition)[0].value for each in receipts] == [
                b"first"
            ] * 3
            two.delete_topic(name)
            assert not one.topic_exists(name)


def test_a_topic_is_deleted_while_its_partitions_are_opened(nodes: Nodes) -> None:
    with nodes.connect(1) as broker:
        for _ in range(3):
            broker.create_topic("short-lived", partitions=60)
            broker.delete_topic("short-lived")
        receipts = [broker.publish(TOPIC, b"after", partition=number) for number in range(PARTITIONS)]

    assert len(receipts) == PARTITIONS
    assert all(server.running for server in nodes.servers)


def test_a_node_that_stops_hands_over(nodes: Nodes) -> None:
    with Load(nodes, [1, 2]) as load:
        load.wait_for(40)
        assert nodes.servers[2].stop() == 0
        load.wait_for(40)

    assert load.failures == []
    load.check(nodes.connect(2))
    nodes.servers[2].start()


def test_what_was_acked_is_not_delivered_again_after_a_kill(nodes: Nodes) -> None:
    with nodes.connect(1) as broker:
        receipts = [broker.publish(TOPIC, b"%d" % number, key=str(number)) for number in range(300)]
        acked: set[tuple[int, int]] = set()
        with broker.consumer(TOPIC, group="workers", start="earliest") as consumer:
            while len(acked) < len(receipts) // 2:
                messages = consumer.receive(20, wait="5s")
                consumer.ack(messages)
                acked |= {(message.partition, message.offset) for message in messages}
        nodes.servers[2].kill()
        rest: list[tuple[int, int]] = []
        with broker.consumer(TOPIC, group="workers") as consumer:
            deadline = time.monotonic() + PATIENCE_S
            while len(acked) + len(rest) < len(receipts) and time.monotonic() < deadline:
                for message in consumer.receive(100, wait="1s"):
                    with suppress(LeaseLost):  # Its partition has moved once more: it comes again.
                        consumer.ack(message)
                        rest.append((message.partition, message.offset))

    assert len(rest) == len(set(rest))
    assert acked.isdisjoint(rest)
    assert acked | set(rest) == {(receipt.partition, receipt.offset) for receipt in receipts}
    nodes.servers[2].start()


def test_a_cluster_that_was_stopped_has_everything_when_it_starts_again(tmp_path: Path) -> None:
    with Nodes(tmp_path, f"file://{tmp_path}/store", count=1) as nodes:
        with nodes.connect(1) as broker:
            broker.create_topic(TOPIC, partitions=PARTITIONS)
            with Load(nodes, [1]) as load:
                load.wait_for(40)
            broker.create_key("web", [Grant(role="admin")])
        nodes.servers[0].stop()
        shutil.rmtree(nodes.servers[0].data)
        nodes.servers[0].start()
        with nodes.connect(1) as broker:
            load.check(broker)
            [key] = broker.keys()
            assert key.name == "web"


def test_a_store_that_was_restored_has_what_the_backup_has(tmp_path: Path) -> None:
    with Nodes(tmp_path, f"file://{tmp_path}/store", count=1) as nodes:
        [server] = nodes.servers
        with nodes.connect(1) as broker:
            broker.create_topic(TOPIC, partitions=PARTITIONS)
            broker.publish(TOPIC, b"before", partition=0)
        server.stop()
        shutil.copytree(tmp_path / "store", tmp_path / "backup")
        server.start()
        with nodes.connect(1) as broker:
            broker.publish(TOPIC, b"after", partition=0)
        server.stop()
        shutil.rmtree(tmp_path / "store")
        shutil.move(tmp_path / "backup", tmp_path / "store")
        server.start()

        with nodes.connect(1) as broker:
            broker.publish(TOPIC, b"again", partition=0)
            found = [message.value for message in broker.read(TOPIC, partition=0)]
            assert found == [b"before", b"again"]


def refusal(folder: Path, store: str, node: int = 9, name: str = "shop") -> str:
    folder.mkdir()
    server = Server(folder, settings=settings(store, node, name), listeners=("native", "peer"))
    with pytest.raises(AssertionError, match="did not start"):
        server.start()
    return server.log()


def test_each_mistake_of_an_operator_has_its_own_message(nodes: Nodes, tmp_path: Path) -> None:
    store = f"file://{tmp_path}/store"

    assert "belongs to the cluster 'shop', not to 'bank'" in refusal(tmp_path / "a", store, name="bank")
    assert "node 2 is running at 127.0.0.1:" in refusal(tmp_path / "b", store, node=2)
    assert "STORE_UNAVAILABLE" in refusal(tmp_path / "c", "postgresql://127.0.0.1:1/shop")
    assert "use file:///" in refusal(tmp_path / "d", "ftp://host/shop")


class LateClock(SystemClock):
    def wall_ms(self) -> int:
        return super().wall_ms() - 3_600_000


def test_a_node_with_a_wrong_clock_is_refused(nodes: Nodes, tmp_path: Path) -> None:
    cluster = ClusterSettings(name="shop", store=f"file://{tmp_path}/store", node=9, peer="127.0.0.1:0")
    config = ServerConfig(server=ServerSettings(data=f"{tmp_path}/late"), cluster=cluster)

    async def join() -> None:
        member = ClusterMember(config)
        member._clock = LateClock()
        await member.open(BrokerConfig(), {})

    with pytest.raises(
        ClockDifference, match=r"the clocks of this machine and of node \d differ by 3(599|600) s"
    ):
        asyncio.run(join())


def test_a_node_of_an_older_release_is_refused(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/store"
    with Nodes(tmp_path, url, count=1) as nodes:
        nodes.servers[0].stop()
        store = open_store(url, SystemClock())
        identity = found_or_join(store, "shop")
        log = MetadataLog(ThreadedStore(store, identity.prefix), Random(1), lambda: None)

        async def join() -> None:
            """A node of a later release, which nothing else runs beside."""
            with suppress(ClusterTooNew):
                await log.propose(lambda _: Join("later", 2, "127.0.0.1,1,0,0", format=FORMAT + 1))

        asyncio.run(join())

        assert "CLUSTER_TOO_NEW" in refusal(tmp_path / "old", url, node=3)
