"""Which members of a Kafka group read which topic.

In the newer protocol members send their topics to the broker.  In the classic one they send them to each
other, in bytes whose beginning has a known format (``wire/kafka/subscriptions.py``).
"""

from typing import Final

from penstock.broker.state import KafkaGroup
from penstock.groups.consumers import ConsumerGroup
from penstock.groups.rebalance import JoinRequest
from penstock.wire.kafka.subscriptions import subscribed

CONSUMERS: Final = "consumer"  # The type of protocol whose members read topics; Connect has another.


def readers(group: KafkaGroup) -> dict[str, list[str]]:
    """By topic: the clients among the members that have subscribed to it."""
    found: dict[str, list[str]] = {}
    machine = group.machine
    if isinstance(machine, ConsumerGroup):
        for consumer in machine.describe():
            for topic in machine.topics_of(consumer.member):
                found.setdefault(topic, []).append(consumer.client_id or consumer.member)
    elif machine.protocol_type == CONSUMERS:
        for client, metadata in machine.subscriptions():
            for topic in subscribed(metadata):
                found.setdefault(topic, []).append(client)
    return found


def reads(group: KafkaGroup, topic: str) -> bool:
    """Whether a member has subscribed to a topic, also to one that has just come."""
    machine = group.machine
    return machine.covers(topic) if isinstance(machine, ConsumerGroup) else topic in readers(group)


def joins_for(request: JoinRequest) -> set[str]:
    """The topics for which a member of the classic protocol comes; none if it is no consumer."""
    if request.protocol_type != CONSUMERS:
        return set()
    return {topic for _, metadata in request.protocols for topic in subscribed(metadata)}
