"""The broker for a page that stays open: how it is, since when, and how it was."""

from collections.abc import AsyncIterator

import msgspec
import pytest
from tests.frontends.http.browser import Place, place

from penstock.clock import SystemClock
from penstock.frontends.http.monitoring.history import (
    COLUMNS,
    HOUR_MS,
    LOOK_MS,
    SELDOM,
    OverviewHistory,
    Series,
    latency,
)
from penstock.frontends.http.monitoring.reports import Reports
from penstock.model.access import Grant
from penstock.model.info import PIPELINE_SILENT_MS, PIPELINES_TOPIC, PipelineRun
from penstock.testing import ManualClock


@pytest.fixture
async def secured() -> AsyncIterator[Place]:
    async with place(authentication=True) as made:
        yield made


async def test_topics_and_groups_are_told_in_a_line_each(http: Place) -> None:
    await http.broker.create_group("orders", "billing")
    await http.broker.publish("orders", b"a")
    await http.broker.publish("orders", b"b", delay="1h")

    told = (await http.ask("GET", "/v1/overview")).json

    [topic], [group] = told["topics"], told["groups"]
    assert (topic["topic"], topic["depth"], topic["scheduled"], topic["groups"]) == ("orders", 1, 1, 1)
    assert (group["state"]["group"], group["state"]["lag"]) == ("billing", 1)
    assert group["state"]["verdict"]["word"] == "no consumers"
    assert told["broker"]["published"] == 1
    assert told["again_ms"] >= 2000


async def test_dead_letters_are_counted_until_they_are_redriven(http: Place) -> None:
    await http.broker.publish("orders", b"a")
    await http.broker.publish("orders", b"b")
    async with await http.broker.consumer("orders", group="billing") as consumer:
        for message in await consumer.receive(max_messages=2, wait="1s"):
            await message.reject("no good")

    async def dead_letters() -> int:
        topics = (await http.ask("GET", "/v1/overview")).json["topics"]
        return sum(topic["dead_letters"] for topic in topics if topic["topic"] == "orders")

    assert await dead_letters() == 2
    await http.broker.redrive("orders", limit=1)
    assert await dead_letters() == 1


async def test_the_lines_of_others_are_not_told(secured: Place) -> None:
    await secured.broker.create_topic("secret")
    await secured.broker.create_group("secret", "billing")
    await secured.broker.create_group("orders", "billing")
    await secured.broker.create_group("orders", "audit")
    grant = Grant(role="consumer", topics=["orders"], groups=["billing"])
    made = await secured.broker.create_key("shop", [grant])
    mine = {"authorization": f"Bearer {made.key}"}

    told = (await secured.ask("GET", "/v1/overview", headers=mine)).json

    assert [topic["topic"] for topic in told["topics"]] == ["orders"]
    assert [group["state"]["group"] for group in told["groups"]] == ["billing"]
    for query in ("topic=secret", "topic=secret&group=billing", "topic=orders&group=audit"):
        assert (await secured.ask("GET", f"/v1/history?{query}", headers=mine)).code == "FORBIDDEN"


async def test_a_verdict_is_told_with_the_time_it_began(http: Place) -> None:
    clock = ManualClock()
    watch = OverviewHistory(http.broker, http.gateway, Reports(http.gateway), clock)
    await http.broker.create_group("orders", "billing")
    idle = await http.broker.run(http.gateway.overview())
    await http.broker.publish("orders", b"a")
    busy = await http.broker.run(http.gateway.overview())
    began_ms = clock.wall_ms()

    watch.note(idle)
    clock.move_to(clock.steady_ms() + LOOK_MS)
    watch.note(busy)
    clock.move_to(clock.steady_ms() + LOOK_MS)
    watch.note(busy)

    assert watch.line(busy.groups[0]).since_ms == began_ms + LOOK_MS
    assert watch.line(idle.groups[0]).since_ms is None  # It has changed since it was looked at.


async def test_an_hour_is_remembered_and_no_more(http: Place) -> None:
    clock = ManualClock()
    watch = OverviewHistory(http.broker, http.gateway, Reports(http.gateway), clock)
    await http.broker.create_group("orders", "billing")
    await http.broker.publish("orders", b"a")
    seen = await http.broker.run(http.gateway.overview())

    for _ in range(HOUR_MS // LOOK_MS + SELDOM):
        watch.note(seen)
        clock.move_to(clock.steady_ms() + LOOK_MS)

    times, *columns = watch.history(None, None)
    assert times[-1] - times[0] == HOUR_MS - LOOK_MS
    assert [column[-1] for column in columns][:6] == [1, 0, 0, 0, 0, 1]
    for topic, group in (("orders", None), ("orders", "billing")):
        times, *columns = watch.history(topic, group)
        assert (len(times), columns[0][-1], columns[5][-1]) == (HOUR_MS // LOOK_MS // SELDOM, 1, 1)


async def test_what_was_deleted_is_forgotten(http: Place) -> None:
    watch = OverviewHistory(http.broker, http.gateway, Reports(http.gateway), ManualClock())
    watch.note(await http.broker.run(http.gateway.overview()))
    await http.broker.delete_topic("orders")
    seen = await http.broker.run(http.gateway.overview())
    for _ in range(SELDOM):
        watch.note(seen)

    assert watch.history("orders", None) == [[] for _ in range(len(COLUMNS) + 1)]


def test_a_series_forgets_its_oldest_rows() -> None:
    series = Series(2)
    for time_ms in (1, 2, 3):
        series.add(time_ms, (time_ms * 10,) * len(COLUMNS))

    assert [list(column) for column in series.columns[:2]] == [[2, 3], [20, 30]]


def test_the_latency_of_a_young_server_is_not_longer_than_it_is_up() -> None:
    """The longest wait was two minutes; the range that it lies in ends at five."""
    bounds_ms = [60_000, 300_000]

    assert latency(([], []), ([99, 1, 0], [990_000, 120_000, 0]), bounds_ms) == (10, 10)
    assert latency(([], []), ([9, 1, 0], [90_000, 120_000, 0]), bounds_ms) == (10, 120)
    assert latency(([], []), ([0, 0, 2], [0, 0, 800_000]), bounds_ms) == (400, 400)
    assert latency(([], []), ([0, 0, 0], [0, 0, 0]), bounds_ms) == (0, 0)


def test_latency_stays_in_its_range_when_a_group_was_deleted() -> None:
    """The sums of a topic's groups have shrunk by what the group had."""
    assert latency(([5, 5], [50, 500]), ([4, 6], [20, 300]), [100]) == (0.1, 0.1)


async def test_latency_is_that_since_the_last_look(http: Place) -> None:
    watch = OverviewHistory(http.broker, http.gateway, Reports(http.gateway), ManualClock())
    watch.note(await http.broker.run(http.gateway.overview()))
    await http.broker.publish("orders", b"a")
    async with await http.broker.consumer("orders", group="billing") as consumer:
        await consumer.ack(await consumer.receive(wait="1s"))
    seen = await http.broker.run(http.gateway.overview())

    assert sum(seen.waited) == 1
    assert watch.latency(seen)[1] > 0
    watch.note(seen)
    assert watch.latency(seen) == (0, 0)
    assert watch.history(None, None)[-1][-1] > 0


async def test_latency_is_told_of_each_group_by_itself(http: Place) -> None:
    watch = OverviewHistory(http.broker, http.gateway, Reports(http.gateway), ManualClock())
    await http.broker.create_group("orders", "idle")
    await http.broker.publish("orders", b"a")
    async with await http.broker.consumer("orders", group="billing") as consumer:
        await consumer.ack(await consumer.receive(wait="1s"))
    seen = await http.broker.run(http.gateway.overview())

    for _ in range(SELDOM + 1):
        watch.note(seen)
    of_group = {name: watch.history("orders", name)[-2:] for name in ("billing", "idle")}
    await http.broker.delete_group("orders", "billing")
    await http.broker.delete_group("orders", "idle")
    for _ in range(SELDOM):
        watch.note(await http.broker.run(http.gateway.overview()))

    assert [[value > 0 for value in column] for column in of_group["billing"]] == [[True, False]] * 2
    assert of_group["idle"] == [[0, 0]] * 2
    assert [[value > 0 for value in column] for column in watch.history("orders", None)[-2:]] == [
        [True, False, False]
    ] * 2


async def test_stored_messages_are_counted_by_lane(http: Place) -> None:
    for priority in ("normal", "high", "high", "background"):
        await http.broker.publish("orders", b"a", priority=priority)

    told = (await http.ask("GET", "/v1/topics/orders/lanes")).json

    assert list(told["lanes"].items()) == [("high", 2), ("normal", 1), ("background", 1)]


async def test_a_server_looks_by_itself_from_the_start(http: Place) -> None:
    told = (await http.ask("GET", "/v1/history")).json

    assert (len(told["times_ms"]), told["waiting"]) == (1, [0])
    assert (await http.ask("GET", "/v1/history?topic=nothing")).code == "TOPIC_NOT_FOUND"


# Pipelines.


def run(name: str, records: int, updated_ms: int) -> bytes:
    told = PipelineRun(
        name=name, pipeline="archive", run="1", state="running", host="here", pid=1, master="local",
        started_ms=0, updated_ms=updated_ms, records=records,
    )  # fmt: skip
    return msgspec.json.encode(told)


async def test_pipelines_are_told_by_their_last_word(http: Place) -> None:
    assert (await http.ask("GET", "/v1/pipelines")).json == {"pipelines": []}
    now_ms = SystemClock().wall_ms()
    await http.broker.create_topic(PIPELINES_TOPIC, partitions=1)
    await http.broker.publish(PIPELINES_TOPIC, run("archive", 1, now_ms), key="archive")
    await http.broker.publish(PIPELINES_TOPIC, b"{}", key="stop:archive")
    await http.broker.publish(PIPELINES_TOPIC, b"no json", key="other")
    long_ago_ms = now_ms - PIPELINE_SILENT_MS
    await http.broker.publish(PIPELINES_TOPIC, run("totals", 5, long_ago_ms), key="totals")
    assert len((await http.ask("GET", "/v1/pipelines")).json["pipelines"]) == 2
    await http.broker.publish(PIPELINES_TOPIC, run("archive", 2, now_ms), key="archive")

    archive, totals = (await http.ask("GET", "/v1/pipelines")).json["pipelines"]

    assert (archive["run"]["name"], archive["state"], archive["run"]["records"]) == ("archive", "running", 2)
    assert (totals["run"]["name"], totals["state"]) == ("totals", "lost")


async def test_a_topic_of_pipelines_that_was_made_anew_is_read_anew(http: Place) -> None:
    for records in (1, 2):
        await http.broker.create_topic(PIPELINES_TOPIC, partitions=1)
        await http.broker.publish(PIPELINES_TOPIC, run("archive", records, 0), key="archive")
        await http.ask("GET", "/v1/pipelines")
        await http.broker.delete_topic(PIPELINES_TOPIC)
        assert (await http.ask("GET", "/v1/pipelines")).json == {"pipelines": []}


async def test_offsets_are_found_by_time(http: Place) -> None:
    await http.broker.publish("orders", b"a", partition=1)

    assert (await http.ask("GET", "/v1/topics/orders/offsets?at=earliest")).json == {"offsets": [0, 0]}
    assert (await http.ask("GET", "/v1/topics/orders/offsets")).json == {"offsets": [0, 1]}
    assert (await http.ask("GET", "/v1/topics/orders/offsets?at=2020-01-01T00:00:00Z")).json == {
        "offsets": [0, 0]
    }
    for nonsense in ("soon", "", "nan"):
        answer = await http.ask("GET", f"/v1/topics/orders/offsets?at={nonsense}")
        assert answer.code == "VALUE_INVALID"
