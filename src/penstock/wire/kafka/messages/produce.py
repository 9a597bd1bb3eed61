"""Writing records: Produce, InitProducerId."""

from typing import Annotated

from msgspec import field

from penstock.wire.kafka.fields import (
    NO_UUID,
    Int16,
    Int32,
    Int64,
    KafkaMessage,
    Part,
    Records,
    String,
    Uuid,
    Versions,
    api,
)
from penstock.wire.kafka.messages.parts import LeaderIdAndEpoch, NodeEndpoint


class PartitionProduceData(Part):
    """Each partition to produce to."""

    index: Int32 = 0
    records: Records | None = None


class TopicProduceData(Part):
    """Each topic to produce to."""

    name: Annotated[String, Versions(0, 12)] = ""
    topic_id: Annotated[Uuid, Versions(13)] = NO_UUID
    partition_data: list[PartitionProduceData] = []


@api(0, versions=(3, 13), flexible=9)
class ProduceRequest(KafkaMessage):
    transactional_id: String | None = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = []


class BatchIndexAndErrorMessage(Part):
    """The batch indices of records that caused the batch to be dropped."""

    batch_index: Int32 = 0
    batch_index_error_message: String | None = None


class PartitionProduceResponse(Part):
    """Each partition that we produced to within the topic."""

    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = -1
    log_start_offset: Annotated[Int64, Versions(5)] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], Versions(8)] = []
    error_message: Annotated[String | None, Versions(8)] = None
    current_leader: Annotated[LeaderIdAndEpoch, Versions(10, tag=0)] = field(default_factory=LeaderIdAndEpoch)


class TopicProduceResponse(Part):
    name: Annotated[String, Versions(0, 12)] = ""
    topic_id: Annotated[Uuid, Versions(13)] = NO_UUID
    partition_responses: list[PartitionProduceResponse] = []


@api(0, versions=(3, 13), flexible=9)
class ProduceResponse(KafkaMessage):
    responses: list[TopicProduceResponse] = []
    throttle_time_ms: Int32 = 0
    node_endpoints: Annotated[list[NodeEndpoint], Versions(10, tag=0)] = []


@api(22, versions=(0, 5), flexible=2)
class InitProducerIdRequest(KafkaMessage):
    transactional_id: String | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Annotated[Int64, Versions(3)] = -1
    producer_epoch: Annotated[Int16, Versions(3)] = -1


@api(22, versions=(0, 5), flexible=2)
class InitProducerIdResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
