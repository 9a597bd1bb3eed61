"""A lone publish of a program with threads, on the thread that calls it: nobody has to be woken.

    publish ── is it alone? ── the sender lends its turn ── Line.ask ── receipts
                 │ no             │ no                        │ refused, lost, late
                 v                v                           v
              the loop         the loop                    the loop has the flight: it asks again, or tells

Two threads that put each other to sleep and wake each other up are half of the
CPU time of a blocking publish.  A program whose threads publish one after the
other has nothing from the loop between it and the socket, so after some
publishes of that kind it gets a line of its own (``line.py``).

Invariants
    L1  Nothing is overtaken.  A publish is alone if all that was published
        before, by any thread and to any topic, is answered; and its sender has
        nothing else out while it is lent.
    L2  Nothing is lost, and nothing is there twice.  What the line does not
        answer with a plain success goes to the loop with the same bytes and
        numbers, and is treated there like a first try that failed; also if the
        thread is interrupted while it waits.
    L3  The line leads to the server that the session is connected to, and is
        given up with that connection.

Left out: publishes in many threads at once, which share requests on the loop.
"""

from contextlib import suppress
from typing import Any, Final

from penstock.client.client import Client
from penstock.client.connection import ConnectionLost
from penstock.client.line import Line
from penstock.client.portal import Portal, Waiting
from penstock.client.sender import Flight, Sender
from penstock.client.units import Unit
from penstock.errors import Closed, PenstockError
from penstock.message import Receipt

LONE_MIN: Final = 32  # So many in a row are worth a second connection;
PAUSE_MS: Final = 10_000  # and if there is none to be had, so much later it is worth another try.


class LonePublishes:
    """The publishes of one client that have nobody to wait for."""

    def __init__(self, client: Client, portal: Portal) -> None:
        self._client = client
        self._publisher = client.publisher
        self._session = client.session
        self._clock = client.publisher.facts.clock
        self._portal = portal
        self._count = 0  # In a row.
        self._not_before_ms = 0
        self._connections = 0  # Which one of the session's the line goes with.

    def publish(self, topic: Any, messages: list[Any], size: int, acks: int) -> list[Receipt] | None:
        """Receipts, if it was published here; None leaves it to the loop."""
        if not self._publisher.alone(size):
            self._count = 0
            return None
        sender = self._publisher.sender(topic)
        if sender is None or size > self._publisher.facts.request_bytes:
            return None
        line = self._line()
        return None if line is None else self._publish(line, sender, messages, size, acks)

    def _publish(
        self, line: Line, sender: Sender, messages: list[Any], size: int, acks: int
    ) -> list[Receipt] | None:
        waiting: Waiting[list[Receipt]] = Waiting()
        unit = Unit(messages, size, acks, 0.0, self._publisher.ended(size, waiting.end))
        flight = Flight(unit)
        began_ms = self._clock.steady_ms()
        body = b""
        failed: Exception | None = None
        try:
            request = sender.lend(flight)
            if request is None:
                return None
            body = line.ask(request.encode)
            done = sender.take_back(flight, body)
        except PenstockError as refusal:
            failed, done = refusal, False
        except ConnectionLost as lost:
            self._hang_up()
            failed, done = lost, False
        except BaseException:  # Ctrl-C: it is on its way, and the loop sees to it that it arrives once.
            self._hang_up()
            failed = ConnectionLost("the program was interrupted")
            with suppress(Closed):
                self._portal.post(lambda: self._go_on(sender, flight, began_ms, b"", failed))
            raise
        if done:
            if sender.waiting:
                with suppress(Closed):
                    self._portal.post(sender.go_on)
            return unit.receipts
        try:
            self._portal.post(lambda: self._go_on(sender, flight, began_ms, body, failed))
        except Closed:
            raise self._session.unknown("publish") from None
        return waiting.outcome()

    def _go_on(
        self, sender: Sender, flight: Flight, began_ms: int, body: bytes, failed: Exception | None
    ) -> None:
        """On the loop, with what was begun here, up to the deadline that it has from its beginning."""
        spent_ms = self._clock.steady_ms() - began_ms
        flight.unit.deadline = self._session.deadline() - spent_ms / 1000
        sender.land(flight, body, failed)

    # The line.

    def _line(self) -> Line | None:
        """The line, if there is one; after some publishes of this kind, there is."""
        line = self._client.line
        if line is not None:
            if self._connections == self._session.connections:
                return line
            self._hang_up()
        self._count += 1
        if self._count < LONE_MIN or self._session.closing:
            return None
        now_ms = self._clock.steady_ms()
        if now_ms < self._not_before_ms:
            return None
        self._not_before_ms = now_ms + PAUSE_MS
        self._connections = self._session.connections
        self._client.line = line = Line.open(self._session)
        if self._session.closing:  # Meanwhile.
            self._hang_up()
        return self._client.line

    def _hang_up(self) -> None:
        line, self._client.line = self._client.line, None
        self._count = 0
        if line is not None:
            line.close()
