"""A worker's function over rows, captured; and what a journal says of the real run.  Without Spark."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

import penstock
from penstock import aio
from penstock.delivery import events
from penstock.errors import AlreadySettled, InvalidValue
from penstock.model.ranges import OffsetRange
from penstock.spark.queries.message_outcomes import Outcomes, outputs_text
from penstock.spark.rehearsal.capture import PublishRecorder, captured
from penstock.spark.rehearsal.rehearsal import Rehearsal
from penstock.testing.clock import START_MS
from penstock.wire.records import BatchBuilder

NAMES = ("outcome", "error_class", "error", "outputs", "published", "milliseconds")


def rehearsed(function: Callable[..., Any], *values: bytes, timeout_ms: int | None = None) -> list[Any]:
    """What comes of each value."""
    rehearsal = Rehearsal(function, asyncio.iscoroutinefunction(function), "workers", timeout_ms)
    rows = [
        rehearsal("orders", 1, number, START_MS, b"k", value, {"h": b"v"}, 2)
        for number, value in enumerate(values)
    ]
    return [dict(zip(NAMES, row, strict=True)) for row in rows]


def outcome(row: dict[str, Any]) -> tuple[str, str, str]:
    return row["outcome"], row["error_class"], row["error"]


# The function.


def test_a_function_sees_the_message_as_its_first_delivery() -> None:
    seen: list[Any] = []

    def handle(message: penstock.WorkerMessage) -> None:
        seen.append((message.id, message.group, message.attempt, message.value, message.key, message.headers))
        seen.append((message.priority, message.published_at))

    [row] = rehearsed(handle, b"x")

    assert seen == [
        ("orders:1:0", "workers", 1, b"x", b"k", {"h": "v"}),
        ("critical", datetime(2026, 1, 1, tzinfo=UTC)),
    ]
    assert outcome(row) == ("done", "", "")
    assert row["milliseconds"] >= 0


def plain(message: penstock.WorkerMessage) -> None:
    match message.value:
        case b"raise":
            raise KeyError("price")
        case b"reject":
            raise penstock.Reject("no such customer")
        case b"retry":
            raise penstock.Retry("not now", delay="5m")
        case b"nack":
            message.nack(error=ValueError("bad"))
        case b"reject itself":
            message.reject("no good")
        case b"twice":
            message.ack()
            message.ack()
        case b"exit":
            raise SystemExit(1)
        case _:
            message.extend("1h")


async def awaited(message: penstock.AsyncWorkerMessage) -> None:
    match message.value:
        case b"nack":
            await message.nack(error=ValueError("bad"))
        case b"reject itself":
            await message.reject("no good")
        case b"twice":
            await message.ack()
            await message.ack()
        case b"":
            await message.extend("1h")
        case _:
            plain(message)  # type: ignore[arg-type]  # It raises before it answers.


@pytest.mark.parametrize("function", [plain, awaited])
def test_how_a_call_ends_is_noted_and_the_next_one_goes_on(function: Callable[..., Any]) -> None:
    values = (b"raise", b"reject", b"retry", b"nack", b"reject itself", b"twice", b"exit", b"")

    assert [outcome(row) for row in rehearsed(function, *values)] == [
        ("failed", "KeyError", "'price'"),
        ("rejected", "rejected", "no such customer"),
        ("failed", "Retry", "not now"),
        ("failed", "ValueError", "bad"),
        ("rejected", "rejected", "no good"),
        ("done", "", ""),  # A worker has acked by then; what it raises after that is only logged.
        ("failed", "SystemExit", "1"),
        ("done", "", ""),
    ]


def test_a_second_answer_is_refused_as_by_a_broker() -> None:
    refused: list[type[BaseException]] = []

    def handle(message: penstock.WorkerMessage) -> None:
        message.ack()
        with pytest.raises(AlreadySettled):
            message.nack()
        refused.append(AlreadySettled)

    rehearsed(handle, b"x")

    assert refused == [AlreadySettled]


def test_an_async_function_that_takes_too_long_has_failed() -> None:
    async def stuck(message: penstock.Message) -> None:
        await asyncio.Event().wait()

    [row] = rehearsed(stuck, b"x", timeout_ms=1)

    assert row["error_class"] == "TimeoutError"


def test_what_is_published_with_the_ack_and_beside_it_is_noted_apart() -> None:
    def handle(message: penstock.WorkerMessage) -> None:
        with penstock.connect("nowhere:1") as broker:
            broker.publish("log", b"seen", key="k", headers={"a": "b"})
            broker.publish_batch("log", [b"1", penstock.Message(b"2")])
            broker.publish("log", json={"a": 3})
            broker.publish("log", text="4")
        message.ack(
            publish=[("invoices", penstock.Message(b"\xff", key="z")), ("bills", penstock.Message(b"b"))]
        )

    first, second = rehearsed(handle, b"x", b"y")

    assert json.loads(first["outputs"]) == [
        ["bills", None, "b", {}],
        ["invoices", "z", "base64:/w==", {}],
    ]
    assert json.loads(first["published"]) == [
        ["log", "k", "seen", {"a": "b"}],
        ["log", None, "1", {}],
        ["log", None, "2", {}],
        ["log", None, "4", {}],
        ["log", None, '{"a":3}', {}],
    ]
    assert second["published"] == first["published"]


def test_an_async_client_is_captured_too_and_whatever_is_not_a_publish_is_refused() -> None:
    async def handle(message: penstock.AsyncWorkerMessage) -> None:
        async with aio.connect("nowhere:1") as broker:
            await broker.publish("log", b"seen")
            await broker.delete_topic("orders")

    [row] = rehearsed(handle, b"x")

    assert row["published"] == '[["log", null, "seen", {}]]'
    assert row["error_class"] == "InvalidValue"
    assert "it does not use the real broker" in row["error"]


def test_whoever_connects_afterwards_connects_in_earnest() -> None:
    before = penstock.connect, aio.connect

    with pytest.raises(InvalidValue), captured(PublishRecorder()):
        assert penstock.connect is not before[0]
        penstock.connect("nowhere:1").topics()

    assert (penstock.connect, aio.connect) == before


# What happened.


def told(*given: events.AnyEvent) -> dict[int, Any]:
    """By offset, what the events say of the group "workers", which is number 1."""
    outcomes = Outcomes(OffsetRange("orders", 0, 10, 20), "workers", {1})
    for event in given:
        outcomes.tell(event)
    names = ("outcome", "attempts", "error_class", "error", "outputs")
    rows = [row for batch in outcomes.rows() for row in batch.to_pylist()]
    return {row["offset"]: tuple(row[name] for name in names) for row in rows}


def test_the_end_of_each_story_counts_and_other_groups_and_offsets_do_not() -> None:
    assert told(
        events.Leased(1, 1, 8, 12, 1, 0, "c"),
        events.Leased(2, 1, 8, 12, 7, 0, "c"),
        events.Settled(1, 1, 8, 11, events.ACKED),
        events.GivenBack(1, 1, 11, 12, 2, 0, events.NACKED, "KeyError", "'price'", "f"),
        events.Leased(1, 2, 11, 12, 2, 0, "c"),
        events.GivenBack(1, 2, 11, 12, 3, 0, events.TIMED_OUT),
        events.Settled(1, -1, 11, 12, events.DEAD),
        events.Settled(2, -1, 13, 14, events.ACKED),
        events.Settled(1, -1, 19, 30, events.EXPIRED),
    ) == {
        10: ("acked", 1, "", "", "[]"),
        11: ("dead-lettered", 2, "visibility timeout", "", "[]"),
        19: ("expired", 0, "", "", "[]"),
    }


def test_a_group_that_was_made_anew_has_another_number() -> None:
    assert told(
        events.GroupSet(5, "workers", b"{}", 0),
        events.Settled(5, -1, 10, 11, events.ACKED),
    ) == {10: ("acked", 0, "", "", "[]")}


def test_the_outputs_of_an_ack_are_known_if_it_was_of_one_message() -> None:
    builder = BatchBuilder()
    builder.add(b"z", b"bill", [("a", b"b"), ("x-expires-at", b"1")])
    sent = [events.Output("bills", 0, bytes(builder.build(0, 0)))]

    found = told(
        events.Settled(1, -1, 10, 11, events.ACKED),
        events.Outbox(1, sent, "", 10, 11),
        events.Settled(1, -1, 11, 13, events.ACKED),
        events.Outbox(1, sent, "", 11, 13),
    )

    assert [found[offset][-1] for offset in (10, 11, 12)] == [
        '[["bills", "z", "bill", {"a": "b"}]]',
        None,
        None,
    ]
    assert found[10][-1] == outputs_text([("bills", b"z", b"bill", [("a", b"b")])])
