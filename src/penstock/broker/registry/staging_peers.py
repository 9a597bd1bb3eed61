"""What staged publishes need of the other nodes of a cluster; ``cluster/routing/staging.py`` has it.

The topic ``__staging``, the intents of a topic and the partitions that they are for may all have different
owners.  That of the intents publishes: it reads what was staged, and hands each batch to the owner of its
partition.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from penstock.broker.steps import Steps


class StagingRoom(msgspec.Struct, frozen=True, array_like=True):
    """What a partition can take, for a staged publish that is about to be decided."""

    last_timestamp: int
    scheduled: int  # Messages that wait for their time.
    depth: int


class StagingPeers(Protocol):
    def read(self, offset: int, end: int) -> Steps[bytes]:
        """Durable record batches of ``__staging`` from an offset on; an error if it ends before ``end``."""
        ...

    def rooms(self, topic: str) -> Steps[dict[int, StagingRoom]]:
        """What each partition of a topic can take, by its number."""
        ...

    def place(
        self, topic: str, batches: dict[int, list[tuple[int, bytes]]], producer_id: int, time_ms: int
    ) -> Steps[None]:
        """Have owners append batches of an intent, by partition and with sequence numbers, until durable."""
        ...

    def release(self, ranges: Sequence[tuple[int, int]]) -> Steps[None]:
        """Note that these offsets of ``__staging`` were published."""
        ...
