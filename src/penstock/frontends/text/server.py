"""One connection of the text protocol: lines to commands, and the pushes of its subscriptions.

    read_lines ──> commands.answer ──> OK / ERR         in order; publishes in a row share a sync
    consumer.receive ──> MSG ...                        one task for each subscription, in between

The connection's task owns the tasks of its subscriptions.  When the input
ends, they end, and the consumers are closed: what was pushed and not
acknowledged comes back at once, to the next subscriber.  A client that does
not read is not pushed to; its leased messages are
redelivered after the visibility timeout.
"""

import asyncio
from itertools import groupby
from typing import TYPE_CHECKING, Final, cast

from penstock.aio import AsyncConsumer
from penstock.broker.frontend import EmbeddedAsyncBroker
from penstock.config.server import LimitSettings
from penstock.errors import PenstockError
from penstock.frontends.foreign import http_refusal
from penstock.frontends.lines import LineConnection, LineListener, LineTooLong, NotLines
from penstock.frontends.listener import Connections
from penstock.frontends.security.gateway import AuthenticatedConnection, AuthGateway
from penstock.frontends.security.identity import Credentials, Identity
from penstock.frontends.text import errors
from penstock.frontends.text.commands import CommandRefused, NotThisProtocol, TextSession, answer, is_publish

if TYPE_CHECKING:
    from penstock.broker.frontend import LocalConsumer

TOGETHER_MAX: Final = 64  # Lines that are taken at a time, if so many have arrived.
PUSH_MESSAGES: Final = 16  # Taken at a time for a client that reads; all it costs if it stops reading.
LOGIN_S: Final = 10  # Where a login is asked for, it comes within this time.
PUSH_WAIT_S: Final = 3600  # A subscription waits this long at a time, and then again.


class TextListener(LineListener):
    def __init__(
        self,
        broker: EmbeddedAsyncBroker,
        limits: LimitSettings,
        connections: Connections,
        gateway: AuthGateway | None = None,
    ) -> None:
        super().__init__(connections)
        self._broker = broker
        self._gateway = gateway or AuthGateway(broker)
        self._limits = limits

    def connect(self) -> LineConnection:
        """The protocol of a new connection."""
        return LineConnection(self, self._limits.text_line_bytes_max, self._limits.write_buffer_bytes_max)

    def refusal(self, error: PenstockError) -> bytes:
        """The response to a connection that cannot be served at all."""
        return f"ERR {errors.words(error)}\n".encode()

    async def talk(self, connection: LineConnection) -> None:
        """Serve one connection until its input ends."""
        async with asyncio.TaskGroup() as pushes:
            tasks: list[asyncio.Task[None]] = []

            async def send(lines: bytes) -> None:
                if connection.lost:
                    raise CommandRefused("The connection is closed")
                connection.write(lines)
                await connection.drained()

            def begin(topic: str, group: str, consumer: AsyncConsumer) -> None:
                push = self._push(connection, session, topic, group, consumer)
                tasks.append(pushes.create_task(push))

            connections: list[AuthenticatedConnection] = []

            def end(why: PenstockError) -> None:
                session.ended = True
                connection.write(self.refusal(why))
                connection.end_input()

            async def log_in(shown: Credentials) -> Identity:
                identity = await self._gateway.login(shown, connection.address)
                connections.append(self._gateway.enter(identity, end))
                return identity

            limit = self._limits.text_in_flight_max
            session = TextSession(self._gateway, send, begin, limit, log_in)
            try:
                await self._answer_lines(connection, session)
            finally:
                for admitted in connections:
                    admitted.leave()
                for task in tasks:
                    task.cancel()
                for consumer in session.subscriptions.values():
                    await self._close(consumer, disconnected=not session.ended and not self._draining)

    async def _close(self, consumer: AsyncConsumer, disconnected: bool) -> None:
        """Release held messages; the attempt counts if the client has disconnected without QUIT."""
        if disconnected:
            await self._broker.run(cast("LocalConsumer", consumer.operations).disconnect())
        else:
            await consumer.close()

    async def _answer_lines(self, connection: LineConnection, session: TextSession) -> None:
        """Execute lines in order, also those of a client that does not wait for responses."""
        while not session.ended:
            try:
                async with asyncio.timeout(LOGIN_S if session.broker is None else None):
                    lines = await connection.read_lines(TOGETHER_MAX)
            except TimeoutError:
                await connection.last_words(f"ERR {errors.UNAUTHENTICATED}\n".encode())
                return
            except LineTooLong:
                limit = self._limits.text_line_bytes_max
                words = f"ERR Line too long: more than {limit} bytes (limits.text_line_bytes_max)\n"
                await connection.last_words(words.encode())
                return
            except NotLines as other:
                await connection.last_words(f"ERR {errors.not_lines(other.spoken)}\n".encode())
                return
            if not lines:
                return
            for publishing, some in groupby(lines, key=is_publish):
                for together in [list(some)] if publishing else ([line] for line in some):
                    if session.ended:
                        return
                    try:
                        await self._answer(connection, session, together)
                    except NotThisProtocol:  # Nothing behind it is looked at; a web page may have sent it.
                        await connection.last_words(http_refusal("text"))
                        return

    async def _answer(self, connection: LineConnection, session: TextSession, lines: list[bytes]) -> None:
        """Answer lines that are executed together: one, or publishes, which share a wait for the disk."""
        async with session.turn:
            answers = await asyncio.gather(*(answer(session, line) for line in lines))
            connection.write(b"".join(answers))
            await connection.drained()

    async def _push(
        self,
        connection: LineConnection,
        session: TextSession,
        topic: str,
        group: str,
        consumer: AsyncConsumer,
    ) -> None:
        """Send the messages of a subscription as they arrive, and as fast as the client reads."""
        try:
            while True:
                for message in await consumer.receive(max_messages=PUSH_MESSAGES, wait=PUSH_WAIT_S):
                    async with session.turn:
                        connection.write(session.hold(message))
                        await connection.drained()
        except PenstockError as error:  # The topic or the group was deleted, most likely.
            del session.subscriptions[topic, group]
            connection.write(f"GONE {topic} {group} {errors.words(error)}\n".encode())
