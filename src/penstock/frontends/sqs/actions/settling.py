"""DeleteMessage and ChangeMessageVisibility, and their batches.

A standard queue takes any receipt handle of a message, also an older one, as the service does.  A FIFO queue
takes a handle only as long as the message is in flight with it.
"""

from collections.abc import Sequence
from typing import Any

from penstock.api.work import Work
from penstock.errors import PenstockError
from penstock.frontends.sqs.actions.receiving import check_visibility
from penstock.frontends.sqs.actions.sending import batch_error, check_entries
from penstock.frontends.sqs.attributes import GROUP, QueueState
from penstock.frontends.sqs.call import SqsCall
from penstock.frontends.sqs.errors import SqsError, missing, of_broker, out_of_range
from penstock.frontends.sqs.receipts import ReceiptHandle, read_handle
from penstock.wire.sqs import answers, requests

INVALID = "ReceiptHandleIsInvalid"


async def delete_message(call: SqsCall, request: requests.DeleteMessage) -> answers.SqsAnswer:
    queue = call.queue(request.queue_url)
    handle = _handle(queue, request.receipt_handle)
    if not await call.run(_delete(call, queue, handle)):
        raise _expired(request.receipt_handle)
    call.shared.firsts.pop((queue.name, handle.partition, handle.offset), None)
    return answers.SqsAnswer()


async def delete_message_batch(call: SqsCall, request: requests.DeleteMessageBatch) -> answers.BatchResult:
    queue = call.queue(request.queue_url)
    check_entries([entry.id for entry in request.entries], "Delete")
    return await _batch(
        call, queue, request.entries, lambda _, handle: _delete(call, queue, handle), _expired
    )


async def change_message_visibility(
    call: SqsCall, request: requests.ChangeMessageVisibility
) -> answers.SqsAnswer:
    queue = call.queue(request.queue_url)
    if request.visibility_timeout is None:
        raise missing("VisibilityTimeout")
    check_visibility(request.visibility_timeout)
    handle = _handle(queue, request.receipt_handle)
    if not await call.run(_retime(call, queue, handle, request.visibility_timeout)):
        raise _not_in_flight(request.receipt_handle)
    return answers.SqsAnswer()


async def change_message_visibility_batch(
    call: SqsCall, request: requests.ChangeMessageVisibilityBatch
) -> answers.BatchResult:
    queue = call.queue(request.queue_url)
    check_entries([entry.id for entry in request.entries], "ChangeVisibility")

    def begin(entry: requests.ChangeVisibilityEntry, handle: ReceiptHandle) -> Work[bool]:
        if entry.visibility_timeout is None:
            raise missing("VisibilityTimeout")
        check_visibility(entry.visibility_timeout)
        return _retime(call, queue, handle, entry.visibility_timeout)

    return await _batch(call, queue, request.entries, begin, _not_in_flight)


def _delete(call: SqsCall, queue: QueueState, handle: ReceiptHandle) -> Work[bool]:
    return call.operations.ack_by_lease(
        queue.name, GROUP, handle.partition, handle.lease, handle.offset, queue.fifo
    )


def _retime(call: SqsCall, queue: QueueState, handle: ReceiptHandle, seconds: int) -> Work[bool]:
    return call.operations.change_visibility(
        queue.name, GROUP, handle.partition, handle.lease, handle.offset, seconds * 1000, True, queue.fifo
    )


async def _batch(
    call: SqsCall, queue: QueueState, entries: Sequence[Any], begin: Any, refused: Any
) -> answers.BatchResult:
    """Settle the entries independently."""
    errors: dict[str, SqsError] = {}
    begun: list[tuple[Any, Work[bool]]] = []
    for entry in entries:
        try:
            begun.append((entry, begin(entry, _handle(queue, entry.receipt_handle, named=True))))
        except SqsError as error:
            errors[entry.id] = error
    results = await call.run_all([work for _, work in begun])
    for (entry, _), result in zip(begun, results, strict=True):
        if isinstance(result, PenstockError):
            errors[entry.id] = of_broker(result)
        elif not result:
            errors[entry.id] = refused(entry.receipt_handle)
    return answers.BatchResult(
        successful=[answers.BatchEntry(id=entry.id) for entry in entries if entry.id not in errors],
        failed=[batch_error(entry.id, errors[entry.id]) for entry in entries if entry.id in errors],
    )


def _handle(queue: QueueState, text: str | None, *, named: bool = False) -> ReceiptHandle:
    if not text:
        raise missing("ReceiptHandle")
    handle = read_handle(queue.topic_id, text)
    if handle is None:
        if named:
            raise SqsError(
                INVALID, f'The input receipt handle "{text[:1024]}" is not a valid receipt handle.'
            )
        raise SqsError(INVALID, "The input receipt handle is invalid.")
    return handle


def _expired(handle: str | None) -> SqsError:
    return out_of_range(handle, "ReceiptHandle", "The receipt handle has expired.")


def _not_in_flight(handle: str | None) -> SqsError:
    reason = "Message does not exist or is not available for visibility timeout change."
    return SqsError("MessageNotInflight", out_of_range(handle, "ReceiptHandle", reason).message)
