"""Produce, decoded and encoded by hand, because small requests of it are the most frequent ones.

    read_produce    ProduceRequest of the flexible versions, 9 to 13
    write_produced  ProduceResponse of the same, if every partition is just told its offset

They do what the functions made from the tables do (``readers``, ``writers``), and ``codec`` chooses; the
tests compare both with another implementation, message by message.  Older versions, and answers that tell
of errors, are left to the tables.

Cost, compiled by mypyc: a third of theirs; interpreted it is about the same.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final

from penstock.wire.kafka.fields import NO_UUID
from penstock.wire.kafka.lengths import passed_over, refuse, varint, varint_bytes
from penstock.wire.kafka.messages.parts import NO_LEADER
from penstock.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

FLEXIBLE: Final = 9
IDS_SINCE: Final = 13  # From this version on a topic is named by its id.
UUID_BYTES: Final = 16

# The types say that numbers come out, so that compiled code holds them in machine words.
_unpack_acks: Final[Callable[[memoryview, int], tuple[int, int]]] = Struct(">hi").unpack_from
_unpack_index: Final[Callable[[memoryview, int], tuple[int]]] = Struct(">i").unpack_from
# Index, no error, the offset, when it was appended, where the log begins; no errors of records, no words for
# them, no tagged fields.
_pack_partition: Final = Struct(">ihqqqbbb").pack
_END: Final = bytes(5)  # How long to wait before the next request: not at all; no tagged fields.


def read_produce(data: memoryview, at: int, version: int) -> tuple[ProduceRequest, int]:
    """The request that begins at a position, and the position behind it."""
    transactional_id: str | None = None
    size, at = _length(data, at)
    if size >= 0:
        transactional_id = str(data[at : at + size], "utf-8")
        at += size
    acks, timeout_ms = _unpack_acks(data, at)
    count, at = _length(data, at + 6)
    if count < 0:
        refuse()
    topics: list[TopicProduceData] = []
    for _ in range(count):
        topic, at = _read_topic(data, at, version)
        topics.append(topic)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics), _behind_tags(data, at)


def _read_topic(data: memoryview, at: int, version: int) -> tuple[TopicProduceData, int]:
    name, topic_id = "", NO_UUID
    if version < IDS_SINCE:
        size, at = _length(data, at)
        if size < 0:
            refuse()
        name = str(data[at : at + size], "utf-8")
        at += size
    else:
        if len(data) - at < UUID_BYTES:
            refuse()
        topic_id = data[at : at + UUID_BYTES].tobytes()
        at += UUID_BYTES
    count, at = _length(data, at)
    if count < 0:
        refuse()
    partitions: list[PartitionProduceData] = []
    for _ in range(count):
        (index,) = _unpack_index(data, at)
        records: memoryview | None = None
        size, at = _length(data, at + 4)
        if size >= 0:
            records = data[at : at + size]
            at += size
        partitions.append(PartitionProduceData(index, records))
        at = _behind_tags(data, at)
    return TopicProduceData(name, topic_id, partitions), _behind_tags(data, at)


def _length(data: memoryview, at: int) -> tuple[int, int]:
    """A length or count, -1 for null, and the position behind it; it is no more than what is left."""
    size: int = data[at]
    at += 1
    if size > 127:
        size, at = varint(data, at - 1)
    size -= 1
    if size > len(data) - at:
        refuse()
    return size, at


def _behind_tags(data: memoryview, at: int) -> int:
    return passed_over(data, at) if data[at] else at + 1


def write_produced(answer: ProduceResponse, version: int) -> bytearray | None:
    """The response, or None if it has more than offsets."""
    if answer.node_endpoints or answer.throttle_time_ms:
        return None
    out = bytearray()
    _add_length(out, len(answer.responses))
    for topic in answer.responses:
        if version < IDS_SINCE:
            name = topic.name.encode()
            _add_length(out, len(name))
            out += name
        else:
            out += topic.topic_id
        _add_length(out, len(topic.partition_responses))
        for one in topic.partition_responses:
            if one.error_code or one.record_errors or one.error_message is not None:
                return None
            leader = one.current_leader
            if leader is not NO_LEADER and leader != NO_LEADER:
                return None
            out += _pack_partition(
                one.index, 0, one.base_offset, one.log_append_time_ms, one.log_start_offset, 1, 0, 0
            )
        out.append(0)
    out += _END
    return out


def _add_length(out: bytearray, size: int) -> None:
    if size < 127:
        out.append(size + 1)
    else:
        out += varint_bytes(size + 1)
