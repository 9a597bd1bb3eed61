"""What this server is and speaks: ApiVersions, DescribeCluster."""

from penstock.frontends.kafka.call import Api, Call
from penstock.frontends.kafka.session import CLUSTER, NODE
from penstock.wire.kafka.codes import Code
from penstock.wire.kafka.messages.cluster import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)


def api_versions(call: Call[ApiVersionsRequest]) -> ApiVersionsResponse:
    """What is spoken here; also the answer to whoever has asked in a version that is not."""
    error = Code.UNSUPPORTED_VERSION if call.request is None else Code.NONE
    keys = [
        ApiVersion(api_key=key, min_version=api.offered[0], max_version=api.offered[1])
        for key, api in sorted(call.apis.items())
    ]
    return ApiVersionsResponse(error_code=error, api_keys=keys)


def describe_cluster(call: Call[DescribeClusterRequest]) -> DescribeClusterResponse:
    """One broker."""
    host, port = call.session.advertised
    return DescribeClusterResponse(
        cluster_id=CLUSTER,
        controller_id=NODE,
        endpoint_type=call.request.endpoint_type,
        brokers=[DescribeClusterBroker(broker_id=NODE, host=host, port=port)],
    )


APIS = (
    Api(
        request=ApiVersionsRequest,
        response=ApiVersionsResponse,
        handler=api_versions,
        unauthenticated=True,
    ),
    Api(request=DescribeClusterRequest, response=DescribeClusterResponse, handler=describe_cluster),
)
