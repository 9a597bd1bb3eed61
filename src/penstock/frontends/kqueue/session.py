"""KQueue's clients: PUB, SUB, ACK and PING, with JSON bodies and lines for answers.

    client ──> 01 length {"Topic":"t","Payload":"p"}            <── OK Published <id>
               02 length {"Topic":"t"}                          <── OK Subscribed to t
               03 length {"MessageID":"<id>"}                   <── OK ACK
               04 length                                        <── OK PONG
                                       pushed:  <── 05 length {"ID":"<id>","Payload":"p"}

KQueue's clients read once for each command, so an answer is written at once
and by itself, and what is pushed comes in a later turn of the loop.  Names of
fields are matched without regard to case; PUB takes the flat body and the
nested one of the shipped clients.  Ids are UUIDs made from topic, partition and
offset (``model/ids.py``), so the id that a publish is answered with is the one it is
delivered with, and can be traced.

Every subscriber gets every message that is published after its SUB, and what it does
not acknowledge again after the visibility timeout: it has a group of its own, which is
deleted when the connection ends, and at the latest by the first SUB after a crash.  In a
cluster the groups that a crash leaves behind stay: they look like those of other nodes.
Subscribers that name a group share its messages instead, and what one of them left goes to
another.  Leases, retries and dead letters are the broker's.  Payloads are text: bytes of
other clients that are no UTF-8 arrive with replacement characters.
"""

import logging
import re
import secrets
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from penstock.broker.frontend import EmbeddedAsyncBroker, LocalConsumer, Running, ignore_result
from penstock.config.broker import QUEUE_PARTITIONS, GroupOptions, TopicOptions
from penstock.errors import AlreadySettled, LeaseLost, PenstockError, QueueFull, TopicNotFound
from penstock.frontends.kqueue.opcodes import ACK, COMMANDS, DELIVERY, PING, PUB, SUB
from penstock.frontends.public import public
from penstock.frontends.security.gateway import AuthGateway
from penstock.frontends.security.identity import NOBODY
from penstock.model.ids import message_uuid
from penstock.model.info import GroupInfo, TopicInfo
from penstock.model.message import Message, ReceivedMessage, received
from penstock.transport.frames import plain_frame

PRIVATE: Final = "kqueue-"  # Groups of single subscribers begin so.
PRIVATE_FORM: Final = re.compile(f"{PRIVATE}[0-9a-f]{{32}}")  # 16 digits for the server, 16 for the session.
TOPIC_NOT_FOUND: Final = "ERR Topic not found. Try subscribing first."
NOT_HELD: Final = "ERR Message ID not found or already acknowledged."
IN_FLIGHT_MAX: Final = 100  # Messages a subscription may hold unanswered; KQueue's own buffer had as many.
PUSH_MESSAGES_MAX: Final = 10
PUSH_WAIT_MS: Final = 3_600_000

logger = logging.getLogger("penstock")

Fields = dict[str, Any]


class BodyError(Exception):
    """The body of a command is not the expected JSON."""


class KQueueConnection(Protocol):
    """What a session needs of its connection."""

    def send(self, data: bytes) -> None: ...

    def send_now(self, data: bytes) -> None:
        """Send at once, before anything that is sent in a later turn of the loop."""
        ...

    def answer(self, data: bytes) -> None:
        """Send the answer to one request; an empty one if it was sent already."""
        ...

    def later(self, function: Callable[[], None]) -> None:
        """Call it in the next turn of the loop."""
        ...

    def trust(self) -> None:
        """Let it send large frames."""
        ...


class KQueueShared:
    """Deliveries to all KQueue connections: any of them may acknowledge any."""

    def __init__(self, broker: EmbeddedAsyncBroker, gateway: AuthGateway) -> None:
        self.broker = broker
        self.gateway = gateway
        self.held: dict[str, dict[Subscription, ReceivedMessage]] = {}  # By id: who holds it.
        self.private = f"{PRIVATE}{secrets.token_hex(8)}"  # The private groups of its sessions begin so.
        self.swept: set[str] = set()  # Topics whose abandoned private groups are deleted.
        self.stopping = False  # The server ends, and its connections with it.


class KQueueSession:
    def __init__(self, connection: KQueueConnection, shared: KQueueShared) -> None:
        self.connection = connection
        self.shared = shared
        self._operations = shared.gateway.operations(NOBODY)  # KQueue's clients have no login.
        self._subscriptions: dict[tuple[str, str], Subscription] = {}
        self._gone = False
        self._private_group = f"{shared.private}{secrets.token_hex(8)}"

    # The connection's calls.

    def handle(self, opcode: int, body: bytes) -> None:
        name = COMMANDS.get(opcode)
        try:
            if opcode == PUB:
                self._publish(_fields(body))
            elif opcode == SUB:
                self._subscribe(_fields(body))
            elif opcode == ACK:
                self._acknowledge(_fields(body))
            elif opcode == PING:
                self._say("OK PONG")
            else:
                self._say(unknown_command(opcode))
        except BodyError as problem:
            self._say(f"ERR Decoding {name} payload: {problem}")

    def refusal(self, error: PenstockError) -> bytes:
        return f"ERR {error}\n".encode()

    def pause(self) -> None:
        """The client does not read: pause pushes."""
        for subscription in self._subscriptions.values():
            subscription.pause()

    def resume(self) -> None:
        for subscription in self._subscriptions.values():
            subscription.resume()

    def drain(self) -> None:
        self.pause()

    def lost(self) -> None:
        """The connection was lost: release unacknowledged messages at once.

        The attempt counts, unless it is the server that ends: the protocol has no request for leaving, so
        a client that closes its connection looks like one that crashed on a message.
        """
        self._gone = True
        for subscription in self._subscriptions.values():
            subscription.close(disconnected=not self.shared.stopping)
        self._subscriptions.clear()

    def delete_group(self, topic: str, group: str) -> Any:
        """Delete the private group of a subscription that has ended."""
        return self._operations.delete_group(topic, group)

    def ended(self, subscription: "Subscription") -> None:
        """The topic or group of a subscription was deleted; the client may subscribe again."""
        self._subscriptions = {
            key: each for key, each in self._subscriptions.items() if each is not subscription
        }

    # Commands.

    def _publish(self, fields: Fields) -> None:
        topic = _text(fields, "topic")
        nested = fields.get("message")
        if nested is not None and not isinstance(nested, dict):
            raise BodyError("Message is an object with ID and Payload")
        payload = _text(_lowered(nested) if nested is not None else fields, "payload")

        if self.shared.gateway.is_creatable(topic):  # A publish would create it; in KQueue only SUB does.
            self._say(TOPIC_NOT_FOUND)
            return

        def then(receipt: Any, error: BaseException | None) -> None:
            if error is None:
                self._say(f"OK Published {message_uuid(topic, receipt.partition, receipt.offset)}")
            elif isinstance(error, TopicNotFound):
                self._say(TOPIC_NOT_FOUND)
            elif isinstance(error, QueueFull):
                self._say("ERR Queue full, backpressure applied")
            else:
                self._fail(error)

        self.shared.broker.start(self._operations.publish(topic, Message(payload.encode())), then)

    def _subscribe(self, fields: Fields) -> None:
        topic = _text(fields, "topic")
        named = _text(fields, "group")
        group = named or self._private_group
        if (topic, group) in self._subscriptions:
            self._say(f"OK Subscribed to {topic}")
            return
        broker = self.shared.broker

        def made(_: Any, error: BaseException | None) -> None:
            if error is not None:
                self._fail(error)
                return
            options: GroupOptions = {"kind": "queue"}
            if not named:
                options["start"] = "latest"
            work = self._operations.consumer(topic, group, None, IN_FLIGHT_MAX, options, received)
            broker.start(work, opened)

        def opened(consumer: LocalConsumer, error: BaseException | None) -> None:
            if error is not None:
                self._fail(error)
                return
            twice = (topic, group) in self._subscriptions  # Asked for again before the first was answered.
            subscription = Subscription(self, consumer, topic, None if named or twice else group)
            if self._gone or twice:
                subscription.close()
            else:
                self._subscriptions[topic, group] = subscription
            self._say(f"OK Subscribed to {topic}")
            subscription.resume()
            self._sweep(topic)

        options: TopicOptions = {"partitions": QUEUE_PARTITIONS}  # KQueue's topics are first in, first out.
        broker.start(self._operations.auto_create_topic(topic, options), made)

    def _acknowledge(self, fields: Fields) -> None:
        name = _text(fields, "messageid")
        found = self.shared.held.get(name)
        if found is None:
            self._say(NOT_HELD)
            return
        subscription = next((each for each in found if each.session is self), None)
        if subscription is None:
            subscription = next(iter(found))
            if any(topic == subscription.topic for topic, _ in self._subscriptions):
                # A repeated or late ACK of a subscriber, which must not settle what others have to do.
                self._say(NOT_HELD)
                return
        message = found[subscription]

        def then(_: Any, error: BaseException | None) -> None:
            if error is None:
                self._say("OK ACK")
            elif isinstance(error, LeaseLost | AlreadySettled):
                self._say(NOT_HELD)
            else:
                self._fail(error)

        subscription.acknowledge(name, message, then)

    def _sweep(self, topic: str) -> None:
        """Delete the private groups that a killed server has left behind: they have no consumers.

        Neither has a group of this server whose consumer is being opened; such groups have its prefix and are
        left to their sessions.  Those of other nodes of a cluster look like abandoned ones.
        """
        if topic in self.shared.swept or self.shared.gateway.owners.nodes():
            return
        self.shared.swept.add(topic)
        start, operations = self.shared.broker.start, self._operations

        def described(info: TopicInfo | None, error: BaseException | None) -> None:
            for group in info.groups if info is not None and error is None else ():
                if PRIVATE_FORM.fullmatch(group) and not group.startswith(self.shared.private):
                    start(operations.describe_group(topic, group), looked_at)

        def looked_at(info: GroupInfo | None, error: BaseException | None) -> None:
            if info is not None and error is None and not info.consumers:
                start(operations.delete_group(topic, info.group), ignore_result)

        start(operations.describe_topic(topic), described)

    # Answers.

    def _say(self, line: str) -> None:
        # Written before anything that is pushed: the client takes what it reads first for its answer.
        self.connection.send_now(f"{line}\n".encode())
        self.connection.answer(b"")

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, PenstockError):
            self._say(f"ERR {public(error)}")
            return
        logger.error("a request failed by a bug", exc_info=error)
        self._say("ERR internal error; see the server's log")


class Subscription:
    """One SUB: a consumer of the broker, whose messages are pushed one by one."""

    def __init__(
        self, session: KQueueSession, consumer: LocalConsumer, topic: str, private_group: str | None
    ) -> None:
        consumer.settler = self
        self.session = session
        self.topic = topic
        self._private_group = private_group  # Deleted when the subscription ends.
        self._consumer = consumer
        self._broker = session.shared.broker
        self._held = session.shared.held
        self._names: dict[str, None] = {}  # Of what was pushed last and not acknowledged, oldest first.
        self._running: Running | None = None
        self._waiting = False
        self._paused = True
        self._closed = False

    def resume(self) -> None:
        self._paused = False
        if self._waiting or self._closed:
            return
        self._waiting = True
        running = self._broker.start(self._consumer.receive(PUSH_MESSAGES_MAX, PUSH_WAIT_MS), self._received)
        if self._waiting:
            self._running = running

    def pause(self) -> None:
        """Stop receiving from the broker for now."""
        self._paused = True
        if self._running is not None and self._running.call_off():
            self._running = None
            self._waiting = False

    def _received(self, messages: list[ReceivedMessage] | None, error: BaseException | None) -> None:
        self._waiting = False
        self._running = None
        if self._closed:
            return
        if error is not None or messages is None:
            logger.info("a KQueue subscription has ended: %s", error)
            self.session.ended(self)
            self.close()
            return
        # In a turn of its own: the answer to a publish of the same client is written first, and alone.
        self.session.connection.later(partial(self._push, messages))

    def _push(self, messages: list[ReceivedMessage]) -> None:
        if self._closed:
            return
        for message in messages:
            name = message_uuid(message.topic, message.partition, message.offset)
            self._hold(name, message)
            fields = {"ID": name, "Payload": message.value.decode("utf-8", "replace")}
            self.session.connection.send(plain_frame(DELIVERY, msgspec.json.encode(fields)))
        if not self._paused:
            self.session.connection.later(self._go_on)

    def _hold(self, name: str, message: ReceivedMessage) -> None:
        self._held.setdefault(name, {})[self] = message
        self._names.pop(name, None)
        self._names[name] = None
        if len(self._names) > IN_FLIGHT_MAX:  # The broker leases no more than that: forget the oldest.
            self._forget(next(iter(self._names)))

    def _forget(self, name: str) -> None:
        del self._names[name]
        holders = self._held.get(name, {})
        holders.pop(self, None)
        if not holders:
            self._held.pop(name, None)

    def _go_on(self) -> None:
        if not self._paused:
            self.resume()

    def acknowledge(self, name: str, message: ReceivedMessage, then: Any) -> None:
        self._forget(name)
        self._broker.start(self._consumer.ack([message], []), then)

    def close(self, disconnected: bool = False) -> None:
        """Release held messages; the attempt counts if the connection was lost."""
        self.pause()
        self._closed = True
        for name in list(self._names):
            self._forget(name)
        consumer = self._consumer
        work = consumer.disconnect() if disconnected else consumer.close()
        self._broker.start(work, ignore_result if self._private_group is None else self._delete_group)

    def _delete_group(self, _: object, __: BaseException | None) -> None:
        assert self._private_group is not None
        self._broker.start(self.session.delete_group(self.topic, self._private_group), ignore_result)


def unknown_command(opcode: int) -> str:
    """KQueue's response to an unknown opcode."""
    return f"ERR Unknown Command Type: {opcode:x}"


def _fields(body: bytes) -> Fields:
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise BodyError(str(problem)) from None
    if not isinstance(fields, dict):
        raise BodyError("the body is not a JSON object")
    return _lowered(fields)


def _lowered(fields: dict[str, Any]) -> Fields:
    return {name.lower(): value for name, value in fields.items()}


def _text(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BodyError(f"{name} is not a string")
    return value
