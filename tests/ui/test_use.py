"""That everybody can use it: by keyboard, on a small screen, in the dark; and may leave it open."""

import re
from importlib.resources import files

import pytest
from playwright.async_api import Page, expect
from tests.frontends.http.browser import Place

from penstock.cli.data.timeline import COLOURS
from penstock.delivery import events

pytestmark = pytest.mark.slow
IN_A_BROWSER = pytest.mark.asyncio(loop_scope="session")

PAGES = ("#/", "#/topics", "#/topics/orders", "#/topics/orders/groups/billing", "#/messages/orders:0:0",
         "#/dead-letters", "#/schedules", "#/pipelines", "#/sql")  # fmt: skip
UNNAMED = """() => [...document.querySelectorAll("input, select, textarea, button, a[href]")]
    .filter((each) => !(each.labels?.length || each.getAttribute("aria-label") || each.textContent.trim()))
    .map((each) => each.outerHTML)"""


async def filled(http: Place) -> None:
    """Something on every page, with names and values that are too long."""
    await http.broker.publish("orders", b'{"text": "' + b"long " * 100 + b'"}', key="k" * 60, partition=0)
    await http.broker.publish("orders", b"later", delay="1h")
    async with await http.broker.consumer("orders", group="billing", consumer_id="worker-" + "x" * 60) as one:
        await one.ack(await one.receive(wait="5s"))
        await http.broker.publish("orders", b"y" * 300, partition=0)
        for message in await one.receive(wait="5s"):
            await message.reject("a long reason " * 20)


@IN_A_BROWSER
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_page_fits_its_window_and_everything_has_a_name(
    http: Place, page: Page, width: int, scheme: str
) -> None:
    await filled(http)
    await page.set_viewport_size({"width": width, "height": 800})
    await page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]

    for place in PAGES:
        await page.goto(http.url + place)
        await expect(page.get_by_role("button", name="Live, ")).to_be_visible()
        assert await page.get_by_role("heading", level=1).count() == 1, place
        assert await page.evaluate("document.documentElement.scrollWidth") <= width, place
        assert await page.evaluate(UNNAMED) == [], place


@IN_A_BROWSER
async def test_a_server_without_anything_says_what_to_do(http: Place, page: Page) -> None:
    await http.broker.delete_topic("orders")
    for place, words in (
        ("#/", "No topics yet."),
        ("#/dead-letters", "No dead letters."),
        ("#/schedules", "Nothing is scheduled."),
        ("#/pipelines", "No pipelines have run yet."),
        ("#/nothing", "This page does not exist."),
    ):
        await page.goto(http.url + place)
        await expect(page.get_by_text(words)).to_be_visible()


@IN_A_BROWSER
async def test_a_page_that_opens_leaves_the_focus_where_somebody_types(http: Place, page: Page) -> None:
    await page.goto(http.url)
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await page.evaluate("location.hash = '#/topics'; document.getElementById('jump').focus()")
    await expect(page.get_by_role("heading", name="Topics", level=1)).to_be_visible()
    await expect(page.locator(":focus")).to_have_attribute("name", "to")


@IN_A_BROWSER
async def test_all_of_it_is_done_with_the_keyboard(http: Place, page: Page) -> None:
    press = page.keyboard.press
    focused = page.locator(":focus")
    await page.goto(http.url)
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await press("Tab")
    await expect(focused).to_have_text("Skip to content")
    await press("Enter")
    await expect(focused).to_have_id("main")

    await press("g")
    await press("t")
    await expect(page.get_by_role("heading", name="Topics", exact=True)).to_be_visible()
    await press("/")
    await expect(focused).to_have_attribute("name", "to")
    await page.keyboard.type("orders")
    await expect(focused).to_have_value("orders")
    await page.get_by_role("combobox", name="Search").press("Enter")
    await expect(page.get_by_role("heading", name="orders")).to_be_focused()
    await page.get_by_label("Value").focus()
    await page.keyboard.type("by hand")
    for _ in range(3):  # The key, the details, the button.
        await press("Tab")
    await expect(focused).to_have_text("Publish")
    await press("Enter")
    await expect(page.get_by_text("Published: orders:")).to_be_visible()
    assert [message.value for message in await http.broker.peek("orders")] == [b"by hand"]

    await page.get_by_role("tab", name="Messages").focus()
    await press("ArrowRight")
    await expect(page.get_by_role("tab", name="Groups")).to_be_focused()
    await page.get_by_role("heading", name="orders").focus()
    await press("?")
    await expect(page.get_by_role("dialog")).to_contain_text("search topics, groups, pages and message IDs")
    await press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)


@IN_A_BROWSER
async def test_a_page_asks_every_two_seconds_and_not_while_nobody_sees_it(http: Place, page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/v1/" in request.url else None)
    await page.clock.install()
    await page.goto(http.url)
    await expect(page.get_by_role("button", name="Live, ")).to_be_visible()

    async def polls_in(seconds: int) -> int:
        asked.clear()
        for _ in range(seconds // 2):
            await page.clock.run_for(2000)
            await page.evaluate("fetch('/livez').then(() => 0)")  # What was asked before is answered.
        return len([url for url in asked if url.endswith("/v1/overview")])

    assert 1 <= await polls_in(20) <= 10
    hide = "Object.defineProperty(document, 'hidden', { value: %s, configurable: true });"
    event = "document.dispatchEvent(new Event('visibilitychange'))"
    await page.evaluate(hide % "true" + event)
    assert await polls_in(10) == 0
    await page.evaluate(hide % "false" + event)
    assert await polls_in(4) >= 1
    await page.get_by_role("button", name="Live, ").click()
    await expect(page.get_by_role("button", name="Paused")).to_be_visible()
    assert await polls_in(6) == 0


@IN_A_BROWSER
async def test_a_server_that_is_gone_is_told_and_what_was_seen_stays(http: Place, page: Page) -> None:
    await page.goto(http.url)
    await expect(page.get_by_role("link", name="orders")).to_be_visible()

    await page.context.set_offline(True)

    await expect(page.get_by_role("alert")).to_contain_text("The server is not responding.")
    await expect(page.get_by_role("link", name="orders")).to_be_visible()
    await page.context.set_offline(False)
    await expect(page.get_by_role("alert")).to_have_count(0)


# Colours.


def test_every_way_a_delivery_ends_has_a_tone_and_a_shape() -> None:
    script = (files("penstock") / "web" / "pages" / "message.js").read_text()
    block = script.partition("const EVENTS = {")[2].partition("};")[0]
    known = set(re.findall(r'^  "?([a-z -]+)"?: \[', block, re.MULTILINE))

    assert set(events.GIVEN_BACK) | (COLOURS.keys() - {"leased"}) <= known


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_can_be_read_on_what_it_stands_on(scheme: int) -> None:
    style = (files("penstock") / "web" / "style.css").read_text()
    blocks = style.split(":root {")[1:]
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", blocks[scheme]))
    pairs = [(front, back) for front in ("text", "soft", "accent", "good", "warn", "bad", "info", "fourth")
             for back in ("ground", "surface", "sunken")]  # fmt: skip
    pairs += [(tone, f"{tone}-ground") for tone in ("good", "warn", "bad", "info", "accent")]
    pairs += [("on-accent", "accent"), ("text", "bad-ground"), ("text", "warn-ground"), ("surface", "bad")]

    for front, back in pairs:
        light, dark = sorted((luminance(colours[front]), luminance(colours[back])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (front, back)
