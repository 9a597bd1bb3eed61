"""The SQL page: editor, tables and columns, results, charts with gaps, downloads, saved queries."""

import asyncio
import csv
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from tests.frontends.http.browser import Place, place
from tests.frontends.http.sql_stand_in import Result, SqlStandIn, sql_stand_in

from penstock.model.access import Grant
from penstock.wire.sql import RunQuery

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

COLUMNS = [("offset", "bigint"), ("timestamp", "timestamp"), ("key", "binary"), ("value", "binary")]
MINUTES: dict[str, Any] = {
    "columns": [{"name": "minute", "type": "timestamp"}, {"name": "messages", "type": "bigint"}],
    "rows": [
        [f"2026-11-18T19:{minute:02}:00.000Z", None if minute == 30 else 100 + minute]
        for minute in range(60)
        if not 20 <= minute < 28
    ],
    "truncated": False,
}  # fmt: skip
# How many parts the line has, and of how many points.
PARTS = """[...document.querySelector("#main .chart > svg path.line").getAttribute("d").matchAll(/M[^M]*/g)]
    .map(([part]) => part.split("L").length)"""


def orders(count: int, *, truncated: bool = False) -> Result:
    rows = [
        [
            number,
            "2026-11-18T19:00:00.000Z",
            f"customer-{number}",
            f'{{"id": {number}, "note": "{"long " * 60}"}}',
        ]
        for number in range(count)
    ]
    columns = [{"name": name, "type": kind} for name, kind in COLUMNS]
    return {"columns": columns, "rows": rows, "truncated": truncated}


@pytest_asyncio.fixture(loop_scope="session")
async def session(http: Place, tmp_path: Path) -> AsyncIterator[SqlStandIn]:
    async with sql_stand_in(http.broker, tmp_path) as made:
        names = ("orders", "orders__journal", "orders__dlq", "web.clicks", "__groups")
        made.tables = dict.fromkeys(names, COLUMNS)
        yield made


def answer_with(session: SqlStandIn, result: Result) -> None:
    async def answer(_: RunQuery) -> Result:
        return result

    session.answer = answer


async def asked(http: Place, page: Page, query: str) -> None:
    await page.goto(f"{http.url}#/sql")
    await page.get_by_label("Query", exact=True).fill(query)
    await page.keyboard.press("Control+Enter")


async def test_without_a_session_it_says_what_starts_one_and_notices_it(
    http: Place, page: Page, tmp_path: Path
) -> None:
    await page.goto(http.url)
    await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    await page.keyboard.press("g")
    await page.keyboard.press("q")

    await expect(page.get_by_text("penstock serve --archive")).to_be_visible()
    await expect(page.get_by_text("penstock sql --keep")).to_be_visible()
    async with sql_stand_in(http.broker, tmp_path):
        await expect(page.get_by_label("Query", exact=True)).to_be_visible()


async def test_a_query_is_run_with_the_keyboard_and_its_rows_are_in_pages(
    http: Place, page: Page, session: SqlStandIn
) -> None:
    answer_with(session, orders(120, truncated=True))

    await asked(http, page, "select * from orders")

    rows = page.get_by_role("region", name="Rows").get_by_role("row")
    await expect(page.get_by_text("the first 120 rows in")).to_be_visible()
    await expect(rows).to_have_count(51)
    await expect(rows.nth(1)).to_contain_text("customer-0")
    await page.get_by_role("button", name="Last").click()
    await expect(page.get_by_text("101–120 of 120")).to_be_visible()
    await expect(rows).to_have_count(21)
    assert session.queries[0].rows_max == 1000
    await page.get_by_role("button", name="Open row 101", exact=True).click()
    await expect(page.locator(".values .json-number")).to_have_text(["100"])


async def test_times_are_in_the_zone_of_the_page_and_nulls_are_not_empty(
    http: Place, page: Page, session: SqlStandIn
) -> None:
    answer_with(session, {
        "columns": [{"name": "at", "type": "timestamp"}, {"name": "x", "type": "string"}],
        "rows": [["2026-11-18T19:00:00.000Z", None], [None, "<b>bold</b>"]], "truncated": False,
    })  # fmt: skip

    await asked(http, page, "select 1")

    cells = page.get_by_role("region", name="Rows").locator("td:not(.tight)")
    await page.get_by_role("button", name="UTC", exact=True).click()
    await expect(cells).to_have_text(["2026-11-18 19:00:00", "null", "null", "<b>bold</b>"])


async def test_control_characters_of_a_binary_value_are_escaped(
    http: Place, page: Page, session: SqlStandIn
) -> None:
    answer_with(session, {
        "columns": [{"name": "value", "type": "binary"}],
        "rows": [["\x00\x00\x01\x04c7\x9b\\xf8"]], "truncated": False,
    })  # fmt: skip

    await asked(http, page, "select value from orders")
    await page.get_by_role("button", name="Open row 1", exact=True).click()

    shown = r"\x00\x00\x01\x04c7\x9b\xf8"
    region = page.get_by_role("region", name="Rows")
    await expect(region.locator("td[data-name=value]")).to_have_text(shown)
    await expect(region.locator(".values dd")).to_have_text(shown)


async def test_missing_minutes_and_missing_values_are_gaps_in_the_chart(
    http: Place, page: Page, session: SqlStandIn
) -> None:
    answer_with(session, MINUTES)

    await asked(http, page, "select minute, messages from orders")
    await page.get_by_role("tab", name="Chart").click()

    await expect(page.locator("#main .chart > svg path.line")).to_be_visible()
    assert await page.evaluate(PARTS) == [20, 2, 29]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([0, 10, 20, 30, 40, 50], []),
        ([0, 10, 21, 29, 40, 100, 110, 120], [5]),  # The machine slept.
        ([0, 10, 35, 60, 85], []),  # Sampled less often from some time on.
        ([], []),
        ([5], []),
    ],
)
async def test_a_line_is_interrupted_where_samples_are_missing(
    http: Place, page: Page, times: list[int], expected: list[int]
) -> None:
    await page.goto(http.url)

    found = await page.evaluate(
        "async (times) => [...(await import('/ui/gaps.js')).interruptions(times)]", times
    )

    assert found == expected


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([0, 60, 120, 240, 300], [3]),
        ([0, 60, 600, 660], [2]),
        ([0, 7, 23, 24, 90], []),  # Single messages.
        ([0, 0, 60], []),
        ([], []),
    ],
)
async def test_missing_buckets_are_those_of_a_regular_series(
    http: Place, page: Page, times: list[int], expected: list[int]
) -> None:
    await page.goto(http.url)

    found = await page.evaluate(
        "async (times) => [...(await import('/ui/gaps.js')).missingBuckets(times)]", times
    )

    assert found == expected


async def test_names_and_numbers_are_bars(http: Place, page: Page, session: SqlStandIn) -> None:
    answer_with(session, {
        "columns": [{"name": "key", "type": "binary"}, {"name": "n", "type": "bigint"}],
        "rows": [["anna", 20], ["bob", 10]], "truncated": False,
    })  # fmt: skip

    await asked(http, page, "select key, count(*) as n from orders group by key")
    await page.get_by_role("tab", name="Chart").click()

    widths = await page.locator(".bar-length").evaluate_all("all => all.map(each => each.style.width)")
    assert widths == ["100%", "50%"]


async def test_a_running_query_shows_its_time_and_can_be_cancelled(
    http: Place, page: Page, session: SqlStandIn
) -> None:
    async def never(_: RunQuery) -> Result:
        await asyncio.Event().wait()
        raise AssertionError

    session.answer = never
    await asked(http, page, "select forever")
    await expect(page.get_by_text("Running, ")).to_be_visible()

    await page.get_by_role("button", name="Cancel").click()

    await expect(page.get_by_text("Cancelled after ")).to_be_visible()
    await asyncio.wait_for(session.left.wait(), 60)  # The session is told, too.
    await expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled()


async def test_an_error_is_one_sentence_below_the_query(http: Place, page: Page, session: SqlStandIn) -> None:
    await asked(http, page, "select * from oders")

    await expect(page.get_by_role("alert")).to_contain_text(
        "there is no topic or view 'oders'; did you mean orders?"
    )


async def test_tables_open_to_their_columns_and_are_inserted_where_the_cursor_is(
    http: Place, page: Page, session: SqlStandIn
) -> None:
    await page.goto(f"{http.url}#/sql")
    editor = page.get_by_label("Query", exact=True)
    await editor.fill("select  from ")
    await page.get_by_role("button", name="web.clicks", exact=True).click()
    await expect(editor).to_have_value("select  from `web.clicks`")

    await page.get_by_role("button", name="Open orders", exact=True).click()
    await editor.evaluate("each => each.setSelectionRange(7, 7)")
    await page.get_by_role("button", name="offset", exact=True).click()
    await expect(editor).to_have_value("select offset from `web.clicks`")
    await expect(page.get_by_role("button", name="orders__dlq", exact=True)).to_be_visible()

    await page.get_by_label("Filter tables").fill("click")
    await expect(page.get_by_role("button", name="Open orders", exact=True)).to_have_count(0)


async def test_queries_are_remembered_and_saved_in_the_browser(
    http: Place, page: Page, session: SqlStandIn
) -> None:
    answer_with(session, orders(1))
    for number in (1, 2):
        await asked(http, page, f"select {number}")
        await expect(page.get_by_text("1 row in")).to_be_visible()
    editor = page.get_by_label("Query", exact=True)
    await editor.fill("select saved")
    await page.get_by_label("Name of the query").fill("mine")
    await page.get_by_role("button", name="Save", exact=True).click()
    await page.reload()

    await page.get_by_role("button", name="mine", exact=True).click()
    await expect(editor).to_have_value("select saved")
    await editor.press("Alt+ArrowUp")
    await expect(editor).to_have_value("select 2")
    await editor.press("Alt+ArrowUp")
    await expect(editor).to_have_value("select 1")
    await page.get_by_role("button", name="Delete mine").click()
    await expect(page.get_by_role("button", name="mine", exact=True)).to_have_count(0)


async def test_a_result_is_downloaded_with_all_its_rows(http: Place, page: Page, session: SqlStandIn) -> None:
    async def answer(query: RunQuery) -> Result:
        return orders(3) if query.form == "json" else b"offset\n0\n1\n2\n"

    session.answer = answer
    await asked(http, page, "select offset from orders")
    for form in ("CSV", "JSON"):
        async with page.expect_download() as waiting:
            await page.get_by_role("button", name=f"Download {form}").click()
        download = await waiting.value
        assert download.suggested_filename == f"penstock-query.{form.lower()}"
        content = await asyncio.to_thread(Path(await download.path()).read_text)
        if form == "CSV":
            assert list(csv.reader(content.splitlines())) == [["offset"], ["0"], ["1"], ["2"]]
        else:
            assert len(json.loads(content)["rows"]) == 3
        await expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled()

    assert [query.rows_max for query in session.queries] == [1000, 1_000_000, 1_000_000]


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_large_result_fits_the_window(
    http: Place, page: Page, session: SqlStandIn, width: int, scheme: str
) -> None:
    answer_with(session, orders(500))
    await page.set_viewport_size({"width": width, "height": 800})
    await page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]

    await asked(http, page, "select * from orders")
    await page.get_by_role("button", name="Open row 2", exact=True).click()

    await expect(page.locator(".values")).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth") <= width


async def test_another_user_sees_nothing_of_the_one_before(browser: Browser, tmp_path: Path) -> None:
    async with (
        place(authentication=True, connections=1000) as http,
        sql_stand_in(http.broker, tmp_path) as session,
    ):
        answer_with(session, orders(1))
        keys = [await http.broker.create_key(name, [Grant(role="reader")]) for name in ("anna", "bob")]
        page = await browser.new_page()
        for key in keys:
            await page.goto(f"{http.url}#/sql")
            await page.get_by_role("button", name="Use an API key instead").click()
            await page.get_by_label("API key").fill(key.key)
            await page.get_by_role("button", name="Log in").click()
            await expect(page.get_by_label("Query", exact=True)).to_have_value("")
            await page.get_by_label("Query", exact=True).fill("select secret")
            await page.keyboard.press("Control+Enter")
            await expect(page.get_by_text("1 row in")).to_be_visible()
            assert session.sessions[-1].options == {"key": key.key}
            await page.get_by_role("button", name="Log out").click()
        await page.close()
