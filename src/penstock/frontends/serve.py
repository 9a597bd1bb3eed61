"""A broker and its listeners, as one process: start, serve, stop.

    bind every address        nothing is touched if one of them is taken, or the certificate cannot be used
    open the broker           takes the lock of the directory, recovers what is in it
    first key                 if keys are required and there is no admin: an admin key, shown once
    accept                    on all listeners at once
      ...                     until SIGTERM or SIGINT
    let others end            what was started beside the server, while there is a broker for it
    stop accepting            the ports are free for the next one
    drain the listeners       what was read is answered; consumers give back what they hold
    close the broker          what was accepted is written down, and the lock let go

Each step of the end has the rest of one deadline, ``server.stop_timeout``; what
has not finished by then is cut, and recovery makes up for it at the next start.
A second SIGINT does not wait for any of this.

Here is also what all listeners share: sockets and their options, the count of
connections, and the limit of open files.
"""

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib import import_module
from typing import Any, Final, Protocol, Self

import msgspec

from penstock.broker.frontend import EmbeddedAsyncBroker, open_growing
from penstock.config.broker import BrokerConfig
from penstock.config.server import (
    AUTO,
    LOCALHOST,
    MEMORY,
    ServerConfig,
    address,
    is_loopback,
    shown,
)
from penstock.errors import AddressUnusable, OutcomeUnknown
from penstock.frontends.listener import BindingListener, Connections, Listener
from penstock.frontends.security.accepting import TlsAcceptor
from penstock.frontends.security.gateway import AuthGateway
from penstock.frontends.security.tls import server_context
from penstock.frontends.watchdog import Watchdog
from penstock.log.open_files import open_files_max
from penstock.memory import keep_memory, pass_over
from penstock.model.access import Grant, NewKey

BACKLOG: Final = 1024  # Connections that may wait to be accepted; Linux caps it at somaxconn.
CONNECTIONS_MIN: Final = 16  # Less would not do, whatever the system allows.
FILES_SPARE: Final = 256  # Descriptors beside connections and logs: sockets, pipes, small files.
# A peer that vanished without a word is noticed after about two minutes.
KEEPALIVE: Final = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
FLUSH_SHARE: Final = 0.2  # Of the stop's time, what is left for the disk if clients do not let go.
STORAGE_CHECK_S: Final = 1.0  # How often to look whether the data directory is still there.
FIRST_KEY: Final = "first-admin"
FIRST_KEY_LOOKS: Final = 100  # Whether another node of the cluster has made it, ...
FIRST_KEY_LOOK_S: Final = 0.05  # ... and how far apart.
INTERRUPTED: Final = 128 + signal.SIGINT  # The exit code of a second SIGINT.

logger = logging.getLogger("penstock")

Addresses = Mapping[str, tuple[str, int]]  # By listener: host and port.


class ServerMembership(Protocol):
    """What makes a server a node of a cluster (``penstock.cluster``)."""

    on_end: Callable[[], None]  # Called when it is not a member any more: the server must stop.

    async def open(self, settings: BrokerConfig, addresses: Addresses) -> EmbeddedAsyncBroker:
        """Join the cluster, and return the broker."""

    async def leave(self) -> None:
        """Hand over the partitions that this node owns."""

    async def close(self) -> None:
        """Release everything else, after the broker is closed."""


class Server:
    """A broker that other processes reach; use it with ``async with``."""

    def __init__(
        self,
        config: ServerConfig,
        broker: EmbeddedAsyncBroker,
        sockets: dict[str, socket.socket],
        tls: ssl.SSLContext | None = None,
        membership: ServerMembership | None = None,
    ) -> None:
        self.membership = membership
        self.config = config
        self.broker = broker
        self.gateway = AuthGateway(broker, authentication=config.security.authentication)
        self.first_key: NewKey | None = None  # Made by this start.
        self._tls = tls
        files_max = open_files_max(config.broker.open_files_max)
        self.connections = Connections(connections_max(config.limits.connections_max, files_max))
        self.addresses: Addresses = {name: made.getsockname()[:2] for name, made in sockets.items()}
        self._sockets = sockets
        self._listeners = {name: self._listener(name) for name in sockets}
        self._accepting: list[asyncio.Server | TlsAcceptor] = []
        self._watching: asyncio.TimerHandle | None = None
        self._watchdog = Watchdog(broker.operations.lag, broker.on_work)
        broker.operations.server_counts.connections = lambda: self.connections.count
        broker.operations.server_counts.tasks = lambda: len(asyncio.all_tasks())

    @classmethod
    async def open(
        cls, config: ServerConfig, *, own_process: bool = False, membership: ServerMembership | None = None
    ) -> Self:
        """Bind, open the broker, accept; if one of these fails, nothing is left behind.

        ``own_process``: nothing else runs in it, so the garbage collector is the server's to control.
        """
        raise_file_limit(config.limits.connections_max + config.broker.open_files_max + FILES_SPARE)
        tls = server_context(config.tls)
        with ExitStack() as undo:
            sockets = {}
            for name in config.listen.__struct_fields__:
                endpoint = address(name, getattr(config.listen, name))
                if endpoint is not None:
                    sockets[name] = undo.enter_context(bound(name, *endpoint))
            data = None if config.server.data == MEMORY else config.server.data
            lake = "" if config.lake.path == AUTO else config.lake.path
            settings = msgspec.structs.replace(
                config.broker,
                lake=lake,
                consumers_elsewhere=True,
                topic=config.topic.settings,
                group=config.group,
                auto_create_topics=config.topic.auto_create,
            )
            if membership is not None:
                addresses = {name: made.getsockname()[:2] for name, made in sockets.items()}
                broker = await membership.open(settings, addresses)
            else:
                broker = await open_broker(data, settings, own_process=own_process)
            server = cls(config, broker, sockets, tls, membership)
            try:
                await server._make_first_key()
                await server._accept()
                server._watch_storage()
                server._watchdog.start()
            except BaseException:
                await server.stop()
                raise
            undo.pop_all()
        if tls is None and not all(is_loopback(host) for host, _ in server.addresses.values()):
            logger.warning(
                "connections of other machines, with their keys, are not encrypted; see tls.certificate"
            )
        return server

    def _listener(self, name: str) -> Listener | BindingListener:
        """A protocol's modules are imported where it is on: docs/benchmarks/memory.md has what each costs."""
        shared = (self.broker, self.config.limits, self.connections, self.gateway)
        made: Listener | BindingListener
        match name:
            case "native":
                from penstock.frontends.kqueue.server import KQueueProtocol
                from penstock.frontends.native.server import NativeListener

                made = NativeListener(*shared, KQueueProtocol(self.broker, self.gateway))
            case "text":
                from penstock.frontends.text.server import TextListener

                made = TextListener(*shared)
            case "status":
                from penstock.frontends.status.server import StatusListener

                made = StatusListener(*shared, self.config.http, listening(self.config, "status"))
            case "http":
                from penstock.frontends.http.server import HttpListener

                made = HttpListener(*shared, self.config.http, listening(self.config, "http"))
            case "sqs":
                from penstock.frontends.sqs.server import SqsListener

                made = SqsListener(*shared, self.config.http, listening(self.config, "sqs"))
            case "grpc":
                from penstock.frontends.grpc.server import GrpcListener

                made = GrpcListener(*shared, self.config.grpc)
            case _:
                from penstock.frontends.kafka.server import KafkaListener

                made = KafkaListener(*shared, self.config.kafka, defaults=self.config.topic)
        return made

    async def _make_first_key(self) -> None:
        """Create the first admin key, without which no key could be created.

        Another node may create it at the same moment.
        """
        access = self.broker.operations.access
        if not self.gateway.required or access.has_admin:
            return
        try:
            self.first_key = await self.broker.create_key(FIRST_KEY, [Grant(role="admin")])
        except OutcomeUnknown:
            for _ in range(FIRST_KEY_LOOKS):
                if access.has_admin:
                    return
                await asyncio.sleep(FIRST_KEY_LOOK_S)
            raise

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        for name, made in self._sockets.items():
            listener = self._listeners[name]
            try:
                if isinstance(listener, BindingListener):
                    await listener.listen(made, self.config.tls)
                elif self._tls is not None:
                    made.listen(BACKLOG)
                    self._accepting.append(TlsAcceptor(made, listener.connect, self._tls))
                else:
                    self._accepting.append(
                        await loop.create_server(listener.connect, sock=made, backlog=BACKLOG)
                    )
            except OSError as error:  # Two servers may bind at the same moment; only one may listen.
                raise unusable(name, self.addresses[name], error) from None

    def _watch_storage(self) -> None:
        """Notice a removed data directory, and a disk that has space again, even without writes."""
        self.broker.check_storage()
        self._watching = asyncio.get_running_loop().call_later(STORAGE_CHECK_S, self._watch_storage)

    async def stop(self) -> None:
        """Stop in order: accept no connections, finish in-flight requests, release leases, flush."""
        if self._watching is not None:
            self._watching.cancel()
        loop = asyncio.get_running_loop()
        limit_s = self.config.server.stop_timeout_ms / 1000
        deadline = loop.time() + limit_s
        for accepting in self._accepting:
            accepting.close()
        await self._drain(deadline - limit_s * FLUSH_SHARE)
        self._watchdog.stop()
        self.gateway.close()
        if self.membership is not None:
            await self.membership.leave()
        await self.broker.close_within(max(round(1000 * (deadline - loop.time())), 0))
        if self.membership is not None:
            await self.membership.close()

    async def _drain(self, deadline: float) -> None:
        """Every listener answers what it has read, and closes; the deadline aborts what is left."""
        drains = [listener.drain() for listener in self._listeners.values()]
        try:
            async with asyncio.timeout_at(deadline):
                for fault in await asyncio.gather(*drains, return_exceptions=True):
                    if fault is not None:
                        logger.error("a listener failed while it was closed", exc_info=fault)
        except TimeoutError:
            logger.warning("cutting %d connections that did not end in time", self.connections.count)
        for listener in self._listeners.values():
            listener.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def run(
    config: ServerConfig,
    ready: Callable[[Addresses, str | None], None],
    stopping: Callable[[], None] = lambda: None,
    membership: Callable[[], ServerMembership] | None = None,
) -> None:
    """Serve until a signal, or until this node is no longer a member of its cluster.

    ``ready`` is called with the addresses, and the first key if this start has made one, as soon as
    connections are accepted; ``stopping`` in a thread when the end has come, and the broker serves until it
    returns.
    """
    keep_memory()
    pass_over_modules(config)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        loop = runner.get_loop()
        received: list[int] = []  # The signals that were heard.
        stop = asyncio.Event()

        def heard(number: int, _: object) -> None:
            if received and number == signal.SIGINT:
                os._exit(INTERRUPTED)  # At once, as by a kill: the next start recovers.
            if not received:
                loop.call_soon_threadsafe(stop.set)
            received.append(number)

        # Not the loop's handlers: these are heard also while a large directory is being recovered.
        before = {number: signal.signal(number, heard) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            runner.run(_serve(config, ready, stopping, stop, membership))
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


async def _serve(
    config: ServerConfig,
    ready: Callable[[Addresses, str | None], None],
    stopping: Callable[[], None],
    stop: asyncio.Event,
    membership: Callable[[], ServerMembership] | None,
) -> None:
    member = None if membership is None else membership()
    if member is not None:
        member.on_end = stop.set
    async with await Server.open(config, own_process=True, membership=member) as server:
        first_key, server.first_key = server.first_key, None
        ready(server.addresses, None if first_key is None else first_key.key)
        await stop.wait()
        logger.info("stopping: in-flight requests finish; press Ctrl-C (or send SIGINT) again to stop now")
        await asyncio.to_thread(stopping)
    logger.info("stopped")


def pass_over_modules(config: ServerConfig) -> None:
    """Import the protocols that are on, and have the garbage collector leave out what stays until the end."""
    for name in config.listen.__struct_fields__:
        if address(name, getattr(config.listen, name)) is not None:
            import_module(f"penstock.frontends.{name}.server")
    pass_over()


async def open_broker(data: str | None, settings: BrokerConfig, *, own_process: bool) -> EmbeddedAsyncBroker:
    """The broker; in a process of its own, what it begins with is nothing for the garbage collector."""
    if not own_process:
        return await EmbeddedAsyncBroker.open(data, config=settings)
    gc.disable()  # It would look through all partitions again and again while they are opened.
    try:
        broker = await open_growing(data, settings, pass_over)
    finally:
        gc.enable()
    pass_over()
    return broker


def listening(config: ServerConfig, name: str) -> str:
    """The configured host of a listener."""
    host, _ = address(name, getattr(config.listen, name)) or (LOCALHOST, 0)
    return host


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The loop of uvloop if it is installed; None: asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def bound(name: str, host: str, port: int) -> socket.socket:
    """A socket that has its address and does not listen yet."""
    try:
        family, kind, protocol, _, endpoint = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind, protocol)
    except OSError as error:
        raise unusable(name, (host, port), error) from None
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # On Linux the connections that are accepted inherit these.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEPALIVE:
            if hasattr(socket, option):
                made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        made.bind(endpoint)
    except OSError as error:
        made.close()
        raise unusable(name, (host, port), error) from None
    return made


def unusable(name: str, endpoint: tuple[Any, ...], error: OSError) -> AddressUnusable:
    """The error of a listener that cannot listen, with the setting to change."""
    return AddressUnusable(
        listener=name, address=shown(endpoint[0], endpoint[1]), why=(error.strerror or str(error)).lower()
    )


def connections_max(wanted: int, files_max: int) -> int:
    """The configured limit, or as many as descriptors are left beside the files of logs."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    left = max(soft - files_max - FILES_SPARE, CONNECTIONS_MIN)
    if soft == resource.RLIM_INFINITY or wanted <= left:
        return wanted
    logger.warning(
        "the system allows %d open files (ulimit -n): %d connections instead of %d, and %d files of logs",
        soft,
        left,
        wanted,
        files_max,
    )
    return left


def raise_file_limit(wanted: int) -> None:
    """Raise the limit of open files, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted and soft != resource.RLIM_INFINITY:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if allowed > soft:
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
