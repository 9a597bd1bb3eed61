"""Chooses the node of a cluster for a request: the owner of its partition, or any node, which forwards it.

    target(topic, partition) ──┬── the owner's session, if it is connected
                               └── None: the home session, whose node forwards
    home     the session that the program has opened; it always exists, and may be connected to any node
    others   one session per owner: opened in the background, closed after ``IDLE_S`` without use

Every node forwards what it does not own, so a route is never needed for a correct result: it saves a hop.
Nothing waits for a route.  A request that an owner does not answer, or refuses because it is not the owner,
is sent again through home, with the same bytes: publishes carry sequence numbers, by which a retry is
recognised.  So the nodes handle fail-overs and moves, and the client follows when it knows the new owners.

Owners are requested when a topic is used, again after ``AGE_S``, and soon after a request to an owner has
failed.  Without a cluster (``home.node`` is 0) there are no routes.

Each node numbers the versions of a topic's settings itself.  So a publish to an owner carries the version
number of that owner, and goes there only while its settings are those for which the messages were encoded.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from penstock.client.connections.exchange import ConnectionLost, Encode
from penstock.client.connections.url import ServerAddress
from penstock.client.retrying import ELSEWHERE, REPEATED
from penstock.client.session import ClientSession
from penstock.errors import PenstockError
from penstock.model.cluster import TopicOwners
from penstock.operations.codec import decode_answer
from penstock.wire.native import METADATA
from penstock.wire.native_bodies import Metadata, decode_body, encode_body, encode_call

# Tests set some of these.
AGE_S = 5.0  # Owners that are older are requested again when they are needed.
RETRY_S: Final = 0.25  # Minimum time between requests after a failure.
ANSWER_S = 3.0  # Timeout of an owner; then the request goes through another node.
UNREACHABLE_S: Final = 10.0  # Time without attempts to connect to a node that could not be reached.
IDLE_S = 60.0  # Routes and sessions that are unused for this long are closed.
SESSIONS_MAX: Final = 32  # Besides home; partitions of more nodes are reached through home.


class Target(NamedTuple):
    """Where a publish goes."""

    session: ClientSession
    version: int  # Of the topic's settings, as numbered by that node.


class TopicRoute:
    """The last known owners of one topic."""

    __slots__ = ("asked_at", "owners", "refresh_at", "used_at", "version", "versions")

    def __init__(self, owners: list[int], version: int, now: float) -> None:
        self.owners = owners  # By partition: the number of a node, or -1.
        self.version = version  # Of the settings, as numbered by home; -1: nothing is published to the topic.
        self.versions: dict[int, int] = {}  # The same by owner.
        self.asked_at = self.used_at = now
        self.refresh_at = now + AGE_S


class OwnerRouting:
    """The sessions of one client, and its routes by topic."""

    def __init__(self, home: ClientSession, connect: Callable[[ServerAddress], ClientSession]) -> None:
        self.home = home
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._routes: dict[str, TopicRoute] = {}
        self._nodes: dict[int, ServerAddress] = {}
        self._sessions: dict[ServerAddress, ClientSession] = {}
        self._opening: dict[ServerAddress, asyncio.Future[ClientSession | None]] = {}
        self._unreachable: dict[ServerAddress, float] = {}  # No attempt to connect before this time.
        self._asking: set[str] = set()
        self._sweeping = False

    # Look-ups, which never wait.

    def session(self, topic: str, partition: int) -> ClientSession | None:
        """The owner's session; None: the owner is home, or must be reached through it."""
        if not self.home.node:
            return None
        self.follow(topic, publishes=False)
        return self._session(self._routes.get(topic), partition)

    def target(self, topic: str, partition: int, version: int) -> Target | None:
        """The target of a publish that was encoded for this version of the home session's settings."""
        if not self.home.node:
            return None
        self.follow(topic, publishes=True)
        return self.known_target(topic, partition, version)

    def known_target(self, topic: str, partition: int, version: int) -> Target | None:
        """The last known target, in any thread; ``follow`` is for the event loop's thread."""
        route = self._routes.get(topic)
        session = self._session(route, partition)
        if session is None or route is None or route.version != version:
            return None
        there = route.versions.get(route.owners[partition])
        return None if there is None else Target(session, there)

    def is_stale(self, topic: str, *, publishes: bool) -> bool:
        """In any thread: whether the owners should be refreshed."""
        route = self._routes.get(topic)
        if route is None:
            return self.home.node != 0
        now = route.used_at = self._loop.time()
        unversioned = publishes and route.version < 0 and now >= route.asked_at + RETRY_S
        return now >= route.refresh_at or unversioned

    def _session(self, route: TopicRoute | None, partition: int) -> ClientSession | None:
        if route is None or not 0 <= partition < len(route.owners):
            return None
        address = self._nodes.get(route.owners[partition])
        session = None if address is None else self._sessions.get(address)
        return session if session is not None and session.connected else None

    # Asking an owner.

    async def attempt(
        self, session: ClientSession, topic: str, encode: Encode, deadline: float, wait_ms: int = 0
    ) -> bytes | Exception | None:
        """The owner's response; or the reason to go through home next, None if nothing was done."""
        until = min(deadline, self.home.after(ANSWER_S)) + wait_ms / 1000
        try:
            return await session.ask_once(encode, until)
        except (*REPEATED, *ELSEWHERE) as error:
            return self.failed(topic, error)

    def failed(self, topic: str, error: Exception) -> Exception | None:
        """A request to an owner has failed: what the next attempt must know about that."""
        self.doubt(topic)
        if isinstance(error, TimeoutError):
            return ConnectionLost("the owner does not answer")
        return None if isinstance(error, ELSEWHERE) else error

    async def read(self, topic: str, partition: int, operation: str, encode: Encode) -> bytes:
        """The response to a read-only request."""
        session = self.session(topic, partition)
        if session is not None:
            answer = await self.attempt(session, topic, encode, self.home.deadline())
            if isinstance(answer, bytes):
                return answer
        return await self.home.call(operation, encode, changes=False)

    # Owners.

    def doubt(self, topic: str) -> None:
        """Refresh the topic's owners soon, because they may be wrong."""
        route = self._routes.get(topic)
        if route is not None:
            route.refresh_at = min(route.refresh_at, route.asked_at + RETRY_S)

    def follow(self, topic: str, *, publishes: bool) -> None:
        """Request the owners, unless they are known."""
        stale = self.is_stale(topic, publishes=publishes)
        if stale and topic not in self._asking and not self.home.closing:
            self._asking.add(topic)
            self.home.own(self._ask(topic, publishes))

    async def _ask(self, topic: str, publishes: bool) -> None:
        try:
            await self.refresh(topic, publishes=publishes)
        finally:
            self._asking.discard(topic)

    async def refresh(self, topic: str, *, publishes: bool = False) -> list[int]:
        """Request the owners now, and connect to them; returns the node of each partition.

        For publishers METADATA also returns the versions of settings; it creates a missing topic, as a
        publish does.
        """
        metadata: Metadata | None = None
        route = TopicRoute([], -1, self._loop.time())
        try:
            if publishes:
                metadata = await self._metadata(self.home, topic)
                owners = TopicOwners(owners=metadata.owners, nodes=metadata.nodes)
                route.version = metadata.version
            else:
                owners = await self._topic_owners(topic)
        except PenstockError:  # Deleted, or forbidden: the next request gets that error from home.
            self._routes[topic] = route
            return []
        route.owners = [node for node, _ in owners.owners]
        before = self._routes.get(topic)
        if before is not None:
            route.used_at = before.used_at
            if not publishes:
                route.version = before.version
            if before.version == route.version:
                route.versions = before.versions  # Still used while they are requested again.
        self._routes[topic] = route
        self._learn(owners.nodes)
        others = sorted(set(route.owners) & owners.nodes.keys() - {self.home.node})
        await asyncio.gather(*(self._prepare(topic, route, node, metadata) for node in others))
        return route.owners

    async def _topic_owners(self, topic: str) -> TopicOwners:
        body = await self.home.call(
            "topic_owners",
            lambda number: encode_call(number, "topic_owners", {"topic": topic}),
            changes=False,
        )
        found: TopicOwners = decode_answer("topic_owners", memoryview(body)[4:])
        return found

    async def _metadata(self, session: ClientSession, topic: str) -> Metadata:
        def encode(number: int) -> bytes:
            return encode_body(METADATA, number, topic)

        if session is self.home:
            return decode_body(await session.call("publish", encode, changes=False), Metadata)
        return decode_body(await session.ask_once(encode, session.after(ANSWER_S)), Metadata)

    def _learn(self, nodes: Mapping[int, tuple[str, int]]) -> None:
        tls = self.home.address.tls
        self._nodes = {node: ServerAddress(host, port, tls) for node, (host, port) in nodes.items()}
        self.home.servers.learn(self._nodes.values())

    async def _prepare(self, topic: str, route: TopicRoute, node: int, here: Metadata | None) -> None:
        """Connect to an owner, and get its version number of the settings in use."""
        session = await self.open(node)
        version = None
        if session is not None and here is not None:
            try:
                there = await self._metadata(session, topic)
            except (ConnectionLost, PenstockError):
                pass
            else:
                version = there.version if there.settings == here.settings else None
        if version is not None:
            route.versions[node] = version
        elif here is not None:
            route.versions.pop(node, None)

    # Sessions.

    async def open(self, node: int) -> ClientSession | None:
        """A connected session to a known node; None if that is not possible now."""
        address = self._nodes.get(node)
        if address is None or self.home.closing:
            return None
        session = self._sessions.get(address)
        if session is not None:
            return session if session.connected else None
        opening = self._opening.get(address)
        if opening is None:
            if self._loop.time() < self._unreachable.get(address, 0.0):
                return None
            if len(self._sessions) + len(self._opening) >= SESSIONS_MAX:
                return None
            opening = self._opening[address] = self._loop.create_task(self._open(address))
        return await asyncio.shield(opening)

    async def _open(self, address: ServerAddress) -> ClientSession | None:
        session = self._connect(address)
        try:
            await session.open()
        except PenstockError:
            self._unreachable[address] = self._loop.time() + UNREACHABLE_S
            await session.close()
            return None
        except BaseException:  # Cancelled.
            await session.close()
            raise
        finally:
            del self._opening[address]
        self._unreachable.pop(address, None)
        self._sessions[address] = session
        if not self._sweeping:
            self._sweeping = True
            self.home.own(self._sweep())
        return session

    async def _sweep(self) -> None:
        """Close routes and sessions that are no longer used."""
        while self._sessions:
            await asyncio.sleep(IDLE_S / 2)
            oldest = self._loop.time() - IDLE_S
            for topic in [topic for topic, route in self._routes.items() if route.used_at < oldest]:
                del self._routes[topic]
            used = {self._nodes.get(node) for route in self._routes.values() for node in route.owners}
            for address, session in list(self._sessions.items()):
                if address not in used and not session.consumers:
                    del self._sessions[address]
                    await session.close()
        self._sweeping = False

    def sessions(self) -> list[ClientSession]:
        """All sessions, home first."""
        return [self.home, *self._sessions.values()]

    async def close(self) -> None:
        opening = list(self._opening.values())
        for each in opening:
            each.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        for session in list(self._sessions.values()):
            await session.close()
