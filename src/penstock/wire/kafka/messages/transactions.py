"""Transactions: AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, TxnOffsetCommit."""

from typing import Annotated

from penstock.wire.kafka.fields import Bool, Int16, Int32, Int64, KafkaMessage, Part, String, Versions, api
from penstock.wire.kafka.messages.parts import NamePartitions, PartitionError


@api(24, versions=(0, 3), flexible=3)
class AddPartitionsToTxnRequest(KafkaMessage):
    v3_and_below_transactional_id: String = ""
    v3_and_below_producer_id: Int64 = 0
    v3_and_below_producer_epoch: Int16 = 0
    v3_and_below_topics: list[NamePartitions] = []


class AddPartitionsToTxnPartitionResult(Part):
    """The results for each partition."""

    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


class AddPartitionsToTxnTopicResult(Part):
    """The results for each topic."""

    name: String = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = []


@api(24, versions=(0, 3), flexible=3)
class AddPartitionsToTxnResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = []


@api(25, versions=(0, 4), flexible=3)
class AddOffsetsToTxnRequest(KafkaMessage):
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


@api(25, versions=(0, 4), flexible=3)
class AddOffsetsToTxnResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


@api(26, versions=(0, 5), flexible=3)
class EndTxnRequest(KafkaMessage):
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False


@api(26, versions=(0, 5), flexible=3)
class EndTxnResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Annotated[Int64, Versions(5)] = -1
    producer_epoch: Annotated[Int16, Versions(5)] = -1


class TxnOffsetCommitRequestPartition(Part):
    """The partitions inside the topic that we want to commit offsets for."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, Versions(2)] = -1
    committed_metadata: String | None = ""


class TxnOffsetCommitRequestTopic(Part):
    """Each topic that we want to commit offsets for."""

    name: String = ""
    partitions: list[TxnOffsetCommitRequestPartition] = []


@api(28, versions=(0, 5), flexible=3)
class TxnOffsetCommitRequest(KafkaMessage):
    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Annotated[Int32, Versions(3)] = -1
    member_id: Annotated[String, Versions(3)] = ""
    group_instance_id: Annotated[String | None, Versions(3)] = None
    topics: list[TxnOffsetCommitRequestTopic] = []


class TxnOffsetCommitResponseTopic(Part):
    """The responses for each topic."""

    name: String = ""
    partitions: list[PartitionError] = []


@api(28, versions=(0, 5), flexible=3)
class TxnOffsetCommitResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = []
