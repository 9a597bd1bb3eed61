"""What this server is and speaks: ApiVersions, DescribeCluster, DescribeQuorum.

The nodes are those of the cluster; without one there is this server only.  Every node takes requests for a
controller.  Tools that ask for Kafka's metadata quorum see a quorum of one, led by the node that
they ask."""

import re
from functools import partial
from typing import Final

from penstock.frontends.kafka.authorized import ON_CLUSTER, authorized
from penstock.frontends.kafka.call import Api, KafkaCall, by_partition
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.cluster import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeQuorumPartition,
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

SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")  # A client's name and version.
NAMED_SINCE: Final = 3
BROKERS, CONTROLLERS = 1, 2  # Types of endpoints.

METADATA: Final = "__cluster_metadata"  # Kafka's log of what the brokers agree on.


def api_versions(call: KafkaCall[ApiVersionsRequest]) -> ApiVersionsResponse:
    """The supported APIs and versions; also the response to a request in an unsupported version."""
    error = Code.UNSUPPORTED_VERSION if call.request is None else Code.NONE
    if call.request is not None and call.version >= NAMED_SINCE:
        software = (call.request.client_software_name, call.request.client_software_version)
        if not all(map(SOFTWARE.fullmatch, software)):
            return ApiVersionsResponse(error_code=Code.INVALID_REQUEST)
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
    """The brokers of the cluster.  Controllers have addresses of their own in Kafka, but not here."""
    kind = call.request.endpoint_type
    if kind != BROKERS:
        known = kind == CONTROLLERS
        return DescribeClusterResponse(
            error_code=Code.MISMATCHED_ENDPOINT_TYPE if known else Code.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="This address is a broker's; ask it for brokers.",
        )
    return DescribeClusterResponse(
        cluster_id=call.shared.cluster_id,
        controller_id=call.owners.node,
        brokers=[
            DescribeClusterBroker(broker_id=node, host=host, port=port)
            for node, (host, port) in call.session.brokers.items()
        ],
        cluster_authorized_operations=authorized(
            call, ON_CLUSTER, asked=call.request.include_cluster_authorized_operations
        ),
    )


def describe_quorum(call: KafkaCall[DescribeQuorumRequest]) -> DescribeQuorumResponse:
    call.operations.topics()  # Allowed for clients that may describe anything.
    node = call.owners.node
    host, port = call.session.brokers[node]
    asked = ((topic.topic_name, topic.partitions) for topic in call.request.topics)
    return DescribeQuorumResponse(
        error_message=None,
        topics=by_partition(asked, QuorumTopic, partial(_quorum, call)),
        nodes=[QuorumNode(node_id=node, listeners=[QuorumListener(name="CONTROLLER", host=host, port=port)])],
    )


def _quorum(
    call: KafkaCall[DescribeQuorumRequest], topic: str, asked: DescribeQuorumPartition
) -> QuorumPartition:
    number = asked.partition_index
    if topic != METADATA or number:
        code = Code.UNKNOWN_TOPIC_OR_PARTITION
        return QuorumPartition(partition_index=number, error_code=code, error_message=None)
    itself = QuorumReplica(replica_id=call.owners.node, last_caught_up_timestamp=call.shared.clock.wall_ms())
    return QuorumPartition(error_message=None, leader_id=call.owners.node, current_voters=[itself])


APIS = (
    Api(ApiVersionsRequest, ApiVersionsResponse, api_versions, unauthenticated=True),
    Api(DescribeClusterRequest, DescribeClusterResponse, describe_cluster),
    Api(DescribeQuorumRequest, DescribeQuorumResponse, describe_quorum),
)
