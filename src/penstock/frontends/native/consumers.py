"""Consumers of native connections: polls, pushes, and reattaching after a reconnect.

    OPEN_CONSUMER ──> attached ── CLOSE_CONSUMER, or the broker closes it ──> gone
                         │  ▲
         connection lost │  │ OPEN_CONSUMER with its token, within resume_ms
                         ▼  │
                      detached ── resume_ms pass ──> gone: its leases are given back, and the attempt counts

The broker's consumer (``BatchConsumer``) keeps the leases; this module only
transports.  A RECEIVE is one wait for the broker.  Credit is a wait that is
repeated while there is credit left, and what it returns never exceeds it.
While the client does not read, there is no wait, so nothing is taken from the
broker that cannot be sent.
"""

import asyncio
import secrets
from typing import Any, Final, Protocol

from penstock.broker.frontend import BatchConsumer, EmbeddedAsyncBroker, Running, Then, ignore_result
from penstock.frontends.security.guarded import BrokerOperations
from penstock.wire.native import COUNT_MAX, UINT32_MAX

TOKEN_BYTES: Final = 16  # Too many to guess.
PUSH_WAIT_MS: Final = 3_600_000  # A push waits so long for messages, and then again.


class Wait:
    """A wait for messages of one consumer, which can be stopped and started again."""

    __slots__ = ("_broker", "_consumer", "_max", "_running", "_started", "_then", "_wait_ms")

    def __init__(
        self,
        broker: EmbeddedAsyncBroker,
        consumer: BatchConsumer,
        max_messages: int,
        wait_ms: int,
        then: Then,
    ) -> None:
        self._broker = broker
        self._consumer = consumer
        self._max = min(max_messages, COUNT_MAX)  # A message may have a lease of its own.
        self._wait_ms = wait_ms
        self._then = then
        self._started = False
        self._running: Running | None = None

    def start(self) -> None:
        """Start waiting, unless it is already; ``then`` may be called before this returns."""
        if self._started:
            return
        self._started = True
        running = self._broker.start(self._consumer.receive(self._max, self._wait_ms), self._ended)
        if self._started:
            self._running = running

    def stop(self) -> bool:
        """Stop without calling ``then``; False if messages were already taken."""
        if self._running is not None and not self._running.call_off():
            return False
        self._started = False
        self._running = None
        return True

    def _ended(self, batches: Any, error: BaseException | None) -> None:
        self._started = False
        self._running = None
        self._then(batches, error)


class Owner(Protocol):
    """The session that a consumer is attached to."""

    def push(self, consumer: "WireConsumer", batches: Any) -> None:
        """Push a frame."""
        ...

    def consumer_failed(self, consumer: "WireConsumer", error: BaseException) -> None:
        """The broker has closed the consumer."""
        ...

    def assigned(self, consumer: "WireConsumer", partitions: list[int]) -> None:
        """Stream groups: the assigned partitions have changed."""
        ...

    def give_away(self, consumer: "WireConsumer") -> None:
        """The client has resumed the consumer on another connection."""
        ...


class WireConsumer:
    """One consumer of a client."""

    def __init__(self, broker: EmbeddedAsyncBroker, inner: BatchConsumer, topic: str, group: str) -> None:
        self.inner = inner
        self.topic = topic
        self.group = group
        self.token = secrets.token_bytes(TOKEN_BYTES)
        self.number = 0  # On the connection it is attached to.
        self.owner: Owner | None = None
        self.operations: BrokerOperations | None = None  # With the permissions of its client.
        self._broker = broker
        self._credit = 0
        self._push: Wait | None = None
        self._asked: dict[Wait, Then] = {}  # RECEIVE requests under way.
        self._paused = False

    # Asked.

    def receive(self, max_messages: int, wait_ms: int, then: Then) -> None:
        def ended(batches: Any, error: BaseException | None) -> None:
            if self._asked.pop(wait, None) is not None:
                then(batches, error)

        wait = Wait(self._broker, self.inner, max_messages, wait_ms, ended)
        self._asked[wait] = then
        if not self._paused:
            wait.start()

    def call_off(self) -> None:
        """The client stops waiting: every RECEIVE that still waits gets an empty response."""
        for wait, then in list(self._asked.items()):
            if wait.stop():
                del self._asked[wait]
                then([], None)

    # Pushed to.

    def add_credit(self, credit: int) -> None:
        """The client accepts this many more messages."""
        self._credit = min(self._credit + credit, UINT32_MAX)
        self._push_on()

    def _push_on(self) -> None:
        if self._credit and self._push is None and not self._paused and self.owner is not None:
            wait = Wait(
                self._broker,
                self.inner,
                self._credit,
                PUSH_WAIT_MS,
                lambda batches, error: self._pushed(wait, batches, error),
            )
            self._push = wait
            wait.start()

    def _pushed(self, wait: Wait, batches: Any, error: BaseException | None) -> None:
        if self._push is not wait:
            return  # It was for a connection that is lost.
        self._push = None
        owner = self.owner
        if owner is None:
            return
        if error is not None:
            owner.consumer_failed(self, error)
            return
        if batches:
            for batch in batches:
                self._credit -= batch.end - batch.start
            owner.push(self, batches)
        if self._credit > 0:
            # In a turn of its own: a full backlog must not keep everybody else waiting.
            asyncio.get_running_loop().call_soon(self._push_on)

    def tell_assignment(self) -> None:
        """Stream groups: tell the client when its partitions change."""
        self.inner.tell_assignment(self._assigned)

    def _assigned(self, partitions: list[int]) -> None:
        if self.owner is not None:  # Else the client gets the error when it reconnects.
            self.owner.assigned(self, partitions)

    # Life.

    def attach(self, owner: Owner, number: int) -> None:
        self.owner = owner
        self.number = number
        self._paused = False

    def detach(self) -> None:
        """The client has disconnected, and may reconnect."""
        self.owner = None
        self.pause()
        self._asked.clear()  # What is on its way is never sent; the client does not name it when it is back.
        self._push = None
        self._credit = 0

    def pause(self) -> None:
        """Stop receiving from the broker for now."""
        self._paused = True
        for wait in self._asked:
            wait.stop()
        if self._push is not None and self._push.stop():
            self._push = None

    def resume(self) -> None:
        self._paused = False
        for wait in list(self._asked):
            wait.start()
        self._push_on()

    def give_up(self) -> None:
        """End all waits, and begin none."""
        self.call_off()
        self.pause()


class ResumableConsumers:
    """The consumers of all connections by token, including those whose client may still reconnect."""

    def __init__(self, broker: EmbeddedAsyncBroker, resume_ms: int) -> None:
        self.resume_ms = resume_ms
        self._broker = broker
        self._consumers: dict[bytes, WireConsumer] = {}
        self._timers: dict[bytes, asyncio.TimerHandle] = {}  # Of those that are detached.

    def __len__(self) -> int:
        return len(self._consumers)

    @property
    def detached(self) -> int:
        """How many consumers wait for their client."""
        return len(self._timers)

    def add(self, consumer: WireConsumer) -> None:
        self._consumers[consumer.token] = consumer

    def take(self, token: bytes, topic: str, group: str, operations: BrokerOperations) -> WireConsumer | None:
        """The consumer that a client resumes; None if it was closed, or belongs to another client."""
        consumer = self._consumers.get(token)
        if consumer is None or (consumer.topic, consumer.group) != (topic, group) or consumer.inner.closed:
            return None
        if consumer.operations is not operations:
            return None
        if consumer.owner is not None:  # The client noticed the loss before the server did.
            consumer.owner.give_away(consumer)
            consumer.detach()
        timer = self._timers.pop(token, None)
        if timer is not None:
            timer.cancel()
        return consumer

    def detach(self, consumer: WireConsumer) -> None:
        """The connection was lost: keep the consumer for a while."""
        consumer.detach()
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self.resume_ms / 1000, self._give_up, consumer)
        self._timers[consumer.token] = timer

    def close(self, consumer: WireConsumer, then: Then) -> None:
        """Close a consumer and forget it."""
        self._forget(consumer)
        self._broker.start(consumer.inner.close(), then)

    def _give_up(self, consumer: WireConsumer) -> None:
        """Close a consumer whose client did not reconnect in time."""
        self._forget(consumer)
        self._broker.start(consumer.inner.disconnect(), ignore_result)

    def _forget(self, consumer: WireConsumer) -> None:
        self._consumers.pop(consumer.token, None)
        timer = self._timers.pop(consumer.token, None)
        if timer is not None:
            timer.cancel()
        consumer.owner = None

    def close_all(self) -> None:
        """Close all consumers: the server is about to stop."""
        for consumer in list(self._consumers.values()):
            self.close(consumer, ignore_result)
