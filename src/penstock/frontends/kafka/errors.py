"""Error codes of Kafka's protocol for errors of the broker.

One table, by the error's code.  What a client does next depends on the number alone: give up, look for the
leader again, or wait and retry.  So a number is chosen by what the client should do next.  Errors that are
not listed cannot result from this front end's requests; they would be sent as UNKNOWN_SERVER_ERROR.
"""

import logging
import re
from typing import Final

from penstock.errors import Forbidden, PenstockError
from penstock.frontends.public import public
from penstock.wire.kafka.codes import Code

logger = logging.getLogger("penstock")

NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")  # Of a topic, in Kafka.
CODES: Final = {
    "INTERNAL": Code.UNKNOWN_SERVER_ERROR,
    "BAD_REQUEST": Code.INVALID_REQUEST,
    "NAME_INVALID": Code.INVALID_TOPIC_EXCEPTION,
    "VALUE_INVALID": Code.INVALID_REQUEST,
    "PRIORITY_UNKNOWN": Code.INVALID_RECORD,
    "DELAY_OUT_OF_RANGE": Code.INVALID_RECORD,
    "MESSAGE_EMPTY": Code.INVALID_RECORD,
    "MESSAGE_TOO_LARGE": Code.MESSAGE_TOO_LARGE,
    "BATCH_INVALID": Code.CORRUPT_MESSAGE,
    "RECORDS_INVALID": Code.INVALID_RECORD,  # And not the number before, which clients retry.
    "KEY_MISSING": Code.INVALID_RECORD,
    "SCHEMA_MISMATCH": Code.INVALID_RECORD,
    "TOPIC_NOT_FOUND": Code.UNKNOWN_TOPIC_OR_PARTITION,
    "TOPIC_EXISTS": Code.TOPIC_ALREADY_EXISTS,
    "LIMIT_REACHED": Code.POLICY_VIOLATION,
    "PARTITION_NOT_FOUND": Code.UNKNOWN_TOPIC_OR_PARTITION,
    "OFFSET_OUT_OF_RANGE": Code.OFFSET_OUT_OF_RANGE,
    "GROUP_NOT_FOUND": Code.GROUP_ID_NOT_FOUND,
    "GROUP_KIND_MISMATCH": Code.INCONSISTENT_GROUP_PROTOCOL,
    "MEMBER_UNKNOWN": Code.UNKNOWN_MEMBER_ID,
    "PARTITION_NOT_ASSIGNED": Code.ILLEGAL_GENERATION,
    "LEASE_LOST": Code.INVALID_RECORD_STATE,
    "ALREADY_SETTLED": Code.INVALID_RECORD_STATE,
    "PRODUCER_FENCED": Code.INVALID_PRODUCER_EPOCH,
    "SEQUENCE_OUT_OF_ORDER": Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
    # Clients abort, take a new epoch and go on.  OUT_OF_ORDER_... would be fatal to librdkafka.
    "SEQUENCE_REUSED": Code.UNKNOWN_PRODUCER_ID,
    "PRODUCER_UNKNOWN": Code.INVALID_PRODUCER_ID_MAPPING,
    "TRANSACTION_ABORTED": Code.INVALID_TXN_STATE,
    "TRANSACTION_NOT_OPEN": Code.INVALID_TXN_STATE,
    "FRAME_TOO_LARGE": Code.MESSAGE_TOO_LARGE,
    "PROTOCOL_VIOLATION": Code.INVALID_REQUEST,
    "VERSION_UNSUPPORTED": Code.UNSUPPORTED_VERSION,
    "IDENTITY_NOT_FOUND": Code.RESOURCE_NOT_FOUND,
    "UNAUTHENTICATED": Code.SASL_AUTHENTICATION_FAILED,
    "FORBIDDEN": Code.TOPIC_AUTHORIZATION_FAILED,
    "CLOSED": Code.COORDINATOR_NOT_AVAILABLE,
    "UNAVAILABLE": Code.COORDINATOR_NOT_AVAILABLE,
    "QUEUE_FULL": Code.THROTTLING_QUOTA_EXCEEDED,
    "DISK_FULL": Code.KAFKA_STORAGE_ERROR,
    "METADATA_STALE": Code.NOT_LEADER_OR_FOLLOWER,
    "NOT_OWNER": Code.NOT_LEADER_OR_FOLLOWER,
    "NOT_CACHED": Code.KAFKA_STORAGE_ERROR,  # Clients retry it.
    "TRANSACTION_BUSY": Code.CONCURRENT_TRANSACTIONS,
    "OVERLOADED": Code.REQUEST_TIMED_OUT,
    "QUOTA_EXCEEDED": Code.THROTTLING_QUOTA_EXCEEDED,
    "SHUTTING_DOWN": Code.NOT_LEADER_OR_FOLLOWER,
    "STORAGE_FAILED": Code.KAFKA_STORAGE_ERROR,
    "TOPIC_DAMAGED": Code.KAFKA_STORAGE_ERROR,
    "CORRUPTION": Code.CORRUPT_MESSAGE,
}


def code_of(error: BaseException) -> int:
    """Kafka's error code; an internal error is reported as such, with details in the server's log."""
    if isinstance(error, PenstockError):
        return CODES.get(error.code, Code.UNKNOWN_SERVER_ERROR)
    logger.error("a request failed by a bug", exc_info=error)
    return Code.UNKNOWN_SERVER_ERROR


def topic_code(error: PenstockError, name: str) -> int:
    """``code_of`` for a topic that was requested by name, which may be one that Kafka does not allow."""
    if error.code == "TOPIC_NOT_FOUND" and (not NAME.fullmatch(name) or name in (".", "..")):
        return Code.INVALID_TOPIC_EXCEPTION
    return code_of(error)


def cluster_code(error: PenstockError) -> int:
    """``code_of`` for a request about the cluster, not about a topic."""
    return Code.CLUSTER_AUTHORIZATION_FAILED if isinstance(error, Forbidden) else code_of(error)


def words_of(error: BaseException) -> str:
    """The error message, for versions that have one."""
    if isinstance(error, PenstockError):
        return str(public(error))
    return f"the server failed: {type(error).__name__}; its log says more"
