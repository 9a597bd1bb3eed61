"""Produce, read and written by hand, beside what the tables make of it."""

import pytest

from penstock.errors import ProtocolViolation
from penstock.wire.kafka.codec import decode, encode
from penstock.wire.kafka.messages.parts import LeaderIdAndEpoch
from penstock.wire.kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from penstock.wire.kafka.producing import read_produce, write_produced
from penstock.wire.kafka.readers import part_reader
from penstock.wire.kafka.writers import part_writer

VERSIONS = range(9, 14)
COUNTS = (0, 1, 126, 127, 300)  # Around where a length takes a second byte.


def by_table(message: ProduceRequest | ProduceResponse, version: int) -> bytes:
    out = bytearray()
    cuts: list[tuple[int, bytes | memoryview]] = []
    part_writer(type(message), version, True)(message, out, cuts)
    for at, records in reversed(cuts):
        out[at:at] = records
    return bytes(out)


def request(count: int) -> ProduceRequest:
    parts = [PartitionProduceData(number, b"r" * number or None) for number in range(count)]
    topic = TopicProduceData("t" * count, bytes(range(16)), parts)
    return ProduceRequest("x" * count or None, -1, 30_000, [topic] * min(count, 2))


def answer(count: int, **more: object) -> ProduceResponse:
    parts = [PartitionProduceResponse(index=number, base_offset=1 << number % 60) for number in range(count)]
    if more:
        parts.append(PartitionProduceResponse(index=7, **more))  # type: ignore[arg-type]
    return ProduceResponse(responses=[TopicProduceResponse("é" * count, bytes(range(16)), parts)] * 2)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", COUNTS)
def test_a_request_is_read_as_the_table_says(version: int, count: int) -> None:
    frame = memoryview(b"head" + by_table(request(count), version) + b"rest")

    assert read_produce(frame, 4, version) == part_reader(ProduceRequest, version, True)(frame, 4)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", COUNTS)
def test_offsets_are_written_as_the_table_says(version: int, count: int) -> None:
    written = write_produced(answer(count), version)

    assert written is not None
    assert bytes(written) == by_table(answer(count), version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "more",
    [
        {"error_code": 3},
        {"error_message": ""},
        {"current_leader": LeaderIdAndEpoch(leader_id=-1, leader_epoch=2)},
    ],
)
def test_an_answer_that_says_more_is_left_to_the_table(version: int, more: dict[str, object]) -> None:
    said = answer(1, **more)

    assert write_produced(said, version) is None
    assert b"".join(encode(said, version)) == by_table(said, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_that_is_cut_anywhere_is_refused(version: int) -> None:
    frame = by_table(request(3), version)

    for end in range(len(frame)):
        with pytest.raises(ProtocolViolation):
            decode(ProduceRequest, version, memoryview(frame[:end]))


def test_tagged_fields_of_every_part_are_passed_over() -> None:
    tags = b"\1\7\3abc"
    frame = b"\0\xff\xff\0\0\0\1\2\2t\2\0\0\0\5\3ab" + tags + tags + tags + b"next"

    read, end = read_produce(memoryview(frame), 0, 9)

    assert read == ProduceRequest(
        None, -1, 1, [TopicProduceData("t", bytes(16), read.topic_data[0].partition_data)]
    )
    assert read.topic_data[0].partition_data == [PartitionProduceData(5, b"ab")]
    assert frame[end:] == b"next"
