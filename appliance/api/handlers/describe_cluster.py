"""DescribeCluster 0-2: the brokers, and the cluster's id.

Rights: none; DESCRIBE on the cluster to be told what is allowed on it.

Left out: controllers as endpoints (MISMATCHED_ENDPOINT_TYPE, as a Kafka broker answers); fenced
brokers, because those that ZooKeeper has are alive.
"""

from __future__ import annotations

from appliance.api.handlers.authorized_operations import on_cluster
from appliance.api.handlers.call import Call
from appliance.broker.broker import Broker
from appliance.protocol import ErrorCode
from appliance.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)

KEY = 60
VERSIONS = (0, 2)

BROKERS, CONTROLLERS = 1, 2


def handle(broker: Broker, request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        return _wrong_endpoint(request.endpoint_type)
    answer = DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.members.controller_id,
        brokers=[
            DescribeClusterResponse.DescribeClusterBroker(*each)
            for each in broker.members.nodes(call.listener)
        ],
    )
    if request.include_cluster_authorized_operations:
        answer.cluster_authorized_operations = on_cluster(call)
    return answer


def _wrong_endpoint(endpoint_type: int) -> DescribeClusterResponse:
    is_known = endpoint_type == CONTROLLERS
    return DescribeClusterResponse(
        error_code=(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE if is_known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        ),
        error_message=f"got endpoint type {endpoint_type}, wanted {BROKERS}: this is a broker",
        endpoint_type=endpoint_type,
    )
