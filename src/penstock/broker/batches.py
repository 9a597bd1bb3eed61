"""Consumers and publishes in terms of record batches, for front ends.

Clients encode and decode; the broker passes the bytes on.  So a front end
publishes batches (``Publishing.append_batches``), and its consumers receive
leased ranges of offsets with the batches that contain them, and settle them by
partition, lease and offsets:

    receive ──> LeasedBatch(partition, lease, attempt, start, end, data)
                     └──> ack, nack, reject: (partition, lease, start, end)

A consumer can only settle its own leases.  After a lost connection it may resume:
it lists the leases it still has (``keep``), and the others, which were sent and never
arrived, are returned without counting the attempt.
"""

from collections.abc import Callable
from typing import Final

from penstock.broker.consumers import BrokerConsumer
from penstock.broker.core import Core
from penstock.broker.state import GroupConsumer
from penstock.broker.steps import Steps
from penstock.errors import Closed
from penstock.model.failure import Failure
from penstock.model.message import Message
from penstock.wire.native import Run

# About so many at a time, or one message that is larger: a front end joins them into one answer, and the
# system takes larger blocks of memory back each time (memory.py).
ANSWER_BYTES: Final = 4 << 20


def no_messages(*_: object) -> list[object]:
    """Used where a consumer makes no messages of its records."""
    raise AssertionError("a consumer of batches is handed no messages")


class BatchConsumer(BrokerConsumer):
    """One consumer of a front end; ``receive`` returns a ``LeasedBatch`` for each lease."""

    def __init__(self, core: Core, state: GroupConsumer) -> None:
        super().__init__(core, state)
        state.takes_batches = True
        state.bytes_max = ANSWER_BYTES
        state.settler = self
        self.visibility_ms = state.visibility_ms
        self.at_most_once = state.group.settings.delivery == "at-most-once"
        self.session_ms = state.group.settings.session_timeout_ms

    def ack(self, runs: list[Run]) -> Steps[None]:
        return self._core.queues.ack_runs(self._state, runs, [])

    def ack_and_publish(self, runs: list[Run], outputs: list[tuple[str, Message]]) -> Steps[None]:
        """Ack these and publish ``outputs``, atomically."""
        return self.publishing(outputs, self._core.queues.ack_runs(self._state, runs, outputs))

    def nack(self, runs: list[Run], delay_ms: int | None, failure: Failure) -> Steps[None]:
        """Deliver these again after the delay, or after the group's backoff."""
        return self._core.queues.nack_runs(self._state, runs, delay_ms, failure)

    def reject(self, runs: list[Run], reason: str) -> Steps[None]:
        return self._core.queues.reject_runs(self._state, runs, reason)

    def extend(self, leases: list[tuple[int, int]], duration_ms: int) -> Steps[list[tuple[int, int]]]:
        """Keep these leases (partition, lease) for so long from now; returns those that are lost."""
        return self._core.queues.extend_leases(self._state, leases, duration_ms)

    def want_records(self) -> None:
        """Queue groups: receive records, not stored batches; for protocols with another encoding."""
        self._state.takes_records = True

    def want_single_leases(self) -> None:
        """Queue groups: a lease, and so a visibility timeout, for each message.

        Of an ordered group, one receive may then get several messages of a key, in their order.
        """
        self._state.leases_singly = True
        self._state.key_batches = set()

    def want(self, partitions: frozenset[int], bytes_max: int, one_at_least: bool) -> None:
        """Queue groups: receive from these partitions only, and at most this many bytes of batches.

        With ``one_at_least`` a message is returned even if it is larger, or it could never be received.  A
        partition of which the group has as many messages in flight as share consumers may hold
        (``GroupConfig.share_locks``) has none for this consumer.
        """
        self._state.wanted = partitions
        self._state.bytes_max = bytes_max
        self._state.bytes_exact = True
        self._state.one_at_least = one_at_least
        self._state.locks_max = self._core.group_configs.locks_max(self._state.group.name)

    def unsettled(self, partition: int, leases: list[int]) -> list[Run]:
        """Queue groups: the unsettled parts of these leases of a partition."""
        return self._core.queues.unsettled(self._state, partition, leases)

    def commit(self, offsets: dict[int, int]) -> Steps[None]:
        """Stream groups: commit these offsets, by partition."""
        return self._core.streams.commit_offsets(self._state, offsets)

    def heartbeat(self) -> list[int]:
        """Stream groups: send a heartbeat; returns the assigned partitions."""
        if self.closed:
            raise Closed(what="broker" if self._core.state.closed else "consumer")
        if self.kind == "stream":
            self._core.streams.heartbeat(self._state)
        return self.assignment

    def tell_assignment(self, tell: Callable[[list[int]], None]) -> None:
        """Stream groups: call this with the partitions when they change, before any message of them comes."""
        self._state.on_assignment = tell

    def keep(self, leases: list[tuple[int, int]], positions: dict[int, int]) -> Steps[None]:
        """The client has reconnected: it still has these leases, and has read up to these positions."""
        yield from ()
        if self.kind == "stream":
            self._core.streams.resume(self._state, positions)
        else:
            self._core.queues.keep(self._state, set(leases))

    def lose(self) -> Steps[None]:
        """Queue groups: give back everything and count the attempt; the consumer stays open."""
        yield from ()
        self._core.queues.keep(self._state, frozenset(), disconnected=True)
