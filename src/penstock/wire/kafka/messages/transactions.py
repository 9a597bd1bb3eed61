"""Transactions: AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, TxnOffsetCommit."""

from typing import Annotated, ClassVar

from penstock.wire.kafka.fields import Bool, Int16, Int32, Int64, KafkaMessage, Part, String, Versions


class AddPartitionsToTxnTopic(Part):
    """The partitions to add to the transaction."""

    name: String = ""
    partitions: list[Int32] = []


class AddPartitionsToTxnRequest(KafkaMessage):
    KEY: ClassVar = 24
    VERSIONS: ClassVar = (0, 3)
    FLEXIBLE: ClassVar = 3

    v3_and_below_transactional_id: String = ""
    v3_and_below_producer_id: Int64 = 0
    v3_and_below_producer_epoch: Int16 = 0
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = []


class AddPartitionsToTxnPartitionResult(Part):
    """The results for each partition."""

    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


class AddPartitionsToTxnTopicResult(Part):
    """The results for each topic."""

    name: String = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = []


class AddPartitionsToTxnResponse(KafkaMessage):
    KEY: ClassVar = 24
    VERSIONS: ClassVar = (0, 3)
    FLEXIBLE: ClassVar = 3

    throttle_time_ms: Int32 = 0
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = []


class AddOffsetsToTxnRequest(KafkaMessage):
    KEY: ClassVar = 25
    VERSIONS: ClassVar = (0, 4)
    FLEXIBLE: ClassVar = 3

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


class AddOffsetsToTxnResponse(KafkaMessage):
    KEY: ClassVar = 25
    VERSIONS: ClassVar = (0, 4)
    FLEXIBLE: ClassVar = 3

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0


class EndTxnRequest(KafkaMessage):
    KEY: ClassVar = 26
    VERSIONS: ClassVar = (0, 5)
    FLEXIBLE: ClassVar = 3

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False


class EndTxnResponse(KafkaMessage):
    KEY: ClassVar = 26
    VERSIONS: ClassVar = (0, 5)
    FLEXIBLE: ClassVar = 3

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


class TxnOffsetCommitRequest(KafkaMessage):
    KEY: ClassVar = 28
    VERSIONS: ClassVar = (0, 5)
    FLEXIBLE: ClassVar = 3

    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Annotated[Int32, Versions(3)] = -1
    member_id: Annotated[String, Versions(3)] = ""
    group_instance_id: Annotated[String | None, Versions(3)] = None
    topics: list[TxnOffsetCommitRequestTopic] = []


class TxnOffsetCommitResponsePartition(Part):
    """The responses for each partition in the topic."""

    partition_index: Int32 = 0
    error_code: Int16 = 0


class TxnOffsetCommitResponseTopic(Part):
    """The responses for each topic."""

    name: String = ""
    partitions: list[TxnOffsetCommitResponsePartition] = []


class TxnOffsetCommitResponse(KafkaMessage):
    KEY: ClassVar = 28
    VERSIONS: ClassVar = (0, 5)
    FLEXIBLE: ClassVar = 3

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = []
