"""The SQS listener: the connections of the HTTP front end with another application."""

from penstock.broker.frontend import EmbeddedAsyncBroker
from penstock.clock import Clock, SystemClock
from penstock.config.server import LOCALHOST, HttpSettings, LimitSettings
from penstock.frontends.http.server import DEFAULTS, AsgiListener
from penstock.frontends.listener import Connections
from penstock.frontends.origins import Origins
from penstock.frontends.security.gateway import AuthGateway
from penstock.frontends.sqs.app import make_app
from penstock.frontends.sqs.call import SqsShared


class SqsListener(AsgiListener):
    """Amazon SQS, for ``penstock serve``."""

    def __init__(
        self,
        broker: EmbeddedAsyncBroker,
        limits: LimitSettings,
        connections: Connections,
        gateway: AuthGateway | None = None,
        settings: HttpSettings = DEFAULTS,
        host: str = LOCALHOST,
        clock: Clock | None = None,
    ) -> None:
        gateway = gateway or AuthGateway(broker)
        origins = Origins(settings, host, authentication=gateway.required)
        self.shared = SqsShared(broker, gateway, limits, origins, clock or SystemClock())
        super().__init__(make_app(self.shared), limits, connections)

    async def drain(self) -> None:
        """Finish in-flight requests, then close every connection."""
        self.shared.draining = True
        self.shared.moves.cancel_all()
        await super().drain()
        await self.shared.moves.wait()
        self.shared.consumers.close()

    def abort(self) -> None:
        """Close every connection at once, and cancel its requests."""
        super().abort()
        self.shared.moves.cancel_all()
        self.shared.consumers.close()

    def end_waits(self) -> None:
        """Answer long polls at once."""
        self.shared.consumers.end_waits()

    hurry = end_waits  # For a server whose clock stands.
