"""ShareGroupDescribe: state and members of share groups."""

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

VERSIONS = Versions(1, 1, flexible_from=0)


class ShareGroupDescribeRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    group_ids: list[str] = field(array(string))
    include_authorized_operations: bool = field(boolean)


class ShareGroupDescribeResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class TopicPartitions(Message):
        topic_id: UUID = field(uuid)
        topic_name: str = field(string)
        partitions: list[int] = field(array(int32))

    class Assignment(Message):
        topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions] = field(
            array(lambda: ShareGroupDescribeResponse.TopicPartitions)
        )

    class Member(Message):
        member_id: str = field(string)
        rack_id: str | None = field(string, nullable="0+", default=None)
        member_epoch: int = field(int32)
        client_id: str = field(string)
        client_host: str = field(string)
        subscribed_topic_names: list[str] = field(array(string))
        assignment: ShareGroupDescribeResponse.Assignment = field(
            lambda: ShareGroupDescribeResponse.Assignment
        )

    class DescribedGroup(Message):
        error_code: int = field(int16)
        error_message: str | None = field(string, nullable="0+", default=None)
        group_id: str = field(string)
        group_state: str = field(string)
        group_epoch: int = field(int32)
        assignment_epoch: int = field(int32)
        assignor_name: str = field(string)
        members: list[ShareGroupDescribeResponse.Member] = field(
            array(lambda: ShareGroupDescribeResponse.Member)
        )
        authorized_operations: int = field(int32, default=-(2**31))

    throttle_time_ms: int = field(int32)
    groups: list[DescribedGroup] = field(array(DescribedGroup))


API = Api(77, "ShareGroupDescribe", ShareGroupDescribeRequest, ShareGroupDescribeResponse)
