r"""The commands of the text protocol: a table from the word to what is done.

    PRODUCE user-signups 0 new user: alex      OK Published user-signups:0:0
    CONSUME user-signups 0                     MSG user-signups user-signups:0:0 new user: alex
                                               OK END 1
    SUB orders                                 OK Subscribed to orders
    PUB orders two books                       OK Published orders:3:0
                                               MSG orders orders:3:0 two books
    ACK orders:3:0                             OK ACK

Every line that is sent begins with a word in capitals, and a command is
answered by exactly one line that begins with OK or ERR, which is the last of its
answer.  MSG lines of subscriptions come between answers, never inside one.

A message is the bytes behind one space after the last argument, as they are.  A
line break in a message (published through another protocol) is sent as ``\n``.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Final

from penstock.aio import AsyncConsumer, AsyncReceivedMessage
from penstock.api.aio import AsyncBroker
from penstock.config.broker import QUEUE_PARTITIONS
from penstock.errors import InvalidValue, PartitionNotFound, PenstockError, TopicNotFound
from penstock.frontends.foreign import is_http
from penstock.frontends.security.gateway import AuthGateway
from penstock.frontends.security.identity import NOBODY, Credentials, Identity
from penstock.frontends.text import errors
from penstock.model.message import StoredMessage
from penstock.operations.call import DEFAULT_GROUP

CHUNK_MESSAGES: Final = 64  # Of a CONSUME, at a time; between two chunks the client must have read.
CHUNK_BYTES: Final = 64 * 1024 * 1024
SUBSCRIPTIONS_MAX: Final = 100  # Of one connection; each has a consumer and a task.

_LINE_BREAKS: Final = re.compile(rb"[\r\n]")
_SHOWN: Final = {b"\r": rb"\r", b"\n": rb"\n"}


class CommandRefused(Exception):  # noqa: N818 - an answer to the client, which never leaves this package.
    """The command failed; its text follows ERR in the response."""


class NotThisProtocol(Exception):  # noqa: N818 - the same.
    """The line is part of an HTTP request, so the connection must end."""


class TextSession:
    """The state of one connection: its subscriptions, and the messages it holds."""

    def __init__(
        self,
        gateway: AuthGateway,
        send: Callable[[bytes], Awaitable[None]],
        subscribe: Callable[[str, str, AsyncConsumer], None],
        in_flight_max: int,
        log_in: Callable[[Credentials], Awaitable[Identity]],
    ) -> None:
        self.broker: AsyncBroker | None = None if gateway.required else gateway.broker(NOBODY)
        self.gateway = gateway
        self.identity = NOBODY
        self.log_in = log_in  # Sets the identity of the connection by its credentials.
        self.send = send  # One line or several, with their ends; waits for a client that does not read.
        self.subscribe = subscribe  # Begins to push the consumer's messages.
        self.in_flight_max = in_flight_max
        self.subscriptions: dict[tuple[str, str], AsyncConsumer] = {}  # By topic and group.
        self.ended = False
        self.turn = asyncio.Lock()  # Whose turn it is to send: an answer's, or a subscription's.
        self._held: dict[str, AsyncReceivedMessage] = {}  # By id; some may be held no longer.

    def hold(self, message: AsyncReceivedMessage) -> bytes:
        """Note a message that is about to be sent, and return its line."""
        self._held.pop(message.id, None)  # So that it becomes the newest.
        self._held[message.id] = message
        if len(self._held) > self.in_flight_max * len(self.subscriptions):
            # No consumer holds more than in_flight_max, so the oldest is back in its topic.
            del self._held[next(iter(self._held))]
        return message_line(message.topic, message.id, message.value)

    def let_go(self, identity: str) -> AsyncReceivedMessage:
        """Remove and return the message of that id, which is about to be settled."""
        message = self._held.pop(identity, None)
        if message is None:
            raise CommandRefused(errors.UNKNOWN_MESSAGE)
        return message

    @property
    def open_broker(self) -> AsyncBroker:
        """The operations that this client may use."""
        if self.broker is None:
            raise CommandRefused(errors.UNAUTHENTICATED)
        return self.broker


Do = Callable[[TextSession, list[bytes]], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Command:
    """One row of the table."""

    usage: str  # The words that follow the command.
    least: int  # How many words there must be.
    most: int  # With more words, the last of them is all the rest of the line, as it is.
    help: str
    do: Do  # Returns what follows OK.


async def authenticate(session: TextSession, words: list[bytes]) -> str:
    """Log in with an API key."""
    if session.broker is not None and session.gateway.required:
        raise CommandRefused("You are logged in already")
    identity = await session.log_in(Credentials(key=text(words[0])))
    session.identity = identity
    session.broker = session.gateway.broker(identity)
    return "Welcome"


async def produce(session: TextSession, words: list[bytes]) -> str:
    """Publish to the partition that the client names."""
    topic, partition = text(words[0]), partition_number(words[1])
    receipt = await session.open_broker.publish(topic, words[2], partition=partition)
    return f"Published {receipt.id}"


async def publish(session: TextSession, words: list[bytes]) -> str:
    """Publish to a topic that exists: PUB is KQueue's, where SUB creates topics and PUB does not."""
    topic = text(words[0])
    broker = session.open_broker
    if session.gateway.is_creatable(topic):
        raise TopicNotFound(topic=topic)
    receipt = await broker.publish(topic, words[1])
    return f"Published {receipt.id}"


async def consume(session: TextSession, words: list[bytes]) -> str:
    """Send all messages of a partition, without consuming them."""
    topic, partition = text(words[0]), partition_number(words[1])
    described = await session.open_broker.describe_topic(topic)
    if partition >= len(described.partitions):
        raise PartitionNotFound(topic=topic, partition=partition, last=len(described.partitions) - 1)
    offset, end = described.partitions[partition].start, described.partitions[partition].end
    limit = max(min(CHUNK_MESSAGES, CHUNK_BYTES // described.settings.message_bytes_max), 1)
    count = 0
    while offset < end:
        read = await session.open_broker.read(topic, partition=partition, offset=offset, limit=limit)
        some = [message for message in read if message.offset < end]  # Not what was published meanwhile.
        await session.send(b"".join(map(stored_line, some)))
        count += len(some)
        offset = some[-1].offset + 1 if len(some) == limit else end
    return f"END {count}"


async def subscribe(session: TextSession, words: list[bytes]) -> str:
    """Push the messages of a group; topic and group are created at first use."""
    topic = text(words[0])
    group = text(words[1]) if len(words) > 1 else DEFAULT_GROUP
    if (topic, group) not in session.subscriptions:
        if len(session.subscriptions) >= SUBSCRIPTIONS_MAX:
            raise CommandRefused(f"Too many subscriptions: {SUBSCRIPTIONS_MAX} is the limit of a connection")
        consumer = await open_consumer(session, topic, group)
        session.subscriptions[topic, group] = consumer
        session.subscribe(topic, group, consumer)
    return f"Subscribed to {topic}"


async def open_consumer(session: TextSession, topic: str, group: str) -> AsyncConsumer:
    """A consumer; a missing topic is created if the client may do that."""
    broker = session.open_broker
    await session.gateway.auto_create(session.identity, topic, {"partitions": QUEUE_PARTITIONS})
    return await broker.consumer(topic, group=group, max_in_flight=session.in_flight_max)


async def acknowledge(session: TextSession, words: list[bytes]) -> str:
    """Settle a message that was pushed on this connection."""
    await session.let_go(text(words[0])).ack()
    return "ACK"


async def ping(_: TextSession, __: list[bytes]) -> str:
    """Respond that the server is running."""
    return "PONG"


async def topics(session: TextSession, _: list[bytes]) -> str:
    """List the topics with their partition counts."""
    names = await session.open_broker.topics()
    for name in names:
        described = await session.open_broker.describe_topic(name)
        await session.send(f"TOPIC {name} {len(described.partitions)}\n".encode())
    return f"END {len(names)}"


async def help_(session: TextSession, _: list[bytes]) -> str:
    lines = list(help_lines())
    await session.send("".join(f"HELP {line}\n" for line in lines).encode())
    return f"END {len(lines)}"


async def quit_(session: TextSession, _: list[bytes]) -> str:
    session.ended = True
    return "Bye"


COMMANDS: Final[dict[str, Command]] = {
    "PRODUCE": Command(
        "<topic> <partition> <message>", 3, 3, "publish to a partition; makes the topic", produce
    ),
    "CONSUME": Command("<topic> <partition>", 2, 2, "all messages of a partition; takes none", consume),
    "PUB": Command("<topic> <message>", 2, 2, "publish to a topic that exists", publish),
    "SUB": Command("<topic> [<group>]", 1, 2, "get a group's messages as they come; makes both", subscribe),
    "ACK": Command("<message_id>", 1, 1, "a message of a subscription is done", acknowledge),
    "TOPICS": Command("", 0, 0, "the topics, with their partition counts", topics),
    "AUTH": Command("<key>", 1, 1, "log in, where the server asks for a key", authenticate),
    "PING": Command("", 0, 0, "is the server there?", ping),
    "HELP": Command("", 0, 0, "this list", help_),
    "QUIT": Command("", 0, 0, "end the connection", quit_),
}
PUBLISHING: Final = frozenset({b"PRODUCE", b"PUB"})


async def answer(session: TextSession, line: bytes) -> bytes:
    """Execute the command on a line; returns the last line of the response."""
    try:
        name, rest = split_command(line)
        command = COMMANDS.get(name)
        if command is None:
            if is_http(line.lstrip()):
                raise NotThisProtocol
            raise CommandRefused(errors.UNKNOWN_COMMAND)
        words = split_words(name, command, rest)
        return f"OK {await command.do(session, words)}\n".encode()
    except CommandRefused as refusal:
        return f"ERR {refusal}\n".encode()
    except PenstockError as error:
        return f"ERR {errors.words(error)}\n".encode()


def is_publish(line: bytes) -> bool:
    """Whether a line publishes, so that it may be executed together with others."""
    return line.lstrip().partition(b" ")[0].upper() in PUBLISHING


def split_command(line: bytes) -> tuple[str, bytes]:
    """The command in capitals, and what follows the space after it."""
    word, _, rest = line.lstrip().partition(b" ")
    if not word:
        raise CommandRefused(errors.MISSING_COMMAND)
    return text(word).upper(), rest


def split_words(name: str, command: Command, rest: bytes) -> list[bytes]:
    """The arguments of a command; a message is the rest of the line behind one space, as it is."""
    if name.encode() not in PUBLISHING:
        words = rest.split()
    else:
        words = []
        while len(words) < command.most - 1 and rest.lstrip(b" "):
            word, space, rest = rest.lstrip(b" ").partition(b" ")
            words.append(word)
        if len(words) == command.most - 1 and space:
            words.append(rest)
    if not command.least <= len(words) <= command.most:
        raise CommandRefused(f"Usage: {f'{name} {command.usage}'.strip()}")
    return words


def help_lines() -> Iterator[str]:
    """One line for each command."""
    for name, command in COMMANDS.items():
        yield f"{f'{name} {command.usage}'.strip():<38} {command.help}"


def text(word: bytes) -> str:
    """A word as text; one that is not UTF-8 is refused as an invalid name."""
    return word.decode(errors="replace")


def partition_number(word: bytes) -> int:
    """A partition as the client wrote it."""
    if not word.isdigit() or len(word) > 9:
        raise InvalidValue(name="partition", value=text(word), why="it is a number from 0 on")
    return int(word)


def message_line(topic: str, identity: str, value: bytes | None) -> bytes:
    """A message as it is sent."""
    shown = _LINE_BREAKS.sub(lambda found: _SHOWN[found[0]], value or b"")
    return f"MSG {topic} {identity} ".encode() + shown + b"\n"


def stored_line(message: StoredMessage) -> bytes:
    """A stored message as it is sent."""
    return message_line(message.topic, message.id, message.value)
