"""What a person does in the dashboard, from the first look to the last."""

import re

import pytest
from playwright.async_api import Page, expect
from tests.frontends.http.browser import Place

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]


async def test_a_message_that_is_published_in_the_page_comes_to_a_consumer(http: Place, page: Page) -> None:
    await page.goto(f"{http.url}#/topics/orders")

    await page.get_by_label("Value").fill('{"books": 2}')
    await page.get_by_role("textbox", name="Key").fill("anna")
    await page.get_by_role("button", name="Publish").click()

    await expect(page.get_by_text("Published: orders:")).to_be_visible()
    async with await http.broker.consumer("orders", group="billing") as consumer:
        [message] = await consumer.receive(wait="5s")
        assert (message.value, message.key, message.priority) == (b'{"books": 2}', b"anna", "normal")
        await message.ack()
    await expect(page.get_by_role("row").filter(has_text="anna")).to_be_visible()


async def test_headers_priority_and_delay_go_with_a_message(http: Place, page: Page) -> None:
    await page.goto(f"{http.url}#/topics/orders")

    await page.get_by_label("Value").fill("later")
    await page.get_by_text("Headers, priority, delay").click()
    await page.get_by_label("Headers").fill("source: shop\ntrace: a:b")
    await page.get_by_label("Priority").select_option("high")
    await page.get_by_label("Delay").fill("1h")
    await page.get_by_role("button", name="Publish").click()

    await expect(page.get_by_text("Scheduled: orders:")).to_be_visible()
    [waiting] = await http.broker.scheduled("orders")
    assert (waiting.value, waiting.priority) == (b"later", "high")
    assert waiting.headers == {"source": "shop", "trace": "a:b"}


async def test_a_failing_message_is_followed_to_the_dead_letters_and_redriven(
    http: Place, page: Page
) -> None:
    await http.broker.create_group("orders", "billing", max_attempts=2, backoff=["1ms"])
    receipt = await http.broker.publish("orders", b"ten chairs", key="carl")
    async with await http.broker.consumer("orders", group="billing", consumer_id="worker-1") as consumer:
        for _ in range(2):
            [message] = await consumer.receive(wait="5s")
            await message.nack(error=ValueError("the van is too small"))

        await page.goto(f"{http.url}#/")
        await page.get_by_role("link", name="1 dead letter").click()
        error = page.get_by_role("row").filter(has_text="ValueError: the van is too small")
        await error.get_by_role("button", name="Messages with the error").click()
        await page.get_by_role("link", name=receipt.id).click()

        await expect(page.get_by_role("heading", name=receipt.id)).to_be_visible()
        journey = page.get_by_role("listitem")
        await expect(journey.filter(has_text="delivered worker-1, attempt 1")).to_be_visible()
        await expect(journey.filter(has_text="ValueError: the van is too small")).to_have_count(2)
        await expect(
            page.get_by_text(re.compile("dead-lettered .* after publish, 2 attempts"))
        ).to_be_visible()

        await page.get_by_role("button", name="Redrive…").click()
        await expect(
            page.get_by_text("1 dead letter will be returned to orders, for the group in which it failed.")
        ).to_be_visible()
        await page.get_by_role("dialog").get_by_role("button", name="Redrive", exact=True).click()

        await expect(page.get_by_text("Returned 1 message to orders.")).to_be_visible()
        await expect(journey.filter(has_text="redriven")).to_be_visible()
        [again] = await consumer.receive(wait="5s")
        assert again.value == b"ten chairs"


async def test_only_the_message_that_was_chosen_goes_back(http: Place, page: Page) -> None:
    ids = [(await http.broker.publish("orders", b"x", partition=0)).id for _ in range(3)]
    async with await http.broker.consumer("orders", group="billing") as consumer:
        for message in await consumer.receive(max_messages=3, wait="5s"):
            await message.reject("no good")

    await page.goto(f"{http.url}#/messages/{ids[1]}")
    await page.get_by_role("button", name="Redrive…").click()
    await page.get_by_role("dialog").get_by_role("button", name="Redrive", exact=True).click()
    await expect(page.get_by_text("Returned 1 message to orders.")).to_be_visible()

    assert [letter.source for letter in await http.broker.dead_letters("orders")] == [ids[0], ids[2]]


async def test_all_dead_letters_of_an_error_go_back_together(http: Place, page: Page) -> None:
    for _ in range(3):
        await http.broker.publish("orders", b"x")
    async with await http.broker.consumer("orders", group="billing") as consumer:
        for message in await consumer.receive(max_messages=3, wait="5s"):
            await message.reject("no good")

    await page.goto(f"{http.url}#/dead-letters")
    await page.get_by_role("button", name="Redrive…").click()
    await expect(
        page.get_by_text("3 dead letters will be returned to orders, for the group in which they failed.")
    ).to_be_visible()
    await page.get_by_label("Limit").fill("2")
    await page.get_by_role("dialog").get_by_role("button", name="Redrive", exact=True).click()

    await expect(page.get_by_text("Returned 2 messages to orders.")).to_be_visible()
    assert len(await http.broker.dead_letters("orders")) == 1


async def test_a_seek_shows_what_it_would_do_before_it_does_it(http: Place, page: Page) -> None:
    for _ in range(4):
        await http.broker.publish("orders", b"x", partition=0)
    async with await http.broker.consumer("orders", group="billing") as consumer:
        await consumer.ack(await consumer.receive(max_messages=4, wait="5s"))

    await page.goto(f"{http.url}#/topics/orders/groups/billing")
    await page.get_by_role("button", name="Seek…").click()
    await expect(page.get_by_text("4 messages will be delivered again.")).to_be_visible()
    assert (await http.broker.describe_group("orders", "billing")).lag == 0
    await page.get_by_role("button", name="Move group").click()

    await expect(page.get_by_text("Group billing moved.")).to_be_visible()
    assert (await http.broker.describe_group("orders", "billing")).lag == 4


async def test_messages_are_found_by_key_and_by_offset(http: Place, page: Page) -> None:
    for number in range(5):
        await http.broker.publish("orders", b"%d" % number, key="anna" if number % 2 else "bert")
        await http.broker.publish("orders", b"%d" % number, partition=0)

    await page.goto(f"{http.url}#/topics/orders")
    rows = page.get_by_role("table").get_by_role("row")
    await page.get_by_label("Show").select_option("by key")
    await page.locator("form.row input[name=key]").fill("anna")
    await page.get_by_role("button", name="Apply").click()
    await expect(rows).to_have_count(3)  # With the heading.
    await page.get_by_label("Show").select_option("from an offset")
    await page.locator("form.row input[name=offset]").fill("3")
    await page.get_by_role("button", name="Apply").click()
    await expect(rows.nth(1)).to_contain_text("0:3")


async def test_a_scheduled_message_is_moved_and_cancelled(http: Place, page: Page) -> None:
    receipt = await http.broker.publish("orders", b"a reminder", delay="1h")
    before = (await http.broker.scheduled("orders"))[0].due_ms

    await page.goto(f"{http.url}#/schedules")
    await page.get_by_role("button", name="Reschedule…").click()
    await page.get_by_label("Due in").fill("2h")
    await page.get_by_role("button", name="Reschedule", exact=True).click()
    await expect(page.get_by_text("is now due in 2h.")).to_be_visible()
    assert (await http.broker.scheduled("orders"))[0].due_ms > before
    await page.get_by_role("button", name="Cancel…").click()
    await page.get_by_role("button", name="Cancel message").click()

    await expect(page.get_by_text(f"{receipt.id} cancelled.")).to_be_visible()
    await expect(page.get_by_text("Nothing is scheduled.")).to_be_visible()
    assert await http.broker.scheduled("orders") == []


async def test_a_topic_is_made_and_deleted(http: Place, page: Page) -> None:
    await page.goto(f"{http.url}#/topics")
    await page.get_by_role("button", name="New topic").click()
    await page.get_by_label("Name").fill("bills")
    await page.get_by_label("Partitions").fill("3")
    await page.get_by_role("button", name="Create").click()
    await expect(page.get_by_role("heading", name="bills")).to_be_visible()
    assert (await http.broker.describe_topic("bills")).settings.partitions == 3

    await page.get_by_role("button", name="Delete…").click()
    last = page.get_by_role("button", name="Delete topic")
    await expect(last).to_be_disabled()
    await page.get_by_label("Type the topic name to confirm").fill("bills")
    await last.click()

    await expect(page.get_by_text("Topic bills deleted.")).to_be_visible()
    assert await http.broker.topics() == ["orders"]


async def test_what_the_server_refuses_is_told_with_its_sentence(http: Place, page: Page) -> None:
    await page.goto(f"{http.url}#/topics/orders")
    await page.get_by_label("Value").fill("x")
    await page.get_by_text("Headers, priority, delay").click()
    await page.get_by_role("spinbutton", name="Partition").last.fill("9")
    await page.get_by_role("button", name="Publish").click()

    await expect(page.get_by_role("alert")).to_contain_text("topic 'orders' has partitions 0 to 1, not 9")
