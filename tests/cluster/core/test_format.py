"""The format of the metadata log: it rises when all nodes understand it, and older nodes are refused."""

import asyncio
import json
from random import Random

import pytest

from penstock.cluster.core.agreement import MetadataLog
from penstock.cluster.core.metadata import FORMAT, Fence, Join, State
from penstock.cluster.core.objects import meta_name, snap_name, wrap
from penstock.errors import ClusterTooNew, CorruptionError

NEWER = FORMAT + 1


class Shelf:
    """Objects in memory."""

    object_bytes_max = 1 << 20

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    async def create(self, name: str, data: bytes) -> bool:
        return self.objects.setdefault(name, data) is data

    async def get(self, name: str) -> bytes | None:
        return self.objects.get(name)

    async def list(self, prefix: str) -> list[str]:
        return [name for name in self.objects if name.startswith(prefix)]

    async def delete(self, name: str) -> None:
        self.objects.pop(name, None)

    async def overwrite(self, name: str, data: bytes) -> None:
        self.objects[name] = data


def entry(**change: object) -> bytes:
    return wrap("meta", json.dumps({"nonce": "n", "change": change}).encode())


def started(shelf: Shelf) -> State:
    log = MetadataLog(shelf, Random(1), lambda: None)
    log.cluster = "shop"
    asyncio.run(log.start())
    return log.state


def test_the_format_rises_when_the_last_old_node_has_gone_and_never_falls() -> None:
    state = State()

    state.apply(Join("old", 1))
    state.apply(Join("new", 2, format=NEWER))
    assert state.format == 1
    state.apply(Fence("old", 0))
    assert state.format == NEWER
    assert not state.apply(Join("old again", 1))
    assert state.apply(Join("new too", 1, format=NEWER))
    state.apply(Fence("new", 0))
    state.apply(Fence("new too", 0))
    assert not state.apply(Join("old at last", 1))


def test_a_node_refuses_a_log_of_a_newer_format() -> None:
    shelf = Shelf()
    shelf.objects[meta_name(1)] = entry(type="join", incarnation="a", node=1, format=NEWER)

    with pytest.raises(ClusterTooNew, match=f"'shop' uses format {NEWER}.* up to {FORMAT}"):
        started(shelf)


def test_a_node_refuses_an_entry_of_a_kind_that_it_does_not_know() -> None:
    shelf = Shelf()
    shelf.objects[meta_name(1)] = entry(type="teleport", node=1)

    with pytest.raises(ClusterTooNew):
        started(shelf)


def test_a_node_refuses_a_snapshot_of_a_newer_format() -> None:
    shelf = Shelf()
    shelf.objects[snap_name(9)] = wrap("snap", json.dumps({"next": 9, "format": NEWER}).encode())

    with pytest.raises(ClusterTooNew):
        started(shelf)


def test_a_snapshot_without_coordinators_is_not_used() -> None:
    shelf = Shelf()
    shelf.objects[meta_name(1)] = entry(type="join", incarnation="a", node=1)
    old = {"next": 2, "members": {"a": {"node": 1, "address": ""}}}
    shelf.objects[snap_name(2)] = wrap("snap", json.dumps(old).encode())

    state = started(shelf)

    assert {each.epoch for each in state.coordinators} == {1}


def test_an_entry_without_a_format_is_of_the_first_one() -> None:
    shelf = Shelf()
    shelf.objects[meta_name(1)] = entry(type="join", incarnation="a", node=1)

    state = started(shelf)

    assert state.format == 1
    assert state.members["a"].format == 1


def test_what_is_no_json_is_damaged_and_not_new() -> None:
    shelf = Shelf()
    shelf.objects[meta_name(1)] = wrap("meta", b"{")

    with pytest.raises(CorruptionError):
        started(shelf)
