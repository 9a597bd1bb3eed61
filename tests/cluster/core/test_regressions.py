"""What seeds of the simulated cluster have found, as small tests."""

import asyncio
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import msgspec
import pytest
from tests.cluster.core.connections import Network
from tests.cluster.core.model import IncomingPartition, ModelHost, PackedSlices
from tests.cluster.core.real import RealBroker
from tests.cluster.core.virtual import Process, Simulation

from penstock.broker.core import Core
from penstock.broker.drivers.loop import JOBS_S_MAX, LoopDriver
from penstock.broker.kafka.group_configs import GroupConfigBook
from penstock.broker.registry.registry import GROUPS
from penstock.broker.steps import Arrival, Steps, Waiter
from penstock.broker.storage.checked_json import encode_checked
from penstock.cluster.core.agreement import MetadataLog
from penstock.cluster.core.commit import LEASE_MS, Commits
from penstock.cluster.core.metadata import DropTopic, Join, Key, PutDocument, PutTopic, State
from penstock.cluster.core.node import Node
from penstock.cluster.core.sealing import SUSPECT_MS, Sealing
from penstock.cluster.core.wal import decode_entry, encode_entries, encode_tombstone
from penstock.cluster.following import RETRY_S, Following
from penstock.cluster.lease import ClusterLease
from penstock.cluster.routing.owners import address_text
from penstock.config.broker import BrokerConfig, TopicSettings
from penstock.errors import DiskFull
from penstock.groups.configs import GroupConfig
from penstock.log.files import MemoryFiles
from penstock.model.owners import NodeAddress


class Objects:
    """A store that answers at once; ``on_get`` is called while a request is on its way."""

    object_bytes_max = 1 << 20

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.on_get: Callable[[str], None] = lambda _: None

    async def create(self, name: str, data: bytes) -> bool:
        return self.objects.setdefault(name, data) is data

    async def get(self, name: str) -> bytes | None:
        found = self.objects.get(name)
        self.on_get(name)
        return found

    async def list(self, prefix: str) -> Iterable[str]:
        return [name for name in self.objects if name.startswith(prefix)]

    async def delete(self, name: str) -> None:
        self.objects.pop(name, None)

    async def overwrite(self, name: str, data: bytes) -> None:
        self.objects[name] = data


class SlowObjects(Objects):
    """The same, after a moment."""

    async def create(self, name: str, data: bytes) -> bool:
        await asyncio.sleep(0.005)
        return await super().create(name, data)

    async def get(self, name: str) -> bytes | None:
        await asyncio.sleep(0.005)
        return await super().get(name)


class BusyHost(ModelHost):
    """Something is always appended."""

    def pack(self) -> PackedSlices:
        return PackedSlices()


class Forever:
    def __init__(self) -> None:
        self.waiters: dict[Waiter, None] = {}


def in_virtual_time(work: Callable[[Process], Any], seconds: float = 30.0) -> None:
    simulation = Simulation(0)
    process = Process(simulation, "test")
    try:
        done = process.spawn(work(process))
        simulation.run(seconds)
        assert done.done()
        done.result()
    finally:
        simulation.close()


def test_a_heartbeat_during_a_look_does_not_put_the_tombstone_above_a_free_name() -> None:
    """Seed 8661 of the first 10,000: the partition could never be loaded again."""

    async def work(process: Process) -> None:
        store, random = Objects(), Random(0)
        metadata = MetadataLog(store, random, lambda: None)
        for number, name in enumerate(("me", "peer")):
            await metadata.propose(lambda _, name=name, number=number: Join(name, number))  # type: ignore[misc]
        sealing = Sealing("me", store, metadata, process, random, lambda work: work.close())
        sealing.heard("peer", 0)
        [store.objects["wal/peer/000000000000"]] = encode_entries("nonce", [], 1 << 20)
        await asyncio.sleep(SUSPECT_MS / 1000)
        store.on_get = lambda name: sealing.heard("peer", 1) if name.startswith("wal/") else None

        await sealing.look(True)
        await sealing.seal("peer")

        assert metadata.state.members["peer"].tombstone == 1
        assert decode_entry("", store.objects["wal/peer/000000000001"]).tombstone

    in_virtual_time(work)


def test_an_answer_does_not_wait_for_a_job_that_waits_for_another_node() -> None:
    """Seed 6030 of the first 10,000: a message came after its lease, when another consumer had settled it."""

    def job() -> Steps[None]:
        yield Arrival(Forever(), 1 << 60)

    def operation(core: Core) -> Steps[int]:
        core.state.jobs.append(job())
        yield from ()
        return 7

    async def work(process: Process) -> None:
        core = Core(
            directory="data", files=MemoryFiles(), clock=process, config=BrokerConfig(), random=Random(0)
        )
        driver, began = LoopDriver(core), process.time()
        await driver.open()
        answered = process.create_future()
        driver.start(operation(core), lambda result, _: answered.set_result(result))

        assert await driver.run(operation(core)) == 7
        assert await answered == 7
        assert process.time() - began <= 2 * JOBS_S_MAX

    in_virtual_time(work)


@pytest.mark.parametrize("replaced", [True, False])
def test_an_owner_asks_the_store_whether_it_still_is_one(replaced: bool) -> None:
    """Seed 1661 of the first 10,000, and nine others: a former owner refused a sequence number."""

    async def work(process: Process) -> None:
        store = Objects()
        host = ModelHost(process, lambda: None, lambda *_: None)
        commits = Commits("me", store, host, process, Random(0), process.spawn)
        await commits.renew()
        assert commits.leased
        if replaced:
            store.objects["wal/me/000000000000"] = encode_tombstone("nonce")
        lease, answers = ClusterLease(1, commits, process), list[bool]()

        def ask() -> Steps[None]:
            answers.append((yield from lease.verify()))

        for _ in ask():
            await asyncio.sleep(0.02)

        assert answers == [not replaced]
        assert commits.leased == (not replaced)  # Reads and deliveries end at once, too.

    in_virtual_time(work, LEASE_MS / 1000)


def test_a_node_that_leaves_ends_its_wal_although_something_is_appended_all_the_time() -> None:
    """Seed 10,019: a move was called off while the node left, and the tombstone never found a free name."""

    async def work(process: Process) -> None:
        store = SlowObjects()
        node = Node(
            incarnation="me",
            number=1,
            address="",
            store=store,
            clock=process,
            random=Random(0),
            host=BusyHost(process, lambda: None, lambda *_: None),
            broadcast=lambda _: None,
        )
        running = process.spawn(node.run())
        await asyncio.sleep(1)
        node.commit()
        await asyncio.sleep(1)
        committed, began_s = node.commits.confirmed, process.time()

        await node.leave()
        await running

        assert node.state.members["me"].tombstone == node.commits.confirmed >= committed > 100
        assert process.time() - began_s < 0.1  # It did not search the WAL from its beginning.

    in_virtual_time(work)


class OpeningHost(ModelHost):
    """Partitions are opened when the test says so."""

    def __init__(self, process: Process) -> None:
        super().__init__(process, lambda: None, lambda *_: None)
        self.may_open = asyncio.Event()

    async def receive(self, key: Key, epoch: int) -> IncomingPartition:
        await self.may_open.wait()
        return await super().receive(key, epoch)


def put(name: str, topic_id: str) -> Callable[[State], PutTopic]:
    settings = msgspec.json.encode(TopicSettings(partitions=1)).decode()
    return lambda _: PutTopic(name, topic_id, 1, settings)


def test_a_node_has_not_stopped_while_it_opens_a_partition() -> None:
    """It may be open, and deliver, when the node learns that its last entry was written."""

    async def work(process: Process) -> None:
        store, host = SlowObjects(), OpeningHost(process)
        node = Node(
            incarnation="me",
            number=1,
            address="",
            store=store,
            clock=process,
            random=Random(0),
            host=host,
            broadcast=lambda _: None,
        )
        running = process.spawn(node.run())
        await asyncio.sleep(1)
        await node.propose(put("orders", "aa" * 16))
        create = store.create

        async def late(name: str, data: bytes) -> bool:
            """The answer takes some time."""
            created = await create(name, data)
            if name.startswith("meta/"):
                host.may_open.set()
                await asyncio.sleep(0.1)
                delivering.append(node.delivers(("orders", 0)))
            return created

        delivering: list[bool] = []
        store.create = late  # type: ignore[method-assign]
        await node.leave()
        await running

        topic = node.state.topics["orders"].partitions[0]
        assert delivering == [True]
        assert topic.history[0].end is not None
        assert not topic.history[0].clean

    in_virtual_time(work)


def test_a_topic_that_is_deleted_and_created_again_is_served_by_a_node_with_a_slow_disk() -> None:
    """The partition was opened in the topic that was still to be deleted, and nobody served the new one."""

    async def work(process: Process) -> None:
        store, random = SlowObjects(), Random(0)
        broker = RealBroker(process, random, lambda: node.commit(), lambda *_: None, store)
        node = Node(
            incarnation=process.name,
            number=1,
            address=address_text(NodeAddress("sim", 1, 0, 0)),
            store=store,
            clock=process,
            random=random,
            host=broker.host,
            broadcast=lambda _: None,
        )
        broker.join(1, node, Network(process.simulation, lambda *_: False), 1)
        await broker.open()
        process.spawn(node.run())
        await asyncio.sleep(1)
        await node.propose(put("orders", "aa" * 16))
        await asyncio.sleep(1)
        following = broker.host.following
        run = following._run

        async def slowly(steps: Steps[None]) -> None:
            await asyncio.sleep(0.1)
            await run(steps)

        following._run = slowly
        other = MetadataLog(store, random, lambda: None)
        await other.propose(put("another", "bb" * 16))
        await other.propose(lambda state: DropTopic("orders", state.topics["orders"].version))
        await other.propose(put("orders", "cc" * 16))
        node.refresh()
        await asyncio.sleep(2)

        topic = broker.core.state.topics["orders"]
        assert topic.id.hex() == "cc" * 16
        assert [each.epoch for each in topic.partitions.owned] == [node.opened["orders", 0]]

    in_virtual_time(work)


@pytest.mark.parametrize("failing", [1, 2, 3], ids=["creation", "deletion", "removal of files"])
def test_a_change_of_topics_that_fails_is_carried_out_later(failing: int) -> None:
    """It waited for the next entry; if files could not be removed, nothing was carried out any more."""

    async def work(process: Process) -> None:
        core = Core(
            directory="data", files=MemoryFiles(), clock=process, config=BrokerConfig(), random=Random(0)
        )
        driver, calls = LoopDriver(core), 0
        await driver.open()

        async def run(steps: Steps[None]) -> None:
            nonlocal calls
            calls += 1
            if calls == failing:
                steps.close()
                raise DiskFull(path="data")
            await driver.run(steps)

        following, state = Following(core, run, process.spawn, lambda: None), State()
        for change in (Join("me", 1), put("orders", "aa" * 16)(state)):
            state.apply(change)
        following.follow(state)
        await asyncio.sleep(2 * RETRY_S)
        assert list(core.state.topics) == ["orders"]

        state.apply(DropTopic("orders", state.topics["orders"].version))
        state.apply(put("another", "bb" * 16)(state))
        following.follow(state)
        await asyncio.sleep(2 * RETRY_S)

        assert calls >= failing
        assert list(core.state.topics) == ["another"]
        assert following.carried_out == state.next

    in_virtual_time(work)


def test_a_full_disk_does_not_keep_a_node_from_changes_of_keys_and_settings() -> None:
    async def work(process: Process) -> None:
        core = Core(
            directory="data", files=MemoryFiles(), clock=process, config=BrokerConfig(), random=Random(0)
        )

        async def run(steps: Steps[None]) -> None:
            steps.close()
            raise DiskFull(path="data")

        following, state = Following(core, run, process.spawn, lambda: None), State()
        settings = encode_checked(GroupConfigBook(groups={"billing": GroupConfig(share_locks=700)}))
        for change in (put("orders", "aa" * 16)(state), PutDocument(GROUPS, settings.decode())):
            state.apply(change)
        following.follow(state)
        await asyncio.sleep(RETRY_S / 2)

        assert core.state.group_configs["billing"].share_locks == 700
        assert not core.state.topics

    in_virtual_time(work)
