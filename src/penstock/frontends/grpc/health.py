"""Health checks (``grpc.health.v1``), which need no login.

All services are SERVING unless the server is shutting down or has a storage problem.
``Watch`` sends the status when it begins and when a check, or the end of the server, finds that it has
changed.  Watches are independent: a client that does not read delays no other.

Limits: ``WATCHES_MAX`` watches at a time; more are refused.  Checks and watches are counted with the other
calls without a login, from their headers on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2 as health
from grpc_health.v1.health import SERVICE_NAME

from penstock.errors import Overloaded, PenstockError
from penstock.frontends.grpc import errors
from penstock.frontends.grpc.call import Context, GrpcShared, decoder, only

WATCHES_MAX: Final = 100
STATES: Final = health.HealthCheckResponse

Method = Callable[[Any, Context], Awaitable[Any]]


class BrokerHealth:
    """The health of some services, and its watches."""

    def __init__(self, shared: GrpcShared, services: Collection[str]) -> None:
        self._shared = shared
        self._services = frozenset(("", *services))
        self._serving = True  # The status that was sent to the watches.
        self._watches: set[asyncio.Event] = set()  # Each is set when its status may have changed.

    def handler(self) -> grpc.GenericRpcHandler:
        decode, encode = decoder(health.HealthCheckRequest), STATES.SerializeToString
        methods = {
            "Check": grpc.stream_unary_rpc_method_handler(self._counted(self._check), decode, encode),
            "Watch": grpc.stream_stream_rpc_method_handler(self._counted(self._watch), decode, encode),
        }
        return grpc.method_handlers_generic_handler(SERVICE_NAME, methods)

    def update(self) -> None:
        """Notify the watches if the status has changed, without waiting for them."""
        serving = not self._shared.draining and not self._shared.broker.problems()
        if serving != self._serving:
            self._serving = serving
            for changed in self._watches:
                changed.set()

    def _status(self, service: str) -> Any:
        if service not in self._services:
            return STATES.SERVICE_UNKNOWN
        self.update()
        return STATES.SERVING if self._serving else STATES.NOT_SERVING

    def _counted(self, method: Method) -> Method:
        """The method, called with its one request."""

        async def handle(requests: Any, context: Context) -> Any:
            try:
                with self._shared.unknown(context.peer()):
                    return await method(await only(requests), context)
            except PenstockError as error:
                refused = error
            await context.abort(errors.status_of(refused), errors.sentence(refused), errors.details(refused))
            return None

        return handle

    async def _check(self, request: Any, context: Context) -> Any:
        status = self._status(request.service)
        if status == STATES.SERVICE_UNKNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND)
        return STATES(status=status)

    async def _watch(self, request: Any, context: Context) -> None:
        if len(self._watches) >= WATCHES_MAX:
            raise Overloaded(what="watches of the health", limit=WATCHES_MAX)
        changed, sent = asyncio.Event(), None
        self._watches.add(changed)
        try:
            while True:
                status = self._status(request.service)
                changed.clear()
                if status != sent:
                    await context.write(STATES(status=status))
                    sent = status
                await changed.wait()
        except grpc.aio.BaseError:  # The client has left.
            pass
        finally:
            self._watches.discard(changed)
