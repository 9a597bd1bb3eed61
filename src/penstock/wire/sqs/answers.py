"""Answers to SQS clients, as JSON or as XML.

In XML a list has no element of its own: its items follow each other, under the name of one item.  ``_ITEMS``
has these names, and ``_MAPS`` the two names of the entries of a map.
"""

from typing import Any, Final
from xml.sax.saxutils import escape

import msgspec

from penstock.wire.sqs.requests import AttributeValue

NAMESPACE: Final = "http://queue.amazonaws.com/doc/2012-11-05/"

# Written as a reference, or a parser would change it; other control characters are not sent by the service.
_REFERENCES: Final = {"\r": "&#13;", '"': "&quot;"}
_ITEMS: Final = {
    "QueueUrls": "QueueUrl",
    "queueUrls": "QueueUrl",
    "Messages": "Message",
    "Failed": "BatchResultErrorEntry",
    "Results": "ListMessageMoveTasksResultEntry",
}
_MAPS: Final = {
    "Attributes": ("Attribute", "Name"),
    "MessageAttributes": ("MessageAttribute", "Name"),
    "Tags": ("Tag", "Key"),
}


class SqsAnswer(msgspec.Struct, rename="pascal", kw_only=True, omit_defaults=True, gc=False):
    """An answer without content, and the base of the others."""


class QueueUrl(SqsAnswer, kw_only=True):
    queue_url: str


class QueueUrls(SqsAnswer, kw_only=True):
    queue_urls: list[str] = []
    next_token: str | None = None


class SourceQueues(SqsAnswer, kw_only=True):
    queue_urls: list[str] = msgspec.field(name="queueUrls")
    next_token: str | None = None


class QueueAttributes(SqsAnswer, kw_only=True):
    attributes: dict[str, str] = {}


class QueueTags(SqsAnswer, kw_only=True):
    tags: dict[str, str] = {}


class Sent(SqsAnswer, kw_only=True):
    id: str | None = None
    md5_of_message_body: str = msgspec.field(name="MD5OfMessageBody")
    md5_of_message_attributes: str | None = msgspec.field(default=None, name="MD5OfMessageAttributes")
    md5_of_message_system_attributes: str | None = msgspec.field(
        default=None, name="MD5OfMessageSystemAttributes"
    )
    message_id: str
    sequence_number: str | None = None


class IncomingMessage(SqsAnswer, kw_only=True):
    message_id: str
    receipt_handle: str
    md5_of_body: str = msgspec.field(name="MD5OfBody")
    body: str
    attributes: dict[str, str] = {}
    md5_of_message_attributes: str | None = msgspec.field(default=None, name="MD5OfMessageAttributes")
    message_attributes: dict[str, AttributeValue] = {}


class ReceivedMessages(SqsAnswer, kw_only=True):
    messages: list[IncomingMessage] = []


class BatchError(msgspec.Struct, rename="pascal", kw_only=True):
    id: str
    sender_fault: bool
    code: str
    message: str


class BatchEntry(msgspec.Struct, rename="pascal", kw_only=True):
    id: str


class BatchResult(msgspec.Struct, rename="pascal", kw_only=True):
    successful: list[Any]
    failed: list[BatchError]


class MoveTaskHandle(SqsAnswer, kw_only=True):
    task_handle: str


class MovedCount(msgspec.Struct, rename="pascal", kw_only=True):
    approximate_number_of_messages_moved: int


class MoveTaskEntry(SqsAnswer, kw_only=True):
    task_handle: str | None = None
    status: str
    source_arn: str
    destination_arn: str | None = None
    max_number_of_messages_per_second: int | None = None
    approximate_number_of_messages_moved: int
    approximate_number_of_messages_to_move: int
    failure_reason: str | None = None
    started_timestamp: int


class MoveTaskList(SqsAnswer, kw_only=True):
    results: list[MoveTaskEntry] = []


AnyAnswer = SqsAnswer | BatchResult | MovedCount

_encode: Final = msgspec.json.Encoder().encode


def json_answer(answer: AnyAnswer) -> bytes:
    return _encode(answer)


def xml_answer(action: str, answer: AnyAnswer, request_id: str) -> bytes:
    content = _fields(action, msgspec.to_builtins(answer))
    result = f"<{action}Result>{content}</{action}Result>" if content else ""
    return (
        f'<?xml version="1.0"?>\n<{action}Response xmlns="{NAMESPACE}">{result}'
        f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata></{action}Response>"
    ).encode("utf-8", "replace")


def xml_error(code: str, message: str, sender: bool, request_id: str) -> bytes:
    fault = "Sender" if sender else "Receiver"
    return (
        f'<?xml version="1.0"?>\n<ErrorResponse xmlns="{NAMESPACE}"><Error><Type>{fault}</Type>'
        f"<Code>{_text(code)}</Code><Message>{_text(message)}</Message><Detail/></Error>"
        f"<RequestId>{request_id}</RequestId></ErrorResponse>"
    ).encode("utf-8", "replace")


def _fields(action: str, fields: dict[str, Any]) -> str:
    return "".join(_field(action, name, value) for name, value in fields.items())


def _field(action: str, name: str, value: Any) -> str:
    if isinstance(value, list):
        item = f"{action}ResultEntry" if name == "Successful" else _ITEMS[name]
        return "".join(_element(action, item, each) for each in value)
    if name in _MAPS:
        item, key = _MAPS[name]
        return "".join(_element(action, item, {key: one, "Value": each}) for one, each in value.items())
    return _element(action, name, value)


def _element(action: str, name: str, value: Any) -> str:
    if isinstance(value, dict):
        text = _fields(action, value)
    elif isinstance(value, bool):
        text = str(value).lower()
    else:
        text = _text(str(value))
    return f"<{name}>{text}</{name}>"


def _text(text: str) -> str:
    return escape(text, _REFERENCES)
