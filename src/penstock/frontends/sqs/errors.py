"""Errors of the service: codes, messages and statuses, and the mapping of the broker's errors.

JSON clients get the name of the error's shape and, in the header ``x-amzn-query-error``, the code that the
query protocol has for it, which SDKs show.  The two differ for errors that are older than the JSON protocol.
"""

from typing import Final

import msgspec

from penstock.errors import PenstockError, RequestError
from penstock.frontends.public import public

_PREFIX: Final = "AWS.SimpleQueueService."
_QUERY_CODES: Final = {
    "QueueDoesNotExist": f"{_PREFIX}NonExistentQueue",
    "QueueNameExists": "QueueAlreadyExists",
    **{
        name: _PREFIX + name
        for name in (
            "BatchEntryIdsNotDistinct", "BatchRequestTooLong", "EmptyBatchRequest", "InvalidBatchEntryId",
            "MessageNotInflight", "PurgeQueueInProgress", "QueueDeletedRecently",
            "TooManyEntriesInBatchRequest", "UnsupportedOperation",
        )
    },
}  # fmt: skip
_SHAPE: Final = "com.amazonaws.sqs#"


class SqsError(Exception):
    """An error of the service."""

    def __init__(self, name: str, message: str, status: int = 400, *, sender: bool = True) -> None:
        super().__init__(message)
        self.name = name
        self.message = message
        self.status = status
        self.sender = sender

    @property
    def code(self) -> str:
        """In the query protocol, in batches, and as SDKs show it."""
        return _QUERY_CODES.get(self.name, self.name)

    @property
    def query_error(self) -> str:
        """For the header of JSON answers."""
        return f"{self.code};{'Sender' if self.sender else 'Receiver'}"

    def to_json(self) -> bytes:
        return msgspec.json.encode({"__type": _SHAPE + self.name, "message": self.message})


def no_queue() -> SqsError:
    return SqsError("QueueDoesNotExist", "The specified queue does not exist.")


def missing(parameter: str) -> SqsError:
    return SqsError("MissingParameter", f"The request must contain the parameter {parameter}.")


def invalid(message: str) -> SqsError:
    return SqsError("InvalidParameterValue", message)


def out_of_range(value: object, parameter: str, reason: str) -> SqsError:
    return invalid(f"Value {value} for parameter {parameter} is invalid. Reason: {reason}")


# The broker's errors that have a name in the service; others are mapped by their kind.
_NAMES: Final = {
    "TOPIC_NOT_FOUND": ("QueueDoesNotExist", 400),
    "GROUP_NOT_FOUND": ("QueueDoesNotExist", 400),
    "TOPIC_EXISTS": ("QueueNameExists", 400),
    "LIMIT_REACHED": ("OverLimit", 403),
    "UNAUTHENTICATED": ("InvalidClientTokenId", 403),
    "FORBIDDEN": ("AccessDenied", 403),
    "HOST_NOT_ALLOWED": ("AccessDenied", 421),
    "ORIGIN_NOT_ALLOWED": ("AccessDenied", 403),
    "QUOTA_EXCEEDED": ("RequestThrottled", 400),
    "QUEUE_FULL": ("RequestThrottled", 400),
    "REQUEST_TOO_LARGE": ("RequestEntityTooLarge", 413),
}


def of_broker(error: PenstockError) -> SqsError:
    """The service's error for an error of the broker."""
    known = _NAMES.get(error.code)
    if known is not None:
        name, status = known
        if name == "QueueDoesNotExist":
            return no_queue()
        return SqsError(name, str(public(error)), status)
    if isinstance(error, RequestError):
        return invalid(str(public(error)))
    if error.retryable:
        return SqsError("ServiceUnavailable", str(public(error)), 503, sender=False)
    return SqsError("InternalFailure", str(public(error)), 500, sender=False)
