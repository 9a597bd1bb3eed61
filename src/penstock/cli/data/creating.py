"""Reports topics that a command has created implicitly, so that users notice misspelt names."""

from typing import TYPE_CHECKING

from penstock.cli import screen
from penstock.cli.text import counted
from penstock.errors import TopicNotFound

if TYPE_CHECKING:
    from penstock.api.broker import Broker


def is_missing(broker: "Broker", topic: str) -> bool:
    """Whether using the topic now creates it."""
    try:
        broker.describe_topic(topic)
    except TopicNotFound:
        return True
    return False


def tell(broker: "Broker", topic: str) -> None:
    """Say that a topic was created."""
    partitions = broker.describe_topic(topic).settings.partitions
    screen.note(f"created topic {topic}, {counted(partitions, 'partition')}")
