"""Who of a Kafka group reads which topic.

In the newer protocol members say so to the broker.  In the classic one they say it to each
other, in bytes whose beginning is known (``wire/kafka/subscriptions.py``).
"""

from penstock.broker.state import MemberGroup
from penstock.groups.consumers import ConsumerGroup
from penstock.wire.kafka.subscriptions import subscribed


def readers(group: MemberGroup) -> dict[str, list[str]]:
    """By topic: the clients among the members that have subscribed to it."""
    found: dict[str, list[str]] = {}
    machine = group.machine
    if isinstance(machine, ConsumerGroup):
        for consumer in machine.describe():
            for topic in machine.topics_of(consumer.member):
                found.setdefault(topic, []).append(consumer.client_id or consumer.member)
    elif machine.protocol_type == "consumer":
        for member in machine.describe():
            for topic in subscribed(member.metadata):
                found.setdefault(topic, []).append(member.client_id or member.member)
    return found
