"""What a server is and speaks: ApiVersions, DescribeCluster, DescribeQuorum."""

from typing import Annotated

from penstock.wire.kafka.fields import (
    NO_UUID,
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    KafkaMessage,
    Part,
    String,
    UInt16,
    Uuid,
    Versions,
    api,
)


@api(18, versions=(0, 4), flexible=3)
class ApiVersionsRequest(KafkaMessage):
    client_software_name: Annotated[String, Versions(3)] = ""
    client_software_version: Annotated[String, Versions(3)] = ""


class ApiVersion(Part):
    """The APIs supported by the broker."""

    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class SupportedFeatureKey(Part):
    """Features supported by the broker."""

    name: String = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


class FinalizedFeatureKey(Part):
    """List of cluster-wide finalized features."""

    name: String = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


@api(18, versions=(0, 4), flexible=3)
class ApiVersionsResponse(KafkaMessage):
    error_code: Int16 = 0
    api_keys: list[ApiVersion] = []
    throttle_time_ms: Annotated[Int32, Versions(1)] = 0
    supported_features: Annotated[list[SupportedFeatureKey], Versions(3, tag=0)] = []
    finalized_features_epoch: Annotated[Int64, Versions(3, tag=1)] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], Versions(3, tag=2)] = []
    zk_migration_ready: Annotated[Bool, Versions(3, tag=3)] = False


@api(60, versions=(0, 2), flexible=0)
class DescribeClusterRequest(KafkaMessage):
    include_cluster_authorized_operations: Bool = False
    endpoint_type: Annotated[Int8, Versions(1)] = 1
    include_fenced_brokers: Annotated[Bool, Versions(2)] = False


class DescribeClusterBroker(Part):
    """Each broker in the response."""

    broker_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None
    is_fenced: Annotated[Bool, Versions(2)] = False


@api(60, versions=(0, 2), flexible=0)
class DescribeClusterResponse(KafkaMessage):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Annotated[Int8, Versions(1)] = 1
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = []
    cluster_authorized_operations: Int32 = -2147483648


class DescribeQuorumPartition(Part):
    partition_index: Int32 = 0


class DescribeQuorumTopic(Part):
    topic_name: String = ""
    partitions: list[DescribeQuorumPartition] = []


@api(55, versions=(0, 2), flexible=0)
class DescribeQuorumRequest(KafkaMessage):
    topics: list[DescribeQuorumTopic] = []


class QuorumReplica(Part):
    """The current voters of the partition."""

    replica_id: Int32 = 0
    replica_directory_id: Annotated[Uuid, Versions(2)] = NO_UUID
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Annotated[Int64, Versions(1)] = -1
    last_caught_up_timestamp: Annotated[Int64, Versions(1)] = -1


class QuorumPartition(Part):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[String | None, Versions(2)] = ""
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: list[QuorumReplica] = []
    observers: list[QuorumReplica] = []


class QuorumTopic(Part):
    """The response from the describe quorum API."""

    topic_name: String = ""
    partitions: list[QuorumPartition] = []


class QuorumListener(Part):
    """The listeners of this controller."""

    name: Annotated[String, Versions(2)] = ""
    host: Annotated[String, Versions(2)] = ""
    port: Annotated[UInt16, Versions(2)] = 0


class QuorumNode(Part):
    """The nodes in the quorum."""

    node_id: Annotated[Int32, Versions(2)] = 0
    listeners: Annotated[list[QuorumListener], Versions(2)] = []


@api(55, versions=(0, 2), flexible=0)
class DescribeQuorumResponse(KafkaMessage):
    error_code: Int16 = 0
    error_message: Annotated[String | None, Versions(2)] = ""
    topics: list[QuorumTopic] = []
    nodes: Annotated[list[QuorumNode], Versions(2)] = []
