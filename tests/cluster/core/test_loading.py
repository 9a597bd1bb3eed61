"""WAL entries that several loads need at the same time."""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest

from penstock.cluster.core.loading import Entries, Outdated
from penstock.cluster.core.wal import Slice, encode_entries
from penstock.errors import StoreUnavailable

NAMES = [f"wal/a/{number}" for number in range(12)]
[DATA] = encode_entries("nonce", [(Slice("orders", 0, 1, "data", 0, 1), b"x")], 1000)


class SlowStore:
    """Answers in the next round of the loop; fails as often as it is told to."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.failures = 0
        self.data: bytes | None = DATA

    async def get(self, name: str) -> bytes | None:
        self.requests[name] += 1
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable(store="test", why="it fails")
        return self.data


async def load(entries: Entries) -> int:
    for at in range(0, len(NAMES), 4):
        await entries.fetch(NAMES[at : at + 4])
        for name in NAMES[at : at + 4]:
            await entries.get(name)
    return len(NAMES)


async def counting(work: Coroutine[Any, Any, Any], created: list[Any]) -> Any:
    def make(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        created.append(coroutine)
        return asyncio.Task(coroutine, loop=loop, **options)

    asyncio.get_running_loop().set_task_factory(make)
    return await work


def test_an_entry_is_downloaded_once_for_all_loads_and_a_load_waits_for_several_at_once() -> None:
    """A takeover of hundreds of partitions spent its time with a task for each entry and partition."""
    store: Any = SlowStore()
    entries = Entries(store)
    created: list[Any] = []

    async def all_loads() -> None:
        assert await asyncio.gather(*[load(entries) for _ in range(50)]) == [len(NAMES)] * 50

    asyncio.run(counting(all_loads(), created))

    assert store.requests == dict.fromkeys(NAMES, 1)
    assert len(created) < 50 + 2 * len(NAMES)


def test_a_load_whose_entries_another_one_could_not_download_downloads_them() -> None:
    store: Any = SlowStore()
    store.failures = 1
    entries = Entries(store)

    async def two() -> list[Any]:
        return list(await asyncio.gather(load(entries), load(entries), return_exceptions=True))

    first, second = asyncio.run(two())

    assert isinstance(first, StoreUnavailable)
    assert second == len(NAMES)


def test_a_load_that_is_cancelled_leaves_its_downloads_to_the_others() -> None:
    store: Any = SlowStore()
    entries = Entries(store)

    async def two() -> int:
        first, second = asyncio.create_task(load(entries)), asyncio.create_task(load(entries))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert asyncio.run(two()) == len(NAMES)


def test_an_entry_that_was_deleted_makes_the_view_outdated() -> None:
    store: Any = SlowStore()
    store.data = None

    with pytest.raises(Outdated):
        asyncio.run(load(Entries(store)))
