"""Entries of checkpoints, on a store that takes small objects only."""

import asyncio
from random import Random
from typing import Any

import pytest
from tests.cluster.core.test_format import Shelf

from penstock.cluster.core.agreement import MetadataLog
from penstock.cluster.core.checkpoints import Checkpoints
from penstock.cluster.core.metadata import Join, Key, PutTopic
from penstock.errors import StoreRefused

OBJECT_BYTES = 4096
PARTITIONS = 60


class SmallShelf(Shelf):
    object_bytes_max = OBJECT_BYTES

    async def create(self, name: str, data: bytes) -> bool:
        if len(data) > self.object_bytes_max:
            raise StoreRefused(store="memory", why="too large")
        return await super().create(name, data)


class Confirmed:
    """The commits of a node that has confirmed ten of them."""

    incarnation, next = "a", 10

    async def reached(self, cut: int) -> bool:
        return cut <= self.next


class Segment:
    def __init__(self, number: int) -> None:
        self.file = self.identity = f"{number:020d}.log"

    def read(self) -> bytes:
        return b"x"


class Segments:
    """A host whose partitions have so many segments each; the last one has far more."""

    def __init__(self, most: int) -> None:
        self._most = most

    def cut(self, key: Key) -> list[Segment]:
        return [Segment(number) for number in range(self._most if key[1] == PARTITIONS - 1 else 2)]


@pytest.mark.parametrize("most", [2, 100])
async def test_a_checkpoint_that_is_too_large_for_the_store_becomes_several_entries(most: int) -> None:
    """Before, the store refused the entry, and it was tried again for ever."""
    shelf = SmallShelf()
    log = MetadataLog(shelf, Random(1), lambda: None)
    log.cluster = "shop"
    await log.start()
    await log.propose(lambda _: Join("a", 1))
    await log.propose(lambda _: PutTopic("orders", "1", PARTITIONS, "{}"))
    partitions = {key: assigned.epoch for key, assigned in log.state.partitions() if key[0] == "orders"}
    host: Any = Segments(most)
    commits: Any = Confirmed()

    await asyncio.wait_for(Checkpoints(shelf, log, commits, host).write(partitions), 10)

    entries = [name for name in shelf.objects if name.startswith("meta/")]
    assert len(entries) > 3
    assert max(len(shelf.objects[name]) for name in entries) <= OBJECT_BYTES
    found = {key: assigned for key, assigned in log.state.partitions() if key in partitions}
    covered = [key[1] for key, assigned in found.items() if assigned.base]
    assert covered == list(range(PARTITIONS if most == 2 else PARTITIONS - 1))
    assert {assigned.history[-1].start for assigned in found.values() if assigned.base} == {10}
