"""Which groups need attention: no false alarms, and each problem once."""

from typing import Any

import msgspec
import pytest
from tests.frontends.http.browser import Place

from penstock.clock import SystemClock
from penstock.errors import CorruptionError
from penstock.frontends.http.monitoring.alerts import LOOKS, GroupLine, alerts
from penstock.frontends.http.monitoring.history import LOOK_MS, OverviewHistory
from penstock.model.info import (
    PIPELINE_SILENT_MS,
    PIPELINES_TOPIC,
    GroupRates,
    GroupState,
    PipelineRun,
    Verdict,
    VerdictWord,
)
from penstock.testing import ManualClock

QUIET = GroupRates(published=0, delivered=0, acked=0, failed=0, dead_lettered=0)


def line(word: VerdictWord, topic: str = "orders", group: str = "billing", **values: Any) -> GroupLine:
    """A group that has had this verdict for long, with messages that have waited for two minutes."""
    state: dict[str, Any] = {
        "kind": "queue", "lag": 10, "lag_seconds": 120.0, "drain_seconds": None, "in_flight": 0,
        "waiting_retry": 0, "consumers": 1, "rates": QUIET, "delivered": 0, "acked": 0, "failed": 0,
        "dead_lettered": 0, "waited": [], "waited_sums": [],
    }  # fmt: skip
    known: dict[str, Any] = {"since_ms": 1000, "looks": LOOKS, "pipeline": None}
    state |= {name: value for name, value in values.items() if name not in known}
    known |= {name: value for name, value in values.items() if name in known}
    verdict = Verdict(word=word, text=f"about {topic}")
    return GroupLine(state=GroupState(topic=topic, group=group, verdict=verdict, **state), **known)


def test_only_what_lasts_is_an_alert() -> None:
    assert alerts([line("falling behind", looks=LOOKS - 1)]) == []
    assert [each.word for each in alerts([line("falling behind")])] == ["falling behind"]
    assert alerts([line("no consumers", lag_seconds=9)]) == []
    assert [each.word for each in alerts([line("no consumers", lag_seconds=10)])] == ["no consumers"]
    assert [each.word for each in alerts([line("blocked", looks=0)])] == ["blocked"]
    quiet: tuple[VerdictWord, ...] = ("idle", "keeping up", "draining", "working")
    assert alerts([line(word) for word in quiet]) == []


def test_one_group_that_is_behind_on_several_topics_is_one_alert() -> None:
    found = alerts(
        [
            line("falling behind", topic="a", group="archive", lag=1000, since_ms=3000, pipeline="archive"),
            line("blocked", topic="b"),
            line("falling behind", topic="c", group="archive", lag=500, since_ms=2000, lag_seconds=90),
            line("falling behind", topic="c", lag_seconds=500),
            line("falling behind", topic="d", group="archive", lag=4, looks=1),
        ]
    )

    assert [(each.word, each.group, each.topics) for each in found] == [
        ("blocked", "billing", ["b"]),
        ("falling behind", "billing", ["c"]),
        ("falling behind", "archive", ["a", "c"]),
    ]
    assert (found[0].text, found[0].pipeline) == ("about b", None)
    assert (found[2].text, found[2].since_ms, found[2].pipeline) == (
        "1,500 messages are waiting, the oldest for 2 min",
        2000,
        "archive",
    )


async def test_falling_behind_is_an_alert_when_three_looks_have_found_it(http: Place) -> None:
    clock = ManualClock()
    watch = OverviewHistory(http.broker, http.gateway, http.listener.shared.reports, clock)
    await http.broker.create_group("orders", "billing")
    seen = await http.broker.run(http.gateway.overview())
    behind = msgspec.structs.replace(
        seen,
        groups=[
            msgspec.structs.replace(group, verdict=Verdict(word="falling behind", text=""))
            for group in seen.groups
        ],
    )

    found = []
    for overview in (behind, behind, seen, behind, behind, behind):
        watch.note(overview)
        found.append(len(alerts([watch.line(group) for group in behind.groups])))
        clock.move_to(clock.steady_ms() + LOOK_MS)

    assert found == [0, 0, 0, 0, 0, 1]


# Groups of pipelines.


async def report(http: Place, **values: Any) -> None:
    now_ms = SystemClock().wall_ms()
    usual: dict[str, Any] = {
        "name": "archive", "pipeline": "archive", "run": "1", "state": "running", "host": "here", "pid": 1,
        "master": "local", "started_ms": 0, "updated_ms": now_ms,
    }  # fmt: skip
    run = PipelineRun(**{**usual, **values})
    await http.broker.publish(PIPELINES_TOPIC, msgspec.json.encode(run), key=run.name)


async def groups(http: Place) -> dict[str, tuple[str | None, str]]:
    """By group: its pipeline, and the word of its verdict, wherever it is asked for."""
    of_all = (await http.ask("GET", "/v1/overview")).json["groups"]
    of_topic = (await http.ask("GET", "/v1/topics/orders/groups")).json["groups"]
    found = {each["state"]["group"]: (each["pipeline"], each["state"]["verdict"]["word"]) for each in of_all}
    assert {each["group"]: (each["pipeline"], each["verdict"]["word"]) for each in of_topic} == found
    for name, told in found.items():
        group = (await http.ask("GET", f"/v1/topics/orders/groups/{name}")).json
        assert (group["pipeline"], group["verdict"]["word"]) == told
    return found


async def test_the_group_of_a_pipeline_is_recognised_and_judged_by_its_run(http: Place) -> None:
    await http.broker.create_topic(PIPELINES_TOPIC, partitions=1)
    for name in ("archive", "totals", "mine"):
        await http.broker.create_group("orders", name, kind="stream")
    await http.broker.create_group("orders", "queue")
    await http.broker.publish("orders", b"x")
    alone = (None, "no consumers")
    assert await groups(http) == dict.fromkeys(("archive", "mine", "queue", "totals"), alone)

    await report(http)
    await report(http, name="totals", pipeline="transform", state="failed")
    await report(http, name="queue", pipeline="transform")  # A queue group of that name is not its own.
    assert await groups(http) == {
        "archive": ("archive", "keeping up"),
        "mine": alone,
        "queue": alone,
        "totals": ("totals", "failing"),
    }

    await report(http, name="to-s3", state="stopped")  # The group of an archive has the same name always.
    assert (await groups(http))["archive"] == ("to-s3", "idle")
    long_ago_ms = SystemClock().wall_ms() - PIPELINE_SILENT_MS
    await report(http, state="stopped", updated_ms=long_ago_ms - 1)
    await report(http, name="to-s3", updated_ms=long_ago_ms)
    assert (await groups(http))["archive"] == ("to-s3", "stalled")


async def test_a_member_of_a_group_is_no_pipeline(http: Place) -> None:
    await http.broker.create_topic(PIPELINES_TOPIC, partitions=1)
    await report(http, name="totals", pipeline="transform", state="failed")
    await http.broker.create_group("orders", "totals", kind="stream")
    async with await http.broker.consumer("orders", group="totals"):
        await http.broker.publish("orders", b"x")
        assert (await groups(http))["totals"][0] is None


async def test_reports_that_cannot_be_read_do_not_hide_the_overview(
    http: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise CorruptionError(path="__pipelines/0", position=0, why="checksum")

    monkeypatch.setattr(http.broker.operations, "read", broken)

    assert (await http.ask("GET", "/v1/overview")).status == 200
    assert (await http.ask("GET", "/v1/topics/orders/groups")).status == 200
    assert (await http.ask("GET", "/v1/pipelines")).code == "CORRUPTION"
