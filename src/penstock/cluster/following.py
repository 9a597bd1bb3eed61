"""Applies the metadata to this node's broker: topics that are created, changed or deleted, and documents.

One task applies one change after the other, always towards the newest state: a topic that was created and
deleted in the meantime is never created.  The core (``core/node.py``) opens and closes partitions, once the
topic exists.  A change that fails, as on a full disk, is retried every ``RETRY_S``; documents need no disk
and do not wait for that, so a revoked key is refused at once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final

import msgspec

from penstock.broker.core import Core
from penstock.broker.registry.registry import ACCESS, GROUPS, SCHEMAS
from penstock.broker.steps import Steps
from penstock.cluster.core.metadata import State, Topic
from penstock.config.broker import TopicSettings
from penstock.errors import PenstockError

Run = Callable[[Steps[None]], Awaitable[None]]
Spawn = Callable[[Coroutine[Any, Any, None]], object]

NONE: Final = ("", 0)
RETRY_S: Final = 1.0

logger = logging.getLogger("penstock")


class Following:
    def __init__(self, core: Core, run: Run, spawn: Spawn, on_change: Callable[[], None]) -> None:
        self.changed = asyncio.Event()  # Set and cleared after each change, to wake waiters.
        self.on_carried_out: Callable[[], None] = lambda: None
        self._on_change = on_change
        self._core = core
        self._run = run
        self._spawn = spawn
        self._state = State()
        self.carried_out = 0  # The broker has applied the metadata entries below this number.
        self._topics: dict[str, tuple[str, int]] = {}  # Id and version of the topics that are up to date.
        self._documents: dict[str, int] = {}
        self._running = False

    def follow(self, state: State) -> None:
        self._state = state
        if self._running:
            return
        if self._next() is not None:
            self._running = True
            self._spawn(self._work())
        else:
            self.carried_out = state.next

    def is_current(self, name: str, version: int) -> bool:
        """Whether the broker has this version of a topic; 0: whether it has no such topic."""
        return self._topics.get(name, NONE)[1] == version

    async def _work(self) -> None:
        try:
            while (change := self._next()) is not None:
                try:
                    await change()
                except PenstockError as error:
                    if self._core.state.closed:
                        return
                    logger.warning("a change of the cluster cannot be carried out now: %s", error)
                    for name in self._changed_documents():
                        await self._load(name)
                    await asyncio.sleep(RETRY_S)
                    continue
                self._on_change()
                self.changed.set()
                self.changed.clear()
            self.carried_out = self._state.next
            self.on_carried_out()
        finally:
            self._running = False

    def _next(self) -> Callable[[], Awaitable[None]] | None:
        """The next change; None if the broker has applied all metadata."""
        topics = self._state.topics
        for name, (identity, _) in self._topics.items():
            if name not in topics or topics[name].id != identity:
                return partial(self._remove, name)
        for name, topic in topics.items():
            known = self._topics.get(name)
            if known is None:
                return partial(self._make, name, topic)
            if known[1] != topic.version:
                return partial(self._alter, name, topic)
        for name in self._changed_documents():
            return partial(self._load, name)
        return None

    def _changed_documents(self) -> list[str]:
        found = self._state.documents.items()
        return [name for name, document in found if self._documents.get(name) != document.version]

    async def _make(self, name: str, topic: Topic) -> None:
        made = self._core.topics.make(name, _settings(topic), bytes.fromhex(topic.id), limited=False)
        await self._run(made)
        self._topics[name] = topic.id, topic.version

    async def _alter(self, name: str, topic: Topic) -> None:
        await self._run(self._core.topics.change(name, _settings(topic), self._core.groups))
        self._topics[name] = topic.id, topic.version

    async def _remove(self, name: str) -> None:
        await self._run(self._core.topics.remove(name))
        del self._topics[name]  # Even if its files cannot be removed: maintenance retries that.
        await self._run(self._core.topics.sweep())

    async def _load(self, name: str) -> None:
        document = self._state.documents[name]
        core = self._core
        loads = {ACCESS: core.access.load, GROUPS: core.group_configs.load, SCHEMAS: core.schemas.load}
        loads[name](document.text.encode())
        self._documents[name] = document.version


def _settings(topic: Topic) -> TopicSettings:
    return msgspec.json.decode(topic.settings, type=TopicSettings)
