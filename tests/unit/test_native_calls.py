"""Messages, receipts and answers in msgpack: there and back."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from penstock.config.broker import TopicSettings, settings_with
from penstock.errors import ProtocolViolation
from penstock.model.info import DeadLetter, ScheduledMessage
from penstock.model.message import Message, Receipt, StoredMessage
from penstock.operations.codec import (
    arguments_of,
    decode_answer,
    encode_answer,
    message_of,
    plain,
    receipt_of,
    wire_message,
    wire_receipt,
)
from penstock.types import instant_ms
from penstock.wire.records import Record


def stored(value: bytes | None = b"v") -> StoredMessage:
    return StoredMessage("orders", 2, Record(7, 1000, b"k", value, [("h", b"\xff"), ("none", None)], 0x0100))


def test_durations_and_times_become_what_every_language_has() -> None:
    noon = datetime(2026, 11, 16, 12, tzinfo=UTC)

    told = plain({"ttl": timedelta(minutes=1.5), "backoff": [timedelta(seconds=1), "2s"], "at": noon, "n": 1})

    assert told == {"ttl": 90.0, "backoff": [1.0, "2s"], "at": "2026-11-16T12:00:00+00:00", "n": 1}
    assert instant_ms("at", told["at"]) == instant_ms("at", noon)


def test_options_mean_the_same_on_the_other_side() -> None:
    options: Any = {"retention": timedelta(days=3), "ttl": "90s", "partitions": 2}
    arguments: Any = arguments_of("create_topic", name="orders", options=options)
    travelled = msgspec.msgpack.decode(msgspec.msgpack.encode(arguments), type=type(arguments))

    assert settings_with(TopicSettings(), travelled.options) == settings_with(TopicSettings(), options)


@pytest.mark.parametrize("value", [b"v", b"", None])
def test_a_stored_message_arrives_with_all_it_has(value: bytes | None) -> None:
    [copy] = decode_answer("read", encode_answer([stored(value)]))

    assert (copy.topic, copy.partition, copy.record) == ("orders", 2, stored(value).record)
    assert (copy.priority, copy.is_tombstone) == ("high", value is None)


def test_a_dead_letter_arrives_with_its_message() -> None:
    letter = DeadLetter(
        message=stored(), source="orders:0:1", group="g", attempts=3, reason="nacked", error="E: bad",
        fingerprint="f00", first_failed_ms=1, last_failed_ms=2,
    )  # fmt: skip

    [copy] = decode_answer("dead_letters", encode_answer([letter]))

    assert copy.message.record == stored().record
    assert (copy.source, copy.fingerprint, copy.last_failed_ms) == ("orders:0:1", "f00", 2)


def test_half_a_character_does_not_keep_an_answer_from_arriving() -> None:
    waiting = ScheduledMessage(
        id="orders:0:s1", topic="orders", partition=0, due_ms=5, key=None, value=b"\xff",
        headers={"h": "\udcff"}, priority="normal", cron=None, timezone=None,
    )  # fmt: skip

    [copy] = decode_answer("scheduled", encode_answer([waiting]))

    assert (copy.value, copy.headers) == (b"\xff", {"h": "\\udcff"})


def test_an_answer_of_another_type_is_refused() -> None:
    with pytest.raises(ProtocolViolation):
        decode_answer("topics", b"\x07")
    with pytest.raises(ProtocolViolation):
        decode_answer("read", msgspec.msgpack.encode([["orders"]]))


def test_a_message_arrives_as_it_was_made() -> None:
    message = Message(
        b"v", "ключ", {"text": "grün", "bytes": b"\xff", "half": "\udcff"}, "low", timedelta(seconds=1.5),
        "2s", None, "id-1", 3,
    )  # fmt: skip

    told = wire_message(message)
    copy = message_of(msgspec.msgpack.decode(msgspec.msgpack.encode(told), type=type(told)))

    assert (copy.value, copy.key, copy.priority) == (b"v", "ключ".encode(), -1)
    assert copy.headers == {"text": "grün".encode(), "bytes": b"\xff", "half": b"\xff"}
    assert (copy.ttl, copy.delay, copy.deliver_at, copy.dedup_id, copy.partition) == (
        1.5,
        2.0,
        None,
        "id-1",
        3,
    )


def test_a_due_time_arrives_to_the_millisecond() -> None:
    due = datetime(2026, 11, 16, 12, 0, 0, 123_000, tzinfo=UTC)

    copy = message_of(wire_message(Message(b"v", deliver_at=due)))

    assert copy.deliver_at is not None
    assert instant_ms("deliver_at", copy.deliver_at) == instant_ms("deliver_at", due)


@pytest.mark.parametrize("delay", [-1, float("inf"), "1ms", timedelta(days=300_000)])
def test_a_delay_of_any_size_travels_for_the_topic_to_judge(delay: Any) -> None:
    told = wire_message(Message(b"v", delay=delay))

    assert msgspec.msgpack.encode(told)
    assert (message_of(told).delay or 0) != 0


@pytest.mark.parametrize(
    "receipt",
    [
        Receipt("orders", 1, 7, 1000),
        Receipt("orders", 0, None, 5, "orders:0:s1"),
        Receipt("orders", 0, 1, 2, None, True),
    ],
)
def test_a_receipt_arrives_as_it_was_given(receipt: Receipt) -> None:
    assert receipt_of("orders", wire_receipt(receipt)) == receipt
