"""DescribeLogDirs: the size of each partition and the free space of each log directory."""

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
)

VERSIONS = Versions(1, 5, flexible_from=2)


class DescribeLogDirsRequest(Message):
    VERSIONS: ClassVar = VERSIONS

    class DescribableLogDirTopic(Message):
        topic: str = field(string)
        partitions: list[int] = field(array(int32))

    topics: list[DescribableLogDirTopic] | None = field(
        array(DescribableLogDirTopic), nullable="0+"
    )


class DescribeLogDirsResponse(Message):
    VERSIONS: ClassVar = VERSIONS

    class DescribeLogDirsPartition(Message):
        partition_index: int = field(int32)
        partition_size: int = field(int64)
        offset_lag: int = field(int64)
        is_future_key: bool = field(boolean)

    class DescribeLogDirsTopic(Message):
        name: str = field(string)
        partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = field(
            array(lambda: DescribeLogDirsResponse.DescribeLogDirsPartition)
        )

    class DescribeLogDirsResult(Message):
        error_code: int = field(int16)
        log_dir: str = field(string)
        topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = field(
            array(lambda: DescribeLogDirsResponse.DescribeLogDirsTopic)
        )
        total_bytes: int = field(int64, "4+", default=-1)
        usable_bytes: int = field(int64, "4+", default=-1)
        is_cordoned: bool = field(boolean, "5+")

    throttle_time_ms: int = field(int32)
    error_code: int = field(int16, "3+")
    results: list[DescribeLogDirsResult] = field(array(DescribeLogDirsResult))


API = Api(35, "DescribeLogDirs", DescribeLogDirsRequest, DescribeLogDirsResponse)
