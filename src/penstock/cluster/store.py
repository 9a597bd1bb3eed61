"""A blocking store as coroutines, for the event loop of a node.

Requests run in a thread pool, ``REQUESTS_MAX`` at a time; more wait.  Every name gets a prefix with the
cluster's generation (rule 24), so that a restored store does not mix with its former contents.

A request that is cancelled still runs to its end in its thread: its outcome is then unknown, as after a lost
response, which is what callers expect of it (rule 2).

Cost: two thread switches per request, some 50 us.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from penstock.store.base import Store

REQUESTS_MAX: Final = 16

T = TypeVar("T")


class ThreadedStore:
    """The ``Store`` of ``core/objects.py`` on a store of ``penstock.store``."""

    def __init__(self, inner: Store, prefix: str) -> None:
        self.url = inner.url
        self.object_bytes_max = inner.object_bytes_max
        self._inner = inner
        self._prefix = prefix
        self._threads = ThreadPoolExecutor(REQUESTS_MAX, thread_name_prefix="penstock-store")

    async def create(self, name: str, data: bytes) -> bool:
        return await self._run(lambda: self._inner.create(self._prefix + name, data))

    async def get(self, name: str) -> bytes | None:
        return await self._run(lambda: self._inner.get(self._prefix + name))

    async def list(self, prefix: str) -> list[str]:
        names = await self._run(lambda: list(self._inner.list(self._prefix + prefix)))
        return [name.removeprefix(self._prefix) for name in names]

    async def delete(self, name: str) -> None:
        await self._run(lambda: self._inner.delete(self._prefix + name))

    async def overwrite(self, name: str, data: bytes) -> None:
        await self._run(lambda: self._inner.overwrite(self._prefix + name, data))

    def stop(self) -> None:
        """End the threads without waiting for running requests.  The store stays open."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        """End the threads, and close the store."""
        self.stop()
        self._inner.close()

    async def _run(self, request: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, request)
