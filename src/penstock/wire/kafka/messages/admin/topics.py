"""Creating, growing and deleting topics: CreateTopics, DeleteTopics, CreatePartitions."""

from typing import Annotated

from penstock.wire.kafka.fields import (
    NO_UUID,
    Bool,
    Int8,
    Int16,
    Int32,
    KafkaMessage,
    Part,
    String,
    Uuid,
    Versions,
    api,
)


class CreatableReplicaAssignment(Part):
    """The manual partition assignment, or the empty array if we are using automatic assignment."""

    partition_index: Int32 = 0
    broker_ids: list[Int32] = []


class CreatableTopicConfig(Part):
    """The custom topic configurations to set."""

    name: String = ""
    value: String | None = ""


class CreatableTopic(Part):
    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: list[CreatableReplicaAssignment] = []
    configs: list[CreatableTopicConfig] = []


@api(19, versions=(2, 7), flexible=5)
class CreateTopicsRequest(KafkaMessage):
    topics: list[CreatableTopic] = []
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


class CreatableTopicConfigs(Part):
    name: String = ""
    value: String | None = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False


class CreatableTopicResult(Part):
    """Results for each topic we tried to create."""

    name: String = ""
    topic_id: Annotated[Uuid, Versions(7)] = NO_UUID
    error_code: Int16 = 0
    error_message: String | None = ""
    topic_config_error_code: Annotated[Int16, Versions(5, tag=0)] = 0
    num_partitions: Annotated[Int32, Versions(5)] = -1
    replication_factor: Annotated[Int16, Versions(5)] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, Versions(5)] = []


@api(19, versions=(2, 7), flexible=5)
class CreateTopicsResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    topics: list[CreatableTopicResult] = []


class DeleteTopicState(Part):
    """The name or topic ID of the topic."""

    name: String | None = None
    topic_id: Uuid = NO_UUID


@api(20, versions=(1, 6), flexible=4)
class DeleteTopicsRequest(KafkaMessage):
    topics: Annotated[list[DeleteTopicState], Versions(6)] = []
    topic_names: Annotated[list[String], Versions(0, 5)] = []
    timeout_ms: Int32 = 0


class DeletableTopicResult(Part):
    """The results for each topic we tried to delete."""

    name: Annotated[String | None, Versions(nullable=6)] = ""
    topic_id: Annotated[Uuid, Versions(6)] = NO_UUID
    error_code: Int16 = 0
    error_message: Annotated[String | None, Versions(5)] = None


@api(20, versions=(1, 6), flexible=4)
class DeleteTopicsResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    responses: list[DeletableTopicResult] = []


class CreatePartitionsAssignment(Part):
    broker_ids: list[Int32] = []


class CreatePartitionsTopic(Part):
    """Each topic that we want to create new partitions inside."""

    name: String = ""
    count: Int32 = 0
    assignments: list[CreatePartitionsAssignment] | None = []


@api(37, versions=(0, 3), flexible=2)
class CreatePartitionsRequest(KafkaMessage):
    topics: list[CreatePartitionsTopic] = []
    timeout_ms: Int32 = 0
    validate_only: Bool = False


class CreatePartitionsTopicResult(Part):
    """The partition creation results for each topic."""

    name: String = ""
    error_code: Int16 = 0
    error_message: String | None = None


@api(37, versions=(0, 3), flexible=2)
class CreatePartitionsResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    results: list[CreatePartitionsTopicResult] = []
