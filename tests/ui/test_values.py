"""Avro and Protobuf values in the dashboard: as JSON, with their schema, and as bytes."""

import pytest
from playwright.async_api import Locator, Page, expect
from tests.frontends.http.browser import Place

from penstock.model.schemas import NewSchema

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

ORDER = (
    '{"type": "record", "name": "Order", "fields": ['
    '{"name": "id", "type": "long"}, {"name": "item", "type": "string"}]}'
)
DATA = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x0achair"  # Avro; the id has more digits than a double.
SHOWN = '{ "id": 4611686018427387903, "item": "chair" }'
HEX = "00 00 00 00 01 fe ff ff ff ff ff ff ff 7f 0a 63"


async def typed(http: Place) -> bytes:
    """Give the topic orders a schema, and make a value of it."""
    made = await http.broker.register_schema("orders-value", NewSchema(schema=ORDER))
    return b"\0" + made.id.to_bytes(4, "big") + DATA


async def switches_to_bytes_and_back(page: Page, code: Locator) -> None:
    await expect(page.get_by_text("Avro, schema id 1, version 1")).to_be_visible()
    await expect(code).to_have_text(SHOWN)

    await page.get_by_role("button", name="Raw bytes").click()
    await expect(code).to_contain_text(HEX)
    await page.get_by_role("button", name="Decoded").click()
    await expect(code).to_have_text(SHOWN)


async def test_a_message_that_is_browsed_is_shown_as_json_and_as_bytes(http: Place, page: Page) -> None:
    await http.broker.publish("orders", await typed(http), key="anna")

    await page.goto(f"{http.url}#/topics/orders")
    row = page.get_by_role("row").filter(has_text="anna")
    await expect(row).to_contain_text('{"id":4611686018427387903,"item":"chair"}')
    await row.get_by_role("button", name="Open").click()

    await switches_to_bytes_and_back(page, page.locator(".opened pre"))


async def test_the_page_of_a_message_shows_its_value_as_json_and_as_bytes(http: Place, page: Page) -> None:
    receipt = await http.broker.publish("orders", await typed(http))

    await page.goto(f"{http.url}#/messages/{receipt.id}")

    await switches_to_bytes_and_back(page, page.locator("main pre"))


async def test_a_dead_letter_is_shown_as_json_and_as_bytes(http: Place, page: Page) -> None:
    await http.broker.publish("orders", await typed(http))
    await http.broker.publish("orders", b"plain text")
    async with await http.broker.consumer("orders", group="billing") as consumer:
        for _ in range(2):
            [message] = await consumer.receive(wait="5s")
            await message.reject("no good")

    await page.goto(f"{http.url}#/dead-letters")
    await page.get_by_role("button", name="Messages with the error").click()
    row = page.get_by_role("row").filter(has_text='"item":"chair"').last
    await expect(page.get_by_role("row").filter(has_text="plain text").last).to_be_visible()
    await row.get_by_role("button", name="Value of").click()

    await switches_to_bytes_and_back(page, page.locator(".opened .opened pre"))


async def test_a_value_that_does_not_match_its_schema_is_shown_with_the_reason(
    http: Place, page: Page
) -> None:
    value = await typed(http)
    await http.broker.publish("orders", value[:5], key="anna")

    await page.goto(f"{http.url}#/topics/orders")
    row = page.get_by_role("row").filter(has_text="anna")
    await expect(row).to_contain_text("binary, 5 B, not decoded")
    await row.get_by_role("button", name="Open").click()

    await expect(page.get_by_text("Not decoded: byte 0: the value ends too early")).to_be_visible()
    await expect(page.locator(".opened pre")).to_contain_text("00 00 00 00 01")
    await expect(page.get_by_role("button", name="Raw bytes")).to_have_count(0)


async def test_without_a_schema_a_value_is_shown_as_bytes(http: Place, page: Page) -> None:
    await http.broker.publish("orders", b"\0\0\0\0\1abc", key="anna")  # Valid UTF-8.

    await page.goto(f"{http.url}#/topics/orders")
    row = page.get_by_role("row").filter(has_text="anna")
    await expect(row).to_contain_text("binary, 8 B")
    await row.get_by_role("button", name="Open").click()

    await expect(page.locator(".opened pre")).to_contain_text("00 00 00 00 01 61 62 63")
