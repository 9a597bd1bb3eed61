"""The page of a cluster: nodes, owners and takeovers; other servers do not have it."""

from typing import Any

import pytest
from playwright.async_api import Page, Route, expect
from tests.frontends.http.browser import Place

from penstock.clock import SystemClock

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]


def node(number: int, state: str, partitions: int, **report: Any) -> dict[str, Any]:
    known = {
        "version": "0.1.0", "uptime_seconds": 4000.0, "open": partitions, "wal_entries": 12, "commits": 900,
        "commit_seconds_p50": 0.002, "commit_seconds_p99": 0.009, "takeovers": [],
    }  # fmt: skip
    return {
        "node": number, "state": state, "host": f"host{number}", "native": 7070, "kafka": 9092, "peer": 7071,
        "partitions": partitions, "report": None if state == "stopped" else known | report,
    }  # fmt: skip


def described() -> dict[str, Any]:
    """A cluster of three nodes, of which one was killed a while ago."""
    owners = [("orders", 0, 1), ("orders", 1, 1), ("orders", 2, 2), ("orders", 3, 1), ("bills", 0, 2)]
    return {
        "name": "shop", "store": "s3://bucket/shop", "node": 1,
        "nodes": [node(1, "up", 3), node(2, "draining", 2, commit_seconds_p99=0.75), node(3, "stopped", 0)],
        "partitions": [
            {"topic": topic, "partition": number, "node": owner, "epoch": 9, "preferred": None}
            for topic, number, owner in owners
        ],
        "takeovers": [
            {
                "at_ms": SystemClock().wall_ms() - 60_000, "node": 2, "previous": 3, "clean": False,
                "partitions": 2, "duration_ms": 1234,
            },
        ],
    }  # fmt: skip


async def clustered(page: Page) -> None:
    """The server says that it is a node of a cluster."""

    async def session(route: Route) -> None:
        response = await route.fetch()
        await route.fulfill(response=response, json=await response.json() | {"cluster": True})

    async def cluster(route: Route) -> None:
        await route.fulfill(json=described())

    await page.route("**/ui/session", session)
    await page.route("**/v1/cluster", cluster)


async def test_the_page_shows_nodes_owners_and_takeovers(http: Place, page: Page) -> None:
    await clustered(page)
    await page.goto(http.url)

    await page.get_by_role("link", name="Cluster", exact=True).click()

    await expect(page.get_by_role("heading", level=1)).to_have_text("Cluster")
    rows = page.get_by_role("region", name="Nodes").get_by_role("row")
    await expect(rows).to_have_count(4)
    await expect(rows.nth(1)).to_contain_text("host1:7070")
    await expect(rows.nth(2)).to_contain_text("draining")
    await expect(rows.nth(2)).to_contain_text("750 ms")
    await expect(rows.nth(3)).to_contain_text("stopped")
    owners = page.get_by_role("region", name="Owners").get_by_role("row")
    await expect(owners.nth(2)).to_have_text("orders0-1, 32")
    takeovers = page.get_by_role("region", name="Takeovers").get_by_role("row")
    await expect(takeovers.nth(1)).to_contain_text("node 3node 2failed21.2 s")


async def test_a_single_server_has_no_such_page(http: Place, page: Page) -> None:
    await page.goto(http.url)

    await expect(page.get_by_role("link", name="Topics", exact=True)).to_be_visible()
    await expect(page.get_by_role("link", name="Cluster", exact=True)).to_have_count(0)


async def test_a_narrow_screen_shows_which_page_is_open(http: Place, page: Page) -> None:
    await clustered(page)
    await page.set_viewport_size({"width": 390, "height": 800})

    await page.goto(f"{http.url}#/cluster")

    await expect(page.get_by_role("link", name="Cluster", exact=True)).to_be_in_viewport(ratio=1)
