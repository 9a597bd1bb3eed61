"""Errors of the broker as a gRPC status, with details for clients.

    status    code       the closest of gRPC's sixteen
              message    the sentence of docs/errors.md
    details   google.rpc.ErrorInfo: reason = the code of docs/errors.md, domain = "penstock",
              metadata = retryable, and the facts of the error

Metadata travels in HTTP/2 headers, for which clients accept 8 KiB, so texts are cut.
"""

from typing import Final

from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode

from penstock.errors import PenstockError, RequestError
from penstock.frontends.public import public
from penstock.grpc import penstock_pb2 as pb
from penstock.operations.codec import whole_characters

DOMAIN: Final = "penstock"
DETAILS: Final = "grpc-status-details-bin"  # The trailer in which all languages look for them.
SENTENCE_LENGTH_MAX: Final = 1000
FACT_LENGTH_MAX: Final = 200

# A wrong request is INVALID_ARGUMENT, a retryable one UNAVAILABLE, a fault INTERNAL; and these:
STATUSES: Final = {
    "TOPIC_NOT_FOUND": StatusCode.NOT_FOUND,
    "PARTITION_NOT_FOUND": StatusCode.NOT_FOUND,
    "GROUP_NOT_FOUND": StatusCode.NOT_FOUND,
    "DEAD_LETTER_NOT_FOUND": StatusCode.NOT_FOUND,
    "IDENTITY_NOT_FOUND": StatusCode.NOT_FOUND,
    "RECEIPT_UNKNOWN": StatusCode.NOT_FOUND,
    "TOPIC_EXISTS": StatusCode.ALREADY_EXISTS,
    "OFFSET_OUT_OF_RANGE": StatusCode.OUT_OF_RANGE,
    "LIMIT_REACHED": StatusCode.RESOURCE_EXHAUSTED,
    "QUOTA_EXCEEDED": StatusCode.RESOURCE_EXHAUSTED,
    "QUEUE_FULL": StatusCode.RESOURCE_EXHAUSTED,
    "DISK_FULL": StatusCode.RESOURCE_EXHAUSTED,
    "OVERLOADED": StatusCode.RESOURCE_EXHAUSTED,
    "GROUP_KIND_MISMATCH": StatusCode.FAILED_PRECONDITION,
    "MEMBER_UNKNOWN": StatusCode.FAILED_PRECONDITION,
    "PARTITION_NOT_ASSIGNED": StatusCode.FAILED_PRECONDITION,
    "LEASE_LOST": StatusCode.FAILED_PRECONDITION,
    "ALREADY_SETTLED": StatusCode.FAILED_PRECONDITION,
    "RESTORE_REFUSED": StatusCode.FAILED_PRECONDITION,
    "UNAUTHENTICATED": StatusCode.UNAUTHENTICATED,
    "FORBIDDEN": StatusCode.PERMISSION_DENIED,
    "CLOSED": StatusCode.UNAVAILABLE,
    "CORRUPTION": StatusCode.DATA_LOSS,
    "TOPIC_DAMAGED": StatusCode.DATA_LOSS,
}


def status_of(error: PenstockError) -> StatusCode:
    default = StatusCode.INVALID_ARGUMENT if isinstance(error, RequestError) else StatusCode.INTERNAL
    return STATUSES.get(error.code, StatusCode.UNAVAILABLE if error.retryable else default)


def sentence(error: PenstockError) -> str:
    """The message of an error; a long one, which may quote a client, loses its middle."""
    text: str = whole_characters(str(public(error)).removesuffix(f" [{error.code}]"))
    half = SENTENCE_LENGTH_MAX // 2
    return text if len(text) <= SENTENCE_LENGTH_MAX else f"{text[:half]} ... {text[-half:]}"


def details(error: PenstockError, **more: object) -> tuple[tuple[str, bytes], ...]:
    """The trailing metadata of a call that was refused."""
    facts = {"retryable": str(error.retryable).lower(), **public(error).facts, **more}
    info = ErrorInfo(
        reason=error.code,
        domain=DOMAIN,
        metadata={name: whole_characters(str(value)[:FACT_LENGTH_MAX]) for name, value in facts.items()},
    )
    packed = AnyMessage()
    packed.Pack(info)
    status = Status(code=status_of(error).value[0], message=sentence(error), details=[packed])
    return ((DETAILS, status.SerializeToString()),)


def in_stream(error: PenstockError) -> pb.Error:
    """The error of one request of a stream, which continues."""
    return pb.Error(code=error.code, message=sentence(error), retryable=error.retryable)
