"""Carries out on this node's broker what the metadata say: topics that come, change and go, and documents.

One task does it, one change after the other, always towards the newest state: a topic that was created and
deleted meanwhile is never made.  Partitions are opened and closed by the core (``core/node.py``), after the
topic is there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final

import msgspec

from penstock.broker.core import Core
from penstock.broker.registry.registry import ACCESS, GROUPS
from penstock.broker.steps import Steps
from penstock.cluster.core.metadata import State, Topic
from penstock.config.broker import TopicSettings

Run = Callable[[Steps[None]], Awaitable[None]]
Spawn = Callable[[Coroutine[Any, Any, None]], object]

NONE: Final = ("", 0)


class Following:
    def __init__(self, core: Core, run: Run, spawn: Spawn, on_change: Callable[[], None]) -> None:
        self.changed = asyncio.Event()  # Set and cleared after each change, for those who wait for one.
        self._on_change = on_change
        self._core = core
        self._run = run
        self._spawn = spawn
        self._state = State()
        self._topics: dict[str, tuple[str, int]] = {}  # Id and version of those that are as in the metadata.
        self._documents: dict[str, int] = {}
        self._running = False

    def follow(self, state: State) -> None:
        self._state = state
        if not self._running and self._next() is not None:
            self._running = True
            self._spawn(self._work())

    def is_current(self, name: str, version: int) -> bool:
        """Whether the broker has a topic in this version; 0: that it has none."""
        return self._topics.get(name, NONE)[1] == version

    async def _work(self) -> None:
        try:
            while (change := self._next()) is not None:
                await change()
                self._on_change()
                self.changed.set()
                self.changed.clear()
        finally:
            self._running = False

    def _next(self) -> Callable[[], Awaitable[None]] | None:
        """What is to be done next; None if the broker is as the metadata say."""
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
        for name, document in self._state.documents.items():
            if self._documents.get(name) != document.version:
                return partial(self._load, name)
        return None

    async def _make(self, name: str, topic: Topic) -> None:
        made = self._core.topics.make(name, _settings(topic), bytes.fromhex(topic.id), limited=False)
        await self._run(made)
        self._topics[name] = topic.id, topic.version

    async def _alter(self, name: str, topic: Topic) -> None:
        await self._run(self._core.topics.change(name, _settings(topic), self._core.groups))
        self._topics[name] = topic.id, topic.version

    async def _remove(self, name: str) -> None:
        await self._run(self._core.topics.remove(name))
        await self._run(self._core.topics.sweep())
        del self._topics[name]

    async def _load(self, name: str) -> None:
        document = self._state.documents[name]
        loads = {ACCESS: self._core.access.load, GROUPS: self._core.group_configs.load}
        loads[name](document.text.encode())
        self._documents[name] = document.version


def _settings(topic: Topic) -> TopicSettings:
    return msgspec.json.decode(topic.settings, type=TopicSettings)
