"""Bytes that no client means, and what a reader makes of them."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import ProtocolViolation
from penstock.wire.kafka.codec import decode, encode
from penstock.wire.kafka.fields import KafkaMessage
from penstock.wire.kafka.messages.fetch import FetchableTopicResponse as Topic
from penstock.wire.kafka.messages.fetch import FetchRequest, FetchResponse, FetchTopic, PartitionData
from penstock.wire.kafka.messages.groups.membership import HeartbeatRequest
from penstock.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def written(message: KafkaMessage, version: int) -> bytes:
    return b"".join(encode(message, version))


def test_a_string_and_a_null_are_as_kafka_writes_them() -> None:
    request = HeartbeatRequest(group_id="jobs", generation_id=7, member_id="m", group_instance_id=None)

    assert written(request, 3) == b"\0\4jobs\0\0\0\7\0\1m\xff\xff"
    assert written(request, 4) == b"\5jobs\0\0\0\7\2m\0\0"


def test_records_are_not_copied() -> None:
    records = bytes(100_000)
    answer = FetchResponse(responses=[Topic(topic="t", partitions=[PartitionData(records=records)])])

    parts = encode(answer, 12)

    assert any(part is records for part in parts)
    assert decode(FetchResponse, 12, memoryview(b"".join(parts))) == answer


def test_records_that_were_read_are_a_slice_of_the_frame() -> None:
    partition = PartitionProduceData(index=1, records=b"batch")
    frame = written(ProduceRequest(topic_data=[TopicProduceData(name="t", partition_data=[partition])]), 9)

    [topic] = decode(ProduceRequest, 9, memoryview(frame)).topic_data

    records = topic.partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame


def test_a_null_where_none_may_be_is_refused() -> None:
    with pytest.raises(ProtocolViolation):
        decode(HeartbeatRequest, 3, memoryview(b"\xff\xff\0\0\0\7\0\1m\xff\xff"))


def test_a_list_that_may_be_null_is_not_an_empty_one() -> None:
    assert decode(MetadataRequest, 9, memoryview(written(MetadataRequest(topics=None), 9))).topics is None
    assert decode(MetadataRequest, 9, memoryview(written(MetadataRequest(topics=[]), 9))).topics == []


def test_more_elements_than_bytes_are_refused_before_anything_is_made() -> None:
    with pytest.raises(ProtocolViolation):
        decode(MetadataRequest, 1, memoryview(struct.pack(">i", 0x7FFFFFFF)))


def test_tagged_fields_that_are_not_known_are_passed_over() -> None:
    frame = written(HeartbeatRequest(group_id="jobs"), 4)

    assert decode(HeartbeatRequest, 4, memoryview(frame[:-1] + b"\2\7\3abc\x81\1\0")).group_id == "jobs"


def test_what_is_behind_the_message_is_passed_over() -> None:
    """As librdkafka asks for all topics: the list that is not there takes four bytes instead of one."""
    request = decode(MetadataRequest, 13, memoryview(b"\0\0\0\0\1\0\0"))

    assert request.topics is None


def test_a_number_of_too_many_bytes_is_refused() -> None:
    with pytest.raises(ProtocolViolation):
        decode(HeartbeatRequest, 4, memoryview(b"\xff\xff\xff\xff\xff\xff\1"))


@pytest.mark.parametrize("version", [4, 11, 12, 17])
def test_a_frame_that_is_cut_anywhere_is_refused(version: int) -> None:
    frame = written(FetchRequest(topics=[FetchTopic(topic="orders")], rack_id="here"), version)

    for end in range(len(frame)):
        with pytest.raises(ProtocolViolation):
            decode(FetchRequest, version, memoryview(frame[:end]))


@given(
    st.binary(max_size=200),
    st.sampled_from([(FetchRequest, 12), (FetchRequest, 4), (MetadataRequest, 12), (ProduceRequest, 13)]),
)
def test_any_bytes_are_read_or_refused(data: bytes, kind: tuple[type[KafkaMessage], int]) -> None:
    message, version = kind
    try:
        read = decode(message, version, memoryview(data))
    except ProtocolViolation:
        return

    assert isinstance(read, message)


def test_a_name_that_is_no_text_is_refused() -> None:
    frame = written(MetadataRequest(topics=[MetadataRequestTopic(name="abc")]), 1)

    with pytest.raises(ProtocolViolation):
        decode(MetadataRequest, 1, memoryview(frame.replace(b"abc", b"a\xffc")))
