"""Errors of the broker as HTTP responses: a status and a problem document (RFC 9457).

    {"type": "urn:penstock:error:TOPIC_NOT_FOUND", "title": "...", "status": 404,
     "detail": "there is no topic 'orders' ...", "code": "TOPIC_NOT_FOUND", "do": "...", "retryable": false}

``title`` and ``do`` come from the docstrings of the error classes, as docs/errors.md does; ``detail`` is the
message. ``STATUSES`` maps codes to statuses, and a test checks that none is missing.
"""

import inspect
from http import HTTPStatus
from typing import Final

import msgspec

from penstock.errors import PenstockError
from penstock.frontends.public import public
from penstock.operations.codec import whole_characters

MEDIA_TYPE: Final = "application/problem+json"
URN: Final = "urn:penstock:error:"
DETAIL_LENGTH_MAX: Final = 1000
RETRY_S: Final = 1  # If there is no better estimate.

Headers = list[tuple[bytes, bytes]]

STATUSES: Final = {
    "BAD_REQUEST": HTTPStatus.BAD_REQUEST,
    "NAME_INVALID": HTTPStatus.BAD_REQUEST,
    "VALUE_INVALID": HTTPStatus.BAD_REQUEST,
    "PRIORITY_UNKNOWN": HTTPStatus.BAD_REQUEST,
    "DELAY_OUT_OF_RANGE": HTTPStatus.BAD_REQUEST,
    "MESSAGE_EXPIRED": HTTPStatus.BAD_REQUEST,
    "MESSAGE_EMPTY": HTTPStatus.BAD_REQUEST,
    "MESSAGE_TOO_LARGE": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "BATCH_INVALID": HTTPStatus.BAD_REQUEST,
    "RECORDS_INVALID": HTTPStatus.BAD_REQUEST,
    "KEY_MISSING": HTTPStatus.BAD_REQUEST,
    "TOPIC_NOT_FOUND": HTTPStatus.NOT_FOUND,
    "QUEUE_NOT_FOUND": HTTPStatus.NOT_FOUND,
    "TOPIC_EXISTS": HTTPStatus.CONFLICT,
    "LIMIT_REACHED": HTTPStatus.CONFLICT,
    "PARTITION_NOT_FOUND": HTTPStatus.NOT_FOUND,
    "OFFSET_OUT_OF_RANGE": HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
    "RESTORE_REFUSED": HTTPStatus.CONFLICT,
    "STAGED_MISSING": HTTPStatus.CONFLICT,
    "OFFSETS_MISSING": HTTPStatus.CONFLICT,
    "GROUP_NOT_FOUND": HTTPStatus.NOT_FOUND,
    "DEAD_LETTER_NOT_FOUND": HTTPStatus.NOT_FOUND,
    "GROUP_KIND_MISMATCH": HTTPStatus.CONFLICT,
    "MEMBER_UNKNOWN": HTTPStatus.CONFLICT,
    "PARTITION_NOT_ASSIGNED": HTTPStatus.CONFLICT,
    "LEASE_LOST": HTTPStatus.GONE,
    "ALREADY_SETTLED": HTTPStatus.GONE,
    "PRODUCER_FENCED": HTTPStatus.CONFLICT,
    "SEQUENCE_OUT_OF_ORDER": HTTPStatus.CONFLICT,
    "SEQUENCE_REUSED": HTTPStatus.CONFLICT,
    "PRODUCER_UNKNOWN": HTTPStatus.NOT_FOUND,
    "TRANSACTION_ABORTED": HTTPStatus.CONFLICT,
    "TRANSACTION_NOT_OPEN": HTTPStatus.CONFLICT,
    "TRANSACTION_BUSY": HTTPStatus.SERVICE_UNAVAILABLE,
    "METRICS_DISABLED": HTTPStatus.NOT_FOUND,
    "DIRECTORY_IN_USE": HTTPStatus.INTERNAL_SERVER_ERROR,
    "DIRECTORY_UNUSABLE": HTTPStatus.INTERNAL_SERVER_ERROR,
    "CONFIGURATION_INVALID": HTTPStatus.INTERNAL_SERVER_ERROR,
    "ADDRESS_UNUSABLE": HTTPStatus.INTERNAL_SERVER_ERROR,
    "EXTRA_MISSING": HTTPStatus.NOT_IMPLEMENTED,
    "LAKE_UNREACHABLE": HTTPStatus.SERVICE_UNAVAILABLE,
    "LAKE_UNUSABLE": HTTPStatus.INTERNAL_SERVER_ERROR,
    "NOT_ARCHIVED": HTTPStatus.NOT_FOUND,
    "FRAME_TOO_LARGE": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "PROTOCOL_VIOLATION": HTTPStatus.BAD_REQUEST,
    "VERSION_UNSUPPORTED": HTTPStatus.BAD_REQUEST,
    "OPERATION_UNKNOWN": HTTPStatus.NOT_FOUND,
    "REQUEST_INVALID": HTTPStatus.BAD_REQUEST,
    "REQUEST_TOO_LARGE": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "REQUEST_TIMEOUT": HTTPStatus.REQUEST_TIMEOUT,
    "ROUTE_NOT_FOUND": HTTPStatus.NOT_FOUND,
    "METHOD_NOT_ALLOWED": HTTPStatus.METHOD_NOT_ALLOWED,
    "MEDIA_TYPE_UNSUPPORTED": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "UPGRADE_REQUIRED": HTTPStatus.UPGRADE_REQUIRED,
    "HOST_NOT_ALLOWED": HTTPStatus.MISDIRECTED_REQUEST,
    "ORIGIN_NOT_ALLOWED": HTTPStatus.FORBIDDEN,
    "RECEIPT_UNKNOWN": HTTPStatus.NOT_FOUND,
    "SCHEMA_INVALID": HTTPStatus.UNPROCESSABLE_ENTITY,
    "SCHEMA_INCOMPATIBLE": HTTPStatus.CONFLICT,
    "SCHEMA_MISMATCH": HTTPStatus.UNPROCESSABLE_ENTITY,
    "SUBJECT_NOT_FOUND": HTTPStatus.NOT_FOUND,
    "SCHEMA_VERSION_NOT_FOUND": HTTPStatus.NOT_FOUND,
    "SCHEMA_NOT_FOUND": HTTPStatus.NOT_FOUND,
    "SCHEMA_DELETED": HTTPStatus.NOT_FOUND,
    "SCHEMA_NOT_DELETED": HTTPStatus.NOT_FOUND,
    "SCHEMA_SETTING_MISSING": HTTPStatus.NOT_FOUND,
    "SCHEMA_READ_ONLY": HTTPStatus.UNPROCESSABLE_ENTITY,
    "SCHEMA_REFERENCED": HTTPStatus.UNPROCESSABLE_ENTITY,
    "UNAUTHENTICATED": HTTPStatus.UNAUTHORIZED,
    "FORBIDDEN": HTTPStatus.FORBIDDEN,
    "IDENTITY_NOT_FOUND": HTTPStatus.NOT_FOUND,
    "PIPELINE_RUNNING": HTTPStatus.CONFLICT,
    "PIPELINE_FAILED": HTTPStatus.INTERNAL_SERVER_ERROR,
    "QUERY_INVALID": HTTPStatus.BAD_REQUEST,
    "QUERY_FAILED": HTTPStatus.UNPROCESSABLE_ENTITY,
    "SQL_UNAVAILABLE": HTTPStatus.SERVICE_UNAVAILABLE,
    "CLOSED": HTTPStatus.SERVICE_UNAVAILABLE,
    "UNAVAILABLE": HTTPStatus.SERVICE_UNAVAILABLE,
    "QUEUE_FULL": HTTPStatus.TOO_MANY_REQUESTS,
    "DISK_FULL": HTTPStatus.INSUFFICIENT_STORAGE,
    "METADATA_STALE": HTTPStatus.CONFLICT,
    "NOT_CACHED": HTTPStatus.SERVICE_UNAVAILABLE,
    "NOT_OWNER": HTTPStatus.SERVICE_UNAVAILABLE,
    "STORE_UNAVAILABLE": HTTPStatus.SERVICE_UNAVAILABLE,
    "STORE_REFUSED": HTTPStatus.INTERNAL_SERVER_ERROR,
    "STORE_UNSAFE": HTTPStatus.INTERNAL_SERVER_ERROR,
    "CLUSTER_MISMATCH": HTTPStatus.INTERNAL_SERVER_ERROR,
    "CLUSTER_EXISTS": HTTPStatus.CONFLICT,
    "CLUSTER_MISSING": HTTPStatus.NOT_FOUND,
    "CLUSTER_LEFT": HTTPStatus.CONFLICT,
    "CLUSTER_RUNNING": HTTPStatus.CONFLICT,
    "CLUSTER_TOO_NEW": HTTPStatus.INTERNAL_SERVER_ERROR,
    "NODE_IN_USE": HTTPStatus.INTERNAL_SERVER_ERROR,
    "CLOCK_DIFFERENCE": HTTPStatus.INTERNAL_SERVER_ERROR,
    "NOT_A_CLUSTER": HTTPStatus.NOT_FOUND,
    "NODE_NOT_FOUND": HTTPStatus.NOT_FOUND,
    "NODE_RUNNING": HTTPStatus.CONFLICT,
    "NODE_UNFIT": HTTPStatus.CONFLICT,
    "PARTITION_MOVED": HTTPStatus.CONFLICT,
    "OVERLOADED": HTTPStatus.SERVICE_UNAVAILABLE,
    "QUOTA_EXCEEDED": HTTPStatus.TOO_MANY_REQUESTS,
    "SHUTTING_DOWN": HTTPStatus.SERVICE_UNAVAILABLE,
    "UNHEALTHY": HTTPStatus.SERVICE_UNAVAILABLE,
    "SERVER_UNREACHABLE": HTTPStatus.BAD_GATEWAY,
    "OUTCOME_UNKNOWN": HTTPStatus.GATEWAY_TIMEOUT,
    "STORAGE_FAILED": HTTPStatus.INTERNAL_SERVER_ERROR,
    "LAKE_DAMAGED": HTTPStatus.INTERNAL_SERVER_ERROR,
    "TOPIC_DAMAGED": HTTPStatus.INTERNAL_SERVER_ERROR,
    "CORRUPTION": HTTPStatus.INTERNAL_SERVER_ERROR,
    "INTERNAL": HTTPStatus.INTERNAL_SERVER_ERROR,
}


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong, and what to do about it (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    do: str
    retryable: bool


def problem(error: PenstockError) -> Problem:
    """The document for an error."""
    title, remedy = story(type(error))
    error = public(error)
    return Problem(
        type=f"{URN}{error.code}",
        title=title,
        status=status(error.code),
        detail=_shortened(str(error).removesuffix(f" [{error.code}]")),
        code=error.code,
        do=remedy,
        retryable=error.retryable,
    )


def _shortened(text: str) -> str:
    """A long sentence without its middle, which quotes input; its end says what is wrong."""
    half = DETAIL_LENGTH_MAX // 2
    return text if len(text) <= DETAIL_LENGTH_MAX else f"{text[:half]} ... {text[-half:]}"


def status(code: str) -> int:
    """The status that goes with a code."""
    return STATUSES[code].value


def headers(error: PenstockError) -> Headers:
    """Additional headers of a response with this error."""
    match STATUSES[error.code]:
        case HTTPStatus.UNAUTHORIZED:
            return [(b"www-authenticate", b'Bearer realm="penstock"')]
        case HTTPStatus.UPGRADE_REQUIRED:
            return [(b"upgrade", b"websocket"), (b"connection", b"upgrade")]
        case HTTPStatus.METHOD_NOT_ALLOWED:
            return [(b"allow", str(error.facts["allowed"]).encode())]
        case HTTPStatus.TOO_MANY_REQUESTS | HTTPStatus.SERVICE_UNAVAILABLE:
            return [(b"retry-after", str(error.facts.get("retry_after", RETRY_S)).encode())]
        case _:
            return []


def encode(document: Problem) -> bytes:
    try:
        return msgspec.json.encode(document)
    except UnicodeEncodeError:  # A name in the request has half of a surrogate pair.
        return msgspec.json.encode(whole_characters(msgspec.to_builtins(document)))


def whole_response(error: PenstockError) -> bytes:
    """A complete response, for a connection without a valid request."""
    document = problem(error)
    body = encode(document)
    head = [
        f"HTTP/1.1 {document.status} {HTTPStatus(document.status).phrase}",
        f"content-type: {MEDIA_TYPE}",
        f"content-length: {len(body)}",
        *(f"{name.decode()}: {value.decode()}" for name, value in headers(error)),
        "connection: close",
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


def story(kind: type[PenstockError]) -> tuple[str, str]:
    """Meaning, cause and remedy of an error, from the docstring of its class."""
    text = " ".join((inspect.getdoc(kind) or "").replace("``", "`").split())
    meaning, _, rest = text.partition(" Cause: ")
    return meaning, rest.partition(" Do: ")[2]
