"""Times in one zone, axes in round steps, one number for one thing."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from tests.frontends.http.browser import Place

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

TIME = re.compile(r"\d\d:\d\d:\d\d(?:\.\d{3})?")
TICKS = """async ([most, unit]) => {
  const scale = await import("/ui/scale.js");
  return scale.ticks(most, scale[unit]).map(scale[unit].tick);
}"""


@pytest_asyncio.fixture(loop_scope="session")
async def indian(browser: Browser) -> AsyncIterator[Page]:
    """A browser in a zone that differs from UTC by half an hour, too."""
    context = await browser.new_context(timezone_id="Asia/Kolkata", viewport={"width": 1280, "height": 900})
    page = await context.new_page()
    yield page
    await context.close()


def of_day(text: str) -> set[str]:
    return {each[:5] for each in TIME.findall(text)}


async def test_all_times_of_a_page_are_in_the_zone_that_was_chosen(http: Place, indian: Page) -> None:
    receipt = await http.broker.publish("orders", b"x")
    async with await http.broker.consumer("orders", group="billing") as consumer:
        await consumer.ack(await consumer.receive(wait="5s"))
    published = datetime.fromtimestamp(receipt.timestamp / 1000, UTC)
    local = published.astimezone(ZoneInfo("Asia/Kolkata"))
    page = indian
    await page.goto(f"{http.url}#/messages/{receipt.id}")
    main = page.get_by_role("main")
    exact = main.get_by_text(re.compile("published")).first

    await expect(exact).to_contain_text(local.strftime("%H:%M:%S"))
    assert published.strftime("%H:%M") not in of_day(await main.inner_text())
    await expect(page.get_by_text("Asia/Calcutta, UTC+5:30")).to_be_visible()
    title = await main.locator("time").first.get_attribute("title") or ""
    assert local.strftime("%H:%M:%S") in title
    assert published.strftime("%H:%M:%S") in title
    assert title.endswith(" UTC")

    await page.get_by_role("button", name="UTC", exact=True).click()
    await expect(exact).to_contain_text(published.strftime("%H:%M:%S"))
    assert local.strftime("%H:%M") not in of_day(await page.locator("body").inner_text())
    await page.reload()  # It is remembered.
    await expect(exact).to_contain_text(published.strftime("%H:%M:%S"))


@pytest.mark.parametrize(("zone", "written"), [("Local", "2026-01-01T05:30"), ("UTC", "2026-01-01T00:00")])
async def test_a_time_that_somebody_writes_is_in_that_zone_too(
    http: Place, indian: Page, zone: str, written: str
) -> None:
    asked: list[str] = []
    indian.on("request", lambda request: asked.append(request.url) if "from_time" in request.url else None)
    await indian.goto(f"{http.url}#/topics/orders")
    await indian.get_by_role("button", name=zone, exact=True).click()

    await indian.get_by_label("Show").select_option("time")
    await indian.get_by_label("From (").fill(written)
    await indian.get_by_role("button", name="Apply").click()
    await expect(indian.get_by_text("No messages found.")).to_be_visible()

    assert "from_time=2026-01-01T00%3A00%3A00.000Z" in asked[0]


@pytest.mark.parametrize(
    ("most", "unit", "expected"),
    [
        (0, "COUNT", ["0", "1"]),
        (1, "COUNT", ["0", "1"]),
        (7, "COUNT", ["0", "2", "4", "6", "8"]),
        (11_600, "COUNT", ["0", "5,000", "10 k", "15 k"]),
        (3e6, "COUNT", ["0", "1 M", "2 M", "3 M"]),
        (0.03, "RATE", ["0", "0.1/s"]),
        (1.3, "RATE", ["0", "0.5/s", "1/s", "1.5/s"]),
        (0.0007, "SPAN", ["0", "1 ms"]),
        (45, "SPAN", ["0", "15 s", "30 s", "45 s"]),
        (66, "SPAN", ["0", "30 s", "1 min", "1.5 min"]),
        (420, "SPAN", ["0", "2 min", "4 min", "6 min", "8 min"]),
        (800, "SPAN", ["0", "5 min", "10 min", "15 min"]),
        (5e6, "SPAN", ["0", "20 d", "40 d", "60 d"]),
    ],
)
async def test_axes_have_round_steps_and_no_number_twice(
    http: Place, page: Page, most: float, unit: str, expected: list[str]
) -> None:
    await page.goto(http.url)

    assert await page.evaluate(TICKS, [most, unit]) == expected


async def test_the_steps_of_time_are_equal_and_on_the_minute(http: Place, page: Page) -> None:
    await page.goto(http.url)
    for minutes in (5, 15, 30, 60):
        for pixels in (230, 330, 500):
            times = await page.evaluate(
                "async ([to, from, room]) => (await import('/ui/scale.js')).timeTicks(from, to, room)",
                [1_794_959_999_123, 1_794_959_999_123 - minutes * 60_000, pixels],
            )
            steps = {later - earlier for earlier, later in pairwise(times)}
            assert len(steps) <= 1
            assert all(time % 60_000 == 0 for time in times)
            assert 1 <= len(times) <= pixels / 64 + 1


async def test_a_tile_and_the_chart_beside_it_say_the_same(http: Place, page: Page) -> None:
    async with await http.broker.consumer("orders", group="billing") as consumer:
        for _ in range(30):
            await http.broker.publish("orders", b"x")
        await consumer.ack(await consumer.receive(max_messages=30, wait="5s"))
    for address in ("#/", "#/topics/orders"):
        await page.goto(http.url + address)
        await expect(page.get_by_role("button", name="Live, ")).to_be_visible()
        told = await page.evaluate("""() => {
          const tile = [...document.querySelectorAll(".tile")].find((each) => each.innerText.startsWith("Published"));
          const line = [...document.querySelectorAll(".legend > span")].find((each) => each.innerText.startsWith("published"));
          return [tile.querySelector("dd").innerText, line.querySelector("b").innerText];
        }""")  # noqa: E501
        assert told[0] == told[1] != "0/s"
    await expect(page.get_by_text("acked by groups")).to_be_visible()


async def test_bars_in_a_table_stand_below_each_other(http: Place, page: Page) -> None:
    for topic, count in (("a", 1), ("b", 1200)):
        await http.broker.create_topic(topic)
        for _ in range(count):
            await http.broker.publish(topic, b"x")
    await page.goto(f"{http.url}#/topics")
    await expect(page.get_by_role("link", name="b", exact=True)).to_be_visible()

    places = await page.evaluate(
        "() => [...document.querySelectorAll('.meter')].map((each) => each.getBoundingClientRect().left)"
    )

    assert len(places) == 3
    assert len(set(places)) == 1
