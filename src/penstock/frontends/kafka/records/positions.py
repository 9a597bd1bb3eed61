"""Start, end and times of logs: ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from functools import partial
from typing import Final

from penstock.broker.frontend import At
from penstock.errors import PenstockError, VersionUnsupported
from penstock.frontends.kafka.call import Api, KafkaCall, by_partition
from penstock.frontends.kafka.errors import code_of
from penstock.frontends.kafka.records.fetch import READ_COMMITTED, epoch_code
from penstock.wire.kafka.messages.positions import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
    LeaderEpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

LATEST: Final = -1
EARLIEST: Final = -2
NEWEST: Final = -3  # The record with the highest timestamp.
EARLIEST_LOCAL: Final = -4  # All there is, is here ...
LATEST_TIERED: Final = -5  # ... nothing is elsewhere ...
EARLIEST_PENDING_UPLOAD: Final = -6  # ... and nothing is on its way there.
POSITIONS: Final[dict[int, At]] = {
    LATEST: "latest",
    EARLIEST: "earliest",
    NEWEST: "newest",
    EARLIEST_LOCAL: "earliest",
}
# Timestamps with a meaning, and the version of ListOffsets that introduced them.
SINCE: Final = {
    NEWEST: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11, EARLIEST: 0, LATEST: 0,
}  # fmt: skip


def list_offsets(call: KafkaCall[ListOffsetsRequest]) -> ListOffsetsResponse:
    """Offsets by timestamp, or by one of Kafka's special timestamps."""
    asked = ((topic.name, topic.partitions) for topic in call.request.topics)
    return ListOffsetsResponse(topics=by_partition(asked, ListOffsetsTopicResponse, partial(_listed, call)))


def _listed(
    call: KafkaCall[ListOffsetsRequest], name: str, asked: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
    committed = call.request.isolation_level == READ_COMMITTED
    at = POSITIONS.get(asked.timestamp, asked.timestamp)
    try:
        if asked.timestamp < 0 and call.version < SINCE.get(asked.timestamp, call.version + 1):
            raise VersionUnsupported(offered=str(asked.timestamp), supported=", ".join(map(str, SINCE)))
        answer.error_code = epoch_code(call.owners, name, asked.partition_index, asked.current_leader_epoch)
        if not answer.error_code and asked.timestamp > LATEST_TIERED:
            found = call.operations.position(name, asked.partition_index, at, committed)
            answer.offset = found.offset
            answer.timestamp = found.timestamp
            answer.leader_epoch = found.leader_epoch if found.offset >= 0 else -1
    except PenstockError as error:
        answer.error_code = code_of(error)
    return answer


def offset_for_leader_epoch(call: KafkaCall[OffsetForLeaderEpochRequest]) -> OffsetForLeaderEpochResponse:
    """The end offset of a leader epoch: no log is ever truncated, so always the end of the log."""
    asked = ((topic.topic, topic.partitions) for topic in call.request.topics)
    return OffsetForLeaderEpochResponse(
        topics=by_partition(asked, OffsetForLeaderTopicResult, partial(_ended, call))
    )


def _ended(
    call: KafkaCall[OffsetForLeaderEpochRequest], name: str, asked: OffsetForLeaderPartition
) -> LeaderEpochEndOffset:
    answer = LeaderEpochEndOffset(partition=asked.partition)
    try:
        found = call.operations.position(name, asked.partition, "latest", False)
    except PenstockError as error:
        answer.error_code = code_of(error)
        return answer
    answer.error_code = epoch_code(call.owners, name, asked.partition, asked.current_leader_epoch)
    if not answer.error_code and 0 <= asked.leader_epoch <= call.owners.owner_of(name, asked.partition)[1]:
        answer.leader_epoch, answer.end_offset = asked.leader_epoch, found.offset
    return answer


def delete_records(call: KafkaCall[DeleteRecordsRequest]) -> DeleteRecordsResponse:
    """Delete the records of partitions below an offset."""
    asked = ((topic.name, topic.partitions) for topic in call.request.topics)
    return DeleteRecordsResponse(
        topics=by_partition(asked, DeleteRecordsTopicResult, partial(_trimmed, call))
    )


def _trimmed(
    call: KafkaCall[DeleteRecordsRequest], name: str, asked: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    answer = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1)
    offset = None if asked.offset == LATEST else asked.offset
    try:
        answer.low_watermark = call.operations.delete_records(name, asked.partition_index, offset)
    except PenstockError as error:
        answer.error_code = code_of(error)
    return answer


APIS = (
    Api(ListOffsetsRequest, ListOffsetsResponse, list_offsets),
    Api(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, offset_for_leader_epoch),
    Api(DeleteRecordsRequest, DeleteRecordsResponse, delete_records),
)
