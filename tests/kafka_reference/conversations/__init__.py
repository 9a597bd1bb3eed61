"""The conversations, by name.  Each uses topics and groups of its own, so none depends on another."""

from collections.abc import Callable

from tests.kafka_reference.conversations import (
    cluster,
    configs,
    groups,
    records,
    shares,
    topics,
    transactions,
)
from tests.kafka_reference.talk import Talk

MODULES = (cluster, topics, configs, records, groups, transactions, shares)
CONVERSATIONS: dict[str, Callable[[Talk], None]] = {
    f"{module.__name__.rpartition('.')[2]}.{each.__name__}": each
    for module in MODULES
    for each in module.CONVERSATIONS
}
