"""A real browser on the dashboard of a real listener, both on the loop of the tests.

Where no Chromium can be had, they are skipped at home and fail in CI; scripts/install-test-tools brings it.
"""

import os
import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright, expect
from tests.frontends.http.browser import Place, place

PATIENCE_MS = 60_000  # The machine may be very busy.

expect.set_options(timeout=PATIENCE_MS)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        reason = "there is no chromium; scripts/install-test-tools installs it"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    async with async_playwright() as playwright:
        made = await playwright.chromium.launch(executable_path=path)
        yield made
        await made.close()


@pytest_asyncio.fixture(loop_scope="session")
async def http() -> AsyncIterator[Place]:
    """The listener over a broker in memory with the topic orders."""
    async with place(connections=1000) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser) -> AsyncIterator[Page]:
    """A tab of its own; a test fails if a script of the page does, or a message could open a dialog."""
    context = await browser.new_context(viewport={"width": 1280, "height": 900})
    made = await context.new_page()
    made.set_default_timeout(PATIENCE_MS)
    wrong: list[str] = []
    made.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    made.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
    made.on("console", lambda told: wrong.append(f"console: {told.text}") if told.type == "error" else None)
    yield made
    await context.close()
    assert [each for each in wrong if "Failed to load resource" not in each] == []
