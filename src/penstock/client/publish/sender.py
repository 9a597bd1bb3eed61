"""What is published to one topic: what comes while a request is out becomes the next request.

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
one unit the next unit is taken for a lone one, too: it goes out in the call
itself, without a task and a turn of the loop (``InFlightRequest``).  Whatever is not a
plain success is then a task's business.

Such an in-flight request may be lent to a thread of the program (``lone.py``), which
sends it and takes the answer itself; until it is given back or recalled, further
messages wait, as behind any other request.  ``_lock`` serves only this: it decides who
is next, and who owns the request.  A thread of the program that holds it calls nothing:
a signal handler might run there, and wait for a loop that waits for the lock.

What a record batch cannot say (time to live, due time, dedup id) goes as
PUBLISH_MESSAGES (``messages.py``).
"""

import asyncio
import threading
from collections import deque
from copy import copy
from functools import partial
from typing import Final

from penstock.client.publish.messages import MessagesRequests
from penstock.client.publish.server_state import PublishRequest, ServerState, depth_wait_ms
from penstock.client.publish.units import (
    REQUEST_RECORDS,
    PublishBatch,
    Unit,
    batches_of,
    encode_batches,
    is_refusal,
)
from penstock.config.broker import TopicSettings
from penstock.errors import (
    Closed,
    Forbidden,
    MessageTooLarge,
    MetadataStale,
    Overloaded,
    PartitionNotFound,
    PenstockError,
    ProducerFenced,
    ProtocolViolation,
    QuotaExceeded,
    SequenceOutOfOrder,
    ServerUnreachable,
    ShuttingDown,
    TopicNotFound,
    Unauthenticated,
)
from penstock.model.message import Receipt
from penstock.wire.native import (
    ACKS_NONE,
    REFUSED,
    UNASKED,
    PublishOutcome,
    decode_published,
)
from penstock.wire.native_bodies import (
    Metadata,
    decode_error,
)

SMALL_BYTES: Final = 1000  # Messages up to here may share a batch of any size (see Publishing.append).
FOR_ALL: Final = (  # Errors of every caller.
    TopicNotFound, ServerUnreachable, Overloaded, ShuttingDown, Closed, Forbidden, QuotaExceeded,
    Unauthenticated,
)  # fmt: skip
STALE_MAX: Final = 10  # Times in a row that a topic may change while it is published to.


class InFlightRequest:
    """The request of a lone unit, under way without a task."""

    __slots__ = ("batches", "deadline", "lent", "metadata", "request", "unit")

    def __init__(self, unit: Unit, metadata: Metadata | None, *, lent: bool) -> None:
        self.unit = unit
        self.metadata = metadata  # What the unit was checked against.
        self.batches: list[PublishBatch] = []
        self.request: PublishRequest | None = None  # It is not encoded yet, so it cannot have been sent.
        self.deadline: float | None = None  # The borrower enforces the timeout.
        self.lent = lent  # To a thread, if it has its turn.


class Sender:
    """What is published to one topic, in order, one request at a time."""

    def __init__(self, server: ServerState, topic: str, linger_ms: int) -> None:
        self._server = server
        self._session = server.session
        self._linger_ms = linger_ms
        self._topic = topic
        self.metadata: Metadata | None = None
        self._doubtful = False  # A message would not fit; but perhaps the topic has changed.
        self._queue: deque[Unit] = deque()
        self._bytes = 0  # In the queue.
        self._marks = 0  # In the queue: units that only wait for those before them.
        self._lock = threading.Lock()
        self._task: asyncio.Task[None] | None = None
        self._in_flight: InFlightRequest | None = None  # Instead of a task.
        self._timer: asyncio.TimerHandle | None = None  # For requests that are not answered.
        self._lone = False  # The last request had one unit, and nothing waited behind it.
        self._full = asyncio.Event()  # There is enough for a request: do not linger.
        self._producer_id = -1
        self._sequences: dict[int, int] = {}  # The next number, by partition.
        self._turn = server.random.randrange(1 << 16)
        self._messages = MessagesRequests(server, topic)
        self._stale = 0

    @property
    def busy(self) -> bool:
        """Something is not answered yet."""
        return self._task is not None or self._in_flight is not None

    def add(self, unit: Unit) -> None:
        """Put a unit in line."""
        if self.metadata is not None and not self._fits(unit, self.metadata.settings):
            return
        in_flight = InFlightRequest(unit, self.metadata, lent=False)
        if self._begin(in_flight):
            self._dispatch(in_flight)
            return
        self._queue.append(unit)
        self._bytes += unit.size
        self._marks += not unit.messages
        self._look()
        self.go_on()

    def go_on(self) -> None:
        """Send what is in line, unless something is out."""
        with self._lock:
            if self._queue and not self.busy:
                self._task = self._session.own(self._work())

    def _fits(self, unit: Unit, settings: TopicSettings) -> bool:
        """False if the unit is refused; True also if the settings must be asked for again to tell."""
        try:
            unit.prepare(self._topic, settings)
        except (PartitionNotFound, MessageTooLarge):
            self._doubtful = True
        except PenstockError as error:
            self._fail([unit], error)
            return False
        return True

    def _prepared(self, unit: Unit, settings: TopicSettings) -> bool:
        try:
            unit.prepare(self._topic, settings)
        except PenstockError as error:
            self._fail([unit], error)
            return False
        return True

    async def _work(self, in_flight: InFlightRequest | None = None, failed: Exception | None = None) -> None:
        """Send what is in line; before that, handle an in-flight request that has failed."""
        units: list[Unit] = []
        try:
            if in_flight is not None:
                units = [in_flight.unit]
                await self._send(units, in_flight, failed)
                units = []
            while self._queue:
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
            self._fail_queue(Closed(what="broker"))

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
            self.metadata = await self._server.metadata(self._topic)
        except PenstockError as error:
            self._fail_queue(error)
            return
        self._prepare_queue()

    def _prepare_queue(self) -> None:
        """Check what waits, and place it, by what is known of the topic now."""
        assert self.metadata is not None
        waiting = list(self._queue)
        self._queue.clear()
        self._queue.extend(unit for unit in waiting if self._prepared(unit, self.metadata.settings))
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
        """Linger only while there is room for more, and nobody wants to see it done."""
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

    async def _send(
        self, units: list[Unit], in_flight: InFlightRequest | None = None, failed: Exception | None = None
    ) -> None:
        try:
            if in_flight is not None:
                assert in_flight.request is not None, "it was sent"
                await self._deliver(units, in_flight.batches, in_flight.request, failed)
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
        if units[0].acks == ACKS_NONE:
            batches, request = self._encoded(units, -1)
            await self._session.post("publish", request.encode(UNASKED), units[-1].deadline)
            self._unreceipted(units, batches)
            return
        if self._producer_id < 0:
            self._producer_id = await self._server.first_producer_id()
        batches, request = self._encoded(units, self._producer_id)
        await self._deliver(units, batches, request)

    def _encoded(self, units: list[Unit], producer_id: int) -> tuple[list[PublishBatch], PublishRequest]:
        assert self.metadata is not None
        settings = self.metadata.settings
        self._turn += 1
        batches = batches_of(units, self._turn % settings.partitions)
        encoded = encode_batches(
            batches, settings, self._server.clock.wall_ms(), producer_id, self._sequences
        )
        version, unasked = self.metadata.version, self._server.unasked
        return batches, PublishRequest(self._topic, version, units[0].acks, encoded, unasked)

    async def _deliver(
        self,
        units: list[Unit],
        batches: list[PublishBatch],
        request: PublishRequest,
        failed: Exception | None = None,
    ) -> None:
        """Send until there is an answer; ``failed`` is what became of a first try."""
        assert self.metadata is not None
        wait_ms = depth_wait_ms(self.metadata.settings)
        while True:
            stale: MetadataStale | None = None
            try:
                body = await self._session.call(
                    "publish", request.encode, wait_ms=wait_ms, deadline=units[-1].deadline, failed=failed
                )
            except MetadataStale as error:
                stale = error  # Seen to below: compiled code that awaits here leaves its error to others.
            except PenstockError as error:
                if request.tries > 1 or not is_refusal(error):
                    self._renew()
                raise
            if stale is None:
                break
            failed = None
            await self._refresh(stale)
            if request.tries == 1:
                self._renew()
                self._again(units)
                return
            request.version = self.metadata.version  # Perhaps written: the same bytes, to the same place.
        self._stale = 0
        self._take_outcomes(units, batches, decode_published(body)[0], request)

    # A lone unit.

    def _may_dispatch(self, unit: Unit) -> bool:
        """Whether a unit needs nobody to wait for, and nothing to be asked before."""
        return (
            self._lone
            and not self._linger_ms
            and bool(unit.messages)
            and not unit.special
            and unit.acks != ACKS_NONE
            and self.metadata is not None
            and self._session.connected
        )

    def _begin(self, in_flight: InFlightRequest) -> bool:
        """Make this the request in flight, if nothing prevents it."""
        if not self._may_dispatch(in_flight.unit):
            return False
        with self._lock:
            begins = (
                in_flight.metadata is self.metadata
                and self._task is None
                and self._in_flight is None
                and not (self._queue or self._doubtful)
                and self._producer_id >= 0
            )
            if begins:
                self._in_flight = in_flight
        return begins

    def _dispatch(self, in_flight: InFlightRequest) -> None:
        assert self.metadata is not None
        in_flight.batches, request = self._encoded([in_flight.unit], self._producer_id)
        in_flight.request = request
        deadline = in_flight.deadline = in_flight.unit.deadline + depth_wait_ms(self.metadata.settings) / 1000
        if self._timer is None:
            self._timer = self._session.at(deadline, self._check_deadline)
        self._session.request(request.encode, partial(self.complete, in_flight))

    def _check_deadline(self) -> None:
        """One timer for many requests: the one it was set for is usually complete."""
        self._timer = None
        in_flight = self._in_flight
        if in_flight is None or in_flight.deadline is None:
            return
        if self._session.is_due(in_flight.deadline):
            self.complete(in_flight, b"", TimeoutError())
        else:
            self._timer = self._session.at(in_flight.deadline, self._check_deadline)

    def complete(self, in_flight: InFlightRequest, body: bytes, error: Exception | None) -> None:
        """The answer, or why there is none."""
        if self._in_flight is not in_flight:
            self.go_on()  # It was given up, and this is late; or given back, and something waits.
        elif self._session.closed:
            self._in_flight = None
            self._fail([in_flight.unit], self._session.unknown("publish"))
            self._fail_queue(Closed(what="broker"))
        elif in_flight.request is None:
            self._in_flight = None
            self._again([in_flight.unit])
            self.go_on()
        elif error is None:
            self._stale = 0
            try:
                outcomes = decode_published(body)[0]
                self._take_outcomes([in_flight.unit], in_flight.batches, outcomes, in_flight.request)
            except PenstockError as problem:
                self._refuse([in_flight.unit], problem)
            self._in_flight = None  # Only now: the next one has its number from this one's.
            self.go_on()
        else:
            self._task = self._session.own(self._work(in_flight, error))
            self._in_flight = None

    # A lone unit, in a thread of the program.

    def lendable(self, unit: Unit) -> InFlightRequest | None:
        """A request for the unit, if it is of the kind that is lent."""
        metadata = self.metadata
        if metadata is None or self._linger_ms or unit.acks == ACKS_NONE or depth_wait_ms(metadata.settings):
            return None
        try:
            unit.prepare(self._topic, metadata.settings)
        except PenstockError:
            return None  # The loop looks once more, and says so.
        return None if unit.special else InFlightRequest(unit, metadata, lent=True)

    def lend(self, in_flight: InFlightRequest) -> PublishRequest | None:
        """Lend the request to a caller that sends it and returns it; None if that is impossible now."""
        if not self._begin(in_flight):
            return None
        in_flight.batches, request = self._encoded([in_flight.unit], self._producer_id)
        request.unasked = 0  # It goes another way, so its answer says nothing of them.
        in_flight.request = request
        return request

    def has_lent(self, in_flight: InFlightRequest) -> bool:
        """Whether it was lent, and is not back."""
        return self._in_flight is in_flight and in_flight.lent

    def recall(self, in_flight: InFlightRequest) -> bool:
        """Take a request back from the thread that it is lent to; from then on the loop owns it."""
        with self._lock:
            lent = self.has_lent(in_flight)
            if lent:
                in_flight.lent = False
        return lent

    def end(self) -> None:
        """The session is closed: fail what waits behind a lent request, and its thread."""
        in_flight = self._in_flight
        if in_flight is not None and self.recall(in_flight):
            self.complete(in_flight, b"", None)
        elif not self.busy:  # It was returned, and there was no loop to continue on.
            self._fail_queue(Closed(what="broker"))

    def take_back(self, in_flight: InFlightRequest, body: bytes) -> bool:
        """The answer to what was lent, if it is a plain success; all else is to ``complete``, on the loop."""
        try:
            outcomes = decode_published(body)[0]
        except PenstockError:
            return False
        if len(outcomes) != len(in_flight.batches) or any(each.state == REFUSED for each in outcomes):
            return False
        following = {batch.partition: batch.following for batch in in_flight.batches}
        for batch, outcome in zip(in_flight.batches, outcomes, strict=True):
            batch.take(self._topic, outcome)
        with self._lock:
            lent = self._in_flight is in_flight and in_flight.lent
            if lent:
                self._sequences |= following
                self._stale = 0
                self._in_flight = None
        if lent:
            in_flight.unit.finish()
        return lent

    @property
    def waiting(self) -> bool:
        """Whether requests are queued: after returning one, the caller has the loop ``go_on``."""
        return bool(self._queue)

    async def _refresh(self, error: MetadataStale) -> None:
        self._stale += 1
        if self._stale > STALE_MAX:
            self._stale = 0
            raise error
        self.metadata = await self._server.metadata(self._topic)
        self._prepare_queue()  # Or what waits would go where messages of its keys do not go any more.

    def _renew(self) -> None:
        """A number was perhaps used: begin with others."""
        self._server.give_up(self._producer_id)
        self._producer_id = -1
        self._sequences.clear()

    def _again(self, units: list[Unit]) -> None:
        """Put units back to the front of the line, checked again if the settings have changed."""
        assert self.metadata is not None
        kept = [unit for unit in units if self._prepared(unit, self.metadata.settings)]
        self._queue.extendleft(reversed(kept))
        self._bytes += sum(unit.size for unit in kept)

    def _take_outcomes(
        self,
        units: list[Unit],
        batches: list[PublishBatch],
        outcomes: list[PublishOutcome],
        request: PublishRequest,
    ) -> None:
        self._server.unasked_taken = max(self._server.unasked_taken, request.unasked)
        if len(outcomes) != len(batches):
            self._renew()
            raise ProtocolViolation(why=f"{len(outcomes)} outcomes for {len(batches)} batches")
        again: dict[Unit, None] = {}
        for batch, outcome in zip(batches, outcomes, strict=True):
            if outcome.state != REFUSED:
                self._sequences[batch.partition] = batch.following
                batch.take(self._topic, outcome)
                continue
            error = decode_error(outcome.error)
            if request.tries > 1 or not is_refusal(error):
                self._renew()
            self._take_refusal(batch, error, again)
        for unit in again:
            unit.receipts = []
            unit.error = None
        self._finish([unit for unit in units if unit not in again])
        if again:
            self._again(list(again))

    def _take_refusal(self, batch: PublishBatch, error: PenstockError, again: dict[Unit, None]) -> None:
        """A batch was not written: decide for each of its units whether it is tried again."""
        renumber = isinstance(error, SequenceOutOfOrder | ProducerFenced)
        if renumber:
            self._renew()  # The server has lost our last numbers with what was not on disk.
        shared = len(batch.units()) > 1
        for unit, _, count in batch.owners:
            whole = count == len(unit.messages)
            if whole and renumber and not unit.renumbered:
                unit.renumbered = True
                again[unit] = None
            elif whole and shared and not renumber and is_refusal(error):
                unit.alone = True
                again[unit] = None
            else:
                unit.error = unit.error or error
                again.pop(unit, None)

    def _unreceipted(self, units: list[Unit], batches: list[PublishBatch]) -> None:
        """Sent without asking for an answer: where they are is not known."""
        self._lone = False  # Another connection would overtake them, also with other topics' messages.
        self._server.unasked += 1
        now_ms = self._server.clock.wall_ms()
        for batch in batches:
            for unit, index, count in batch.owners:
                unit.receipts = unit.receipts or [None] * len(unit.messages)
                receipts = [Receipt(self._topic, batch.partition, None, now_ms) for _ in range(count)]
                unit.receipts[index : index + count] = receipts
        self._finish(units)

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

    def _finish(self, units: list[Unit]) -> None:
        for unit in units:
            unit.finish()
