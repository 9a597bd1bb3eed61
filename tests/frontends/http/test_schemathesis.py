"""Whatever a client makes of the description: no server error, and answers that are as described.

Schemathesis reads the OpenAPI document and sends what it allows and what it
forbids: examples, corner cases of every field, random values.  It runs in a process
of its own, as its users run it, and the same requests come each time.

The document is changed in one way: names in paths are half of the time those of
things that are there, since others are soon answered with 404.  Left out is what has no end.
"""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.frontends.http.browser import place
from tests.frontends.http.sql_stand_in import Result, sql_stand_in

from penstock.broker.aio import EmbeddedAsyncBroker
from penstock.config.broker import BrokerConfig
from penstock.frontends.http.pages.openapi import document
from penstock.frontends.http.routes import ROUTES
from penstock.wire.sql import RunQuery

PATIENCE_S = 240  # It takes about 20 on a quiet machine.
FUZZ_EXAMPLES = 10  # Of each operation, beside some forty corner cases.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
)
NAMES = {"topic": ["orders"], "table": ["orders"], "group": ["billing"], "user": ["anna"]}
IDS = ["orders:0:0", "orders:0:s0", "orders.dlq:0:0"]
WAITS = [0, "0s", -1, 61, "soon"]  # None that takes time.


def known_names() -> dict[str, Any]:
    """The document with names that are there."""
    made: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document(ROUTES)))
    for methods in made["paths"].values():
        for operation in methods.values():
            for each in operation.get("parameters", []):
                if each["in"] == "path":
                    known = NAMES.get(each["name"], IDS)
                    if operation["operationId"] == "delete_topic":
                        known = ["bills"]
                    each["schema"] = {"anyOf": [{"enum": known}, {"type": "string"}]}
    made["components"]["schemas"]["Receive"]["properties"]["wait"] = {"enum": WAITS}
    return made


async def furnish(broker: EmbeddedAsyncBroker) -> None:
    """All that the names stand for."""
    await broker.create_topic("bills")
    await broker.publish_batch("orders", [b"x"] * 10)
    await broker.publish("orders", b"later", delay="1d", partition=0)
    async with await broker.consumer("orders", group="billing") as consumer:
        await (await consumer.receive())[0].reject("no price")


async def answer(query: RunQuery) -> Result:
    """Of the session beside the server: without one the answer is 503, which is taken for a fault."""
    empty = {"columns": [{"name": "n", "type": "int"}], "rows": [[1]], "truncated": False}
    return empty if query.form == "json" else b"n\n1\n"


@pytest.fixture
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server on a loop of its own."""
    ready, ports = threading.Event(), []
    loop, end = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        # Names that are not there are answered with 404: what is wrong beside them is then no finding.
        broker = await EmbeddedAsyncBroker.open(config=BrokerConfig(auto_create_topics=False))
        folder = tmp_path_factory.mktemp("sql")
        async with place(broker=broker) as http, sql_stand_in(broker, folder) as session:
            session.tables, session.answer = {"orders": [("offset", "bigint")]}, answer
            await furnish(http.broker)
            ports.append(http.port)
            ready.set()
            await end.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=[serve()])
    thread.start()
    assert ready.wait(PATIENCE_S)
    yield f"http://127.0.0.1:{ports[0]}"
    loop.call_soon_threadsafe(end.set)
    thread.join()
    loop.close()


@pytest.mark.slow
def test_the_api_is_as_described_and_never_at_fault(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    description = tmp_path / "openapi.json"
    description.write_bytes(msgspec.json.encode(known_names()))

    ran = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", str(description), "--url", url, "--no-color"),
            *("--phases", "examples,coverage,fuzzing", "--checks", ",".join(CHECKS)),
            *("--max-examples", str(FUZZ_EXAMPLES), "--generation-deterministic"),
            *("--exclude-path-regex", "/(stream|ws)$", "--continue-on-failure"),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=PATIENCE_S,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "failed" not in caplog.text
