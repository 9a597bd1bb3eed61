"""The overview: problems of the server first, each alert once, the groups of a pipeline together."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from playwright.async_api import Page, Route, expect
from tests.frontends.http.browser import Place

from penstock.clock import SystemClock
from penstock.model.info import PIPELINES_TOPIC, PipelineRun

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]


async def changed(page: Page, change: Callable[[dict[str, Any]], None]) -> None:
    """The overview as the server tells it, after hours in which something went wrong."""

    async def answer(route: Route) -> None:
        response = await route.fetch()
        told = await response.json()
        change(told)
        await route.fulfill(response=response, json=told)

    await page.route("**/v1/overview", answer)


async def test_problems_of_the_server_are_the_first_thing_on_the_page(http: Place, page: Page) -> None:
    def broken(told: dict[str, Any]) -> None:
        known = {"since_ms": told["now_ms"], "warning": False, "topic": None, "partition": None}
        damaged = known | {"kind": "damaged", "topic": "orders"}
        told["broker"]["problems"] = [
            known | {"kind": "cut", "message": "the journal ended with an invalid batch", "warning": True},
            known | {"kind": "disk_full", "message": "there is no room on the disk"},
            *(
                damaged | {"message": f"offset {offset} cannot be read", "partition": 1}
                for offset in range(500)
            ),
            known | {"kind": "topic_offline", "message": "it cannot be opened", "topic": "bills"},
            known | {"kind": "something_new", "message": "it is described here"},
        ]

    await changed(page, broken)
    await page.goto(http.url)
    rows = page.get_by_role("region", name="Alerts").get_by_role("listitem")

    await expect(rows).to_have_count(5)
    await expect(rows.nth(0)).to_contain_text("The disk is full, since ")
    await expect(rows.nth(0)).to_contain_text("There is no room on the disk.Free some space")
    await expect(rows.nth(1)).to_contain_text("Stored data is damaged on orders in 500 places")
    await expect(rows.nth(1)).to_contain_text(
        "First: Offset 0 cannot be read.Stop the server, then run penstock check"
    )
    await expect(rows.nth(2)).to_contain_text("A topic cannot be opened: bills")
    await expect(rows.nth(3)).to_contain_text("It is described here.")
    await expect(rows.nth(4)).to_contain_text("The end of a log was truncated")
    ground = "(row) => getComputedStyle(row).backgroundColor"
    assert await rows.nth(0).evaluate(ground) != await rows.nth(4).evaluate(ground)


async def test_equal_alerts_are_one_row_and_many_are_folded(http: Place, page: Page) -> None:
    def late(told: dict[str, Any]) -> None:
        told["alerts"] = [
            {"group": "archive", "word": "falling behind", "topics": ["a", "b", "c", "d", "e"],
             "text": "5,000 messages are waiting, the oldest for 2 min", "since_ms": None,
             "pipeline": "archive"},
            *({"group": f"g{number}", "word": "no consumers", "topics": ["orders"],
               "text": "1 message is waiting", "since_ms": told["now_ms"], "pipeline": None}
              for number in range(6)),
        ]  # fmt: skip

    await changed(page, late)
    await page.goto(http.url)
    alerts = page.get_by_role("region", name="Alerts")
    rows = alerts.get_by_role("listitem")

    await expect(rows.first).to_contain_text(
        "pipeline archive is falling behind on 5 topics: a, b, c, d and 1 more"
    )
    await expect(rows).to_have_count(4)
    await alerts.get_by_role("button", name="Show 3 more").click()
    await expect(rows).to_have_count(7)


async def report(http: Place, state: str) -> None:
    run = PipelineRun(
        name="archive", pipeline="archive", run="1", state=state, host="here", pid=1, master="local",  # type: ignore[arg-type]
        started_ms=0, updated_ms=SystemClock().wall_ms(), error="The disk of the lake is full\nat line 1",
    )  # fmt: skip
    await http.broker.publish(PIPELINES_TOPIC, msgspec.json.encode(run), key="archive")


async def archived(http: Place, state: str) -> None:
    await http.broker.create_topic(PIPELINES_TOPIC, partitions=1)
    await http.broker.create_topic("bills")
    for topic in ("bills", "orders"):
        await http.broker.publish(topic, b"x")
        await http.broker.commit_offsets(topic, "archive", {0: 0})
    await report(http, state)


async def test_the_groups_of_a_pipeline_are_one_row_that_opens(http: Place, page: Page) -> None:
    await archived(http, "running")
    await http.broker.create_group("orders", "billing")
    await page.goto(http.url)
    rows = page.get_by_role("region", name="Groups").get_by_role("row")

    await expect(rows).to_have_count(3)  # With the names of the columns.
    folded = rows.filter(has_text="archive pipeline, 2 topics")
    await expect(folded).to_contain_text("keeping up")
    await folded.get_by_role("button", name="Groups of the pipeline archive").click()
    await expect(rows).to_have_count(5)
    await page.get_by_role("link", name="archive").nth(1).click()
    await expect(page.get_by_text("Used by the pipeline archive")).to_be_visible()


async def test_a_pipeline_that_failed_is_one_alert(http: Place, page: Page) -> None:
    await archived(http, "failed")
    await page.goto(http.url)
    rows = page.get_by_role("region", name="Alerts").get_by_role("listitem")

    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text(
        "pipeline archive has failed, messages are waiting on 2 topics: bills, orders"
    )
    await expect(rows).to_contain_text("The disk of the lake is full")


async def test_a_value_that_is_not_valid_json_is_hinted_at_and_published(http: Place, page: Page) -> None:
    await page.goto(f"{http.url}#/topics/orders")
    value, hint = page.get_by_label("Value"), page.locator("#value-hint")

    await value.fill('{"to": "me@example.com"}')
    await expect(hint).to_have_text("Valid JSON")
    await value.fill("just words")
    await expect(hint).to_have_text("Plain text")
    await value.fill("")
    await expect(hint).to_have_text("")
    await value.fill('{"to": "me@example.com"')
    await expect(hint).to_contain_text("Invalid JSON: ")
    await expect(hint).to_contain_text("It will be published as plain text.")

    await page.get_by_role("button", name="Publish").click()
    await expect(page.get_by_text("Published: orders:")).to_be_visible()
    assert [each.value for each in await http.broker.peek("orders")] == [b'{"to": "me@example.com"']
