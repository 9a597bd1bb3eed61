"""A model of the broker: partitions that are lists, with idempotent producers and a queue.

It is obviously right on its own, so whatever the checker finds is the fault of the cluster core.
Messages are numbers ``producer * 10**6 + n``; the journal has the offsets that were settled.
"""

import asyncio
import hashlib
from collections.abc import Callable
from random import Random

from penstock.clock import Clock
from penstock.cluster.core.host import Part
from penstock.cluster.core.metadata import Key, Piece, State
from penstock.cluster.core.node import Node
from penstock.cluster.core.wal import Slice

LOGS = ("data", "journal")
VISIBLE_MS = 1500  # A delivered message is delivered again after this.


class Rejected(Exception):  # noqa: N818 - it is an answer
    """Not written, and never will be."""


class Partition:
    def __init__(self, key: Key, epoch: int) -> None:
        self.key = key
        self.epoch = epoch
        self.logs: dict[str, list[int]] = {log: [] for log in LOGS}
        self.packed = dict.fromkeys(LOGS, 0)
        self.safe = dict.fromkeys(LOGS, 0)
        self.stopped = False
        self.given = 0  # Leases so far.
        self.leases: dict[int, int] = {}  # Number of a lease -> offset.
        self.visible_ms: dict[int, int] = {}  # Offset -> when it may be delivered again.
        self.places: dict[int, int] = {}  # Message -> offset.
        self.last: dict[int, int] = {}  # Producer -> its newest message.

    def note(self, log: str, item: int) -> None:
        if log == "data":
            self.places[item] = len(self.logs["data"])
            self.last[item // 10**6] = item
        self.logs[log].append(item)


class PackedSlices:
    def __init__(self) -> None:
        self.parts: list[tuple[Slice, bytes]] = []
        self.ends: list[tuple[Partition, str, int]] = []


class IncomingPartition:
    def __init__(self, host: "ModelHost", key: Key, epoch: int) -> None:
        self._host = host
        self._partition = Partition(key, epoch)

    def leaves(self, piece: Piece) -> bool:
        return False

    def restore(self, piece: Piece, data: bytes) -> None:
        for item in data.split():
            self._partition.note(piece.file, int(item))

    def end(self, log: str) -> int:
        return len(self._partition.logs[log])

    def append(self, log: str, first: int, batches: memoryview) -> None:
        for item in bytes(batches).split():
            self._partition.note(log, int(item))

    async def open(self) -> None:
        partition = self._partition
        partition.packed = {log: len(items) for log, items in partition.logs.items()}
        partition.safe = dict(partition.packed)
        self._host.partitions[partition.key] = partition

    def drop(self) -> None: ...


class ModelHost:
    def __init__(
        self, clock: Clock, on_append: Callable[[], None], on_commit: Callable[[Key, int], None]
    ) -> None:
        self.host = self
        self._clock = clock
        self.partitions: dict[Key, Partition] = {}
        self.rejected = False
        self._on_append = on_append
        self._on_commit = on_commit
        self._waiting: list[tuple[Partition, str, int, asyncio.Future[None]]] = []

    # The host of the cluster core.

    def pack(self) -> PackedSlices | None:
        packed = PackedSlices()
        for partition in self.partitions.values():
            for log in LOGS:
                first, items = partition.packed[log], partition.logs[log]
                if len(items) > first:
                    data = b"".join(b"%d\n" % item for item in items[first:])
                    packed.parts.append((Slice(*partition.key, partition.epoch, log, first, len(data)), data))
                    partition.packed[log] = len(items)
                    packed.ends.append((partition, log, len(items)))
        return packed if packed.parts else None

    def confirm(self, packed: PackedSlices) -> None:
        for partition, log, end in packed.ends:
            self._on_commit(partition.key, partition.epoch)
            partition.safe[log] = max(partition.safe[log], end)
        waiting, self._waiting = self._waiting, []
        for partition, log, offset, done in waiting:
            if offset >= partition.safe[log]:
                self._waiting.append((partition, log, offset, done))
            elif not done.done():
                done.set_result(None)

    def reject(self) -> None:
        self.rejected = True
        self._reject(lambda partition: True)

    def _reject(self, concerned: Callable[[Partition], bool]) -> None:
        waiting, self._waiting = self._waiting, []
        for partition, log, offset, done in waiting:
            if not concerned(partition):
                self._waiting.append((partition, log, offset, done))
            elif not done.done():
                done.set_exception(Rejected())

    async def receive(self, key: Key, epoch: int) -> IncomingPartition:
        return IncomingPartition(self, key, epoch)

    def close(self, key: Key) -> None:
        """Of a moved partition everything is confirmed; of a sealed node the rounds decide."""
        self.partitions.pop(key, None)

    def stop(self, key: Key) -> None:
        self.partitions[key].stopped = True

    def resume(self, key: Key, epoch: int) -> None:
        self.partitions[key].stopped = False

    def serves(self, key: Key) -> bool:
        return key in self.partitions and not self.partitions[key].stopped

    def drained(self, key: Key) -> bool:
        partition = self.partitions[key]
        return all(partition.safe[log] == len(partition.logs[log]) for log in LOGS)

    def cut(self, key: Key) -> list[Part]:
        return [self._part(log, self.partitions[key]) for log in LOGS]

    @staticmethod
    def _part(log: str, partition: Partition) -> Part:
        data = b"".join(b"%d\n" % item for item in partition.logs[log][: partition.packed[log]])
        return Part(log, hashlib.sha256(data).hexdigest()[:16], lambda: data)

    carried_out = 0  # Nobody waits for it.

    def follow(self, state: State) -> None: ...

    # For clients.

    def _serving(self, key: Key) -> Partition:
        partition = self.partitions.get(key)
        if self.rejected or partition is None or partition.stopped:
            raise Rejected
        return partition

    def join(self, _: int, node: Node, __: object, ___: int) -> None:
        self._node = node

    async def open(self) -> None: ...

    async def publish(self, key: Key, message: int, producer_id: int, sequence: int) -> int:
        """Append a message, unless it is there; returns its offset when it is committed."""
        partition = self._serving(key)
        if message not in partition.places:
            if partition.last.get(message // 10**6, -1) >= message:
                raise Rejected  # A newer one of the producer is there.
            partition.note("data", message)
        offset = partition.places[message]
        await self._committed(partition, "data", offset)
        return offset

    async def settle(self, key: Key, receipt: int, message: int) -> int:
        """Settle the message that was leased under a number; returns its offset."""
        partition = self._serving(key)
        offset = partition.leases.pop(receipt, None)
        if offset is None:
            raise Rejected  # The lease was another owner's, or is used up.
        partition.note("journal", offset)
        await self._committed(partition, "journal", len(partition.logs["journal"]) - 1)
        return offset

    async def deliver(self, key: Key) -> tuple[int, int, int] | None:
        """The next message that is neither settled nor leased: number of the lease, offset, message."""
        partition, now_ms = self._serving(key), self._clock.steady_ms()
        if not self._node.delivers(key):
            return None
        settled = set(partition.logs["journal"])
        for offset in range(partition.safe["data"]):
            if offset not in settled and partition.visible_ms.get(offset, 0) <= now_ms:
                partition.visible_ms[offset] = now_ms + VISIBLE_MS
                lease = (partition.epoch << 40) + partition.given
                partition.given += 1
                partition.leases[lease] = offset
                return lease, offset, partition.logs["data"][offset]
        return None

    def read(self, key: Key, random: Random) -> tuple[int, list[tuple[int, int]]]:
        """Where the log ends for a reader, and some of what it sees: offsets and messages."""
        if not self._node.commits.leased:
            raise Rejected
        log = self.messages(key)
        found = (random.randrange(len(log)), len(log) - 1) if log else ()
        return len(log), [(offset, log[offset]) for offset in found]

    def messages(self, key: Key) -> list[int]:
        partition = self._serving(key)
        return partition.logs["data"][: partition.safe["data"]]

    def is_cached(self, key: Key) -> bool:
        return True

    def owes(self, key: Key) -> bool:
        return False

    def settled(self, key: Key) -> set[int]:
        partition = self.partitions[key]
        return set(partition.logs["journal"][: partition.safe["journal"]])

    async def _committed(self, partition: Partition, log: str, offset: int) -> None:
        if offset >= partition.safe[log]:
            done = asyncio.get_running_loop().create_future()
            self._waiting.append((partition, log, offset, done))
            self._on_append()
            await done
