"""Penstock: a durable log you can work like a queue and query like a table.

The public names and nothing else; everything below the top level is free to change.
"""

from penstock import aio
from penstock.broker.broker import Broker, Queue, TopicHandle
from penstock.broker.core import PartitionInfo, TopicInfo
from penstock.broker.dead_letters import DeadLetter, Redrive
from penstock.broker.groups import GroupInfo, PartitionLag
from penstock.broker.handles import Consumer, Producer
from penstock.broker.schedules import ScheduledMessage
from penstock.broker.tracing import Trace, TraceEvent
from penstock.config import BrokerConfig, GroupOptions, GroupSettings, TopicOptions, TopicSettings
from penstock.errors import PenstockError
from penstock.message import Message, Receipt, ReceivedMessage, StoredMessage
from penstock.version import __version__

open = Broker.open  # noqa: A001 - penstock.open("data") is how a user says it.

__all__ = [
    "Broker",
    "BrokerConfig",
    "Consumer",
    "DeadLetter",
    "GroupInfo",
    "GroupOptions",
    "GroupSettings",
    "Message",
    "PartitionInfo",
    "PartitionLag",
    "PenstockError",
    "Producer",
    "Queue",
    "Receipt",
    "ReceivedMessage",
    "Redrive",
    "ScheduledMessage",
    "StoredMessage",
    "TopicHandle",
    "TopicInfo",
    "TopicOptions",
    "TopicSettings",
    "Trace",
    "TraceEvent",
    "__version__",
    "aio",
    "open",
]
