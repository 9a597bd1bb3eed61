"""Overview and history of the broker, for the dashboard."""

from typing import Final

import msgspec

from penstock.frontends.http.call import HttpCall
from penstock.frontends.http.monitoring.alerts import Alert, GroupLine, alerts
from penstock.frontends.http.monitoring.reports import PipelineLine
from penstock.model.info import BrokerInfo, TopicState

AGAIN_MS: Final = 2000  # How soon it is worth asking again ...
PAUSES: Final = 200  # ... and at least so many times what it took: a page costs less than a percent.


class Glance(msgspec.Struct, frozen=True, kw_only=True):
    """The broker, and the topics and groups that you may see."""

    now_ms: int
    again_ms: int  # Ask again then, and not before.
    broker: BrokerInfo
    latency_half: float  # Seconds from publish to first delivery of late, of half of the messages ...
    latency_most: float  # ... and of 99 in 100.
    topics: list[TopicState]
    groups: list[GroupLine]
    alerts: list[Alert]  # Groups that need attention, the worst first.


class OfWhat(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group, a topic with all its groups, or everything."""

    topic: str | None = None
    group: str | None = None


class History(msgspec.Struct, frozen=True):
    """The last hour, a column for each number; the first five count since the broker was opened."""

    times_ms: list[float]
    published: list[float]
    delivered: list[float]
    acked: list[float]
    failed: list[float]
    dead_lettered: list[float]
    waiting: list[float]  # Messages that are not settled.
    oldest_seconds: list[float]  # The age of the oldest of them.
    latency_half: list[float]  # Seconds from publish to first delivery, of half of all messages ...
    latency_most: list[float]  # ... and of 99 in 100.


async def overview(call: HttpCall) -> Glance:
    """Overview of the broker, and a summary with verdict of every topic and group that you may see."""
    found = await call.run(call.operations.overview())
    await call.run(call.shared.reports.refresh())
    broker = await call.run(call.operations.stats())
    watch = call.shared.watch
    groups = [watch.line(group) for group in call.shared.reports.judged_all(found).groups]
    half, most = watch.latency(found)
    return Glance(
        now_ms=watch.now_ms(),
        again_ms=max(AGAIN_MS, round(found.cost_ms * PAUSES)),
        broker=broker,
        latency_half=half,
        latency_most=most,
        topics=found.topics,
        groups=groups,
        alerts=alerts(groups),
    )


async def history(call: HttpCall) -> History:
    """History of the last hour: rates, backlog and age of the oldest pending message."""
    wanted: OfWhat = call.query
    if wanted.topic is None:
        await call.run(call.operations.stats())  # Raises if the caller may not see it.
    elif wanted.group is None:
        await call.run(call.operations.describe_topic(wanted.topic))
    else:
        await call.run(call.operations.describe_group(wanted.topic, wanted.group))
    return History(*call.shared.watch.history(wanted.topic, wanted.group))


class PipelineList(msgspec.Struct, frozen=True):
    """The pipelines that have run, by name."""

    pipelines: list[PipelineLine]


async def list_pipelines(call: HttpCall) -> PipelineList:
    """List pipelines that have run, with progress, rate and result."""
    return PipelineList(await call.run(call.shared.reports.read(call.operations)))
