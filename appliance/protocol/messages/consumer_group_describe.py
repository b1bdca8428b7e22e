"""ConsumerGroupDescribe: state and members of consumer groups (KIP-848)."""

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
    int8,
    int16,
    int32,
    string,
    uuid,
)

VERSIONS = Versions(0, 1, flexible_from=0)


class ConsumerGroupDescribeRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    group_ids: list[str] = field(array(string))
    include_authorized_operations: bool = field(boolean)


class ConsumerGroupDescribeResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class TopicPartitions(Message):
        topic_id: UUID = field(uuid)
        topic_name: str = field(string)
        partitions: list[int] = field(array(int32))

    class Assignment(Message):
        topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions] = field(
            array(lambda: ConsumerGroupDescribeResponse.TopicPartitions)
        )

    class Member(Message):
        member_id: str = field(string)
        instance_id: str | None = field(string, nullable="0+", default=None)
        rack_id: str | None = field(string, nullable="0+", default=None)
        member_epoch: int = field(int32)
        client_id: str = field(string)
        client_host: str = field(string)
        subscribed_topic_names: list[str] = field(array(string))
        subscribed_topic_regex: str | None = field(string, nullable="0+", default=None)
        assignment: ConsumerGroupDescribeResponse.Assignment = field(
            lambda: ConsumerGroupDescribeResponse.Assignment
        )
        target_assignment: ConsumerGroupDescribeResponse.Assignment = field(
            lambda: ConsumerGroupDescribeResponse.Assignment
        )
        member_type: int = field(int8, "1+", default=-1)

    class DescribedGroup(Message):
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+", default=None)
        group_id: str = field(string)
        group_state: str = field(string)
        group_epoch: int = field(int32)
        assignment_epoch: int = field(int32)
        assignor_name: str = field(string)
        members: list[ConsumerGroupDescribeResponse.Member] = field(
            array(lambda: ConsumerGroupDescribeResponse.Member)
        )
        authorized_operations: int = field(int32, default=-(2**31))

    throttle_time_ms: int = field(int32)
    groups: list[DescribedGroup] = field(array(DescribedGroup))


API = Api(69, "ConsumerGroupDescribe", ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse)
