"""What this server is and speaks: ApiVersions, DescribeCluster, DescribeQuorum.

There is one broker, which has nobody to agree with.  Tools that look at Kafka's log of metadata are told of
a quorum of one that has always been led by it."""

from typing import Final

from penstock.frontends.kafka.authorized import ON_CLUSTER, authorized
from penstock.frontends.kafka.call import Api, KafkaCall
from penstock.frontends.kafka.session import NODE
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.cluster import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    FinalizedFeatureKey,
    QuorumListener,
    QuorumNode,
    QuorumPartition,
    QuorumReplica,
    QuorumTopic,
    SupportedFeatureKey,
)

# What is agreed on in a cluster of one: transactions of version 2 (KIP-890), and so from the beginning on.
FEATURE: Final = "transaction.version"
FEATURE_LEVEL: Final = 2
FEATURES_EPOCH: Final = 0
FEATURES_FROM_0_SINCE: Final = 4  # Clients of older versions cannot read a feature that may be at 0.

METADATA: Final = "__cluster_metadata"  # Kafka's log of what the brokers agree on.


def api_versions(call: KafkaCall[ApiVersionsRequest]) -> ApiVersionsResponse:
    """The supported APIs and versions; also the response to a request in an unsupported version."""
    error = Code.UNSUPPORTED_VERSION if call.request is None else Code.NONE
    keys = [
        ApiVersion(api_key=key, min_version=api.offered[0], max_version=api.offered[1])
        for key, api in sorted(call.apis.items())
    ]
    supported = [SupportedFeatureKey(FEATURE, 0, FEATURE_LEVEL)]
    return ApiVersionsResponse(
        error_code=error,
        api_keys=keys,
        supported_features=supported if call.version >= FEATURES_FROM_0_SINCE else [],
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=[FinalizedFeatureKey(FEATURE, FEATURE_LEVEL, FEATURE_LEVEL)],
    )


def describe_cluster(call: KafkaCall[DescribeClusterRequest]) -> DescribeClusterResponse:
    host, port = call.session.advertised
    return DescribeClusterResponse(
        cluster_id=call.shared.cluster_id,
        controller_id=NODE,
        endpoint_type=call.request.endpoint_type,
        brokers=[DescribeClusterBroker(broker_id=NODE, host=host, port=port)],
        cluster_authorized_operations=authorized(
            call, ON_CLUSTER, asked=call.request.include_cluster_authorized_operations
        ),
    )


def describe_quorum(call: KafkaCall[DescribeQuorumRequest]) -> DescribeQuorumResponse:
    call.operations.topics()  # Allowed for clients that may describe anything.
    host, port = call.session.advertised
    return DescribeQuorumResponse(
        error_message=None,
        topics=[
            QuorumTopic(
                topic_name=topic.topic_name,
                partitions=[
                    _quorum(call, topic.topic_name, each.partition_index) for each in topic.partitions
                ],
            )
            for topic in call.request.topics
        ],
        nodes=[QuorumNode(node_id=NODE, listeners=[QuorumListener(name="CONTROLLER", host=host, port=port)])],
    )


def _quorum(call: KafkaCall[DescribeQuorumRequest], topic: str, number: int) -> QuorumPartition:
    if topic != METADATA or number:
        code = Code.UNKNOWN_TOPIC_OR_PARTITION
        return QuorumPartition(partition_index=number, error_code=code, error_message=None, leader_id=-1)
    itself = QuorumReplica(replica_id=NODE, last_caught_up_timestamp=call.shared.clock.wall_ms())
    return QuorumPartition(error_message=None, leader_id=NODE, current_voters=[itself])


APIS = (
    Api(
        request=ApiVersionsRequest,
        response=ApiVersionsResponse,
        handler=api_versions,
        unauthenticated=True,
    ),
    Api(request=DescribeClusterRequest, response=DescribeClusterResponse, handler=describe_cluster),
    Api(request=DescribeQuorumRequest, response=DescribeQuorumResponse, handler=describe_quorum),
)
