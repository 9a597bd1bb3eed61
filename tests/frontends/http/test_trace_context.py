"""The trace that a request belongs to goes on with its messages."""

import pytest
from tests.frontends.http.browser import Place

THEIRS = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
MINE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def received(http: Place) -> list[dict[str, str]]:
    """The headers of what is delivered."""
    answer = await http.ask(
        "POST", "/v1/topics/orders/groups/billing/receive", {"max_messages": 10, "as": "text"}
    )
    messages = sorted(answer.json["messages"], key=lambda message: str(message["text"]))
    return [message["headers"] for message in messages]


async def test_a_trace_goes_from_the_request_to_the_delivery(http: Place) -> None:
    context = {"traceparent": THEIRS, "tracestate": "shop=7"}

    await http.ask("POST", "/v1/topics/orders/publish", {"text": "x", "headers": {"a": "b"}}, context)

    assert await received(http) == [{"a": "b", **context}]


async def test_a_message_of_a_batch_may_bring_its_own(http: Place) -> None:
    batch = {"messages": [{"text": "1"}, {"text": "2", "headers": {"traceparent": MINE}}]}

    await http.ask("POST", "/v1/topics/orders/publish/batch", batch, {"traceparent": THEIRS})

    assert await received(http) == [{"traceparent": THEIRS}, {"traceparent": MINE}]


@pytest.mark.parametrize(
    "wrong", ["", "x", THEIRS.upper(), THEIRS[:-1], THEIRS + "-" + "y" * 10_000, "00-" + "é" * 52]
)
async def test_what_is_no_trace_is_left_behind(http: Place, wrong: str) -> None:
    await http.ask("POST", "/v1/topics/orders/publish", {"text": "x"}, {"traceparent": wrong})

    assert await received(http) == [{}]
