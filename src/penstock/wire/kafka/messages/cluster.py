"""What a server is and speaks: ApiVersions, DescribeCluster."""

from typing import Annotated, ClassVar

from penstock.wire.kafka.fields import Bool, Int8, Int16, Int32, Int64, Message, Part, String, Versions


class ApiVersionsRequest(Message):
    """ApiVersions: what is asked."""

    KEY: ClassVar = 18
    VERSIONS: ClassVar = (0, 4)
    FLEXIBLE: ClassVar = 3

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


class ApiVersionsResponse(Message):
    """ApiVersions: what is answered."""

    KEY: ClassVar = 18
    VERSIONS: ClassVar = (0, 4)
    FLEXIBLE: ClassVar = 3

    error_code: Int16 = 0
    api_keys: list[ApiVersion] = []
    throttle_time_ms: Annotated[Int32, Versions(1)] = 0
    supported_features: Annotated[list[SupportedFeatureKey], Versions(3, tag=0)] = []
    finalized_features_epoch: Annotated[Int64, Versions(3, tag=1)] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], Versions(3, tag=2)] = []
    zk_migration_ready: Annotated[Bool, Versions(3, tag=3)] = False


class DescribeClusterRequest(Message):
    """DescribeCluster: what is asked."""

    KEY: ClassVar = 60
    VERSIONS: ClassVar = (0, 2)
    FLEXIBLE: ClassVar = 0

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


class DescribeClusterResponse(Message):
    """DescribeCluster: what is answered."""

    KEY: ClassVar = 60
    VERSIONS: ClassVar = (0, 2)
    FLEXIBLE: ClassVar = 0

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    endpoint_type: Annotated[Int8, Versions(1)] = 1
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: list[DescribeClusterBroker] = []
    cluster_authorized_operations: Int32 = -2147483648
