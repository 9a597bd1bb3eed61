"""The client for programs with threads: the facade of ``api/broker.py``, over a connection.

    thread ──┐
    thread ──┼── Portal ──> one event loop in a thread of its own ──> Client
    thread ──┘

The client is written once, for asyncio; here its work is handed to a loop that
is private to it.  Only a publish with nothing else in flight bypasses it (``direct.py``).

Beyond the facade: ``publish_nowait`` and ``flush``, how far a publish must be
(``acks``), and how a consumer is supplied (``prefetch``) and kept (``heartbeat``).
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from typing import Any, Unpack

from msgspec import UNSET, UnsetType

from penstock.api.broker import Broker
from penstock.api.handles import Consumer
from penstock.api.spans import begin_publish, traced
from penstock.client.client import Client, ClientSettings
from penstock.client.connections.login import ClientLogin
from penstock.client.direct import DirectPublisher
from penstock.client.portal import Portal
from penstock.client.publish.publisher import Acks, Room, acks_number
from penstock.client.publish.units import size_of
from penstock.config.broker import GroupOptions
from penstock.model.message import Message, Receipt, received
from penstock.types import Duration, Instant, Priority


class RemoteBroker(Broker):
    """A broker at the end of a connection."""

    def __init__(self, client: Client, portal: Portal) -> None:
        super().__init__(client.operations, portal)
        self._client = client
        self._portal = portal
        self._direct = DirectPublisher(client, portal)
        self._remote = traced(client.operations)

    def publish(
        self,
        topic: str,
        value: bytes | UnsetType | None = UNSET,
        *,
        json: Any = UNSET,
        text: str | UnsetType = UNSET,
        key: str | bytes | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        priority: Priority = 0,
        ttl: Duration | None = None,
        delay: Duration | None = None,
        deliver_at: Instant | None = None,
        dedup_id: str | None = None,
        partition: int | None = None,
        acks: Acks = "durable",
    ) -> Receipt:
        """Publish one message; ``acks`` says what has to happen before this returns.

        "durable" (as durable as the topic promises), "written" (in the log, perhaps not on disk yet), or
        "none" (sent, without a response: the receipt has no offset).  The message is ``value``, bytes; or an
        object as JSON (``json``); or text as UTF-8 (``text``).
        """
        message = Message(
            value, key, headers, priority, ttl, delay, deliver_at, dedup_id, partition, json, text
        )
        [receipt] = self._publish(topic, [message], acks)
        return receipt

    def publish_batch(
        self, topic: str, messages: Iterable[Message | bytes], *, acks: Acks = "durable"
    ) -> list[Receipt]:
        """Publish many messages at once; one receipt each, in their order."""
        batch = list(messages)
        if not batch:
            return self._driver.run(self._client.operations.publish_batch(topic, batch))
        return self._publish(topic, batch, acks)

    def _publish(self, topic: str, messages: list[Any], acks: Acks) -> list[Receipt]:
        number = acks_number(acks)
        sending = begin_publish(topic, messages)
        if sending is None:
            return self._send(topic, messages, number)
        with sending:
            receipts = self._send(topic, sending.messages, number)
            sending.end(receipts, None)
        return receipts

    def _send(self, topic: str, messages: list[Any], number: int) -> list[Receipt]:
        """In this thread if nothing is in flight; else on the loop, while this thread waits."""
        self._portal.check_open()
        receipts = self._direct.publish(topic, messages, number)
        if receipts is not None:
            return receipts
        publisher = self._client.publisher
        room = Room(publisher, size_of(messages))
        try:
            room.take()  # Not before: it is given back whatever happens.
            return self._portal.wait(
                lambda waiting: publisher.publish(topic, messages, room, number, waiting.end)
            )
        except BaseException:  # Ctrl-C: the loop may never have got it.
            room.give_back()
            raise

    def publish_nowait(
        self,
        topic: str,
        value: bytes | UnsetType | None = UNSET,
        *,
        json: Any = UNSET,
        text: str | UnsetType = UNSET,
        key: str | bytes | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        priority: Priority = 0,
        ttl: Duration | None = None,
        delay: Duration | None = None,
        deliver_at: Instant | None = None,
        dedup_id: str | None = None,
        partition: int | None = None,
        acks: Acks = "durable",
    ) -> Future[Receipt]:
        """Publish one message without waiting; the future gets its receipt or an error.

        Messages to one topic are sent in this order.  Raises ``QueueFull`` at once if too many bytes wait.
        """
        message = Message(
            value, key, headers, priority, ttl, delay, deliver_at, dedup_id, partition, json, text
        )
        number = acks_number(acks)
        future: Future[Receipt] = Future()
        future.set_running_or_notify_cancel()  # It is on its way, and not to be cancelled.
        sending = begin_publish(topic, [message])
        messages = [message] if sending is None else sending.messages

        def then(receipts: list[Receipt], error: BaseException | None) -> None:
            if sending is not None:
                sending.end(receipts, error)
            if error is None:
                future.set_result(receipts[0])
            else:
                future.set_exception(error)

        publisher = self._client.publisher
        with sending or nullcontext():
            self._portal.check_open()
            room = publisher.reserve(messages)
        self._portal.post(lambda: publisher.publish(topic, messages, room, number, then))
        return future

    def flush(self) -> None:
        """Wait until all publishes so far have a result, which their futures have."""
        self._driver.run(self._client.operations.flush())

    def consumer(
        self,
        topic: str,
        *,
        group: str = "default",
        consumer_id: str | None = None,
        max_in_flight: int | None = None,
        prefetch: int = 0,
        heartbeat: bool = True,
        **options: Unpack[GroupOptions],
    ) -> Consumer:
        """A consumer of a group; the group is made at first use, and changed by options that are given.

        ``prefetch``: how many messages the server sends ahead.  ``heartbeat``: extend the leases of messages
        that the program still works on beyond the visibility timeout, until it settles or drops them.
        """
        begun = self._remote.consumer(
            topic, group, consumer_id, max_in_flight, options, received, prefetch, heartbeat
        )
        return Consumer(self._driver.run(begun), self._driver)


def connect(
    url: str | Sequence[str],
    *,
    request_timeout: Duration = "30s",
    linger: Duration = "0s",
    client_id: str | None = None,
    key: str | None = None,
    user: str | None = None,
    password: str | None = None,
    ca: str | None = None,
) -> RemoteBroker:
    """Connect to a server: ``penstock.connect("penstock://127.0.0.1:7070")``.

    The nodes of a cluster are one URL (``penstock://a,b:7071,c``) or a list; any of them will do.
    ``request_timeout``: how long a call is retried.  ``linger``: how long a publish waits for others to share
    its request.  ``client_id``: the name of this program in the server's logs.  ``key``, or ``user`` and
    ``password``: credentials; default: the environment variable PENSTOCK_KEY.  ``ca``: a file of certificates
    to trust with ``penstocks://``; default: the variable PENSTOCK_CA, or those of the system.
    """
    settings = ClientSettings(url, request_timeout, linger, client_id, ClientLogin(key, user, password, ca))
    portal = Portal()
    return RemoteBroker(portal.open(lambda: Client.open(settings)), portal)
