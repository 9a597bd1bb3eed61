"""Authenticates connections and gives each the broker operations it is allowed to call.

    identity   = await gateway.login(credentials, address)   authenticate
    operations = gateway.operations(identity)                the broker's operations, with permission checks
    admitted   = gateway.enter(identity, end)                count it; ``end`` closes it on revocation
      ...
    admitted.leave()

Without authentication (the default) every connection has the identity ``NOBODY``
and gets the broker's operations unwrapped, at no cost.

All connections of an identity share one guard, and therefore one quota.  If its
key is revoked or its user is changed, the guard is dropped and the connections
are closed; a client that reconnects gets the permissions granted by then.
"""

import asyncio
from collections.abc import Callable

from penstock.api.aio import AsyncBroker
from penstock.api.work import Work
from penstock.broker.frontend import EmbeddedAsyncBroker
from penstock.clock import Clock, SystemClock
from penstock.config.broker import TopicOptions
from penstock.errors import PenstockError, QuotaExceeded, Unauthenticated
from penstock.frontends.security.guarded import BrokerOperations, GuardedOperations
from penstock.frontends.security.identity import NOBODY, Credentials, Identity
from penstock.frontends.security.logins import Logins, OnLogin
from penstock.frontends.security.scram import ScramLogin
from penstock.frontends.security.sessions import BrowserSessions
from penstock.model.info import PIPELINES_TOPIC, Overview, ScheduledMessage
from penstock.model.message import Receipt, StoredMessage
from penstock.model.owners import Owners

Ended = Callable[[BrokerOperations], None]

RETRY_S = 1  # A connection that is one too many may try again then.


class AuthenticatedConnection:
    """One connection of a logged-in identity."""

    def __init__(self, among: set["AuthenticatedConnection"], end: Callable[[PenstockError], None]) -> None:
        self.end = end  # Called at most once, if the identity is no longer what it was.
        self._among = among
        among.add(self)

    def leave(self) -> None:
        """The connection was closed; a second call does nothing."""
        self._among.discard(self)


class AuthGateway:
    """Logins, guards and connection counts of one server."""

    def __init__(
        self, broker: EmbeddedAsyncBroker, *, authentication: bool = False, clock: Clock | None = None
    ) -> None:
        self.required = authentication
        self._broker = broker
        self._clock = clock or SystemClock()
        self._guards: dict[tuple[str, str], GuardedOperations] = {}
        self._connections: dict[tuple[str, str], set[AuthenticatedConnection]] = {}
        self.sessions = BrowserSessions(self._clock)  # Of browsers.
        self.ended: list[Ended] = []  # Called with operations that must not be used any more.
        self._logins: Logins | None = None
        if authentication:
            self._logins = Logins(broker.operations.access, self._clock)
            broker.operations.access.changed = self._changed

    # Connections.

    def begin_login(self, credentials: Credentials, address: str, then: OnLogin) -> None:
        """Verify credentials; ``then(identity, error)`` is called once, perhaps before this returns."""
        if self._logins is None:
            then(NOBODY, None)
            return

        def known(identity: Identity | None, error: PenstockError | None) -> None:
            then(None if identity is None else self._current(identity), error)

        self._logins.begin(credentials, address, known)

    def start_login(self, credentials: Credentials, address: str) -> asyncio.Future[Identity]:
        """``begin_login`` as a future, which is done at once if nothing has to be waited for."""
        future: asyncio.Future[Identity] = asyncio.get_running_loop().create_future()

        def then(identity: Identity | None, error: PenstockError | None) -> None:
            if future.done():
                return  # Cancelled.
            if identity is not None:
                future.set_result(identity)
            else:
                future.set_exception(error or Unauthenticated(why="the login failed"))

        self.begin_login(credentials, address, then)
        return future

    async def login(self, credentials: Credentials, address: str) -> Identity:
        """The identity of credentials; raises ``Unauthenticated`` or ``QuotaExceeded``."""
        return await self.start_login(credentials, address)

    def scram(self, mechanism: str) -> ScramLogin:
        """Begin a login in which the password is not shown."""
        if self._logins is None:
            raise Unauthenticated(why="this server asks for no login")
        return self._logins.scram(mechanism)

    def scram_final(self, login: ScramLogin, proof: bytes, address: str) -> tuple[bytes, Identity]:
        """The answer to the proof, and who it is."""
        assert self._logins is not None
        answer, identity = self._logins.scram_final(login, proof, address)
        return answer, self._current(identity)

    def signing_secret(self, key_id: str) -> str | None:
        """The secret that a key signs requests with (AWS Signature Version 4); None if there is none."""
        return None if self._logins is None else self._logins.signing_secret(key_id)

    def signer(self, key_id: str) -> Identity:
        """The identity of a key by which a request was signed."""
        if self._logins is None:
            raise Unauthenticated(why="this server asks for no login")
        return self._current(self._logins.signer(key_id))

    # What they may do.

    def cluster_id(self) -> str:
        """The cluster id, stored with the data directory and sent to Kafka clients."""
        return self._broker.operations.cluster_id()

    @property
    def owners(self) -> Owners:
        """The owners of partitions, for protocols that tell their clients."""
        return self._broker.operations.owners

    def operations(self, identity: Identity) -> BrokerOperations:
        """The broker's operations that this identity may call."""
        if not self.required:
            return self._broker.operations
        return self._guard(identity)

    def broker(self, identity: Identity) -> AsyncBroker:
        """The same operations behind the facade that programs use."""
        return self._broker if not self.required else self._broker.through(self.operations(identity))

    def is_creatable(self, topic: str) -> bool:
        """Whether using this topic would create it; for protocols whose PUB does not create topics."""
        return self._broker.operations.is_creatable(topic)

    async def auto_create(self, identity: Identity, topic: str, options: TopicOptions) -> None:
        """Create a topic with options of its own before it is used, if using it would create it."""
        if self.is_creatable(topic):
            await self._broker.run(self.operations(identity).auto_create_topic(topic, options))

    # What the server itself watches, for every client.

    def overview(self) -> Work[Overview]:
        return self._broker.operations.overview()

    def pipeline_reports(self, offset: int, limit: int) -> Work[list[StoredMessage]]:
        """The reports of pipelines, from an offset on."""
        return self._broker.operations.read(PIPELINES_TOPIC, 0, offset, None, None, limit)

    def repeated(self, receipt: Receipt) -> Work[list[StoredMessage]]:
        """The original of a duplicate publish, for protocols that respond with its id."""
        return self._broker.operations.read(receipt.topic, receipt.partition, receipt.offset, None, None, 1)

    def scheduled(self, topic: str, limit: int) -> Work[list[ScheduledMessage]]:
        """The scheduled messages of a topic, to find an original that is not due yet."""
        return self._broker.operations.scheduled(topic, limit)

    # How long they stay.

    def enter(self, identity: Identity, end: Callable[[PenstockError], None]) -> AuthenticatedConnection:
        """Count a connection; ``QuotaExceeded`` beyond the limit of the identity."""
        if not self.required:
            return AuthenticatedConnection(set(), end)
        self._guard(identity)
        connections = self._connections.setdefault(identity.id, set())
        limit = identity.quota.connections
        if limit is not None and len(connections) >= limit:
            raise QuotaExceeded(who=str(identity), what="connections", limit=limit, retry_after=RETRY_S)
        return AuthenticatedConnection(connections, end)

    def close(self) -> None:
        """The server stops: no more logins."""
        if self._logins is not None:
            self._logins.close()

    def _guard(self, identity: Identity) -> GuardedOperations:
        guard = self._guards.get(identity.id)
        if guard is None or guard.identity is not identity:
            why = (
                "this server requires an API key"
                if identity is NOBODY
                else f"{identity} was changed meanwhile"
            )
            raise Unauthenticated(why=why)
        return guard

    def _current(self, identity: Identity) -> Identity:
        """The shared identity object for an identity that has just logged in."""
        guard = self._guards.get(identity.id)
        if guard is None:
            local = self._broker.operations
            guard = self._guards[identity.id] = GuardedOperations(identity, local, local.audit, self._clock)
        return guard.identity

    def _changed(self, kind: str, name: str) -> None:
        """A key was revoked, or a user changed or deleted: close connections with the old grants."""
        assert self._logins is not None
        self._logins.forget(kind, name)
        guard = self._guards.pop((kind, name), None)
        connections = self._connections.pop((kind, name), None)
        if guard is not None:
            # In a turn of its own, so that a client that revokes its own key is still answered.
            asyncio.get_running_loop().call_soon(self._end_all, guard, connections or set())

    def _end_all(self, guard: GuardedOperations, connections: set[AuthenticatedConnection]) -> None:
        why = Unauthenticated(why=f"{guard.identity} was revoked or changed")
        for admitted in list(connections):
            admitted.leave()
            admitted.end(why)
        for ended in self.ended:
            ended(guard)
