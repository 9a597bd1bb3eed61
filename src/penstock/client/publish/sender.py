"""Publishes to one topic: messages that arrive while a request is in flight become the next request.

    queue ── take what fits ── encode, number ── PUBLISH ── receipts to each unit
      ^                                             │
      └── refused with others: each by itself ──────┘

A sender has one request in flight, so its producer's numbers never have gaps:
what was refused was not written, and its numbers are used by what comes next.
What was perhaps written is sent again with the same numbers; when even that
is impossible (the deadline came, or the disk failed), the sender takes a new
producer id, because an unknown number must never be used for something else.

With no time to linger, requests are as large as the round trip is long: a
lone publisher waits for nothing, a hundred of them share.  After a request of
one unit the next unit is sent in the call itself, without a task and a turn of
the loop (``_dispatch``).  Anything but a plain success is then left to a task.

A program's own thread may publish to the topic on another connection (``../direct.py``), with other numbers,
while nothing is in flight here.  If that thread gets no response, its request is repeated here.

What a record batch cannot say (time to live, due time, dedup id) goes as
PUBLISH_MESSAGES (``messages.py``).
"""

import asyncio
from collections import deque
from copy import copy
from functools import partial
from typing import Any, Final

from penstock.client.publish.messages import MessagesRequests
from penstock.client.publish.requests import Numbers, PublishRequest, UnitsRequest
from penstock.client.publish.sending import send_through
from penstock.client.publish.server_state import ServerState, depth_wait_ms
from penstock.client.publish.units import REQUEST_RECORDS, PublishBatch, Unit, is_refusal, nobody, size_of
from penstock.client.routing import ANSWER_S, Target
from penstock.config.broker import TopicSettings
from penstock.errors import (
    Closed,
    Forbidden,
    MessageTooLarge,
    MetadataStale,
    NotOwner,
    Overloaded,
    PartitionNotFound,
    PenstockError,
    ProducerFenced,
    ProtocolViolation,
    QuotaExceeded,
    SequenceOutOfOrder,
    SequenceReused,
    ServerUnreachable,
    ShuttingDown,
    TopicNotFound,
    Unauthenticated,
)
from penstock.model.message import Receipt
from penstock.model.placing import ANYWHERE, CODECS
from penstock.wire.native import ACKS_NONE, REFUSED, UNASKED, PublishOutcome, decode_published
from penstock.wire.native_bodies import Metadata, decode_error, encode_error

DEADLINE_SLACK_S: Final = 1.0  # A timer that is later than a request's deadline by less is not set again.
SMALL_BYTES: Final = 1000  # Messages up to here may share a batch of any size (see Publishing.append).
FOR_ALL: Final = (  # Errors of every caller.
    TopicNotFound, ServerUnreachable, Overloaded, ShuttingDown, Closed, Forbidden, QuotaExceeded,
    Unauthenticated,
)  # fmt: skip
STALE_MAX: Final = 10  # Times in a row that a topic may change while it is published to.


class Sender:
    """What is published to one topic, in order, one request at a time."""

    def __init__(self, server: ServerState, topic: str, linger_ms: int) -> None:
        self._server = server
        self._session = server.session
        self._linger_ms = linger_ms
        self.topic = topic
        self.metadata: Metadata | None = None
        self._doubtful = False  # A message would not fit; but perhaps the topic has changed.
        self._queue: deque[Unit] = deque()
        self._bytes = 0  # In the queue.
        self._marks = 0  # In the queue: units that only wait for those before them.
        self._repeats: deque[UnitsRequest] = deque()  # Sent again as they are, before the queue.
        self._task: asyncio.Task[None] | None = None
        self._in_flight: UnitsRequest | None = None  # Instead of a task.
        self._timer: asyncio.TimerHandle | None = None  # For requests that are not answered.
        self._lone = False  # The last request had one unit, and nothing waited behind it.
        self._full = asyncio.Event()  # There is enough for a request: do not linger.
        self._numbers = Numbers(-1)
        self._turn = server.random.randrange(1 << 16)
        self._messages = MessagesRequests(server, topic)
        self._stale = 0

    @property
    def busy(self) -> bool:
        """Something is not answered yet."""
        return self._task is not None or self._in_flight is not None

    @property
    def idle(self) -> bool:
        """Whether all before is answered, and nothing must be asked or waited for before the next request."""
        return (
            self._lone
            and self._task is None
            and self._in_flight is None
            and not self._queue
            and not self._repeats
            and not self._doubtful
            and not self._linger_ms
            and self._numbers.producer_id >= 0
            and self._session.connected
        )

    def add(self, unit: Unit) -> None:
        """Queue a unit."""
        metadata = self.metadata
        if metadata is not None and not self._fits(unit, metadata.settings, fresh=False):
            return
        plain = bool(unit.messages) and not unit.special and unit.acks != ACKS_NONE
        split = unit.spread and self._session.node != 0  # Perhaps over several nodes.
        if metadata is not None and plain and self.idle and not split:
            self._dispatch(unit, metadata)
            return
        self._queue.append(unit)
        self._bytes += unit.size
        self._marks += not unit.messages
        self._look()
        self.go_on()

    def repeat(self, request: UnitsRequest, failed: Exception | None) -> None:
        """Send a request again that was perhaps written, or refused for now."""
        if self._session.closed:
            self._fail(request.units, self._session.unknown("publish"))
            return
        request.failed = failed
        self._repeats.append(request)
        self.go_on()

    def go_on(self) -> None:
        """Send what is queued, unless a request is in flight."""
        if (self._repeats or self._queue) and not self.busy:
            self._task = self._session.own(self._work())

    def doubt(self) -> None:
        """The topic has changed: ask for its settings before the next request."""
        self._doubtful = True

    def single(self, metadata: Metadata, messages: list[Any], acks: int) -> Unit | None:
        """A unit that makes a request of one batch, and needs no more than that; in any thread."""
        size = size_of(messages)
        if size > self._server.request_bytes or acks == ACKS_NONE or depth_wait_ms(metadata.settings):
            return None
        unit = Unit(messages, size, acks, 0.0, nobody)
        try:
            unit.prepare(self.topic, metadata.settings)
        except PenstockError:
            return None  # The loop checks it again, and reports the error.
        return None if unit.special or unit.spread else unit

    def next_partition(self, unit: Unit, metadata: Metadata) -> int:
        """Where ``encoded`` will put the one batch of a unit, unless another thread is quicker."""
        partition = ANYWHERE if unit.values is not None else unit.placed[0].partition
        return (self._turn + 1) % metadata.settings.partitions if partition == ANYWHERE else partition

    def encoded(self, units: list[Unit], metadata: Metadata, numbers: Numbers) -> UnitsRequest:
        """The request of units that were prepared by these settings; in any thread."""
        self._turn += 1
        now_ms, codec = self._server.clock.wall_ms(), CODECS[metadata.settings.compression]
        request = UnitsRequest(self.topic, metadata, units, self._turn, now_ms, numbers, codec)
        request.unasked = self._server.unasked
        return request

    def _fits(self, unit: Unit, settings: TopicSettings, *, fresh: bool) -> bool:
        """False if the unit is refused; True also if settings that are not fresh must be asked for again."""
        try:
            unit.prepare(self.topic, settings)
        except PenstockError as error:
            if fresh or not isinstance(error, PartitionNotFound | MessageTooLarge):
                self._fail([unit], error)
                return False
            self._doubtful = True
        return True

    async def _work(self) -> None:
        """Send requests that were perhaps written, and then what is queued."""
        units: list[Unit] = []
        try:
            while self._repeats or self._queue:
                if self._repeats:
                    request = self._repeats.popleft()
                    units = request.units
                    await self._send(units, request)
                else:
                    await self._linger()
                    if self.metadata is None or self._doubtful:
                        await self._learn()
                    units = self._take()
                    if units:
                        await self._send(units)
                units = []
        finally:
            self._task = None
            if units:  # The session was closed, or a program error is on its way up.
                self._fail(units, self._session.unknown("publish"))
            self._fail_all()

    async def _linger(self) -> None:
        if self._linger_ms and not self._full.is_set():
            try:
                async with asyncio.timeout(self._linger_ms / 1000):
                    await self._full.wait()
            except TimeoutError:
                pass

    async def _learn(self) -> None:
        """Ask for the topic's settings, and check what waits against them."""
        self._doubtful = False
        try:
            self.metadata = await self._server.metadata(self.topic)
        except PenstockError as error:
            self._fail_queue(error)
            return
        self._prepare_queue()

    def _prepare_queue(self) -> None:
        """Check what waits, and place it, by what is known of the topic now."""
        assert self.metadata is not None
        waiting = list(self._queue)
        self._queue.clear()
        self._queue.extend(unit for unit in waiting if self._fits(unit, self.metadata.settings, fresh=True))
        self._bytes = sum(unit.size for unit in self._queue)
        self._marks = sum(not unit.messages for unit in self._queue)

    def _take(self) -> list[Unit]:
        """As many units from the front as may share a request."""
        units: list[Unit] = []
        size = records = 0
        queue = self._queue
        while queue and (not units or self._may_share(units[0], queue[0], size + queue[0].size)):
            records += len(queue[0].messages)
            if units and records > REQUEST_RECORDS:
                break
            unit = queue.popleft()
            units.append(unit)
            size += unit.size
        self._bytes -= size
        self._marks -= not units[0].messages if units else 0
        self._lone = len(units) == 1 and not queue
        self._look()
        return units

    def _look(self) -> None:
        """Linger only while there is room for more, and no flush waits."""
        if self._marks or self._bytes >= self._server.request_bytes:
            self._full.set()
        else:
            self._full.clear()

    def _may_share(self, first: Unit, unit: Unit, size: int) -> bool:
        assert self.metadata is not None
        message_bytes_max = self.metadata.settings.message_bytes_max
        limit = self._server.request_bytes
        if message_bytes_max > SMALL_BYTES:
            limit = min(limit, message_bytes_max)
        return (
            size <= limit
            and first.special == unit.special
            and first.acks == unit.acks
            and not (first.alone or unit.alone)
            and bool(first.messages and unit.messages)
        )

    async def _send(self, units: list[Unit], request: UnitsRequest | None = None) -> None:
        try:
            if request is not None:
                await self._deliver(request)
            elif not units[0].messages:
                self._finish(units)
            elif units[0].special:
                assert self.metadata is not None
                await self._messages.send(units, self.metadata.settings)
            else:
                await self._send_batches(units)
        except PenstockError as error:
            self._refuse(units, error)

    # Record batches.

    async def _send_batches(self, units: list[Unit]) -> None:
        assert self.metadata is not None
        if units[0].acks == ACKS_NONE:
            request = self.encoded(units, self.metadata, Numbers(-1))
            await self._session.post("publish", request.encode(UNASKED), units[-1].deadline)
            self._unreceipted(request)
            return
        if self._numbers.producer_id < 0:
            self._numbers.producer_id = await self._server.first_producer_id()
        await self._deliver(self.encoded(units, self.metadata, self._numbers))

    async def _deliver(self, request: UnitsRequest) -> None:
        """Send until there is an answer."""
        failed, request.failed = request.failed, None
        if failed is None and not request.routed:
            targets = self._targets(request)
            if targets:
                await self._deliver_to_owners(request, targets)
                return
        assert self.metadata is not None
        wait_ms = depth_wait_ms(self.metadata.settings)
        if request.routed:  # To a server that counts versions in its own way.
            request.version = self.metadata.version
        while True:
            stale: MetadataStale | None = None
            try:
                outcomes = await self._call(request, request.units[-1].deadline, wait_ms, failed)
            except MetadataStale as error:
                stale = error  # Seen to below: compiled code that awaits here leaves its error to others.
            except PenstockError as error:
                if _is_spent(request, error):
                    self._renew(request.numbers)
                raise
            if stale is None:
                break
            failed = None
            await self._refresh(stale)
            if request.tries == 1:
                self._renew(request.numbers)
                self._again(request.units)
                return
            request.version = self.metadata.version  # Perhaps written: the same bytes, to the same place.
        self._stale = 0
        self._take_outcomes(request, outcomes)

    async def _call(
        self, request: PublishRequest, deadline: float, wait_ms: int, failed: Exception | None
    ) -> list[PublishOutcome]:
        session = self._session
        body = await send_through(session, "publish", request, deadline, wait_ms=wait_ms, failed=failed)
        return decode_published(body)[0]

    # The owners of a cluster.

    def _targets(self, request: UnitsRequest) -> dict[Target | None, list[int]]:
        """The batches of a request by the server that they go to; none if that is home for all of them."""
        if not self._session.node or self.metadata is None:
            return {}
        found: dict[Target | None, list[int]] = {}
        for number, batch in enumerate(request.batches):
            target = self._server.target(self.topic, batch.partition, self.metadata.version)
            found.setdefault(target, []).append(number)
        return {} if list(found) == [None] else found

    async def _deliver_to_owners(
        self, request: UnitsRequest, targets: dict[Target | None, list[int]]
    ) -> None:
        """To all of them at once; one that fails does not spoil what others have written."""
        deadline = request.units[-1].deadline
        shares = [self._deliver_share(request, target, targets[target], deadline) for target in targets]
        answers = await asyncio.gather(*shares, return_exceptions=True)
        outcomes: dict[int, PublishOutcome] = {}
        for numbers, answer in zip(targets.values(), answers, strict=True):
            if isinstance(answer, PenstockError):
                request.tries += 1  # So that numbers that were perhaps used are given up.
                answer = [PublishOutcome(0, 0, 0, REFUSED, encode_error(answer))] * len(numbers)
            if isinstance(answer, BaseException):
                raise answer
            outcomes.update(zip(numbers, answer, strict=True))
        self._stale = 0
        self._take_outcomes(request, [outcomes[number] for number in sorted(outcomes)])

    async def _deliver_share(
        self, request: UnitsRequest, target: Target | None, batches: list[int], deadline: float
    ) -> list[PublishOutcome]:
        """Some batches to the owner of their partitions, and if that fails, through home."""
        assert self.metadata is not None
        wait_ms = depth_wait_ms(self.metadata.settings)
        share = request.share(batches, self.metadata.version)
        failed: Exception | None = None
        if target is not None:
            share.version = target.version
            routing = self._server.routing
            answer = await routing.attempt(target.session, self.topic, share.encode, deadline, wait_ms)
            request.tries = max(request.tries, share.tries)
            if isinstance(answer, bytes):
                return _checked(decode_published(answer)[0], len(batches))
            failed = answer
            if failed is None:
                share.tries = 0  # Nothing was done.
        while True:
            stale: MetadataStale | None = None
            share.version = self.metadata.version
            try:
                outcomes = await self._call(share, deadline, wait_ms, failed)
            except MetadataStale as error:
                stale = error  # See above.
            request.tries = max(request.tries, share.tries)
            if stale is None:
                return _checked(outcomes, len(batches))
            failed = None
            await self._refresh(stale)  # Its batches stay where they are: others may have been written.

    # A lone unit.

    def _dispatch(self, unit: Unit, metadata: Metadata) -> None:
        request = self._in_flight = self.encoded([unit], metadata, self._numbers)
        wait_s = depth_wait_ms(metadata.settings) / 1000
        request.deadline = unit.deadline + wait_s
        session = self._session
        if session.node and len(request.batches) == 1:
            target = self._server.target(self.topic, request.batches[0].partition, metadata.version)
            if target is not None:
                session, request.version = target
                request.routed = True
                request.deadline = min(request.deadline, self._session.after(ANSWER_S + wait_s))
        if self._timer is None or self._timer.when() > request.deadline + DEADLINE_SLACK_S:
            self._set_timer(request.deadline)
        session.request(request.encode, partial(self._complete, request))

    def _set_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._session.at(deadline, self._check_deadline)

    def _check_deadline(self) -> None:
        """One timer for many requests: the one it was set for is usually complete."""
        self._timer = None
        request = self._in_flight
        if request is None:
            return
        if self._session.is_due(request.deadline):
            self._complete(request, b"", TimeoutError())
        else:
            self._set_timer(request.deadline)

    def _complete(self, request: UnitsRequest, body: bytes, error: Exception | None) -> None:
        """The answer, or why there is none."""
        if self._in_flight is not request:
            return  # It was given up, and this is late.
        if self._session.closed:
            self._in_flight = None
            self._fail(request.units, self._session.unknown("publish"))
            self._fail_all()
            return
        if error is None:
            self._stale = 0
            try:
                self._take_outcomes(request, decode_published(body)[0])
            except PenstockError as problem:
                self._refuse(request.units, problem)
            self._in_flight = None  # Only now: the next one has its number from this one's.
            self.go_on()
        else:
            self._in_flight = None
            failed: Exception | None = error
            if request.routed:
                failed = self._server.routing.failed(self.topic, error)
                if failed is None:
                    request.tries = 0  # Nothing was done.
            self.repeat(request, failed)

    async def _refresh(self, error: MetadataStale) -> None:
        self._stale += 1
        if self._stale > STALE_MAX:
            self._stale = 0
            raise error
        self.metadata = await self._server.metadata(self.topic)
        self._prepare_queue()  # Or what waits would go where messages of its keys do not go any more.

    def _renew(self, numbers: Numbers) -> None:
        """A number was perhaps used: begin with others."""
        self._server.give_up(numbers.producer_id)
        numbers.forget()

    def _again(self, units: list[Unit]) -> None:
        """Put units back to the front of the line, checked again if the settings have changed."""
        assert self.metadata is not None
        kept = [unit for unit in units if self._fits(unit, self.metadata.settings, fresh=True)]
        self._queue.extendleft(reversed(kept))
        self._bytes += sum(unit.size for unit in kept)

    def _take_outcomes(self, request: UnitsRequest, outcomes: list[PublishOutcome]) -> None:
        self._server.unasked_taken = max(self._server.unasked_taken, request.unasked)
        if len(outcomes) != len(request.batches):
            self._renew(request.numbers)
            raise ProtocolViolation(why=f"{len(outcomes)} outcomes for {len(request.batches)} batches")
        again: dict[Unit, None] = {}
        for batch, outcome in zip(request.batches, outcomes, strict=True):
            if outcome.state != REFUSED:
                request.take_written(batch, outcome)
                continue
            error = decode_error(outcome.error)
            if isinstance(error, NotOwner):
                self._server.routing.doubt(self.topic)
            # If so, the server has lost our last numbers with what was not on disk.
            renumber = isinstance(error, SequenceOutOfOrder | ProducerFenced)
            if renumber or _is_spent(request, error):
                self._renew(request.numbers)
            self._take_refusal(batch, error, renumber, again)
        for unit in again:
            unit.receipts = []
            unit.error = None
        self._finish([unit for unit in request.units if unit not in again])
        if again:
            self._again(list(again))

    def _take_refusal(
        self, batch: PublishBatch, error: PenstockError, renumber: bool, again: dict[Unit, None]
    ) -> None:
        """A batch was not written: decide for each of its units whether it is tried again."""
        shared = len(batch.units()) > 1
        for unit, _, count in batch.owners:
            whole = count == len(unit.messages)
            if whole and isinstance(error, NotOwner) and not self._session.is_due(unit.deadline):
                again[unit] = None  # Nobody owned the partition for a while.
            elif whole and renumber and not unit.renumbered:
                unit.renumbered = True
                again[unit] = None
            elif whole and shared and not renumber and is_refusal(error):
                unit.alone = True
                again[unit] = None
            else:
                unit.error = unit.error or error
                again.pop(unit, None)

    def _unreceipted(self, request: UnitsRequest) -> None:
        """Sent without asking for an answer: where they are is not known."""
        self._lone = False  # Another connection would overtake them, also with other topics' messages.
        self._server.unasked += 1
        now_ms = self._server.clock.wall_ms()
        for batch in request.batches:
            for unit, index, count in batch.owners:
                unit.receipts = unit.receipts or [None] * len(unit.messages)
                receipts = [Receipt(self.topic, batch.partition, None, now_ms) for _ in range(count)]
                unit.receipts[index : index + count] = receipts
        self._finish(request.units)

    # Ends.

    def _refuse(self, units: list[Unit], error: PenstockError) -> None:
        """A request was refused as a whole: what was refused with others is tried by itself."""
        if len(units) > 1 and is_refusal(error) and not isinstance(error, FOR_ALL):
            for unit in units:
                unit.alone = True
            self._again(units)
        else:
            self._fail(units, error)

    def _fail(self, units: list[Unit], error: PenstockError) -> None:
        for unit in units:
            unit.error = error if len(units) == 1 else copy(error)  # Each is raised somewhere else.
        self._finish(units)

    def _fail_queue(self, error: PenstockError) -> None:
        waiting = list(self._queue)
        self._queue.clear()
        self._bytes = self._marks = 0
        self._fail(waiting, error)

    def _fail_all(self) -> None:
        """The session is closed: everything queued ends with an error."""
        while self._repeats:
            self._fail(self._repeats.popleft().units, self._session.unknown("publish"))
        self._fail_queue(Closed(what="broker"))

    def _finish(self, units: list[Unit]) -> None:
        for unit in units:
            unit.finish()


def _checked(outcomes: list[PublishOutcome], count: int) -> list[PublishOutcome]:
    if len(outcomes) != count:
        raise ProtocolViolation(why=f"{len(outcomes)} outcomes for {count} batches")
    return outcomes


def _is_spent(request: UnitsRequest, error: PenstockError) -> bool:
    """Whether a number of a request that failed was perhaps used."""
    return request.tries > 1 or isinstance(error, SequenceReused) or not is_refusal(error)
