"""Result filters: they remove from the result of an operation what its caller may not see.

The entry of an operation in ``operations/spec.py`` names its filter.  Consumers
and producers are guarded as well, because they can publish to any topic.
"""

from typing import Any, TypeVar

import msgspec

from penstock.api.operations import ConsumerOperations, ProducerOperations
from penstock.broker.frontend import BatchConsumer, Family, Steps
from penstock.frontends.security.guard import Guard
from penstock.groups.rebalance import KafkaGroupState
from penstock.groups.transactions import TransactionState
from penstock.model.info import BrokerInfo, DeadLetterErrors, Overview, StorageProblem
from penstock.model.message import Message, Receipt
from penstock.model.schemas import SchemaInfo, subject_topic


def visible_topics(guard: Guard, names: list[str]) -> list[str]:
    return [name for name in names if guard.may("describe", name)]


def visible_counts(guard: Guard, counts: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    return {key: count for key, count in counts.items() if guard.may("describe", key[0])}


def visible_metrics(guard: Guard, families: list[Family]) -> list[Family]:
    """The metrics of the broker, and of topics and groups that the caller may describe."""
    return [
        family._replace(
            samples=[(of, value) for of, value in family.samples if guard.may("describe", *of[:scoped])]
        )
        if (scoped := len([label for label in family.labels if label in ("topic", "group")]))
        else family
        for family in families
    ]


def visible_overview(guard: Guard, overview: Overview) -> Overview:
    return Overview(
        topics=[line for line in overview.topics if guard.may("describe", line.topic)],
        groups=[line for line in overview.groups if guard.may("describe", line.topic, line.group)],
        waited=overview.waited,
        waited_sums=overview.waited_sums,
        waited_ms=overview.waited_ms,
        cost_ms=overview.cost_ms,
    )


def visible_stats(guard: Guard, info: BrokerInfo) -> BrokerInfo:
    """Statistics without paths, which only admins see, and without the lake, which readers see."""
    return msgspec.structs.replace(
        info,
        problems=_visible_problems(guard, info.problems),
        directory=info.directory if guard.may("admin", None) else "",
        lake=info.lake if guard.may("read", None) else "",
    )


def _visible_problems(guard: Guard, problems: list[StorageProblem]) -> list[StorageProblem]:
    """All for admins; for others those of topics that they may describe, without the path on disk."""
    if guard.may("admin", None):
        return problems
    return [
        msgspec.structs.replace(problem, path="")
        for problem in problems
        if problem.topic is not None and guard.may("describe", problem.topic)
    ]


def readable_errors(guard: Guard, errors: list[DeadLetterErrors]) -> list[DeadLetterErrors]:
    return [error for error in errors if guard.may("read", error.topic)]


def visible_schemas(guard: Guard, schemas: list[SchemaInfo]) -> list[SchemaInfo]:
    return [info for info in schemas if guard.may("describe", subject_topic(info.subject))]


def visible_group_names(guard: Guard, names: list[str]) -> list[str]:
    return [name for name in names if guard.may("describe", None, name)]


def visible_groups(guard: Guard, groups: list[KafkaGroupState]) -> list[KafkaGroupState]:
    return [state for state in groups if guard.may("describe", None, state.group)]


def visible_transaction(guard: Guard, state: TransactionState | None) -> TransactionState | None:
    return state if state is not None and guard.sees(state) else None


def visible_transactional_ids(guard: Guard, names: list[str]) -> list[str]:
    return guard.seen(names)


Consumer = TypeVar("Consumer", ConsumerOperations, BatchConsumer)


def guarded_consumer(guard: Guard, consumer: Consumer) -> Consumer:
    """A consumer that publishes with an ack only where it may."""
    publishing: Any = consumer
    publishing.permit = guard.permit
    publishing.create_missing = guard.create_missing
    return consumer


class GuardedProducer:
    """An idempotent producer that publishes only where it may."""

    def __init__(self, guard: Guard, inner: ProducerOperations) -> None:
        self._guard = guard
        self._inner = inner

    @property
    def producer_id(self) -> int:
        return self._inner.producer_id

    def publish(self, topic: str, message: Message) -> Steps[Receipt]:
        """Publish one message under the next number of its partition."""
        self._guard.permit([(topic, message)])
        return self._publish(topic, message)

    def _publish(self, topic: str, message: Message) -> Steps[Receipt]:
        yield from self._guard.create_missing([(topic, message)])
        return (yield from self._inner.publish(topic, message))
