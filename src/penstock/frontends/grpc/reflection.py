"""Server reflection (``grpc.reflection.v1alpha``), which needs no login.

grpcurl, grpcui and Postman learn the methods from it.  The answers are those of the library; here its streams
are counted with the other calls without a login.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from penstock.errors import Overloaded
from penstock.frontends.grpc import errors
from penstock.frontends.grpc.call import Context, GrpcShared

REFLECTION: Final = reflection.SERVICE_NAME


def reflection_handler(shared: GrpcShared, services: Sequence[str]) -> grpc.GenericRpcHandler:
    """The service, for these services."""
    answers = reflection.aio.ReflectionServicer(services)

    async def handle(requests: AsyncIterator[Any], context: Context) -> None:
        try:
            with shared.unknown(context.peer()):
                async for answer in answers.ServerReflectionInfo(requests, context):
                    await context.write(answer)
                return
        except Overloaded as error:
            refused = error
        await context.abort(errors.status_of(refused), errors.sentence(refused), errors.details(refused))

    decode = reflection_pb2.ServerReflectionRequest.FromString
    encode = reflection_pb2.ServerReflectionResponse.SerializeToString
    method = grpc.stream_stream_rpc_method_handler(handle, decode, encode)
    return grpc.method_handlers_generic_handler(REFLECTION, {"ServerReflectionInfo": method})
