"""What a publish waits for: before it is written, room in the topic; afterwards, that it is durable."""

from collections import Counter
from typing import Any

from penstock.broker.state import Partition, State, Topic
from penstock.broker.steps import Arrival, Durable, Steps
from penstock.broker.topic.depth import partition_depth, topic_depth
from penstock.broker.topic.groups import journal_durable
from penstock.errors import QueueFull
from penstock.model.message import Message, Receipt


def wait_for_room_for_all(state: State, topic: Topic, batch: list[Any]) -> Steps[None]:
    """The same as below for messages of one request."""
    counts = Counter(each.partition if isinstance(each, Message) else None for each in batch)
    if not state.lease.limited or None in counts:
        counts = Counter({None: len(batch)})
    for number, count in counts.items():
        yield from wait_for_room(state, topic, count, number)


def wait_for_room(state: State, topic: Topic, count: int, number: int | None = None) -> Steps[None]:
    """Refuse, or wait, while the slowest group has too much before it.

    In a cluster, where messages are placed before they reach the owner of the partition ``number``, each
    partition has an equal share of the limit.
    """
    settings = topic.settings
    assert settings.depth_max is not None
    deadline_ms = state.clock.steady_ms() + settings.depth_wait_ms
    shared = state.lease.limited and number is not None
    limit = max(settings.depth_max // len(topic.partitions), 1) if shared else settings.depth_max
    while (partition_depth(topic.partition(number)) if shared else topic_depth(topic)) + count > limit:
        if settings.depth_policy == "reject" or state.clock.steady_ms() >= deadline_ms:
            raise QueueFull(what=f"topic {topic.name!r}", limit=settings.depth_max)
        yield Arrival(topic, deadline_ms)
        state.check_alive(topic)


def until_durable(topic: Topic, receipt: Receipt) -> Steps[None]:
    """Wait until one message is as durable as the topic promises."""
    partition = topic.partitions[receipt.partition]
    if topic.settings.validation == "dead-letter":
        yield from journal_durable(partition)  # There may be a letter in it.
    log = partition.log
    if receipt.schedule_id is not None and partition.schedule is not None:
        log = partition.schedule.log
    if log.config.durability == "fsync" and log.durable < log.written:
        yield Durable(log)


def durable_waits(partition: Partition, transactional: bool = False) -> list[Durable]:
    """What to wait for until what was written is as durable as the topic promises.

    What is of a transaction is synced in any case, unless it is in memory: else a power cut could take
    it, and its producer, which was answered, commits the rest.
    """
    waits: list[Durable] = []
    logs = [partition.log, partition.schedule.log if partition.schedule else None]
    if partition.topic.settings.validation == "dead-letter" and partition.journal is not None:
        logs.append(partition.journal.log)  # There may be a letter in it.
    for log in logs:
        if log is None or log.durable >= log.written:
            continue
        if log.config.durability == "fsync" or (transactional and log.config.durability == "os"):
            waits.append(Durable(log))
    return waits
