"""The work of a worker's function is a span, in the trace of whoever published."""

import asyncio
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode
from tests.otel import Spans, facts, parent, place, set_up

import penstock
from penstock.testing import TestBroker


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    with set_up(monkeypatch) as made:
        yield made


@pytest.fixture
def broker(spans: Spans) -> Iterator[TestBroker]:
    with TestBroker.open() as made:
        made.create_topic("orders")
        made.publish("orders", b"x")
        yield made


def test_a_plain_function_works_in_the_span_of_its_message(spans: Spans, broker: TestBroker) -> None:
    app = penstock.App()
    inside: list[int] = []

    @app.worker("orders", group="billing")
    def bill(message: penstock.Message) -> None:
        inside.append(trace.get_current_span().get_span_context().span_id)

    app.drain(broker)

    assert inside == [spans.one("process orders").context.span_id]
    assert parent(spans.one("process orders")) == place(spans.one("publish orders"))
    assert not trace.get_current_span().get_span_context().is_valid


def test_an_async_function_does_too_and_what_it_publishes_is_in_the_same_trace(
    spans: Spans, broker: TestBroker
) -> None:
    app = penstock.App()
    broker.create_topic("bills")

    @app.worker("orders", group="billing")
    async def bill(message: penstock.Message) -> None:
        await asyncio.sleep(0)
        broker.publish("bills", b"y")

    app.drain(broker)

    assert parent(spans.one("publish bills")) == place(spans.one("process orders"))


def test_a_function_that_fails_or_rejects_leaves_a_span_that_says_so(
    spans: Spans, broker: TestBroker
) -> None:
    app = penstock.App()
    attempts: list[int] = []

    @app.worker("orders", group="billing", backoff=["1s"])
    def bill(message: penstock.Message) -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError("no such shop")
        raise penstock.Reject("no good")

    app.drain(broker)
    broker.advance("1m")
    app.drain(broker)

    first, second = spans.all("process orders")
    assert (first.status.description, facts(first)["error.type"]) == ("no such shop", "ValueError")
    assert (second.status.status_code, second.status.description) == (StatusCode.ERROR, "no good")
