"""Actions on queues: create, delete, list, attributes, tags, purge, permissions."""

import json
from typing import Any, Final

from penstock.errors import PenstockError, TopicExists
from penstock.frontends.sqs import attributes as attrs
from penstock.frontends.sqs.attributes import GROUP, QueueState
from penstock.frontends.sqs.call import SqsCall
from penstock.frontends.sqs.errors import SqsError, invalid, missing, no_queue
from penstock.frontends.sqs.names import check_name, is_name
from penstock.wire.sqs import answers, requests

LISTED_MAX: Final = 1000
PURGED_MAX: Final = 10_000  # Delayed messages that are read at a time.
ACTIONS_MAX: Final = 7  # Of one permission.
PERMITTED: Final = frozenset(
    {
        "*", "ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "GetQueueUrl",
        "ListDeadLetterSourceQueues", "PurgeQueue", "ReceiveMessage", "SendMessage",
    }
)  # fmt: skip


async def create_queue(call: SqsCall, request: requests.CreateQueue) -> answers.QueueUrl:
    name = check_name(request.queue_name)
    given = attrs.checked(name, request.attributes)
    if name.endswith(".fifo") and given.get("FifoQueue") != "true":
        raise invalid("Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length")
    known = _known(call, name)
    if known is not None:
        _check_same(known, given)
        return answers.QueueUrl(queue_url=call.queue_url(name))
    _check_target(call, name, given)
    now = str(call.shared.clock.wall_ms() // 1000)
    made = {name: value for name, value in given.items() if value}
    made |= {attrs.CREATED: now, attrs.MODIFIED: now}
    if not await _create(call, name, attrs.with_tags(made, request.tags)):
        _check_same(call.shared.state(call.operations, name), given)
    return answers.QueueUrl(queue_url=call.queue_url(name))


def _known(call: SqsCall, name: str) -> QueueState | None:
    if not call.operations.topic_exists(name):
        return None
    try:
        return call.shared.state(call.operations, name)
    except SqsError:  # A topic that is not a queue yet.
        return None


def _check_same(known: QueueState, given: dict[str, str]) -> None:
    before = attrs.shown(known.attributes)
    for attribute, value in given.items():
        if before.get(attribute, "") != value:
            raise SqsError(
                "QueueNameExists",
                f"A queue already exists with the same name and a different value for attribute {attribute}",
            )


async def _create(call: SqsCall, name: str, attributes: dict[str, str]) -> bool:
    """Create the topic; returns whether this request did so, or another one was first."""
    adopted = {**attributes, attrs.ADOPTED: "true"}
    if call.operations.topic_exists(name):
        await call.run(call.operations.alter_topic(name, attrs.adopted_options(adopted)))
        attributes = adopted
    else:
        try:
            await call.run(call.operations.create_topic(name, attrs.new_topic_options(attributes)))
        except TopicExists:
            return False
    options = attrs.group_options(attributes)
    await call.run(call.operations.create_group(name, GROUP, {**options, "start": "earliest"}))
    return True


def _check_target(call: SqsCall, name: str, attributes: dict[str, str]) -> None:
    """Refuse a redrive policy whose dead-letter queue does not exist, or is of another type."""
    text = attributes.get("RedrivePolicy")
    if not text:
        return
    target = attrs.dead_letter_target(attributes)
    arn = json.loads(text)["deadLetterTargetArn"]
    known = None if target is None else _known(call, target[0])
    if known is None:
        raise SqsError("QueueDoesNotExist", f"Could not find DLQ for {str(arn)[:200]}")
    if known.fifo != name.endswith(".fifo"):
        kind = "Fifo queues cannot use non fifo" if not known.fifo else "Non fifo queues cannot use fifo"
        raise SqsError("InvalidParameterCombination", f"{kind} dead letter queues")


async def delete_queue(call: SqsCall, request: requests.DeleteQueue) -> answers.SqsAnswer:
    queue = call.queue(request.queue_url)
    if attrs.ADOPTED in queue.attributes:
        await call.run(call.operations.delete_group(queue.name, GROUP))
        await call.run(call.operations.alter_topic(queue.name, {"sqs_attributes": {}}))
    else:
        await call.run(call.operations.delete_topic(queue.name))
    return answers.SqsAnswer()


async def get_queue_url(call: SqsCall, request: requests.GetQueueUrl) -> answers.QueueUrl:
    if request.queue_name is None:
        raise missing("QueueName")
    if not is_name(request.queue_name):
        raise no_queue()
    return answers.QueueUrl(
        queue_url=call.queue_url(call.shared.state(call.operations, request.queue_name).name)
    )


def queue_names(call: SqsCall, prefix: str = "") -> list[str]:
    """The queues that the caller may see."""
    names = [name for name in call.operations.topics() if name.startswith(prefix) and is_name(name)]
    return [name for name in names if _known(call, name) is not None]


async def list_queues(call: SqsCall, request: requests.ListQueues) -> answers.QueueUrls:
    names, token = _page(
        queue_names(call, request.queue_name_prefix), request.next_token, request.max_results
    )
    return answers.QueueUrls(queue_urls=[call.queue_url(name) for name in names], next_token=token)


async def list_dead_letter_source_queues(
    call: SqsCall, request: requests.ListDeadLetterSourceQueues
) -> answers.SourceQueues:
    queue = call.queue(request.queue_url)
    names, token = _page(sources_of(call, queue.name), request.next_token, request.max_results)
    return answers.SourceQueues(queue_urls=[call.queue_url(name) for name in names], next_token=token)


def sources_of(call: SqsCall, name: str) -> list[str]:
    """The queues whose dead letters go to a queue."""
    found = []
    for each in queue_names(call):
        target = attrs.dead_letter_target(call.shared.state(call.operations, each).attributes)
        if target is not None and target[0] == name:
            found.append(each)
    return found


def _page(names: list[str], token: str | None, limit: int | None) -> tuple[list[str], str | None]:
    """Names after the one in the token; and a token for the rest, if the client asked for pages."""
    if limit is not None and not 1 <= limit <= LISTED_MAX:
        raise invalid(
            f"Value for parameter MaxResults is invalid. Reason: must be between 1 and {LISTED_MAX}."
        )
    left = [name for name in names if token is None or name > token]
    page = left[: limit or LISTED_MAX]
    more = limit is not None and len(left) > len(page)
    return page, page[-1] if more else None


async def get_queue_attributes(
    call: SqsCall, request: requests.GetQueueAttributes
) -> answers.QueueAttributes:
    queue = call.queue(request.queue_url)
    wanted = request.attribute_names
    for name in wanted:
        if name not in attrs.KNOWN:
            raise SqsError("InvalidAttributeName", f"Unknown Attribute {name}.")
    if not wanted:
        return answers.QueueAttributes()
    found = attrs.shown(queue.attributes)
    found["QueueArn"] = call.arn(queue.name)
    if "All" in wanted or any(name in wanted for name in attrs.COUNTS):
        found |= await counts(call, queue.name)
    if "All" not in wanted:
        found = {name: found[name] for name in wanted if name in found}
    return answers.QueueAttributes(attributes=found)


async def counts(call: SqsCall, name: str) -> dict[str, str]:
    """The number of messages of a queue, by state."""
    group = await call.run(call.operations.describe_group(name, GROUP))
    delayed = await call.run(call.operations.scheduled_count(name))
    numbers = (max(group.lag - group.in_flight, 0), group.in_flight, delayed)
    return {attribute: str(number) for attribute, number in zip(attrs.COUNTS, numbers, strict=True)}


async def set_queue_attributes(call: SqsCall, request: requests.SetQueueAttributes) -> answers.SqsAnswer:
    queue = call.queue(request.queue_url)
    given = attrs.checked(queue.name, request.attributes)
    if given.get("FifoQueue", queue.attributes.get("FifoQueue")) != queue.attributes.get("FifoQueue"):
        raise SqsError("InvalidAttributeValue", "Invalid value for the parameter FifoQueue.")
    _check_target(call, queue.name, given)
    await _change(call, queue, {**queue.attributes, **given})
    return answers.SqsAnswer()


async def _change(call: SqsCall, queue: QueueState, changed: dict[str, str]) -> None:
    kept = {name: value for name, value in changed.items() if value or name.startswith(attrs.TAG)}
    kept[attrs.MODIFIED] = str(call.shared.clock.wall_ms() // 1000)
    adopted = attrs.ADOPTED in kept
    options = attrs.adopted_options(kept) if adopted else attrs.topic_options(kept)
    await call.run(call.operations.alter_topic(queue.name, options))
    if attrs.group_options(kept) != attrs.group_options(queue.attributes):
        await call.run(call.operations.create_group(queue.name, GROUP, attrs.group_options(kept)))


async def purge_queue(call: SqsCall, request: requests.PurgeQueue) -> answers.SqsAnswer:
    """Delete all messages sent before, including those in flight or delayed."""
    queue = call.queue(request.queue_url)
    while delayed := await call.run(call.operations.scheduled(queue.name, PURGED_MAX)):
        for result in await call.run_all([call.operations.cancel(message.id) for message in delayed]):
            if isinstance(result, PenstockError):
                raise result  # The message still exists: the loop would not end.
    await call.run(call.operations.seek(queue.name, GROUP, "latest", None))
    return answers.SqsAnswer()


# Tags.


async def tag_queue(call: SqsCall, request: requests.TagQueue) -> answers.SqsAnswer:
    queue = call.queue(request.queue_url)
    if not request.tags:
        raise missing("Tags")
    if len(request.tags) > attrs.TAGS_MAX:
        raise invalid(f"Too many tags added for queue {queue.name}.")
    await _change(call, queue, attrs.with_tags(queue.attributes, request.tags))
    return answers.SqsAnswer()


async def untag_queue(call: SqsCall, request: requests.UntagQueue) -> answers.SqsAnswer:
    queue = call.queue(request.queue_url)
    if not request.tag_keys:
        raise invalid("Tag keys must be between 1 and 128 characters in length.")
    gone = {attrs.TAG + name for name in request.tag_keys}
    await _change(call, queue, {name: value for name, value in queue.attributes.items() if name not in gone})
    return answers.SqsAnswer()


async def list_queue_tags(call: SqsCall, request: requests.ListQueueTags) -> answers.QueueTags:
    return answers.QueueTags(tags=attrs.tags_of(call.queue(request.queue_url).attributes))


# Permissions: statements of the policy, which is stored.  Grants of keys say who may do what.


async def add_permission(call: SqsCall, request: requests.AddPermission) -> answers.SqsAnswer:
    queue = call.queue(request.queue_url)
    _check_permission(request)
    policy = _policy(call, queue)
    if any(statement.get("Sid") == request.label for statement in policy["Statement"]):
        raise invalid(f"Value {request.label} for parameter Label is invalid. Reason: Already exists.")
    principals = [f"arn:aws:iam::{account}:root" for account in request.account_ids]
    actions = [f"SQS:{action}" for action in request.actions]
    statement = {
        "Sid": request.label,
        "Effect": "Allow",
        "Principal": {"AWS": principals[0] if len(principals) == 1 else principals},
        "Action": actions[0] if len(actions) == 1 else actions,
        "Resource": call.arn(queue.name),
    }
    policy["Statement"] = [*policy["Statement"], statement]
    await _change(call, queue, {**queue.attributes, "Policy": json.dumps(policy)})
    return answers.SqsAnswer()


def _check_permission(request: requests.AddPermission) -> None:
    if not request.actions:
        raise missing("Actions")
    if not request.account_ids:
        raise invalid("Value [] for parameter PrincipalId is invalid. Reason: Unable to verify.")
    if len(request.actions) > ACTIONS_MAX:
        message = f"{len(request.actions)} Actions were found, maximum allowed is {ACTIONS_MAX}."
        raise SqsError("OverLimit", message, 403)
    for action in request.actions:
        if action not in PERMITTED:
            reason = "Only the queue owner is allowed to invoke this action."
            raise invalid(f"Value SQS:{action} for parameter ActionName is invalid. Reason: {reason}")


async def remove_permission(call: SqsCall, request: requests.RemovePermission) -> answers.SqsAnswer:
    queue = call.queue(request.queue_url)
    policy = _policy(call, queue)
    left = [statement for statement in policy["Statement"] if statement.get("Sid") != request.label]
    if len(left) == len(policy["Statement"]):
        reason = "can't find label on existing policy."
        raise invalid(f"Value {request.label} for parameter Label is invalid. Reason: {reason}")
    policy["Statement"] = left
    await _change(call, queue, {**queue.attributes, "Policy": json.dumps(policy) if left else ""})
    return answers.SqsAnswer()


def _policy(call: SqsCall, queue: QueueState) -> dict[str, Any]:
    text = queue.attributes.get("Policy")
    policy: dict[str, Any] = json.loads(text) if text else {"Version": "2012-10-17"}
    policy.setdefault("Id", f"{call.arn(queue.name)}/SQSDefaultPolicy")
    statements = policy.get("Statement", [])
    policy["Statement"] = (
        [each for each in statements if isinstance(each, dict)] if isinstance(statements, list) else []
    )
    return policy
