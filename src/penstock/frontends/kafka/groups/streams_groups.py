"""Groups of Kafka Streams in which the broker assigns tasks (KIP-1071): there are none.

StreamsGroupHeartbeat is answered as by a Kafka whose feature ``streams.version`` is 0, and
StreamsGroupDescribe finds no group.  Applications of Kafka Streams use the classic protocol, which is their
default."""

from penstock.frontends.kafka.call import Api, KafkaCall
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.groups.streams_groups import (
    DescribedStreamsGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

UNSUPPORTED = "This broker has no streams groups (KIP-1071); set group.protocol=classic."


def streams_group_heartbeat(call: KafkaCall[StreamsGroupHeartbeatRequest]) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(
        error_code=Code.UNSUPPORTED_VERSION, error_message=UNSUPPORTED, member_id=call.request.member_id
    )


def streams_group_describe(call: KafkaCall[StreamsGroupDescribeRequest]) -> StreamsGroupDescribeResponse:
    """Report every group as unknown."""
    call.operations.topics()  # Allowed for clients that may describe anything.
    return StreamsGroupDescribeResponse(
        groups=[
            DescribedStreamsGroup(
                error_code=Code.GROUP_ID_NOT_FOUND,
                error_message=f"Group {name} is not a streams group.",
                group_id=name,
            )
            for name in call.request.group_ids
        ]
    )


APIS = (
    Api(StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, streams_group_heartbeat),
    Api(StreamsGroupDescribeRequest, StreamsGroupDescribeResponse, streams_group_describe),
)
