"""DescribeCluster: the cluster, its id and its nodes, for administrators."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import (
    Api,
    Message,
    Versions,
    array,
    boolean,
    field,
    int8,
    int16,
    int32,
    string,
)

VERSIONS = Versions(0, 2, flexible_from=0)


class DescribeClusterRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    include_cluster_authorized_operations: bool = field(boolean)
    endpoint_type: int = field(int8, "1+", default=1)
    include_fenced_brokers: bool = field(boolean, "2+")


class DescribeClusterResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class DescribeClusterBroker(Message):
        broker_id: int = field(int32)
        host: str = field(string)
        port: int = field(int32)
        rack: str | None = field(string, nullable="0+", default=None)
        is_fenced: bool = field(boolean, "2+")

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    endpoint_type: int = field(int8, "1+", default=1)
    cluster_id: str = field(string)
    controller_id: int = field(int32, default=-1)
    brokers: list[DescribeClusterBroker] = field(array(DescribeClusterBroker))
    cluster_authorized_operations: int = field(int32, default=-(2**31))


API = Api(60, "DescribeCluster", DescribeClusterRequest, DescribeClusterResponse)
