"""ShareGroupDescribe: state and members of share groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from appliance.protocol.types import (
    Api,
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


@dataclass(slots=True)
class ShareGroupDescribeRequest:
    VERSIONS: ClassVar = VERSIONS

    group_ids: list[str] = field(array(string))
    include_authorized_operations: bool = field(boolean)


@dataclass(slots=True)
class ShareGroupDescribeResponse:
    VERSIONS: ClassVar = VERSIONS

    @dataclass(slots=True)
    class TopicPartitions:
        topic_id: UUID = field(uuid)
        topic_name: str = field(string)
        partitions: list[int] = field(array(int32))

    @dataclass(slots=True)
    class Assignment:
        topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions] = field(
            array(lambda: ShareGroupDescribeResponse.TopicPartitions)
        )

    @dataclass(slots=True)
    class Member:
        member_id: str = field(string)
        rack_id: str | None = field(string, nullable="0+", default=None)
        member_epoch: int = field(int32)
        client_id: str = field(string)
        client_host: str = field(string)
        subscribed_topic_names: list[str] = field(array(string))
        assignment: ShareGroupDescribeResponse.Assignment = field(
            lambda: ShareGroupDescribeResponse.Assignment
        )

    @dataclass(slots=True)
    class DescribedGroup:
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
