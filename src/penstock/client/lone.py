"""Sends a publish of a threaded program on the calling thread if no other publish is in flight.

    publish ── is it lone?  ── the sender lends its turn ── ask ── receipts
                 │ no             │ no                        │ refused, lost, late
                 v                v                           v
              the loop         the loop                    the loop owns the request: it retries or reports

Switching between two threads takes half of the CPU time of a blocking publish.  A
program whose threads publish one after the other gains nothing from the loop between it
and the socket, so after some publishes of that kind it gets a second connection (``blocking_connection.py``).

Invariants
    L1  Nothing is overtaken.  A publish is lone if all that was published
        before, by any thread and to any topic, is answered.  That is a question
        of a moment; what counts is that its sender, asked after that, has nothing
        in line and nothing out, and has nothing else out while the turn is lent.
    L2  Nothing is lost, and nothing is there twice.  What the line does not
        answer with a plain success goes to the loop with the same bytes and
        numbers, and is treated there like a first try that failed; also if the
        thread is interrupted while it waits.  From then on the thread has no say.
    L3  The line leads to the server that the session is connected to, and is not
        used beside another connection than the one it was made beside.
    L4  Nobody waits for itself.  A signal's handler runs within the publish that it
        interrupts; before it asks the client for anything, the loop owns the request.

Left out: publishes in many threads at once, which share requests on the loop.
"""

from contextlib import suppress
from threading import get_ident
from typing import Any

from penstock.client.blocking_connection import BlockingConnection
from penstock.client.client import Client
from penstock.client.connection import ConnectionLost
from penstock.client.portal import Portal, Waiting
from penstock.client.publish.publisher import Room, give_back_and
from penstock.client.publish.sender import InFlightRequest, Sender
from penstock.client.publish.units import Unit
from penstock.errors import Closed, PenstockError
from penstock.model.message import Receipt

# Tests set both.
LONE_MIN = 32  # So many in a row are worth a second connection;
PAUSE_MS = 60_000  # and so much after one was made, or could not be had, it is worth another try.
INTERRUPTED = "the program was interrupted"


class LonePublishes:
    """The publishes of one client that have nobody to wait for."""

    def __init__(self, client: Client, portal: Portal) -> None:
        self._client = client
        self._publisher = client.publisher
        self._session = client.session
        self._clock = client.publisher.server.clock
        self._portal = portal
        self._count = 0  # In a row.
        self._not_before_ms = 0
        self._generation = 0  # Of the session's connection that the line was made beside.

    def publish(self, topic: Any, messages: list[Any], room: Room, acks: int) -> list[Receipt] | None:
        """Receipts, if it was published here; None leaves it to the loop."""
        server = self._publisher.server
        if server.unasked > server.unasked_taken or not self._publisher.is_lone(room):
            self._count = 0  # The way of what is not answered is the loop's, and nothing on it is overtaken.
            return None
        sender = self._publisher.sender(topic)
        if sender is None or room.size > server.request_bytes:
            return None
        began_ms = self._clock.steady_ms()
        waiting: Waiting[list[Receipt]] = Waiting()
        # The deadline is on the loop's clock: it is set when the loop has to do with it.
        in_flight = sender.lendable(Unit(messages, room.size, acks, 0.0, give_back_and(room, waiting.end)))
        if in_flight is None:
            return None
        line = self._line()
        return None if line is None else self._publish(line, sender, in_flight, began_ms, waiting)

    def _publish(
        self,
        line: BlockingConnection,
        sender: Sender,
        in_flight: InFlightRequest,
        began_ms: int,
        waiting: Waiting[list[Receipt]],
    ) -> list[Receipt] | None:
        body = b""  # There is no answer.
        failed: Exception | None = None
        self._portal.borrowed = get_ident(), lambda: self._recall(sender, in_flight, began_ms)
        try:
            request = sender.lend(in_flight)
            if request is None:
                return None
            body = line.ask(request.encode)
            if sender.take_back(in_flight, body):
                return in_flight.unit.receipts
        except (ConnectionLost, PenstockError) as problem:
            failed = problem
        finally:  # Also after Ctrl-C, and once more if that comes just now: else others would wait for ever.
            try:
                seen_to = self._see_to(sender, in_flight, began_ms, body, failed)
            except BaseException:
                self._see_to(sender, in_flight, began_ms, body, failed)
                raise
            self._portal.borrowed = None
        if not seen_to:
            raise self._session.unknown("publish")
        return waiting.outcome()

    def _see_to(
        self, sender: Sender, in_flight: InFlightRequest, began_ms: int, body: bytes, failed: Exception | None
    ) -> bool:
        """Let the loop continue with a request that is still lent, or with the queue; False if it ended."""
        lent = sender.has_lent(in_flight)
        if lent and not body and failed is None:
            failed = ConnectionLost(INTERRUPTED)
        if isinstance(failed, ConnectionLost):
            self._hang_up()  # Before others may have their turn.
        if lent or sender.waiting:
            try:
                self._portal.post(lambda: self._hand_over(sender, in_flight, began_ms, body, failed))
            except Closed:
                return False
        return True

    def _recall(self, sender: Sender, in_flight: InFlightRequest, began_ms: int) -> None:
        """Within the publish: leave it to the loop."""
        self._hang_up()  # First: what was about to be sent there is not.
        with suppress(Closed):  # Then everybody was told.
            self._portal.post(lambda: self._take_over(sender, in_flight, began_ms))

    def _take_over(self, sender: Sender, in_flight: InFlightRequest, began_ms: int) -> None:
        if sender.recall(in_flight):
            self._hand_over(sender, in_flight, began_ms, b"", ConnectionLost(INTERRUPTED))

    def _hand_over(
        self, sender: Sender, in_flight: InFlightRequest, began_ms: int, body: bytes, failed: Exception | None
    ) -> None:
        """On the loop: it goes on, up to the deadline that the publish has from its beginning."""
        spent_ms = self._clock.steady_ms() - began_ms
        in_flight.unit.deadline = self._session.deadline() - spent_ms / 1000
        sender.complete(in_flight, body, failed)

    # The line.

    def _line(self) -> BlockingConnection | None:
        """The line, if there is one; after some publishes of this kind, there is."""
        line = self._client.line
        if line is not None:
            if self._generation == self._session.generation:
                return line
            self._hang_up()
        self._count += 1
        if self._count < LONE_MIN or self._session.closing:
            return None
        now_ms = self._clock.steady_ms()
        if now_ms < self._not_before_ms:
            return None
        self._not_before_ms = now_ms + PAUSE_MS
        self._generation = self._session.generation
        self._client.line = line = BlockingConnection.open(self._session)
        if self._session.closing:  # Meanwhile.
            self._hang_up()
        return self._client.line

    def _hang_up(self) -> None:
        line = self._client.line
        self._count = 0
        if line is not None:
            line.close()  # Before it is forgotten: who is interrupted here does it once more.
            self._client.line = None
