"""Consumers that span several owners: one consumer at each owner, presented to the client as one.

    front end ──> ClusterConsumer ──┬── BatchConsumer   the partitions of this node
                                    └── RemoteShare     those of another owner (shares.py)

``receive`` asks the owners in turn, and if none has a message, it waits at all of them at once.  A lease
belongs to its partition, and so to the owner that has delivered it; its number contains the epoch, so that
the next owner refuses it.  Shares are opened and closed before a receive if the owner table has changed.
``max_in_flight`` holds for each owner.  In a stream group each owner assigns its own partitions.
"""

import secrets
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from penstock.api.operations import ConsumerOperations, Wrap
from penstock.broker.batches import BatchConsumer
from penstock.broker.drivers.loop import ignore_result
from penstock.broker.steps import Arrival, Steps, Waiter
from penstock.client.consume.records import records_of
from penstock.cluster.routing.router import GONE, RETRY_MS, ROUTE_MS_MAX
from penstock.cluster.routing.shares import RemoteShare
from penstock.cluster.routing.staging import StagingRouter
from penstock.config.broker import GroupOptions
from penstock.errors import (
    Closed,
    LeaseLost,
    NotOwner,
    PenstockError,
    ServerUnreachable,
)
from penstock.model.failure import Failure, describe_error
from penstock.model.message import Delivery, LeaseRun, Message, check_held, lease_runs, run_of, unanswer
from penstock.operations.call import IDEMPOTENT
from penstock.operations.codec import plain
from penstock.operations.consumers import ConsumerOptions, consumer_options
from penstock.types import Duration, duration_ms
from penstock.wire.native import PING, LeasedBatch, Run, frame
from penstock.wire.native_bodies import OpenConsumer

Share = BatchConsumer | RemoteShare


class ClusterConsumer(BatchConsumer):
    """One consumer of a front end, over all owners of the topic's partitions."""

    def __init__(self, router: "ConsumerRouter", request: OpenConsumer) -> None:
        # Not the constructor of the base class, whose consumer is at one node.
        self.permit = _anything
        self.create_missing = router.create_missing
        self.waiters: dict[Waiter, None] = {}  # Receives that wait at several owners.
        self._router = router
        self._request = request
        self._shares: dict[int, Share] = {}
        self._from: dict[int, Share] = {}  # By partition: the share that delivered its last message.
        self._ready: list[LeasedBatch] = []  # Arrived between receives.
        self._tell: Callable[[list[int]], None] | None = None
        self._turn = 0
        self._as_records = False
        self._singly = False
        self._is_closed = False
        self._opening = False

    def open(self) -> Steps[None]:
        """Open a share at every owner, or at those that are new, and close those of former owners."""
        while self._opening:  # By another receive.
            yield Arrival(self, self._router.now_ms + ROUTE_MS_MAX)
        if self._is_current():
            return
        self._opening = True
        try:
            yield from self._router.routed(self._follow, IDEMPOTENT)
        finally:
            self._opening = False
            self.wake()
        first = next(iter(self._shares.values()))
        self.kind = "stream" if first.kind == "stream" else "queue"
        self.visibility_ms = first.visibility_ms
        self.session_ms = first.session_ms
        self.at_most_once = False  # Only for share groups of Kafka clients, which ask the owner.

    def _owners(self) -> list[int]:
        """The owners of the partitions, without partitions that have none, unless there are no others."""
        owners = self._router.owners_of(self._request.topic)
        return [node for node in owners if node >= 0] or owners

    def _is_current(self) -> bool:
        return self._owners() == sorted(self._shares) and not any(
            share.closed for share in self._shares.values()
        )

    def _follow(self) -> Steps[None]:
        owners = self._owners()
        for node in [node for node, share in self._shares.items() if node not in owners or share.closed]:
            self._router.start(self._shares.pop(node).close(), ignore_result)
        for node in owners:
            if node not in self._shares:
                share = yield from self._router.open_share(node, self._request)
                self._shares[node] = share
                self._prepare(share)

    def _prepare(self, share: Share) -> None:
        if isinstance(share, BatchConsumer):
            if self._as_records:
                share.want_records()
            if self._singly:
                share.want_single_leases()
            if self._tell is not None:
                share.tell_assignment(lambda _: self._assigned())
        else:
            share.on_assignment = self._assigned

    @property
    def identity(self) -> str:
        return next(iter(self._shares.values())).identity

    @property
    def in_flight(self) -> int:
        return sum(share.in_flight for share in self._shares.values())

    @property
    def assignment(self) -> list[int]:
        return sorted({number for share in self._shares.values() for number in share.assignment})

    @property
    def closed(self) -> bool:
        return self._is_closed or self._router.closed

    # Receiving.

    def receive(self, max_messages: Any, wait_ms: int) -> Steps[list[LeasedBatch]]:
        until_ms = self._router.now_ms + wait_ms
        failures = 0
        while True:
            if self.closed:
                raise Closed(what="consumer")
            try:
                yield from self.open()
                left_ms = max(until_ms - self._router.now_ms, 0)
                batches = self._take_ready(max_messages)
                if not batches and (not left_ms or len(self._shares) > 1):
                    batches = yield from self._poll(max_messages)
                if batches or not left_ms:
                    return batches
                yield from self._park(max_messages, until_ms)
            except GONE:
                failures += 1
                if failures > 1:
                    if self._router.now_ms >= until_ms:
                        raise
                    yield Arrival(self._router.owners, self._router.now_ms + RETRY_MS)
                self._router.owners.refresh()

    def _poll(self, max_messages: int) -> Steps[list[LeasedBatch]]:
        """Ask one owner after the other, without waiting, until there are enough."""
        found: list[LeasedBatch] = []
        shares = list(self._shares.values())
        self._turn += 1
        for step in range(len(shares)):
            share = shares[(self._turn + step) % len(shares)]
            room = max_messages - sum(each.end - each.start for each in found)
            if room <= 0:
                break
            try:
                found += self._taken(share, (yield from share.receive(room, 0)))
            except PenstockError:
                if not found:
                    raise
                break  # Return the received messages; the next call raises the error.
            except GeneratorExit:  # Cancelled: the next or another waiting receive returns its messages.
                self._ready[:0] = found
                self.wake()
                raise
        return found

    def _park(self, max_messages: int, until_ms: int) -> Steps[None]:
        """Wait at all owners until one has messages or fails, or the owners change."""
        ended: list[BaseException | None] = []

        def wait(share: Share) -> Any:
            def came(batches: Any, error: BaseException | None) -> None:
                if batches:
                    self._ready += self._taken(share, batches)
                ended.append(error)
                self.wake()

            return self._router.start(share.receive(max_messages, until_ms - self._router.now_ms), came)

        waits = [wait(share) for share in self._shares.values()]
        before = self._owners()
        self._router.owners.waiters[self] = None
        try:
            while not self._ready and not any(ended) and len(ended) < len(waits):
                yield Arrival(self, until_ms)
                if self._owners() != before or self._is_closed:
                    break
        finally:
            self._router.owners.waiters.pop(self, None)
            for each in waits:
                if not each.ended:
                    each.call_off()
        for error in ended:
            if error is not None and not self._ready:
                raise error

    def wake(self) -> None:
        """Messages have arrived, or the owner table has changed."""
        for waiter in list(self.waiters):
            waiter.wake()

    def _take_ready(self, max_messages: int) -> list[LeasedBatch]:
        """Messages that arrived between receives, in whole leases, but no more than requested."""
        taken: list[LeasedBatch] = []
        room = max_messages
        while self._ready and (room >= self._ready[0].end - self._ready[0].start or not taken):
            taken.append(self._ready.pop(0))
            room -= taken[-1].end - taken[-1].start
        return taken

    def _taken(self, share: Share, batches: list[LeasedBatch]) -> list[LeasedBatch]:
        for each in batches:
            self._from[each.partition] = share
            if self._as_records and not each.records:
                each.records = records_of(each)
        return batches

    # Answers.

    def _share(self, partition: int, offset: int) -> Share:
        share = self._from.get(partition)
        if share is None or share.closed:
            raise LeaseLost(topic=self._request.topic, partition=partition, offset=offset)
        return share

    def _settle(self, runs: list[Run], settle: Callable[[Share, list[Run]], Steps[None]]) -> Steps[None]:
        """Settle at every owner; the first error is raised when all have been asked."""
        by_share: dict[Share, list[Run]] = defaultdict(list)
        failed: PenstockError | None = None
        for run in runs:
            try:
                by_share[self._share(run[0], run[2])].append(run)
            except LeaseLost as error:
                failed = failed or error
        for share, some in by_share.items():
            try:
                yield from settle(share, some)
            except PenstockError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def ack(self, runs: list[Run]) -> Steps[None]:
        return self._settle(runs, lambda share, some: share.ack(some))

    def ack_and_publish(self, runs: list[Run], outputs: list[tuple[str, Message]]) -> Steps[None]:
        return self.publishing(outputs, self._send(runs, outputs))

    def _send(self, runs: list[Run], outputs: list[tuple[str, Message]]) -> Steps[None]:
        """Settle and publish at the owner of the one partition; it refuses runs of several."""
        share = self._share(runs[0][0], runs[0][2]) if runs else next(iter(self._shares.values()))
        yield from share.ack_and_publish(runs, outputs)

    def nack(self, runs: list[Run], delay_ms: int | None, failure: Failure) -> Steps[None]:
        return self._settle(runs, lambda share, some: share.nack(some, delay_ms, failure))

    def reject(self, runs: list[Run], reason: str) -> Steps[None]:
        return self._settle(runs, lambda share, some: share.reject(some, reason))

    def extend(self, leases: list[tuple[int, int]], duration_ms: int) -> Steps[list[tuple[int, int]]]:
        lost: list[tuple[int, int]] = []
        for share in list(self._shares.values()):
            mine = [lease for lease in leases if self._from.get(lease[0]) is share]
            if mine:
                lost += yield from share.extend(mine, duration_ms)
        held = {id(share) for share in self._shares.values()}
        return lost + [lease for lease in leases if id(self._from.get(lease[0])) not in held]

    def commit(self, offsets: dict[int, int]) -> Steps[None]:
        for share, mine in self._by_owner(offsets).items():
            yield from share.commit(mine)

    def _by_owner(self, offsets: dict[int, int]) -> "dict[Share, dict[int, int]]":
        found: dict[Share, dict[int, int]] = defaultdict(dict)
        for number, offset in offsets.items():
            node = self._router.owner(self._request.topic, number)
            share = self._shares.get(node) or next(iter(self._shares.values()))  # It knows the error.
            found[share][number] = offset
        return found

    # Life.

    def want_records(self) -> None:
        self._as_records = True
        for share in self._shares.values():
            self._prepare(share)

    def want_single_leases(self) -> None:
        """For partitions of this node only; others lease ranges, which have one visibility timeout."""
        self._singly = True
        for share in self._shares.values():
            self._prepare(share)

    def want(self, partitions: frozenset[int], bytes_max: int, one_at_least: bool) -> None:
        """Kafka clients ask each owner themselves, for its own partitions."""
        self._here().want(partitions, bytes_max, one_at_least)

    def unsettled(self, partition: int, leases: list[int]) -> list[Run]:
        return self._here().unsettled(partition, leases)

    def lose(self) -> Steps[None]:
        return self._here().lose()

    def _here(self) -> BatchConsumer:
        for share in self._shares.values():
            if isinstance(share, BatchConsumer):
                return share
        raise NotOwner(topic=self._request.topic, partition=0, owner=-1, epoch=0)

    def heartbeat(self) -> list[int]:
        for share in self._shares.values():
            share.heartbeat()
        return self.assignment

    def tell_assignment(self, tell: Callable[[list[int]], None]) -> None:
        self._tell = tell
        for share in self._shares.values():
            self._prepare(share)

    def _assigned(self) -> None:
        if self._tell is not None:
            self._tell(self.assignment)

    def keep(self, leases: list[tuple[int, int]], positions: dict[int, int]) -> Steps[None]:
        self._ready.clear()
        by_owner = self._by_owner(positions)
        for share in self._shares.values():
            mine = [lease for lease in leases if self._from.get(lease[0]) is share]
            with suppress(*GONE):  # Its leases are lost with it.
                yield from share.keep(mine, by_owner.get(share, {}))

    def close(self) -> Steps[None]:
        yield from self._end(lambda share: share.close())

    def disconnect(self) -> Steps[None]:
        yield from self._end(lambda share: share.disconnect())

    def _end(self, end: Callable[[Share], Steps[None]]) -> Steps[None]:
        self._is_closed = True
        self.wake()
        for share in self._shares.values():
            with suppress(*GONE):
                yield from end(share)


class MessageConsumer:
    """A consumer that returns messages, for front ends that do not pass batches on."""

    def __init__(self, inner: ClusterConsumer, topic: str, group: str, wrap: Wrap) -> None:
        self.settler: Any = None
        self._inner = inner
        self._topic = topic
        self._group = group
        self._wrap = wrap
        self._positions: dict[int, int] = {}  # Stream groups: what was received.
        self.permit = inner.permit
        self.create_missing = inner.create_missing
        inner.want_records()

    @property
    def identity(self) -> str:
        return self._inner.identity

    @property
    def in_flight(self) -> int:
        return self._inner.in_flight

    @property
    def assignment(self) -> list[int]:
        return self._inner.assignment

    @property
    def closed(self) -> bool:
        return self._inner.closed

    def receive(self, max_messages: Any, wait_ms: int) -> Steps[list[Any]]:
        batches = yield from self._inner.receive(max_messages, wait_ms)
        found: list[Any] = []
        for each in batches:
            delivery = Delivery(
                self._topic,
                each.partition,
                self._group,
                each.lease,
                each.start,
                each.end,
                each.attempt,
                self.settler,
            )
            found += self._wrap(delivery, each.records)
            self._positions[each.partition] = each.end
        return found

    def ack(self, messages: list[Any], outputs: list[tuple[str, Message]]) -> Steps[None]:
        runs = [_run(each) for each in lease_runs(messages, self.settler)]
        try:
            if self._inner.kind == "stream":
                yield from self._inner.commit({run[0]: run[3] for run in runs})
            elif outputs:
                self._inner.permit, self._inner.create_missing = self.permit, self.create_missing
                yield from self._inner.ack_and_publish(runs, outputs)
            else:
                yield from self._inner.ack(runs)
        except PenstockError:
            unanswer(messages)
            raise

    def answered(self, runs: list[LeaseRun]) -> Steps[None]:  # noqa: ARG002
        """Settled by the owners; ``in_flight`` counts these until their leases would have ended."""
        yield from ()

    def nack(self, message: Any, delay: Duration | None, error: BaseException | str | None) -> Steps[None]:
        delay_ms = None if delay is None else duration_ms("delay", delay)
        yield from self._inner.nack(self._held(message), delay_ms, describe_error(error))
        message.mark_settled()

    def reject(self, message: Any, reason: Any) -> Steps[None]:
        yield from self._inner.reject(self._held(message), reason)
        message.mark_settled()

    def extend(self, message: Any, duration: Duration) -> Steps[None]:
        [run] = self._held(message)
        lost = yield from self._inner.extend([(run[0], run[1])], duration_ms("duration", duration))
        if lost:
            raise LeaseLost(topic=message.topic, partition=message.partition, offset=message.offset)

    def commit(self) -> Steps[None]:
        return self._inner.commit(self._positions)

    def close(self) -> Steps[None]:
        return self._inner.close()

    def disconnect(self) -> Steps[None]:
        return self._inner.disconnect()

    def _held(self, message: Any) -> list[Run]:
        check_held(message, self.settler, "message")
        return [_run(run_of(message))]


def _anything(_: list[tuple[str, Message]]) -> None:
    """A node may publish what its client may."""


def _run(run: Any) -> Run:
    return run.partition, run.lease, run.start, run.end


class ConsumerRouter(StagingRouter):
    """The operations that open consumers."""

    def batch_consumer(self, topic: str, group: str, options: ConsumerOptions) -> Steps[BatchConsumer]:
        return self._cluster_consumer(topic, group, options)

    def _cluster_consumer(self, topic: str, group: str, options: ConsumerOptions) -> Steps[ClusterConsumer]:
        yield from self.metadata(topic)
        consumer_id = options.consumer_id
        if consumer_id is None and len(self.owners_of(topic)) > 1:
            consumer_id = f"{self.owners.node}-{secrets.token_hex(4)}"  # The same at every owner.
        request = OpenConsumer(
            topic=topic,
            group=group,
            consumer_id=consumer_id,
            max_in_flight=options.max_in_flight,
            options=plain(dict(options.group)),
            assignments=True,
        )
        made = ClusterConsumer(self, request)
        yield from made.open()
        return made

    def own_consumer(self, topic: str, group: str, options: ConsumerOptions) -> Steps[BatchConsumer]:
        """Open a consumer at this node only, for a client that connects to each owner itself."""
        yield from self.metadata(topic)
        owners = self.owners_of(topic)
        if self.owners.node not in owners:
            raise NotOwner(topic=topic, partition=0, owner=owners[0], epoch=0)
        return (yield from self._local.batch_consumer(topic, group, options))

    def consumer(
        self,
        topic: str,
        group: str,
        consumer_id: str | None,
        max_in_flight: int | None,
        options: GroupOptions,
        wrap: Wrap,
    ) -> Steps[ConsumerOperations]:
        how = ConsumerOptions(consumer_id=consumer_id, max_in_flight=max_in_flight, group=options)
        inner = yield from self._cluster_consumer(topic, group, how)
        return MessageConsumer(inner, topic, group, wrap)

    def open_share(self, node: int, request: OpenConsumer) -> Steps[Share]:
        """Open the consumer at one owner."""
        if node == self.owners.node:
            options = consumer_options(request)
            return (yield from self._local.batch_consumer(request.topic, request.group, options))
        peer = self.peer(node)
        ping = peer.ask("ping", lambda correlation: frame(PING, correlation))  # There must be a connection.
        yield from self.wait(ping)
        if peer.connection is None:
            raise ServerUnreachable(server=peer.server, why="the connection was lost")
        share = RemoteShare(peer.connection, peer.server, self.wait, request, lambda: self.now_ms)
        yield from share.open()
        return share
