"""Spans of a client, which its messages carry through a server that knows nothing of them."""

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode
from tests.client.served import VirtualServer
from tests.otel import Spans, facts, parent, place, set_up

import penstock
import penstock.aio
from penstock.errors import InvalidName, PenstockError


@pytest.fixture
def server() -> Iterator[VirtualServer]:
    """Started before OpenTelemetry is set up, as in another process."""
    with VirtualServer() as made:
        made.run(made.broker.create_topic("orders"))
        yield made


@pytest.fixture
def spans(server: VirtualServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    with set_up(monkeypatch) as made:
        yield made


@pytest.mark.parametrize("way", ["publish", "publish_nowait", "publish_batch", "producer"])
def test_the_work_of_one_client_is_in_the_trace_of_another(
    server: VirtualServer, spans: Spans, way: str
) -> None:
    with penstock.connect(server.url) as publisher, penstock.connect(server.url) as worker:
        with trace.get_tracer("shop").start_as_current_span("checkout"):
            match way:
                case "publish":
                    publisher.publish("orders", b"x")
                case "publish_nowait":
                    publisher.publish_nowait("orders", b"x").result()
                case "publish_batch":
                    publisher.publish_batch("orders", [b"x"])
                case _:
                    publisher.producer().publish("orders", b"x")
        with worker.consumer("orders") as consumer:
            with consumer.receive(wait="10s")[0]:
                pass

    assert parent(spans.one("publish orders")) == place(spans.one("checkout"))
    assert parent(spans.one("process orders")) == place(spans.one("publish orders"))
    assert facts(spans.one("publish orders"))["message.id"] == "orders:0:0"
    assert facts(spans.one("receive orders"))["consumer.group.name"] == "default"


@pytest.mark.parametrize("way", ["publish", "publish_nowait", "publish_batch"])
async def test_the_same_on_asyncio(server: VirtualServer, spans: Spans, way: str) -> None:
    async with penstock.aio.connect(server.url) as broker:
        match way:
            case "publish":
                await broker.publish("orders", b"x")
            case "publish_nowait":
                await broker.publish_nowait("orders", b"x")
            case _:
                await broker.publish_batch("orders", [b"x"])
        async with await broker.consumer("orders") as consumer:
            async with (await consumer.receive(wait="10s"))[0]:
                pass

    assert parent(spans.one("process orders")) == place(spans.one("publish orders"))


def test_a_publish_that_is_refused_is_an_error_whichever_way(server: VirtualServer, spans: Spans) -> None:
    with penstock.connect(server.url) as broker:
        with pytest.raises(InvalidName):
            broker.publish("a/b", b"x")
        with pytest.raises(InvalidName):
            broker.publish_nowait("a/b", b"x").result()
    with pytest.raises(PenstockError):  # Closed.
        broker.publish_nowait("a/b", b"x")

    assert [span.status.status_code for span in spans.all("publish a/b")] == [StatusCode.ERROR] * 3
