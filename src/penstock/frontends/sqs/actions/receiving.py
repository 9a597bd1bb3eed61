"""ReceiveMessage: leases messages, and waits for the first if asked to.

A long poll whose client disconnects gives its messages back, without counting a receive.  A receive of a
FIFO queue may be repeated with its attempt id for five minutes, as long as its messages are in flight: it
returns the same messages with the same receipt handles, and their visibility timeout restarts.
"""

from typing import Final

from penstock.api.work import Work
from penstock.frontends.http.consumers.registry import HttpConsumer
from penstock.frontends.sqs import records
from penstock.frontends.sqs.attributes import GROUP, NUMBERS, QueueState
from penstock.frontends.sqs.call import SqsCall
from penstock.frontends.sqs.errors import SqsError, invalid, out_of_range
from penstock.frontends.sqs.receipts import ReceiptHandle, read_handle, write_handle
from penstock.wire.native import LeasedBatch
from penstock.wire.records import Record
from penstock.wire.sqs import requests
from penstock.wire.sqs.answers import IncomingMessage, ReceivedMessages
from penstock.wire.sqs.checksums import md5_of, md5_of_attributes
from penstock.wire.sqs.requests import AttributeValue

MESSAGES_MAX: Final = 10
WAIT_S_MAX: Final = 20
VISIBILITY_S_MAX: Final = NUMBERS["VisibilityTimeout"][1]
ATTEMPT_ID_LENGTH_MAX: Final = 128
LEASE_MS: Final = 30_000  # Lease of messages that are due again at once, for the duration of the request.


async def receive_message(call: SqsCall, request: requests.ReceiveMessage) -> ReceivedMessages:
    queue = call.queue(request.queue_url)
    count, wait_s, visibility_s = _limits(queue, request)
    attempt_id = request.receive_request_attempt_id if queue.fifo else None
    if attempt_id is not None:
        again = await _repeated(call, queue, attempt_id, visibility_s)
        if again is not None:
            return again
    batches = await _take(call, queue, count, wait_s, visibility_s * 1000 or LEASE_MS)
    handles = [_handle(batch, record) for batch in batches for record in batch.records]
    if call.lost.gone:
        await call.run_all([_release(call, queue, handle, counts=False) for handle in handles])
        return ReceivedMessages()
    answer = ReceivedMessages(messages=_messages(call, queue, request, batches))
    if visibility_s == 0:
        await call.run_all([_release(call, queue, handle, counts=True) for handle in handles])
    elif attempt_id is not None and handles:
        call.shared.attempts.add(queue.name, attempt_id, answer)
    return answer


def _limits(queue: QueueState, request: requests.ReceiveMessage) -> tuple[int, int, int]:
    """The number of messages, the wait for the first, and the visibility timeout."""
    count = 1 if request.max_number_of_messages is None else request.max_number_of_messages
    if not 1 <= count <= MESSAGES_MAX:
        raise out_of_range(count, "MaxNumberOfMessages", "Must be between 1 and 10, if provided.")
    wait_s = queue.wait_s if request.wait_time_seconds is None else request.wait_time_seconds
    if not 0 <= wait_s <= WAIT_S_MAX:
        raise out_of_range(wait_s, "WaitTimeSeconds", "Must be >= 0 and <= 20, if provided.")
    visibility_s = queue.visibility_s if request.visibility_timeout is None else request.visibility_timeout
    check_visibility(visibility_s)
    if len(request.receive_request_attempt_id or "") > ATTEMPT_ID_LENGTH_MAX:
        raise invalid("ReceiveRequestAttemptId can be at most 128 characters long.")
    return count, wait_s, visibility_s


def check_visibility(seconds: int) -> None:
    if not 0 <= seconds <= VISIBILITY_S_MAX:
        reason = f"VisibilityTimeout must be between 0 and {VISIBILITY_S_MAX}."
        raise out_of_range(seconds, "VisibilityTimeout", reason)


async def _take(
    call: SqsCall, queue: QueueState, count: int, wait_s: int, visibility_ms: int
) -> list[LeasedBatch]:
    if call.shared.draining:
        raise SqsError("ServiceUnavailable", "The server is shutting down.", 503, sender=False)
    consumers = call.shared.consumers
    consumer: HttpConsumer = await consumers.find(call.operations, queue.name, GROUP, visibility_ms)
    if wait_s == 0:
        return await consumers.receive(consumer, count, 0, call.lost)
    with call.long_poll() as long_poll:
        batches = await consumers.receive(consumer, count, wait_s * 1000, call.lost)
    if long_poll.error is not None:
        raise long_poll.error
    return batches


def _release(call: SqsCall, queue: QueueState, handle: ReceiptHandle, *, counts: bool) -> Work[bool]:
    """Give a message back at once."""
    return call.operations.change_visibility(
        queue.name, GROUP, handle.partition, handle.lease, handle.offset, 0, counts, True
    )


# Answers.


def _handle(batch: LeasedBatch, record: Record) -> ReceiptHandle:
    return ReceiptHandle(batch.partition, batch.attempt, batch.lease, record.offset)


def _messages(
    call: SqsCall, queue: QueueState, request: requests.ReceiveMessage, batches: list[LeasedBatch]
) -> list[IncomingMessage]:
    system = frozenset(request.attribute_names + request.message_system_attribute_names)
    wanted = request.message_attribute_names
    return [
        _incoming(call, queue, _handle(batch, record), record, system, wanted)
        for batch in batches
        for record in batch.records
    ]


def _incoming(
    call: SqsCall,
    queue: QueueState,
    handle: ReceiptHandle,
    record: Record,
    system: frozenset[str],
    wanted: list[str],
) -> IncomingMessage:
    first_ms = call.shared.first_received((queue.name, handle.partition, handle.offset), handle.attempt)
    message = records.read_record(queue.name, handle.partition, record)
    attributes = _chosen(message.attributes, wanted) if message.attributes and wanted else {}
    found: dict[str, str] = {}
    if system:
        known = records.system_attributes(message, call.region, handle.attempt, first_ms)
        known["SequenceNumber"] = f"{handle.offset + 1:020d}" if queue.fifo else None
        every = "All" in system
        found = {
            name: value for name, value in known.items() if value is not None and (every or name in system)
        }
    return IncomingMessage(
        message_id=message.message_id,
        receipt_handle=write_handle(queue.topic_id, handle),
        md5_of_body=md5_of(message.body.encode()),
        body=message.body,
        attributes=found,
        md5_of_message_attributes=md5_of_attributes(attributes),
        message_attributes=attributes,
    )


def _chosen(attributes: dict[str, AttributeValue], wanted: list[str]) -> dict[str, AttributeValue]:
    """The attributes that a client requests: by name, by "prefix.*", or all."""
    if "All" in wanted or ".*" in wanted:
        return attributes
    prefixes = tuple(name[:-2] for name in wanted if name.endswith(".*"))
    return {
        name: value
        for name, value in attributes.items()
        if name in wanted or (prefixes and name.startswith(prefixes))
    }


# Repeated receives.


async def _repeated(
    call: SqsCall, queue: QueueState, attempt_id: str, visibility_s: int
) -> ReceivedMessages | None:
    """The earlier answer of an attempt, if all its messages are still in flight."""
    answer = call.shared.attempts.get(queue.name, attempt_id)
    if answer is None:
        return None
    works: list[Work[bool]] = []
    for message in answer.messages:
        handle = read_handle(queue.topic_id, message.receipt_handle)
        if handle is not None:
            works.append(
                call.operations.change_visibility(
                    queue.name,
                    GROUP,
                    handle.partition,
                    handle.lease,
                    handle.offset,
                    max(visibility_s, 1) * 1000,
                    True,
                    True,
                )
            )
    results = await call.run_all(works)
    if len(works) == len(answer.messages) and all(result is True for result in results):
        return answer
    call.shared.attempts.discard(queue.name, attempt_id)
    return None
