"""Scheduled functions: exactly one recurring message in the broker for each.

A function's topic, ``schedule.<app>.<function>``, is worked by one group, so each
firing runs once over all processes, in one that is free; and it is kept if
none is.  Every process registers at its start, in any order and at any time:

    list ──> no entry with our cron and zone?  add one, list again
         ──> keep the lowest of ours, cancel every other entry of the function

Two that start at once may both add, but each lists after it has added, so the
later of them sees both; all keep the same one.  A changed expression replaces
the old one: the last process that starts has it its way.
"""

import logging
from typing import TYPE_CHECKING

from penstock.config.broker import TopicOptions
from penstock.errors import TopicExists
from penstock.model.info import ScheduledMessage
from penstock.workers.functions import CronSchedule, WorkerFunction

if TYPE_CHECKING:
    from penstock.api.aio import AsyncBroker

logger = logging.getLogger("penstock.workers")


async def register(broker: "AsyncBroker", function: WorkerFunction, recurring: CronSchedule) -> None:
    """Register the function's recurring message, and cancel those with other times."""
    await _prepare_topic(broker, function.topic, recurring)
    entries = await _entries(broker, function)
    if not any(_fits(entry, recurring) for entry in entries):
        await broker.schedule(
            function.topic,
            b"",
            cron=recurring.cron,
            timezone=recurring.timezone,
            key=function.name,
            partition=0,  # Where the numbers of all our entries come from.
        )
        entries = await _entries(broker, function)
    kept = min((entry for entry in entries if _fits(entry, recurring)), key=_number, default=None)
    for entry in entries:
        if entry is not kept and await broker.cancel(entry.id) == "cancelled" and not _fits(entry, recurring):
            logger.info("%s: no longer at %r (%s)", function.name, entry.cron, entry.timezone)


async def _prepare_topic(broker: "AsyncBroker", topic: str, recurring: CronSchedule) -> None:
    ttl = None if recurring.ttl_ms is None else recurring.ttl_ms / 1000
    options: TopicOptions = {
        "partitions": 1,
        "ttl": ttl,
    }  # One: they are few, and in the order of their times.
    try:
        await broker.create_topic(topic, **options)
    except TopicExists:
        if (await broker.describe_topic(topic)).settings.ttl_ms != recurring.ttl_ms:
            await broker.alter_topic(topic, ttl=ttl)


async def _entries(broker: "AsyncBroker", function: WorkerFunction) -> list[ScheduledMessage]:
    ours = function.name.encode()
    return [entry for entry in await broker.scheduled(function.topic) if entry.cron and entry.key == ours]


def _fits(entry: ScheduledMessage, recurring: CronSchedule) -> bool:
    return (entry.cron, entry.timezone) == (recurring.cron, recurring.timezone)


def _number(entry: ScheduledMessage) -> tuple[int, int]:
    return entry.partition, int(entry.id.rpartition(":s")[2])
