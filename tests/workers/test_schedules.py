"""Scheduled functions: at their times, once over all processes, registered once."""

import asyncio
from datetime import UTC, datetime

import pytest
from tests.workers.virtual import VirtualTime

import penstock
from penstock.errors import InvalidValue
from penstock.model.info import ScheduledMessage


def nightly(app: penstock.App, done: list[str], cron: str = "0 2 * * *", timezone: str = "UTC") -> None:
    @app.schedule(cron, timezone=timezone)
    async def report(message: penstock.AsyncWorkerMessage) -> None:
        done.append(f"{message.published_at:%d %H:%M}")


async def entries(time: VirtualTime) -> list[ScheduledMessage]:
    return await time.broker.scheduled("schedule.report")


async def test_a_function_runs_at_its_times(time: VirtualTime) -> None:
    app, done = penstock.App(), list[str]()
    nightly(app, done, "0 9 * * mon-fri", "Europe/Berlin")

    async with app.running(time.broker):  # It is Thursday, 2026-01-01, midnight in UTC.
        await time.passes("5d", "6h")

    assert done == ["01 08:00", "02 08:00", "05 08:00"]


async def test_a_function_may_take_nothing(time: VirtualTime) -> None:
    app, done = penstock.App(), list[str]()

    @app.schedule("0 * * * *")
    async def tick() -> None:
        done.append("tick")

    async with app.running(time.broker):
        await time.passes("2h", "10m")

    assert done == ["tick", "tick"]


async def test_a_firing_runs_once_over_all_processes(time: VirtualTime) -> None:
    apps = [penstock.App() for _ in range(3)]
    done: list[str] = []
    for app in apps:
        nightly(app, done)

    async with apps[0].running(time.broker), apps[1].running(time.broker), apps[2].running(time.broker):
        await time.passes("2d", "6h")
        assert len(await entries(time)) == 1

    assert done == ["01 02:00", "02 02:00"]


async def test_starting_again_keeps_the_schedule(time: VirtualTime) -> None:
    app, done = penstock.App(), list[str]()
    nightly(app, done)

    async with app.running(time.broker):
        await time.settles()
    [before] = await entries(time)
    async with app.running(time.broker):
        await time.settles()

    assert await entries(time) == [before]
    other = await time.broker.schedule("schedule.report", b"", cron="0 1 * * *")
    assert other == "schedule.report:0:s1", "none was added and taken back"


@pytest.mark.parametrize(("cron", "timezone"), [("0 3 * * *", "UTC"), ("0 2 * * *", "Europe/Berlin")])
async def test_a_changed_schedule_replaces_the_old_one(time: VirtualTime, cron: str, timezone: str) -> None:
    old, new, done = penstock.App(), penstock.App(), list[str]()
    nightly(old, done)
    nightly(new, done, cron, timezone)

    async with old.running(time.broker):
        await time.settles()
    async with new.running(time.broker):
        await time.settles()

    assert [(entry.cron, entry.timezone) for entry in await entries(time)] == [(cron, timezone)]


async def test_processes_that_start_at_once_end_with_one_schedule(time: VirtualTime) -> None:
    """Whatever they add before they see each other, all of them keep the lowest."""
    app = penstock.App()
    nightly(app, [])
    await time.broker.create_topic("schedule.report")
    for cron in ("0 1 * * *", "0 2 * * *", "0 2 * * *"):
        await time.broker.schedule("schedule.report", b"", cron=cron, key="report")

    async with app.running(time.broker):
        await time.settles()

    assert [entry.id for entry in await entries(time)] == ["schedule.report:0:s1"]


async def test_what_others_scheduled_on_the_topic_is_left_alone(time: VirtualTime) -> None:
    app = penstock.App()
    nightly(app, [])
    await time.broker.create_topic("schedule.report")
    await time.broker.schedule("schedule.report", b"", cron="0 1 * * *", key="by hand")
    await time.broker.publish("schedule.report", b"", delay="1h", key="report")

    async with app.running(time.broker):
        await time.settles()

    assert [entry.key for entry in await entries(time)] == [b"by hand", b"report", b"report"]


async def test_what_fires_while_nobody_works_waits(time: VirtualTime) -> None:
    app, done = penstock.App(), list[str]()
    nightly(app, done)
    async with app.running(time.broker):
        await time.settles()
    await time.broker.advance("3d")

    async with app.running(time.broker):
        await time.passes("1s")

    assert done == ["01 02:00", "02 02:00", "03 02:00"]


async def test_with_a_ttl_it_waits_no_longer_than_that(time: VirtualTime) -> None:
    app = penstock.App()
    done: list[str] = []

    @app.schedule("0 2 * * *", ttl="1h")
    async def report(message: penstock.AsyncWorkerMessage) -> None:
        done.append(f"{message.published_at:%d %H:%M}")

    await time.broker.create_topic("schedule.report")  # By an earlier version, without a ttl.
    async with app.running(time.broker):
        await time.settles()
    await time.broker.advance("2d 2h 30m")

    async with app.running(time.broker):
        await time.passes("1s")

    assert done == ["03 02:00"]


async def test_a_wrong_expression_ends_the_run_with_its_sentence(time: VirtualTime) -> None:
    app = penstock.App()
    nightly(app, [], "every night")

    with pytest.raises(InvalidValue, match="five fields"):
        async with app.running(time.broker):
            await asyncio.Event().wait()


async def test_the_clock_of_these_tests_starts_on_a_thursday(time: VirtualTime) -> None:
    now = datetime.fromtimestamp(time.broker.clock.wall_ms() / 1000, UTC)

    assert f"{now:%A %Y-%m-%d %H:%M}" == "Thursday 2026-01-01 00:00"
