"""The identity of a connection, and what all connections of a listener share."""

from collections.abc import Awaitable, Callable, Mapping

from penstock.broker.frontend import EmbeddedAsyncBroker
from penstock.clock import Clock
from penstock.config.server import AUTO, KafkaSettings, LimitSettings, TopicDefaults, address
from penstock.errors import Unauthenticated
from penstock.frontends.kafka.shares import Shares
from penstock.frontends.security.gateway import AuthenticatedConnection, AuthGateway
from penstock.frontends.security.guarded import BrokerOperations
from penstock.frontends.security.identity import NOBODY, Identity
from penstock.frontends.security.scram import ScramLogin


class KafkaShared:
    """What all connections of one listener share."""

    def __init__(
        self,
        broker: EmbeddedAsyncBroker,
        gateway: AuthGateway,
        limits: LimitSettings,
        settings: KafkaSettings,
        clock: Clock,
        defaults: TopicDefaults,
    ) -> None:
        self.broker = broker
        self.gateway = gateway
        self.limits = limits
        self.settings = settings
        self.clock = clock
        self.defaults = defaults  # What a new topic is like.
        self.cluster_id = gateway.cluster_id()
        self.shares = Shares(broker, clock, gateway)
        self.publish_bytes = 0  # Of produce requests that were not answered yet.
        # The advertised address; None: the one that each client has connected to.
        self.advertised = None if settings.advertised == AUTO else address("advertised", settings.advertised)


class KafkaSession:
    """One client, from the first byte to the last."""

    def __init__(self, shared: KafkaShared) -> None:
        self.shared = shared
        self.identity: Identity = NOBODY
        self.known = False  # Who it is, as far as that is asked for.
        self.mechanism = ""  # How it logs in, once that is agreed on.
        self.scram: ScramLogin | None = None  # A login under way.
        # What answers the next frame of a login that is not in Kafka's messages; None: there is none.
        self.bare: Callable[[bytes], Awaitable[bytes]] | None = None
        self.address = ""  # The peer's, without the port.
        self.reached = ("", 0)  # The address at which the client has reached us.
        self.end: Callable[[], None] = _nothing  # Ends the connection.
        self.trust: Callable[[], None] = _nothing  # Lets it send large frames.
        self._operations: BrokerOperations | None = None
        self._names: Mapping[bytes, str] | None = None
        self._admitted: AuthenticatedConnection | None = None
        if not shared.gateway.required:
            self.admit(NOBODY)

    def admit(self, identity: Identity) -> None:
        """The client has logged in: use its operations from now on."""
        self._operations = self.shared.gateway.operations(identity)
        self.leave()
        self._admitted = self.shared.gateway.enter(identity, lambda _: self.end())
        self.identity = identity
        self.known = True
        self.trust()

    def leave(self) -> None:
        if self._admitted is not None:
            self._admitted.leave()

    @property
    def operations(self) -> BrokerOperations:
        """The broker's operations, as far as this client may call them."""
        if self._operations is None:
            raise Unauthenticated(why="this server requires a login by SASL")
        return self._operations

    @property
    def names(self) -> Mapping[bytes, str]:
        """The current names of topics by their ids."""
        if self._names is None:
            self._names = self.operations.topic_names()
        return self._names

    @property
    def brokers(self) -> dict[int, tuple[str, int]]:
        """The address of each node: advertised in a cluster, otherwise the one that this client uses."""
        owners = self.shared.gateway.owners
        nodes = {node: (each.host, each.kafka) for node, each in owners.nodes().items() if each.kafka}
        return {owners.node: self.shared.advertised or self.reached} | nodes


def _nothing() -> None:
    """Before there is a connection."""
