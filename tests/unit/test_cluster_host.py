"""What a node of a cluster takes from its logs for a commit round."""

import asyncio
from random import Random
from typing import Any

from penstock.broker.core import Core
from penstock.broker.drivers.loop import LoopDriver
from penstock.broker.operations import LocalOperations
from penstock.broker.steps import Aside, exhaust
from penstock.cluster.commit import ClusterCommit
from penstock.cluster.hosting import BrokerHost, PackedLogs
from penstock.config.broker import BrokerConfig, TopicOptions
from penstock.log.files import MemoryFiles
from penstock.model.message import Message
from penstock.testing import ManualClock


async def _packed(host: BrokerHost) -> PackedLogs | None:
    return host.pack()


def test_a_log_that_cannot_be_read_keeps_no_other_out_of_the_store() -> None:
    """What was taken of the others before would be called durable with their next round."""
    files = MemoryFiles()
    files.cache = True
    core = Core(directory="data", files=files, clock=ManualClock(), config=BrokerConfig(), random=Random(1))
    kicks: list[None] = []
    commit = core.state.commit = ClusterCommit(lambda: kicks.append(None))
    exhaust(core.open())
    operations = LocalOperations(core)
    store: Any = None  # Nothing is stored here.
    spawn: Any = None
    host = BrokerHost(core, LoopDriver(core), commit, spawn, "node", store, lambda _: None)
    logs = {}
    for name in ("first", "second"):
        for step in operations.create_topic(name, {"partitions": 1}):
            if isinstance(step, Aside):
                step.result = step.function()
        logs[name] = core.state.topics[name].partitions[0].log
        next(operations.publish(name, Message(b"1")))  # It waits for the store.
    second = logs["second"]
    second._use(second._segments[-1]).truncate(0)  # Its file is gone from the disk.

    packed = asyncio.run(_packed(host))
    assert packed is not None
    assert [each.topic for each, _ in packed.parts] == ["first"]
    assert second.failed is not None
    host.confirm(packed)
    assert logs["first"].durable == logs["first"].written
    assert second.durable == 0


def test_what_is_restored_into_a_topic_in_memory_waits_for_no_checkpoint() -> None:
    """There is none that has it: the restore failed after two minutes."""
    files = MemoryFiles()
    files.cache = True
    core = Core(directory="data", files=files, clock=ManualClock(), config=BrokerConfig(), random=Random(1))
    commit = core.state.commit = ClusterCommit(lambda: None)
    exhaust(core.open())
    unused: Any = None
    host = BrokerHost(core, LoopDriver(core), commit, unused, "node", unused, lambda _: None)
    topics: dict[str, TopicOptions] = {
        "volatile": {"durability": "memory"},
        "durable": {"durability": "fsync"},
    }
    for name, options in topics.items():
        for step in LocalOperations(core).create_topic(name, options):
            if isinstance(step, Aside):
                step.result = step.function()

    asyncio.run(_packed(host))

    assert host.has_stored("volatile", 0, 1)
    assert not host.has_stored("durable", 0, 1)
