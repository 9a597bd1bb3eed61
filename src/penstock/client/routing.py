"""Which node of a cluster a request goes to: the owner of its partition, or any node, which forwards it.

    target(topic, partition) ──┬── the owner's session, if it is connected
                               └── None: the home session, whose node forwards
    home     the session that the program has opened; it always exists, and may be connected to any node
    others   one session per owner: opened in the background, closed after ``IDLE_S`` without use

Every node forwards what it does not own, so a route is never needed for a correct result: it saves a
hop.  Nothing waits for a route.  A request that an owner does not answer, or refuses because it is not the
owner, is sent again through home, with the same bytes: publishes carry numbers, by which a repeat is
recognised.  So fail-overs and moves are handled by the nodes, and the client follows when it has learned the
new owners.

Owners are asked for when a topic is used, again after ``AGE_S``, and soon after a request to an owner has
failed.  Without a cluster (``home.node`` is 0) there are no routes.

A node counts the versions of a topic's settings itself, so a publish to an owner has the version that this
owner has named, and only while its settings are those that the client has encoded the messages for.
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
AGE_S = 5.0  # Owners that were asked for so long ago are asked for again when they are needed.
RETRY_S: Final = 0.25  # After a failure, at most so often.
ANSWER_S = 3.0  # For an owner; then the request goes through another node.
UNREACHABLE_S: Final = 10.0  # A node that could not be connected to is left alone for so long.
IDLE_S = 60.0  # Routes and sessions that nobody has used for so long are given up.
SESSIONS_MAX: Final = 32  # Beside home; partitions of more nodes are reached through home.


class Target(NamedTuple):
    """Where a publish goes."""

    session: ClientSession
    version: int  # Of the topic's settings, as that node counts.


class TopicRoute:
    """The owners of one topic, as they were last heard."""

    __slots__ = ("asked_at", "owners", "refresh_at", "used_at", "version", "versions")

    def __init__(self, owners: list[int], version: int, now: float) -> None:
        self.owners = owners  # By partition: the number of a node, or -1.
        self.version = version  # Of the settings, as home counts; -1: nothing is published to the topic.
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
        self._unreachable: dict[ServerAddress, float] = {}  # And until when it is left alone.
        self._asking: set[str] = set()
        self._sweeping = False

    # Lookups: they never wait.

    def session(self, topic: str, partition: int) -> ClientSession | None:
        """The owner's session; None: the owner is home, or must be reached through it."""
        if not self.home.node:
            return None
        self.follow(topic, publishes=False)
        return self._session(self._routes.get(topic), partition)

    def target(self, topic: str, partition: int, version: int) -> Target | None:
        """The same for a publish that was encoded for this version of home's."""
        if not self.home.node:
            return None
        self.follow(topic, publishes=True)
        return self.known_target(topic, partition, version)

    def known_target(self, topic: str, partition: int, version: int) -> Target | None:
        """The same in any thread, as far as it is known; ``follow`` is for the event loop's thread."""
        route = self._routes.get(topic)
        session = self._session(route, partition)
        if session is None or route is None or route.version != version:
            return None
        there = route.versions.get(route.owners[partition])
        return None if there is None else Target(session, there)

    def is_stale(self, topic: str, *, publishes: bool) -> bool:
        """In any thread: whether the owners should be asked for again."""
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
        """The owner's answer; or why the request goes through home next, None if nothing was done."""
        until = min(deadline, self.home.after(ANSWER_S)) + wait_ms / 1000
        try:
            return await session.ask_once(encode, until)
        except (*REPEATED, *ELSEWHERE) as error:
            return self.failed(topic, error)

    def failed(self, topic: str, error: Exception) -> Exception | None:
        """An owner has not done it: what the next try must know of that."""
        self.doubt(topic)
        if isinstance(error, TimeoutError):
            return ConnectionLost("the owner does not answer")
        return None if isinstance(error, ELSEWHERE) else error

    async def read(self, topic: str, partition: int, operation: str, encode: Encode) -> bytes:
        """The answer to a request that changes nothing."""
        session = self.session(topic, partition)
        if session is not None:
            answer = await self.attempt(session, topic, encode, self.home.deadline())
            if isinstance(answer, bytes):
                return answer
        return await self.home.call(operation, encode, changes=False)

    # Owners.

    def doubt(self, topic: str) -> None:
        """Something was wrong with the topic's owners: ask for them soon."""
        route = self._routes.get(topic)
        if route is not None:
            route.refresh_at = min(route.refresh_at, route.asked_at + RETRY_S)

    def follow(self, topic: str, *, publishes: bool) -> None:
        """Ask for the owners, unless they are known."""
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
        """Ask for the owners now, and connect to them; returns the node of each partition.

        For who publishes, METADATA has the versions, too; it creates a missing topic, as a publish does.
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
        except PenstockError:  # The topic is gone, or forbidden: the next request gets that error from home.
            self._routes[topic] = route
            return []
        route.owners = [node for node, _ in owners.owners]
        before = self._routes.get(topic)
        if before is not None:
            route.used_at = before.used_at
            if not publishes:
                route.version = before.version
            if before.version == route.version:
                route.versions = before.versions  # In use while they are asked for again.
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
        """Connect to an owner, and ask what it calls the settings that are used here."""
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
        """A connected session to a node that was heard of; None if there cannot be one now."""
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
        """Close what is not used any more."""
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
        """All of them, home first."""
        return [self.home, *self._sessions.values()]

    async def close(self) -> None:
        opening = list(self._opening.values())
        for each in opening:
            each.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        for session in list(self._sessions.values()):
            await session.close()
