"""Queue attributes, and the settings of topic and group that derive from them.

    attribute                        setting
    VisibilityTimeout                group: visibility_timeout
    RedrivePolicy                    topic: dead_letter_topic; group: max_attempts
    MessageRetentionPeriod           topic: retention, ttl
    MaximumMessageSize               topic: message_bytes_max, with room for the headers
    FifoQueue                        group: ordered, with the message group as the key
    DelaySeconds, ...WaitTime...     applied by this front end to each request
    all others, and tags             stored and returned

All of them are stored as they are in the topic's ``sqs_attributes``, which also make a topic a queue.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from penstock.config.broker import QUEUE_PARTITIONS, GroupOptions, TopicOptions
from penstock.frontends.sqs.errors import SqsError, invalid
from penstock.frontends.sqs.names import FIFO, name_of_arn

GROUP: Final = "sqs"  # The group of every queue.
TAG: Final = "tag:"  # Before the names of tags, in the stored attributes.
TAGS_MAX: Final = 50
CREATED: Final = "CreatedTimestamp"
MODIFIED: Final = "LastModifiedTimestamp"
ADOPTED: Final = "adopted"  # The topic existed before the queue, and stays when the queue is deleted.
RECEIVES_MAX: Final = 1000  # The largest maxReceiveCount, and the deliveries of a queue without a policy.
OVERHEAD_BYTES: Final = 64 * 1024  # Of headers beside a message; dead letters have the most.
MESSAGE_BYTES_MAX: Final = 1024 * 1024

NUMBERS: Final = {
    "DelaySeconds": (0, 900, "0"),
    "MaximumMessageSize": (1024, MESSAGE_BYTES_MAX, str(MESSAGE_BYTES_MAX)),
    "MessageRetentionPeriod": (1, 1_209_600, "345600"),  # At least 60 in the service; 1 is useful in tests.
    "ReceiveMessageWaitTimeSeconds": (0, 20, "0"),
    "VisibilityTimeout": (0, 43_200, "30"),
    "KmsDataKeyReusePeriodSeconds": (60, 86_400, "300"),
}
CHOICES: Final = {
    "DeduplicationScope": ("queue", "messageGroup"),
    "FifoThroughputLimit": ("perQueue", "perMessageGroupId"),
}
POLICIES: Final = ("Policy", "RedrivePolicy", "RedriveAllowPolicy")
FLAGS: Final = ("FifoQueue", "ContentBasedDeduplication", "SqsManagedSseEnabled")
OF_FIFO: Final = ("ContentBasedDeduplication", *CHOICES)
SETTABLE: Final = frozenset({*NUMBERS, *CHOICES, *POLICIES, *FLAGS, "KmsMasterKeyId"})
COUNTS: Final = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)
KNOWN: Final = SETTABLE | {*COUNTS, CREATED, MODIFIED, "QueueArn", "All"}


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as its requests need it."""

    name: str
    topic_id: bytes
    attributes: Mapping[str, str]  # As they are stored.
    fifo: bool
    content_dedup: bool
    dedup_by_group: bool
    delay_s: int
    wait_s: int
    visibility_s: int
    message_bytes_max: int


def is_queue(name: str, attributes: Mapping[str, str]) -> bool:
    """Whether the attributes of a topic were stored by this front end, which makes it a queue."""
    if CREATED not in attributes or MODIFIED not in attributes:
        return False
    try:
        checked(name, {each: value for each, value in attributes.items() if each in SETTABLE})
    except SqsError:
        return False
    return True


def state_of(name: str, topic_id: bytes, attributes: Mapping[str, str]) -> QueueState:
    return QueueState(
        name=name,
        topic_id=topic_id,
        attributes=attributes,
        fifo=attributes.get("FifoQueue") == "true",
        content_dedup=attributes.get("ContentBasedDeduplication") == "true",
        dedup_by_group=attributes.get("DeduplicationScope") == "messageGroup",
        delay_s=number(attributes, "DelaySeconds"),
        wait_s=number(attributes, "ReceiveMessageWaitTimeSeconds"),
        visibility_s=number(attributes, "VisibilityTimeout"),
        message_bytes_max=number(attributes, "MaximumMessageSize"),
    )


def number(attributes: Mapping[str, str], name: str) -> int:
    return int(attributes.get(name, NUMBERS[name][2]))


def checked(name: str, given: Mapping[str, str]) -> dict[str, str]:
    """The stored form of attributes that a client sets; an empty text removes one."""
    found: dict[str, str] = {}
    for raw, value in given.items():
        attribute = raw.strip()
        if attribute not in SETTABLE:
            raise SqsError("InvalidAttributeName", f"Unknown Attribute {attribute}.")
        found[attribute] = _checked(attribute, value)
    if found.get("FifoQueue") == "true" and not name.endswith(FIFO):
        raise invalid(
            "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must"
            " end with .fifo suffix and be 1 to 80 in length."
        )
    if found.get("FifoQueue") != "true":
        found.pop("FifoQueue", None)
    return found


def _checked(attribute: str, value: str) -> str:
    if attribute in NUMBERS:
        low, high, _ = NUMBERS[attribute]
        if not (value.isascii() and value.isdigit() and len(value) < 9 and low <= int(value) <= high):
            raise SqsError("InvalidAttributeValue", f"Invalid value for the parameter {attribute}.")
        return str(int(value))
    if attribute in CHOICES and value not in CHOICES[attribute]:
        raise SqsError("InvalidAttributeValue", f"Invalid value for the parameter {attribute}.")
    if attribute in FLAGS:
        return "true" if value.lower() == "true" else "false"
    if attribute in POLICIES and value:
        return _policy(attribute, value)
    return value


def _policy(attribute: str, value: str) -> str:
    try:
        policy = json.loads(value)
    except (ValueError, RecursionError):
        policy = None
    if not isinstance(policy, dict):
        if attribute == "RedrivePolicy":
            raise invalid("Redrive policy is not a dict or valid json")
        raise SqsError("InvalidAttributeValue", f"Invalid value for the parameter {attribute}.")
    if attribute != "RedrivePolicy":
        return value
    return redrive_policy(policy) if policy else ""


def redrive_policy(policy: dict[str, Any]) -> str:
    """The stored form of a redrive policy."""
    for part in ("deadLetterTargetArn", "maxReceiveCount"):
        if part not in policy:
            raise invalid(f"Redrive policy does not contain {part}")
    text = str(policy["maxReceiveCount"])
    if not text.isascii() or not text.isdigit() or len(text) > 4 or not 1 <= int(text) <= RECEIVES_MAX:
        raise invalid(
            f"Value {json.dumps(policy)[:200]} for parameter RedrivePolicy is invalid. Reason: Invalid value"
            f" for maxReceiveCount: {text[:20]}, valid values are from 1 to {RECEIVES_MAX} both inclusive."
        )
    return json.dumps({**policy, "maxReceiveCount": int(text)})


def dead_letter_target(attributes: Mapping[str, str]) -> tuple[str, int] | None:
    """The dead-letter queue of a queue, if it has one, and the maximum number of receives."""
    text = attributes.get("RedrivePolicy")
    if not text:
        return None
    policy = json.loads(text)
    name = name_of_arn(policy["deadLetterTargetArn"])
    return None if name is None else (name, policy["maxReceiveCount"])


def topic_options(attributes: Mapping[str, str]) -> TopicOptions:
    """The settings of a topic that was created as a queue."""
    kept = f"{number(attributes, 'MessageRetentionPeriod')}s"
    target = dead_letter_target(attributes)
    return {
        "retention": kept,
        "ttl": kept,
        "message_bytes_max": number(attributes, "MaximumMessageSize") + OVERHEAD_BYTES,
        "dead_letter_topic": "" if target is None else target[0],
        "sqs_attributes": dict(attributes),
    }


def new_topic_options(attributes: Mapping[str, str]) -> TopicOptions:
    return {**topic_options(attributes), "partitions": QUEUE_PARTITIONS}


def adopted_options(attributes: Mapping[str, str]) -> TopicOptions:
    """The settings that a queue changes of an existing topic."""
    target = dead_letter_target(attributes)
    options: TopicOptions = {"sqs_attributes": dict(attributes)}
    if target is not None:
        options["dead_letter_topic"] = target[0]
    return options


def group_options(attributes: Mapping[str, str]) -> GroupOptions:
    target = dead_letter_target(attributes)
    return {
        "kind": "queue",
        "visibility_timeout": f"{max(number(attributes, 'VisibilityTimeout'), 1)}s",
        "max_attempts": RECEIVES_MAX if target is None else target[1],
        "dead_letter": True,
        "delivery": "at-least-once",
        "ordered": attributes.get("FifoQueue") == "true",
    }


def tags_of(attributes: Mapping[str, str]) -> dict[str, str]:
    return {name[len(TAG) :]: value for name, value in attributes.items() if name.startswith(TAG)}


def with_tags(attributes: Mapping[str, str], tags: Mapping[str, str]) -> dict[str, str]:
    made = {**attributes, **{TAG + name: value for name, value in tags.items()}}
    if len(tags_of(made)) > TAGS_MAX:
        raise invalid(f"Too many tags added for queue. A queue has at most {TAGS_MAX} tags.")
    if any(not 1 <= len(name) <= 128 or len(value) > 256 for name, value in tags.items()):
        raise invalid("Tag keys must be between 1 and 128 characters in length, and values at most 256.")
    return made


def shown(attributes: Mapping[str, str]) -> dict[str, str]:
    """The attributes that a client may see, without counts and ARN."""
    found = {name: attributes.get(name, default) for name, (_, _, default) in NUMBERS.items()}
    if "KmsMasterKeyId" not in attributes:
        del found["KmsDataKeyReusePeriodSeconds"]
    if attributes.get("FifoQueue") == "true":
        found |= {"FifoQueue": "true", "ContentBasedDeduplication": "false"}
        found |= {name: choices[0] for name, choices in CHOICES.items()}
    others = {
        name: value
        for name, value in attributes.items()
        if name in SETTABLE and (name not in OF_FIFO or "FifoQueue" in attributes)
    }
    found |= {"SqsManagedSseEnabled": "false", **others}
    found |= {name: attributes[name] for name in (CREATED, MODIFIED)}
    return {name: value for name, value in found.items() if value}
