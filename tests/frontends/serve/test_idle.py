"""What waiting costs: a real server in a process of its own, and the time its processor has worked for it."""

import asyncio
from pathlib import Path

import pytest
from tests.frontends.http.browser import PATIENCE_S, Answer, Browser
from tests.frontends.serve.process import Process

from benchmarks.machine import cpu_seconds

WAITS = 500
IDLE_S = 2
WINDOWS_MAX = 5
SPARE_S = 0.06  # A loop that looked ten times a second for each of them would need over ten times as much.
GROUP = "/v1/topics/orders/groups/billing"
CONSUMERS = 50  # Requests with the same visibility share one.


def wish(number: int) -> dict[str, str]:
    return {"wait": "60s", "visibility": f"{30 + number % CONSUMERS}s"}


async def connect(server: Process) -> Browser:
    return Browser(*await asyncio.open_connection("127.0.0.1", server.port("http")))


async def worked_while_idle(server: Process, waits: "set[asyncio.Task[Answer]]") -> float:
    """How long it works while nothing happens; none of those who wait is answered."""
    before = cpu_seconds(server.pid)
    nothing = asyncio.get_running_loop().create_future()
    done, _ = await asyncio.wait([nothing, *waits], timeout=IDLE_S, return_when=asyncio.FIRST_COMPLETED)
    assert not done
    return cpu_seconds(server.pid) - before


@pytest.mark.slow
async def test_five_hundred_requests_that_wait_cost_no_processor_time(tmp_path: Path) -> None:
    with Process(tmp_path) as server:
        admin = await connect(server)
        assert (await admin.ask("POST", "/v1/topics", {"name": "orders"})).status == 201
        assert (await admin.ask("PUT", GROUP, {})).status == 200
        alone = await worked_while_idle(server, set())
        browsers = [await connect(server) for _ in range(WAITS)]
        async with asyncio.TaskGroup() as tasks:
            waits = {
                tasks.create_task(browser.ask("POST", f"{GROUP}/receive", wish(number), None, 60))
                for number, browser in enumerate(browsers)
            }
            while len((await admin.ask("GET", GROUP)).json["consumers"]) < CONSUMERS:
                pass

            for _ in range(WINDOWS_MAX):  # The last of them may still be on their way.
                together = await worked_while_idle(server, waits)
                if together <= alone + SPARE_S:
                    break
            messages = [{"text": str(number)} for number in range(WAITS)]
            await admin.ask("POST", "/v1/topics/orders/publish/batch", {"messages": messages})
            done, _ = await asyncio.wait(waits, timeout=PATIENCE_S)

        assert together <= alone + SPARE_S
        got = [wait.result().json["messages"] for wait in done]
        assert sorted(len(messages) for messages in got) == [1] * WAITS
        for browser in [admin, *browsers]:
            await browser.close()
