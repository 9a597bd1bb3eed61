"""Where logs begin and end, and a time is in them: ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from typing import Final

from penstock.broker.frontend import At
from penstock.errors import PenstockError, VersionUnsupported
from penstock.frontends.kafka.call import Api, KafkaCall
from penstock.frontends.kafka.errors import code_of
from penstock.frontends.kafka.records.fetch import READ_COMMITTED
from penstock.wire.kafka.codes import Code
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
PLACES: Final[dict[int, At]] = {
    LATEST: "latest",
    EARLIEST: "earliest",
    NEWEST: "newest",
    EARLIEST_LOCAL: "earliest",
}
EPOCH: Final = 0  # There was never another leader.


def list_offsets(call: KafkaCall[ListOffsetsRequest]) -> ListOffsetsResponse:
    """Offsets by time, or by what they are."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name, partitions=[_listed(call, topic.name, each) for each in topic.partitions]
            )
            for topic in call.request.topics
        ]
    )


def _listed(
    call: KafkaCall[ListOffsetsRequest], name: str, asked: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
    committed = call.request.isolation_level == READ_COMMITTED
    at = PLACES.get(asked.timestamp, asked.timestamp)
    try:
        if asked.timestamp < EARLIEST_PENDING_UPLOAD:
            raise VersionUnsupported(offered=str(asked.timestamp), supported="-6 and above")
        if asked.current_leader_epoch > EPOCH:
            answer.error_code = Code.UNKNOWN_LEADER_EPOCH
        elif asked.timestamp > LATEST_TIERED:
            found = call.operations.position(name, asked.partition_index, at, committed)
            answer.offset = found.offset
            answer.timestamp = found.timestamp
            answer.leader_epoch = found.leader_epoch if found.offset >= 0 else -1
    except PenstockError as error:
        answer.error_code = code_of(error)
    return answer


def offset_for_leader_epoch(call: KafkaCall[OffsetForLeaderEpochRequest]) -> OffsetForLeaderEpochResponse:
    """Where the records of a leader end: for the only one there was, at the end of the log."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_ended(call, topic.topic, each) for each in topic.partitions]
            )
            for topic in call.request.topics
        ]
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
    if asked.current_leader_epoch > EPOCH:
        answer.error_code = Code.UNKNOWN_LEADER_EPOCH
    elif asked.leader_epoch == EPOCH:
        answer.leader_epoch, answer.end_offset = EPOCH, found.offset
    return answer


def delete_records(call: KafkaCall[DeleteRecordsRequest]) -> DeleteRecordsResponse:
    """Let the log of a partition begin later."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_trimmed(call, topic.name, each) for each in topic.partitions]
            )
            for topic in call.request.topics
        ]
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
    Api(request=ListOffsetsRequest, response=ListOffsetsResponse, handler=list_offsets),
    Api(
        request=OffsetForLeaderEpochRequest,
        response=OffsetForLeaderEpochResponse,
        handler=offset_for_leader_epoch,
    ),
    Api(request=DeleteRecordsRequest, response=DeleteRecordsResponse, handler=delete_records),
)
