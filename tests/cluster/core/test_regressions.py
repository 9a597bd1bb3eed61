"""What seeds of the simulated cluster have found, as small tests."""

import asyncio
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest
from tests.cluster.core.model import ModelHost
from tests.cluster.core.virtual import Process, Simulation

from penstock.broker.core import Core
from penstock.broker.drivers.loop import JOBS_S_MAX, LoopDriver
from penstock.broker.steps import Arrival, Steps, Waiter
from penstock.cluster.core.agreement import MetadataLog
from penstock.cluster.core.commit import LEASE_MS, Commits
from penstock.cluster.core.metadata import Join
from penstock.cluster.core.sealing import SUSPECT_MS, Sealing
from penstock.cluster.core.wal import decode_entry, encode_entries, encode_tombstone
from penstock.cluster.lease import ClusterLease
from penstock.config.broker import BrokerConfig
from penstock.log.files import MemoryFiles


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
