"""Spans of a program with OpenTelemetry: from publish to the work on a message, in one trace."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode
from tests.otel import Spans, facts, links, parent, place, set_up

from penstock.broker.program import ProgramOperations
from penstock.errors import InvalidName
from penstock.model.message import Message
from penstock.testing import AsyncTestBroker, TestBroker

THEIRS = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    with set_up(monkeypatch) as made:
        yield made


@pytest.fixture
def broker(spans: Spans) -> Iterator[TestBroker]:
    """Opened after OpenTelemetry was set up."""
    with TestBroker.open() as made:
        made.create_topic("orders")
        yield made


def test_publish_receive_and_process_are_spans_and_the_work_is_in_the_trace_of_the_publish(
    spans: Spans, broker: TestBroker
) -> None:
    receipt = broker.publish("orders", b"two books", headers={"shop": "7"})
    with broker.consumer("orders", group="billing") as consumer:
        [message] = consumer.receive()
        with message:
            inside = trace.get_current_span().get_span_context()

    assert not trace.get_current_span().get_span_context().is_valid  # Any more.
    assert spans.names() == ["publish orders", "receive orders", "process orders"]
    publish, receive, process = (spans.one(name) for name in spans.names())
    assert [span.kind for span in (publish, receive, process)] == [
        SpanKind.PRODUCER,
        SpanKind.CLIENT,
        SpanKind.CONSUMER,
    ]
    assert parent(process) == place(publish)
    assert links(receive) == [place(publish)]
    assert (inside.trace_id, inside.span_id) == place(process)
    assert message.headers["shop"] == "7"
    assert facts(publish) == {
        "system": "penstock",
        "operation.name": "publish",
        "operation.type": "send",
        "destination.name": "orders",
        "destination.partition.id": "0",
        "message.id": receipt.id,
    }
    assert facts(process) == {
        "system": "penstock",
        "operation.name": "process",
        "operation.type": "process",
        "destination.name": "orders",
        "destination.partition.id": "0",
        "consumer.group.name": "billing",
        "message.id": receipt.id,
        "message.body.size": 9,
        "penstock.attempt": 1,
    }


def test_a_publish_is_a_child_of_what_the_program_is_doing(spans: Spans, broker: TestBroker) -> None:
    with trace.get_tracer("shop").start_as_current_span("checkout"):
        broker.publish("orders", b"x")

    assert parent(spans.one("publish orders")) == place(spans.one("checkout"))


def test_a_batch_is_one_span_that_all_of_its_messages_carry(spans: Spans, broker: TestBroker) -> None:
    mine = Message(b"b", headers={"shop": "7"})
    broker.publish_batch("orders", [b"a", mine])
    with broker.consumer("orders") as consumer:
        first, second = consumer.receive(2)

    publish = spans.one("publish orders")
    assert facts(publish)["batch.message_count"] == 2
    assert first.headers["traceparent"] == second.headers["traceparent"]
    assert second.headers["shop"] == "7"
    assert links(spans.one("receive orders")) == [place(publish)]
    assert mine.headers == {"shop": "7"}  # What the program has made stays as it is.


def test_a_message_keeps_the_context_that_it_brings(spans: Spans, broker: TestBroker) -> None:
    broker.publish("orders", b"x", headers={"traceparent": THEIRS})
    with broker.consumer("orders") as consumer:
        [message] = consumer.receive()
        with message:
            pass

    assert message.headers == {"traceparent": THEIRS}
    assert f"{parent(spans.one('process orders'))[1]:016x}" == "b7ad6b7169203331"  # type: ignore[index]


def test_a_context_that_nobody_understands_is_left_alone(spans: Spans, broker: TestBroker) -> None:
    broker.publish("orders", b"x", headers={"traceparent": "\udcff nonsense"})
    with broker.consumer("orders") as consumer:
        [message] = consumer.receive()
        with message:
            pass

    assert parent(spans.one("process orders")) is None
    assert links(spans.one("receive orders")) == []


def test_failed_work_is_a_span_with_the_error_and_the_next_attempt_is_another(
    spans: Spans, broker: TestBroker
) -> None:
    broker.publish("orders", b"x")
    with broker.consumer("orders", backoff=["1s"]) as consumer:
        with pytest.raises(ValueError, match="no such shop"), consumer.receive()[0]:
            raise ValueError("no such shop")
        with consumer.receive(wait="1m")[0]:
            pass

    first, second = spans.all("process orders")
    assert (first.status.status_code, first.status.description) == (StatusCode.ERROR, "no such shop")
    assert facts(first)["error.type"] == "ValueError"
    assert [event.name for event in first.events] == ["exception"]
    assert second.status.status_code is StatusCode.UNSET
    assert [facts(span)["penstock.attempt"] for span in (first, second)] == [1, 2]
    assert place(first)[0] == place(second)[0]


def test_a_block_inside_another_one_is_the_same_work(spans: Spans, broker: TestBroker) -> None:
    broker.publish("orders", b"x")
    with broker.consumer("orders") as consumer:
        [message] = consumer.receive()
        with message, message:
            pass

    assert spans.names().count("process orders") == 1
    assert not trace.get_current_span().get_span_context().is_valid


def test_a_publish_that_is_refused_is_an_error(spans: Spans, broker: TestBroker) -> None:
    with pytest.raises(InvalidName):
        broker.publish("no/topic", b"x")

    assert spans.one("publish no/topic").status.status_code is StatusCode.ERROR
    assert facts(spans.one("publish no/topic"))["error.type"] == "InvalidName"


def test_the_trace_goes_through_dead_letters_and_back(spans: Spans, broker: TestBroker) -> None:
    broker.publish("orders", b"x")
    with broker.consumer("orders") as consumer:
        consumer.receive()[0].reject("no good")
        broker.redrive("orders")
        with consumer.receive()[0]:
            pass

    assert parent(spans.one("process orders")) == place(spans.one("publish orders"))


def test_what_is_published_with_an_ack_carries_the_work_that_made_it(
    spans: Spans, broker: TestBroker
) -> None:
    broker.create_topic("bills")
    broker.publish("orders", b"x")
    with broker.consumer("orders") as consumer, broker.consumer("bills") as bills:
        message = consumer.receive()[0]
        with message:
            consumer.ack(message, publish=[("bills", Message(b"y"))])
        with bills.receive()[0]:
            pass

    assert parent(spans.one("process bills")) == place(spans.one("process orders"))


def test_a_producer_with_numbers_has_spans_too(spans: Spans, broker: TestBroker) -> None:
    producer = broker.producer()

    receipt = producer.publish("orders", b"x")

    assert producer.producer_id >= 0
    assert facts(spans.one("publish orders"))["message.id"] == receipt.id
    assert "traceparent" in broker.peek("orders")[0].headers


def test_an_empty_receive_is_no_span(spans: Spans, broker: TestBroker) -> None:
    with broker.consumer("orders") as consumer:
        assert consumer.receive(wait="1s") == []
        assert consumer.in_flight == 0

    assert spans.names() == []


async def test_asyncio_has_the_same_spans(spans: Spans) -> None:
    async with await AsyncTestBroker.open() as broker:
        await broker.create_topic("orders")
        await broker.publish("orders", b"x")
        async with await broker.consumer("orders") as consumer:
            for message in await consumer.receive():
                async with message:
                    inside = trace.get_current_span().get_span_context()

    assert spans.names() == ["publish orders", "receive orders", "process orders"]
    assert parent(spans.one("process orders")) == place(spans.one("publish orders"))
    assert inside.span_id == spans.one("process orders").context.span_id


def test_opentelemetry_that_is_imported_and_not_set_up_changes_nothing(penstock: TestBroker) -> None:
    penstock.create_topic("orders")
    penstock.publish("orders", b"x")
    with penstock.consumer("orders") as consumer:
        with consumer.receive()[0] as message:
            assert message.headers == {}

    assert type(penstock._operations) is ProgramOperations


WITHOUT = """
import sys, penstock
with penstock.open() as broker:
    broker.create_topic("orders")
    broker.publish("orders", b"x")
    with broker.consumer("orders") as consumer, consumer.receive()[0]:
        pass
import penstock.frontends.http.server
print(sorted(name for name in sys.modules if name.startswith("opentelemetry")))
"""


def test_nothing_is_imported_where_nobody_has_set_it_up() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)

    assert ran.stdout == "[]\n"


def test_the_program_of_the_page_prints_its_spans() -> None:
    page = (Path(__file__).parents[2] / "docs" / "observability.md").read_text()
    [program] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    names = re.findall(r'"name": "(\w+ orders)"', ran.stdout)
    assert names == ["publish orders", "receive orders", "process orders"]
