"""What is wrong with the storage of a real server, seen in a browser."""

import asyncio
import re
import shutil
from importlib.resources import files
from pathlib import Path
from typing import get_args

import pytest
from playwright.async_api import Locator, Page, expect
from tests.frontends.serve.process import Process
from tests.full_disk import publish_until_full, small_disk

import penstock
from penstock.errors import PenstockError
from penstock.model.info import ProblemKind

pytestmark = pytest.mark.slow
IN_A_BROWSER = pytest.mark.asyncio(loop_scope="session")


def test_every_kind_of_problem_has_words_for_a_person() -> None:
    script = (files("penstock") / "web" / "pages" / "alerts.js").read_text()
    block = script.partition("const PROBLEMS = {")[2].partition("};")[0]

    assert set(re.findall(r"^  ([a-z_]+): \[", block, re.MULTILINE)) == set(get_args(ProblemKind))


async def alerts(server: Process, page: Page) -> Locator:
    await page.goto(f"http://127.0.0.1:{server.port('http')}/ui/")
    return page.get_by_role("region", name="Alerts").get_by_role("listitem")


def publish(server: Process, count: int) -> None:
    with penstock.connect(server.said["native"]) as broker:
        broker.create_topic("orders", partitions=1, durability="fsync")
        for number in range(count):
            broker.publish("orders", b"message %d" % number)


def damage(data: Path) -> None:
    """A byte in the middle of the log of the topic."""
    log = max(data.glob("**/orders/**/*.log"), key=lambda path: path.stat().st_size)
    content = bytearray(log.read_bytes())
    at = content.index(b"message 20")
    content[at] ^= 0xFF
    log.write_bytes(content)


@IN_A_BROWSER
async def test_damaged_data_is_a_red_row_that_says_where_and_what_to_do(tmp_path: Path, page: Page) -> None:
    with Process(tmp_path / "data") as server:
        await asyncio.to_thread(publish, server, 40)
    damage(tmp_path / "data")

    with Process(tmp_path / "data") as server:
        rows = await alerts(server, page)
        await page.goto(f"http://127.0.0.1:{server.port('http')}/ui/#/topics/orders")
        await expect(page.get_by_text("message 39")).to_be_visible()  # Everything around it can be read.
        await page.goto(f"http://127.0.0.1:{server.port('http')}/ui/#/")

        damaged = rows.filter(has_text="Stored data is damaged on orders, partition 0")
        await expect(damaged).to_contain_text("ffset 20 in the data of orders:0 cannot be read")
        await expect(damaged).to_contain_text("penstock repair")


@IN_A_BROWSER
async def test_a_data_directory_that_was_removed_is_told(tmp_path: Path, page: Page) -> None:
    with Process(tmp_path / "data") as server:
        await asyncio.to_thread(publish, server, 1)
        rows = await alerts(server, page)
        shutil.rmtree(tmp_path / "data")
        with pytest.raises(PenstockError):
            await asyncio.to_thread(publish, server, 1)

        await expect(rows.filter(has_text="The data directory is gone").first).to_contain_text("backup")


@IN_A_BROWSER
async def test_a_full_disk_is_told_until_there_is_room(tmp_path: Path, page: Page) -> None:
    def fill() -> None:
        with penstock.connect(server.said["native"]) as broker:
            broker.create_topic("orders", partitions=1)
            publish_until_full(broker)

    with small_disk(tmp_path / "disk", 12) as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(b"x" * 6_000_000)
        with Process(disk / "data") as server:
            await asyncio.to_thread(fill)
            full = (await alerts(server, page)).filter(has_text="The disk is full")

            await expect(full).to_contain_text("Free some space")
            ballast.unlink()
            await expect(full).to_have_count(0)
