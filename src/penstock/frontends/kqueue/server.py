"""KQueue's clients on the port of the native protocol.

``serve.py`` gives a ``KQueueProtocol`` to the native listener, which asks it about connections that do not
begin with a HELLO.
"""

from penstock.broker.frontend import EmbeddedAsyncBroker
from penstock.errors import Unauthenticated
from penstock.frontends.kqueue.opcodes import COMMANDS
from penstock.frontends.kqueue.session import KQueueConnection, KQueueSession, KQueueShared, unknown_command
from penstock.frontends.security.gateway import AuthGateway


class KQueueProtocol:
    """Selects the connections of KQueue's clients, and refuses those of unknown protocols."""

    def __init__(self, broker: EmbeddedAsyncBroker, gateway: AuthGateway) -> None:
        self.shared = KQueueShared(broker, gateway)
        self._gateway = gateway

    def dispatcher(self, data: bytes, connection: KQueueConnection) -> KQueueSession | None:
        """The session of a connection that begins with these bytes; None if they are not KQueue's."""
        if data[0] not in COMMANDS or self._gateway.required:
            return None
        connection.trust()
        return KQueueSession(connection, self.shared)

    def unknown(self, data: bytes) -> bytes:
        """The answer to a connection that begins with these bytes, if there is no dispatcher for them."""
        if data[0] in COMMANDS:
            refusal = Unauthenticated(why="this server requires a login, and KQueue's protocol has none")
            return f"ERR {refusal}\n".encode()
        return f"{unknown_command(data[0])}\n".encode()

    def stop(self) -> None:
        """The server stops: connections that are lost from now on are not the clients' doing."""
        self.shared.stopping = True
