"""The consumers of share-group members: what the state machine in ``groups/shares.py`` does to the broker.

    Shares ──> ConsumingMember, a member of a group ──> Share, for each topic: a consumer of the queue group

A share group is, on each topic, the queue group of its name; Penstock's own consumers may be in it, too.  A
member has one consumer for each topic, for the partitions of this node: Kafka's clients fetch from each
owner, and send heartbeats to the coordinator of the group.  It is closed when the member is, or when the
member has left the topic and acknowledged everything it had of it.
"""

import re
from collections.abc import Iterable
from typing import Final, cast

from penstock.broker.frontend import BatchConsumer, EmbeddedAsyncBroker, ignore_result
from penstock.clock import Clock
from penstock.config.broker import GroupOptions
from penstock.errors import Closed, GroupNotFound, NotOwner, TopicNotFound
from penstock.frontends.kafka.starts import start_of
from penstock.frontends.security.gateway import AuthGateway
from penstock.frontends.security.guarded import BrokerOperations
from penstock.groups.shares import Assignment, ShareGroups, ShareMember
from penstock.operations.consumers import ConsumerOptions
from penstock.types import NAME_LENGTH_MAX
from penstock.wire.native import NO_LEASE, LeasedBatch, Run

LOCK_MS: Final = 30_000  # What a client gets while it has no topic.
PARTITIONS_MAX: Final = 100_000  # Of one session.
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9._-]")


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
        """Whether the topic or the group was deleted."""
        return self.consumer.closed

    def take(self, batches: Iterable[LeasedBatch]) -> None:
        """Note leases that are being sent to the member."""
        for batch in batches:
            if batch.lease != NO_LEASE:
                self._held.setdefault(batch.partition, set()).add(batch.lease)

    def held(self, partition: int) -> list[Run]:
        """The records that the member holds of a partition, in order."""
        leases = self._held.get(partition, set())
        runs = self.consumer.unsettled(partition, list(leases))
        self._held[partition] = {run[1] for run in runs}
        return sorted(runs, key=_start)

    def release(self, disconnected: bool = False) -> None:
        """Release all leases; what was sent counts as an attempt if the connection was lost."""
        if disconnected and not self.is_gone:
            self.release_others()
            self._broker.start(self.consumer.lose(), ignore_result)
        self._held.clear()
        self.release_others()

    def release_others(self) -> None:
        """Release leases that were never sent."""
        if not self.is_gone:
            kept = [(partition, lease) for partition, leases in self._held.items() for lease in leases]
            self._broker.start(self.consumer.keep(kept, {}), ignore_result)

    def close(self, disconnected: bool = False) -> None:
        """Release all leases and close the consumer; the attempt counts if the member is lost."""
        if not self.is_gone:
            consumer = self.consumer
            self._broker.start(consumer.disconnect() if disconnected else consumer.close(), ignore_result)


class ConsumingMember(ShareMember):
    """A member of a share group, with a consumer for each of its topics."""

    def __init__(
        self,
        broker: EmbeddedAsyncBroker,
        clock: Clock,
        operations: BrokerOperations,
        group: str,
        identity: str,
    ) -> None:
        super().__init__(operations, group, identity)
        self.operations = operations  # Of the client that added it.
        self._broker = broker
        self._wall_ms = clock.wall_ms
        self._closed = False
        self._shares: dict[str, Share] = {}

    async def share(self, topic: str) -> Share:
        """The member's consumer of a topic, opened if necessary."""
        layout = self.operations.layout(topic)
        found = self._shares.get(topic)
        if found is not None and found.topic_id == layout.id and not found.is_gone:
            return found
        await self._create_group(topic)
        options = ConsumerOptions(consumer_id=self._name(), group={"kind": "queue"})
        opening = self.operations.own_consumer(topic, self.group, options)
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

    async def _create_group(self, topic: str) -> None:
        """At all owners of the topic, if it is new there."""
        try:
            await self._broker.run(self.operations.describe_group(topic, self.group))
        except GroupNotFound:
            options: GroupOptions = {"kind": "queue"}
            options |= self._initial_options()
            await self._broker.run(self.operations.create_group(topic, self.group, options))

    def _initial_options(self) -> GroupOptions:
        """Options of a group that is new on a topic, as operators have configured them."""
        given, rules = self.operations.group_config(self.group)
        options: GroupOptions = {
            "start": start_of(rules.share_start, self._wall_ms()),
            "max_attempts": rules.share_attempts,
        }
        if given.share_lock_ms is not None:
            options["visibility_timeout"] = f"{given.share_lock_ms}ms"
        if given.share_isolation is not None:
            options["isolation"] = given.share_isolation
        return options

    @property
    def lock_ms(self) -> int:
        """The shortest visibility timeout of its topics."""
        return min((share.consumer.visibility_ms for share in self._shares.values()), default=LOCK_MS)

    def _name(self) -> str:
        """The consumer's name in traces and group descriptions; a member id may have any characters."""
        return _UNUSUAL.sub("_", f"kafka-{self.identity}")[:NAME_LENGTH_MAX]

    def opened(self, topic: str) -> Share | None:
        """The member's consumer of a topic, if it is open."""
        found = self._shares.get(topic)
        return None if found is None or found.is_gone else found

    async def _open(self, topic: str) -> None:
        """Its part of a topic here; the member fetches from other owners itself."""
        try:
            await self.share(topic)
        except NotOwner:
            await self._create_group(topic)

    async def assign(self) -> bool:
        """Assign all partitions of the member's topics; returns whether that has changed."""
        found: Assignment = {}
        for topic in sorted(self.topics):
            try:
                await self._open(topic)
                layout = self.operations.layout(topic)
            except TopicNotFound:
                continue  # It may come.
            found[layout.id] = layout.partitions
        for topic, share in list(self._shares.items()):
            if share.is_gone or (topic not in self.topics and not share.consumer.in_flight):
                share.close()
                del self._shares[topic]
        changed = found != self.assignment
        self.assignment = found
        return changed

    def release(self, disconnected: bool) -> None:
        for share in self._shares.values():
            share.release(disconnected)

    def close(self, disconnected: bool) -> None:
        self._closed = True
        for share in self._shares.values():
            share.close(disconnected)


class Shares(ShareGroups[ConsumingMember]):
    """The share groups of one listener."""

    def __init__(self, broker: EmbeddedAsyncBroker, clock: Clock, gateway: AuthGateway) -> None:
        super().__init__(self._new_member)
        self._gateway = gateway
        self._broker = broker
        self._clock = clock
        self._stopping = False

    def stop(self) -> None:
        """The server stops: connections that are lost from now on are not the clients' doing."""
        self._stopping = True

    def connection_lost(self, connection: object, disconnected: bool = True) -> None:
        super().connection_lost(connection, disconnected and not self._stopping)

    def _new_member(self, owner: object, group: str, identity: str) -> ConsumingMember:
        made = ConsumingMember(self._broker, self._clock, cast("BrokerOperations", owner), group, identity)
        if self._coordinates(group):
            self._broker.keep_share_member(self, made)
        return made

    def _coordinates(self, group: str) -> bool:
        """Whether members of the group send their heartbeats to this node.

        At other nodes a member is known as long as its session: until its connection ends.
        """
        owners = self._gateway.owners
        return owners.coordinator_of(group)[0] == owners.node

    def tick(self, now_ms: int) -> None:
        for member in self.joined():
            if not self._coordinates(member.group):  # Not any more: it has joined elsewhere, and is not lost.
                member.deadline_ms = -1
                self.leave(member)
        super().tick(now_ms)


def _start(run: Run) -> int:
    return run[2]
