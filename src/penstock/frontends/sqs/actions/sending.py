"""SendMessage and SendMessageBatch.

A message is answered when it is stored with the durability of its topic.  A delayed one goes to the
schedule.  A message that repeats a deduplication id within five minutes is not stored; the answer has the
id of the first.
"""

import re
import secrets
from hashlib import sha256
from itertools import count
from typing import Final

from penstock.frontends.security.identity import NOBODY
from penstock.frontends.sqs import records
from penstock.frontends.sqs.attributes import MESSAGE_BYTES_MAX, QueueState
from penstock.frontends.sqs.call import SqsCall
from penstock.frontends.sqs.errors import SqsError, invalid, missing, out_of_range
from penstock.model.ids import NUMBER_BITS, sent_uuid
from penstock.model.message import Message, Receipt
from penstock.wire.sqs import answers, requests
from penstock.wire.sqs.checksums import md5_of, md5_of_attributes
from penstock.wire.sqs.requests import AttributeValue, OutgoingMessage

DELAY_S_MAX: Final = 900
ENTRIES_MAX: Final = 10
ATTRIBUTES_MAX: Final = 10
SCHEDULED_MAX: Final = 10_000  # Delayed messages that are searched for the original.
TRACE: Final = "AWSTraceHeader"
BAD_BODY: Final = (
    "Invalid binary character found in message body, the set of allowed characters is #x9 | #xA | #xD |"
    " #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF"
)
_numbers: Final = count(secrets.randbits(NUMBER_BITS))  # Of messages, for their ids.
_ENTRY_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")
_ATTRIBUTE: Final = re.compile(r"(?!\.)(?!(?i:aws\.|amazon\.))[A-Za-z0-9_.-]{1,256}(?<!\.)")
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_ID: Final = re.compile(r"[!-~]{1,128}")  # Of a message group, and for deduplication.
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


async def send_message(call: SqsCall, request: requests.SendMessage) -> answers.Sent:
    queue = call.queue(request.queue_url)
    message_id, message = _message(call, queue, request)
    receipt = await call.run(call.operations.publish(queue.name, message))
    return await _sent(call, queue, request, message_id, receipt)


async def send_message_batch(call: SqsCall, request: requests.SendMessageBatch) -> answers.BatchResult:
    queue = call.queue(request.queue_url)
    check_entries([entry.id for entry in request.entries], "Send")
    size = sum(_size(entry) for entry in request.entries)
    if size > MESSAGE_BYTES_MAX:
        raise SqsError(
            "BatchRequestTooLong",
            f"Batch requests cannot be longer than {MESSAGE_BYTES_MAX} bytes. You have sent {size} bytes.",
        )
    failed: list[answers.BatchError] = []
    made: list[tuple[requests.SendEntry, str, Message]] = []
    for entry in request.entries:
        try:
            _check_delay(entry.delay_seconds)
        except SqsError as error:
            failed.append(batch_error(entry.id, error))
            continue
        made.append((entry, *_message(call, queue, entry)))
    receipts: list[Receipt] = []
    if made:
        work = call.operations.publish_batch(queue.name, [message for _, _, message in made])
        receipts = await call.run(work)
    successful = [
        await _sent(call, queue, entry, message_id, receipt, entry.id)
        for (entry, message_id, _), receipt in zip(made, receipts, strict=True)
    ]
    return answers.BatchResult(successful=successful, failed=failed)


def check_entries(ids: list[str], action: str) -> None:
    """Refuse a batch that is empty or too long, or whose entries do not have distinct ids."""
    if not ids:
        message = f"There should be at least one {action}MessageBatchRequestEntry in the request."
        raise SqsError("EmptyBatchRequest", message)
    if len(ids) > ENTRIES_MAX:
        message = f"Maximum number of entries per request are {ENTRIES_MAX}. You have sent {len(ids)}."
        raise SqsError("TooManyEntriesInBatchRequest", message)
    seen: set[str] = set()
    for each in ids:
        if not _ENTRY_ID.fullmatch(each):
            message = "A batch entry id can only contain alphanumeric characters, hyphens and underscores."
            raise SqsError("InvalidBatchEntryId", f"{message} It can be at most 80 letters long.")
        if each in seen:
            raise SqsError("BatchEntryIdsNotDistinct", f"Id {each} repeated.")
        seen.add(each)


def batch_error(entry_id: str, error: SqsError) -> answers.BatchError:
    return answers.BatchError(id=entry_id, sender_fault=error.sender, code=error.code, message=error.message)


# What is sent.


def _message(call: SqsCall, queue: QueueState, request: OutgoingMessage) -> tuple[str, Message]:
    """A checked message, and its id."""
    if not request.message_body:
        raise missing("MessageBody")
    if _NOT_XML.search(request.message_body):
        raise SqsError("InvalidMessageContents", BAD_BODY)
    _check_attributes(request.message_attributes)
    for name in request.message_system_attributes:
        if name != TRACE:
            raise invalid(
                f"Message system attribute name '{name[:200]}' is invalid. Only {TRACE} is supported."
            )
    _check_attributes(request.message_system_attributes)
    if _size(request) > queue.message_bytes_max:
        limit = queue.message_bytes_max
        raise invalid(
            f"One or more parameters are invalid. Reason: Message must be shorter than {limit} bytes."
        )
    delay_s = _delay(queue, request)
    dedup_id = _dedup_id(queue, request)
    trace = request.message_system_attributes.get(TRACE)
    now_ms = call.shared.clock.wall_ms()
    message_id = sent_uuid(queue.name, now_ms, next(_numbers))
    headers = records.headers_of(
        message_id,
        request.message_attributes,
        dedup_id=dedup_id,
        sender=None if call.identity is NOBODY else call.identity.name,
        trace=call.trace if trace is None else trace.string_value,
        sent_ms=now_ms if delay_s else None,
    )
    message = Message(request.message_body.encode(), request.message_group_id, headers)
    if delay_s:
        message.delay = delay_s
    if queue.fifo and dedup_id is not None:
        message.dedup_id = _scoped(queue, request.message_group_id or "", dedup_id)
    return message_id, message


def _delay(queue: QueueState, request: OutgoingMessage) -> int:
    if request.delay_seconds is None:
        return queue.delay_s
    _check_delay(request.delay_seconds)
    if queue.fifo:
        if request.delay_seconds:
            reason = "The request include parameter that is not valid for this queue type."
            raise out_of_range(request.delay_seconds, "DelaySeconds", reason)
        return queue.delay_s
    return request.delay_seconds


def _check_delay(delay_s: int | None) -> None:
    if delay_s is not None and not 0 <= delay_s <= DELAY_S_MAX:
        raise out_of_range(delay_s, "DelaySeconds", f"DelaySeconds must be >= 0 and <= {DELAY_S_MAX}.")


def _dedup_id(queue: QueueState, request: OutgoingMessage) -> str | None:
    dedup_id, group_id = request.message_deduplication_id, request.message_group_id
    if queue.fifo and group_id is None:
        raise missing("MessageGroupId")
    for name, value in (("MessageGroupId", group_id), ("MessageDeduplicationId", dedup_id)):
        if value is not None and not _ID.fullmatch(value):
            reason = f"{name} can only include alphanumeric and punctuation characters. 1 to 128 in length."
            raise out_of_range(value[:200], name, reason)
    if dedup_id is not None or not queue.fifo:
        return dedup_id
    if not queue.content_dedup:
        raise invalid(
            "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId"
            " provided explicitly"
        )
    assert request.message_body is not None
    return sha256(request.message_body.encode()).hexdigest()


def _scoped(queue: QueueState, group_id: str, dedup_id: str) -> str:
    """The broker's deduplication id, hashed because an id and a group may be too long together."""
    if not queue.dedup_by_group:
        return dedup_id
    return sha256(f"{group_id}\n{dedup_id}".encode()).hexdigest()


def _check_attributes(attributes: dict[str, AttributeValue]) -> None:
    if len(attributes) > ATTRIBUTES_MAX:
        count = len(attributes)
        raise invalid(
            f"Number of message attributes [{count}] exceeds the allowed maximum [{ATTRIBUTES_MAX}]."
        )
    for name, value in attributes.items():
        if not _ATTRIBUTE.fullmatch(name) or ".." in name:
            raise invalid(
                f"The message attribute name '{name[:256]}' is invalid. Attribute name can contain A-Z, a-z,"
                " 0-9, underscore (_), hyphen (-), and period (.) characters."
            )
        _check_attribute(name, value)


def _check_attribute(name: str, value: AttributeValue) -> None:
    if not value.data_type:
        raise invalid(f"The message attribute '{name}' must contain non-empty message attribute type.")
    kind = value.data_type.partition(".")[0]
    if kind not in ("String", "Number", "Binary") or len(value.data_type) > 256:
        raise invalid(
            f"The message attribute '{name}' has an invalid message attribute type, the set of supported type"
            " prefixes is Binary, Number, and String."
        )
    content = value.binary_value if kind == "Binary" else value.string_value
    if not content:
        raise invalid(
            f"The message attribute '{name}' must contain non-empty message attribute value for message"
            f" attribute type '{value.data_type}'."
        )
    if kind != "Binary":
        value.binary_value = None
        if _NOT_XML.search(value.string_value or ""):
            raise SqsError(
                "InvalidMessageContents", f"Invalid character found in message attribute '{name}'."
            )
    if kind == "Number" and not _NUMBER.fullmatch(value.string_value or ""):
        raise invalid(f"Can't cast the value of message (user) attribute '{name}' to a number.")


def _size(request: OutgoingMessage) -> int:
    """The size by the service's rules: the body, and names, types and values of attributes."""
    size = len((request.message_body or "").encode("utf-8", "surrogatepass"))
    for name, value in request.message_attributes.items():
        size += len(name.encode("utf-8", "surrogatepass")) + len(value.data_type)
        size += len(value.binary_value or b"") + len(
            (value.string_value or "").encode("utf-8", "surrogatepass")
        )
    return size


# The answer.


async def _sent(
    call: SqsCall,
    queue: QueueState,
    request: OutgoingMessage,
    message_id: str,
    receipt: Receipt,
    entry_id: str | None = None,
) -> answers.Sent:
    assert request.message_body is not None
    if receipt.duplicate:
        message_id = await _first_id(call, receipt) or message_id
    number = f"{receipt.offset + 1:020d}" if queue.fifo and receipt.offset is not None else None
    return answers.Sent(
        id=entry_id,
        md5_of_message_body=md5_of(request.message_body.encode()),
        md5_of_message_attributes=md5_of_attributes(request.message_attributes),
        md5_of_message_system_attributes=md5_of_attributes(request.message_system_attributes),
        message_id=message_id,
        sequence_number=number,
    )


async def _first_id(call: SqsCall, receipt: Receipt) -> str | None:
    """The id of the original message; None if it is no longer stored."""
    gateway = call.shared.gateway
    if receipt.offset is not None:
        found = await call.run(gateway.repeated(receipt))
        return found[0].headers.get(records.ID) if found and found[0].offset == receipt.offset else None
    for scheduled in await call.run(gateway.scheduled(receipt.topic, SCHEDULED_MAX)):
        if scheduled.id == receipt.schedule_id:
            return scheduled.headers.get(records.ID)
    return None
