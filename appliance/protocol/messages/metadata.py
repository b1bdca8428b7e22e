"""Metadata: brokers, topics, and who leads their partitions; may create a topic."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from appliance.protocol.types import (
    Api,
    Message,
    Versions,
    array,
    boolean,
    field,
    int16,
    int32,
    string,
    uuid,
)

VERSIONS = Versions(0, 13, flexible_from=9)


class MetadataRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class MetadataRequestTopic(Message):
        topic_id: UUID = field(uuid, "10+")
        name: str | None = field(string, nullable="10+")

    topics: list[MetadataRequestTopic] | None = field(array(MetadataRequestTopic), nullable="1+")
    allow_auto_topic_creation: bool = field(boolean, "4+", default=True)
    include_cluster_authorized_operations: bool = field(boolean, "8-10")
    include_topic_authorized_operations: bool = field(boolean, "8+")


class MetadataResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class MetadataResponseBroker(Message):
        node_id: int = field(int32)
        host: str = field(string)
        port: int = field(int32)
        rack: str | None = field(string, "1+", nullable="1+", default=None)

    class MetadataResponsePartition(Message):
        error_code: int = field(int16)
        partition_index: int = field(int32)
        leader_id: int = field(int32)
        leader_epoch: int = field(int32, "7+", default=-1)
        replica_nodes: list[int] = field(array(int32))
        isr_nodes: list[int] = field(array(int32))
        offline_replicas: list[int] = field(array(int32), "5+")

    class MetadataResponseTopic(Message):
        error_code: int = field(int16)
        name: str | None = field(string, nullable="12+")
        topic_id: UUID = field(uuid, "10+")
        is_internal: bool = field(boolean, "1+")
        partitions: list[MetadataResponse.MetadataResponsePartition] = field(
            array(lambda: MetadataResponse.MetadataResponsePartition)
        )
        topic_authorized_operations: int = field(int32, "8+", default=-(2**31))

    throttle_time_ms: int = field(int32, "3+")
    brokers: list[MetadataResponseBroker] = field(array(MetadataResponseBroker))
    cluster_id: str | None = field(string, "2+", nullable="2+", default=None)
    controller_id: int = field(int32, "1+", default=-1)
    topics: list[MetadataResponseTopic] = field(array(MetadataResponseTopic))
    cluster_authorized_operations: int = field(int32, "8-10", default=-(2**31))
    error_code: int = field(int16, "13+")


API = Api(3, "Metadata", MetadataRequest, MetadataResponse)
