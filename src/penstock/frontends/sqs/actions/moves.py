"""Message move tasks: from a dead-letter queue back to where its messages were, or to another queue.

Each message is deleted from the source and sent to the target atomically (``ack_and_publish``), so a crash
neither loses nor duplicates it.  It keeps its id, attributes and message group.

Without a destination, messages go only to queues whose dead-letter queue is the source, regardless of their
headers; others stay.  A task ends when the key that started it is revoked or changed.
"""

import asyncio
import logging
from base64 import urlsafe_b64encode
from typing import Final
from uuid import uuid4

import msgspec

from penstock.broker.frontend import BatchConsumer
from penstock.errors import PenstockError
from penstock.frontends.public import public
from penstock.frontends.sqs.actions.queues import counts, sources_of
from penstock.frontends.sqs.attributes import GROUP
from penstock.frontends.sqs.call import SqsCall
from penstock.frontends.sqs.errors import SqsError, invalid, missing
from penstock.frontends.sqs.names import name_of_arn
from penstock.frontends.sqs.records import letter_content
from penstock.frontends.sqs.tasks import MoveTask
from penstock.model.message import Message
from penstock.operations.consumers import ConsumerOptions
from penstock.wire.native import LeasedBatch
from penstock.wire.records import Record
from penstock.wire.sqs import answers, requests

BATCH: Final = 10
RATE_MAX: Final = 500
LISTED_MAX: Final = 10
VISIBILITY: Final = "10m"  # Longer than a batch takes at the lowest rate.

logger = logging.getLogger("penstock")


async def start_message_move_task(
    call: SqsCall, request: requests.StartMessageMoveTask
) -> answers.MoveTaskHandle:
    if not request.source_arn:
        raise missing("SourceArn")
    source = _queue(call, request.source_arn)
    destination = None if request.destination_arn is None else _queue(call, request.destination_arn)
    if destination == source:
        raise invalid("Value for parameter DestinationArn is invalid. Reason: must not be the source queue.")
    rate = request.max_number_of_messages_per_second
    if rate is not None and not 1 <= rate <= RATE_MAX:
        raise invalid(
            f"Value for parameter MaxNumberOfMessagesPerSecond is invalid. Reason: must be 1 to {RATE_MAX}."
        )
    sources = sources_of(call, source)
    if not sources:
        raise invalid("Source queue must be configured as a Dead Letter Queue.")
    if any(task.active for task in call.shared.moves.of_source(source)):
        raise invalid(
            "There is already a task running. Only one active task is allowed for a source queue arn at a"
            " given time."
        )
    if call.shared.moves.full:
        raise SqsError("OverLimit", "Too many message move tasks are running.", 403)
    waiting = int((await counts(call, source))["ApproximateNumberOfMessages"])
    named = msgspec.json.encode({"taskId": str(uuid4()), "sourceArn": call.arn(source)})
    handle = urlsafe_b64encode(named).decode()
    targets = frozenset(sources) - {source} if destination is None else frozenset({destination})
    operations = call.shared.gateway.operations(call.identity)  # Raises if the key was revoked.
    started_ms = call.shared.clock.wall_ms()
    task = MoveTask(handle, source, destination, targets, rate, waiting, started_ms, operations)
    call.shared.moves.start(task, _move(call, task))
    return answers.MoveTaskHandle(task_handle=handle)


async def cancel_message_move_task(
    call: SqsCall, request: requests.CancelMessageMoveTask
) -> answers.MovedCount:
    if not request.task_handle:
        raise missing("TaskHandle")
    task = call.shared.moves.find(request.task_handle)
    if task is None:
        raise SqsError("ResourceNotFoundException", "The task handle is not valid.", 404)
    # Checks that the caller may consume from the source; what it returns is not run.
    call.operations.ack_by_lease(task.source, GROUP, 0, 0, 0, True).close()
    if not task.active:
        raise invalid("Only active tasks can be cancelled.")
    task.status = "CANCELLING"
    return answers.MovedCount(approximate_number_of_messages_moved=task.moved)


async def list_message_move_tasks(
    call: SqsCall, request: requests.ListMessageMoveTasks
) -> answers.MoveTaskList:
    if not request.source_arn:
        raise missing("SourceArn")
    source = _queue(call, request.source_arn)
    limit = 1 if request.max_results is None else request.max_results
    if not 1 <= limit <= LISTED_MAX:
        raise invalid(
            f"Value for parameter MaxResults is invalid. Reason: must be between 1 and {LISTED_MAX}."
        )
    return answers.MoveTaskList(
        results=[_entry(call, task) for task in call.shared.moves.of_source(source)[:limit]]
    )


def _entry(call: SqsCall, task: MoveTask) -> answers.MoveTaskEntry:
    return answers.MoveTaskEntry(
        task_handle=task.handle if task.active else None,
        status=task.status,
        source_arn=call.arn(task.source),
        destination_arn=None if task.destination is None else call.arn(task.destination),
        max_number_of_messages_per_second=task.rate,
        approximate_number_of_messages_moved=task.moved,
        approximate_number_of_messages_to_move=task.to_move,
        failure_reason=task.failure,
        started_timestamp=task.started_ms,
    )


def _queue(call: SqsCall, arn: str) -> str:
    name = name_of_arn(arn)
    if name is not None and call.operations.topic_exists(name):
        return call.shared.state(call.operations, name).name
    message = "The resource that you specified for the SourceArn or DestinationArn parameter doesn't exist."
    raise SqsError("ResourceNotFoundException", message, 404)


async def _move(call: SqsCall, task: MoveTask) -> None:
    """Move messages until the queue is empty; messages without a valid target stay."""
    try:
        options = ConsumerOptions(
            consumer_id=f"move-{uuid4().hex[:8]}", group={"visibility_timeout": VISIBILITY}
        )
        work = call.operations.batch_consumer(task.source, GROUP, options)
        consumer = await call.run(work)
        consumer.want_records()
        consumer.want_single_leases()
        try:
            while task.status == "RUNNING" and await _move_some(call, task, consumer):
                pass
        finally:
            await call.run(consumer.close())
        task.end()
    except PenstockError as error:
        task.fail(str(public(error)))
    except Exception:
        task.fail("an unexpected error")
        logger.exception("moving messages of %s failed", task.source)


async def _move_some(call: SqsCall, task: MoveTask, consumer: BatchConsumer) -> bool:
    """Move some messages; returns whether there were any."""
    batches: list[LeasedBatch] = await call.run(consumer.receive(BATCH, 0))
    for batch in batches:
        for record in batch.records:
            if task.status != "RUNNING":
                return False
            target, message = _moved(task, record)
            if target in task.targets and call.operations.topic_exists(target):
                run = (batch.partition, batch.lease, record.offset, record.offset + 1)
                await call.run(consumer.ack_and_publish([run], [(target, message)]))
                task.moved += 1
                if task.rate is not None:
                    await asyncio.sleep(1 / task.rate)
    return bool(batches)


def _moved(task: MoveTask, record: Record) -> tuple[str, Message]:
    headers, source = letter_content(record)
    message = Message(record.value, record.key, {name: value or b"" for name, value in headers})
    return task.destination or source or "", message
