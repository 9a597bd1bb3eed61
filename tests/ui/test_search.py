"""The search box, and the pages of what does not exist."""

import asyncio

import pytest
from playwright.async_api import Locator, Page, Route, expect
from tests.frontends.http.browser import Place

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]


async def opened(http: Place, page: Page) -> Locator:
    """The box, on a server with some topics and groups."""
    for topic in ("payments", "payouts", "orders-eu"):
        await http.broker.create_topic(topic)
    await http.broker.create_group("payments", "ledger")
    await page.goto(http.url)
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    return page.get_by_role("combobox", name="Search")


async def test_a_part_of_a_name_finds_topics_groups_and_pages(http: Place, page: Page) -> None:
    box = await opened(http, page)
    options = page.get_by_role("option")
    await page.keyboard.press("/")

    await page.keyboard.type("pay")
    await expect(options).to_have_text(["payoutstopic", "paymentstopic"])
    await box.fill("oeu")  # Letters in their order are enough.
    await expect(options).to_have_text(["orders-eutopic"])
    await box.fill("paymnets")  # And one slip in four letters is forgiven.
    await expect(options).to_have_text(["paymentstopic"])
    await box.fill("ledg")
    await expect(options).to_have_text(["ledgergroup on payments"])
    await box.fill("dead")
    await expect(options).to_have_text(["Dead letterspage"])
    await box.fill("orders:1:7")
    await expect(options).to_have_text(["orders:1:7message"])
    await box.fill("zzz")
    await expect(options).to_have_count(0)
    await expect(page.get_by_text("No results for “zzz”.")).to_be_visible()
    await box.press("Enter")
    assert page.url.endswith("#/") or "#" not in page.url


async def test_it_is_operated_with_the_keyboard(http: Place, page: Page) -> None:
    box = await opened(http, page)
    await page.keyboard.press("Control+k")
    await expect(box).to_be_focused()
    await page.keyboard.type("pay")
    options = page.get_by_role("option")
    await expect(options).to_have_count(2)

    chosen = page.locator("[role=option][aria-selected=true]")
    await expect(chosen).to_contain_text("payouts")
    await page.keyboard.press("ArrowDown")
    await expect(chosen).to_contain_text("payments")
    named = await chosen.get_attribute("id")
    await expect(box).to_have_attribute("aria-activedescendant", named or "")
    await page.keyboard.press("ArrowDown")
    await expect(chosen).to_contain_text("payouts")
    await page.keyboard.press("Escape")
    await expect(options).to_have_count(0)
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("Enter")

    await expect(page.get_by_role("heading", name="payments")).to_be_focused()
    await expect(box).to_have_value("")


async def test_whoever_types_faster_than_the_server_answers_is_waited_for(http: Place, page: Page) -> None:
    box = await opened(http, page)
    answered = asyncio.Event()

    async def late(route: Route) -> None:
        await answered.wait()
        await route.continue_()

    await page.route("**/v1/overview", late)
    await box.fill("payou")
    await box.press("Enter")
    answered.set()

    await expect(page.get_by_role("heading", name="payouts")).to_be_visible()


async def test_a_click_opens_what_was_found(http: Place, page: Page) -> None:
    box = await opened(http, page)
    await box.fill("ledger")
    await page.get_by_role("option", name="ledger").click()

    await expect(page.get_by_role("heading", name="ledger")).to_be_visible()
    assert page.url.endswith("#/topics/payments/groups/ledger")


async def test_a_topic_that_does_not_exist_is_told_to_a_person(http: Place, page: Page) -> None:
    await opened(http, page)
    await page.goto(f"{http.url}#/topics/paymentss")
    main = page.get_by_role("main")

    await expect(main).to_contain_text("There is no topic “paymentss”.")
    await expect(page.get_by_role("button", name="Live")).to_be_visible()
    await expect(main).not_to_contain_text("create_topic")
    await main.get_by_role("button", name="Create this topic…").click()
    await expect(page.get_by_label("Name")).to_have_value("paymentss")
    await page.get_by_role("button", name="Cancel").click()
    await main.get_by_role("link", name="payments").click()
    await expect(page.get_by_role("heading", name="payments")).to_be_visible()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("#/topics/orders/groups/bills", "There is no group “bills” on the topic “orders”."),
        ("#/messages/orders:0:99", "There is no message “orders:0:99”."),
        ("#/messages/orders:7:0", "There is no message “orders:7:0”."),
        ("#/messages/order:0:0", "There is no message “order:0:0”."),
        ("#/messages/nonsense", "There is no message “nonsense”."),
    ],
)
async def test_what_does_not_exist_is_told_with_a_way_on(
    http: Place, page: Page, address: str, words: str
) -> None:
    await page.goto(http.url + address)
    main = page.get_by_role("main")

    await expect(main).to_contain_text(words)
    await expect(main.get_by_role("link", name="All topics")).to_be_visible()
    await expect(page.get_by_text("Disconnected")).to_have_count(0)


async def test_a_topic_that_is_deleted_while_it_is_shown_is_gone(http: Place, page: Page) -> None:
    await page.goto(f"{http.url}#/topics/orders")
    await expect(page.get_by_role("heading", name="Publish")).to_be_visible()

    await http.broker.delete_topic("orders")
    await expect(page.get_by_role("main")).to_contain_text("There is no topic “orders”.")
    await http.broker.create_topic("orders")
    await expect(page.get_by_role("heading", name="Publish")).to_be_visible()
