"""The gRPC listener: grpc.aio on the broker's own loop.

    gRPC's threads: sockets, HTTP/2, TLS ──> grpc.aio ──> a task for each call, on the broker's loop (call.py)

gRPC opens its own socket, so the one that the server has bound only reserves the address until gRPC has
bound it, too.  Connections are not visible here: their limit, keepalive and message sizes are options of
the library.  All calls together may take ``ALL_CALLS_MAX`` times ``grpc.message_bytes_max`` of memory.

A method of ``penstock.proto`` is the function of the same name in ``publishing.py``,
``consuming.py``, ``polling.py`` or ``admin.py``; the start fails if one is missing.  Reflection
(``reflection.py``) and health checks (``health.py``) need no login.
"""

import asyncio
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1.health import SERVICE_NAME as HEALTH

from penstock.broker.frontend import EmbeddedAsyncBroker
from penstock.config.server import GrpcSettings, LimitSettings, TlsSettings, shown
from penstock.frontends.grpc import admin, consuming, publishing
from penstock.frontends.grpc.call import GrpcShared, Handlers, decoder
from penstock.frontends.grpc.health import BrokerHealth
from penstock.frontends.grpc.polling import PolledConsumers, Polling
from penstock.frontends.grpc.reflection import REFLECTION, reflection_handler
from penstock.frontends.listener import Connections
from penstock.frontends.security.gateway import AuthGateway
from penstock.grpc import penstock_pb2 as pb

SERVICES: Final = tuple(pb.DESCRIPTOR.services_by_name.values())
CALLS_MAX: Final = 100  # Calls in progress on one connection; the client queues more.
ALL_CALLS_MAX: Final = 1024  # Calls in progress on all connections; more are refused.
PING_MS_MIN: Final = 10_000  # A client that pings more often is disconnected.
LAST_S: Final = 1.0  # For sending the last responses, and for health watches to end.
DEFAULTS: Final = GrpcSettings()


class GrpcListener:
    """The gRPC API, for ``penstock serve``."""

    def __init__(
        self,
        broker: EmbeddedAsyncBroker,
        limits: LimitSettings,
        connections: Connections,
        gateway: AuthGateway | None = None,
        settings: GrpcSettings = DEFAULTS,
    ) -> None:
        gateway = gateway or AuthGateway(broker)
        self.shared = GrpcShared(broker, limits, connections, gateway)
        self._consumers = PolledConsumers(broker)
        gateway.ended.append(self._consumers.forget)
        self._health = BrokerHealth(self.shared, [service.full_name for service in SERVICES])
        options = list(_options(settings, limits))
        self._server = grpc.aio.server(options=options, maximum_concurrent_rpcs=ALL_CALLS_MAX)
        handlers = Handlers(self.shared)
        polling = Polling(self._consumers)
        for service in SERVICES:
            methods = {
                method.name: _handler(handlers, polling, method, login=gateway.required)
                for method in service.methods
            }
            generic = grpc.method_handlers_generic_handler(service.full_name, methods)
            self._server.add_generic_rpc_handlers((generic,))
        self._server.add_generic_rpc_handlers((self._health.handler(),))
        names = (*(service.full_name for service in SERVICES), HEALTH, REFLECTION)
        self._server.add_generic_rpc_handlers((reflection_handler(self.shared, names),))
        self._stopped = False
        self._cutting: asyncio.Task[None] | None = None

    async def listen(self, reserved: socket.socket, tls: TlsSettings) -> None:
        """Serve the address of this socket; ``OSError`` if it is taken."""
        address = shown(*reserved.getsockname()[:2])
        try:
            if tls.certificate:
                self._server.add_secure_port(address, _credentials(tls))
            else:
                self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise OSError(str(error)) from None
        finally:
            reserved.close()
        await self._server.start()

    async def drain(self) -> None:
        """Accept no more calls, end waiting ones, and finish the others."""
        self.shared.draining = True
        self._health.update()
        await self.shared.drain()
        await self._server.stop(LAST_S)
        self._stopped = True
        self._consumers.close()

    def abort(self) -> None:
        if not self._stopped:
            self._stopped = True
            self._cutting = asyncio.get_running_loop().create_task(self._server.stop(None))
        self._consumers.close()


def _credentials(tls: TlsSettings) -> grpc.ServerCredentials:
    """Both files were checked when the server began (``security/tls.py``)."""
    pair = Path(tls.key).read_bytes(), Path(tls.certificate).read_bytes()
    return grpc.ssl_server_credentials([pair])


def _options(settings: GrpcSettings, limits: LimitSettings) -> Iterator[tuple[str, int]]:
    yield "grpc.so_reuseport", 0  # Otherwise a second server could listen on the same port.
    yield "grpc.max_receive_message_length", settings.message_bytes_max
    yield "grpc.max_send_message_length", -1  # Bounded by what a receive and a listing return.
    yield "grpc.max_concurrent_streams", CALLS_MAX
    yield "grpc.http.overload_protection", 0  # It counts calls that have ended, and refuses others for them.
    yield "grpc.max_allowed_incoming_connections", limits.connections_max
    yield "grpc.keepalive_time_ms", settings.keepalive_ms
    yield "grpc.keepalive_timeout_ms", settings.keepalive_timeout_ms
    yield "grpc.keepalive_permit_without_calls", 1
    yield "grpc.http2.min_ping_interval_without_data_ms", PING_MS_MIN
    yield "grpc.http2.min_recv_ping_interval_without_data_ms", PING_MS_MIN


def _handler(handlers: Handlers, polling: Polling, method: MethodDescriptor, *, login: bool) -> Any:
    """The handler of a method; with logins, it is called before the request is read."""
    service: ServiceDescriptor = method.containing_service
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", method.name).lower()
    modules: dict[str, tuple[object, ...]] = {
        "Publisher": (publishing,),
        "Consumer": (polling, consuming),
        "Admin": (admin,),
    }
    module = next(each for each in modules[service.name] if hasattr(each, name))
    function = getattr(module, name)
    decode = decoder(GetMessageClass(method.input_type))
    encode = GetMessageClass(method.output_type).SerializeToString
    alone = login and not method.client_streaming
    streams_in = method.client_streaming or login
    if name in ("consume", "poll"):  # Poll writes its one answer itself, to know whether that was possible.
        kind = grpc.stream_stream_rpc_method_handler if streams_in else grpc.unary_stream_rpc_method_handler
        return kind(handlers.stream(function, alone=alone), decode, encode)
    kind = grpc.stream_unary_rpc_method_handler if streams_in else grpc.unary_unary_rpc_method_handler
    return kind(handlers.unary(function, alone=alone), decode, encode)
