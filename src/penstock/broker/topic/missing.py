"""Automatic creation of topics: one rule for all protocols.

    publish, schedule, open a consumer, ack with outputs        create the topic, with the default settings
    read, describe, seek, dead letters, groups, fetch           TopicNotFound

With ``auto_create_topics`` off (``topic.auto_create`` of a server) the first line is TopicNotFound, too.
A server that requires keys creates a topic only for clients that may administer it
(``frontends/security``); for all others it does not exist.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from penstock.broker.state import State, Topic
from penstock.broker.steps import Steps
from penstock.config.broker import TopicOptions
from penstock.errors import PartitionNotFound, TopicExists
from penstock.types import INTERNAL_TOPICS

Create = Callable[[str, TopicOptions], Steps[None]]

DEFAULTS: Final[TopicOptions] = {}


class MissingTopics:
    """What happens when a topic that does not exist is used."""

    def __init__(self, state: State, create: Create) -> None:
        self._state = state
        self._create = create

    def is_creatable(self, name: Any) -> bool:
        """Whether using this topic would create it."""
        return (
            self._state.config.auto_create_topics
            and isinstance(name, str)
            and name not in self._state.topics
            and name not in INTERNAL_TOPICS  # These have settings of their own.
        )

    def create(self, name: Any, partition: Any = None, options: TopicOptions = DEFAULTS) -> Steps[Topic]:
        """The topic, created now if it may be; not for a partition that it would not have."""
        if isinstance(name, str) and name not in self._state.topics:
            yield from self._state.registry.refresh_topic(name)
        if self.is_creatable(name):
            last = self._state.config.topic.partitions - 1
            if isinstance(partition, int) and partition > last:
                raise PartitionNotFound(topic=name, partition=partition, last=last)
            with suppress(TopicExists):  # Another call may be quicker.
                yield from self._create(name, options)
        return self._state.topic(name)

    def create_all(self, outputs: Sequence[Any]) -> Steps[None]:
        """Create the topics of (topic, message) pairs; other values are refused elsewhere."""
        for output in outputs:
            match output:
                case (str() as name, _) if self.is_creatable(name):
                    yield from self.create(name)
