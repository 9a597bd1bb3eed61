"""Penstock: a durable log you can work like a queue and query like a table.

The names below are the public API; everything else may change.  Each name is imported on first use, so that
a program which only needs a client, or pytest collecting plugins, does not load the broker.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError as PenstockError
from penstock.version import __version__ as __version__

if TYPE_CHECKING:  # What type checkers and editors see; ``X as X`` marks a name as public for them.
    from penstock import aio as aio
    from penstock import errors as errors
    from penstock import spark as spark
    from penstock import testing as testing
    from penstock.api.broker import Broker as Broker
    from penstock.api.broker import Queue as Queue
    from penstock.api.broker import TopicHandle as TopicHandle
    from penstock.api.handles import Consumer as Consumer
    from penstock.api.handles import Producer as Producer
    from penstock.api.handles import TopicsConsumer as TopicsConsumer
    from penstock.api.transactions import Transaction as Transaction
    from penstock.broker.embedded import EmbeddedBroker
    from penstock.client.sync import connect as connect
    from penstock.config.broker import BrokerConfig as BrokerConfig
    from penstock.config.broker import GroupOptions as GroupOptions
    from penstock.config.broker import GroupSettings as GroupSettings
    from penstock.config.broker import TopicOptions as TopicOptions
    from penstock.config.broker import TopicSettings as TopicSettings
    from penstock.model.access import Grant as Grant
    from penstock.model.access import KeyInfo as KeyInfo
    from penstock.model.access import NewKey as NewKey
    from penstock.model.access import Quota as Quota
    from penstock.model.access import UserInfo as UserInfo
    from penstock.model.info import BrokerInfo as BrokerInfo
    from penstock.model.info import DeadLetter as DeadLetter
    from penstock.model.info import DeadLetterErrors as DeadLetterErrors
    from penstock.model.info import GroupInfo as GroupInfo
    from penstock.model.info import GroupRates as GroupRates
    from penstock.model.info import PartitionInfo as PartitionInfo
    from penstock.model.info import PartitionLag as PartitionLag
    from penstock.model.info import Redrive as Redrive
    from penstock.model.info import ScheduledMessage as ScheduledMessage
    from penstock.model.info import TopicInfo as TopicInfo
    from penstock.model.info import Unacked as Unacked
    from penstock.model.info import Verdict as Verdict
    from penstock.model.message import Message as Message
    from penstock.model.message import Receipt as Receipt
    from penstock.model.message import ReceivedMessage as ReceivedMessage
    from penstock.model.message import StoredMessage as StoredMessage
    from penstock.model.tables.frames import MessageList as MessageList
    from penstock.model.trace import Trace as Trace
    from penstock.model.trace import TraceEvent as TraceEvent
    from penstock.workers.app import App as App
    from penstock.workers.message import AsyncWorkerMessage as AsyncWorkerMessage
    from penstock.workers.message import WorkerMessage as WorkerMessage
    from penstock.workers.outcome import Reject as Reject
    from penstock.workers.outcome import Retry as Retry

    open = EmbeddedBroker.open  # noqa: A001 - users write penstock.open("data").

_NAMES = {  # Module: its public names.
    "api.broker": "Broker Queue TopicHandle",
    "api.handles": "Consumer Producer TopicsConsumer",
    "api.transactions": "Transaction",
    "client.sync": "connect",
    "config.broker": "BrokerConfig GroupOptions GroupSettings TopicOptions TopicSettings",
    "model.access": "Grant KeyInfo NewKey Quota UserInfo",
    "model.tables.frames": "MessageList",
    "model.info": "BrokerInfo DeadLetter DeadLetterErrors GroupInfo GroupRates PartitionInfo PartitionLag "
    "Redrive ScheduledMessage TopicInfo Unacked Verdict",
    "model.message": "Message Receipt ReceivedMessage StoredMessage",
    "model.trace": "Trace TraceEvent",
    "workers.app": "App",
    "workers.message": "AsyncWorkerMessage WorkerMessage",
    "workers.outcome": "Reject Retry",
}
_MODULES = ("aio", "errors", "spark", "testing")
_PLACES = {name: module for module, names in _NAMES.items() for name in names.split()}


def _load(name: str) -> Any:
    if name == "open":
        from penstock.broker.embedded import EmbeddedBroker

        value: Any = EmbeddedBroker.open
    elif name in _PLACES:
        value = getattr(import_module(f"penstock.{_PLACES[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"penstock.{name}")
    else:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_PLACES, *_MODULES, "PenstockError", "__version__", "open"])


if not TYPE_CHECKING:  # Otherwise type checkers would believe in any name, or see none.
    __all__ = __dir__()
    __getattr__ = _load
