"""Connections between the nodes of a cluster.

    ask(peer, encode) ──> PeerConnection, the native protocol's frames ──> PeerListener of the other node
          │ waits in the broker's steps                                        └── its own operations
          └── Arrival at the Answer, which the response wakes

Nodes prove to each other that they know the cluster's secret; it is never sent:

    -> HELLO  nonce                                       32 random bytes of the caller
    <- OK     nonce', HMAC(secret, "server" nonce nonce')
    -> HELLO  HMAC(secret, "client" nonce' nonce)
    <- OK

Anyone who can read the cluster's store can read the secret, and so can read and write everything.  The node
that a client is connected to checks permissions and quotas and writes the audit log, so the identity of the
caller is not sent.
"""

import asyncio
import hmac
import secrets
import ssl
from collections import Counter
from typing import Final

import msgspec

from penstock.cluster.routing.connection import Answer, Encode, OnAnswer, PeerConnection
from penstock.errors import OutcomeUnknown, PenstockError, ServerUnreachable, Unauthenticated
from penstock.model.owners import NodeAddress
from penstock.wire.native import HELLO
from penstock.wire.native_bodies import decode_body, encode_body

HEARTBEAT: Final = 0x3D
NONCE_BYTES: Final = 32
CONNECT_S: Final = 2.0  # For a connection and the proofs.
RETRY_S: Final = 0.2  # After a failed connection, requests fail at once for this long.
ALIVE_S: Final = 1.0  # For the answer of a process that may be running.


class PeerHello(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    nonce: bytes = b""
    proof: bytes = b""


class Presence(msgspec.Struct, frozen=True):
    """The answer to a heartbeat."""

    incarnation: str
    wall_ms: int


def proof(secret: bytes, side: str, *nonces: bytes) -> bytes:
    """The proof that this side knows the secret."""
    return hmac.digest(secret, b"".join((side.encode(), *nonces)), "sha256")


class Peer:
    """Another node.  The first request opens a connection, and so does the next one after it was lost."""

    def __init__(
        self,
        number: int,
        address: NodeAddress,
        secret: bytes,
        tls: ssl.SSLContext | None,
        requests: Counter[str],
    ) -> None:
        self.number = number
        self.address = address
        self.connection: PeerConnection | None = None
        self._secret = secret
        self._tls = tls
        self._requests = requests
        self._queued: list[tuple[str, Encode, OnAnswer]] = []  # Until there is a connection.
        self._loop = asyncio.get_running_loop()
        self._connecting: asyncio.Task[None] | None = None  # Awaited by close.
        self.refused = False  # Its machine answers, but refuses the connection.
        self._failed: ServerUnreachable | None = None
        self._quiet_until = 0.0

    @property
    def server(self) -> str:
        return f"node {self.number} ({self.address.host}:{self.address.peer})"

    def ask(self, operation: str, encode: Encode) -> Answer:
        """Send a request now, or as soon as there is a connection."""
        answer = Answer(OutcomeUnknown(operation=operation, server=self.server))
        self.request(operation, encode, answer)
        return answer

    def request(self, operation: str, encode: Encode, then: OnAnswer) -> None:
        if self.connection is not None and not self.connection.lost:
            self.connection.request(operation, encode, then)
            return
        if self._failed is not None and self._loop.time() < self._quiet_until:
            then(b"", self._failed)
            return
        self._queued.append((operation, encode, then))
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_S):
                _, made = await self._loop.create_connection(
                    lambda: PeerConnection(self.server, self._requests),
                    self.address.host,
                    self.address.peer,
                    ssl=self._tls,
                )
                try:
                    await self._greet(made)
                except BaseException:
                    made.abort()
                    raise
        except (OSError, TimeoutError, PenstockError) as error:
            self.refused = isinstance(error, ConnectionRefusedError)
            why = str(error) or f"no answer within {CONNECT_S:g} seconds"
            self._failed = ServerUnreachable(server=self.server, why=why)
            self._quiet_until = self._loop.time() + RETRY_S
        else:
            self.connection, self._failed = made, None
        self._connecting = None
        queued, self._queued = self._queued, []
        for operation, encode, then in queued:
            if self._failed is None:
                made.request(operation, encode, then)
            else:
                then(b"", self._failed)

    async def _greet(self, connection: PeerConnection) -> None:
        nonce = secrets.token_bytes(NONCE_BYTES)
        theirs = decode_body(await _said(connection, PeerHello(nonce=nonce)), PeerHello)
        if not hmac.compare_digest(theirs.proof, proof(self._secret, "server", nonce, theirs.nonce)):
            raise Unauthenticated(why="the node does not know the cluster's secret")
        await _said(connection, PeerHello(proof=proof(self._secret, "client", theirs.nonce, nonce)))

    async def close(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        if self.connection is not None:
            self.connection.abort()


async def _said(connection: PeerConnection, hello: PeerHello) -> bytes:
    future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def then(body: bytes, error: PenstockError | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(body)
        else:
            future.set_exception(error)

    connection.request("hello", lambda correlation: encode_body(HELLO, correlation, hello), then)
    return await future


class Peers:
    """The other nodes, by number; a node that restarts at another address is another ``Peer``."""

    def __init__(self, secret: bytes, tls: ssl.SSLContext | None = None) -> None:
        self._secret = secret
        self._tls = tls
        self._peers: dict[tuple[int, NodeAddress], Peer] = {}
        self.requests: Counter[str] = Counter()  # Requests sent to other nodes, by operation.

    def peer(self, number: int, address: NodeAddress) -> Peer:
        found = self._peers.get((number, address))
        if found is None:
            found = self._peers[number, address] = Peer(
                number, address, self._secret, self._tls, self.requests
            )
        return found

    def forget(self, number: int, address: NodeAddress) -> None:
        """Drop a sealed node: requests in flight to it end with an error."""
        peer = self._peers.pop((number, address), None)
        if peer is not None and peer.connection is not None:
            peer.connection.abort()

    async def close(self) -> None:
        for peer in self._peers.values():
            await peer.close()


async def presence(peers: Peers, node: int, where: NodeAddress) -> Presence | None:
    """The node at an address; None if it does not know the cluster's secret."""
    answered: asyncio.Future[Presence | None] = asyncio.get_running_loop().create_future()

    def then(body: bytes, error: PenstockError | None) -> None:
        if not answered.done():
            answered.set_result(None if error is not None else decode_body(body, Presence))

    peers.peer(node, where).request("heartbeat", lambda each: encode_body(HEARTBEAT, each, None), then)
    try:
        return await asyncio.wait_for(answered, ALIVE_S)
    except TimeoutError:
        return None
