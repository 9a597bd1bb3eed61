"""Publishes of a threaded program on the calling thread, if all its earlier publishes are answered.

    publish ── is everything answered? ── take the channel ── encode, number ── ask ── receipts
                  │ no                       │ no                                │ lost, late, refused for now
                  v                          v                                   v
               the loop                   the loop                     the loop sends the same bytes again

Switching between two threads takes half of the CPU time of a blocking publish.  A program that publishes
one message at a time gains nothing from the loop between it and the socket, so after some such publishes it
gets a second connection (``blocking_connection.py``) with a separate producer id: the channel.

Invariants
    D1  Order is kept.  A publish goes directly only if all earlier publishes, to any topic, are answered; so
        publishes in flight on the session's connection are concurrent ones of other threads.
    D2  No loss, no duplicates.  A sequence number of the channel is reused only after a response says that
        nothing was written.  A publish that is not answered, or temporarily refused (a node that forwarded
        it may have had it written before), is sent again by the loop with the same bytes and numbers, and
        the channel is abandoned with its numbers.
    D3  The channel leads to the server of the session's connection, and is abandoned when that connection is
        replaced.
    D4  No thread waits for an interrupted one.  The channel is taken without waiting, and a thread that is
        already within a publish (in a signal handler or finalizer) uses the loop.
    D5  In a cluster there is a channel for each owner: all earlier publishes are answered, so the next one
        may use any of them.
    D6  A channel that was idle for ``IDLE_MS`` is not used again: unlike the session's connection it sends no
        pings, and a firewall or NAT may have dropped it.

Not handled: concurrent publishes of many threads, which share requests on the loop, and publishes of
several batches.
"""

import socket
import threading
from typing import Any, Final

from penstock.client.blocking_connection import BlockingConnection
from penstock.client.client import Client
from penstock.client.connections.connection import SILENCE_S
from penstock.client.connections.exchange import ConnectionLost
from penstock.client.portal import Portal, Waiting
from penstock.client.publish.publisher import Room, give_back_and
from penstock.client.publish.requests import Numbers, UnitsRequest, only_outcome
from penstock.client.publish.sender import Sender
from penstock.client.publish.units import Unit, is_refusal
from penstock.client.retrying import ELSEWHERE, REPEATED
from penstock.client.routing import Target
from penstock.client.session import ClientSession
from penstock.errors import (
    Closed,
    MetadataStale,
    PenstockError,
    ProducerFenced,
    ProtocolViolation,
    SequenceOutOfOrder,
    SequenceReused,
)
from penstock.model.message import Receipt
from penstock.wire.native import NEW_PRODUCER, PublishOutcome, decode_producer, frame
from penstock.wire.native_bodies import Metadata

# Tests set both.
DIRECT_MIN = 32  # Publishes in a row that are worth a second connection;
PAUSE_MS = 60_000  # time after which another attempt is worth it.
IDLE_MS: Final = int(SILENCE_S * 1000)
# The loop publishes it from scratch: the server has lost our last numbers, or the channel leads to one that
# does not know the topic's settings yet.
RESTARTED: Final = (SequenceOutOfOrder, ProducerFenced, MetadataStale)


class PublishChannel(BlockingConnection):
    """A connection for publishes, and its sequence numbers."""

    def __init__(self, connected: socket.socket, session: ClientSession) -> None:
        super().__init__(connected, session)
        self.generation = 0  # The session's connection when the channel was opened.
        self.turn = threading.Lock()  # Held by the thread that publishes.
        self.dead = False  # It was abandoned.
        self.used_ms = 0  # When the last publish on it began.
        self._producer_id = decode_producer(self.ask(lambda number: frame(NEW_PRODUCER, number)))
        self._numbers: dict[str, Numbers] = {}  # By topic.

    def take_turn(self) -> bool:
        """Take the channel without waiting; False if another thread has it, or it was abandoned."""
        if not self.turn.acquire(blocking=False):
            return False
        if self.dead:
            self.turn.release()
            return False
        return True

    def numbers(self, topic: str) -> Numbers:
        numbers = self._numbers.get(topic)
        if numbers is None:
            numbers = self._numbers[topic] = Numbers(self._producer_id)
        return numbers

    def publish(self, request: UnitsRequest) -> PublishOutcome:
        """Publish one batch; returns where it was written; ``ConnectionLost`` if that is unknown."""
        body = self.ask(request.encode)
        try:
            return only_outcome(body)
        except ProtocolViolation:
            raise ConnectionLost("the server sent an unexpected frame") from None


class ChannelSlot:
    """The channel to one server: opened after some publishes that could have used it, abandoned when lost.

    Used by any thread, without a lock: two threads may open a channel at once, and one is then closed.
    """

    def __init__(self, session: ClientSession) -> None:
        self.channel: PublishChannel | None = None
        self.closed = False
        self._session = session
        self._count = 0  # Publishes in a row that could have gone directly.
        self._not_before_ms = 0

    def usable(self, now_ms: int) -> PublishChannel | None:
        """The channel, if there is one or it is time to open one."""
        channel = self.channel
        if channel is not None:
            if channel.generation == self._session.generation and now_ms - channel.used_ms <= IDLE_MS:
                return channel
            self.drop(channel)
        self._count += 1
        if self._count < DIRECT_MIN or self.closed or now_ms < self._not_before_ms:
            return None
        self._not_before_ms = now_ms + PAUSE_MS
        generation = self._session.generation  # Before: if there is a new one meanwhile, it is not used.
        channel = PublishChannel.open(self._session)
        if channel is None:
            return None
        channel.generation = generation
        channel.used_ms = now_ms
        if self.channel is not None:  # In the meantime, by another thread.
            channel.close()
            return self.channel
        self.channel = channel
        if self.closed:  # In the meantime, too.
            self.drop(channel)
        return self.channel

    def interrupt(self) -> None:
        """Restart the count after a publish that went another way."""
        self._count = 0

    def drop(self, channel: PublishChannel) -> None:
        """Abandon a channel and its numbers."""
        self._count = 0
        channel.dead = True
        channel.close()  # Before it is forgotten: if this is interrupted, ``drop`` is called again.
        if self.channel is channel:
            self.channel = None


class DirectPublisher:
    """The direct publishes of one client."""

    def __init__(self, client: Client, portal: Portal) -> None:
        self._publisher = client.publisher
        self._session = client.session
        self._routing = client.routing
        self._clock = client.publisher.server.clock
        self._portal = portal
        self._home = ChannelSlot(self._session)
        self._slots: dict[ClientSession, ChannelSlot] = {self._session: self._home}
        self._inside: set[int] = set()  # The threads that are within ``_publish``.
        self._closed = False
        portal.drain = self.close

    @property
    def channel(self) -> PublishChannel | None:
        """To the server that the program has connected to."""
        return self._home.channel

    def publish(self, topic: Any, messages: list[Any], acks: int) -> list[Receipt] | None:
        """Publish directly and return the receipts; None leaves the publish to the loop."""
        sender = self._publisher.idle_sender(topic)
        if sender is None:
            for slot in list(self._slots.values()):
                slot.interrupt()
            return None
        metadata = sender.metadata  # Once: the loop may learn of others at any time.
        unit = None if metadata is None else sender.single(metadata, messages, acks)
        if metadata is None or unit is None:
            return None
        target = self._target(sender, unit, metadata) if self._session.node else None
        slot = self._home if target is None else self._slot(target.session)
        began_ms = self._clock.steady_ms()
        channel = slot.usable(began_ms)
        thread = threading.get_ident()
        if channel is None or thread in self._inside:
            return None
        ended = False
        self._inside.add(thread)
        try:
            result = self._publish(slot, channel, sender, unit, metadata, target, began_ms)
            ended = True
        finally:
            self._inside.discard(thread)
            if not ended:  # Ctrl-C: the thread that has the channel now gets ``ConnectionLost``.
                slot.drop(channel)
        if isinstance(result, PenstockError):
            raise result
        return result

    def _publish(
        self,
        slot: ChannelSlot,
        channel: PublishChannel,
        sender: Sender,
        unit: Unit,
        metadata: Metadata,
        target: Target | None,
        began_ms: int,
    ) -> list[Receipt] | PenstockError | None:
        request: UnitsRequest | None = None  # Perhaps sent, but not answered.
        failed: ConnectionLost | PenstockError | None = None
        held = False
        try:
            held = channel.take_turn()
            if not held:
                slot.interrupt()
                return None
            channel.used_ms = began_ms
            request = sender.encoded([unit], metadata, channel.numbers(sender.topic))
            if target is not None:
                request.version, request.routed = target.version, True
            outcome = channel.publish(request)
            answered, request = request, None
            answered.take_written(answered.batches[0], outcome)
        except (ConnectionLost, PenstockError) as error:
            failed = error
        except BaseException:  # Ctrl-C.
            slot.drop(channel)  # Before others get the turn.
            if request is not None:
                self._repeat(sender, request, ConnectionLost("the program was interrupted"), began_ms)
            if held:
                channel.turn.release()
            raise
        if isinstance(failed, REPEATED):
            assert request is not None
            slot.drop(channel)
            waiting = self._repeat(sender, request, failed, began_ms)
            channel.turn.release()  # Only now: ``close`` waits for it, and then for the loop.
            return waiting.outcome()
        result = unit.receipts if failed is None else self._refused(slot, channel, sender, failed, target)
        channel.turn.release()
        if slot.channel is not channel:  # It was abandoned.
            channel.close()
        return result

    def _refused(
        self,
        slot: ChannelSlot,
        channel: PublishChannel,
        sender: Sender,
        failed: ConnectionLost | PenstockError,
        target: Target | None,
    ) -> PenstockError | None:
        """Nothing was written: the error for the program, or None if the loop publishes it from scratch."""
        restarted = isinstance(failed, RESTARTED if target is None else (*RESTARTED, *ELSEWHERE))
        if target is not None:
            self._routing.doubt(sender.topic)
        elif isinstance(failed, MetadataStale):
            sender.doubt()
        if restarted or isinstance(failed, SequenceReused) or not is_refusal(failed):
            slot.drop(channel)  # Its numbers are spent, or it is unusable.
        assert isinstance(failed, PenstockError), "a lost connection was repeated"
        return None if restarted else failed

    def _repeat(
        self, sender: Sender, request: UnitsRequest, failed: Exception, began_ms: int
    ) -> Waiting[list[Receipt]]:
        """Let the loop send it again, up to the original deadline of the publish."""
        waiting: Waiting[list[Receipt]] = Waiting()
        [unit] = request.units
        room = Room(self._publisher, unit.size)
        unit.then = give_back_and(room, waiting.end)

        def repeat() -> None:
            unit.deadline = self._session.deadline() - (self._clock.steady_ms() - began_ms) / 1000
            self._routing.doubt(sender.topic)
            sender.repeat(request, failed)

        try:
            room.take(always=True)  # So that nothing goes directly before this is answered.
            self._portal.post(repeat)
        except Closed:
            unit.then([], self._session.unknown("publish"))
        except BaseException:
            room.give_back()
            raise
        return waiting

    # Owners of a cluster.

    def _target(self, sender: Sender, unit: Unit, metadata: Metadata) -> Target | None:
        """The likely owner of the unit's partition; another node would forward it."""
        topic = sender.topic
        if self._routing.is_stale(topic, publishes=True):
            self._portal.post(lambda: self._routing.follow(topic, publishes=True))
        return self._routing.known_target(topic, sender.next_partition(unit, metadata), metadata.version)

    def _slot(self, session: ClientSession) -> ChannelSlot:
        slot = self._slots.get(session)
        if slot is None:
            for old in [old for old in list(self._slots) if old.closed]:  # The routing has closed them.
                gone = self._slots.pop(old, None)
                if gone is not None and gone.channel is not None:
                    gone.drop(gone.channel)
            slot = self._slots.setdefault(session, ChannelSlot(session))
            slot.closed = self._closed
        return slot

    def close(self, timeout_ms: int) -> int:
        """Wait for a publish in flight, and disconnect; returns the remaining time."""
        began_ms = self._clock.steady_ms()
        self._closed = True
        for slot in list(self._slots.values()):
            slot.closed = True
            channel, slot.channel = slot.channel, None
            if channel is not None and threading.get_ident() not in self._inside:
                left_ms = max(timeout_ms - (self._clock.steady_ms() - began_ms), 0)
                channel.turn.acquire(timeout=left_ms / 1000)
                channel.close()  # Otherwise this is a signal handler: the interrupted publish disconnects.
        return max(timeout_ms - (self._clock.steady_ms() - began_ms), 0)
