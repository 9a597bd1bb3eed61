"""Penstock: a durable log you can work like a queue and query like a table.

The public names and nothing else; everything below the top level is free to
change.  A name is imported when it is first used, so a program that only
needs a client, or pytest looking for plugins, does not load the broker.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.version import __version__

if TYPE_CHECKING:
    import penstock.aio as aio
    import penstock.errors as errors
    import penstock.spark as spark
    import penstock.testing as testing
    from penstock.api.broker import Broker, Queue, TopicHandle
    from penstock.api.handles import Consumer, Producer
    from penstock.broker.embedded import EmbeddedBroker
    from penstock.client.sync import connect
    from penstock.config.broker import BrokerConfig, GroupOptions, GroupSettings, TopicOptions, TopicSettings
    from penstock.model.access import Grant, KeyInfo, NewKey, Quota, UserInfo
    from penstock.model.info import (
        BrokerInfo,
        DeadLetter,
        DeadLetterErrors,
        GroupInfo,
        GroupRates,
        PartitionInfo,
        PartitionLag,
        Redrive,
        ScheduledMessage,
        TopicInfo,
        Unacked,
        Verdict,
    )
    from penstock.model.message import Message, Receipt, ReceivedMessage, StoredMessage
    from penstock.model.trace import Trace, TraceEvent
    from penstock.workers.app import App
    from penstock.workers.message import AsyncWorkerMessage, WorkerMessage
    from penstock.workers.outcome import Reject, Retry

    open = EmbeddedBroker.open  # noqa: A001 - penstock.open("data") is how a user says it.

_PLACES = {
    "App": "workers.app",
    "AsyncWorkerMessage": "workers.message",
    "Broker": "api.broker",
    "BrokerConfig": "config.broker",
    "BrokerInfo": "model.info",
    "Consumer": "api.handles",
    "DeadLetter": "model.info",
    "DeadLetterErrors": "model.info",
    "Grant": "model.access",
    "GroupInfo": "model.info",
    "GroupOptions": "config.broker",
    "GroupRates": "model.info",
    "GroupSettings": "config.broker",
    "KeyInfo": "model.access",
    "Message": "model.message",
    "NewKey": "model.access",
    "PartitionInfo": "model.info",
    "PartitionLag": "model.info",
    "Producer": "api.handles",
    "Queue": "api.broker",
    "Quota": "model.access",
    "Receipt": "model.message",
    "ReceivedMessage": "model.message",
    "Redrive": "model.info",
    "Reject": "workers.outcome",
    "Retry": "workers.outcome",
    "ScheduledMessage": "model.info",
    "StoredMessage": "model.message",
    "TopicHandle": "api.broker",
    "TopicInfo": "model.info",
    "TopicOptions": "config.broker",
    "TopicSettings": "config.broker",
    "Trace": "model.trace",
    "TraceEvent": "model.trace",
    "Unacked": "model.info",
    "UserInfo": "model.access",
    "Verdict": "model.info",
    "WorkerMessage": "workers.message",
    "connect": "client.sync",
}
_MODULES = ("aio", "errors", "spark", "testing")

__all__ = [
    "App",
    "AsyncWorkerMessage",
    "Broker",
    "BrokerConfig",
    "BrokerInfo",
    "Consumer",
    "DeadLetter",
    "DeadLetterErrors",
    "Grant",
    "GroupInfo",
    "GroupOptions",
    "GroupRates",
    "GroupSettings",
    "KeyInfo",
    "Message",
    "NewKey",
    "PartitionInfo",
    "PartitionLag",
    "PenstockError",
    "Producer",
    "Queue",
    "Quota",
    "Receipt",
    "ReceivedMessage",
    "Redrive",
    "Reject",
    "Retry",
    "ScheduledMessage",
    "StoredMessage",
    "TopicHandle",
    "TopicInfo",
    "TopicOptions",
    "TopicSettings",
    "Trace",
    "TraceEvent",
    "Unacked",
    "UserInfo",
    "Verdict",
    "WorkerMessage",
    "__version__",
    "aio",
    "connect",
    "errors",
    "open",
    "spark",
    "testing",
]


def __getattr__(name: str) -> Any:
    if name == "open":
        value: Any = import_module("penstock.broker.embedded").EmbeddedBroker.open
    elif name in _PLACES:
        value = getattr(import_module(f"penstock.{_PLACES[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"penstock.{name}")
    else:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
