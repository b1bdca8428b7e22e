"""StreamsGroupDescribe: state, topology and members of streams groups."""

from __future__ import annotations

from typing import ClassVar

from appliance.protocol.types import (
    Api,
    Message,
    Versions,
    array,
    boolean,
    field,
    int16,
    int32,
    int64,
    string,
    uint16,
)

VERSIONS = Versions(0, 0, flexible_from=0)


class StreamsGroupDescribeRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    group_ids: list[str] = field(array(string))
    include_authorized_operations: bool = field(boolean)


class StreamsGroupDescribeResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class KeyValue(Message):
        key: str = field(string)
        value: str = field(string)

    class TopicInfo(Message):
        name: str = field(string)
        partitions: int = field(int32)
        replication_factor: int = field(int16)
        topic_configs: list[StreamsGroupDescribeResponse.KeyValue] = field(
            array(lambda: StreamsGroupDescribeResponse.KeyValue)
        )

    class Subtopology(Message):
        subtopology_id: str = field(string)
        source_topics: list[str] = field(array(string))
        repartition_sink_topics: list[str] = field(array(string))
        state_changelog_topics: list[StreamsGroupDescribeResponse.TopicInfo] = field(
            array(lambda: StreamsGroupDescribeResponse.TopicInfo)
        )
        repartition_source_topics: list[StreamsGroupDescribeResponse.TopicInfo] = field(
            array(lambda: StreamsGroupDescribeResponse.TopicInfo)
        )

    class Topology(Message):
        epoch: int = field(int32)
        subtopologies: list[StreamsGroupDescribeResponse.Subtopology] | None = field(
            array(lambda: StreamsGroupDescribeResponse.Subtopology), nullable="0+", default=None
        )

    class Endpoint(Message):
        host: str = field(string)
        port: int = field(uint16)

    class TaskOffset(Message):
        subtopology_id: str = field(string)
        partition: int = field(int32)
        offset: int = field(int64)

    class TaskIds(Message):
        subtopology_id: str = field(string)
        partitions: list[int] = field(array(int32))

    class Assignment(Message):
        active_tasks: list[StreamsGroupDescribeResponse.TaskIds] = field(
            array(lambda: StreamsGroupDescribeResponse.TaskIds)
        )
        standby_tasks: list[StreamsGroupDescribeResponse.TaskIds] = field(
            array(lambda: StreamsGroupDescribeResponse.TaskIds)
        )
        warmup_tasks: list[StreamsGroupDescribeResponse.TaskIds] = field(
            array(lambda: StreamsGroupDescribeResponse.TaskIds)
        )

    class Member(Message):
        member_id: str = field(string)
        member_epoch: int = field(int32)
        instance_id: str | None = field(string, nullable="0+", default=None)
        rack_id: str | None = field(string, nullable="0+", default=None)
        client_id: str = field(string)
        client_host: str = field(string)
        topology_epoch: int = field(int32)
        process_id: str = field(string)
        user_endpoint: StreamsGroupDescribeResponse.Endpoint | None = field(
            lambda: StreamsGroupDescribeResponse.Endpoint, nullable="0+", default=None
        )
        client_tags: list[StreamsGroupDescribeResponse.KeyValue] = field(
            array(lambda: StreamsGroupDescribeResponse.KeyValue)
        )
        task_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = field(
            array(lambda: StreamsGroupDescribeResponse.TaskOffset)
        )
        task_end_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = field(
            array(lambda: StreamsGroupDescribeResponse.TaskOffset)
        )
        assignment: StreamsGroupDescribeResponse.Assignment = field(
            lambda: StreamsGroupDescribeResponse.Assignment
        )
        target_assignment: StreamsGroupDescribeResponse.Assignment = field(
            lambda: StreamsGroupDescribeResponse.Assignment
        )
        is_classic: bool = field(boolean)

    class DescribedGroup(Message):
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+", default=None)
        group_id: str = field(string)
        group_state: str = field(string)
        group_epoch: int = field(int32)
        assignment_epoch: int = field(int32)
        topology: StreamsGroupDescribeResponse.Topology | None = field(
            lambda: StreamsGroupDescribeResponse.Topology, nullable="0+", default=None
        )
        members: list[StreamsGroupDescribeResponse.Member] = field(
            array(lambda: StreamsGroupDescribeResponse.Member)
        )
        authorized_operations: int = field(int32, default=-(2**31))

    throttle_time_ms: int = field(int32)
    groups: list[DescribedGroup] = field(array(DescribedGroup))


API = Api(89, "StreamsGroupDescribe", StreamsGroupDescribeRequest, StreamsGroupDescribeResponse)
