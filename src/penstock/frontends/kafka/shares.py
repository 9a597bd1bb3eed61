"""The members of share groups, and what each of them has in its hands.

    Shares ──> Sharer, a member of a group ──┬──> Share, for each topic: a consumer of the queue group
                                             └──> ShareSession: what it fetches, on which connection

A share group is, on each topic, the queue group of its name; Penstock's own consumers may be in it, too.
So everything about leases, attempts and dead letters is the broker's.  Here is who holds what:

    I1  a member has one consumer for each topic; it is closed when the member leaves or falls silent, or
        when it has left the topic and answered all it had of it
    I2  what a session has acquired is given back when the session ends; the attempt counts if it ended
        because its connection was lost or the member fell silent, and not if the client closed it
    I3  a member is served to whoever opened it, and a session on the connection it began on

All partitions of its topics are assigned to every member.  A member's epoch is its own: it grows when its
assignment changes.
"""

import asyncio
import re
from collections.abc import Iterable
from typing import Final

from penstock.broker.aio import EmbeddedAsyncBroker
from penstock.broker.batches import BatchConsumer
from penstock.broker.drivers.at_once import now
from penstock.broker.drivers.loop import ignore_result
from penstock.broker.queue.leases import LeasedBatch
from penstock.broker.queue.queues import NO_LEASE
from penstock.clock import Clock
from penstock.config.broker import GroupOptions
from penstock.errors import Closed, Forbidden, GroupNotFound, Overloaded, TopicNotFound
from penstock.frontends.kafka.starts import start_of
from penstock.frontends.security.guarded import BrokerOperations
from penstock.types import NAME_LENGTH_MAX
from penstock.wire.kafka.codes import Code
from penstock.wire.native import Run

LOCK_MS: Final = 30_000  # What a client is told while it has no topic.
MEMBERS_MAX: Final = 10_000  # Of all share groups, at a time.
OPEN, CLOSE = 0, -1  # Epochs of a session, and of a member.
PARTITIONS_MAX: Final = 100_000  # Of one session.
EPOCH_MAX: Final = 2**31 - 1  # The next one is 1.
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9._-]")

Assignment = dict[bytes, int]  # The number of partitions, by topic id.


class Share:
    """One topic of one member."""

    def __init__(self, broker: EmbeddedAsyncBroker, topic_id: bytes, consumer: BatchConsumer) -> None:
        self.topic_id = topic_id
        self.consumer = consumer
        self.wanted: frozenset[int] = frozenset()  # The partitions of the session.
        self._broker = broker
        self._held: dict[int, set[int]] = {}  # Leases by partition; some may be over.

    @property
    def is_gone(self) -> bool:
        """The topic or the group was deleted."""
        return self.consumer.closed

    def take(self, batches: Iterable[LeasedBatch]) -> None:
        """These were lent, and are on their way to the member."""
        for batch in batches:
            if batch.lease != NO_LEASE:
                self._held.setdefault(batch.partition, set()).add(batch.lease)

    def held(self, partition: int) -> list[Run]:
        """What the member holds of a partition, in order."""
        leases = self._held.get(partition, set())
        runs = now(self.consumer.unsettled(partition, list(leases)))
        self._held[partition] = {run[1] for run in runs}
        return sorted(runs, key=_start)

    def release(self, disconnected: bool = False) -> None:
        """Give back all of it; what was sent counts as an attempt if the connection was lost."""
        if disconnected and not self.is_gone:
            self.release_others()
            self._broker.start(self.consumer.lose(), ignore_result)
        self._held.clear()
        self.release_others()

    def release_others(self) -> None:
        """Give back what was lent and never sent."""
        if not self.is_gone:
            kept = [(partition, lease) for partition, leases in self._held.items() for lease in leases]
            self._broker.start(self.consumer.keep(kept, {}), ignore_result)

    def close(self, disconnected: bool = False) -> None:
        """Give back all of it, and want nothing more; the attempt counts if the member is lost."""
        if not self.is_gone:
            consumer = self.consumer
            self._broker.start(consumer.disconnect() if disconnected else consumer.close(), ignore_result)


class ShareSession:
    def __init__(self, connection: object) -> None:
        self.connection = connection  # Its owner, by identity.
        self.epoch = OPEN  # Of the last request.
        self.partitions: dict[bytes, set[int]] = {}  # By topic id.

    @property
    def size(self) -> int:
        """How many partitions that are."""
        return sum(map(len, self.partitions.values()))

    def add(self, topic_id: bytes, partition: int) -> None:
        """From now on this, too."""
        self.partitions.setdefault(topic_id, set()).add(partition)

    def forget(self, topic_id: bytes, partitions: Iterable[int]) -> None:
        left = self.partitions.get(topic_id, set()).difference(partitions)
        if left:
            self.partitions[topic_id] = left
        else:
            self.partitions.pop(topic_id, None)


class Sharer:
    """One member of one group."""

    def __init__(
        self,
        broker: EmbeddedAsyncBroker,
        clock: Clock,
        operations: BrokerOperations,
        group: str,
        member: str,
    ) -> None:
        self.group = group
        self.member = member
        self.operations = operations  # Of whoever opened it.
        self.client_id = ""
        self.client_host = ""
        self.rack: str | None = None
        self.epoch = 0  # 0: it has not joined.
        self.previous = 0  # The epoch before, whose end the client may not have heard of.
        self.topics: frozenset[str] = frozenset()
        self.assignment: Assignment = {}
        self.session: ShareSession | None = None
        self.timer: asyncio.TimerHandle | None = None
        self._broker = broker
        self._wall_ms = clock.wall_ms
        self._closed = False
        self._shares: dict[str, Share] = {}

    async def share(self, topic: str) -> Share:
        """The member's part of a topic, which is opened if it is not."""
        layout = now(self.operations.layout(topic))
        found = self._shares.get(topic)
        if found is not None and found.topic_id == layout.id and not found.is_gone:
            return found
        options: GroupOptions = {"kind": "queue"}
        try:
            now(self.operations.describe_group(topic, self.group))
        except GroupNotFound:
            options |= self._wishes()
        opening = self.operations.batch_consumer(topic, self.group, self._name(), None, options)
        made = Share(self._broker, layout.id, await self._broker.run(opening))
        if self._closed:  # Meanwhile.
            made.close()
            raise Closed(what="consumer")
        known = self._shares.get(topic)
        if known is not None and known is not found:  # Another request was quicker.
            made.close()
            return known
        self._shares[topic] = made
        return made

    def _wishes(self) -> GroupOptions:
        """What operators have said about a group that is new on a topic."""
        said, rules = now(self.operations.group_config(self.group))
        wishes: GroupOptions = {
            "start": start_of(rules.share_start, self._wall_ms()),
            "max_attempts": rules.share_attempts,
        }
        if said.share_lock_ms is not None:
            wishes["visibility_timeout"] = f"{said.share_lock_ms}ms"
        if said.share_isolation is not None:
            wishes["isolation"] = said.share_isolation
        return wishes

    @property
    def lock_ms(self) -> int:
        """How long it may hold what it is lent, on all its topics."""
        return min((share.consumer.visibility_ms for share in self._shares.values()), default=LOCK_MS)

    def _name(self) -> str:
        """The consumer's, in traces and group descriptions; a member id may have any characters."""
        return _UNUSUAL.sub("_", f"kafka-{self.member}")[:NAME_LENGTH_MAX]

    def opened(self, topic: str) -> Share | None:
        """The same, if it is there."""
        found = self._shares.get(topic)
        return None if found is None or found.is_gone else found

    async def assign(self) -> bool:
        """Find what there is of the topics; whether that has changed."""
        found: Assignment = {}
        for topic in sorted(self.topics):
            try:
                share = await self.share(topic)
                found[share.topic_id] = now(self.operations.layout(topic)).partitions
            except TopicNotFound:
                continue  # It may come.
        for topic, share in list(self._shares.items()):
            if share.is_gone or (topic not in self.topics and not share.consumer.in_flight):
                share.close()
                del self._shares[topic]
        changed = found != self.assignment
        self.assignment = found
        return changed

    def advance(self) -> None:
        """Be in the next epoch."""
        self.previous = self.epoch
        self.epoch = following(self.epoch)

    def end_session(self, disconnected: bool = False) -> None:
        """Nobody fetches: what was acquired is for others."""
        self.session = None
        for share in self._shares.values():
            share.release(disconnected)

    def close(self, disconnected: bool = False) -> None:
        self._closed = True
        self.session = None
        for share in self._shares.values():
            share.close(disconnected)
        if self.timer is not None:
            self.timer.cancel()


class Shares:
    """The members of all share groups."""

    def __init__(self, broker: EmbeddedAsyncBroker, clock: Clock) -> None:
        self._broker = broker
        self._clock = clock
        self._members: dict[tuple[str, str], Sharer] = {}
        self._stopping = False

    def stop(self) -> None:
        """The server ends: connections that are lost from now on are not the clients' doing."""
        self._stopping = True

    def find(self, operations: BrokerOperations, group: str, member: str) -> Sharer | None:
        """A member, for whoever opened it."""
        found = self._members.get((group, member))
        if found is not None and found.operations is not operations:
            raise Forbidden(
                who="this login", operation="be a member of", on=f"group {group}", role="consumer"
            )
        return found

    def find_or_add(self, operations: BrokerOperations, group: str, member: str) -> Sharer:
        """The same, and if there is none, a new one."""
        found = self.find(operations, group, member)
        if found is None:
            if len(self._members) >= MEMBERS_MAX:
                raise Overloaded(what="members of share groups", limit=MEMBERS_MAX)
            found = self._members[group, member] = Sharer(
                self._broker, self._clock, operations, group, member
            )
            self.heard(found)
        return found

    def heard(self, member: Sharer) -> None:
        if member.timer is not None:
            member.timer.cancel()
        session_s = now(member.operations.group_config(member.group))[1].share_session_ms / 1000
        member.timer = asyncio.get_running_loop().call_later(session_s, self.remove, member, True)

    def leave(self, member: Sharer) -> None:
        """It has left; on another connection, it may still answer for what it has."""
        member.epoch = member.previous = 0
        if member.session is None:
            self.remove(member)

    def remove(self, member: Sharer, disconnected: bool = False) -> None:
        """It is gone, or silent."""
        place = member.group, member.member
        if self._members.get(place) is member:  # Else somebody has come after it.
            del self._members[place]
        member.close(disconnected)

    def members(self, group: str) -> list[Sharer]:
        """Who has joined a group."""
        return [one for (name, _), one in sorted(self._members.items()) if name == group and one.epoch]

    def lost(self, connection: object) -> None:
        """A connection is gone, and its sessions with it."""
        for member in list(self._members.values()):
            if member.session is not None and member.session.connection is connection:
                self.end_session(member, disconnected=not self._stopping)

    def close(self) -> None:
        for member in list(self._members.values()):
            self.remove(member)

    # Sessions.

    def open_session(
        self, operations: BrokerOperations, group: str, member: str, connection: object
    ) -> tuple[Sharer, ShareSession]:
        """A new one; the member's old one is over."""
        found = self.find_or_add(operations, group, member)
        if found.session is not None:
            found.end_session()
        found.session = ShareSession(connection)
        return found, found.session

    def end_session(self, member: Sharer, disconnected: bool = False) -> None:
        member.end_session(disconnected)
        if not member.epoch:
            self.remove(member)

    def turn(
        self, operations: BrokerOperations, group: str, member: str, connection: object, epoch: int
    ) -> tuple[Sharer, ShareSession] | Code:
        """The session that a request goes on with, or closes; or what is wrong."""
        found = self.find(operations, group, member)
        if found is None or found.session is None or found.session.connection is not connection:
            return Code.SHARE_SESSION_NOT_FOUND
        session = found.session
        if epoch != CLOSE:
            if epoch != following(session.epoch):
                return Code.INVALID_SHARE_SESSION_EPOCH
            session.epoch = epoch
        return found, session


def following(epoch: int) -> int:
    return 1 if epoch == EPOCH_MAX else epoch + 1


def _start(run: Run) -> int:
    return run[2]
