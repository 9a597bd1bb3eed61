"""Logins, other sites, and messages that would like to be more than text."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect
from tests.frontends.http.browser import Place, place

from penstock.model.access import Grant

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

# Of a page that knows what ours would send.
ATTACKS = """async (base) => {
  const body = '{"name": "bad"}';
  const json = { "content-type": "application/json", "x-penstock-guard": "x" };
  const silent = { mode: "no-cors" };
  const told = [];
  const ways = [{ ...silent, body }, { ...silent, body: new Blob([body]) }, { headers: json, body }];
  for (const options of ways) {
    const sent = fetch(base + "/v1/topics", { method: "POST", credentials: "include", ...options });
    told.push(await sent.then((answer) => answer.type, () => "refused"));
  }
  const read = fetch(base + "/ui/session", { credentials: "include" });
  told.push(await read.then((answer) => answer.text(), () => "unreadable"));
  return told;
}"""
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)><b>bold</b>"


@pytest_asyncio.fixture(loop_scope="session")
async def secured() -> AsyncIterator[Place]:
    async with place(authentication=True, connections=1000) as made:
        await made.broker.set_user("ada", "correct horse battery", [Grant(role="admin")])
        yield made


async def log_in(http: Place, page: Page, password: str = "correct horse battery") -> None:
    await page.goto(http.url)
    await page.get_by_label("User").fill("ada")
    await page.get_by_label("Password").fill(password)
    await page.get_by_role("button", name="Log in", exact=True).click()


async def test_a_login_is_asked_for_and_lasts(secured: Place, page: Page) -> None:
    await log_in(secured, page, "something else")
    await expect(page.get_by_role("alert")).to_have_text("The name or the password is not right.")

    await log_in(secured, page)
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await page.reload()
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    [cookie] = await page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert await page.evaluate("document.cookie") == ""

    await page.get_by_role("button", name="Log out").click()
    await expect(page.get_by_label("Password")).to_be_visible()
    assert await page.context.cookies() == []


async def test_a_key_opens_the_page_too_and_what_it_may_not_is_told(secured: Place, page: Page) -> None:
    made = await secured.broker.create_key("wall", [Grant(role="reader")])
    await page.goto(f"{secured.url}#/topics/orders")
    await page.get_by_role("button", name="Use an API key instead").click()
    await page.get_by_label("API key").fill(made.key)
    await page.get_by_role("button", name="Log in", exact=True).click()

    await page.get_by_label("Value").fill("x")
    await page.get_by_role("button", name="Publish").click()

    await expect(page.get_by_role("alert")).to_contain_text("it needs the producer role")


async def test_a_long_name_fits_a_phone(secured: Place, page: Page) -> None:
    name = "ada-" + "lovelace" * 8
    await secured.broker.set_user(name, "correct horse battery", [Grant(role="admin")])
    await page.set_viewport_size({"width": 390, "height": 800})
    await page.goto(secured.url)
    await page.get_by_label("User").fill(name)
    await page.get_by_label("Password").fill("correct horse battery")
    await page.get_by_role("button", name="Log in", exact=True).click()

    await expect(page.get_by_role("button", name="Log out")).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390


async def test_whoever_is_logged_in_may_change_things(secured: Place, page: Page) -> None:
    await log_in(secured, page)
    await page.goto(f"{secured.url}#/topics/orders")

    await page.get_by_label("Value").fill("x")
    await page.get_by_role("button", name="Publish").click()

    await expect(page.get_by_text("Published: orders:")).to_be_visible()


async def test_a_session_that_ended_leads_to_the_login(secured: Place, page: Page) -> None:
    await log_in(secured, page)
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()

    await secured.broker.delete_user("ada")

    await expect(page.get_by_label("Password")).to_be_visible()


async def test_a_page_of_another_site_changes_nothing(secured: Place, page: Page) -> None:
    """It runs in the same browser, where somebody is logged in."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b"<!doctype html><title>Other</title>"
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n" % len(body))
        writer.write(body)
        await writer.drain()
        writer.close()

    await log_in(secured, page)
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as other:
        elsewhere = await page.context.new_page()
        await elsewhere.goto(f"http://localhost:{other.sockets[0].getsockname()[1]}/")
        base = f"http://127.0.0.1:{secured.port}"
        told = await elsewhere.evaluate(
            ATTACKS,
            base,
        )

    assert told == ["opaque", "opaque", "refused", "unreadable"]
    assert await secured.broker.topics() == ["orders"]


async def test_a_hostile_message_is_shown_as_text_wherever_it_is_shown(http: Place, page: Page) -> None:
    receipt = await http.broker.publish("orders", EVIL.encode(), key=EVIL, headers={EVIL: EVIL})
    await http.broker.publish("orders", EVIL.encode(), key=EVIL, delay="1h")
    async with await http.broker.consumer("orders", group="billing") as consumer:
        [message] = await consumer.receive(wait="5s")
        await message.reject(EVIL)

        for place_, opener in (
            ("#/topics/orders", "Open orders:"),
            (f"#/messages/{receipt.id}", None),
            ("#/dead-letters", "Messages with the error"),
            ("#/schedules", None),
        ):
            await page.goto(http.url + place_)
            if opener is not None:
                await page.get_by_role("button", name=opener).first.click()
            await expect(page.get_by_text(EVIL).first).to_be_visible()
            assert await page.locator("main script, main img, main b:text-is('bold')").count() == 0


async def test_json_keeps_every_digit(http: Place, page: Page) -> None:
    receipt = await http.broker.publish(
        "orders", b'{"id": 12345678901234567890, "list": [], "a": {"b": null}}'
    )

    await page.goto(f"{http.url}#/messages/{receipt.id}")

    await expect(page.locator("pre.code")).to_have_text(
        '{\n  "id": 12345678901234567890,\n  "list": [],\n  "a": {\n    "b": null\n  }\n}'
    )


async def test_bytes_are_shown_in_hexadecimal(http: Place, page: Page) -> None:
    receipt = await http.broker.publish("orders", b"\xff\x00abc")

    await page.goto(f"{http.url}#/messages/{receipt.id}")

    await expect(page.locator("pre.code")).to_contain_text("ff 00 61 62 63")
