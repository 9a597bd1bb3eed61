"""Scheduled messages: list, cancel, reschedule, and add recurring ones."""

import msgspec

from penstock.frontends.http.call import HttpCall
from penstock.frontends.http.handlers.messages.dead_letters import Listing
from penstock.frontends.http.handlers.messages.publishing import (
    IDEMPOTENCY_KEY,
    Duration,
    Instant,
    NewMessage,
    message_of,
)
from penstock.frontends.http.messages import As, Content, content
from penstock.model.info import Cancelled, ScheduledMessage


class Scheduled(Content, frozen=True, kw_only=True):
    """A scheduled message."""

    id: str
    topic: str
    partition: int
    due_ms: int
    priority: str
    cron: str | None
    timezone: str | None


class ScheduleList(msgspec.Struct, frozen=True):
    """Scheduled messages of a topic."""

    schedules: list[Scheduled]


class Recurring(NewMessage, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to publish at the times of a cron expression."""

    cron: str
    timezone: str = "UTC"


class ScheduleId(msgspec.Struct, frozen=True):
    """The id under which it can be cancelled."""

    id: str


class Outcome(msgspec.Struct, frozen=True):
    """Result of the cancellation."""

    outcome: Cancelled


class Reschedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new due time: a delay from now, or a time."""

    delay: Duration | None = None
    deliver_at: Instant | None = None


class Rescheduled(msgspec.Struct, frozen=True):
    """Whether it was still scheduled."""

    rescheduled: bool


async def list_schedules(call: HttpCall) -> ScheduleList:
    """List scheduled messages of a topic, in the order in which they were accepted."""
    wanted: Listing = call.query
    found = await call.run(call.operations.scheduled(call.topic, wanted.limit))
    return ScheduleList([_scheduled(waiting, wanted.way) for waiting in found])


async def add_schedule(call: HttpCall) -> ScheduleId:
    """Add a recurring message, published at the times of a cron expression."""
    body: Recurring = call.body
    message = message_of(body, call.header(IDEMPOTENCY_KEY))
    work = call.operations.schedule(call.topic, message, body.cron, body.timezone)
    return ScheduleId(await call.run(work))


async def cancel_schedule(call: HttpCall) -> Outcome:
    """Cancel a scheduled message. The result is cancelled, delivered (too late) or unknown."""
    return Outcome(await call.run(call.operations.cancel(call.path["id"])))


async def reschedule(call: HttpCall) -> Rescheduled:
    """Change the due time of a scheduled message."""
    body: Reschedule = call.body
    work = call.operations.reschedule(call.path["id"], body.delay, body.deliver_at)
    return Rescheduled(await call.run(work))


def _scheduled(waiting: ScheduledMessage, way: As) -> Scheduled:
    return Scheduled(
        id=waiting.id,
        topic=waiting.topic,
        partition=waiting.partition,
        due_ms=waiting.due_ms,
        priority=waiting.priority,
        cron=waiting.cron,
        timezone=waiting.timezone,
        **content(waiting.key, waiting.value, waiting.headers, way),
    )
