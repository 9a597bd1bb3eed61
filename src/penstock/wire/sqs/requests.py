"""Requests of SQS clients: one structure for each action, decoded from either protocol.

    JSON 1.0     x-amz-target: AmazonSQS.SendMessage      the body is the structure
    query        Action=SendMessage&MessageBody=...       ``query.py`` makes the same structure of the fields

Only the form is checked here.  Fields that are required by the service are optional in these structures,
because the service has its own errors for a missing one; fields that are unknown are ignored, as SDKs of
later versions may send them.
"""

from typing import Any, Final

import msgspec

from penstock.wire.sqs.query import nested

TARGET: Final = "AmazonSQS."


class BadRequestBody(Exception):  # noqa: N818 - it becomes an error of the service.
    """The body of a request cannot be decoded."""


class AttributeValue(msgspec.Struct, rename="pascal", kw_only=True, omit_defaults=True, gc=False):
    """A message attribute, in requests and in answers."""

    data_type: str = ""
    string_value: str | None = None
    binary_value: bytes | None = None


class QueueRequest(msgspec.Struct, rename="pascal", kw_only=True):
    """Every request; most are about a queue."""

    queue_url: str | None = None


class AddPermission(QueueRequest, kw_only=True):
    label: str = ""
    account_ids: list[str] = msgspec.field(default_factory=list, name="AWSAccountIds")
    actions: list[str] = []


class CancelMessageMoveTask(QueueRequest, kw_only=True):
    task_handle: str = ""


class ChangeMessageVisibility(QueueRequest, kw_only=True):
    receipt_handle: str | None = None
    visibility_timeout: int | None = None


class ChangeVisibilityEntry(msgspec.Struct, rename="pascal", kw_only=True):
    id: str = ""
    receipt_handle: str = ""
    visibility_timeout: int | None = None


class ChangeMessageVisibilityBatch(QueueRequest, kw_only=True):
    entries: list[ChangeVisibilityEntry] = []


class CreateQueue(QueueRequest, kw_only=True):
    queue_name: str | None = None
    attributes: dict[str, str] = {}
    tags: dict[str, str] = msgspec.field(default_factory=dict, name="tags")


class DeleteMessage(QueueRequest, kw_only=True):
    receipt_handle: str | None = None


class DeleteEntry(msgspec.Struct, rename="pascal", kw_only=True):
    id: str = ""
    receipt_handle: str = ""


class DeleteMessageBatch(QueueRequest, kw_only=True):
    entries: list[DeleteEntry] = []


class DeleteQueue(QueueRequest, kw_only=True):
    pass


class GetQueueAttributes(QueueRequest, kw_only=True):
    attribute_names: list[str] = []


class GetQueueUrl(QueueRequest, kw_only=True):
    queue_name: str | None = None


class ListDeadLetterSourceQueues(QueueRequest, kw_only=True):
    next_token: str | None = None
    max_results: int | None = None


class ListMessageMoveTasks(QueueRequest, kw_only=True):
    source_arn: str = ""
    max_results: int | None = None


class ListQueueTags(QueueRequest, kw_only=True):
    pass


class ListQueues(QueueRequest, kw_only=True):
    queue_name_prefix: str = ""
    next_token: str | None = None
    max_results: int | None = None


class PurgeQueue(QueueRequest, kw_only=True):
    pass


class ReceiveMessage(QueueRequest, kw_only=True):
    attribute_names: list[str] = []
    message_system_attribute_names: list[str] = []
    message_attribute_names: list[str] = []
    max_number_of_messages: int | None = None
    visibility_timeout: int | None = None
    wait_time_seconds: int | None = None
    receive_request_attempt_id: str | None = None


class RemovePermission(QueueRequest, kw_only=True):
    label: str = ""


class OutgoingMessage(msgspec.Struct, rename="pascal", kw_only=True):
    """A message to send, alone or in a batch."""

    message_body: str | None = None
    delay_seconds: int | None = None
    message_attributes: dict[str, AttributeValue] = {}
    message_system_attributes: dict[str, AttributeValue] = {}
    message_deduplication_id: str | None = None
    message_group_id: str | None = None


class SendMessage(OutgoingMessage, kw_only=True):
    queue_url: str | None = None


class SendEntry(OutgoingMessage, kw_only=True):
    id: str = ""


class SendMessageBatch(QueueRequest, kw_only=True):
    entries: list[SendEntry] = []


class SetQueueAttributes(QueueRequest, kw_only=True):
    attributes: dict[str, str] = {}


class StartMessageMoveTask(QueueRequest, kw_only=True):
    source_arn: str = ""
    destination_arn: str | None = None
    max_number_of_messages_per_second: int | None = None


class TagQueue(QueueRequest, kw_only=True):
    tags: dict[str, str] = {}


class UntagQueue(QueueRequest, kw_only=True):
    tag_keys: list[str] = []


Request = QueueRequest | SendMessage

ACTIONS: Final[dict[str, type[Request]]] = {
    kind.__name__: kind
    for kind in (
        AddPermission, CancelMessageMoveTask, ChangeMessageVisibility, ChangeMessageVisibilityBatch,
        CreateQueue, DeleteMessage, DeleteMessageBatch, DeleteQueue, GetQueueAttributes, GetQueueUrl,
        ListDeadLetterSourceQueues, ListMessageMoveTasks, ListQueueTags, ListQueues, PurgeQueue,
        ReceiveMessage, RemovePermission, SendMessage, SendMessageBatch, SetQueueAttributes,
        StartMessageMoveTask, TagQueue, UntagQueue,
    )
}  # fmt: skip

_DECODERS: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    name: msgspec.json.Decoder(kind) for name, kind in ACTIONS.items()
}


def decode_json(action: str, body: bytes) -> Request:
    """The request in a JSON body; an empty body is one without fields."""
    try:
        request: Request = _DECODERS[action].decode(body or b"{}")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise BadRequestBody(str(problem)) from None
    return request


def decode_query(action: str, fields: list[tuple[str, str]]) -> Request:
    """The request in the fields of a form."""
    try:
        request: Request = msgspec.convert(nested(action, fields), ACTIONS[action], strict=False)
    except (msgspec.MsgspecError, ValueError) as problem:
        raise BadRequestBody(str(problem)) from None
    return request
