"""StreamsGroupHeartbeat: join, stay in or leave a streams group (KIP-1071)."""

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
    int64,
    string,
    uint16,
)

VERSIONS = Versions(0, 0, flexible_from=0)


class StreamsGroupHeartbeatRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class KeyValue(Message):
        key: str = field(string)
        value: str = field(string)

    class TopicInfo(Message):
        name: str = field(string)
        partitions: int = field(int32)
        replication_factor: int = field(int16)
        topic_configs: list[StreamsGroupHeartbeatRequest.KeyValue] = field(
            array(lambda: StreamsGroupHeartbeatRequest.KeyValue)
        )

    class CopartitionGroup(Message):
        source_topics: list[int] = field(array(int16))
        source_topic_regex: list[int] = field(array(int16))
        repartition_source_topics: list[int] = field(array(int16))

    class Subtopology(Message):
        subtopology_id: str = field(string)
        source_topics: list[str] = field(array(string))
        source_topic_regex: list[str] = field(array(string))
        state_changelog_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = field(
            array(lambda: StreamsGroupHeartbeatRequest.TopicInfo)
        )
        repartition_sink_topics: list[str] = field(array(string))
        repartition_source_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = field(
            array(lambda: StreamsGroupHeartbeatRequest.TopicInfo)
        )
        copartition_groups: list[StreamsGroupHeartbeatRequest.CopartitionGroup] = field(
            array(lambda: StreamsGroupHeartbeatRequest.CopartitionGroup)
        )

    class Topology(Message):
        epoch: int = field(int32)
        subtopologies: list[StreamsGroupHeartbeatRequest.Subtopology] = field(
            array(lambda: StreamsGroupHeartbeatRequest.Subtopology)
        )

    class TaskIds(Message):
        subtopology_id: str = field(string)
        partitions: list[int] = field(array(int32))

    class Endpoint(Message):
        host: str = field(string)
        port: int = field(uint16)

    class TaskOffset(Message):
        subtopology_id: str = field(string)
        partition: int = field(int32)
        offset: int = field(int64)

    group_id: str = field(string)
    member_id: str = field(string)
    member_epoch: int = field(int32)
    endpoint_information_epoch: int = field(int32)
    instance_id: str | None = field(string, nullable="0+", default=None)
    rack_id: str | None = field(string, nullable="0+", default=None)
    rebalance_timeout_ms: int = field(int32, default=-1)
    topology: Topology | None = field(Topology, nullable="0+", default=None)
    active_tasks: list[TaskIds] | None = field(array(TaskIds), nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = field(array(TaskIds), nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = field(array(TaskIds), nullable="0+", default=None)
    process_id: str | None = field(string, nullable="0+", default=None)
    user_endpoint: Endpoint | None = field(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] | None = field(array(KeyValue), nullable="0+", default=None)
    task_offsets: list[TaskOffset] | None = field(array(TaskOffset), nullable="0+", default=None)
    task_end_offsets: list[TaskOffset] | None = field(
        array(TaskOffset), nullable="0+", default=None
    )
    shutdown_application: bool = field(boolean)


class StreamsGroupHeartbeatResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class Status(Message):
        status_code: int = field(int8)
        status_detail: str = field(string)

    class TaskIds(Message):
        subtopology_id: str = field(string)
        partitions: list[int] = field(array(int32))

    class Endpoint(Message):
        host: str = field(string)
        port: int = field(uint16)

    class TopicPartition(Message):
        topic: str = field(string)
        partitions: list[int] = field(array(int32))

    class EndpointToPartitions(Message):
        user_endpoint: StreamsGroupHeartbeatResponse.Endpoint = field(
            lambda: StreamsGroupHeartbeatResponse.Endpoint
        )
        active_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = field(
            array(lambda: StreamsGroupHeartbeatResponse.TopicPartition)
        )
        standby_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = field(
            array(lambda: StreamsGroupHeartbeatResponse.TopicPartition)
        )

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", default=None)
    member_id: str = field(string)
    member_epoch: int = field(int32)
    heartbeat_interval_ms: int = field(int32)
    acceptable_recovery_lag: int = field(int32)
    task_offset_interval_ms: int = field(int32)
    status: list[Status] | None = field(array(Status), nullable="0+")
    active_tasks: list[TaskIds] | None = field(array(TaskIds), nullable="0+", default=None)
    standby_tasks: list[TaskIds] | None = field(array(TaskIds), nullable="0+", default=None)
    warmup_tasks: list[TaskIds] | None = field(array(TaskIds), nullable="0+", default=None)
    endpoint_information_epoch: int = field(int32)
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field(
        array(EndpointToPartitions), nullable="0+", default=None
    )


API = Api(88, "StreamsGroupHeartbeat", StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse)
