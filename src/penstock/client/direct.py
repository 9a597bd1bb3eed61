"""Publishes of a threaded program on the calling thread, if all that it has published before is answered.

    publish ── is everything answered? ── take the channel ── encode, number ── ask ── receipts
                  │ no                       │ no                                │ lost, late, refused for now
                  v                          v                                   v
               the loop                   the loop                     the loop sends the same bytes again

Switching between two threads takes half of the CPU time of a blocking publish.  A program whose threads
publish one after the other gains nothing from the loop between it and the socket, so after some publishes of
that kind it gets a second connection (``blocking_connection.py``) with a producer id of its own: the channel.

Invariants
    D1  Nothing is overtaken.  A publish goes directly only if all that was published before, to any topic, is
        answered; so what is on its way on the session's connection was published by others at the same time.
    D2  Nothing is lost, and nothing is there twice.  A number of the channel is used again only after a
        response says that nothing was written.  What is not answered, or refused only for now (a node that
        forwards may have written it before), is sent again by the loop with the same bytes and numbers, and
        the channel is given up with its numbers.
    D3  The channel leads to the server that the session is connected to, and is not used beside another
        connection than the one it was made beside.
    D4  Nobody waits for a thread that is interrupted.  The channel is taken without waiting, and a thread
        that is within a publish already (a signal's handler, a finalizer) goes by the loop.
    D5  A channel that was not used for ``IDLE_MS`` is not used any more: unlike the session's connection it
        sends no pings, and a firewall or NAT may have forgotten it.

Left out: publishes in many threads at once, which share requests on the loop, and those of several batches.
"""

import socket
import threading
from typing import Any, Final

from penstock.client.blocking_connection import BlockingConnection
from penstock.client.client import Client
from penstock.client.connection import SILENCE_S
from penstock.client.exchange import ConnectionLost
from penstock.client.portal import Portal, Waiting
from penstock.client.publish.publisher import Room, give_back_and
from penstock.client.publish.requests import Numbers, UnitsRequest, only_outcome
from penstock.client.publish.sender import Sender
from penstock.client.publish.units import Unit, is_refusal
from penstock.client.session import ClientSession
from penstock.errors import (
    Closed,
    MetadataStale,
    Overloaded,
    PenstockError,
    ProducerFenced,
    ProtocolViolation,
    QuotaExceeded,
    SequenceOutOfOrder,
    SequenceReused,
    ShuttingDown,
)
from penstock.model.message import Receipt
from penstock.wire.native import NEW_PRODUCER, PublishOutcome, decode_producer, frame
from penstock.wire.native_bodies import Metadata

# Tests set both.
DIRECT_MIN = 32  # So many in a row are worth a second connection;
PAUSE_MS = 60_000  # and so much after one was made, or could not be had, it is worth another try.
IDLE_MS: Final = int(SILENCE_S * 1000)
REPEATED: Final = (ConnectionLost, Overloaded, QuotaExceeded, ShuttingDown)  # By the loop, as it is.
# The loop publishes it anew: the server has lost our last numbers, or the channel leads to one that does not
# know the topic's settings yet.
ANEW: Final = (SequenceOutOfOrder, ProducerFenced, MetadataStale)


class PublishChannel(BlockingConnection):
    """A connection for publishes, and the numbers that are used on it."""

    def __init__(self, connected: socket.socket, session: ClientSession) -> None:
        super().__init__(connected, session)
        self.generation = 0  # Of the session's connection that it was made beside.
        self.turn = threading.Lock()  # Held by the thread that publishes.
        self.dead = False  # It was given up.
        self.used_ms = 0  # When the last publish on it began.
        self._producer_id = decode_producer(self.ask(lambda number: frame(NEW_PRODUCER, number)))
        self._numbers: dict[str, Numbers] = {}  # By topic.

    def take_turn(self) -> bool:
        """Without waiting; False if another thread has it, or the channel was given up."""
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
        """Where its one batch was written; raises why it was not, or ``ConnectionLost``."""
        body = self.ask(request.encode)
        try:
            return only_outcome(body)
        except ProtocolViolation:
            raise ConnectionLost("the server said something else") from None


class DirectPublisher:
    """The publishes of one client that need no event loop."""

    def __init__(self, client: Client, portal: Portal) -> None:
        self._publisher = client.publisher
        self._session = client.session
        self._clock = client.publisher.server.clock
        self._portal = portal
        self.channel: PublishChannel | None = None
        self._inside: set[int] = set()  # The threads that are within ``_publish``.
        self._count = 0  # Publishes in a row that could have gone directly.
        self._not_before_ms = 0
        self._closed = False
        portal.drain = self.close

    def publish(self, topic: Any, messages: list[Any], acks: int) -> list[Receipt] | None:
        """Receipts, if it was published here; None leaves it to the loop."""
        sender = self._publisher.idle_sender(topic)
        if sender is None:
            self._count = 0
            return None
        metadata = sender.metadata  # Once: the loop may learn of others at any time.
        unit = None if metadata is None else sender.single(metadata, messages, acks)
        channel = None if unit is None else self._usable_channel()
        thread = threading.get_ident()
        if metadata is None or unit is None or channel is None or thread in self._inside:
            return None
        ended = False
        self._inside.add(thread)
        try:
            result = self._publish(channel, sender, unit, metadata)
            ended = True
        finally:
            self._inside.discard(thread)
            if not ended:  # Ctrl-C: whoever has the channel now is told that it is lost.
                self._drop(channel)
        if isinstance(result, PenstockError):
            raise result
        return result

    def _publish(
        self, channel: PublishChannel, sender: Sender, unit: Unit, metadata: Metadata
    ) -> list[Receipt] | PenstockError | None:
        request: UnitsRequest | None = None  # Perhaps sent, and not answered.
        failed: ConnectionLost | PenstockError | None = None
        began_ms = self._clock.steady_ms()
        held = False
        try:
            held = channel.take_turn()
            if not held:
                self._count = 0
                return None
            channel.used_ms = began_ms
            request = sender.encoded([unit], metadata, channel.numbers(sender.topic))
            outcome = channel.publish(request)
            answered, request = request, None
            answered.take_written(answered.batches[0], outcome)
        except (ConnectionLost, PenstockError) as error:
            failed = error
        except BaseException:  # Ctrl-C.
            self._drop(channel)  # Before others get the turn.
            if request is not None:
                self._repeat(sender, request, ConnectionLost("the program was interrupted"), began_ms)
            if held:
                channel.turn.release()
            raise
        if isinstance(failed, REPEATED):
            assert request is not None
            self._drop(channel)
            waiting = self._repeat(sender, request, failed, began_ms)
            channel.turn.release()  # Only now: ``close`` waits for it, and then for the loop.
            return waiting.outcome()
        if isinstance(failed, MetadataStale):
            sender.doubt()
        if failed is not None and (isinstance(failed, (*ANEW, SequenceReused)) or not is_refusal(failed)):
            self._drop(channel)  # Its numbers cannot be used any more, or it is of no use.
        channel.turn.release()
        if self.channel is not channel:  # It was given up.
            channel.close()
        return unit.receipts if failed is None else None if isinstance(failed, ANEW) else failed

    def _repeat(
        self, sender: Sender, request: UnitsRequest, failed: Exception, began_ms: int
    ) -> Waiting[list[Receipt]]:
        """Let the loop send it again, up to the deadline that the publish has from its beginning."""
        waiting: Waiting[list[Receipt]] = Waiting()
        [unit] = request.units
        room = Room(self._publisher, unit.size)
        unit.then = give_back_and(room, waiting.end)

        def repeat() -> None:
            unit.deadline = self._session.deadline() - (self._clock.steady_ms() - began_ms) / 1000
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

    # The channel.

    def _usable_channel(self) -> PublishChannel | None:
        """The channel; after some publishes that could have used one, there is one."""
        channel = self.channel
        now_ms = self._clock.steady_ms()
        if channel is not None:
            if channel.generation == self._session.generation and now_ms - channel.used_ms <= IDLE_MS:
                return channel
            self._drop(channel)
        self._count += 1
        if self._count < DIRECT_MIN or self._closed or now_ms < self._not_before_ms:
            return None
        self._not_before_ms = now_ms + PAUSE_MS
        generation = self._session.generation  # Before: if there is a new one meanwhile, it is not used.
        channel = PublishChannel.open(self._session)
        if channel is None:
            return None
        channel.generation = generation
        channel.used_ms = now_ms
        if self.channel is not None:  # Meanwhile, by another thread.
            channel.close()
            return self.channel
        self.channel = channel
        if self._closed:  # Meanwhile, too.
            self._drop(channel)
        return self.channel

    def _drop(self, channel: PublishChannel) -> None:
        """Give up a channel and its numbers."""
        self._count = 0
        channel.dead = True
        channel.close()  # Before it is forgotten: who is interrupted here does it once more.
        if self.channel is channel:
            self.channel = None

    def close(self, timeout_ms: int) -> int:
        """Wait for a publish that is on its way, and hang up; returns how much of the time is left."""
        began_ms = self._clock.steady_ms()
        self._closed = True
        channel, self.channel = self.channel, None
        if channel is not None and threading.get_ident() not in self._inside:
            channel.turn.acquire(timeout=timeout_ms / 1000)
            channel.close()  # Else this is a signal's handler, and the publish that it interrupts hangs up.
        return max(timeout_ms - (self._clock.steady_ms() - began_ms), 0)
