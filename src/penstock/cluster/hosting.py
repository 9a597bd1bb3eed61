"""The broker as the host of the cluster core: its logs in WAL entries and checkpoints, and back.

    pack       the new bytes of every log of every open partition, between two steps of the broker
    cut        the same logs as far as they are packed, one piece for each segment, and the journal's snapshot
    receive    fills the folder of a partition from pieces and slices; ``open`` is the recovery of a crash

The local disk is only a cache: an incarnation begins with an empty directory, and nothing of it is
trusted later.

Cost: a round looks at all logs that are open, about 0.2 us each.  A checkpoint holds the pieces that are
new in memory until they are stored.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeAlias

from penstock.broker.core import Core
from penstock.broker.drivers.loop import LoopDriver
from penstock.broker.state import Partition
from penstock.broker.storage.recovery import JOURNAL, SCHEDULE, log_config
from penstock.clock import stopwatch_ns
from penstock.cluster.commit import ClusterCommit
from penstock.cluster.core.host import Part
from penstock.cluster.core.metadata import Key, State
from penstock.cluster.core.wal import Slice
from penstock.cluster.following import Following
from penstock.errors import NotOwner, PenstockError
from penstock.log.log import START, Log
from penstock.log.log import Slice as LogSlice

DATA: Final = "data"
SNAPSHOT: Final = "journal/snapshot"
FOLDERS: Final = {DATA: "", JOURNAL: f"/{JOURNAL}", SCHEDULE: f"/{SCHEDULE}"}
TAKE_BYTES: Final = 1 << 40  # All of it: a round is consistent only as a whole.

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], Awaitable[None]]


class PackedLogs:
    def __init__(self) -> None:
        self.parts: list[tuple[Slice, bytes]] = []
        self.taken: list[tuple[Log, LogSlice]] = []
        self.began_ns = stopwatch_ns()


class BrokerHost:
    """See ``Host``."""

    def __init__(self, core: Core, driver: LoopDriver, commit: ClusterCommit, spawn: Spawn) -> None:
        self.state = State()
        self._core = core
        self._driver = driver
        self._commit = commit
        self._spawn = spawn
        self._open: dict[Key, Partition] = {}  # Also those that are closing.
        self._closing: dict[Key, Awaitable[None]] = {}
        self._reopening: dict[Key, bool] = {}  # False: it is to be closed again as soon as it is open.
        self._resumed: dict[Key, Awaitable[None]] = {}  # The same partitions.
        self.following = Following(core, driver.run, spawn, self.follow_owners)
        self.deliver_from_ms: Callable[[Key], int] = lambda _: 0  # The core's: see ``Node.deliver_from_ms``.

    # Commit rounds.

    def pack(self) -> PackedLogs | None:
        packed = PackedLogs()
        for name, topic in self._core.state.topics.items():
            for partition in topic.partitions.owned:  # Also one whose opening waits for this round.
                self._open[name, partition.number] = partition
        for key, partition in self._open.items():
            for kind, log in logs_of(partition):
                taken = log.take_slice(TAKE_BYTES) if log.failed is None else None
                if taken is not None:
                    each = Slice(*key, partition.epoch, kind, taken.start, len(taken.data))
                    packed.parts.append((each, taken.data))
                    packed.taken.append((log, taken))
        self._commit.clear()
        return packed if packed.parts else None

    def confirm(self, packed: PackedLogs) -> None:
        for log, taken in packed.taken:
            log.confirm(taken.written, taken.end)
        self._commit.took((stopwatch_ns() - packed.began_ns) // 1000)
        self._commit.settled()

    def reject(self) -> None:
        for (topic, number), partition in self._open.items():
            error = NotOwner(topic=topic, partition=number, owner=-1, epoch=partition.epoch)
            for _, log in logs_of(partition):
                log.reject(error)
        self._commit.settled()

    # Partitions.

    async def receive(self, key: Key, epoch: int) -> "IncomingPartition":
        while not self._knows(key):
            await self.following.changed.wait()
        while (busy := self._closing.get(key) or self._resumed.get(key)) is not None:
            await busy
        return IncomingPartition(self, self._core, key, epoch)

    def _knows(self, key: Key) -> bool:
        topic = self._core.state.topics.get(key[0])
        return topic is not None and key[1] < len(topic.partitions)

    async def opened(self, key: Key, epoch: int) -> None:
        """Recover a partition whose files are there, and serve it."""
        from_ms = self.deliver_from_ms(key)
        await self._driver.run(self._core.open_partition(*key, epoch, from_ms))
        partition = self._open[key] = self._core.state.topic(key[0]).partitions[key[1]]
        self._commit.kick()
        wait_ms = from_ms - self._core.state.clock.steady_ms()
        if wait_ms > 0:
            asyncio.get_running_loop().call_later(wait_ms / 1000, partition.topic.wake)

    def close(self, key: Key) -> None:
        if key in self._reopening:
            self._reopening[key] = False
        elif key not in self._closing and key in self._open:
            self._closing[key] = self._spawn(self._close(key))

    async def _close(self, key: Key) -> None:
        try:
            await self._driver.run(self._core.close_partition(*key, *self.state.owner_of(key)))
        except PenstockError:
            pass  # What was not committed is not: who waited for it knows.
        finally:
            del self._open[key], self._closing[key]
        self.follow(self.state)

    def stop(self, key: Key) -> None:
        self.close(key)

    def resume(self, key: Key, epoch: int) -> None:
        self._reopening[key] = True
        self._resumed[key] = self._spawn(self._reopen(key, epoch))

    async def _reopen(self, key: Key, epoch: int) -> None:
        try:
            while key in self._closing:
                await self._closing[key]
            if self._reopening[key]:
                await self.opened(key, epoch)
        finally:
            del self._resumed[key]
            if not self._reopening.pop(key):
                self.close(key)

    def serves(self, key: Key) -> bool:
        return key in self._open and key not in self._closing and key not in self._reopening

    def drained(self, key: Key) -> bool:
        return key not in self._closing and key not in self._reopening

    # Checkpoints.

    def cut(self, key: Key) -> list[Part] | None:
        partition = self._open.get(key)
        if partition is None or key in self._closing:
            return None
        journal = partition.journal
        if journal is not None and journal.snapshot_end > journal.log.taken:
            return None  # The snapshot has what is in no entry yet.
        files, directory = partition.topic.files, partition.directory
        parts = [part for kind, log in logs_of(partition) for part in _segments(kind, log)]
        for name in (START, SNAPSHOT):
            if files.exists(f"{directory}/{name}"):
                data = files.read_file(f"{directory}/{name}")
                parts.append(
                    Part(name, data.hex() if len(data) < 64 else data[:4].hex(), partial(bytes, data))
                )
        return parts

    # Metadata.

    def follow(self, state: State) -> None:
        self.state = state
        self.following.follow(state)
        self.follow_owners()

    def follow_owners(self) -> None:
        """Tell the broker who owns the partitions that are not here."""
        for name, topic in self.state.topics.items():
            known = self._core.state.topics.get(name)
            count = 0 if known is None else min(len(known.partitions), len(topic.partitions))
            for number in range(count):
                self._core.set_owner(name, number, *self.state.owner_of((name, number)))


class IncomingPartition:
    """See ``Incoming``."""

    def __init__(self, host: BrokerHost, core: Core, key: Key, epoch: int) -> None:
        self._host = host
        self._key = key
        self._epoch = epoch
        topic = core.state.topic(key[0])
        self._files = topic.files
        self._config = log_config(topic.settings)
        self._directory = f"{topic.directory}/{key[1]}"
        self._logs: dict[str, Log] = {}
        self._small: dict[str, bytes] = {}
        self._files.remove_tree(self._directory)

    def has(self, file: str, identity: str) -> bool:  # noqa: ARG002 - the directory was empty
        return False

    def restore(self, file: str, identity: str, data: bytes) -> None:  # noqa: ARG002
        kind, _, base = file.partition("/")
        if kind in FOLDERS and base.isdigit():
            self._log(kind, int(base)).append_slice(data)
        else:
            self._small[file] = data

    def _log(self, kind: str, base: int = 0) -> Log:
        if kind not in self._logs:
            directory = self._directory + FOLDERS[kind]
            self._logs[kind] = Log.open(self._files, directory, self._config, base)
        return self._logs[kind]

    def end(self, log: str) -> int:
        return self._log(log).end

    def append(self, log: str, first: int, batches: memoryview) -> None:  # noqa: ARG002 - they have it
        self._log(log).append_slice(bytes(batches))

    async def open(self) -> None:
        for log in self._logs.values():
            log.close()
        for name, data in self._small.items():
            self._files.make_directory(f"{self._directory}/{name}".rpartition("/")[0])
            self._files.write_file(f"{self._directory}/{name}", data)
        await self._host.opened(self._key, self._epoch)

    def drop(self) -> None:
        for log in self._logs.values():
            log.abandon()


def logs_of(partition: Partition) -> list[tuple[str, Log]]:
    """The logs that are committed, by their kind."""
    logs = [(DATA, partition.log)]
    if partition.journal is not None:
        logs.append((JOURNAL, partition.journal.log))
    if partition.schedule is not None:
        logs.append((SCHEDULE, partition.schedule.log))
    return [(kind, log) for kind, log in logs if log.config.durability != "memory"]


def _segments(kind: str, log: Log) -> list[Part]:
    """The batches of each segment, as far as they are packed."""
    parts = []
    for segment in log.segments():
        start, end = segment.base_offset, min(segment.next_offset, log.taken)
        if start < end:
            data, following = log.fetch_all(max(start, log.start), TAKE_BYTES, end)
            while following < end:
                more, following = log.fetch_all(following, TAKE_BYTES, end)
                data += more
            identity = f"{start}-{end}-{segment.bytes if segment.sealed else len(data)}"
            parts.append(Part(f"{kind}/{start}", identity, partial(bytes, data)))
    return parts
